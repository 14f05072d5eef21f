//! What the runner and the supervisor of a turn tell each other, line by line over one socket.
//!
//! The runner tells signals for the command, and instants: the end of the leadership as it is known at the moment, on
//! the clock that both read ([`crate::clock::shared`]). Not how much is left: a line that lay in the socket while the
//! machine slept would give the work time that it does not have.
//! The end of the stream, however it comes about, means: kill.

use crate::family::{self, Ended};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What the supervisor tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Report {
    /// The command runs; this is the id of its process group.
    Started(i32),
    /// It could not be started, for this reason.
    NotStarted(String),
    /// Nothing of it runs any more. The last report.
    Gone(Gone),
}

/// How it came about that nothing runs any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Gone {
    /// How the command itself ended; none when it was not started at all.
    pub ended: Option<Ended>,
    /// Whether it was told to end, or killed, because its time was nearly over.
    pub told: bool,
    /// True if that was the turn's own time.
    pub timed_out: bool,
}

/// What the runner tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Order {
    /// The leadership ends at this instant, as far as is known at the moment.
    Until(Duration),
    /// The turn's own time ends at this instant. Sent once, first of all.
    Limit(Duration),
    /// The command is sent the signal of this number.
    Signal(i32),
}

impl Order {
    /// Reads an order. A line that is none counts as an instant that is long past: the work is killed.
    pub(super) fn read(line: &str) -> Self {
        family::read(line).unwrap_or(Self::Until(Duration::ZERO))
    }
}

/// Reads a line as an order and as a report, and returns what was read as lines. For fuzzing.
#[must_use]
pub fn reread(line: &str) -> Vec<String> {
    let report = family::read::<Report>(line).map(|report| family::line(&report));
    std::iter::once(family::line(&Order::read(line))).chain(report).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::{line, read};

    #[test]
    fn what_is_told_is_understood() {
        for report in [
            Report::Started(42),
            Report::NotStarted("no such\nfile".into()),
            Report::Gone(Gone { ended: Some(Ended::Signal(9)), told: true, timed_out: true }),
            Report::Gone(Gone::default()),
        ] {
            let line = line(&report);
            assert_eq!(line.lines().count(), 1, "{line}");
            assert_eq!(read(line.trim_end()), Some(report));
        }
        assert_eq!(read::<Report>("{}"), None);
    }

    #[test]
    fn an_order_that_makes_no_sense_is_an_instant_that_is_past() {
        let at = Duration::new(5, 17);
        let never = Order::Until(Duration::MAX);
        for order in [Order::Until(at), never, Order::Limit(at), Order::Signal(15)] {
            assert_eq!(Order::read(line(&order).trim_end()), order);
        }
        for nonsense in ["soon", "17", r#"{"signal":"x"}"#, r#"{"until":17}"#] {
            assert_eq!(Order::read(nonsense), Order::Until(Duration::ZERO), "{nonsense}");
        }
    }
}
