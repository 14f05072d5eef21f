//! The messages between runners and supervisors.
//!
//! Instants are those of the clock that both read ([`tenure_clock::shared`]). They say when, not how much is left: a line that
//! lay in the socket while the machine was suspended would give the work time that it does not have.

use super::connection::{to_line, from_line};
use super::tree::ProcessEnd;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::time::Duration;
use tenure_clock::shared::now;
use tenure_core::Request;

/// A report of a command's supervisor to the runner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Report {
    /// The command runs; this is the id of its process group.
    Started(i32),
    /// The command could not be started, for this reason.
    NotStarted(String),
    /// Nothing of the command runs any more. This is the last report.
    Gone(CommandExit),
}

/// The end of a command and all that it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandExit {
    /// The end of the command itself; none if it was never started.
    pub ended: Option<ProcessEnd>,
    /// True if it was asked to end, or killed, because its time was nearly over.
    pub told: bool,
    /// True if that was the turn's own time.
    pub timed_out: bool,
}

/// An order of the runner to a command's supervisor. The end of the connection, for whatever reason, is the order to kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// The leadership ends at this instant, as far as is known at the moment.
    Until(Duration),
    /// The turn's own time ends at this instant. Sent once, first of all.
    Limit(Duration),
    /// The command is sent the signal of this number.
    Signal(i32),
}

impl Order {
    /// Reads an order. A line that is none counts as an instant that is long past: the work is killed.
    pub fn from_line_or_past(line: &str) -> Self {
        from_line(line).unwrap_or(Self::Until(Duration::ZERO))
    }
}

/// A message of the runner to its own supervisor, which answers each [`EndOrphans`](Self::EndOrphans) with its number. The
/// messages hold secrets, so they have no `Debug`.
#[derive(Serialize, Deserialize)]
pub(super) enum ToSupervisor {
    /// The first message: what the program wants back when the runner has died.
    Begin(String),
    /// The candidate of this number; none: it is gone.
    Candidate { number: usize, candidate: Option<Candidate> },
    /// A last will; none: the one before it is void.
    Will { subject: WillSubject, will: Option<LastWill> },
    /// A request to end all adopted processes, with its number.
    EndOrphans(u64),
    /// For the service manager, which listens to the supervisor alone.
    Notify(String),
    /// The exit code, however the runner ends: that of a command.
    Exit(u8),
}

/// A candidate, as the supervisor knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// Its election.
    pub election: String,
    /// Its name.
    pub name: String,
}

/// The subject of a last will. Wills are sent in this order: until the others have noticed that a sign is gone, the leases
/// are long released.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum WillSubject {
    /// The sign of life that the process left for shares of that election: it is to be deleted.
    Sign(String),
    /// The lease of the candidate of that number: it is to be released.
    Lease(usize),
}

/// A request that was signed while the runner lived, to be sent when it is dead. It is secret.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastWill {
    /// The term of the leadership, where a lease is released.
    pub term: Option<u64>,
    /// The request.
    pub request: Request,
    /// Until when it can be of use, on the clock that all processes of the machine read.
    pub(super) until: Duration,
    /// A file of certificate authorities to trust beside the platform's.
    pub ca_file: Option<OsString>,
}

impl LastWill {
    /// Returns the time for which it can be of use.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.until.saturating_sub(now())
    }
}

/// Reads a line as each kind of message, and returns what was read as lines. For fuzzing.
#[must_use]
pub fn round_trips(text: &str) -> Vec<String> {
    fn round_trip<M: Serialize + for<'m> Deserialize<'m>>(text: &str) -> Option<String> {
        from_line::<M>(text).map(|message| to_line(&message))
    }
    let order = Some(to_line(&Order::from_line_or_past(text)));
    [order, round_trip::<Report>(text), round_trip::<ToSupervisor>(text)].into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_round_trip() {
        for report in [
            Report::Started(42),
            Report::NotStarted("no such\nfile".into()),
            Report::Gone(CommandExit { ended: Some(ProcessEnd::Signal(9)), told: true, timed_out: true }),
            Report::Gone(CommandExit::default()),
        ] {
            let line = to_line(&report);
            assert_eq!(line.lines().count(), 1, "{line}");
            assert_eq!(from_line(line.trim_end()), Some(report));
        }
        assert_eq!(from_line::<Report>("{}"), None);
    }

    #[test]
    fn an_invalid_order_is_a_past_deadline() {
        let at = Duration::new(5, 17);
        let never = Order::Until(Duration::MAX);
        for order in [Order::Until(at), never, Order::Limit(at), Order::Signal(15)] {
            assert_eq!(Order::from_line_or_past(to_line(&order).trim_end()), order);
        }
        for nonsense in ["soon", "17", r#"{"signal":"x"}"#, r#"{"until":17}"#] {
            assert_eq!(Order::from_line_or_past(nonsense), Order::Until(Duration::ZERO), "{nonsense}");
        }
    }

    #[test]
    fn a_will_round_trips() {
        let request = Request {
            method: "PUT".into(),
            url: "http://127.0.0.1/a?b\n".into(),
            headers: vec![("x-ms-lease-action".into(), "release".into())],
            body: String::new(),
            timeout: Duration::from_secs(12),
        };
        let will = LastWill {
            term: Some(7),
            request,
            until: Duration::new(5, 17),
            ca_file: Some("ca.pem".into()),
        };
        for expected in [Some(will), None] {
            let subject = WillSubject::Lease(1);
            let line = to_line(&ToSupervisor::Will { subject, will: expected.clone() });
            assert_eq!(line.lines().count(), 1, "{line}");
            let decoded = from_line(line.trim_end());
            let Some(ToSupervisor::Will { subject: WillSubject::Lease(1), will }) = decoded else {
                panic!("{line}")
            };
            assert!(will == expected, "{line}");
            assert!(from_line::<ToSupervisor>(&line[..line.len() / 2]).is_none());
        }
    }
}
