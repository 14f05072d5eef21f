//! Ports without a listener, which the kernel gives to no other process.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::net::TcpSocket;
use tokio::time::sleep;

/// Reserves an address of this machine, for a program that needs its port in advance or for one
/// without a listener.
///
/// This process keeps the port bound while it lives, so that the kernel gives it to no other
/// process. Connections to it are refused meanwhile. On Linux a program that reuses addresses, such
/// as one on Tokio or Node, can still listen there.
///
/// # Errors
/// The system has no free port or descriptor.
pub fn reserve_port() -> io::Result<SocketAddr> {
    bind_address((Ipv4Addr::LOCALHOST, 0).into())
}

/// Reserves an address whose listener is shutting down. Waits until the address is free.
///
/// # Errors
/// Fails like [`reserve_port`].
pub async fn wait_and_reserve(address: SocketAddr) -> io::Result<()> {
    loop {
        match bind_address(address) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                sleep(Duration::from_millis(10)).await;
            }
            result => return result.map(drop),
        }
    }
}

fn bind_address(address: SocketAddr) -> io::Result<SocketAddr> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    // Leaks the socket, which stays bound while this process lives.
    Box::leak(Box::new(socket)).local_addr()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::{TcpListener, TcpStream};

    #[tokio::test]
    async fn a_reserved_port_refuses_connections_until_a_listener_starts() {
        let address = reserve_port().unwrap();
        assert!(TcpStream::connect(address).await.is_err());
        let listener = TcpListener::bind(address).await.unwrap();
        TcpStream::connect(address).await.unwrap();
        drop(listener);
        wait_and_reserve(address).await.unwrap();
        assert!(TcpStream::connect(address).await.is_err());
    }
}
