//! Handlers: the work that a leader runs, and the variables that it does not inherit.

#[cfg(unix)]
mod command;
mod function;
pub(crate) mod lines;
#[cfg(test)]
mod tests;
mod webhook;

pub use crate::future::{BoxError, BoxFuture};
pub use crate::lease::TraceParent;
#[cfg(unix)]
pub use command::{AttachedCommand, CommandEnd, CommandHandler, CommandSettings, NotRunnable};
pub use function::{from_blocking_fn, from_fn};
pub use lines::{LineSink, Stream};
pub use webhook::WebhookHandler;

use crate::lease::Lease;
use std::ffi::OsStr;
use std::fmt;
use std::time::Duration;
pub use tenure_core::Turn;
use tenure_core::{Outcome, variable};

/// Default grace period of a turn when the candidate leaves.
pub const DEFAULT_GRACE: Duration = Duration::from_secs(1);

/// Runs the turns of a leader, one at a time.
///
/// The future of [`on_tick`](Handler::on_tick) is dropped when leadership ends or the turn exceeds
/// its time limit. It is also dropped when the candidate leaves and the grace period is over.
///
/// All work of the turn must then end. A handler that starts tasks, threads or processes must make
/// them stop when its future is dropped. [`stopped`](Handler::stopped) waits for the remaining
/// ones.
pub trait Handler: Send + Sync + 'static {
    /// Runs one turn. `lease` shows how long the turn may currently act.
    fn on_tick(&self, turn: Turn, lease: Lease) -> BoxFuture<'_, TurnEnd>;

    /// Waits until all work of the turn has ended.
    ///
    /// The runner calls this once for each turn, after the turn's future has ended or was dropped.
    /// The turn ends, and the lease may be released, only when this completes. A runner that gives
    /// up the wait drops this future unfinished, unless
    /// [`Runner::hold_until_stopped`](crate::runner::Runner::hold_until_stopped) is used.
    ///
    /// This runs in the loop that renews the lease, so it must neither block nor panic. With an
    /// [`Elector`](crate::Elector), that loop is on the thread of all elections, not on the runtime
    /// of turns.
    ///
    /// The default completes at once. A handler that wraps another one must forward this call.
    /// Otherwise the lease is released while the inner handler still runs.
    fn stopped(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Returns the grace period of a turn when the candidate leaves or gives up leadership. The
    /// default is 1 s. [`Runner::grace`](crate::runner::Runner::grace) overrides it.
    fn grace(&self) -> Duration {
        DEFAULT_GRACE
    }

    /// Returns the time that a turn gets to end after its [time limit](Turn::time_limit), before it
    /// is stopped. The default is zero.
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

/// End of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TurnEnd {
    /// The handler returned ok.
    Succeeded,
    /// The handler returned an error, with this text.
    Failed(String),
    /// The handler did not complete: it trapped, panicked, or could not be started.
    Trapped(String),
    /// The handler was stopped at the time limit of its turn.
    TimedOut,
    /// Leadership ended before the handler did.
    CutOff,
}

/// Maximum bytes of a handler's error text.
const MAX_ERROR: usize = 4096;

impl TurnEnd {
    /// Creates a failure from the handler's error. Cuts texts of more than 4 KiB.
    pub fn failed(error: String) -> Self {
        Self::Failed(truncated(error))
    }

    /// Creates the end of a handler that did not complete. Cuts texts of more than 4 KiB.
    pub fn trapped(error: String) -> Self {
        Self::Trapped(truncated(error))
    }

    /// Returns the outcome to report to the election.
    pub(crate) fn outcome(&self) -> Outcome {
        match self {
            Self::Succeeded => Outcome::Succeeded,
            Self::Failed(_) => Outcome::Failed,
            Self::Trapped(_) => Outcome::Trapped,
            Self::TimedOut => Outcome::TimedOut,
            Self::CutOff => Outcome::CutOff,
        }
    }

    /// Returns the handler's error text, if there is one.
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

/// Variables that may hold the secret for the storage account. Variables that identify a principal
/// are not secret, and the work may use them itself.
const SECRETS: [&str; 5] = [
    variable::CONNECTION_STRING,
    variable::KEY,
    variable::SAS_TOKEN,
    variable::AUTH_TOKEN,
    variable::CLIENT_SECRET,
];

/// Settings of this program, some of them secret. The work may run this program too.
const SETTINGS: &str = "TENURE_";

/// Variables of the service manager. A command could otherwise send notifications in the name of
/// the runner.
const SERVICE_MANAGER: [&str; 3] = ["NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC"];

/// Returns true if commands do not inherit the variable. The case of its name does not matter: some
/// programs and systems ignore it.
pub fn is_withheld(name: &OsStr) -> bool {
    let name = name.to_string_lossy().to_ascii_uppercase();
    let name = base_name(&name);
    name.starts_with(SETTINGS) || SECRETS.contains(&name) || SERVICE_MANAGER.contains(&name)
}

/// Strips the prefixes of App Service, which sets each setting a second time under such a name:
/// `APPSETTING_NAME`, `CUSTOMCONNSTR_NAME`, `SQLAZURECONNSTR_NAME` and so on.
fn base_name(mut name: &str) -> &str {
    const KIND: fn(char) -> bool = |letter| letter.is_ascii_alphabetic();
    loop {
        let after_kind = name.trim_start_matches(KIND);
        let (kind, suffix) = name.split_at(name.len() - after_kind.len());
        match suffix.strip_prefix('_') {
            Some(rest) if kind == "APPSETTING" || kind.ends_with("CONNSTR") => name = rest,
            _ => return name,
        }
    }
}
