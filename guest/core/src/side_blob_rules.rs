//! Rules for the small blobs beside an election's: who may write over them, and how long a request about one takes.

use core::time::Duration;

use chrono::TimeDelta;

use tenure_azure::answer::Properties;

/// Data that no candidate wrote is reported while it is younger than this.
pub(super) const RECENT: TimeDelta = TimeDelta::minutes(10);

/// The shortest time-out with which a request is sent.
pub(super) const LEAST_TIMEOUT: Duration = Duration::from_millis(200);

/// The longest time-out of a request that nothing waits for: the end of a turn and an order to leave are delayed by it.
pub(super) const LONGEST_TIMEOUT: Duration = Duration::from_secs(1);

/// The name of the candidate that wrote the blob. No other blob has this field.
pub(super) const CANDIDATE: &str = "tenurewriter";

/// Returns true if a candidate, of this or another version, wrote the blob. Such a blob may be written over.
pub(super) fn is_from_candidate(properties: &Properties) -> bool {
    properties.content_length == 0 && properties.metadata.get(CANDIDATE).is_some()
}
