//! SIGTERM, SIGINT and SIGHUP: the first signal requests a graceful shutdown, a second one an
//! immediate exit. SIGUSR1 is ignored. Under a service manager, SIGHUP instead reloads the lists of
//! elections (`--for-each-file`), as is usual for daemons without a terminal.

use std::io;
use std::time::Duration;

#[cfg(unix)]
use std::io::IsTerminal as _;
#[cfg(unix)]
use tenure_supervisor::is_ignored;
#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Signals within this time after the first one count as repetitions of it.
pub(super) const REPEAT_WINDOW: Duration = Duration::from_secs(1);

/// Signals that the program handles: none of them ends the process by itself.
#[cfg(unix)]
pub(super) struct Signals(Vec<(SignalKind, Signal)>);

#[cfg(unix)]
impl Signals {
    /// Handles the signals that request the end of the program.
    ///
    /// # Errors
    ///
    /// Returns the reason if they cannot be handled, for a message.
    pub(super) fn new() -> Result<Self, String> {
        // The default action of SIGUSR1 would end the process. Handling the signal once disables
        // that action, and child processes still inherit the default.
        let ignored = signal(SignalKind::user_defined1()).map_err(describe_error)?;
        drop(ignored);
        let kinds = [SignalKind::terminate(), SignalKind::interrupt()];
        Self::with_hangup(&kinds, !is_managed()).map_err(describe_error)
    }

    /// Handles the signal that reloads the lists. Without a service manager, no signal does.
    ///
    /// # Errors
    ///
    /// Returns the reason if it cannot be handled, for a message.
    pub(super) fn reload() -> Result<Self, String> {
        Self::with_hangup(&[], is_managed()).map_err(describe_error)
    }

    /// Handles SIGHUP and these signals, except those that are already ignored. Shells ignore some
    /// for the background jobs of a script.
    pub(super) fn unless_ignored(kinds: &[SignalKind]) -> io::Result<Self> {
        let handled = kinds.iter().filter(|kind| is_ignored(kind.as_raw_value()) != Some(true));
        Self::all(&handled.copied().collect::<Vec<_>>())
    }

    /// Handles SIGHUP and these signals.
    pub(super) fn all(kinds: &[SignalKind]) -> io::Result<Self> {
        Self::with_hangup(kinds, true)
    }

    /// Handles `kinds`, and SIGHUP if `hangup` is true. A SIGHUP that was ignored at the start
    /// stays ignored, as `nohup` expects.
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

/// Returns true unless the parent process ignored SIGHUP, as `nohup` does.
#[cfg(unix)]
fn handles_hangup() -> bool {
    // If the system does not report ignored signals, a process without a terminal counts as started
    // by `nohup`, which redirects both streams.
    let has_terminal = || io::stdout().is_terminal() || io::stderr().is_terminal();
    let hangup = SignalKind::hangup();
    is_ignored(hangup.as_raw_value()).map_or_else(has_terminal, |is_ignored| !is_ignored)
}

/// Returns true if a service manager started this process and expects messages.
#[cfg(unix)]
fn is_managed() -> bool {
    std::env::var_os("NOTIFY_SOCKET").is_some_and(|socket| !socket.is_empty())
}

/// Signals on systems other than Unix: Ctrl-C, or none.
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
