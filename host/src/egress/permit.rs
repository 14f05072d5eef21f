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
    is_open: watch::Receiver<bool>,
    /// Tells that there is one more.
    _outlet_use: watch::Receiver<()>,
}

/// The other end of a permit. Once it is dropped, nothing of the turn is on its way into the
/// kernel, and nothing will be, however long the lease goes on.
pub(super) struct RevokeGuard(watch::Sender<bool>);

/// The turn may not send any more.
#[derive(Debug, thiserror::Error)]
#[error("the turn or its lease has ended")]
pub(super) struct PermitExpired;

impl Permit {
    /// One that `permits` knows of: it is closed when this is dropped, and all clones are.
    pub(super) fn new(lease: Lease, permits: &watch::Sender<()>) -> (Self, RevokeGuard) {
        let (revoke, open) = watch::channel(true);
        (Self { lease, is_open: open, _outlet_use: permits.subscribe() }, RevokeGuard(revoke))
    }

    /// Does something that may send, in the same call in which the deadline was checked. It must
    /// not ask for a permit itself.
    pub(super) fn run<T>(&self, action: impl FnOnce() -> T) -> Result<T, PermitExpired> {
        // Borrowed until `act` is done: whoever revokes the permit waits for that.
        let is_open = self.is_open.borrow();
        if !*is_open || self.lease.is_lost() { Err(PermitExpired) } else { Ok(action()) }
    }

    /// Drives `future`, each step of which may send. What it does must not ask for a permit.
    pub(super) async fn drive<F: Future>(&self, future: F) -> Result<F::Output, PermitExpired> {
        let mut future = pin!(future);
        poll_fn(|cx| match self.run(|| future.as_mut().poll(cx)) {
            Ok(poll) => poll.map(Ok),
            Err(expired) => Poll::Ready(Err(expired)),
        })
        .await
    }

    pub(super) fn is_expired(&self) -> bool {
        self.run(|| ()).is_err()
    }

    pub(super) fn is_lease_lost(&self) -> bool {
        self.lease.is_lost()
    }

    /// Completes when the turn has ended.
    pub(super) async fn revoked(mut self) {
        let _ = self.is_open.wait_for(|open| !open).await;
    }
}

impl Drop for RevokeGuard {
    fn drop(&mut self) {
        self.0.send_replace(false);
    }
}

impl From<PermitExpired> for io::Error {
    fn from(expired: PermitExpired) -> Self {
        Self::new(io::ErrorKind::PermissionDenied, expired)
    }
}
