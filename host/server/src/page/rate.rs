//! The rate of requests.

use std::collections::VecDeque;
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

/// The maximum number of requests that are counted in a minute.
const MAX_REQUESTS: usize = 600;

/// Counts the requests of the last minute, up to 600.
#[derive(Debug, Default)]
pub struct Rate(VecDeque<Duration>);

impl Rate {
    /// Counts requests at the instant `now` of any clock.
    pub fn add(&mut self, now: Duration, requests: usize) {
        while self.0.front().is_some_and(|at| now.saturating_sub(*at) >= MINUTE) {
            self.0.pop_front();
        }
        for _ in 0..requests.min(MAX_REQUESTS) {
            if self.0.len() == MAX_REQUESTS {
                self.0.pop_front();
            }
            self.0.push_back(now);
        }
    }

    /// Returns the number of requests in the minute before `now`.
    pub fn per_minute(&self, now: Duration) -> usize {
        self.0.iter().filter(|at| now.saturating_sub(**at) < MINUTE).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_for_a_minute_and_not_without_end() {
        let s = Duration::from_secs;
        let mut rate = Rate::default();
        rate.add(s(20), 3);
        rate.add(s(30), 1);
        assert_eq!((rate.per_minute(s(79)), rate.per_minute(s(80))), (4, 1));
        // Older entries are dropped.
        rate.add(s(85), 1);
        assert_eq!(rate.0, [s(30), s(85)]);
        for _ in 0..3 {
            rate.add(s(90), usize::MAX);
        }
        assert_eq!((rate.per_minute(s(90)), rate.0.len()), (MAX_REQUESTS, MAX_REQUESTS));
    }
}
