//! How soon somebody else leads when a leader dies, in the words of logs, pages and commands.

use std::fmt;
use std::time::Duration;
use tenure_core::{Failover, format_duration};

/// How far the service may be off with the end of a lease (A1 of the protocol).
const LATE: Duration = Duration::from_secs(2);

/// What is asked for where nothing sooner than the end of the lease is set.
const ADVISED: Failover = Failover { within: Duration::from_secs(3) };

/// How soon a leader that dies is replaced, and by what. `Display` is a sentence without its full stop, as in "a
/// machine that dies is replaced within about 3s; a process that dies while its supervisor lives, at once".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replacement {
    /// What the leader promises on record: to have stopped so long after its newest beat. None: its lease
    /// has to run out.
    pub promise: Option<Duration>,
    /// How long a lease lasts.
    pub lease: Duration,
    /// The longest that a follower waits between two polls.
    pub poll: Duration,
    /// Whether the leader leaves its last will with a supervisor, as far as is known.
    pub supervised: bool,
    /// Whether followers hear at once that the leader is gone: it has an address.
    pub watched: bool,
}

impl Replacement {
    /// Whether followers can listen at that address; any other text is only shown.
    pub fn may_be_watched(address: &str) -> bool {
        ["http://", "https://"].iter().any(|scheme| address.starts_with(scheme))
    }

    /// How long it takes about, when the machine of the leader dies.
    pub fn machine(&self) -> Duration {
        let tenths = |span: Duration| {
            Duration::from_millis(100 * u64::try_from((span.as_millis() + 50) / 100).unwrap_or(0))
        };
        let by_lease = self.lease + LATE + self.poll;
        self.promise.map_or(by_lease, |promise| tenths(Failover::of_promise(promise).within))
    }

    /// How long followers take to see that the lease was released; none: they hear of it.
    fn look(&self) -> Option<Duration> {
        let look = self.promise.map_or(self.poll, |promise| Failover::of_promise(promise).beat());
        (!self.watched).then_some(look)
    }
}

impl fmt::Display for Replacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let who = if self.supervised { "a machine" } else { "a machine or a process" };
        let within = format_duration(self.machine());
        match self.promise {
            Some(_) => write!(f, "{who} that dies is replaced within about {within}")?,
            None => write!(
                f,
                "{who} that dies is replaced when its lease expires, within about {within} (--failover {} shortens \
                 that)",
                format_duration(ADVISED.within)
            )?,
        }
        if !self.supervised {
            return Ok(());
        }
        f.write_str("; a process that dies while its supervisor lives, ")?;
        match self.look() {
            Some(look) => write!(f, "within {}", format_duration(look)),
            None => f.write_str("at once"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFAULT: Replacement = Replacement {
        promise: None,
        lease: Duration::from_secs(15),
        poll: Duration::from_secs(4),
        supervised: true,
        watched: true,
    };

    #[test]
    fn the_end_of_the_lease_is_told_with_what_is_faster() {
        assert_eq!(
            DEFAULT.to_string(),
            "a machine that dies is replaced when its lease expires, within about 21s (--failover 3s shortens that); \
             a process that dies while its supervisor lives, at once"
        );
        let unwatched = Replacement { watched: false, ..DEFAULT };
        assert!(unwatched.to_string().ends_with("its supervisor lives, within 4s"), "{unwatched}");
    }

    #[test]
    fn a_promise_is_told_by_the_bound_that_it_is_for() {
        let with =
            |promise| Replacement { promise: Some(Duration::from_millis(promise)), ..DEFAULT };
        assert_eq!(
            with(2_100).to_string(),
            "a machine that dies is replaced within about 3s; a process that dies while its supervisor lives, at once"
        );
        // Of bounds that are no whole number of anything.
        assert_eq!(with(863).machine(), Duration::from_millis(1_200));
        assert_eq!(with(7_000).machine(), Duration::from_secs(10));
        let unwatched = Replacement { watched: false, ..with(2_100) };
        assert!(
            unwatched.to_string().ends_with("its supervisor lives, within 500ms"),
            "{unwatched}"
        );
    }

    #[test]
    fn without_a_supervisor_a_process_is_as_a_machine() {
        let alone = Replacement { supervised: false, ..DEFAULT };
        assert!(alone.to_string().starts_with("a machine or a process that dies is"), "{alone}");
        assert!(!alone.to_string().contains("supervisor"), "{alone}");
    }
}
