//! Takes connections for the pages, and bounds what they cost: each is a descriptor, and the process
//! that holds the lease needs some for its renewals.
//!
//! Whoever connects is let in. When there is no room, the connection closes that has been idle the
//! longest: of the same peer when that peer has its share, else of all. When none is idle, the one
//! closes whose peer has not taken the rest of an answer for the longest time. So connections that
//! ask nothing, or take nothing, cannot keep out a probe. One whose answer is being made is never
//! closed for that; when all are, the newcomer is turned away.

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

/// After connections could not be accepted, for lack of descriptors for example.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_secs(1);

/// What connections may cost.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    /// So many at a time.
    connections: usize,
    /// So many of one peer. Behind a proxy all clients are one peer: there must be room for all
    /// viewers of the page, and for others beside them.
    per_peer: usize,
    /// How long a request may take to arrive, and its answer to be taken.
    request_timeout: Duration,
    /// A connection of this age ends with the answer that is under way.
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

/// Answers all who connect. Does not end; its connections end with it.
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
        // The ones that were told to close do so at once.
        while tasks.len() > limits.connections
            && let Some(ended) = tasks.join_next_with_id().await
        {
            open.remove(ended);
        }
    }
}

/// Answers one peer until either side ends it.
async fn serve_connection(stream: TcpStream, app: Router, usage: Arc<Usage>, limits: Limits) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(limits.request_timeout);
    // Each event is a small write, and is to go at once.
    let _ = stream.set_nodelay(true);
    let stream = TokioIo::new(Connection::new(stream, limits.request_timeout, usage.clone()));
    let service = connection_service(app, limits.request_timeout, usage.clone());
    let mut connection = pin!(http.serve_connection(stream, service));
    let mut expiry = pin!(sleep(limits.max_age));
    let mut is_old = false;
    loop {
        select! {
            // However it ended: that is between it and who connected.
            _ = connection.as_mut() => return,
            () = usage.closed() => return,
            () = expiry.as_mut(), if !is_old => {
                is_old = true;
                connection.as_mut().graceful_shutdown();
            }
        }
    }
}

/// The connections that are not told to close.
struct Open {
    limits: Limits,
    connections: HashMap<Id, (IpAddr, Arc<Usage>)>,
}

impl Open {
    /// Whether there is room for one more of `peer`, now or because another one makes room for it.
    fn reserve(&mut self, peer: IpAddr) -> bool {
        let peer_connections = self.connections.values().filter(|(other, _)| *other == peer).count();
        let full_peer = (peer_connections >= self.limits.per_peer).then_some(peer);
        if full_peer.is_none() && self.connections.len() < self.limits.connections {
            return true;
        }
        self.evict(full_peer)
    }

    /// Closes the connection that can best be spared, if one can.
    fn evict(&mut self, only_peer: Option<IpAddr>) -> bool {
        let considered = self.connections.iter();
        let considered =
            considered.filter(|(_, (peer, _))| only_peer.is_none_or(|required_peer| required_peer == *peer));
        let mut evictable: Vec<_> =
            considered.filter_map(|(id, (_, usage))| Some((usage.evictable()?, *id))).collect();
        evictable.sort_unstable_by_key(|(rank, _)| *rank);
        // One that has just begun to be used is not closed.
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

/// Whether only the connection failed that was to be accepted: its peer has ended it already. The
/// next one can be accepted at once.
fn is_connection_error(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionAborted | ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset
    )
}

/// Who counts as one peer: an IPv4 address, or the network of an IPv6 address, of which a machine may
/// take any.
fn peer(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = u128::from(address) & !u128::from(u64::MAX);
            IpAddr::V6(Ipv6Addr::from(network))
        }
        address => address,
    }
}
