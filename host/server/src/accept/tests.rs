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
const LIMITS: Limits =
    Limits { connections: 4, of_peer: 4, patience: Duration::from_millis(500), life: HOUR };

/// Nothing ends by itself.
const PATIENT: Limits = Limits { patience: HOUR, ..LIMITS };

const ONCE: &str = "GET / HTTP/1.0\r\n\r\n";
const KEPT: &str = "GET / HTTP/1.1\r\nhost: x\r\n\r\n";

async fn served(app: Router, limits: Limits) -> (SocketAddr, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut serving = JoinSet::new();
    serving.spawn(accept(listener, app, limits));
    (address, serving)
}

fn here() -> Router {
    Router::new().route("/", get(|| async { "here" }))
}

/// A connection on which this was sent.
async fn sent(address: SocketAddr, bytes: &str) -> TcpStream {
    sent_from("127.0.0.1", address, bytes).await
}

async fn sent_from(own: &str, address: SocketAddr, bytes: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::new(own.parse().unwrap(), 0)).unwrap();
    let mut stream = socket.connect(address).await.unwrap();
    stream.write_all(bytes.as_bytes()).await.unwrap();
    stream
}

/// Waits for an answer that holds this.
async fn answered(stream: &mut TcpStream, words: &str) {
    let mut text = String::new();
    while !text.contains(words) {
        let mut bytes = [0; 512];
        let read = timeout(SOON, stream.read(&mut bytes)).await.expect("an answer").unwrap();
        assert!(read > 0, "closed after {text:?}");
        text.push_str(&String::from_utf8_lossy(&bytes[..read]));
    }
}

/// Waits until the other side has closed it.
async fn closed(stream: &mut TcpStream) {
    let mut rest = Vec::new();
    let ended = timeout(SOON, stream.read_to_end(&mut rest)).await;
    // Bytes that were not read make it a reset.
    drop(ended.expect("it is closed"));
}

