//! What a candidate of [`tenure`] shows over HTTP: whether it runs, whether it is ready, who leads, and metrics.
//!
//! A [`Board`] takes the reports and the events of a [`Runner`](tenure::engine::Runner). A [`Server`] answers from it:
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
//! // Listens until it is dropped.
//! let server = Server::serve(listener, board, &clock)?;
//! # Ok(())
//! # }
//! ```
//!
//! The modules serve the program `tenure` and its demo, and may change in any release.
//!
//! | request | answer |
//! |---|---|
//! | `GET /` | a page that shows all of this as it goes on; `GET /events` is what it lives on. Of several elections an overview, by `GET /events?overview` |
//! | `GET /healthz` | 200 while the loop runs; 503 when it stands still |
//! | `GET /readyz` | 200 while the storage account answers, lets this candidate lead or follow, and its process is ready; else 503, and why |
//! | `GET /readyz?leader` | 200 on the leader alone, so that a load balancer finds it |
//! | `GET /leader` | who leads, as JSON |
//! | `GET /leader?redirect` | 307 to the address that the leader gave (`--address`); 200 on the leader itself; 503 when no address is known |
//! | `GET /watch` | the same and more as it goes on, as server-sent events; followers read it |
//! | `GET /history` | the newest changes that this candidate saw, as JSON |
//! | `GET /candidates` | the candidates that were seen lately, as JSON |
//! | `GET /metrics` | metrics in the text format of Prometheus, or in OpenMetrics for a client that asks for that |
//! | `POST /hint` | 202: the leader looks for orders beside the election's blob, at most once a second; 409 on a follower |
//!
//! With several elections in one process, `/healthz` and `/readyz` are about all of them, and so is
//! `/metrics`, by the label `election`; `?election=container/blob` selects one. `/leader`, `/watch`, `/history`,
//! `/candidates`, `/readyz?leader` and `/hint` require it. One that is not in the process is 404 everywhere.
//!
//! Whoever reaches the listener may read all of it, if they ask by an address or by one of its names
//! ([`Hosts`]); probes may use any name. It holds no secret. It takes 128 connections at a time, 64 of one
//! peer, and closes those on which nothing moves for 10 s. A connection takes no new request after 10 minutes; a
//! stream that is open then lasts an hour at most. When there is no room, the one that has been idle the longest
//! makes room. No request changes anything: orders go through the storage account.

#![deny(missing_docs)]

mod accept;
mod answers;
mod application;
mod board;
mod counts;
mod exposition;
pub mod format;
mod hosts;
pub mod metrics;
pub mod page;
mod pages;
mod process;
mod recent;
mod role;
mod roster;
mod show;
#[cfg(test)]
mod tests;
mod timeline;
pub mod watch;

pub use application::Application;
pub use board::{Board, Problem, Summary};
pub use hosts::Hosts;
pub use role::Leader;
pub use roster::Roster;
pub use watch::client::Watcher;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tenure::settings::Settings;
use tenure_clock::Clock;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// A listener that shows boards. It ends when it is dropped.
#[derive(Debug)]
#[must_use = "it ends when it is dropped"]
pub struct Server {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Server {
    /// Listens on `address`; port 0 picks a free one. Nothing is shown before [`serve`](Self::serve), so
    /// that a port in use is known before anything begins.
    ///
    /// # Errors
    ///
    /// The address cannot be listened on.
    pub async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
        TcpListener::bind(address).await
    }

    /// Shows `board` to every client that connects.
    ///
    /// # Errors
    ///
    /// The listener has no address.
    pub fn serve<C: Clock>(
        listener: TcpListener,
        board: Arc<Board>,
        clock: &C,
    ) -> io::Result<Self> {
        let roster = Roster::new(clock);
        roster.add(board);
        Self::serve_all(listener, roster, Hosts::default())
    }

    /// Shows the candidates of several elections, which may come and go: `?election=container/blob` selects one. The
    /// listener answers to the names of `hosts` and of this machine.
    ///
    /// # Errors
    ///
    /// The listener has no address.
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
