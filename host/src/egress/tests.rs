//! Requests that reach the network, with a server on loopback.

mod budget;
mod lease;
mod lookup;
mod proxies;
mod term;
mod tls;
mod wire;

use super::budget::Budget;
use super::gate::{Gate, Limits, Policy, ResponseMode};
use super::turn::{Connections, MAX_REQUESTS};
use super::{AllowList, Body, Error, Outlet};
use crate::lease::Lease;
use axum::extract::{ConnectInfo, Request, State};
use axum::response::IntoResponse;
use axum::routing::any;
use bytes::Bytes;
use http::StatusCode;
use http_body_util::{BodyExt, Empty, Full};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tenure_clock::{BootClock, Clock};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::timeout;

/// Peers of the requests that arrived.
type Arrivals = Arc<Mutex<Vec<SocketAddr>>>;

async fn respond(
    State(arrived): State<Arrivals>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
) -> axum::response::Response {
    arrived.lock().unwrap().push(peer);
    match request.uri().path() {
        "/redirect" => (StatusCode::FOUND, [("location", "/")]).into_response(),
        "/empty" => StatusCode::OK.into_response(),
        "/large" => "x".repeat(2000).into_response(),
        "/never" => std::future::pending().await,
        "/echo" => request.into_body().into_response(),
        _ => "hello".into_response(),
    }
}

struct Server {
    address: SocketAddr,
    arrived: Arrivals,
}

async fn server() -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let arrived = Arrivals::default();
    let app = axum::Router::new().fallback(any(respond)).with_state(arrived.clone());
    let app = app.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, app).await });
    Server { address, arrived }
}

impl Server {
    fn arrived(&self) -> usize {
        self.arrived.lock().unwrap().len()
    }
}

fn policy(allow: &str, answers: ResponseMode) -> Arc<Policy> {
    let mut list = AllowList::default();
    list.allow(allow).unwrap();
    Arc::new(Policy { allow: list, timeout: Duration::from_secs(30), response_mode: answers })
}

fn component_gate(allow: impl ToString) -> Gate {
    let policy = policy(&allow.to_string(), ResponseMode::Collected(1000));
    Gate::pooled(policy, Arc::default())
}

/// Returns the gate of a turn of term 7, and the guard that keeps the turn open.
fn turn_gate(allow: impl ToString, lease: Lease) -> (Gate, Connections) {
    let connections = Outlet::for_component().open(7, "jobs/report", lease);
    let policy = policy(&allow.to_string(), ResponseMode::Streamed(1000));
    (Gate::for_turn(policy, &connections, Arc::new(|_| {}), Budget::unlimited()), connections)
}

fn unlimited_lease() -> Lease {
    Lease::new(1, BootClock::new().handle(), Duration::MAX)
}

async fn send(gate: &Gate, url: &str, body: &'static str) -> Result<(StatusCode, String), Error> {
    let body: Body = match body {
        "" => Empty::new().map_err(|never| match never {}).boxed_unsync(),
        text => Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed_unsync(),
    };
    let request = http::Request::put(url).header("host", "evil").body(body).unwrap();
    let limits = Limits {
        first_byte: Some(Duration::from_millis(if url.contains("never") { 20 } else { 9000 })),
        ..Limits::default()
    };
    let (head, body) = gate.clone().send(request, limits).await?.into_parts();
    let body = body.collect().await?.to_bytes();
    Ok((head.status, String::from_utf8_lossy(&body).into_owned()))
}

#[tokio::test]
async fn requests_share_a_connection() {
    let server = server().await;
    let (turn, _connections) = turn_gate(server.address, unlimited_lease());
    for gate in [component_gate(server.address), turn] {
        for _ in 0..3 {
            let answer = send(&gate, &format!("http://{}/", server.address), "").await.unwrap();
            assert_eq!(answer, (StatusCode::OK, "hello".to_owned()));
        }
        let arrived = std::mem::take(&mut *server.arrived.lock().unwrap());
        assert_eq!(arrived.len(), 3);
        assert!(arrived.iter().all(|peer| peer == &arrived[0]), "{arrived:?}");
    }
}

#[tokio::test]
async fn a_body_arrives_whole() {
    let server = server().await;
    let (turn, _connections) = turn_gate(server.address, unlimited_lease());
    for gate in [component_gate(server.address), turn] {
        let answer = send(&gate, &format!("http://{}/echo", server.address), "body").await.unwrap();
        assert_eq!(answer.1, "body");
    }
}

#[tokio::test]
async fn denied_requests_are_not_sent() {
    let server = server().await;
    let gate = component_gate("127.0.0.1:1");
    let denied = send(&gate, &format!("http://{}/", server.address), "").await;
    assert!(matches!(denied, Err(Error::Denied)), "{denied:?}");
    let gate = component_gate(server.address);
    let named = send(&gate, &format!("http://user@{}/", server.address), "").await;
    assert!(matches!(named, Err(Error::InvalidUrl)), "{named:?}");
    assert_eq!(server.arrived(), 0);
}

