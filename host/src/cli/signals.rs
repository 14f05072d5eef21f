//! SIGTERM, SIGINT and SIGHUP: the first one asks, the second one insists. SIGUSR1 asks for the standing.

use std::io;

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
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: match ignores_hangup() {
                true => None,
                false => Some(signal(SignalKind::hangup())?),
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

#[cfg(unix)]
async fn hung_up(signal: &mut Option<tokio::signal::unix::Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

/// Whether SIGHUP is ignored. Only Linux tells without unsafe code; elsewhere it counts as not ignored.
#[cfg(unix)]
fn ignores_hangup() -> bool {
    std::fs::read_to_string("/proc/self/status").is_ok_and(|status| names_hangup(&status))
}

/// Whether the mask of ignored signals in a `/proc/PID/status` has SIGHUP, number 1, its lowest bit.
#[cfg(unix)]
fn names_hangup(status: &str) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask & 1 == 1)
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
