//! What a runner tells its supervisor, line by line over a pipe.

use crate::log::{Format, Output, Whose};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::time::Duration;
use tenure::program::supervisor;
use tenure_core::Request;

/// One line. What it holds is secret, so that it has no `Debug`.
#[derive(Serialize, Deserialize)]
pub(super) enum Message {
    /// The first one: how the log is written.
    Log { format: Format, output: Output },
    /// Who the candidate of a number is; none: it is there no longer.
    Candidate { of: usize, whose: Option<Whose> },
    /// A last will; none: the one from before is void.
    Will { of: Of, will: Option<Will> },
    /// Asks for the end of all adopted processes. The number of the request is the answer.
    EndOrphans(u64),
    /// For the service manager, which listens to the supervisor alone.
    Notify(String),
    /// The exit code, however the runner ends: that of a command.
    Exit(u8),
}

/// What a last will is about. Wills are sent in this order: until the others have noticed that a sign is gone, the leases
/// are long released.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum Of {
    /// The sign of life that the process left for shares of that election: it is to be deleted.
    Sign(String),
    /// The lease of the candidate of that number: it is to be released.
    Candidate(usize),
}

/// A request that was made while the process lived.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Will {
    /// The term of the leadership, where a lease is released.
    pub term: Option<u64>,
    pub request: Request,
    /// Until when it can be of use, on the clock that both processes read.
    pub until: Duration,
    /// Whom to trust beside those whom the platform trusts.
    pub ca_file: Option<OsString>,
}

/// Reads a line as a message, and returns the message as a line. For fuzzing.
pub(crate) fn reread(text: &str) -> Option<String> {
    supervisor::read::<Message>(text).map(|message| supervisor::line(&message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure::program::supervisor::{line, read};

    #[test]
    fn what_is_told_is_understood() {
        let request = Request {
            method: "PUT".into(),
            url: "http://127.0.0.1/a?b\n".into(),
            headers: vec![("x-ms-lease-action".into(), "release".into())],
            body: String::new(),
            timeout: Duration::from_secs(12),
        };
        let will = Will {
            term: Some(7),
            request,
            until: Duration::new(5, 17),
            ca_file: Some("ca.pem".into()),
        };
        for told in [Some(will), None] {
            let line = line(&Message::Will { of: Of::Candidate(1), will: told.clone() });
            assert_eq!(line.lines().count(), 1, "{line}");
            let Some(Message::Will { of: Of::Candidate(1), will }) = read(line.trim_end()) else {
                panic!("{line}")
            };
            assert!(will == told, "{line}");
            assert!(read::<Message>(&line[..line.len() / 2]).is_none());
        }
    }
}
