//! What a candidate writes beside the blob when it announces itself to the leader, and the periods of
//! handing over, which depend on each other. protocol.md §7.2.
//!
//! A lease may be given to an announced id as long as the announcement is fresh, and somewhat longer. The
//! successor polls for it all that time, also when it was paused meanwhile or is not named any more.

use core::time::Duration;

use super::limits;
use super::side_blob_rules::{self, CANDIDATE};
use super::text::{LONGEST_NAME, encode, decode_allowed};
use super::timings::{SECOND, Timings};
use crate::mutants::mutant;
use tenure_azure::answer::{Answer, Properties};
use tenure_azure::lease_id::LeaseId;
use tenure_azure::metadata::Metadata;
use tenure_base::prelude::*;

/// How often the leader reads for an announcement of the successor that it named, and how often the
/// successor polls for its lease.
pub(super) const QUICK_POLL: Duration = Duration::from_millis(500);

/// How long after its newest announcement a successor polls for its lease: the leader may rely on
/// the announcement, and repeat the change, for that long.
pub(super) const SUCCESSOR_POLLS: Duration = Duration::from_secs(60);

/// How often a successor announces itself again, and reads who leads and whom the leader names.
pub(super) const ANNOUNCE_INTERVAL: Duration = Duration::from_secs(4);

/// The age at which an announcement is not fresh any more. It is written every four seconds, both dates
/// have whole seconds, and the requests in between may take three seconds, or what [`REQUESTS`] of them
/// take.
const MAX_AGE: Duration = Duration::from_secs(9);
const REQUEST_ALLOWANCE: Duration = Duration::from_secs(3);

/// The longest age, also where requests take long: see [`longest_here`].
const LONGEST_MAX_AGE: Duration = Duration::from_secs(30);

/// How old an announcement may be in the answer to a read that took so long: the successor still polls
/// for its lease whenever the lease is given to it.
///
/// From the 60 s for which the successor polls are taken: 1 s, since dates have whole seconds; what
/// the read `took`, for the way back of its answer; 2 to 8 s, in which the leader may begin to give the
/// lease ([`just_seen`]); 21 s up to the end of its last try ([`LONGEST_OFFER`]); and 0.5 s up to
/// the next poll of the successor. That leaves 29.5 s or more, less what the read took. The longest
/// request time-out that the other periods allow is 27.75 s (60 − 2.5 − 1 = 2 × (27.75 + 0.5)), and
/// 1.75 s are left then.
fn longest_max_age(took: Duration) -> Duration {
    let reserved = SECOND + took + freshness(took) + LONGEST_OFFER + QUICK_POLL;
    LONGEST_MAX_AGE.min(SUCCESSOR_POLLS.saturating_sub(reserved))
}

/// Where requests take long, an announcement is so many of them after the one before, beside the four
/// seconds: the successor polls as any follower, reads the announcement and writes it, which is three; it
/// polls for its lease before each of them.
const REQUESTS_PER_AGE: u32 = 6;

/// Time for the work to end after the leader first read the announcement. A longer lease replaces it, so that each
/// answer that an application got has expired.
const WORK_END_TIME: Duration = Duration::from_secs(40);

/// Time in which the leader then gives the lease away, beside the time of [`TO_COME_REQUESTS`].
const LEASE_CHANGE_TIME: Duration = Duration::from_secs(5);

/// Time for the successor to announce itself, beside its polls and [`TO_COME_REQUESTS`].
const SUCCESSOR_TIME: Duration = Duration::from_secs(10);

/// The successor polls, reads the announcement of others and writes its own. The leader reads it after a
/// renewal, and perhaps after a read that came too early.
const SUCCESSOR_REQUESTS: u32 = 6;

/// How long ago the announcement may have been read, by a read that took so long, when the lease is given.
/// A renewal and the outcome of the last turn may go out in between, and each takes about as long.
pub(super) fn freshness(took: Duration) -> Duration {
    (3 * took).clamp(SHORTEST_FRESHNESS, LONGEST_FRESHNESS)
}

const SHORTEST_FRESHNESS: Duration = Duration::from_secs(2);
const LONGEST_FRESHNESS: Duration = Duration::from_secs(8);

/// How long the last write of the record may keep the release waiting.
pub(super) const LAST_WRITE: Duration = Duration::from_secs(1);

/// The longest that one try to give the lease to a successor may take: the successor does not poll for it
/// for ever. A try that was not answered in time may have been applied all the same.
pub(super) const LONGEST_TRY: Duration = Duration::from_secs(10);

/// The longest from the first offer to a successor to the end of the last try.
const LONGEST_OFFER: Duration = LAST_WRITE.saturating_add(LONGEST_TRY).saturating_add(LONGEST_TRY);

const LEASE: &str = "tenureleaseid";
const TERM: &str = "tenureterm";

/// What a candidate says of itself when it announces itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Announcement {
    /// Its name; not unique.
    pub candidate: String,
    /// The lease id by which it will lead, and the term in which it was named as the successor. None: the announcement is
    /// withdrawn.
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
        let announcement = Self { candidate: decode_allowed(field(CANDIDATE)?, LONGEST_NAME)?, nomination };
        side_blob_rules::is_from_candidate(properties).then_some(announcement)
    }

    /// Whether a candidate wrote this, or a version that is not known.
    pub fn is_valid(properties: &Properties) -> bool {
        Self::from_properties(properties).is_some()
    }

    /// Returns the announcement in an answer, unless it is too old. It ages more slowly where requests take as long as
    /// this one.
    pub fn from_current(answer: &Answer, took: Duration) -> Option<Self> {
        let announcement = Self::from_properties(answer.properties.as_ref()?)?;
        let age = answer.date?.signed_duration_since(answer.last_modified?);
        let max_age = MAX_AGE - REQUEST_ALLOWANCE + REQUEST_ALLOWANCE.max(REQUESTS_PER_AGE * took);
        let max_age = max_age.min(longest_max_age(took));
        (age.abs().to_std().ok()? < max_age || mutant!(AnnouncementIsStale)).then_some(announcement)
    }
}

/// Returns the time for the work to end once the successor was seen.
pub(super) fn work_end_time(timings: &Timings) -> Duration {
    WORK_END_TIME.max(timings.lease)
}

/// Returns the time in which the leader gives the lease away once the work has ended, if a request `took` so long.
pub(super) fn lease_change_time(took: Duration) -> Duration {
    LEASE_CHANGE_TIME + SUCCESSOR_REQUESTS * took
}

/// Returns the time in which a leader puts the successor's name on record.
pub(super) fn naming_time(timings: &Timings) -> Duration {
    2 * timings.poll + SUCCESSOR_TIME
}

/// Returns the time for a successor to come that was just named, if a request `took` so long. The leader does not know
/// how often the successor polls.
pub(super) fn successor_time(timings: &Timings, took: Duration) -> Duration {
    (*limits::POLL.end()).max(2 * timings.poll) + SUCCESSOR_TIME + SUCCESSOR_REQUESTS * took
}
