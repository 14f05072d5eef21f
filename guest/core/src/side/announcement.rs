//! The announcement that a successor writes to a side blob for the leader, and the periods of a
//! handover, which depend on each other. protocol.md §7.2. The module also has the rules of all
//! side blobs for overwriting and time-outs.
//!
//! A leader may give its lease to an announced id while the announcement is fresh, and somewhat
//! longer. The successor polls for the lease during all that time, even if it is no longer ready or
//! no longer named.

use core::time::Duration;

use crate::mutants::mutant;
use crate::record::text::{MAX_NAME, decode_allowed, encode};
use crate::step::limits;
use crate::step::settings::timings::{SECOND, Timings};
use chrono::TimeDelta;
use tenure_azure::answer::{Answer, Properties};
use tenure_azure::blob::{LeaseId, Metadata};
use tenure_base::prelude::*;

/// Maximum age at which data that no candidate wrote is still reported.
pub(crate) const MAX_REPORTED_AGE: TimeDelta = TimeDelta::minutes(10);

/// Minimum time-out of a request about a side blob.
pub(crate) const MIN_TIMEOUT: Duration = Duration::from_millis(200);

/// Maximum time-out of a request that no other action waits for. Such a request delays the report
/// of a turn's end and an order to leave.
pub(crate) const MAX_TIMEOUT: Duration = Duration::from_secs(1);

/// The field with the name of the candidate that wrote the side blob. Blobs of other programs do
/// not have it.
pub(crate) const CANDIDATE: &str = "tenurewriter";

/// Interval at which the leader reads its successor's announcement, and at which the successor
/// polls for the lease.
pub(crate) const QUICK_POLL: Duration = Duration::from_millis(500);

/// Time for which a successor polls for the lease after its newest announcement. During that time
/// the leader may rely on the announcement, and repeat the change.
pub(crate) const SUCCESSOR_POLL_TIME: Duration = Duration::from_secs(60);

/// Interval at which a successor repeats its announcement, and polls the record to see whether the
/// leader still names it.
pub(crate) const ANNOUNCE_INTERVAL: Duration = Duration::from_secs(4);

/// Age at which an announcement is no longer fresh. The successor writes it every four seconds, and
/// both dates of the age have whole seconds. The requests in between may take
/// [`REQUEST_ALLOWANCE`], or as long as [`REQUESTS_PER_AGE`] requests.
const MAX_AGE: Duration = Duration::from_secs(9);
const REQUEST_ALLOWANCE: Duration = Duration::from_secs(3);

/// Upper bound of that age if requests take long: see [`longest_max_age`].
const MAX_MAX_AGE: Duration = Duration::from_secs(30);

/// Returns the maximum age of an announcement in the answer to a read that took `took`. Within that
/// age the successor still polls for its lease whenever the leader gives it.
///
/// These spans are subtracted from the 60 s for which the successor polls:
///
/// - 1 s, since dates have whole seconds;
/// - the duration of the read, for the way back of its answer;
/// - 2 to 8 s, in which the leader may begin to give the lease away ([`freshness`]);
/// - 21 s up to the end of the leader's last try ([`MAX_OFFER`]);
/// - 0.5 s up to the next poll of the successor.
///
/// That leaves 29.5 s or more, less the duration of the read. The longest request time-out that the
/// other periods allow is 27.75 s (60 − 2.5 − 1 = 2 × (27.75 + 0.5)), and 1.75 s are left then.
fn longest_max_age(took: Duration) -> Duration {
    let reserved = SECOND + took + freshness(took) + MAX_OFFER + QUICK_POLL;
    MAX_MAX_AGE.min(SUCCESSOR_POLL_TIME.saturating_sub(reserved))
}

/// Number of requests between two announcements, in addition to the four seconds. The successor
/// polls like any follower, and reads and writes the announcement: three requests. It polls for the
/// lease before each of them.
const REQUESTS_PER_AGE: u32 = 6;

/// Time for the work to end after the leader first read the announcement. A longer lease replaces
/// this time, so that every answer that let an application act has expired.
const WORK_END_TIME: Duration = Duration::from_secs(40);

/// Time in which the leader changes the lease after the work has ended, in addition to
/// [`SUCCESSOR_REQUESTS`].
const LEASE_CHANGE_TIME: Duration = Duration::from_secs(5);

/// Time for the successor to announce itself, in addition to its polls and [`SUCCESSOR_REQUESTS`].
const SUCCESSOR_TIME: Duration = Duration::from_secs(10);

