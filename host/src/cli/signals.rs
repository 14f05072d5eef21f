//! SIGTERM and SIGINT: the first one asks, the second one insists. SIGUSR1 asks for the standing.

use std::io;

/// The signals that end the program.
pub(super) struct Signals {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    /// From now on the signals do not end the process by themselves.
    pub(super) fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// The next signal.
    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
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

/// The signal that asks for the standing. Where there is none, it never comes.
pub(super) struct StatusSignal {
    #[cfg(unix)]
    user: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl StatusSignal {
    /// From now on the signal does not end the process.
    pub(super) fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { user: signal(SignalKind::user_defined1())? })
    }

    pub(super) async fn next(&mut self) {
        if self.user.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(not(unix))]
impl StatusSignal {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {})
    }

    pub(super) async fn next(&mut self) {
        std::future::pending::<()>().await;
    }
}
