//! The HTTP pages of a candidate of [`tenure`]: liveness, readiness, the leader, and metrics.
//!
//! A [`Board`] takes the reports and the events of a [`Runner`](tenure::engine::Runner). A
//! [`Server`] answers from it:
//!
//! ```no_run
//! use std::sync::Arc;
//! use tenure_clock::{BootClock, Clock};
//! use tenure_server::{Board, Server};
//!
//! # async fn serve() -> std::io::Result<()> {
//! let clock = BootClock::new();
//! let board = Arc::new(Board::new("jobs/report", "ada", clock.now()));
//! let listener = Server::bind(([127, 0, 0, 1], 8080).into()).await?;
//! // Serves until `server` is dropped.
//! let server = Server::serve(listener, board, &clock)?;
//! # Ok(())
//! # }
//! ```
//!
//! The public modules exist for the program `tenure` and its demo. They may change in any release.
//!
//! | request | response |
//! |---|---|
//! | `GET /` | the page of one election, or an overview of several; `GET /events` feeds it |
//! | `GET /healthz` | 200 while the candidate's loop runs; 503 when it is stalled |
//! | `GET /readyz` | 200 if the candidate can lead or follow and is ready; else 503 with a reason |
//! | `GET /readyz?leader` | 200 on the leader only, for load balancers |
//! | `GET /leader` | the leader, as JSON |
//! | `GET /leader?redirect` | 307 to the leader's address; 200 on the leader; 503 without one |
//! | `GET /watch` | status updates as server-sent events; followers read them |
//! | `GET /history` | the newest changes that this candidate saw, as JSON |
//! | `GET /candidates` | the candidates seen recently, as JSON |
//! | `GET /metrics` | metrics for Prometheus, as OpenMetrics if the client accepts it |
//! | `POST /hint` | 202: the leader checks for orders, at most once a second; 409 on a follower |
//!
//! With several elections in one process, `/healthz`, `/readyz` and `/metrics` cover all of them;
//! metrics carry the label `election`. `?election=container/blob` selects one. `/leader`, `/watch`,
//! `/history`, `/candidates`, `/readyz?leader` and `/hint` require it. Every path responds with 404
//! if the election is unknown.
//!
//! A client that reaches the listener may read everything; the pages contain no secret. Its `Host`
//! must be an address or one of the listener's names ([`Hosts`]); probes may use any name.
//!
//! The listener accepts at most 128 connections, 64 of them from one peer. It closes a connection
//! that makes no progress for 10 s. After 10 minutes, a connection takes no new request; a stream
//! that is then open ends within an hour. When the listener is full, it closes the connection that
//! has been idle the longest. Requests cannot change anything: orders go through the storage
//! account.

#![deny(missing_docs)]

mod accept;
mod application;
mod board;
mod board_view;
mod counters;
pub mod format;
mod hosts;
pub mod metrics;
pub mod page;
mod pages;
mod recent;
mod responses;
mod role;
mod roster;
mod state;
#[cfg(test)]
mod tests;
mod timeline;
pub mod watch;

pub use application::Application;
pub use board::{Board, Summary};
pub use hosts::Hosts;
pub use role::Leader;
pub use roster::Roster;
pub use state::Problem;
pub use watch::client::Watcher;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tenure::settings::Settings;
use tenure_clock::Clock;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// An HTTP server that shows boards. It stops when it is dropped.
#[derive(Debug)]
#[must_use = "the server stops when it is dropped"]
pub struct Server {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Server {
    /// Listens on `address`; port 0 picks a free one. [`serve`](Self::serve) is a separate step, so
    /// that a port in use is detected before the candidate starts.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot listen on the address.
    pub async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
        TcpListener::bind(address).await
    }

    /// Serves `board` to every client that connects.
    ///
    /// # Errors
    ///
    /// Returns an error if the listener has no address.
    pub fn serve<C: Clock>(
        listener: TcpListener,
        board: Arc<Board>,
        clock: &C,
    ) -> io::Result<Self> {
        let roster = Roster::new(clock);
        roster.add(board);
        Self::serve_all(listener, roster, Hosts::default())
    }

    /// Serves the candidates of several elections, which may change: `?election=container/blob`
    /// selects one. The listener answers to the names of `hosts` and of this machine.
    ///
    /// # Errors
    ///
    /// Returns an error if the listener has no address.
    pub fn serve_all(listener: TcpListener, roster: Roster, hosts: Hosts) -> io::Result<Self> {
        let pages = pages::router(roster.clone()).merge(watch::router(roster.clone()));
        let page = page::router(move || roster.sources());
        let app = pages::with_fallbacks(pages.merge(page));
        let address = listener.local_addr()?;
        Settings::machine_name().iter().for_each(|name| hosts.add(name));
        let app = hosts::restrict_hosts(hosts, app);
        let task = tokio::spawn(accept::accept(listener, app, accept::Limits::default()));
        Ok(Self { address, task })
    }

    /// Returns the address on which it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}