/// Number of requests until the leader has read the announcement. The successor polls, reads the
/// side blob and writes its announcement. The leader reads it after a renewal, and perhaps after a
/// read that came too early.
const SUCCESSOR_REQUESTS: u32 = 6;

/// Returns the time for which a read of the announcement, which took `took`, allows the leader to
/// give the lease away. A renewal and the outcome of the last turn may be sent in between, and each
/// takes about as long as the read.
pub(crate) fn freshness(took: Duration) -> Duration {
    (3 * took).clamp(SHORTEST_FRESHNESS, MAX_FRESHNESS)
}

const SHORTEST_FRESHNESS: Duration = Duration::from_secs(2);
const MAX_FRESHNESS: Duration = Duration::from_secs(8);

/// Time for which the last write of the record may delay the release.
pub(crate) const LAST_WRITE: Duration = Duration::from_secs(1);

/// Maximum time of one try to change the lease to the successor, since the successor polls for a
/// limited time. A try without an answer in time may have been applied all the same.
pub(crate) const MAX_TRY: Duration = Duration::from_secs(10);

/// Maximum time from the first offer to a successor to the end of the last try.
const MAX_OFFER: Duration = LAST_WRITE.saturating_add(MAX_TRY).saturating_add(MAX_TRY);

const LEASE: &str = "tenureleaseid";
const TERM: &str = "tenureterm";

/// The announcement of a successor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Announcement {
    /// The successor's name; not unique.
    pub candidate: String,
    /// The lease id by which the successor will lead, and the term of the leader that named it.
    /// None if the announcement is withdrawn.
    pub nomination: Option<(LeaseId, u64)>,
}

impl Announcement {
    pub fn to_metadata(&self) -> Metadata {
        let mut metadata = Metadata::default();
        let mut put = |name: &str, value: String| metadata.insert(name.into(), value);
        put(CANDIDATE, encode(&self.candidate));
        if let Some((lease, term)) = self.nomination {
            put(LEASE, lease.to_string());
            put(TERM, term.to_string());
        }
        metadata
    }

    fn from_properties(properties: &Properties) -> Option<Self> {
        let field = |name| properties.metadata.get(name);
        let nomination = match (field(LEASE), field(TERM)) {
            (Some(lease), Some(term)) => Some((LeaseId::parse(lease)?, term.parse().ok()?)),
            _ => None,
        };
        let announcement =
            Self { candidate: decode_allowed(field(CANDIDATE)?, MAX_NAME)?, nomination };
        is_from_candidate(properties).then_some(announcement)
    }

    /// Returns true if these properties are those of an announcement.
    pub fn is_valid(properties: &Properties) -> bool {
        Self::from_properties(properties).is_some()
    }

    /// Returns the announcement in an answer, unless it is too old. The maximum age grows with
    /// `took`, the duration of the read.
    pub fn from_current(answer: &Answer, took: Duration) -> Option<Self> {
        let announcement = Self::from_properties(answer.properties.as_ref()?)?;
        let age = answer.date?.signed_duration_since(answer.last_modified?);
        let max_age = MAX_AGE - REQUEST_ALLOWANCE + REQUEST_ALLOWANCE.max(REQUESTS_PER_AGE * took);
        let max_age = max_age.min(longest_max_age(took));
        (age.abs().to_std().ok()? < max_age || mutant!(AnnouncementIsStale)).then_some(announcement)
    }
}

/// Returns the time for the work to end after the leader read the announcement.
pub(crate) fn work_end_time(timings: &Timings) -> Duration {
    WORK_END_TIME.max(timings.lease)
}

/// Returns the time in which the leader gives the lease away after the work has ended, if a request
/// takes `took`.
pub(crate) fn lease_change_time(took: Duration) -> Duration {
    LEASE_CHANGE_TIME + SUCCESSOR_REQUESTS * took
}

/// Returns the time in which a leader has to record the successor's name.
pub(crate) fn naming_time(timings: &Timings) -> Duration {
    2 * timings.poll + SUCCESSOR_TIME
}

/// Returns the time for a newly named successor to announce itself, if a request takes `took`. The
/// leader does not know the successor's poll interval.
pub(crate) fn successor_time(timings: &Timings, took: Duration) -> Duration {
    (*limits::POLL.end()).max(2 * timings.poll) + SUCCESSOR_TIME + SUCCESSOR_REQUESTS * took
}

/// Returns true if a candidate, of this or another version, wrote the side blob. Such a blob may be
/// overwritten.
pub(crate) fn is_from_candidate(properties: &Properties) -> bool {
    properties.content_length == 0 && properties.metadata.get(CANDIDATE).is_some()
}
