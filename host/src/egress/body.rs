//! The body of an answer on its way to a guest.

use super::Error;
use super::budget::Charge;
use super::permit::Permit;
use super::place::RequestSlot;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep};

/// Hands the body on as it comes, up to a number of bytes, and gives up when nothing came for
/// a time, or when the turn that asked for it is over.
pub(super) struct StreamedBody {
    inner: super::Body,
    remaining: u64,
    chunk_timeout: Duration,
    chunk_timer: Pin<Box<Sleep>>,
    turn: Option<TurnResources>,
}

/// What a body has of the turn that asked for it.
pub(super) struct TurnResources {
    pub permit: Permit,
    /// Its place among the requests of the turn, until its end came or it is dropped.
    pub slot: Option<RequestSlot>,
    /// What the head of the answer takes.
    pub head_size: usize,
    /// The head, and what was read of the body but not taken yet.
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

    /// Nothing more comes than the `last` bytes: another request may be sent, although this body was
    /// not dropped yet.
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
