//! Polls that hints bring forward. A hint is a message of the leader's listener: the leader may
//! have changed. protocol.md §4.5.
//!
//! Hints are untrusted, because any process at the address on record may send them. A hint only
//! brings a limited number of polls forward.

use core::time::Duration;

use crate::Moment;
use crate::mutants::mutant;
use serde::{Deserialize, Serialize};
use tenure_base::prelude::*;

/// Pauses between the polls that one hint brings forward. The first poll is sent at once, but the
/// store may show the change only later.
const PAUSES: [Duration; 4] = [
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(200),
    Duration::from_millis(400),
];

/// Maximum number of polls brought forward in a minute.
const MAX_POLLS: usize = 10;

const MINUTE: Duration = Duration::from_secs(60);

/// The hint state of a candidate.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Hints {
    /// Send times of the last minute's polls that hints brought forward, the oldest first.
    sent_at: Vec<Moment>,
    /// The polls of the newest hint that are still to come.
    series: Option<Series>,
}

/// The polls that one hint brings forward.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Series {
    /// The term that the candidate knew when the hint arrived.
    term: Option<u64>,
    polls: usize,
}

impl Hints {
    /// Accepts a hint while `term` is known. Returns true if a poll should follow at once.
    pub fn accept(&mut self, term: Option<u64>, now: Moment) -> bool {
        let allowed = self.may_poll(now);
        if allowed {
            self.series = Some(Series { term, polls: 0 });
        }
        allowed
    }

    /// Records a poll that was sent at `sent` and showed this term. Returns the time of the next
    /// poll of the series. `None` if the term changed, or if all polls of the series or of the
    /// minute are used up.
    pub fn on_poll(&mut self, sent: Moment, term: Option<u64>, now: Moment) -> Option<Moment> {
        let Series { term: term_before, polls } = self.series.take()?;
        self.sent_at.retain(|earlier| sent < *earlier + MINUTE);
        self.sent_at.push(sent);
        let next = now + *PAUSES.get(polls)?;
        let continues = term == term_before && self.may_poll(next);
        continues.then(|| {
            self.series = Some(Series { term, polls: polls + 1 });
            next
        })
    }

    /// Ends the current series.
    pub fn clear(&mut self) {
        self.series = None;
    }

    fn may_poll(&self, at: Moment) -> bool {
        let lately = self.sent_at.iter().filter(|sent| at < **sent + MINUTE).count();
        lately < MAX_POLLS || mutant!(HintsWithoutLimit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(millis: u64) -> Moment {
        Moment::from_millis(millis)
    }

    #[test]
    fn one_hint_brings_five_polls_forward_and_no_more() {
        let mut hints = Hints::default();
        assert!(hints.accept(Some(7), millis(1_000)));
        let mut at = millis(1_000);
        for pause in [50, 100, 200, 400] {
            let next = hints.on_poll(at, Some(7), at + millis(3));
            assert_eq!(next, Some(at + millis(3 + pause)));
            at += millis(3 + pause);
        }
        assert_eq!(hints.on_poll(at, Some(7), at), None);
        assert_eq!(hints.on_poll(at, Some(7), at), None, "an ordinary poll");
        assert_eq!(hints.sent_at.len(), 5);
    }

    #[test]
    fn news_ends_the_series() {
        for (before, after) in [(Some(7), Some(8)), (Some(7), None), (None, Some(1))] {
            let mut hints = Hints::default();
            assert!(hints.accept(before, millis(0)));
            assert_eq!(hints.on_poll(millis(0), after, millis(1)), None);
            assert_eq!(hints.on_poll(millis(0), before, millis(1)), None);
        }
    }

    #[test]
    fn hints_are_limited_to_ten_polls_a_minute() {
        let mut hints = Hints::default();
        let (mut polls, mut next) = (Vec::new(), None);
        for at in (0..180_000).map(millis) {
            if hints.accept(Some(7), at) || next.is_some_and(|next| next <= at) {
                polls.push(at);
                next = hints.on_poll(at, Some(7), at);
            }
            assert!(hints.sent_at.len() <= MAX_POLLS);
        }
        assert_eq!(polls.len(), 3 * MAX_POLLS);
        for minute in polls.windows(MAX_POLLS + 1) {
            assert!(minute[MAX_POLLS] >= minute[0] + MINUTE, "{minute:?}");
        }
    }

    #[test]
    fn a_series_keeps_to_the_limit_too() {
        let mut hints = Hints::default();
        for n in 0..7 {
            assert!(hints.accept(Some(7), millis(n)));
            hints.on_poll(millis(n), None, millis(n));
        }
        assert!(hints.accept(Some(7), millis(10)));
        let next = hints.on_poll(millis(10), Some(7), millis(10)).unwrap();
        let next = hints.on_poll(next, Some(7), next).unwrap();
        assert_eq!(hints.on_poll(next, Some(7), next), None, "the tenth was the last");
        assert!(!hints.accept(Some(7), millis(59_999)));
        assert!(hints.accept(Some(7), millis(60_000)));
    }
}
