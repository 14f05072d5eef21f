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
pub fn reserved() -> io::Result<SocketAddr> {
    reserve((Ipv4Addr::LOCALHOST, 0).into())
}

/// The same with an address at which somebody listens who was told to end: completes when it is free.
///
/// # Errors
/// As [`reserved`].
pub async fn reserved_again(address: SocketAddr) -> io::Result<()> {
    loop {
        match reserve(address) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                sleep(Duration::from_millis(10)).await;
            }
            other => return other.map(drop),
        }
    }
}

fn reserve(address: SocketAddr) -> io::Result<SocketAddr> {
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
    async fn nobody_is_there_until_somebody_listens() {
        let address = reserved().unwrap();
        assert!(TcpStream::connect(address).await.is_err());
        let listener = TcpListener::bind(address).await.unwrap();
        TcpStream::connect(address).await.unwrap();
        drop(listener);
        reserved_again(address).await.unwrap();
        assert!(TcpStream::connect(address).await.is_err());
    }
}
