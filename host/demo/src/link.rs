//! A way of one candidate, to the store or from the others to itself, which can be cut as a network does it: without
//! a word.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tenure::program::server::rate::Rate;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy, sink};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

/// After a connection could not be accepted.
const PAUSE: Duration = Duration::from_millis(100);

/// One way, with an address of its own.
pub(super) struct Link {
    address: SocketAddr,
    to: To,
    cut: watch::Sender<bool>,
    requests: Requests,
}

impl Link {
    /// Leads to where [`lead_to`](Self::lead_to) says, in a task of `tasks`. Until then nobody is there.
    pub(super) async fn start(tasks: &mut JoinSet<()>) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let cut = watch::Sender::new(false);
        let (to, requests) = (To::default(), Requests::new());
        tasks.spawn(serve(listener, to.clone(), cut.subscribe(), requests.clone()));
        Ok(Self { address, to, cut, requests })
    }

    /// From the next connection on.
    pub(super) fn lead_to(&self, to: SocketAddr) {
        *self.to.lock().unwrap_or_else(PoisonError::into_inner) = Some(to);
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Cuts it, connections that exist too, or heals it.
    pub(super) fn set_cut(&self, cut: bool) {
        self.cut.send_replace(cut);
    }

    /// Requests that went this way in the last minute.
    pub(super) fn requests_per_minute(&self) -> usize {
        let now = self.requests.origin.elapsed();
        self.requests.rate().per_minute(now)
    }
}

/// Where it leads.
type To = Arc<Mutex<Option<SocketAddr>>>;

#[derive(Clone)]
struct Requests {
    origin: Instant,
    rate: Arc<Mutex<Rate>>,
}

impl Requests {
    fn new() -> Self {
        Self { origin: Instant::now(), rate: Arc::default() }
    }

    fn rate(&self) -> MutexGuard<'_, Rate> {
        self.rate.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn serve(listener: TcpListener, to: To, cut: watch::Receiver<bool>, requests: Requests) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((client, _)) => {
                    let to = *to.lock().unwrap_or_else(PoisonError::into_inner);
                    connections.spawn(carry(client, to, cut.clone(), requests.clone()));
                }
                Err(_) => sleep(PAUSE).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// A connection, for its whole life.
async fn carry(
    mut client: TcpStream,
    to: Option<SocketAddr>,
    mut cut: watch::Receiver<bool>,
    requests: Requests,
) {
    tokio::select! {
        biased;
        _ = cut.wait_for(|cut| *cut) => {}
        _ = pass(&mut client, to, &requests) => return,
    }
    // What is sent now is lost, and nobody is told. Once the way is healed, this connection is of
    // no use any more: neither side knows what the other has heard.
    let mut nowhere = sink();
    tokio::select! {
        _ = cut.wait_for(|cut| !*cut) => {}
        _ = copy(&mut client, &mut nowhere) => {}
    }
}

/// Passes everything on, both ways, until one side has ended.
async fn pass(
    client: &mut TcpStream,
    to: Option<SocketAddr>,
    requests: &Requests,
) -> io::Result<()> {
    let mut server = TcpStream::connect(to.ok_or(io::ErrorKind::NotFound)?).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let up = async {
        let (mut heads, mut buffer) = (Heads::default(), [0; 4096]);
        loop {
            let length = from_client.read(&mut buffer).await?;
            let Some(read) = buffer.get(..length).filter(|read| !read.is_empty()) else {
                return Ok(());
            };
            let heads = heads.ended_in(read);
            requests.rate().add(requests.origin.elapsed(), heads);
            to_server.write_all(read).await?;
        }
    };
    tokio::select! {
        ended = up => ended,
        ended = copy(&mut from_server, &mut to_client) => ended.map(drop),
    }
}

/// Counts requests. Those of a candidate have no body, so that each one ends with its head: with an
/// empty line.
#[derive(Default)]
struct Heads {
    /// How much of such an end was seen last.
    matched: usize,
}

impl Heads {
    fn ended_in(&mut self, bytes: &[u8]) -> usize {
        const END: &[u8] = b"\r\n\r\n";
        let mut ended = 0;
        for byte in bytes {
            self.matched = match END.get(self.matched) {
                Some(expected) if expected == byte => self.matched + 1,
                _ => usize::from(*byte == b'\r'),
            };
            if self.matched == END.len() {
                (self.matched, ended) = (0, ended + 1);
            }
        }
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::timeout;

    const SOON: Duration = Duration::from_secs(20);

    /// Long enough for a byte that is on its way on this machine.
    const SILENT: Duration = Duration::from_millis(300);

    /// Answers each byte with the same.
    async fn echo(tasks: &mut JoinSet<()>) -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                connections.spawn(async move {
                    let (mut from, mut to) = stream.split();
                    let _ = copy(&mut from, &mut to).await;
                });
            }
        });
        address
    }

    async fn say(stream: &mut TcpStream, text: &str) {
        stream.write_all(text.as_bytes()).await.unwrap();
    }

    async fn hear(stream: &mut TcpStream, length: usize) -> io::Result<String> {
        let mut text = vec![0; length];
        timeout(SOON, stream.read_exact(&mut text)).await.unwrap()?;
        Ok(String::from_utf8(text).unwrap())
    }

    #[tokio::test]
    async fn a_cut_is_silent_and_what_was_sent_meanwhile_is_lost() {
        let mut tasks = JoinSet::new();
        let to = echo(&mut tasks).await;
        let link = Link::start(&mut tasks).await.unwrap();
        let mut nobody = TcpStream::connect(link.address()).await.unwrap();
        let gone = hear(&mut nobody, 1).await.unwrap_err();
        assert_eq!(gone.kind(), io::ErrorKind::UnexpectedEof, "nobody is there yet");
        link.lead_to(to);
        let mut old = TcpStream::connect(link.address()).await.unwrap();
        say(&mut old, "GET / HTTP/1.1\r\n\r\n").await;
        assert_eq!(hear(&mut old, 18).await.unwrap(), "GET / HTTP/1.1\r\n\r\n");
        assert_eq!(link.requests_per_minute(), 1);

        link.set_cut(true);
        let mut new = TcpStream::connect(link.address()).await.unwrap();
        for stream in [&mut old, &mut new] {
            say(stream, "lost\r\n\r\n").await;
            let mut byte = [0];
            let heard = timeout(SILENT, stream.read(&mut byte)).await;
            assert!(heard.is_err(), "neither answered nor closed: {heard:?}");
        }

        link.set_cut(false);
        for stream in [&mut old, &mut new] {
            let error = hear(stream, 1).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        }
        let mut next = TcpStream::connect(link.address()).await.unwrap();
        say(&mut next, "back").await;
        assert_eq!(hear(&mut next, 4).await.unwrap(), "back");
        assert_eq!(link.requests_per_minute(), 1, "the lost ones did not arrive");
    }

    #[test]
    fn a_request_is_counted_when_its_head_ends_wherever_it_is_torn() {
        let text = b"PUT /a HTTP/1.1\r\nx: y\r\n\r\nHEAD /b HTTP/1.1\r\n\r\nHEAD /c\r\n\r\r\n\r\n";
        for size in 1..text.len() {
            let mut heads = Heads::default();
            let seen: usize = text.chunks(size).map(|part| heads.ended_in(part)).sum();
            assert_eq!(seen, 3, "{size}");
        }
    }
}
