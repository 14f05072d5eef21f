//! What a proxy does to the bytes that come by.

use std::fmt;
use std::time::Duration;

/// What a proxy does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Everything is passed on.
    Pass,
    /// Requests arrive later by this much, also when nobody waits for the answer any more.
    Delay(Duration),
    /// Requests are swallowed: connections are accepted, and nothing is ever answered.
    Drop,
    /// Connections are reset, those that exist and every new one.
    Reset,
    /// No connection is accepted. Those that exist stay, and whatever they carry is swallowed.
    BlackHole,
    /// Requests arrive and are applied, their answers are swallowed.
    HalfOpen,
    /// Answers come byte by byte, with this pause after each.
    Trickle(Duration),
    /// Answers arrive later by this much.
    LateAnswers(Duration),
    /// Writes of metadata do not arrive, and are answered that the service is busy.
    RefuseMetadata,
    /// The same for reads of the plan of shares.
    RefusePlanReads,
    /// The same for signs of life of members.
    RefuseSigns,
}

/// The way that bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// To the store.
    Request,
    /// From the store.
    Answer,
}

/// What becomes of some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Pass,
    Late(Duration),
    Lost,
    Slow(Duration),
    Refused,
}

/// The start of a request that writes metadata: its first line has that in its query.
pub(crate) fn writes_metadata(bytes: &[u8]) -> bool {
    let line = bytes.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let in_query = b"comp=metadata".as_slice();
    line.starts_with(b"PUT ") && line.windows(in_query.len()).any(|part| part == in_query)
}

/// Returns true for the start of a request with this method, for a path that contains `part`.
fn is_request(bytes: &[u8], method: &[u8], part: &[u8]) -> bool {
    let line = bytes.split(|byte| matches!(byte, b'\r' | b'?')).next().unwrap_or_default();
    line.starts_with(method) && line.windows(part.len()).any(|window| window == part)
}

impl Mode {
    /// Whether nothing gets through to the candidate, or nothing from it: for how long the mode
    /// lasts, it can neither win nor hold a lease.
    #[must_use]
    pub fn cuts_off(self) -> bool {
        matches!(self, Self::Drop | Self::Reset | Self::BlackHole | Self::HalfOpen)
    }

    pub(super) fn accepts(self) -> bool {
        self != Self::BlackHole
    }

    pub(super) fn fate(self, way: Way, bytes: &[u8]) -> Fate {
        match (self, way) {
            (Self::Delay(late), Way::Request) => Fate::Late(late),
            (Self::Drop, Way::Request) | (Self::HalfOpen, Way::Answer) | (Self::BlackHole, _) => {
                Fate::Lost
            }
            (Self::Trickle(pause), Way::Answer) => Fate::Slow(pause),
            (Self::LateAnswers(late), Way::Answer) => Fate::Late(late),
            (Self::RefuseMetadata, Way::Request) if writes_metadata(bytes) => Fate::Refused,
            (Self::RefusePlanReads, Way::Request) if is_request(bytes, b"GET ", b".plan") => {
                Fate::Refused
            }
            (Self::RefuseSigns, Way::Request) if is_request(bytes, b"PUT ", b".member.") => {
                Fate::Refused
            }
            _ => Fate::Pass,
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pass => f.write_str("pass"),
            Self::Delay(late) => write!(f, "delay {late:?}"),
            Self::Drop => f.write_str("drop"),
            Self::Reset => f.write_str("reset"),
            Self::BlackHole => f.write_str("black hole"),
            Self::HalfOpen => f.write_str("half-open"),
            Self::Trickle(pause) => write!(f, "trickle {pause:?}"),
            Self::LateAnswers(late) => write!(f, "answers {late:?} late"),
            Self::RefuseMetadata => f.write_str("refuse metadata"),
            Self::RefusePlanReads => f.write_str("refuse reads of the plan"),
            Self::RefuseSigns => f.write_str("refuse signs of life"),
        }
    }
}
