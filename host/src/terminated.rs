//! When a process is asked to end.

/// Completes when this process is asked to end: by Ctrl-C, and on Unix by SIGTERM, which service managers, containers and
/// Kubernetes send. From the first poll on, neither of them ends the process by itself, also when this has completed. A
/// second one ends it with `tokio::spawn(async { terminated().await; terminated().await; std::process::exit(1) })`.
///
/// # Panics
///
/// Outside a runtime of tokio that has its drivers enabled.
pub async fn shutdown_signal() {
    #[cfg(unix)]
    {
        use std::future::pending;
        use tokio::signal::unix::{SignalKind, signal};
        let received = |kind| async move {
            match signal(kind) {
                Ok(mut signal) => drop(signal.recv().await),
                // It ends the process as ever.
                Err(_) => pending().await,
            }
        };
        tokio::select! {
            () = received(SignalKind::terminate()) => {}
            () = received(SignalKind::interrupt()) => {}
        }
    }
    #[cfg(not(unix))]
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}
