//! A network path from a candidate to the store, or from the other candidates to a candidate. To
//! the client, a cut path is silent. The connection to the server is closed at the cut.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy, sink};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Delay after a failed accept.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// The end of each request's first line.
const LINE_END: &[u8] = b" HTTP/1.1\r\n";

/// Opens a path in a task of `tasks`, and returns its address. Connections lead to `target`, once
/// that is known, unless the path is `cut`. `count` is called with the number of requests in each
/// piece of data.
pub(super) async fn open(
    target: watch::Receiver<Option<SocketAddr>>,
    cut: watch::Receiver<bool>,
    count: impl Fn(usize) + Clone + Send + Sync + 'static,
    tasks: &mut JoinSet<()>,
) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        loop {
            match listener.accept().await {
                Ok((client, _)) => {
                    let target = *target.borrow();
                    connections.spawn(serve_connection(client, target, cut.clone(), count.clone()));
                }
                Err(_) => sleep(ACCEPT_RETRY_DELAY).await,
            }
            while connections.try_join_next().is_some() {}
        }
    });
    Ok(address)
}

/// Serves a connection until it ends. A cut closes the connection to the server, and discards the
/// data of the client. Healing the path then closes the connection to the client.
async fn serve_connection(
    mut client: TcpStream,
    target: Option<SocketAddr>,
    mut cut: watch::Receiver<bool>,
    count: impl Fn(usize),
) {
    tokio::select! {
        biased;
        _ = cut.wait_for(|cut| *cut) => {}
        _ = forward(&mut client, target, count) => return,
    }
    let mut discard = sink();
    // Data sent now is lost silently. A healed path needs new connections, because neither side
    // knows how much the other side has received.
    tokio::select! {
        _ = cut.wait_for(|cut| !*cut) => {}
        _ = copy(&mut client, &mut discard) => {}
    }
}

/// Forwards data both ways until one side ends.
async fn forward(
    client: &mut TcpStream,
    target: Option<SocketAddr>,
    count: impl Fn(usize),
) -> io::Result<()> {
    let mut server = TcpStream::connect(target.ok_or(io::ErrorKind::NotFound)?).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let up = async {
        let mut buffer = [0; 4096];
        loop {
            let read = from_client.read(&mut buffer).await?;
            if read == 0 {
                return Ok(());
            }
            // Candidates send each request in one piece, so no read splits its first line.
            let bytes = &buffer[..read];
            let requests = bytes.windows(LINE_END.len()).filter(|bytes| *bytes == LINE_END);
            count(requests.count());
            to_server.write_all(bytes).await?;
        }
    };
    tokio::select! {
        ended = up => ended,
        ended = copy(&mut from_server, &mut to_client) => ended.map(drop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::time::timeout;

    /// Time without data after which a connection counts as silent.
    const SILENT: Duration = Duration::from_millis(200);

    /// Starts a server that echoes its input.
    async fn echo(tasks: &mut JoinSet<()>) -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        tasks.spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut from, mut to) = stream.split();
                    let _ = copy(&mut from, &mut to).await;
                });
            }
        });
        address
    }

    async fn read_text(stream: &mut TcpStream, length: usize) -> io::Result<String> {
        let mut bytes = vec![0; length];
        timeout(Duration::from_secs(10), stream.read_exact(&mut bytes)).await.unwrap()?;
        Ok(String::from_utf8(bytes).unwrap())
    }

    #[tokio::test]
    async fn a_cut_is_silence_and_a_healed_path_needs_new_connections() {
        let mut tasks = JoinSet::new();
        let echoes = echo(&mut tasks).await;
        let requests = Arc::new(AtomicUsize::new(0));
        let counted = requests.clone();
        let count = move |number| _ = counted.fetch_add(number, Ordering::Relaxed);
        let (target, cut) = (watch::Sender::new(None), watch::Sender::new(false));
        let (to, cuts) = (target.subscribe(), cut.subscribe());
        let address = open(to, cuts, count, &mut tasks).await.unwrap();
        let mut refused = TcpStream::connect(address).await.unwrap();
        let gone = read_text(&mut refused, 1).await.unwrap_err();
        assert_eq!(gone.kind(), io::ErrorKind::UnexpectedEof, "nobody is there yet");
        target.send_replace(Some(echoes));
        let mut old = TcpStream::connect(address).await.unwrap();
        old.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
        assert_eq!(read_text(&mut old, 18).await.unwrap(), "GET / HTTP/1.1\r\n\r\n");
        assert_eq!(requests.load(Ordering::Relaxed), 1);

        cut.send_replace(true);
        let mut new = TcpStream::connect(address).await.unwrap();
        for stream in [&mut old, &mut new] {
            stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
            let heard = timeout(SILENT, stream.read(&mut [0])).await;
            assert!(heard.is_err(), "neither answered nor closed: {heard:?}");
        }

        cut.send_replace(false);
        for stream in [&mut old, &mut new] {
            let error = read_text(stream, 1).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        }
        let mut next = TcpStream::connect(address).await.unwrap();
        next.write_all(b"back").await.unwrap();
        assert_eq!(read_text(&mut next, 4).await.unwrap(), "back");
        assert_eq!(requests.load(Ordering::Relaxed), 1, "the lost ones did not arrive");
    }
}
