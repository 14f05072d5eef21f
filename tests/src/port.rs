//! Ports at which nobody listens, and which nobody else is given.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::net::TcpSocket;
use tokio::time::sleep;

/// An address of this machine, for a program that has to be told where to listen, or for one at which nobody does.
///
/// Its port is bound as long as this process lives, so that the kernel gives it to nobody else. Connections to it are refused
/// meanwhile. A program that reuses addresses, as those of Tokio and of Node do, can listen there all the same. That is how
/// Linux has it.
///
/// # Errors
/// The system has no port or descriptor left.
pub fn reserve_port() -> io::Result<SocketAddr> {
    bind_address((Ipv4Addr::LOCALHOST, 0).into())
}

/// The same with an address at which somebody listens who was told to end: completes when it is free.
///
/// # Errors
/// As [`reserved`].
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
    // As long as this process lives.
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
