//! The memory that the host holds for a turn is bounded for any number of requests.

use super::super::turn::{MAX_REQUESTS, READ_AHEAD};
use super::super::{Body, Error, Limits};
use super::lease::listen;
use super::{Budget, Gate, Outlet, ResponseMode, policy, server, unlimited_lease};
use bytes::Bytes;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use http_body_util::{BodyExt, Empty, Full};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const MIB: usize = 1024 * 1024;

type Notices = Arc<Mutex<Vec<String>>>;

/// Returns a turn with a budget, and the guard that keeps it open.
fn turn(allow: impl ToString, budget: &Budget) -> (Gate, Notices, impl Sized) {
    let connections = Outlet::for_component().open(7, "jobs/one", unlimited_lease());
    let policy = policy(&allow.to_string(), ResponseMode::Streamed(u64::MAX));
    let notices = Notices::default();
    let sink = notices.clone();
    let sink = Arc::new(move |text| sink.lock().unwrap().push(text));
    (Gate::for_turn(policy, &connections, sink, budget.clone()), notices, connections)
}

fn post(url: &str, size: usize) -> http::Request<Body> {
    let body = Full::new(Bytes::from(vec![b'x'; size])).map_err(|never| match never {});
    http::Request::post(url).body(body.boxed_unsync()).unwrap()
}

#[tokio::test]
async fn bodies_under_way_have_one_budget() {
    // Accepts connections, and reads nothing.
    let listener = listen();
    let address = listener.local_addr().unwrap();
    let budget = Budget::for_requests(32 * MIB);
    let (gate, notices, _turn) = turn(address, &budget);
    let url = format!("http://{address}/");
    let send = |_| gate.clone().send(post(&url, 7 * MIB), Limits::default());
    let mut sent: FuturesUnordered<_> = (0..MAX_REQUESTS).map(send).collect();
    let mut refused = 0;
    while let Some(answer) = sent.next().now_or_never().flatten() {
        let unsent = matches!(answer, Err(Error::RequestTooLarge(_) | Error::Other(_)));
        assert!(unsent, "{answer:?}");
        refused += 1;
    }
    assert_eq!(refused, MAX_REQUESTS - 4);
    let texts = notices.lock().unwrap().clone();
    assert_eq!(texts.len(), refused);
    assert!(texts[0].contains("holds at most 42 MiB"), "{texts:?}");
    // The bodies remain until no caller waits for them and their connections are closed.
    assert!(budget.charge(5 * MIB).is_none());
    drop(sent);
    drop((gate, _turn));
    while budget.charge(32 * MIB).is_none() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn waiting_requests_count_too() {
    let budget = Budget::for_requests(MIB);
    let (gate, notices, _turn) = turn("127.0.0.1:9", &budget);
    let long = format!("http://127.0.0.1:9/{}", "x".repeat(60_000));
    let empty = || Empty::new().map_err(|never| match never {}).boxed_unsync();
    let get = || http::Request::get(&long).body(empty()).unwrap();
    // Not polled yet.
    let send = |request| gate.clone().send(request, Limits::default());
    let waiting: Vec<_> = (0..17).map(|_| send(get())).collect();
    let refused = send(get()).await;
    assert!(matches!(refused, Err(Error::Other(_))), "{refused:?}");
    assert!(notices.lock().unwrap()[0].starts_with("a request did not fit"));
    drop(waiting);
    let open: Vec<_> =
        (0..MIB / Budget::OPEN_BODY).map(|_| send(post("http://127.0.0.1:9/", 1))).collect();
    let refused = send(post("http://127.0.0.1:9/", 1)).await;
    assert!(matches!(refused, Err(Error::Other(_))), "{refused:?}");
    drop(open);
    assert!(budget.charge(MIB).is_some());
}

#[tokio::test]
async fn a_body_that_was_sent_makes_room_for_the_next_one() {
    let server = server().await;
    let budget = Budget::for_requests(8 * MIB);
    let (gate, notices, _turn) = turn(server.address, &budget);
    for _ in 0..8 {
        let request = post(&format!("http://{}/echo", server.address), MIB);
        let answer = gate.clone().send(request, Limits::default()).await.unwrap();
        assert_eq!(answer.into_body().collect().await.unwrap().to_bytes().len(), MIB);
    }
    assert_eq!(*notices.lock().unwrap(), [""; 0]);
}

/// Answers each request with a head of nearly the maximum size, and `body`.
async fn large_heads(body: &'static str) -> std::net::SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut peer, _)) = listener.accept().await {
            let mut head = [0; 4096];
            assert!(peer.read(&mut head).await.unwrap() > 0);
            let (large, size) = ("x".repeat(READ_AHEAD - 4096), body.len());
            let answer =
                format!("HTTP/1.1 200 OK\r\nx: {large}\r\ncontent-length: {size}\r\n\r\n{body}");
            // A client that has enough may be gone.
            let _ = peer.write_all(answer.as_bytes()).await;
        }
    });
    address
}

#[tokio::test]
async fn heads_of_answers_count_until_these_are_dropped() {
    let address = large_heads("").await;
    // Room for eight responses, of which the last one needs slightly more before it arrives.
    let budget = Budget::for_requests(MIB + 32 * 1024);
    let (gate, notices, _turn) = turn(address, &budget);
    let get = || gate.clone().send(post(&format!("http://{address}/"), 0), Limits::default());
    let mut answers = Vec::new();
    for _ in 0..8 {
        answers.push(get().await.unwrap());
    }
    // The request is not even sent.
    let full = get().await;
    assert!(matches!(full, Err(Error::Other(_))), "{full:?}");
    assert!(notices.lock().unwrap()[0].starts_with("the answer to a request did not fit"));
    answers.pop();
    get().await.unwrap();
}

#[tokio::test]
async fn a_large_head_with_a_body_may_exceed_the_budget() {
    let address = large_heads("body").await;
    let budget = Budget::for_requests(READ_AHEAD + READ_AHEAD / 2);
    let (gate, notices, _turn) = turn(address, &budget);
    let url = format!("http://{address}/");
    let full = gate.clone().send(post(&url, 0), Limits::default()).await;
    assert!(matches!(full, Err(Error::ResponseHeadTooLarge)), "{full:?}");
    assert!(notices.lock().unwrap()[0].starts_with("the head of an answer did not fit"));
}
