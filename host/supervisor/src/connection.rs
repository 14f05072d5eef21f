//! Socket between a runner and a supervisor, and the messages on it: lines of JSON.
//!
//! Instants refer to the clock that both read ([`tenure_clock::shared`]). Messages contain instants
//! instead of remaining times. A line that was in the socket while the machine was suspended would
//! otherwise grant the work too much time.
//!
//! A child process gets its end of the socket as standard input, because it could inherit another
//! descriptor only with unsafe code. The real standard input can be sent over the socket.

use super::tree::ProcessEnd;
use rustix::cmsg_space;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;
use tenure_clock::shared::now;
use tenure_core::Request;

/// Creates a socket pair: this process's end, and the end for the standard input of a child. With
/// `stdin`, the child can [receive](inherited_with_stdin) the standard input of this process.
pub(super) fn pair(stdin: bool) -> io::Result<(UnixStream, Stdio)> {
    let (ours, theirs) = UnixStream::pair()?;
    if stdin {
        send_stdin(&ours)?;
    }
    ours.set_nonblocking(true)?;
    Ok((ours, OwnedFd::from(theirs).into()))
}

/// Returns the socket that is the standard input of this process.
pub(super) fn inherited_socket() -> io::Result<UnixStream> {
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Returns the socket that is the standard input of this process, and the standard input that was
/// sent over it.
pub(super) fn inherited_with_stdin() -> io::Result<(UnixStream, OwnedFd)> {
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let stdin = receive_stdin(&socket)?;
    socket.set_nonblocking(true)?;
    Ok((socket, stdin))
}

fn send_stdin(to: &UnixStream) -> io::Result<()> {
    let stdin = io::stdin();
    let descriptors = [stdin.as_fd()];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut message = SendAncillaryBuffer::new(&mut space);
    message.push(SendAncillaryMessage::ScmRights(&descriptors));
    // A descriptor must be sent with at least one byte.
    sendmsg(to, &[IoSlice::new(b"\n")], &mut message, SendFlags::empty())?;
    Ok(())
}

fn receive_stdin(from: &UnixStream) -> io::Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut message = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    recvmsg(from, &mut [IoSliceMut::new(&mut byte)], &mut message, RecvFlags::empty())?;
    let received = message.drain().find_map(|received| match received {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    let stdin = received.ok_or_else(|| io::Error::other("no standard input was sent"))?;
    // Children must get it only as their standard input, so this descriptor closes on exec.
    rustix::io::fcntl_setfd(&stdin, rustix::io::FdFlags::CLOEXEC)?;
    Ok(stdin)
}

/// Formats a message as a line, including the line end.
pub fn to_line(message: &impl Serialize) -> String {
    let mut line = serde_json::to_string(message).unwrap_or_default();
    line.push('\n');
    line
}

/// Parses a message. Returns `None` for an invalid line: the sender may have died while writing.
pub fn from_line<M: DeserializeOwned>(line: &str) -> Option<M> {
    serde_json::from_str(line).ok()
}

/// Returns the file that this process runs, even if it was replaced since.
///
/// # Errors
///
/// Fails if the system does not provide it.
pub(super) fn this_program() -> io::Result<PathBuf> {
    if cfg!(target_os = "linux") { Ok("/proc/self/exe".into()) } else { std::env::current_exe() }
}

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
    /// First message: a text that the supervisor's program gets back when the runner has died.
    Begin(String),
    /// A candidate and its number. `None` if it has left.
    Candidate { number: usize, candidate: Option<Candidate> },
    /// A last will. `None` revokes the previous will of the same subject.
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
    /// Name of the candidate's election.
    pub election: String,
    /// Name of the candidate.
    pub name: String,
}

/// Subject of a last will. Wills are sent in the order of these variants. By the time other members
/// notice that a sign was deleted, the leases have been released.
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
    /// Instant from which the request is useless, on the clock that all processes of the machine
    /// share.
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

/// Parses a line as each type of message, and returns the parsed messages as lines.
#[cfg(feature = "fuzzing")]
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
mod message_tests {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standard_input_is_handed_over() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        send_stdin(&ours).unwrap();
        let received = receive_stdin(&theirs).unwrap();
        let file_id = |file: std::os::fd::BorrowedFd<'_>| {
            let stat = rustix::fs::fstat(file).unwrap();
            (stat.st_dev, stat.st_ino)
        };
        assert_eq!(file_id(received.as_fd()), file_id(io::stdin().as_fd()));
    }
}
