//! Proxy with selectable faults: one runs in front of the store for each candidate, so that a test
//! can cut off single candidates.
//!
//! The proxy only works on connections and bytes. Signatures cover the path but not the host, so a
//! request signed for the proxy is valid at the store.

mod connection;
mod mode;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::{Context, Result};
use tenure_azure::Account;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use connection::forward_connection;
pub use mode::Mode;
pub(crate) use mode::writes_metadata;

/// Callback that sees the bytes of a client before the proxy acts on them.
pub(crate) type Witness = Arc<dyn Fn(&[u8]) + Send + Sync>;

/// Proxy in front of one server. Dropping it closes all its connections.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    mode: watch::Sender<Mode>,
    server: JoinHandle<()>,
}

impl Proxy {
    /// Listens on a free port, and forwards everything.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub async fn start(server_address: SocketAddr) -> Result<Self> {
        Self::start_with_witness(server_address, |_| {}).await
    }

    /// Starts like [`start`](Self::start). `witness` receives the bytes of all requests, even if
    /// they are then dropped.
    ///
    /// # Errors
    /// Fails like [`start`](Self::start).
    pub async fn start_with_witness(
        server_address: SocketAddr,
        witness: impl Fn(&[u8]) + Send + Sync + 'static,
    ) -> Result<Self> {
        let witness: Witness = Arc::new(witness);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let mode = watch::Sender::new(Mode::Pass);
        let server = tokio::spawn(serve(listener, server_address, mode.subscribe(), witness));
        Ok(Self { address, mode, server })
    }

    /// Starts in front of the local store that a connection string names. Also returns the
    /// connection string for access through the proxy.
    ///
    /// # Errors
    /// The connection string is invalid, or the address cannot be bound.
    pub async fn for_store(connection_string: &str) -> Result<(Self, String)> {
        Self::for_store_with_witness(connection_string, |_| {}).await
    }

    /// Starts like [`for_store`](Self::for_store). `witness` receives the bytes of all requests,
    /// even if they are then dropped.
    ///
    /// # Errors
    /// Fails like [`for_store`](Self::for_store).
    pub async fn for_store_with_witness(
        connection_string: &str,
        witness: impl Fn(&[u8]) + Send + Sync + 'static,
    ) -> Result<(Self, String)> {
        let account = Account::from_connection_string(connection_string);
        let account = account.ok().context("this is no connection string")?;
        let origin = account.origin();
        let host = origin.strip_prefix("http://").context("only plain HTTP can be proxied")?;
        let server_address = host.parse().context("no address with a port")?;
        let proxy = Self::start_with_witness(server_address, witness).await?;
        let proxied_connection =
            connection_string.replace(origin, &format!("http://{}", proxy.address));
        Ok((proxy, proxied_connection))
    }

    /// Returns its address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes the mode, which also applies to existing connections.
    pub fn set_mode(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn serve(
    listener: TcpListener,
    server_address: SocketAddr,
    mode: watch::Receiver<Mode>,
    witness: Witness,
) {
    let mut connections = JoinSet::new();
    let mut accept_mode = mode.clone();
    loop {
        let Ok(_) = accept_mode.wait_for(|mode| mode.accepts_connections()).await else { return };
        tokio::select! {
            biased;
            _ = accept_mode.wait_for(|mode| !mode.accepts_connections()) => {}
            accepted = listener.accept() => if let Ok((client, _)) = accepted {
                connections.spawn(forward_connection(client, server_address, mode.clone(), witness.clone()));
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

#[cfg(test)]
mod tests;
