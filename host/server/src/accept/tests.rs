use super::*;
use axum::body::Body;
use axum::http::header;
use axum::response::IntoResponse as _;
use axum::routing::get;
use bytes::Bytes;
use futures_util::stream::repeat_with;
use std::convert::Infallible;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpSocket;
use tokio::sync::{Notify, Semaphore};
use tokio::time::timeout;

const SOON: Duration = Duration::from_secs(30);
const HOUR: Duration = Duration::from_secs(3600);
const LIMITS: Limits = Limits {
    connections: 4,
    per_peer: 4,
    request_timeout: Duration::from_millis(500),
    max_age: HOUR,
};

/// Limits without any time-out.
const PATIENT: Limits = Limits { request_timeout: HOUR, ..LIMITS };

const SINGLE_REQUEST: &str = "GET / HTTP/1.0\r\n\r\n";
const KEEP_ALIVE_REQUEST: &str = "GET / HTTP/1.1\r\nhost: x\r\n\r\n";

async fn start_server(app: Router, limits: Limits) -> (SocketAddr, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut serving = JoinSet::new();
    serving.spawn(accept(listener, app, limits));
    (address, serving)
}

fn test_app() -> Router {
    Router::new().route("/", get(|| async { "here" }))
}

/// Connects and sends these bytes.
async fn connect_and_send(address: SocketAddr, bytes: &str) -> TcpStream {
    connect_and_send_from("127.0.0.1", address, bytes).await
}

async fn connect_and_send_from(source: &str, address: SocketAddr, bytes: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::new(source.parse().unwrap(), 0)).unwrap();
    let mut stream = socket.connect(address).await.unwrap();
    stream.write_all(bytes.as_bytes()).await.unwrap();
    stream
}

/// Waits for a response that contains `expected`.
async fn expect_response(stream: &mut TcpStream, expected: &str) {
    let mut text = String::new();
    while !text.contains(expected) {
        let mut bytes = [0; 512];
        let read = timeout(SOON, stream.read(&mut bytes)).await.expect("an answer").unwrap();
        assert!(read > 0, "closed after {text:?}");
        text.push_str(&String::from_utf8_lossy(&bytes[..read]));
    }
}

/// Waits until the server has closed the connection.
async fn expect_closed(stream: &mut TcpStream) {
    let mut remaining = Vec::new();
    let ended = timeout(SOON, stream.read_to_end(&mut remaining)).await;
    // Unread bytes turn the close into a reset.
    drop(ended.expect("it is closed"));
}

