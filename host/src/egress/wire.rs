//! Connection of one turn, at the level that passes bytes to the kernel, and its permit to send.

use crate::lease::Lease;
use rustix::net::sockopt::set_socket_linger;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::watch;

/// Permit of one turn to send, while its lease is valid and the turn has not ended. All parts that
/// work for the turn share it.
#[derive(Clone)]
pub(super) struct Permit {
    lease: Lease,
    is_open: watch::Receiver<bool>,
    /// Lets [`Outlet::closed`](super::Outlet::closed) wait until this permit is dropped.
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

    fn is_lease_lost(&self) -> bool {
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

/// TCP stream that checks the permit in each call that passes data to the kernel.
///
/// Requests wait in queues and are written by other tasks, so an earlier check would be too early.
pub(super) struct Wire {
    stream: TcpStream,
    permit: Permit,
    /// True if no data has arrived since the last write.
    is_unanswered: bool,
}

impl Wire {
    /// Takes a connection on which nothing was written.
    ///
    /// # Errors
    ///
    /// Fails if the connection cannot be configured to reset when this process ends.
    pub(super) fn new(stream: TcpStream, permit: Permit) -> io::Result<Self> {
        // A killed process runs no destructors. The kernel closes the connections of the process
        // before the supervisor can notice its death. With this option, the kernel discards unsent
        // data at that moment. Only an orderly end clears the option.
        stream.set_zero_linger()?;
        Ok(Self { stream, permit, is_unanswered: false })
    }

    fn write(
        &mut self,
        write: impl FnOnce(Pin<&mut TcpStream>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let written = self.run(write);
        self.is_unanswered |= matches!(written, Poll::Ready(Ok(1..)));
        written
    }

    fn run<T>(
        &mut self,
        action: impl FnOnce(Pin<&mut TcpStream>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        match self.permit.run(|| action(Pin::new(&mut self.stream))) {
            Ok(poll) => poll,
            Err(expired) => Poll::Ready(Err(expired.into())),
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.write(|stream| stream.poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.write(|stream| stream.poll_write_vectored(cx, bytes))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.run(|stream| stream.poll_flush(cx))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.run(|stream| stream.poll_shutdown(cx))
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let filled_before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if buffer.filled().len() > filled_before {
            self.is_unanswered = false;
        }
        read
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        // A request without a response may still be in the kernel, which could send it long after
        // the end of the lease. The same applies to the last TLS alert. Such a connection is
        // therefore reset.
        if !self.is_unanswered && !self.permit.is_lease_lost() {
            // The kernel then closes the connection in an orderly way.
            let _ = set_socket_linger(&self.stream, None);
        }
    }
}
