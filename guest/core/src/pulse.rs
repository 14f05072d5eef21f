//! The beats of the leader as a follower sees them, and when it takes over from a leader whose promise ended.
//! protocol.md §13.
//!
//! A leader that beats promises to have stopped so long after its newest beat. The follower counts from when
//! it received the first answer that showed that beat: the beat was sent before. All instants here are by the
//! clock that never runs ahead.

use core::time::Duration;

use super::Moment;
use super::chance::Chance;
use super::failover::Failover;
use super::pace::RetrySchedule;
use super::record::{Beat, Record};
use super::service_clock::nanos;
use super::timings::BACK_OFF;
use crate::mutants::mutant;
use serde::{Deserialize, Serialize};
use tenure_azure::operation::{ETag, Operation};

/// The newest beat that was seen.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Pulse {
    etag: ETag,
    record: Record,
    promise: Duration,
    /// When the newest answer that showed it was received.
    confirmed_at: Moment,
    /// When to take over: once the leader has certainly stopped, and a little later by chance, so that of
    /// many followers one is first; or when a break that had no clear answer is tried again.
    takeover: RetrySchedule,
}

impl Pulse {
    /// Takes an answer that was received `now` and showed this record; `before` is what was known.
    pub fn observe(
        previous: Option<Self>,
        record: &Record,
        etag: &ETag,
        now: Moment,
        own_failover: Option<Failover>,
        chance: &mut dyn Chance,
    ) -> Option<Self> {
        let Beat { promise, .. } = record.beat?;
        // Whatever this follower would promise itself.
        let promise = match own_failover {
            Some(own_failover) if mutant!(OwnPromise) => own_failover.promise(),
            _ => promise,
        };
        let unchanged = previous.filter(|b| b.etag == *etag && b.record.is_same_beat(record));
        Some(match unchanged {
            Some(unchanged) => Self { confirmed_at: now, ..unchanged },
            None => {
                // A quarter of the time between two beats: see `Failover`.
                let spread = chance.bits() % nanos(promise / 16).max(1);
                let takeover = RetrySchedule::due_at(now + promise + Duration::from_nanos(spread));
                Self { etag: etag.clone(), record: record.clone(), promise, confirmed_at: now, takeover }
            }
        })
    }

    /// What the leader promises, by the record.
    pub fn promise(&self) -> Duration {
        self.promise
    }

    /// The break had no clear answer. Another look has to show this beat before the next try, and each try
    /// waits longer than the one before: a service that refuses breaks may go on answering looks.
    pub fn on_break_unanswered(mut self, now: Moment, chance: &mut dyn Chance) -> Self {
        self.takeover.on_failure(now, BACK_OFF, chance);
        Self { confirmed_at: Moment::ZERO, ..self }
    }

    /// When to take over without another look; none where one has to come first.
    pub fn takeover_at(&self) -> Option<Moment> {
        Some(self.takeover.next_at).filter(|end| *end < self.confirmed_until())
    }

    /// Whether to take over now. The beat was seen lately: a leader that beats is not disturbed by a follower
    /// that looks rarely.
    pub fn is_takeover_due(&self, now: Moment) -> bool {
        now >= self.takeover.next_at && now < self.confirmed_until()
    }

    fn confirmed_until(&self) -> Moment {
        self.confirmed_at + self.promise / 2
    }

    /// Ends the lease, unless the leader beat again.
    pub fn take_over(&self) -> Operation {
        let if_match = (!mutant!(BreakWithoutCondition)).then(|| self.etag.clone());
        Operation::Break { period: Some(0), if_match }
    }

    /// What the lease is acquired with then.
    pub fn into_parts(self) -> (ETag, Record) {
        (self.etag, self.record)
    }
}
