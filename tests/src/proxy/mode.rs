//! Effects of a proxy on the bytes that pass through it.

use std::fmt;
use std::time::Duration;

/// Mode of a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Forwards everything.
    Pass,
    /// Delays requests by this time, even if the client no longer waits for the answer.
    Delay(Duration),
    /// Swallows requests: connections are accepted, but never answered.
    Drop,
    /// Resets existing and new connections.
    Reset,
    /// Accepts no connection. Existing ones stay open, but their data is swallowed.
    BlackHole,
    /// Delivers requests, which the store applies, but swallows the answers.
    HalfOpen,
    /// Sends answers byte by byte, with this pause after each.
    Trickle(Duration),
    /// Delays answers by this time.
    LateAnswers(Duration),
    /// Answers metadata writes with "server busy" instead of forwarding them.
    RefuseMetadata,
    /// Does the same for reads of the plan of shares.
    RefusePlanReads,
    /// Does the same for signs of life of members.
    RefuseSigns,
}

/// Direction of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// To the store.
    Request,
    /// From the store.
    Answer,
}

/// Outcome for some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ByteOutcome {
    Pass,
    Delayed(Duration),
    Lost,
    Trickle(Duration),
    Refused,
}

/// Returns true for the start of a request that writes metadata, which its query shows.
pub(crate) fn writes_metadata(bytes: &[u8]) -> bool {
    let line = bytes.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let query = b"comp=metadata".as_slice();
    line.starts_with(b"PUT ") && line.windows(query.len()).any(|part| part == query)
}

/// Returns true for the start of a request with this method, for a path that contains `part`.
fn is_request(bytes: &[u8], method: &[u8], part: &[u8]) -> bool {
    let line = bytes.split(|byte| matches!(byte, b'\r' | b'?')).next().unwrap_or_default();
    line.starts_with(method) && line.windows(part.len()).any(|window| window == part)
}

impl Mode {
    /// Returns true if nothing passes to or from the candidate: in such a mode it can neither win
    /// nor hold a lease.
    #[must_use]
    pub fn cuts_off(self) -> bool {
        matches!(self, Self::Drop | Self::Reset | Self::BlackHole | Self::HalfOpen)
    }

    pub(super) fn accepts_connections(self) -> bool {
        self != Self::BlackHole
    }

    pub(super) fn outcome(self, direction: Direction, bytes: &[u8]) -> ByteOutcome {
        match (self, direction) {
            (Self::Delay(delay), Direction::Request) => ByteOutcome::Delayed(delay),
            (Self::Drop, Direction::Request)
            | (Self::HalfOpen, Direction::Answer)
            | (Self::BlackHole, _) => ByteOutcome::Lost,
            (Self::Trickle(pause), Direction::Answer) => ByteOutcome::Trickle(pause),
            (Self::LateAnswers(delay), Direction::Answer) => ByteOutcome::Delayed(delay),
            (Self::RefuseMetadata, Direction::Request) if writes_metadata(bytes) => {
                ByteOutcome::Refused
            }
            (Self::RefusePlanReads, Direction::Request) if is_request(bytes, b"GET ", b".plan") => {
                ByteOutcome::Refused
            }
            (Self::RefuseSigns, Direction::Request) if is_request(bytes, b"PUT ", b".member.") => {
                ByteOutcome::Refused
            }
            _ => ByteOutcome::Pass,
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pass => f.write_str("pass"),
            Self::Delay(delay) => write!(f, "delay {delay:?}"),
            Self::Drop => f.write_str("drop"),
            Self::Reset => f.write_str("reset"),
            Self::BlackHole => f.write_str("black hole"),
            Self::HalfOpen => f.write_str("half-open"),
            Self::Trickle(pause) => write!(f, "trickle {pause:?}"),
            Self::LateAnswers(delay) => write!(f, "answers {delay:?} late"),
            Self::RefuseMetadata => f.write_str("refuse metadata"),
            Self::RefusePlanReads => f.write_str("refuse reads of the plan"),
            Self::RefuseSigns => f.write_str("refuse signs of life"),
        }
    }
}
