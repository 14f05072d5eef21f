//! Connection of one turn, at the level that passes bytes to the kernel.

use super::permit::Permit;
use rustix::net::sockopt::set_socket_linger;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

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
        // A killed process runs no destructors. The kernel closes its connections before the
        // supervisor can notice its end. With this option it discards unsent data. Only an orderly
        // end clears the option.
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
        // the end of the lease. The same applies to the last TLS alert.
        if !self.is_unanswered && !self.permit.is_lease_lost() {
            // An orderly end instead of a reset.
            let _ = set_socket_linger(&self.stream, None);
        }
    }
}
