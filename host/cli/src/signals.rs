//! SIGTERM, SIGINT and SIGHUP: the first one asks, the second one insists. SIGUSR1 is ignored. Under a service manager
//! there is no terminal that could hang up: there SIGHUP asks to read lists again, as daemons are asked.

use std::io;
#[cfg(unix)]
use std::io::IsTerminal as _;
use std::time::Duration;
#[cfg(unix)]
use tenure::program::command::ignores;

/// Signals that follow the first within this time mean the same.
pub(super) const REPEATED: Duration = Duration::from_secs(1);

/// The signals that end the program.
pub(super) struct Signals {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    /// The terminal is gone. None: whoever started the program had it ignored, as `nohup` does.
    #[cfg(unix)]
    hangup: Option<tokio::signal::unix::Signal>,
}

#[cfg(unix)]
impl Signals {
    /// From now on the signals do not end the process by themselves.
    pub(super) fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        // Its default action ends a process. Once handled it never does again, and what is started has the default.
        drop(signal(SignalKind::user_defined1())?);
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: match takes_hangup() && !is_managed() {
                true => Some(signal(SignalKind::hangup())?),
                false => None,
            },
        })
    }

    /// The next signal.
    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            () = hung_up(&mut self.hangup) => {}
        }
    }
}

/// Signals that are handed on, by their numbers.
#[cfg(unix)]
pub(super) struct Numbered(Vec<(tokio::signal::unix::SignalKind, tokio::signal::unix::Signal)>);

#[cfg(unix)]
impl Numbered {
    /// These without what whoever started the program had it ignore, as shells do for jobs in the background of a
    /// script, and SIGHUP where it is taken.
    pub(super) fn unless_ignored(kinds: &[tokio::signal::unix::SignalKind]) -> io::Result<Self> {
        let heeded = kinds.iter().filter(|kind| ignores(kind.as_raw_value()) != Some(true));
        Self::new(&heeded.copied().collect::<Vec<_>>())
    }

    /// These, and SIGHUP where it is taken. None of them ends the process by itself from now on.
    pub(super) fn new(kinds: &[tokio::signal::unix::SignalKind]) -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        // One that is ignored here is ignored in what is started too.
        let hangup = takes_hangup().then(SignalKind::hangup);
        let kinds = kinds.iter().copied().chain(hangup);
        kinds.map(|kind| Ok((kind, signal(kind)?))).collect::<io::Result<_>>().map(Self)
    }

    /// The number of the next one.
    pub(super) async fn next(&mut self) -> i32 {
        use std::task::Poll;
        let next = |context: &mut std::task::Context<'_>| {
            let come = self.0.iter_mut().find_map(|(kind, signal)| {
                signal.poll_recv(context).is_ready().then_some(kind.as_raw_value())
            });
            come.map_or(Poll::Pending, Poll::Ready)
        };
        std::future::poll_fn(next).await
    }
}

#[cfg(unix)]
async fn hung_up(signal: &mut Option<tokio::signal::unix::Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

/// Whether SIGHUP is taken: unless whoever started the program had it ignored.
#[cfg(unix)]
pub(super) fn takes_hangup() -> bool {
    // Where the system does not tell: `nohup` leaves the terminal to neither of them.
    let has_terminal = || io::stdout().is_terminal() || io::stderr().is_terminal();
    let hangup = tokio::signal::unix::SignalKind::hangup();
    ignores(hangup.as_raw_value()).map_or_else(has_terminal, |is_ignored| !is_ignored)
}

#[cfg(not(unix))]
impl Signals {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {})
    }

    pub(super) async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// The signal that asks to read again what may have changed. Where there is none, it never comes.
pub(super) struct ReloadSignal {
    #[cfg(unix)]
    hangup: Option<tokio::signal::unix::Signal>,
}

#[cfg(unix)]
impl ReloadSignal {
    /// From now on the signal does not end the process.
    pub(super) fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let hangup = (takes_hangup() && is_managed()).then(|| signal(SignalKind::hangup()));
        Ok(Self { hangup: hangup.transpose()? })
    }

    pub(super) async fn next(&mut self) {
        hung_up(&mut self.hangup).await;
    }
}

#[cfg(not(unix))]
impl ReloadSignal {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {})
    }

    pub(super) async fn next(&mut self) {
        std::future::pending::<()>().await;
    }
}

/// Whether a service manager started this, and wants to be told of it.
#[cfg(unix)]
fn is_managed() -> bool {
    std::env::var_os("NOTIFY_SOCKET").is_some_and(|socket| !socket.is_empty())
}
