//! Permit of a turn to send, while its lease is valid and the turn has not ended.

use crate::lease::Lease;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::task::Poll;
use tokio::sync::watch;

/// Permit of one turn to send, shared by all parts that work for it.
#[derive(Clone)]
pub(super) struct Permit {
    lease: Lease,
    is_open: watch::Receiver<bool>,
    /// Counts as one more user of the outlet.
    _outlet_use: watch::Receiver<()>,
}

/// Other end of a permit. Once it is dropped, no data of the turn is being passed to the kernel,
/// and none will be, even if the lease continues.
pub(super) struct RevokeGuard(watch::Sender<bool>);

/// Error of a turn that may not send any more.
#[derive(Debug, thiserror::Error)]
#[error("the turn or its lease has ended")]
pub(super) struct PermitExpired;

impl Permit {
    /// Creates a permit that `permits` counts until it and all clones are dropped.
    pub(super) fn new(lease: Lease, permits: &watch::Sender<()>) -> (Self, RevokeGuard) {
        let (revoke, open) = watch::channel(true);
        (Self { lease, is_open: open, _outlet_use: permits.subscribe() }, RevokeGuard(revoke))
    }

    /// Runs an action that may send, in the same call as the check of the deadline. The action must
    /// not use a permit itself.
    pub(super) fn run<T>(&self, action: impl FnOnce() -> T) -> Result<T, PermitExpired> {
        // Borrowed until `action` has returned, and revoking the permit waits for that.
        let is_open = self.is_open.borrow();
        if !*is_open || self.lease.is_lost() { Err(PermitExpired) } else { Ok(action()) }
    }

    /// Polls `future`, each step of which may send. The future must not use a permit itself.
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

    /// Waits until the turn has ended.
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
