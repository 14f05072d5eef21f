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

    pub(super) fn fate(self, way: Way) -> Fate {
        match (self, way) {
            (Self::Delay(late), Way::Request) => Fate::Late(late),
            (Self::Drop, Way::Request) | (Self::HalfOpen, Way::Answer) | (Self::BlackHole, _) => {
                Fate::Lost
            }
            (Self::Trickle(pause), Way::Answer) => Fate::Slow(pause),
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
        }
    }
}
