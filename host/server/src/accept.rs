//! Accepts connections for the pages and bounds their cost. Each connection uses a file descriptor,
//! and a leader needs descriptors for its renewals.
//!
//! When the listener is full, it closes a connection to make room for a new one. It chooses the one
//! that has been idle the longest. If none is idle, it chooses the one whose peer has stalled the
//! longest on a complete response. So idle or stalled connections cannot keep out a probe. If the
//! peer of the new connection has reached its own limit, only connections of that peer are
//! considered.
//!
//! The listener never closes a connection whose response is being produced. If it finds no other,
//! it closes the new one.

#[cfg(test)]
mod tests;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response, header};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv6Addr};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::select;
use tokio::sync::Notify;
use tokio::task::{Id, JoinSet};
use tokio::time::{Instant, Sleep, sleep, sleep_until};

/// Delay after a failed accept, for example for lack of descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_secs(1);

/// Time that a peer has to read the rest of a complete response, even when the listener is full.
const DRAIN_GRACE: Duration = Duration::from_secs(1);

/// Limits of the connections of one listener.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    /// Maximum number of connections.
    connections: usize,
    /// Maximum number of connections of one peer. All clients behind a proxy are one peer, so the
    /// limit leaves room for all viewers of the page and for other requests.
    per_peer: usize,
    /// Time limit for a request to arrive, and for the peer to read the response.
    request_timeout: Duration,
    /// Age from which a connection takes no new request. It closes after the response in progress.
    max_age: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 128,
            per_peer: 64,
            request_timeout: Duration::from_secs(10),
            max_age: Duration::from_secs(600),
        }
    }
}

/// Serves all connections of `listener`. Dropping the future closes them.
pub(super) async fn accept(listener: TcpListener, app: Router, limits: Limits) {
    let mut tasks = JoinSet::new();
    let mut open = Open { limits, connections: HashMap::new() };
    loop {
        select! {
            accepted = listener.accept() => {
                let (stream, address) = match accepted {
                    Ok(accepted) => accepted,
                    Err(error) => {
                        if !is_connection_error(&error) {
                            sleep(ACCEPT_RETRY_DELAY).await;
                        }
                        continue;
                    }
                };
                let peer = peer(address.ip());
                if !open.reserve(peer) {
                    continue;
                }
                let usage = Arc::new(Usage::default());
                let task = tasks.spawn(serve_connection(stream, app.clone(), usage.clone(), limits));
                open.connections.insert(task.id(), (peer, usage));
            }
            Some(ended) = tasks.join_next_with_id() => open.remove(ended),
        }
        // Evicted connections close at once. Waiting for them keeps the limit.
        while tasks.len() > limits.connections
            && let Some(ended) = tasks.join_next_with_id().await
        {
            open.remove(ended);
        }
    }
}

/// Serves one connection until either side closes it.
async fn serve_connection(stream: TcpStream, app: Router, usage: Arc<Usage>, limits: Limits) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(limits.request_timeout);
    // Each server-sent event is a small write that must be sent at once.
    let _ = stream.set_nodelay(true);
    let stream = TokioIo::new(Connection::new(stream, limits.request_timeout, usage.clone()));
    let service = connection_service(app, limits.request_timeout, usage.clone());
    let mut connection = pin!(http.serve_connection(stream, service));
    let mut expiry = pin!(sleep(limits.max_age));
    let mut is_old = false;
    loop {
        select! {
            _ = connection.as_mut() => return,
            () = usage.closed() => return,
            () = expiry.as_mut(), if !is_old => {
                is_old = true;
                connection.as_mut().graceful_shutdown();
            }
        }
    }
}

/// The connections that have not been asked to close.
struct Open {
    limits: Limits,
    connections: HashMap<Id, (IpAddr, Arc<Usage>)>,
}

impl Open {
    /// Makes room for one more connection of `peer`, if necessary by closing another one. Returns
    /// false if there is no room.
    fn reserve(&mut self, peer: IpAddr) -> bool {
        let peer_connections =
            self.connections.values().filter(|(other, _)| *other == peer).count();
        let full_peer = (peer_connections >= self.limits.per_peer).then_some(peer);
        if full_peer.is_none() && self.connections.len() < self.limits.connections {
            return true;
        }
        self.evict(full_peer)
    }

