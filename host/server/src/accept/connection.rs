//! One connection: what it is used for at the moment, and how long its peer is waited for.

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

/// How long a peer may take the rest of an answer, also when there is no room for others.
const TAKING: Duration = Duration::from_secs(1);

/// What a connection is used for, known to itself and to whoever may close it.
pub(super) struct Use {
    state: Mutex<State>,
    closed: Notify,
}

#[derive(Clone, Copy)]
enum State {
    /// No whole request has arrived since.
    Idle {
        since: Instant,
    },
    /// A request is being answered. `until`: when the answer must be taken; an answer without end has
    /// no such time. `made`: since when all of it is made, and not yet all of it handed over.
    Busy {
        until: Option<Instant>,
        made: Option<Instant>,
    },
    Closed,
}

/// Why a connection may be closed for another one, and since when. The smallest one closes first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Spare {
    Idle(Instant),
    /// Its peer does not take the rest of an answer.
    Untaken(Instant),
}

impl State {
    fn spare(self) -> Option<Spare> {
        match self {
            State::Idle { since } => Some(Spare::Idle(since)),
            State::Busy { made: Some(made), .. } if made.elapsed() > TAKING => {
                Some(Spare::Untaken(made))
            }
            _ => None,
        }
    }
}

impl Default for Use {
    fn default() -> Self {
        Self { state: Mutex::new(State::Idle { since: Instant::now() }), closed: Notify::new() }
    }
}

impl Use {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn spare(&self) -> Option<Spare> {
        self.state().spare()
    }

    /// Closes it, unless it is in use by now.
    pub(super) fn close_if_spare(&self) -> bool {
        let mut state = self.state();
        let is_spare = state.spare().is_some();
        if is_spare {
            *state = State::Closed;
            self.closed.notify_one();
        }
        is_spare
    }

    /// Completes when it is to close.
    pub(super) async fn closed(&self) {
        self.closed.notified().await;
    }

    /// A request has arrived. Whether it may be answered.
    fn begin(&self, until: Instant) -> bool {
        let mut state = self.state();
        let is_open = !matches!(*state, State::Closed);
        if is_open {
            *state = State::Busy { until: Some(until), made: None };
        }
        is_open
    }

    /// Its answer has no end.
    fn goes_on(&self) {
        if let State::Busy { until, .. } = &mut *self.state() {
            *until = None;
        }
    }

    /// Its answer is made.
    fn made(&self) {
        if let State::Busy { made, .. } = &mut *self.state() {
            *made = Some(Instant::now());
        }
    }

    /// All that was written is handed over.
    fn flushed(&self) {
        let mut state = self.state();
        if matches!(*state, State::Busy { made: Some(_), .. }) {
            *state = State::Idle { since: Instant::now() };
        }
    }

    fn until(&self) -> Option<Instant> {
        match *self.state() {
            State::Busy { until, .. } => until,
            _ => None,
        }
    }
}

/// Answers the requests of one connection.
pub(super) fn answering(
    app: Router,
    patience: Duration,
    usage: Arc<Use>,
) -> impl Service<
    Request<Incoming>,
    Response = Response<Body>,
    Error = io::Error,
    Future: Future<Output = io::Result<Response<Body>>> + Send,
> {
    let app = TowerToHyperService::new(app);
    service_fn(move |request| {
        let (usage, is_open) = (usage.clone(), usage.begin(Instant::now() + patience));
        let answer = is_open.then(|| app.call(request));
        async move {
            let Some(answer) = answer else { return Err(io::ErrorKind::ConnectionAborted.into()) };
            let answer = match answer.await {
                Ok(answer) => answer,
                Err(never) => match never {},
            };
            let kind = answer.headers().get(header::CONTENT_TYPE);
            if kind.is_some_and(|kind| kind == "text/event-stream") {
                usage.goes_on();
            }
            let making = Making(usage);
            let kept = move |error| {
                let _making = &making;
                error
            };
            Ok(answer.map(|body| Body::new(body.map_err(kept))))
        }
    })
}

/// Kept with the body of an answer, whose end tells that the answer is made.
struct Making(Arc<Use>);

impl Drop for Making {
    fn drop(&mut self) {
        self.0.made();
    }
}

/// A connection that fails when who connected takes nothing for too long, or an answer too slowly.
pub(super) struct Connection {
    stream: TcpStream,
    patience: Duration,
    usage: Arc<Use>,
    /// Until when it may take something, while there is something.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Connection {
    pub(super) fn new(stream: TcpStream, patience: Duration, usage: Arc<Use>) -> Self {
        Self { stream, patience, usage, stalled: None }
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
            this.stalled = None;
            return Poll::Ready(written);
        }
        let stalled = this.stalled.get_or_insert_with(|| {
            let patience = Instant::now() + this.patience;
            Box::pin(sleep_until(this.usage.until().map_or(patience, |until| until.min(patience))))
        });
        ready!(stalled.as_mut().poll(cx));
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
