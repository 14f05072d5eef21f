//! Response body on its way to a guest.

use super::Error;
use super::budget::Charge;
use super::turn::RequestSlot;
use super::wire::Permit;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep};

/// Forwards a body as it arrives, up to a maximum size. Fails if no data arrives within the chunk
/// timeout, or when the turn is over.
pub(super) struct StreamedBody {
    inner: super::Body,
    remaining: u64,
    chunk_timeout: Duration,
    chunk_timer: Pin<Box<Sleep>>,
    turn: Option<TurnResources>,
}

/// Resources of the turn that requested the body.
pub(super) struct TurnResources {
    pub permit: Permit,
    /// Request slot of the body, until the body ends or is dropped.
    pub slot: Option<RequestSlot>,
    /// Bytes of the response head.
    pub head_size: usize,
    /// Charge for the head, and for data that was read but not taken yet.
    pub charge: Charge,
}

impl StreamedBody {
    pub(super) fn new(
        inner: super::Body,
        max_bytes: u64,
        chunk_timeout: Duration,
        turn: Option<TurnResources>,
    ) -> Self {
        let chunk_timer = Box::pin(tokio::time::sleep(chunk_timeout));
        let mut streamed = Self { inner, remaining: max_bytes, chunk_timeout, chunk_timer, turn };
        if streamed.inner.is_end_stream() {
            streamed.release_resources(0);
        }
        streamed
    }

    /// Releases all resources except for the `last_chunk` bytes. Another request may then be sent
    /// before this body is dropped.
    fn release_resources(&mut self, last_chunk: u64) {
        if let Some(turn) = &mut self.turn {
            turn.slot = None;
            let last = usize::try_from(last_chunk).unwrap_or(usize::MAX);
            turn.charge.resize(turn.head_size.saturating_add(last));
        }
    }
}

impl Body for StreamedBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let this = &mut *self;
        if this.turn.as_ref().is_some_and(|turn| turn.permit.is_expired()) {
            return Poll::Ready(Some(Err(Error::ConnectionClosed)));
        }
        match Pin::new(&mut this.inner).poll_frame(cx) {
            Poll::Pending => match this.chunk_timer.as_mut().poll(cx) {
                Poll::Ready(()) => Poll::Ready(Some(Err(Error::ResponseTimeout))),
                Poll::Pending => Poll::Pending,
            },
            Poll::Ready(Some(Ok(frame))) => {
                let size = frame.data_ref().map_or(0, |data| data.len() as u64);
                let Some(remaining) = this.remaining.checked_sub(size) else {
                    return Poll::Ready(Some(Err(Error::ResponseTooLarge)));
                };
                this.remaining = remaining;
                this.chunk_timer.as_mut().reset(Instant::now() + this.chunk_timeout);
                if this.inner.is_end_stream() {
                    this.release_resources(size);
                }
                Poll::Ready(Some(Ok(frame)))
            }
            end => {
                this.release_resources(0);
                end
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