fn is_open(stream: &TcpStream) -> bool {
    stream.try_read(&mut [0]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
}

#[tokio::test]
async fn idle_connections_do_not_block_new_clients() {
    let (address, _serving) = start_server(test_app(), PATIENT).await;
    let mut silent = Vec::new();
    for bytes in ["", "GET / HT", "", KEEP_ALIVE_REQUEST] {
        let mut stream = connect_and_send(address, bytes).await;
        if bytes == KEEP_ALIVE_REQUEST {
            expect_response(&mut stream, "here").await;
        }
        silent.push(stream);
    }
    for round in 0..3 {
        let mut client = connect_and_send(address, SINGLE_REQUEST).await;
        expect_response(&mut client, "here").await;
        expect_closed(&mut client).await;
        if round == 0 {
            // The other connections have been idle for a shorter time.
            expect_closed(&mut silent[0]).await;
            assert!(silent[1..].iter().all(is_open));
        }
        silent.push(connect_and_send(address, "").await);
    }
}

#[tokio::test]
async fn requests_that_do_not_arrive_are_bounded_in_time() {
    let (address, _serving) = start_server(test_app(), LIMITS).await;
    for bytes in ["", "GET / HT", KEEP_ALIVE_REQUEST] {
        expect_closed(&mut connect_and_send(address, bytes).await).await;
    }
}

#[tokio::test]
async fn a_response_in_progress_is_not_cut_for_another_peer() {
    let (entered, go_on) = (Arc::new(Notify::new()), Arc::new(Semaphore::new(0)));
    let (notify, wait) = (entered.clone(), go_on.clone());
    let slow = move || {
        let (notify, wait) = (notify.clone(), wait.clone());
        async move {
            notify.notify_one();
            drop(wait.acquire().await);
            "late"
        }
    };
    let (address, _serving) = start_server(test_app().route("/slow", get(slow)), PATIENT).await;
    let mut busy = Vec::new();
    for _ in 0..PATIENT.connections {
        busy.push(connect_and_send(address, "GET /slow HTTP/1.0\r\n\r\n").await);
        timeout(SOON, entered.notified()).await.unwrap();
    }
    expect_closed(&mut connect_and_send(address, SINGLE_REQUEST).await).await;
    go_on.add_permits(PATIENT.connections);
    for stream in &mut busy {
        expect_response(stream, "late").await;
    }
    expect_response(&mut connect_and_send(address, SINGLE_REQUEST).await, "here").await;
}

#[tokio::test]
async fn unread_responses_do_not_block_new_clients() {
    // Larger than the buffers of a connection.
    const SIZE: usize = 32 * 1024 * 1024;
    static MUCH: [u8; SIZE] = [0; SIZE];
    let app = test_app().route("/much", get(|| async { Bytes::from_static(&MUCH) }));
    let (address, _serving) = start_server(app, PATIENT).await;
    let mut waiting = Vec::new();
    for _ in 0..PATIENT.connections {
        let mut stream = connect_and_send(address, "GET /much HTTP/1.1\r\nhost: x\r\n\r\n").await;
        // The response is complete and has begun to arrive.
        expect_response(&mut stream, "200 OK").await;
        waiting.push(stream);
    }
    let admitted = async {
        loop {
            let mut client = connect_and_send(address, SINGLE_REQUEST).await;
            let mut text = String::new();
            // Earlier clients were turned away.
            if client.read_to_string(&mut text).await.is_ok() && text.ends_with("here") {
                return;
            }
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(SOON, admitted).await.expect("one makes room");
    // The other connections have stalled for a shorter time.
    let mut remaining = vec![0; SIZE - 1024];
    for (number, stream) in waiting.iter_mut().enumerate() {
        let read = timeout(SOON, stream.read_exact(&mut remaining)).await.expect("it ends");
        assert_eq!(read.is_ok(), number > 0, "{number}");
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn one_peer_takes_no_more_than_its_share() {
    let limits = Limits { per_peer: 2, ..PATIENT };
    let (address, _serving) = start_server(test_app(), limits).await;
    let mut other = connect_and_send_from("127.0.0.2", address, KEEP_ALIVE_REQUEST).await;
    expect_response(&mut other, "here").await;
    let mut greedy = Vec::new();
    for _ in 0..5 {
        greedy.push(connect_and_send(address, "").await);
    }
    for stream in &mut greedy[..3] {
        expect_closed(stream).await;
    }
    assert!(greedy[3..].iter().all(is_open) && is_open(&other));
    other.write_all(KEEP_ALIVE_REQUEST.as_bytes()).await.unwrap();
    expect_response(&mut other, "here").await;
}

#[tokio::test]
async fn an_old_connection_ends_with_its_answer() {
    let limits = Limits { max_age: Duration::from_millis(50), ..PATIENT };
    let (address, _serving) = start_server(test_app(), limits).await;
    let mut used = connect_and_send(address, KEEP_ALIVE_REQUEST).await;
    expect_response(&mut used, "here").await;
    for mut stream in [used, connect_and_send(address, "").await] {
        expect_closed(&mut stream).await;
    }
}

/// Returns an app with an endless response, and a notifier for its end.
fn endless(kind: &'static str) -> (Router, Arc<Notify>) {
    struct Guard(Arc<Notify>);
    impl Drop for Guard {
        fn drop(&mut self) {
            self.0.notify_one();
        }
    }
    let ended = Arc::new(Notify::new());
    let on_end = ended.clone();
    let much = move || {
        let guard = Guard(on_end.clone());
        async move {
            let body = Body::from_stream(repeat_with(move || {
                let _guard = &guard;
                Ok::<_, Infallible>(vec![0; 65_536])
            }));
            ([(header::CONTENT_TYPE, kind)], body).into_response()
        }
    };
    (Router::new().route("/", get(much)), ended)
}

#[tokio::test]
async fn a_peer_that_reads_nothing_is_disconnected() {
    let (app, ended) = endless("text/event-stream");
    let (address, _serving) = start_server(app, LIMITS).await;
    let _stream = connect_and_send(address, KEEP_ALIVE_REQUEST).await;
    timeout(SOON, ended.notified()).await.expect("it is given up");
}

#[tokio::test]
async fn a_peer_that_reads_slowly_is_disconnected() {
    let (app, ended) = endless("application/json");
    let (address, _serving) = start_server(app, LIMITS).await;
    let mut stream = connect_and_send(address, KEEP_ALIVE_REQUEST).await;
    let reading = async {
        // The peer reads slowly but steadily.
        while stream.read(&mut [0; 1024]).await.is_ok_and(|read| read > 0) {}
    };
    timeout(SOON, async { tokio::join!(reading, ended.notified()) }).await.expect("it is given up");
}

#[test]
fn a_network_of_version_6_is_one_peer() {
    let peer_of = |text: &str| peer(text.parse().unwrap());
    assert_eq!(peer_of("2001:db8::1"), peer_of("2001:db8::ffff:1"));
    assert_ne!(peer_of("2001:db8::1"), peer_of("2001:db8:0:1::1"));
    assert_eq!(peer_of("::ffff:10.0.0.1"), peer_of("10.0.0.1"));
    assert_ne!(peer_of("10.0.0.1"), peer_of("10.0.0.2"));
}

#[test]
fn a_connection_that_ends_before_accept_delays_no_other() {
    assert!(is_connection_error(&ErrorKind::ConnectionAborted.into()));
    // EMFILE: no descriptor is free.
    #[cfg(unix)]
    assert!(!is_connection_error(&io::Error::from_raw_os_error(24)));
}
