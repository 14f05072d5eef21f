//! The body of an answer on its way to a guest.

use super::Error;
use super::budget::Charge;
use super::permit::Permit;
use super::place::Place;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep};

/// Hands the body on as it comes, up to a number of bytes, and gives up when nothing came for
/// a time, or when the turn that asked for it is over.
pub(super) struct Streamed {
    inner: super::Body,
    left: u64,
    pause: Duration,
    patience: Pin<Box<Sleep>>,
    turn: Option<OfTurn>,
}

/// What a body has of the turn that asked for it.
pub(super) struct OfTurn {
    pub permit: Permit,
    /// Its place among the requests of the turn, until its end came or it is dropped.
    pub place: Option<Place>,
    /// What the head of the answer takes.
    pub head: usize,
    /// The head, and what was read of the body but not taken yet.
    pub charge: Charge,
}

impl Streamed {
    pub(super) fn new(
        inner: super::Body,
        most: u64,
        pause: Duration,
        turn: Option<OfTurn>,
    ) -> Self {
        let patience = Box::pin(tokio::time::sleep(pause));
        let mut streamed = Self { inner, left: most, pause, patience, turn };
        if streamed.inner.is_end_stream() {
            streamed.make_room(0);
        }
        streamed
    }

    /// Nothing more comes than the `last` bytes: another request may be sent, although this body was
    /// not dropped yet.
    fn make_room(&mut self, last: u64) {
        if let Some(turn) = &mut self.turn {
            turn.place = None;
            let last = usize::try_from(last).unwrap_or(usize::MAX);
            turn.charge.set(turn.head.saturating_add(last));
        }
    }
}

impl Body for Streamed {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let this = &mut *self;
        if this.turn.as_ref().is_some_and(|turn| turn.permit.is_over()) {
            return Poll::Ready(Some(Err(Error::Ended)));
        }
        match Pin::new(&mut this.inner).poll_frame(cx) {
            Poll::Pending => match this.patience.as_mut().poll(cx) {
                Poll::Ready(()) => Poll::Ready(Some(Err(Error::AnswerTimeout))),
                Poll::Pending => Poll::Pending,
            },
            Poll::Ready(Some(Ok(frame))) => {
                let size = frame.data_ref().map_or(0, |data| data.len() as u64);
                let Some(left) = this.left.checked_sub(size) else {
                    return Poll::Ready(Some(Err(Error::AnswerTooLarge)));
                };
                this.left = left;
                this.patience.as_mut().reset(Instant::now() + this.pause);
                if this.inner.is_end_stream() {
                    this.make_room(size);
                }
                Poll::Ready(Some(Ok(frame)))
            }
            ended => {
                this.make_room(0);
                ended
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
