//! SIGTERM, SIGINT and SIGHUP: the first one asks, the second one insists. SIGUSR1 is ignored. Under a service manager
//! there is no terminal that could hang up: there SIGHUP asks to read lists again, as daemons are asked.

use std::io;
use std::time::Duration;

#[cfg(unix)]
use std::io::IsTerminal as _;
#[cfg(unix)]
use tenure_supervisor::is_ignored;
#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Signals that follow the first within this time mean the same.
pub(super) const REPEAT_WINDOW: Duration = Duration::from_secs(1);

/// Signals that the program handles: none of them ends the process by itself.
#[cfg(unix)]
pub(super) struct Signals(Vec<(SignalKind, Signal)>);

#[cfg(unix)]
impl Signals {
    /// Handles the signals that ask the program to end.
    ///
    /// # Errors
    ///
    /// Why they cannot be handled, for people.
    pub(super) fn new() -> Result<Self, String> {
        // Its default action ends a process. Once handled it never does again, and what is started has the default.
        let ignored = signal(SignalKind::user_defined1()).map_err(describe_error)?;
        drop(ignored);
        let kinds = [SignalKind::terminate(), SignalKind::interrupt()];
        Self::with_hangup(&kinds, !is_managed()).map_err(describe_error)
    }

    /// Handles the signal that asks to read again what may have changed. Without a service manager, there is none.
    ///
    /// # Errors
    ///
    /// Why it cannot be handled, for people.
    pub(super) fn reload() -> Result<Self, String> {
        Self::with_hangup(&[], is_managed()).map_err(describe_error)
    }

    /// Handles SIGHUP and these signals, without those that are ignored already: shells have jobs in the background of a
    /// script ignore some.
    pub(super) fn unless_ignored(kinds: &[SignalKind]) -> io::Result<Self> {
        let handled = kinds.iter().filter(|kind| is_ignored(kind.as_raw_value()) != Some(true));
        Self::all(&handled.copied().collect::<Vec<_>>())
    }

    /// Handles SIGHUP and these signals.
    pub(super) fn all(kinds: &[SignalKind]) -> io::Result<Self> {
        Self::with_hangup(kinds, true)
    }

    /// SIGHUP stays ignored if it was when the program started. What is ignored here is ignored in what is started too.
    fn with_hangup(kinds: &[SignalKind], hangup: bool) -> io::Result<Self> {
        let hangup = (hangup && handles_hangup()).then(SignalKind::hangup);
        let kinds = kinds.iter().copied().chain(hangup);
        kinds.map(|kind| Ok((kind, signal(kind)?))).collect::<io::Result<_>>().map(Self)
    }

    /// Waits for the next signal, and returns its number.
    pub(super) async fn next(&mut self) -> i32 {
        use std::task::Poll;
        let next = |context: &mut std::task::Context<'_>| {
            let received = self.0.iter_mut().find_map(|(kind, signal)| {
                signal.poll_recv(context).is_ready().then_some(kind.as_raw_value())
            });
            received.map_or(Poll::Pending, Poll::Ready)
        };
        std::future::poll_fn(next).await
    }
}

fn describe_error(error: io::Error) -> String {
    format!("signals cannot be handled: {error}")
}

/// Returns true unless SIGHUP was ignored when the program started, as `nohup` does.
#[cfg(unix)]
fn handles_hangup() -> bool {
    // Where the system does not tell: `nohup` leaves the terminal to neither of them.
    let has_terminal = || io::stdout().is_terminal() || io::stderr().is_terminal();
    let hangup = SignalKind::hangup();
    is_ignored(hangup.as_raw_value()).map_or_else(has_terminal, |is_ignored| !is_ignored)
}

/// Returns true if a service manager started this, and listens.
#[cfg(unix)]
fn is_managed() -> bool {
    std::env::var_os("NOTIFY_SOCKET").is_some_and(|socket| !socket.is_empty())
}

/// Ctrl-C, or no signal at all.
#[cfg(not(unix))]
pub(super) struct Signals {
    interrupt: bool,
}

#[cfg(not(unix))]
impl Signals {
    pub(super) fn new() -> Result<Self, String> {
        Ok(Self { interrupt: true })
    }

    pub(super) fn reload() -> Result<Self, String> {
        Ok(Self { interrupt: false })
    }

    pub(super) async fn next(&mut self) -> i32 {
        match self.interrupt {
            true if tokio::signal::ctrl_c().await.is_ok() => 0,
            _ => std::future::pending().await,
        }
    }
}