fn is_open(stream: &TcpStream) -> bool {
    stream.try_read(&mut [0]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
}

#[tokio::test]
async fn connections_that_ask_nothing_do_not_keep_out_who_asks() {
    let (address, _serving) = served(here(), PATIENT).await;
    let mut silent = Vec::new();
    for bytes in ["", "GET / HT", "", KEPT] {
        let mut stream = sent(address, bytes).await;
        if bytes == KEPT {
            answered(&mut stream, "here").await;
        }
        silent.push(stream);
    }
    for round in 0..3 {
        let mut asks = sent(address, ONCE).await;
        answered(&mut asks, "here").await;
        closed(&mut asks).await;
        if round == 0 {
            // The others have been idle for less long.
            closed(&mut silent[0]).await;
            assert!(silent[1..].iter().all(is_open));
        }
        silent.push(sent(address, "").await);
    }
}

#[tokio::test]
async fn requests_that_do_not_arrive_are_bounded_in_time() {
    let (address, _serving) = served(here(), LIMITS).await;
    for bytes in ["", "GET / HT", KEPT] {
        closed(&mut sent(address, bytes).await).await;
    }
}

#[tokio::test]
async fn an_answer_under_way_is_not_cut_for_another_peer() {
    let (entered, go_on) = (Arc::new(Notify::new()), Arc::new(Semaphore::new(0)));
    let (told, wait) = (entered.clone(), go_on.clone());
    let slow = move || {
        let (told, wait) = (told.clone(), wait.clone());
        async move {
            told.notify_one();
            drop(wait.acquire().await);
            "late"
        }
    };
    let (address, _serving) = served(here().route("/slow", get(slow)), PATIENT).await;
    let mut busy = Vec::new();
    for _ in 0..PATIENT.connections {
        busy.push(sent(address, "GET /slow HTTP/1.0\r\n\r\n").await);
        timeout(SOON, entered.notified()).await.unwrap();
    }
    closed(&mut sent(address, ONCE).await).await;
    go_on.add_permits(PATIENT.connections);
    for stream in &mut busy {
        answered(stream, "late").await;
    }
    answered(&mut sent(address, ONCE).await, "here").await;
}

#[tokio::test]
async fn answers_that_nobody_takes_do_not_keep_out_who_asks() {
    // More than the buffers of a connection take.
    const SIZE: usize = 32 * 1024 * 1024;
    static MUCH: [u8; SIZE] = [0; SIZE];
    let app = here().route("/much", get(|| async { Bytes::from_static(&MUCH) }));
    let (address, _serving) = served(app, PATIENT).await;
    let mut waiting = Vec::new();
    for _ in 0..PATIENT.connections {
        let mut stream = sent(address, "GET /much HTTP/1.1\r\nhost: x\r\n\r\n").await;
        // The answer is made, and has begun.
        answered(&mut stream, "200 OK").await;
        waiting.push(stream);
    }
    let is_let_in = async {
        loop {
            let mut asks = sent(address, ONCE).await;
            let mut text = String::new();
            // Turned away before.
            if asks.read_to_string(&mut text).await.is_ok() && text.ends_with("here") {
                return;
            }
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(SOON, is_let_in).await.expect("one makes room");
    // The others have waited for less long.
    let mut rest = vec![0; SIZE - 1024];
    for (number, stream) in waiting.iter_mut().enumerate() {
        let read = timeout(SOON, stream.read_exact(&mut rest)).await.expect("it ends");
        assert_eq!(read.is_ok(), number > 0, "{number}");
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn one_peer_takes_no_more_than_its_share() {
    let limits = Limits { of_peer: 2, ..PATIENT };
    let (address, _serving) = served(here(), limits).await;
    let mut other = sent_from("127.0.0.2", address, KEPT).await;
    answered(&mut other, "here").await;
    let mut greedy = Vec::new();
    for _ in 0..5 {
        greedy.push(sent(address, "").await);
    }
    for stream in &mut greedy[..3] {
        closed(stream).await;
    }
    assert!(greedy[3..].iter().all(is_open) && is_open(&other));
    other.write_all(KEPT.as_bytes()).await.unwrap();
    answered(&mut other, "here").await;
}

#[tokio::test]
async fn an_old_connection_ends_with_its_answer() {
    let limits = Limits { life: Duration::from_millis(50), ..PATIENT };
    let (address, _serving) = served(here(), limits).await;
    let mut used = sent(address, KEPT).await;
    answered(&mut used, "here").await;
    for mut stream in [used, sent(address, "").await] {
        closed(&mut stream).await;
    }
}

/// Notices when an answer without end is given up.
fn endless(kind: &'static str) -> (Router, Arc<Notify>) {
    struct Guard(Arc<Notify>);
    impl Drop for Guard {
        fn drop(&mut self) {
            self.0.notify_one();
        }
    }
    let ended = Arc::new(Notify::new());
    let told = ended.clone();
    let much = move || {
        let guard = Guard(told.clone());
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
async fn who_takes_nothing_is_not_waited_for() {
    let (app, ended) = endless("text/event-stream");
    let (address, _serving) = served(app, LIMITS).await;
    let _stream = sent(address, KEPT).await;
    timeout(SOON, ended.notified()).await.expect("it is given up");
}

#[tokio::test]
async fn who_takes_an_answer_slowly_is_not_waited_for() {
    let (app, ended) = endless("application/json");
    let (address, _serving) = served(app, LIMITS).await;
    let mut stream = sent(address, KEPT).await;
    let reading = async {
        // Something is taken all the time.
        while stream.read(&mut [0; 1024]).await.is_ok_and(|read| read > 0) {}
    };
    timeout(SOON, async { tokio::join!(reading, ended.notified()) }).await.expect("it is given up");
}

#[test]
fn a_network_of_version_6_is_one_peer() {
    let of = |text: &str| peer(text.parse().unwrap());
    assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
    assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
    assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
    assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
}

#[test]
fn who_ends_a_connection_before_it_is_accepted_holds_up_nobody() {
    assert!(is_of_one(&ErrorKind::ConnectionAborted.into()));
    // No descriptor is free.
    #[cfg(unix)]
    assert!(!is_of_one(&io::Error::from_raw_os_error(24)));
}
