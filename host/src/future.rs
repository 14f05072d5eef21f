//! Futures and errors used by several modules.

use std::future::pending;
use std::pin::Pin;
use tokio::sync::watch;

/// A future on the heap.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// An error of any type.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Waits until `flag` is true. Never completes if the sender is dropped first.
pub(crate) async fn wait_until_true(flag: &mut watch::Receiver<bool>) {
    if flag.wait_for(|flag| *flag).await.is_err() {
        pending().await
    }
}

/// Waits for `future`. Never completes if there is none.
pub(crate) async fn or_pending<F: Future + Unpin>(future: Option<&mut F>) -> F::Output {
    match future {
        Some(future) => future.await,
        None => pending().await,
    }
}
