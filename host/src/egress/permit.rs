//! When a turn may send: while its lease holds, and until its end.

use crate::lease::Lease;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::task::Poll;
use tokio::sync::watch;

/// The right of one turn to send, for all that works for it.
#[derive(Clone)]
pub(super) struct Permit {
    lease: Lease,
    open: watch::Receiver<bool>,
    /// Tells that there is one more.
    _held: watch::Receiver<()>,
}

/// The other end of a permit. Once it is dropped, nothing of the turn is on its way into the
/// kernel, and nothing will be, however long the lease goes on.
pub(super) struct Revoke(watch::Sender<bool>);

/// The turn may not send any more.
#[derive(Debug, thiserror::Error)]
#[error("the turn or its lease has ended")]
pub(super) struct Over;

impl Permit {
    /// One that `permits` knows of: it is closed when this is dropped, and all clones are.
    pub(super) fn new(lease: Lease, permits: &watch::Sender<()>) -> (Self, Revoke) {
        let (revoke, open) = watch::channel(true);
        (Self { lease, open, _held: permits.subscribe() }, Revoke(revoke))
    }

    /// Does something that may send, in the same call in which the deadline was checked. It must
    /// not ask for a permit itself.
    pub(super) fn act<T>(&self, act: impl FnOnce() -> T) -> Result<T, Over> {
        // Borrowed until `act` is done: whoever revokes the permit waits for that.
        let open = self.open.borrow();
        if !*open || self.lease.is_lost() { Err(Over) } else { Ok(act()) }
    }

    /// Drives `future`, each step of which may send. What it does must not ask for a permit.
    pub(super) async fn drive<F: Future>(&self, future: F) -> Result<F::Output, Over> {
        let mut future = pin!(future);
        poll_fn(|cx| match self.act(|| future.as_mut().poll(cx)) {
            Ok(poll) => poll.map(Ok),
            Err(over) => Poll::Ready(Err(over)),
        })
        .await
    }

    pub(super) fn is_over(&self) -> bool {
        self.act(|| ()).is_err()
    }

    pub(super) fn lease_is_over(&self) -> bool {
        self.lease.is_lost()
    }

    /// Completes when the turn has ended.
    pub(super) async fn revoked(mut self) {
        let _ = self.open.wait_for(|open| !open).await;
    }
}

impl Drop for Revoke {
    fn drop(&mut self) {
        self.0.send_replace(false);
    }
}

impl From<Over> for io::Error {
    fn from(over: Over) -> Self {
        Self::new(io::ErrorKind::PermissionDenied, over)
    }
}
