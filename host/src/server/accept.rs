//! Takes connections for the pages, and bounds what they cost: each is a descriptor, and the process
//! that holds the lease needs some for its renewals.

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::select;
use tokio::task::JoinSet;
use tokio::time::{Sleep, sleep};

/// After connections could not be accepted, for lack of descriptors for example.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// What connections may cost.
pub(super) struct Limits {
    /// So many at a time; further ones wait until one of them ends.
    connections: usize,
    /// How long a connection lasts on which no whole request arrives, or no answer gets on.
    patience: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { connections: 128, patience: Duration::from_secs(10) }
    }
}

/// Answers all who connect. Does not end; its connections end with it.
pub(super) async fn accept(listener: TcpListener, app: Router, limits: Limits) {
    let patience = limits.patience;
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(patience);
    let mut connections = JoinSet::new();
    loop {
        select! {
            accepted = listener.accept(), if connections.len() < limits.connections => {
                let Ok((stream, _)) = accepted else {
                    sleep(AFTER_FAILURE).await;
                    continue;
                };
                let stream = TokioIo::new(Connection { stream, patience, stalled: None });
                let service = TowerToHyperService::new(app.clone());
                connections.spawn(http.serve_connection(stream, service));
            }
            // However it ended: that is between it and who connected.
            Some(_) = connections.join_next() => {}
        }
    }
}

/// A connection that fails when who connected takes nothing for too long.
struct Connection {
    stream: TcpStream,
    patience: Duration,
    /// Until when it may take something, while there is something.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(written) = Pin::new(&mut self.stream).poll_write(cx, bytes) {
            self.stalled = None;
            return Poll::Ready(written);
        }
        let patience = self.patience;
        ready!(self.stalled.get_or_insert_with(|| Box::pin(sleep(patience))).as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;
    use axum::routing::get;
    use futures_util::stream::repeat_with;
    use std::convert::Infallible;
    use std::net::SocketAddr;
    use std::sync::Arc;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::sync::Notify;
    use tokio::time::{Instant, timeout};

    const SOON: Duration = Duration::from_secs(30);
    const LIMITS: Limits = Limits { connections: 4, patience: Duration::from_millis(500) };

    async fn served(app: Router) -> (SocketAddr, JoinSet<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut serving = JoinSet::new();
        serving.spawn(accept(listener, app, LIMITS));
        (address, serving)
    }

    /// A connection on which this was sent.
    async fn sent(address: SocketAddr, bytes: &str) -> TcpStream {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(bytes.as_bytes()).await.unwrap();
        stream
    }

    #[tokio::test]
    async fn requests_that_do_not_arrive_are_bounded_in_number_and_in_time() {
        let (address, _serving) = served(Router::new().route("/", get(|| async { "here" }))).await;
        let began = Instant::now();
        let mut silent = Vec::new();
        for bytes in ["", "GET / HT", "GET / HTTP/1.1\r\nhost: x\r\n\r\n", "", "GET / HT"] {
            silent.push(sent(address, bytes).await);
        }
        let mut proper = sent(address, "GET / HTTP/1.0\r\n\r\n").await;
        let mut answer = String::new();
        timeout(SOON, proper.read_to_string(&mut answer)).await.unwrap().unwrap();
        assert!(answer.ends_with("here"), "{answer}");
        // It was one too many.
        assert!(began.elapsed() >= LIMITS.patience, "{:?}", began.elapsed());
        for mut stream in silent {
            // One of them was answered before, and asked nothing further.
            let ended = timeout(SOON, stream.read_to_end(&mut Vec::new())).await;
            ended.expect("it is closed").unwrap();
        }
    }

    #[tokio::test]
    async fn who_takes_nothing_is_not_waited_for() {
        struct Guard(Arc<Notify>);
        impl Drop for Guard {
            fn drop(&mut self) {
                self.0.notify_one();
            }
        }
        let ended = Arc::new(Notify::new());
        let told = ended.clone();
        let much = move || async move {
            let guard = Guard(told);
            Body::from_stream(repeat_with(move || {
                let _guard = &guard;
                Ok::<_, Infallible>(vec![0; 65_536])
            }))
        };
        let (address, _serving) = served(Router::new().route("/", get(much))).await;
        let _stream = sent(address, "GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
        timeout(SOON, ended.notified()).await.expect("it is given up");
    }
}
