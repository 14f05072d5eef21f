//! How long a candidate of higher priority waits that does not keep the leadership it is handed.
//! protocol.md §7.2.
//!
//! Who dies whenever it leads would be handed the lease again and again, and each time nobody leads until
//! it has run out. So a leader does not make way at once for a candidate whose last leadership was short.
//! All is read from the record, so that every leader knows it, whoever led before. Only of a candidate that
//! was given the lease and never led by it, which counts as a short leadership, the record tells nothing:
//! see [`Handed`].
//!
//! A leadership that lasted [`LED_WELL`] went well; so did one of the longest tenure, where that is
//! shorter. A candidate waits a minute after its first short one, counted from its end: about as long as a
//! crashed process takes to come back. The wait doubles with each short one in a row, up to an hour:
//! then at most a few leases in a hundred run out unused, and who was repaired still comes to lead the
//! same day without an order. One that went well ends the series. The record keeps ten leaders; where the
//! series is longer, the wait is twice as long as the candidate was out before its last leadership.

use core::time::Duration;

use super::record::Record;
use super::service_clock::Timestamp;
use serde::{Deserialize, Serialize};
use tenure_base::prelude::*;

/// A leadership of that length is not held against anybody: no process that crashes again and again,
/// with the pauses that orchestrators make, lasts so long.
const LED_WELL: Duration = Duration::from_secs(10 * 60);

const FIRST_WAIT: Duration = Duration::from_secs(60);
const LONGEST_WAIT: Duration = Duration::from_secs(60 * 60);

/// Leaderships of one candidate that were short, in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ShortLeaderships {
    /// As many as the record tells of.
    pub count: u32,
    /// Until then it is not handed the leadership.
    pub until: Timestamp,
}

/// To whom this candidate gave its lease last. Who dies before it raises its term is not on record, so the
/// one that gave it the lease, and leads again, remembers that.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Handed {
    to: String,
    /// It has the lease, and whether it came to lead is not known yet.
    given: bool,
    /// How often in a row it had the lease and did not come to lead.
    count: u32,
    /// Until then it is not handed the leadership.
    until: Timestamp,
}

impl Handed {
    /// The lease is offered to that candidate.
    pub fn offered(&mut self, to: &str) {
        if self.to != to {
            *self = Self { to: to.into(), ..Self::default() };
        }
        self.given = false;
    }

    /// The service has given it the lease.
    pub fn given(&mut self) {
        self.given = true;
    }

    /// This candidate has the lease again; `own`: nobody led since.
    pub fn has_lease(&mut self, own: bool, now: Timestamp) {
        if !own {
            *self = Self::default();
        } else if core::mem::take(&mut self.given) {
            self.count = self.count.saturating_add(1);
            self.until = now.plus(wait_after(self.count).min(LONGEST_WAIT));
        }
    }

    /// Those, and the ones that the record tells of.
    pub fn with(&self, of: &str, short: Option<ShortLeaderships>) -> Option<ShortLeaderships> {
        if self.count == 0 || self.to != of {
            return short;
        }
        let (count, until) = short.map_or((0, self.until), |short| (short.count, short.until));
        Some(ShortLeaderships {
            count: count.saturating_add(self.count),
            until: until.max(self.until),
        })
    }
}

/// How long a candidate waits after so many short leaderships in a row.
fn wait_after(count: u32) -> Duration {
    FIRST_WAIT.saturating_mul(1_u32.checked_shl(count - 1).unwrap_or(u32::MAX))
}

