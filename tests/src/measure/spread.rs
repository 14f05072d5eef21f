//! A distribution of durations.

use std::time::Duration;

use serde_json::{Value, json};

/// Durations in sorted order.
#[derive(Clone, Debug, Default)]
pub struct Spread(Vec<Duration>);

impl Spread {
    /// Returns the smallest duration that at least `share` (0 to 1) of all durations do not exceed.
    /// Zero if there are none.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Duration {
        let rank = (share * self.0.len() as f64).ceil() as usize;
        self.0.get(rank.max(1) - 1).copied().unwrap_or_default()
    }

    /// Returns the median.
    #[must_use]
    pub fn median(&self) -> Duration {
        self.quantile(0.5)
    }

    /// Returns the longest duration.
    #[must_use]
    pub fn max(&self) -> Duration {
        self.quantile(1.0)
    }

    /// Returns the shortest duration.
    #[must_use]
    pub fn min(&self) -> Duration {
        self.quantile(0.0)
    }

    /// Returns the number of durations.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if there are no durations.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns `n`, `min`, `p50`, `p90`, `p99` and `max`, in seconds.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let seconds = |share| self.quantile(share).as_secs_f64();
        json!({
            "n": self.len(), "min": seconds(0.0), "p50": seconds(0.5), "p90": seconds(0.9),
            "p99": seconds(0.99), "max": seconds(1.0),
        })
    }
}

impl FromIterator<Duration> for Spread {
    fn from_iter<I: IntoIterator<Item = Duration>>(durations: I) -> Self {
        let mut durations: Vec<_> = durations.into_iter().collect();
        durations.sort_unstable();
        Self(durations)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from_millis(milliseconds: impl IntoIterator<Item = u64>) -> Spread {
        milliseconds.into_iter().map(Duration::from_millis).collect()
    }

    #[test]
    fn quantiles_are_durations_that_were_measured() {
        let spread = from_millis((1..=100).rev());
        let quantiles = [0.0, 0.5, 0.9, 0.99, 1.0].map(|share| spread.quantile(share).as_millis());
        assert_eq!(quantiles, [1, 50, 90, 99, 100]);
        assert_eq!(from_millis([7]).median(), Duration::from_millis(7));
        assert_eq!(from_millis([]).max(), Duration::ZERO);
    }
}