#[tokio::test]
async fn redirects_are_returned() {
    let server = server().await;
    let (turn, _connections) = turn_gate(server.address, unlimited_lease());
    for gate in [component_gate(server.address), turn] {
        let answer = send(&gate, &format!("http://{}/redirect", server.address), "").await.unwrap();
        assert_eq!(answer.0, StatusCode::FOUND);
    }
    assert_eq!(server.arrived(), 2);
}

#[tokio::test]
async fn responses_are_bounded_in_size_and_time() {
    let server = server().await;
    let (turn, _connections) = turn_gate(server.address, unlimited_lease());
    for gate in [component_gate(server.address), turn] {
        let large = send(&gate, &format!("http://{}/large", server.address), "").await;
        assert!(matches!(large, Err(Error::ResponseTooLarge)), "{large:?}");
        let never = send(&gate, &format!("http://{}/never", server.address), "").await;
        assert!(matches!(never, Err(Error::ResponseTimeout)), "{never:?}");
    }
}

#[tokio::test]
async fn errors_keep_their_kind() {
    for is_turn in [false, true] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (turn, _connections) = turn_gate(address, unlimited_lease());
        let gate = if is_turn { turn } else { component_gate(address) };
        let closes = async {
            drop(listener.accept().await.unwrap());
            drop(listener);
        };
        let url = format!("http://{address}/");
        let (closed, ()) = tokio::join!(send(&gate, &url, ""), closes);
        assert!(matches!(closed, Err(Error::ConnectionClosed)), "{closed:?}");
        let refused = send(&gate, &url, "").await;
        assert!(matches!(refused, Err(Error::ConnectionRefused)), "{refused:?}");
    }
}

#[tokio::test]
async fn a_failed_handshake_sent_no_request_of_a_turn() {
    for is_turn in [false, true] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (turn, _connections) = turn_gate(address, unlimited_lease());
        let gate = if is_turn { turn } else { component_gate(address) };
        let closes = async { drop(listener.accept().await.unwrap()) };
        let url = format!("https://{address}/");
        let (closed, ()) = tokio::join!(send(&gate, &url, ""), closes);
        match is_turn {
            // Certainly nothing arrived.
            true => assert!(matches!(closed, Err(Error::ConnectionRefused)), "{closed:?}"),
            false => assert!(matches!(closed, Err(Error::ConnectionClosed)), "{closed:?}"),
        }
    }
}

#[tokio::test]
async fn a_handler_sets_its_connect_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (gate, _connections) = turn_gate(address, unlimited_lease());
    let body = Empty::new().map_err(|never| match never {}).boxed_unsync();
    // The server never answers the handshake.
    let request = http::Request::get(format!("https://{address}/")).body(body).unwrap();
    let connect = Some(Duration::from_millis(20));
    // Shorter than the default connect timeout, and with another error.
    let first_byte = Some(Duration::from_secs(5));
    let limits = Limits { connect, first_byte, ..Limits::default() };
    let late = gate.send(request, limits).await;
    assert!(matches!(late, Err(Error::ConnectTimeout)), "{late:?}");
}

#[tokio::test]
async fn nothing_but_requests_leaves() {
    let server = server().await;
    let (turn, _connections) = turn_gate(server.address, unlimited_lease());
    let body = Empty::new().map_err(|never| match never {}).boxed_unsync();
    let tunnel = http::Request::connect(format!("http://{}/", server.address)).body(body).unwrap();
    let refused = turn.send(tunnel, Limits::default()).await;
    assert!(matches!(refused, Err(Error::InvalidMethod)), "{refused:?}");
    assert_eq!(server.arrived(), 0);
}

#[tokio::test]
async fn an_upgraded_connection_is_closed() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (gate, _connections) = turn_gate(address, unlimited_lease());
    let switches = async {
        let (mut peer, _) = listener.accept().await.unwrap();
        let mut request_bytes = vec![0; 4096];
        let _ = peer.read(&mut request_bytes).await.unwrap();
        let switched =
            b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n";
        peer.write_all(switched).await.unwrap();
        peer
    };
    let body = Empty::new().map_err(|never| match never {}).boxed_unsync();
    let request = http::Request::get(format!("http://{address}/")).body(body).unwrap();
    let send = gate.clone().send(request, Limits::default());
    let (_answer, mut peer) = tokio::join!(send, switches);
    // While the response is still held.
    let mut end = [0];
    let closed = timeout(Duration::from_secs(90), peer.read(&mut end)).await;
    assert_eq!(closed.expect("it is still open").unwrap(), 0);
}