    /// Closes the connection that ranks first in [`Evictable`], of `only_peer` if it is given.
    /// Returns false if none can be closed.
    fn evict(&mut self, only_peer: Option<IpAddr>) -> bool {
        let considered = self.connections.iter();
        let considered = considered
            .filter(|(_, (peer, _))| only_peer.is_none_or(|required_peer| required_peer == *peer));
        let mut evictable: Vec<_> =
            considered.filter_map(|(id, (_, usage))| Some((usage.evictable()?, *id))).collect();
        evictable.sort_unstable_by_key(|(rank, _)| *rank);
        // A connection that has just received a request stays open.
        let closed = evictable.into_iter().find(|(_, id)| {
            self.connections.get(id).is_some_and(|(_, usage)| usage.close_if_evictable())
        });
        closed.is_some_and(|(_, id)| self.connections.remove(&id).is_some())
    }

    fn remove(&mut self, ended: Result<(Id, ()), tokio::task::JoinError>) {
        let id = ended.map_or_else(|error| error.id(), |(id, ())| id);
        self.connections.remove(&id);
    }
}

/// Returns true if only the connection to be accepted failed, because its peer has already closed
/// it. The next accept can follow at once.
fn is_connection_error(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionAborted | ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset
    )
}

/// Returns the key that counts as one peer: an IPv4 address, or the network of an IPv6 address. A
/// machine may use any address of its IPv6 network.
fn peer(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = u128::from(address) & !u128::from(u64::MAX);
            IpAddr::V6(Ipv6Addr::from(network))
        }
        address => address,
    }
}

/// The present use of a connection, shared by the connection and the listener that may close it.
struct Usage {
    state: Mutex<State>,
    closed: Notify,
}

#[derive(Clone, Copy)]
enum State {
    /// The connection has waited for a complete request since this instant.
    Idle {
        since: Instant,
    },
    /// A request is being answered.
    Busy {
        /// Time by which the peer must have read the response. `None` for an endless response.
        deadline: Option<Instant>,
        /// Time at which the whole response had been produced. `None` until then. Once everything
        /// is written, the connection is idle.
        completed_at: Option<Instant>,
    },
    Closed,
}

/// The reason why a connection may be closed for a new one, and the instant since which it applies.
/// The smallest value closes first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Evictable {
    Idle(Instant),
    /// Its peer does not read the rest of a complete response.
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

    fn evictable(&self) -> Option<Evictable> {
        self.state().evictable()
    }

    /// Closes the connection if it is still evictable, and returns true if it was.
    fn close_if_evictable(&self) -> bool {
        let mut state = self.state();
        let is_evictable = state.evictable().is_some();
        if is_evictable {
            *state = State::Closed;
            self.closed.notify_one();
        }
        is_evictable
    }

    /// Waits until the connection must close.
    async fn closed(&self) {
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
        if let State::Busy { deadline, .. } = &mut *self.state() {
            *deadline = None;
        }
    }

    /// Records that the whole response has been produced.
    fn mark_completed(&self) {
        if let State::Busy { completed_at, .. } = &mut *self.state() {
            *completed_at = Some(Instant::now());
        }
    }

    /// Records that all data has been written. After a complete response, the connection is idle.
    fn flushed(&self) {
        let mut state = self.state();
        if matches!(*state, State::Busy { completed_at: Some(_), .. }) {
            *state = State::Idle { since: Instant::now() };
        }
    }

    fn deadline(&self) -> Option<Instant> {
        match *self.state() {
            State::Busy { deadline, .. } => deadline,
            _ => None,
        }
    }
}

/// Returns the service for the requests of one connection.
fn connection_service(
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
            let Some(answer) = answer else { return Err(ErrorKind::ConnectionAborted.into()) };
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

/// Guard in the body of a response. Marks the response as completed when it is dropped.
struct CompletionGuard(Arc<Usage>);

impl Drop for CompletionGuard {
    fn drop(&mut self) {
        self.0.mark_completed();
    }
}

/// A connection that fails when its peer stalls for too long or reads a response too slowly.
struct Connection {
    stream: TcpStream,
    timeout: Duration,
    usage: Arc<Usage>,
    /// Runs while data waits to be written; the connection fails when it expires.
    write_timer: Option<Pin<Box<Sleep>>>,
}

impl Connection {
    fn new(stream: TcpStream, timeout: Duration, usage: Arc<Usage>) -> Self {
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
        Poll::Ready(Err(ErrorKind::TimedOut.into()))
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