/// The short leaderships that end with the newest one of `candidate` before this one; none: it was
/// not short.
pub(super) fn short_leaderships(
    record: &Record,
    candidate: &str,
    max_tenure: Option<Duration>,
) -> Option<ShortLeaderships> {
    let well = max_tenure.map_or(LED_WELL, |most| most.min(LED_WELL));
    let leaders = record.history.leaders();
    let ends = core::iter::once(record.since).chain(leaders.iter().map(|leader| leader.since));
    let mut whole = leaders.len() as u64 >= record.changes.saturating_sub(1);
    let (mut count, mut last, mut before) = (0, None, None);
    for (leader, end) in leaders.iter().zip(ends).filter(|(leader, _)| leader.name == candidate) {
        if end.since(leader.since) >= well {
            whole = true;
            break;
        }
        count += 1;
        match last {
            None => last = Some((leader.since, end)),
            Some(_) => before = before.or(Some(end)),
        }
    }
    let (began, ended) = last?;
    let out = before.filter(|_| !whole).map_or(Duration::ZERO, |before| began.since(before));
    let wait = wait_after(count).max(out.saturating_mul(2)).min(LONGEST_WAIT);
    Some(ShortLeaderships { count, until: ended.plus(wait) })
}

#[cfg(test)]
mod tests {
    use super::super::history::Incumbent;
    use super::*;

    fn minute(minutes: u64) -> Timestamp {
        Timestamp(0).plus(Duration::from_secs(60 * minutes))
    }

    /// Who led from which minute on, the first one first; the last one leads.
    fn record(leaders: &[(&str, u64)]) -> Record {
        let mut record = Record::default();
        for (term, (name, since)) in (1..).zip(leaders) {
            record.enter_history();
            (record.term, record.leader, record.since) = (term, (*name).into(), minute(*since));
            record.changes += 1;
        }
        assert_eq!(record.incumbent(), Incumbent { address: None, ..record.incumbent() });
        record
    }

    fn of_high(leaders: &[(&str, u64)]) -> Option<(u32, u64)> {
        let short = short_leaderships(&record(leaders), "high", None)?;
        Some((short.count, short.until.seconds() / 60))
    }

    #[test]
    fn who_never_led_or_led_well_does_not_wait() {
        assert_eq!(of_high(&[("low", 0)]), None);
        assert_eq!(of_high(&[("high", 0), ("low", 10)]), None);
        assert_eq!(of_high(&[("high", 0), ("low", 1), ("high", 2), ("low", 60)]), None);
    }

    #[test]
    fn the_wait_doubles_with_each_short_leadership_and_one_that_went_well_ends_the_row() {
        let one = [("high", 0), ("low", 1)];
        assert_eq!(of_high(&one), Some((1, 2)));
        let two = [&one[..], &[("high", 2), ("other", 3), ("low", 100)]].concat();
        assert_eq!(of_high(&two), Some((2, 5)));
        let three = [&two[..], &[("high", 200), ("low", 201)]].concat();
        assert_eq!(of_high(&three), Some((3, 205)));
        let again =
            [&three[..], &[("high", 300), ("low", 400), ("high", 500), ("low", 501)]].concat();
        assert_eq!(of_high(&again), Some((1, 502)));
    }

    #[test]
    fn a_row_that_is_longer_than_the_record_tells_still_doubles_up_to_an_hour() {
        let (mut leaders, mut at, mut waits) = (vec![("low", 0)], 1, Vec::new());
        for _ in 0..12 {
            leaders.extend([("high", at), ("low", at + 1)]);
            let (_, until) = of_high(&leaders).unwrap();
            waits.push(until - (at + 1));
            at = until;
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60, 60, 60, 60, 60]);
    }

    #[test]
    fn one_short_leadership_is_a_minute_however_much_happened_before() {
        let mut leaders: Vec<_> = (0..20).map(|day| ("low", 1_440 * day)).collect();
        leaders.extend([("high", 30_000), ("low", 30_003)]);
        assert_eq!(of_high(&leaders), Some((1, 30_004)));
    }

    #[test]
    fn the_longest_tenure_is_no_short_leadership() {
        let record = record(&[("high", 0), ("low", 5)]);
        let five = Some(Duration::from_secs(300));
        assert_eq!(short_leaderships(&record, "high", five), None);
        assert!(short_leaderships(&record, "high", None).is_some());
    }
}
