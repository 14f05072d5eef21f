//! Shutdown signal of a process.

/// Waits until this process is asked to shut down: by Ctrl-C, and on Unix by SIGTERM, which service
/// managers, containers and Kubernetes send.
///
/// From the first poll on, these signals do not end the process by themselves, even after this has
/// completed. To exit on a second signal: `tokio::spawn(async { shutdown_signal().await;
/// shutdown_signal().await; std::process::exit(1) })`.
///
/// # Panics
///
/// Panics outside a tokio runtime with its drivers enabled.
pub async fn shutdown_signal() {
    #[cfg(unix)]
    {
        use std::future::pending;
        use tokio::signal::unix::{SignalKind, signal};
        let received = |kind| async move {
            match signal(kind) {
                Ok(mut signal) => drop(signal.recv().await),
                // The signal keeps its default action and ends the process.
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
