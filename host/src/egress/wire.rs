//! A connection of one turn, down to where its bytes are handed to the kernel.

use super::permit::Permit;
use rustix::net::sockopt::set_socket_linger;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Asks for the permit in each call that hands something to the kernel. Requests wait in queues
/// and are written by other tasks, so there is no other place at which a check is in time.
pub(super) struct Wire {
    stream: TcpStream,
    permit: Permit,
    /// Nothing came back since something was written.
    is_unanswered: bool,
}

impl Wire {
    /// Takes a connection on which nothing was written.
    ///
    /// # Errors
    ///
    /// When the connection cannot be set up so that the end of this process resets it.
    pub(super) fn new(stream: TcpStream, permit: Permit) -> io::Result<Self> {
        // A killed process drops nothing. The kernel closes its connections before the supervisor can see its end, and
        // with this option it discards what it has not sent. Only an orderly end clears the option.
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
        // A request without an answer may still wait in the kernel, which would go on sending it when the lease is long
        // over. The same holds for the last alert of TLS.
        if !self.is_unanswered && !self.permit.is_lease_lost() {
            // An orderly end instead of a reset.
            let _ = set_socket_linger(&self.stream, None);
        }
    }
}
