//! Listener of an endpoint, plain or over TLS.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::Result;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::Certificates;

pub(super) async fn listen_plain() -> Result<TcpListener> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?)
}

/// Connections with a completed handshake. Clients that distrust the server never complete it.
pub(super) struct TlsListener {
    address: SocketAddr,
    connections: mpsc::Receiver<(TlsStream<TcpStream>, SocketAddr)>,
    acceptor: JoinHandle<()>,
}

pub(super) async fn listen_tls(certificates: &Certificates) -> Result<TlsListener> {
    let acceptor = TlsAcceptor::from(Arc::new(certificates.server()?));
    let listener = listen_plain().await?;
    let address = listener.local_addr()?;
    let (accepted_sender, connections) = mpsc::channel(1);
    let acceptor = tokio::spawn(async move {
        let mut handshakes = JoinSet::new();
        loop {
            // Handshakes run concurrently, so that no client waits for another.
            tokio::select! {
                connection = listener.accept() => if let Ok((stream, peer)) = connection {
                    let (acceptor, accepted) = (acceptor.clone(), accepted_sender.clone());
                    handshakes.spawn(async move {
                        if let Ok(stream) = acceptor.accept(stream).await {
                            let _ = accepted.send((stream, peer)).await;
                        }
                    });
                },
                Some(_) = handshakes.join_next() => {}
            }
        }
    });
    Ok(TlsListener { address, connections, acceptor })
}

impl TlsListener {
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl axum::serve::Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.connections.recv().await {
            Some(connection) => connection,
            // The acceptor has ended, so no connection follows.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        Ok(self.address)
    }
}

impl Drop for TlsListener {
    fn drop(&mut self) {
        self.acceptor.abort();
    }
}
