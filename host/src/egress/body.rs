//! The body of an answer on its way to a handler.

use super::error::translate;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep};
use wasmtime_wasi_http::Error;

/// Hands the body on as it comes, up to a number of bytes, and gives up when nothing came for
/// a time.
pub(super) struct Streamed {
    inner: reqwest::Body,
    left: u64,
    pause: Duration,
    patience: Pin<Box<Sleep>>,
}

impl Streamed {
    pub(super) fn new(inner: reqwest::Body, most: u64, pause: Duration) -> Self {
        Self { inner, left: most, pause, patience: Box::pin(tokio::time::sleep(pause)) }
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
        match Pin::new(&mut this.inner).poll_frame(cx) {
            Poll::Pending => match this.patience.as_mut().poll(cx) {
                Poll::Ready(()) => Poll::Ready(Some(Err(Error::ConnectionReadTimeout))),
                Poll::Pending => Poll::Pending,
            },
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(translate(error)))),
            Poll::Ready(Some(Ok(frame))) => {
                let size = frame.data_ref().map_or(0, |data| data.len() as u64);
                let Some(left) = this.left.checked_sub(size) else {
                    return Poll::Ready(Some(Err(Error::HttpResponseBodySize(None))));
                };
                this.left = left;
                this.patience.as_mut().reset(Instant::now() + this.pause);
                Poll::Ready(Some(Ok(frame)))
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
