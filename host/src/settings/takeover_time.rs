//! Time until a dead leader is replaced, for logs, pages and commands.

use std::fmt;
use std::time::Duration;
use tenure_core::{Failover, format_duration};

/// Error of the service at the end of a lease (A1 of the protocol).
const EXPIRY_DELAY: Duration = Duration::from_secs(2);

/// Suggested failover time if none is set.
const ADVISED_FAILOVER: Failover = Failover { within: Duration::from_secs(3) };

/// Time until a dead leader is replaced, and the mechanism.
///
/// `Display` writes a sentence without its full stop. Example: "a machine that dies is replaced
/// within about 3s; a process that dies while its supervisor lives, at once".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TakeoverTime {
    /// Time after its newest beat at which a silent leader has certainly stopped, as on record.
    /// `None` if its lease has to expire.
    pub promise: Option<Duration>,
    /// Duration of a lease.
    pub lease: Duration,
    /// Longest interval between two polls of a follower.
    pub poll: Duration,
    /// True if the leader leaves its last will with a supervisor, as far as is known.
    pub is_supervised: bool,
    /// True if followers notice at once that the leader is gone, because it has an address.
    pub is_watched: bool,
}

impl TakeoverTime {
    /// Returns true if followers can watch that address. Other texts are only displayed.
    pub fn may_be_watched(address: &str) -> bool {
        ["http://", "https://"].iter().any(|scheme| address.starts_with(scheme))
    }

    /// Returns the approximate time after a failure of the leader's machine.
    pub fn after_machine_failure(&self) -> Duration {
        let tenths = |span: Duration| {
            Duration::from_millis(100 * u64::try_from((span.as_millis() + 50) / 100).unwrap_or(0))
        };
        let after_expiry = self.lease + EXPIRY_DELAY + self.poll;
        self.promise.map_or(after_expiry, |promise| tenths(Failover::from_promise(promise).within))
    }

    /// Returns the time in which followers notice a released lease, or `None` if they are notified.
    fn notice_interval(&self) -> Option<Duration> {
        let notice_interval = self
            .promise
            .map_or(self.poll, |promise| Failover::from_promise(promise).beat_interval());
        (!self.is_watched).then_some(notice_interval)
    }
}

impl fmt::Display for TakeoverTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let subject = if self.is_supervised { "a machine" } else { "a machine or a process" };
        let within = format_duration(self.after_machine_failure());
        match self.promise {
            Some(_) => write!(f, "{subject} that dies is replaced within about {within}")?,
            None => write!(
                f,
                "{subject} that dies is replaced when its lease expires, within about {within} (--failover {} shortens \
                 that)",
                format_duration(ADVISED_FAILOVER.within)
            )?,
        }
        if !self.is_supervised {
            return Ok(());
        }
        f.write_str("; a process that dies while its supervisor lives, ")?;
        match self.notice_interval() {
            Some(interval) => write!(f, "within {}", format_duration(interval)),
            None => f.write_str("at once"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFAULT: TakeoverTime = TakeoverTime {
        promise: None,
        lease: Duration::from_secs(15),
        poll: Duration::from_secs(4),
        is_supervised: true,
        is_watched: true,
    };

    #[test]
    fn without_failover_the_text_names_lease_expiry() {
        assert_eq!(
            DEFAULT.to_string(),
            "a machine that dies is replaced when its lease expires, within about 21s (--failover 3s shortens that); \
             a process that dies while its supervisor lives, at once"
        );
        let unwatched = TakeoverTime { is_watched: false, ..DEFAULT };
        assert!(unwatched.to_string().ends_with("its supervisor lives, within 4s"), "{unwatched}");
    }

    #[test]
    fn with_failover_the_text_names_its_bound() {
        let with_promise =
            |promise| TakeoverTime { promise: Some(Duration::from_millis(promise)), ..DEFAULT };
        assert_eq!(
            with_promise(2_100).to_string(),
            "a machine that dies is replaced within about 3s; a process that dies while its supervisor lives, at once"
        );
        // Bounds that are not whole numbers.
        assert_eq!(with_promise(863).after_machine_failure(), Duration::from_millis(1_200));
        assert_eq!(with_promise(7_000).after_machine_failure(), Duration::from_secs(10));
        let unwatched = TakeoverTime { is_watched: false, ..with_promise(2_100) };
        assert!(
            unwatched.to_string().ends_with("its supervisor lives, within 500ms"),
            "{unwatched}"
        );
    }

    #[test]
    fn without_a_supervisor_a_process_counts_as_a_machine() {
        let unsupervised = TakeoverTime { is_supervised: false, ..DEFAULT };
        assert!(
            unsupervised.to_string().starts_with("a machine or a process that dies is"),
            "{unsupervised}"
        );
        assert!(!unsupervised.to_string().contains("supervisor"), "{unsupervised}");
    }
}
