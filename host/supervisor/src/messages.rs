//! Messages between runners and supervisors.
//!
//! Instants refer to the clock that both read ([`tenure_clock::shared`]). Messages contain instants
//! instead of remaining times. A line that was in the socket while the machine was suspended would
//! otherwise grant the work too much time.

use super::connection::{from_line, to_line};
use super::tree::ProcessEnd;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::time::Duration;
use tenure_clock::shared::now;
use tenure_core::Request;

/// Report of a command's supervisor to the runner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Report {
    /// The command runs in the process group with this id.
    Started(i32),
    /// The command could not be started, for this reason.
    NotStarted(String),
    /// All processes of the command have exited. This is the last report.
    Gone(CommandExit),
}

/// End of a command and its descendants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandExit {
    /// End of the command itself. `None` if it was never started.
    pub ended: Option<ProcessEnd>,
    /// True if the command was asked to end, or killed, because it was almost out of time.
    pub stopped: bool,
    /// True if the turn's time limit was the reason.
    pub timed_out: bool,
}

/// Order of the runner to a command's supervisor. The end of the connection, for any reason, is the
/// order to kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// End of leadership, as currently known.
    Until(Duration),
    /// End of the turn's time limit. Sent once, before all other orders.
    Limit(Duration),
    /// Send the signal with this number to the command.
    Signal(i32),
}

impl Order {
    /// Parses an order. An invalid line counts as a deadline in the past, which kills the work.
    pub fn from_line_or_past(line: &str) -> Self {
        from_line(line).unwrap_or(Self::Until(Duration::ZERO))
    }
}

/// Message of the runner to its own supervisor. The supervisor answers each
/// [`EndOrphans`](Self::EndOrphans) with its number.
///
/// The messages contain secrets, so they do not implement `Debug`.
#[derive(Serialize, Deserialize)]
pub(super) enum ToSupervisor {
    /// First message: the text that the program gets back when the runner has died.
    Begin(String),
    /// A candidate and its number. `None` if it has left.
    Candidate { number: usize, candidate: Option<Candidate> },
    /// A last will. `None` revokes the will before it.
    Will { subject: WillSubject, will: Option<LastWill> },
    /// Request to end all adopted processes, with its number.
    EndOrphans(u64),
    /// Message for the service manager, which accepts messages only from the supervisor.
    Notify(String),
    /// Exit code of the program, which applies regardless of how the runner ends.
    Exit(u8),
}

/// A candidate of the runner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// Name of its election.
    pub election: String,
    /// Its name.
    pub name: String,
}

/// Subject of a last will. Wills are sent in this order. By the time other members notice that a
/// sign is gone, the leases have been released.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum WillSubject {
    /// Sign of life of the process as a member for shares of that election. The will deletes it.
    Sign(String),
    /// Lease of the candidate with that number. The will releases it.
    Lease(usize),
}

/// Request that was signed while the runner was alive, to be sent when it is dead. It is secret.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastWill {
    /// Term of the leadership, if a lease is released.
    pub term: Option<u64>,
    /// The request.
    pub request: Request,
    /// End of its usefulness, on the clock that all processes of the machine share.
    pub(super) until: Duration,
    /// File of certificate authorities that are trusted in addition to the platform's.
    pub ca_file: Option<OsString>,
}

impl LastWill {
    /// Returns the time for which the will remains useful.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.until.saturating_sub(now())
    }
}

/// Parses a line as each type of message, and returns the parsed messages as lines. For fuzzing.
#[must_use]
pub fn round_trips(text: &str) -> Vec<String> {
    fn round_trip<M: Serialize + for<'m> Deserialize<'m>>(text: &str) -> Option<String> {
        from_line::<M>(text).map(|message| to_line(&message))
    }
    let order = Some(to_line(&Order::from_line_or_past(text)));
    [order, round_trip::<Report>(text), round_trip::<ToSupervisor>(text)]
        .into_iter()
        .flatten()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_round_trip() {
        for report in [
            Report::Started(42),
            Report::NotStarted("no such\nfile".into()),
            Report::Gone(CommandExit {
                ended: Some(ProcessEnd::Signal(9)),
                stopped: true,
                timed_out: true,
            }),
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
            assert_eq!(
                Order::from_line_or_past(nonsense),
                Order::Until(Duration::ZERO),
                "{nonsense}"
            );
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
