//! The leader's beats as a follower observes them, and the takeover after a promise ended.
//! protocol.md §13.
//!
//! A leader that beats promises to have stopped a given time after its newest beat. The follower
//! counts from the receipt of the first answer that showed that beat: the beat was sent before. All
//! instants here follow the clock that never runs ahead.

use core::time::Duration;

use crate::Moment;
use crate::mutants::mutant;
use crate::record::metadata::{Beat, Record};
use crate::step::clocks::nanos;
use crate::step::pace::{Chance, Failover, RetrySchedule};
use crate::step::settings::timings::BACK_OFF;
use serde::{Deserialize, Serialize};
use tenure_azure::operation::{ETag, Operation};

/// The newest observed beat.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Pulse {
    etag: ETag,
    record: Record,
    promise: Duration,
    /// Receipt of the newest answer that showed it.
    confirmed_at: Moment,
    /// Time of the takeover: after the leader has certainly stopped, plus a random delay, so that
    /// one of many followers is first. Also the time of the retry of a break without a clear
    /// answer.
    takeover: RetrySchedule,
}

impl Pulse {
    /// Handles an answer that was received at `now` and showed this record; `previous` is the
    /// former state.
    pub fn observe(
        previous: Option<Self>,
        record: &Record,
        etag: &ETag,
        now: Moment,
        own_failover: Option<Failover>,
        chance: &mut dyn Chance,
    ) -> Option<Self> {
        let Beat { promise, .. } = record.beat?;
        // This follower's own promise does not matter.
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
                Self {
                    etag: etag.clone(),
                    record: record.clone(),
                    promise,
                    confirmed_at: now,
                    takeover,
                }
            }
        })
    }

    /// Returns the promise of the leader on record.
    pub fn promise(&self) -> Duration {
        self.promise
    }

    /// Handles a break without a clear answer. Another poll has to show this beat before the next
    /// try. Each try waits longer than the one before: a service that refuses breaks may continue
    /// to answer polls.
    pub fn on_break_unanswered(mut self, now: Moment, chance: &mut dyn Chance) -> Self {
        self.takeover.on_failure(now, BACK_OFF, chance);
        Self { confirmed_at: Moment::ZERO, ..self }
    }

    /// Returns the time to take over without another poll. None if a poll has to come first.
    pub fn takeover_at(&self) -> Option<Moment> {
        Some(self.takeover.next_at).filter(|end| *end < self.confirmed_until())
    }

    /// Returns true if the takeover is due and the beat was confirmed recently. So a follower that
    /// polls rarely does not disturb a leader that beats.
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

    /// Returns the tag and the record for the acquire that follows.
    pub fn into_parts(self) -> (ETag, Record) {
        (self.etag, self.record)
    }
}
