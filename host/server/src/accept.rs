//! Accepts connections for the pages and bounds their cost. Each connection is a descriptor, and
//! the process that holds the lease needs descriptors for its renewals.
//!
//! Every client may connect. When the listener is full, it closes the connection that has been idle
//! the longest. If the new client's peer has used up its share, it closes one of that peer. Without
//! an idle connection, it closes the one whose peer has stalled the longest on a finished response.
//! So idle or stalled connections cannot keep out a probe. A connection whose response is being
//! produced is never closed for a new one; when all are, the new client is turned away.

mod connection;
#[cfg(test)]
mod tests;

use axum::Router;
use connection::{Connection, Usage, connection_service};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv6Addr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::select;
use tokio::task::{Id, JoinSet};
use tokio::time::sleep;

/// Delay after a failed accept, for example for lack of descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_secs(1);

/// Limits of the connections of one listener.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    /// Connections at a time.
    connections: usize,
    /// Connections of one peer. Behind a proxy all clients are one peer: this must leave room for
    /// all viewers of the page and for other requests.
    per_peer: usize,
    /// Time for a request to arrive, and for its response to be taken.
    request_timeout: Duration,
    /// Age at which a connection closes after its response under way.
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

/// Serves all connections of `listener`. Runs until it is dropped, which closes its connections.
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
        // Evicted connections close at once.
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
    // Each event is a small write and must leave at once.
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
    /// Returns true if `peer` may have one more connection, which may close another one.
    fn reserve(&mut self, peer: IpAddr) -> bool {
        let peer_connections =
            self.connections.values().filter(|(other, _)| *other == peer).count();
        let full_peer = (peer_connections >= self.limits.per_peer).then_some(peer);
        if full_peer.is_none() && self.connections.len() < self.limits.connections {
            return true;
        }
        self.evict(full_peer)
    }

    /// Closes the connection with the lowest rank, if one can be closed.
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
