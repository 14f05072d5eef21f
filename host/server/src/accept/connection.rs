//! One connection: its present use, and the time limits for its peer.

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response, header};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::service::{Service, service_fn};
use hyper_util::service::TowerToHyperService;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::{Instant, Sleep, sleep_until};

/// Time in which a peer must take the rest of a response even when the listener is full.
const DRAIN_GRACE: Duration = Duration::from_secs(1);

/// The present use of a connection, shared by the connection and the listener that may close it.
pub(super) struct Usage {
    state: Mutex<State>,
    closed: Notify,
}

#[derive(Clone, Copy)]
enum State {
    /// No complete request has arrived since this instant.
    Idle {
        since: Instant,
    },
    /// A request is being answered. `deadline` is when the response must be taken; an endless
    /// response has none. `completed_at` is when all of the response was produced, until all of it
    /// is written.
    Busy {
        deadline: Option<Instant>,
        completed_at: Option<Instant>,
    },
    Closed,
}

/// Why a connection may be closed for a new one, and since when. The smallest one closes first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Evictable {
    Idle(Instant),
    /// Its peer does not take the rest of a response.
    Stalled(Instant),
}

impl State {
    fn evictable(self) -> Option<Evictable> {
        match self {
            State::Idle { since } => Some(Evictable::Idle(since)),
            State::Busy { completed_at: Some(completed_at), .. }
                if completed_at.elapsed() > DRAIN_GRACE =>
            {
                Some(Evictable::Stalled(completed_at))
            }
            _ => None,
        }
    }
}

impl Default for Usage {
    fn default() -> Self {
        Self { state: Mutex::new(State::Idle { since: Instant::now() }), closed: Notify::new() }
    }
}

impl Usage {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn evictable(&self) -> Option<Evictable> {
        self.state().evictable()
    }

    /// Closes the connection unless it is in use by now.
    pub(super) fn close_if_evictable(&self) -> bool {
        let mut state = self.state();
        let is_evictable = state.evictable().is_some();
        if is_evictable {
            *state = State::Closed;
            self.closed.notify_one();
        }
        is_evictable
    }

    /// Waits until the connection must close.
    pub(super) async fn closed(&self) {
        self.closed.notified().await;
    }

    /// Records that a request has arrived. Returns true if it may be answered.
    fn begin_request(&self, deadline: Instant) -> bool {
        let mut state = self.state();
        let is_open = !matches!(*state, State::Closed);
        if is_open {
            *state = State::Busy { deadline: Some(deadline), completed_at: None };
        }
        is_open
    }

    /// Records that the response has no end.
    fn clear_deadline(&self) {
        if let State::Busy { deadline: until, .. } = &mut *self.state() {
            *until = None;
        }
    }

    /// Records that the whole response has been produced.
    fn mark_completed(&self) {
        if let State::Busy { completed_at: made, .. } = &mut *self.state() {
            *made = Some(Instant::now());
        }
    }

    /// Records that everything has been written.
    fn flushed(&self) {
        let mut state = self.state();
        if matches!(*state, State::Busy { completed_at: Some(_), .. }) {
            *state = State::Idle { since: Instant::now() };
        }
    }

    fn deadline(&self) -> Option<Instant> {
        match *self.state() {
            State::Busy { deadline: until, .. } => until,
            _ => None,
        }
    }
}

/// Returns the service for the requests of one connection.
pub(super) fn connection_service(
    app: Router,
    timeout: Duration,
    usage: Arc<Usage>,
) -> impl Service<
    Request<Incoming>,
    Response = Response<Body>,
    Error = io::Error,
    Future: Future<Output = io::Result<Response<Body>>> + Send,
> {
    let app = TowerToHyperService::new(app);
    service_fn(move |request| {
        let (usage, is_open) = (usage.clone(), usage.begin_request(Instant::now() + timeout));
        let answer = is_open.then(|| app.call(request));
        async move {
            let Some(answer) = answer else { return Err(io::ErrorKind::ConnectionAborted.into()) };
            let answer = match answer.await {
                Ok(answer) => answer,
                Err(never) => match never {},
            };
            let kind = answer.headers().get(header::CONTENT_TYPE);
            if kind.is_some_and(|kind| kind == "text/event-stream") {
                usage.clear_deadline();
            }
            let guard = CompletionGuard(usage);
            let with_guard = move |error| {
                let _guard = &guard;
                error
            };
            Ok(answer.map(|body| Body::new(body.map_err(with_guard))))
        }
    })
}

/// Lives in the body of a response; marks the response as completed when it is dropped.
struct CompletionGuard(Arc<Usage>);

impl Drop for CompletionGuard {
    fn drop(&mut self) {
        self.0.mark_completed();
    }
}

/// A connection that fails when its peer stalls for too long or takes a response too slowly.
pub(super) struct Connection {
    stream: TcpStream,
    timeout: Duration,
    usage: Arc<Usage>,
    /// Runs while data waits to be written; the connection fails when it expires.
    write_timer: Option<Pin<Box<Sleep>>>,
}

impl Connection {
    pub(super) fn new(stream: TcpStream, timeout: Duration, usage: Arc<Usage>) -> Self {
        Self { stream, timeout, usage, write_timer: None }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        if let Poll::Ready(written) = Pin::new(&mut this.stream).poll_write(cx, bytes) {
            this.write_timer = None;
            return Poll::Ready(written);
        }
        let timer = this.write_timer.get_or_insert_with(|| {
            let write_deadline = Instant::now() + this.timeout;
            Box::pin(sleep_until(
                this.usage
                    .deadline()
                    .map_or(write_deadline, |deadline| deadline.min(write_deadline)),
            ))
        });
        ready!(timer.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        self.usage.flushed();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
