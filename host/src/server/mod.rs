//! What a candidate shows over HTTP: whether it runs, whether it is ready, who leads, and figures.
//!
//! | request | answer |
//! |---|---|
//! | `GET /` | a page that shows all of this as it goes on; `GET /events` is what it lives on |
//! | `GET /healthz` | 200 while the loop runs; 503 when it stands still |
//! | `GET /readyz` | 200 when the storage account answers, so that this candidate could lead; else 503, and why |
//! | `GET /readyz?leader` | 200 on the leader alone, so that a load balancer finds it |
//! | `GET /leader` | who leads, as JSON |
//! | `GET /leader?redirect` | 307 to the address that the leader gave (`--address`); 503 when there is none |
//! | `GET /history` | the newest changes that this candidate saw, as JSON |
//! | `GET /metrics` | figures in the text format of Prometheus |
//!
//! With several elections in one process, `/healthz` and `/readyz` are about all of them, and so is
//! `/metrics`, by the label `election`; `?election=container/blob` chooses one, and `/leader`, `/history` and
//! `/readyz?leader` ask for that.
//!
//! Whoever reaches the listener may read all of it. It holds no secret. It takes 128 connections at a time, and
//! closes those on which nothing gets on for 10 s. Only with the token of a
//! [`Control`] can a candidate be steered: `POST /resign`, `/transfer?to=NAME`, `/pause`, `/resume`.

mod accept;
mod board;
mod control;
mod metrics;
pub(crate) mod page;
pub(crate) mod pages;
mod show;
mod summary;
#[cfg(test)]
mod tests;
mod timeline;

pub use board::Board;
#[cfg(test)]
pub(crate) use board::{Leader, Told};
pub use control::{Control, ControlToken};
pub(crate) use summary::{LastTurn, Summary};

use crate::clock::Clock;
use axum::Router;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// A listener that shows a [`Board`]. It ends when it is dropped.
#[derive(Debug)]
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

    /// Shows `board` to everybody who asks there, and takes orders from those who have the token.
    ///
    /// # Errors
    ///
    /// The listener has no address.
    pub fn serve<C: Clock>(
        listener: TcpListener,
        board: Arc<Board>,
        clock: &C,
        control: Option<Control>,
    ) -> io::Result<Self> {
        Self::serve_all(listener, vec![(board, control)], clock)
    }

    /// The same for the candidates of several elections: `?election=container/blob` chooses one.
    ///
    /// # Errors
    ///
    /// The listener has no address.
    pub fn serve_all<C: Clock>(
        listener: TcpListener,
        candidates: Vec<(Arc<Board>, Option<Control>)>,
        clock: &C,
    ) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let source = |board: &Arc<Board>| {
            (board.election.clone(), show::source(board.clone(), clock.reading()))
        };
        let sources = candidates.iter().map(|(board, _)| source(board)).collect();
        let app: Router = pages::router(candidates, &clock.reading()).merge(page::router(sources));
        let task = tokio::spawn(accept::accept(listener, app, accept::Limits::default()));
        Ok(Self { address, task })
    }

    /// Where it listens.
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
