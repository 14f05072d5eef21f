//! Rules for the small blobs next to an election's: overwriting, and time-outs.

use core::time::Duration;

use chrono::TimeDelta;

use tenure_azure::answer::Properties;

/// Maximum age at which data that no candidate wrote is still reported.
pub(crate) const RECENT: TimeDelta = TimeDelta::minutes(10);

/// Minimum time-out of a request.
pub(crate) const LEAST_TIMEOUT: Duration = Duration::from_millis(200);

/// Maximum time-out of a request that nothing waits for: it delays the end of a turn and an order
/// to leave.
pub(crate) const LONGEST_TIMEOUT: Duration = Duration::from_secs(1);

/// The name of the candidate that wrote the blob. No other blob has this field.
pub(crate) const CANDIDATE: &str = "tenurewriter";

/// Returns true if a candidate, of this or another version, wrote the blob. Such a blob may be
/// overwritten.
pub(crate) fn is_from_candidate(properties: &Properties) -> bool {
    properties.content_length == 0 && properties.metadata.get(CANDIDATE).is_some()
}
