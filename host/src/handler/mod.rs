//! What a leader does in its turns.

#[cfg(unix)]
mod command;
mod function;
pub(crate) mod lines;
mod secrets;
#[cfg(test)]
mod tests;
mod webhook;

pub use crate::future::{BoxError, BoxFuture};
#[cfg(unix)]
pub use command::{AttachedCommand, CommandEnd, CommandHandler, CommandSettings, NotRunnable};
pub use function::{from_blocking_fn, from_fn};
pub use lines::{LineSink, Stream};
pub use secrets::is_withheld;
pub use webhook::WebhookHandler;

use crate::lease::Lease;
use std::fmt;
use std::time::Duration;
use tenure_core::Outcome;
pub use tenure_core::Turn;

/// How long a turn may go on when the candidate leaves, unless its handler or the runner says otherwise.
pub const DEFAULT_GRACE: Duration = Duration::from_secs(1);

/// Runs the turns of a leader, one at a time.
///
/// The future that [`on_tick`](Handler::on_tick) returns is dropped when the leadership ends, when the turn exceeds
/// its time limit, and when the candidate leaves and the grace is over. Nothing of the turn may go on after that: a
/// handler that starts tasks, threads or processes of its own must order them to end in the drop of its future. What
/// has not ended by then is waited for with [`stopped`](Handler::stopped).
pub trait Handler: Send + Sync + 'static {
    /// Runs one turn. `lease` tells how long it may go on at the moment.
    fn on_tick(&self, turn: Turn, lease: Lease) -> BoxFuture<'_, TurnEnd>;

    /// Completes when nothing of any turn runs any more. Called once for each turn, when its future is gone:
    /// only after this is the turn over, so that the lease may be released. It is dropped unfinished when the runner
    /// gives up waiting, unless somebody else waits for it too ([`Runner::keeping`](crate::runner::Runner::keeping)).
    ///
    /// It is awaited in the loop that renews the lease (with an [`Elector`](crate::Elector): on the thread of
    /// all elections, not on the runtime of turns). It must neither block nor panic.
    ///
    /// Completes at once unless it is implemented. A handler that wraps another one must pass this on: otherwise the
    /// lease is released while the inner one still runs.
    fn stopped(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// How long a turn may go on when the candidate leaves or gives up its leadership, unless the runner is told
    /// otherwise ([`Runner::grace`](crate::runner::Runner::grace)). 1 s unless it is implemented.
    fn grace(&self) -> Duration {
        DEFAULT_GRACE
    }

    /// Time that a turn gets to end after its [time limit](Turn::time_limit). The turn is stopped when it is over. Zero
    /// unless it is implemented.
    fn overtime(&self) -> Duration {
        Duration::ZERO
    }
}

impl<H: Handler + ?Sized> Handler for Box<H> {
    fn on_tick(&self, turn: Turn, lease: Lease) -> BoxFuture<'_, TurnEnd> {
        (**self).on_tick(turn, lease)
    }

    fn stopped(&self) -> BoxFuture<'_, ()> {
        (**self).stopped()
    }

    fn grace(&self) -> Duration {
        (**self).grace()
    }

    fn overtime(&self) -> Duration {
        (**self).overtime()
    }
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TurnEnd {
    /// The handler returned ok.
    Succeeded,
    /// The handler returned an error; the text is for people.
    Failed(String),
    /// The handler did not come to its end: it trapped, panicked, or could not be started.
    Trapped(String),
    /// The handler was stopped at the time limit of its turn.
    TimedOut,
    /// The leadership ended before the handler did.
    CutOff,
}

/// Bytes of a handler's error that are handed on. It is for people.
const MAX_ERROR: usize = 4096;

impl TurnEnd {
    /// The handler returned an error. A text of more than 4 KiB is cut.
    pub fn failed(error: String) -> Self {
        Self::Failed(truncated(error))
    }

    /// The handler did not come to its end. A text of more than 4 KiB is cut.
    pub fn trapped(error: String) -> Self {
        Self::Trapped(truncated(error))
    }

    /// The word for the election.
    pub(crate) fn outcome(&self) -> Outcome {
        match self {
            Self::Succeeded => Outcome::Succeeded,
            Self::Failed(_) => Outcome::Failed,
            Self::Trapped(_) => Outcome::Trapped,
            Self::TimedOut => Outcome::TimedOut,
            Self::CutOff => Outcome::CutOff,
        }
    }

    /// The handler's own words, if it left any.
    pub fn detail(&self) -> Option<&str> {
        match self {
            Self::Failed(text) | Self::Trapped(text) => Some(text),
            Self::Succeeded | Self::TimedOut | Self::CutOff => None,
        }
    }
}

fn truncated(mut text: String) -> String {
    if text.len() > MAX_ERROR {
        text.truncate(text.floor_char_boundary(MAX_ERROR));
        text.push('…');
    }
    text
}

impl fmt::Display for TurnEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.outcome().name())
    }
}
