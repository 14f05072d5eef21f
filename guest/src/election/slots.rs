//! Slots: the scheduled instants, in the service's time. `protocol.md`, Slots.

use core::time::Duration;

use super::duration::format_duration;
use super::record::LastSlot;
use super::service_clock::{Timestamp, nanos};
use crate::prelude::*;

/// How far ahead a recorded slot may lie before it is trouble: more than the
/// readings of two candidates can differ.
const AHEAD: Duration = Duration::from_secs(10);

/// When turns are to run: every so often, aligned to 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    every: Duration,
}

/// What the schedule says at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// A slot is to be claimed.
    Now {
        /// The newest slot that is due.
        slot: Timestamp,
        /// Slots between the last claimed one and this one were missed.
        past_due: bool,
    },
    /// Nothing until the slot that begins after this long.
    In(Duration),
    /// The last claimed slot lies in the future, by this much: either the service's
    /// clock went back or somebody wrote the record.
    Ahead(Duration),
}

impl Schedule {
    /// `every` is at least a second: the service tells its time in whole seconds.
    ///
    /// # Errors
    /// What is wrong with `every`.
    pub fn every(every: Duration) -> Result<Self, &'static str> {
        const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);
        match every {
            _ if every < Duration::from_secs(1) => Err("must be at least 1s"),
            _ if every > LONGEST => Err("must be at most 366 days"),
            _ => Ok(Self { every }),
        }
    }

    /// The schedule in words: two candidates whose words differ do not belong together.
    pub fn fingerprint(&self) -> String {
        format!("every {}", format_duration(self.every))
    }

    /// The newest slot that is not later than `now`.
    pub fn newest(&self, now: Timestamp) -> Timestamp {
        Timestamp(now.0 - now.0 % nanos(self.every))
    }

    /// What is due at `now`, after the slot that was claimed last. Of several slots missed,
    /// the newest stands for all.
    pub fn due(&self, now: Timestamp, last: &LastSlot) -> Due {
        let newest = self.newest(now);
        if last.slot > now.plus(AHEAD) {
            return Due::Ahead(last.slot.since(now));
        }
        if newest > last.slot {
            let expected = self.newest(last.slot).plus(self.every);
            return Due::Now { slot: newest, past_due: newest > expected };
        }
        let next = self.newest(newest.max(last.slot)).plus(self.every);
        Due::In(next.since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(&format!("2026-11-20T{text}Z")).unwrap()
    }

    fn last(text: &str) -> LastSlot {
        LastSlot { slot: at(text), attempt: 1 }
    }

    fn seconds(every: u64) -> Schedule {
        Schedule::every(Duration::from_secs(every)).unwrap()
    }

    #[test]
    fn a_slot_is_due_from_its_instant_on_and_never_before() {
        let every = seconds(5);
        let wait = Duration::from_millis(1);
        assert_eq!(every.due(at("07:00:04.999"), &last("07:00:00")), Due::In(wait));
        let now = Due::Now { slot: at("07:00:05"), past_due: false };
        assert_eq!(every.due(at("07:00:05"), &last("07:00:00")), now);
        assert_eq!(every.due(at("07:00:09.9"), &last("07:00:00")), now);
    }

    #[test]
    fn a_claimed_slot_is_not_due_again() {
        let wait = Duration::from_secs(3);
        assert_eq!(seconds(5).due(at("07:00:07"), &last("07:00:05")), Due::In(wait));
    }

    #[test]
    fn one_turn_stands_for_all_that_were_missed() {
        let caught_up = Due::Now { slot: at("07:00:20"), past_due: true };
        assert_eq!(seconds(5).due(at("07:00:21"), &last("07:00:05")), caught_up);
    }

    #[test]
    fn slots_are_aligned_to_the_epoch_also_after_a_change_of_schedule() {
        let on_grid = Due::Now { slot: at("07:00:10"), past_due: false };
        assert_eq!(seconds(10).due(at("07:00:10.5"), &last("07:00:03")), on_grid);
    }

    #[test]
    fn a_slot_of_a_candidate_slightly_ahead_is_waited_for() {
        let wait = Duration::from_millis(5_100);
        assert_eq!(seconds(5).due(at("07:00:04.9"), &last("07:00:05")), Due::In(wait));
    }

    #[test]
    fn a_slot_far_ahead_is_told() {
        let ahead = Due::Ahead(Duration::from_secs(3600));
        assert_eq!(seconds(5).due(at("07:00:00"), &last("08:00:00")), ahead);
    }

    #[test]
    fn refuses_what_cannot_be_kept() {
        assert!(Schedule::every(Duration::from_millis(999)).is_err());
        assert!(Schedule::every(Duration::from_secs(367 * 86_400)).is_err());
    }

    #[test]
    fn fingerprints_are_the_same_for_the_same_schedule() {
        assert_eq!(seconds(90).fingerprint(), "every 1m 30s");
    }
}