/// Linux shows the active timer of a connection: 2 is the keepalive timer.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_peer_that_vanished_is_noticed() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (gate, _connections) = turn_gate(address, unlimited_lease());
    let body = Empty::new().map_err(|never| match never {}).boxed_unsync();
    let request = http::Request::get(format!("http://{address}/")).body(body).unwrap();
    let connection_state = async {
        let (mut peer, from) = listener.accept().await.unwrap();
        let _ = peer.read(&mut [0; 4096]).await.unwrap();
        let [from, to] = [from, address].map(|at| format!(":{:04X}", at.port()));
        loop {
            let all = std::fs::read_to_string("/proc/net/tcp").unwrap();
            let mut rows = all.lines().map(|row| row.split_whitespace().collect::<Vec<_>>());
            let row = rows.find(|row| row[1].ends_with(&from) && row[2].ends_with(&to));
            let row = row.expect("the connection");
            // Until written data are acknowledged, the connection has another timer.
            if !row[5].starts_with("01") {
                return row[5][..2].to_owned();
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        timer = connection_state => assert_eq!(timer, "02"),
        sent = gate.send(request, Limits::default()) => panic!("{sent:?}"),
    }
}

#[tokio::test]
async fn an_untrusted_server_receives_no_request() {
    let server = server().await;
    let (turn, _connections) = turn_gate(server.address, unlimited_lease());
    for gate in [component_gate(server.address), turn] {
        let plain = send(&gate, &format!("https://{}/", server.address), "").await;
        assert!(matches!(&plain, Err(Error::Tls(_))));
    }
    assert_eq!(server.arrived(), 0);
}

#[tokio::test]
async fn a_handler_reaches_this_machine_by_address_only() {
    let server = server().await;
    let allow = format!("localhost:{}", server.address.port());
    let (by_name, _connections) = turn_gate(&allow, unlimited_lease());
    let refused = send(&by_name, &format!("http://{allow}/"), "").await;
    assert!(matches!(refused, Err(Error::AddressDenied)), "{refused:?}");
    assert_eq!(server.arrived(), 0);
    let component = component_gate(&allow);
    assert!(send(&component, &format!("http://{allow}/"), "").await.is_ok());
    // The URL of an operator.
    let connections = Outlet::for_operator().open(7, "jobs/one", unlimited_lease());
    let webhook = Gate::for_turn(
        policy(&allow, ResponseMode::Streamed(1000)),
        &connections,
        Arc::new(|_| {}),
        Budget::unlimited(),
    );
    assert!(send(&webhook, &format!("http://{allow}/"), "").await.is_ok());
}

/// Joins the queue in this call.
fn get(
    gate: &Gate,
    server: &Server,
    path: &str,
    patience: u64,
) -> impl Future<Output = Result<http::Response<Body>, Error>> + use<> {
    let body = Empty::new().map_err(|never| match never {}).boxed_unsync();
    let url = format!("http://{}{path}", server.address);
    let request = http::Request::get(url).body(body).unwrap();
    let first_byte = Some(Duration::from_millis(patience));
    let limits = Limits { first_byte, ..Limits::default() };
    gate.clone().send(request, limits)
}

#[tokio::test]
async fn requests_above_the_limit_of_a_turn_wait() {
    let server = server().await;
    let (gate, _connections) = turn_gate(server.address, unlimited_lease());
    let get_root = |patience| get(&gate, &server, "/", patience);
    let mut unread = Vec::new();
    for _ in 0..MAX_REQUESTS {
        unread.push(get_root(30_000).await.unwrap());
    }
    let one_more = get_root(20).await;
    assert!(matches!(one_more, Err(Error::TooManyRequests)), "{one_more:?}");
    assert_eq!(server.arrived(), MAX_REQUESTS);
    unread.pop();
    assert!(get_root(30_000).await.is_ok());
}

#[tokio::test]
async fn no_request_of_a_turn_overtakes_an_earlier_one() {
    let server = server().await;
    let (gate, _connections) = turn_gate(server.address, unlimited_lease());
    // Not polled yet. Tasks that another thread has not reached are in the same state.
    let mut earlier: Vec<_> =
        (0..MAX_REQUESTS).map(|_| Box::pin(get(&gate, &server, "/", 30_000))).collect();
    let later = get(&gate, &server, "/", 20).await;
    assert!(matches!(later, Err(Error::TooManyRequests)), "{later:?}");
    assert!(earlier.remove(0).await.is_ok());
    assert!(get(&gate, &server, "/", 30_000).await.is_ok());
}

#[tokio::test]
async fn a_response_without_a_body_frees_its_slot() {
    let server = server().await;
    let (gate, _connections) = turn_gate(server.address, unlimited_lease());
    let mut responses = Vec::new();
    for _ in 0..=MAX_REQUESTS {
        responses.push(get(&gate, &server, "/empty", 30_000).await.unwrap());
    }
    assert_eq!(server.arrived(), MAX_REQUESTS + 1);
}
