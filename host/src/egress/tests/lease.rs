//! Nothing is sent after the deadline, nor after the turn. The tests use raw sockets, a manual
//! clock, and one thread, so that other tasks run only while a test waits.

use super::super::gate::Gate;
use super::super::{Body, Error, Limits, Outlet};
use super::{Budget, ResponseMode, policy, turn_gate, unlimited_lease};
use crate::lease::Lease;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use std::future::{pending, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;
use tenure_clock::Clock;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::timeout;

/// Clock that stands still until the test passes the deadline.
#[derive(Clone, Default)]
pub(super) struct ManualClock(Arc<AtomicBool>);

impl Clock for ManualClock {
    fn now(&self) -> Duration {
        Duration::from_secs(if self.0.load(Ordering::SeqCst) { 11 } else { 0 })
    }

    async fn sleep_until(&self, _: Duration) {
        pending().await
    }
}

impl ManualClock {
    pub(super) fn lease(&self) -> Lease {
        Lease::new(1, self.handle(), Duration::from_secs(11))
    }

    pub(super) fn expire(&self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// More than the kernel buffers for a receiver with a small window that does not read.
const LARGE: usize = 8 * 1024 * 1024;

pub(super) fn listen() -> TcpListener {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    socket.listen(8).unwrap()
}

fn request(listener: &TcpListener, body: usize) -> http::Request<Body> {
    let body = Full::new(Bytes::from(vec![b'x'; body])).map_err(|never| match never {});
    let url = format!("http://{}/", listener.local_addr().unwrap());
    http::Request::post(url).body(body.boxed_unsync()).unwrap()
}

/// Reads up to the end of a request head.
async fn head(peer: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(peer.read_u8().await.unwrap());
    }
    String::from_utf8(head).unwrap()
}

/// Returns the number of bytes that still arrive before the connection ends.
pub(super) async fn count_to_end(peer: &mut TcpStream) -> usize {
    let mut bytes = Vec::new();
    let _ = peer.read_to_end(&mut bytes).await;
    bytes.len()
}

async fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    let mut future = Some(future);
    poll_fn(|cx| Poll::Ready(future.take().unwrap().poll(cx))).await
}

#[tokio::test]
async fn a_request_whose_deadline_passes_while_it_connects_is_not_sent() {
    let (clock, listener) = (ManualClock::default(), listen());
    let (gate, _connections) = turn_gate(listener.local_addr().unwrap(), clock.lease());
    let mut sending = pin!(gate.send(request(&listener, 10), Limits::default()));
    assert!(poll_once(sending.as_mut()).await.is_pending());
    clock.expire();
    let sent = sending.await;
    assert!(matches!(sent, Err(Error::Denied)), "{sent:?}");
    let (mut peer, _) = listener.accept().await.unwrap();
    assert_eq!(count_to_end(&mut peer).await, 0);
}

/// Completes a request. Its connection then waits for the next one.
async fn exchange(gate: &Gate, listener: &TcpListener) -> TcpStream {
    let answer = async {
        let (mut peer, _) = listener.accept().await.unwrap();
        head(&mut peer).await;
        peer.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello").await.unwrap();
        peer
    };
    let send = gate.clone().send(request(listener, 0), Limits::default());
    let (sent, peer) = tokio::join!(send, answer);
    assert_eq!(sent.unwrap().into_body().collect().await.unwrap().to_bytes(), "hello");
    tokio::task::yield_now().await;
    peer
}

#[tokio::test]
async fn a_request_whose_deadline_passes_in_the_queue_of_its_connection_is_not_sent() {
    let (clock, listener) = (ManualClock::default(), listen());
    let (gate, _connections) = turn_gate(listener.local_addr().unwrap(), clock.lease());
    let mut peer = exchange(&gate, &listener).await;
    let mut sending = pin!(gate.send(request(&listener, 10), Limits::default()));
    assert!(poll_once(sending.as_mut()).await.is_pending());
    clock.expire();
    let sent = sending.await;
    assert!(matches!(sent, Err(Error::Denied)), "{sent:?}");
    assert_eq!(count_to_end(&mut peer).await, 0);
    // The request waited for that connection, not for a new one.
    assert!(poll_once(pin!(listener.accept())).await.is_pending());
}

#[tokio::test]
async fn the_remainder_of_a_body_is_not_sent_after_the_deadline() {
    let (clock, listener) = (ManualClock::default(), listen());
    let (gate, _connections) = turn_gate(listener.local_addr().unwrap(), clock.lease());
    let receive = async {
        let (mut peer, _) = listener.accept().await.unwrap();
        head(&mut peer).await;
        clock.expire();
        count_to_end(&mut peer).await
    };
    let send = gate.send(request(&listener, LARGE), Limits::default());
    let (sent, arrived) = tokio::join!(send, receive);
    assert!(matches!(sent, Err(Error::Denied)), "{sent:?}");
    assert!(arrived < LARGE, "all of it arrived");
}

#[tokio::test]
async fn an_answer_ends_at_the_deadline() {
    let (clock, listener) = (ManualClock::default(), listen());
    let (gate, _connections) = turn_gate(listener.local_addr().unwrap(), clock.lease());
    let answer = async {
        let (mut peer, _) = listener.accept().await.unwrap();
        head(&mut peer).await;
        peer.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhello").await.unwrap();
        peer
    };
    let send = gate.send(request(&listener, 0), Limits::default());
    let (sent, mut peer) = tokio::join!(send, answer);
    let mut body = sent.unwrap().into_body();
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "hello");
    peer.write_all(b"world").await.unwrap();
    clock.expire();
    let late = body.frame().await;
    assert!(matches!(late, Some(Err(Error::ConnectionClosed))), "{late:?}");
}

#[tokio::test]
async fn nothing_is_sent_after_the_end_of_the_turn() {
    let listener = listen();
    let (gate, connections) = turn_gate(listener.local_addr().unwrap(), unlimited_lease());
    let mut uploading = pin!(gate.clone().send(request(&listener, LARGE), Default::default()));
    let (mut peer, _) = tokio::select! {
        peer = listener.accept() => peer.unwrap(),
        sent = &mut uploading => panic!("{sent:?}"),
    };
    let received = tokio::select! {
        head = head(&mut peer) => head,
        sent = &mut uploading => panic!("{sent:?}"),
    };
    assert!(received.starts_with("POST / "), "{received}");
    drop(connections);
    let (sent, arrived) = tokio::join!(uploading, count_to_end(&mut peer));
    assert!(matches!(sent, Err(Error::Denied)), "{sent:?}");
    assert!(arrived < LARGE, "all of it arrived");
    // Other holders of a gate of the turn cannot send either.
    let late = gate.send(request(&listener, 0), Default::default()).await;
    assert!(matches!(late, Err(Error::Denied)), "{late:?}");
    assert!(poll_once(pin!(listener.accept())).await.is_pending());
}

#[tokio::test]
async fn a_turn_is_over_when_its_connections_are_closed() {
    let listener = listen();
    let outlet = Outlet::for_component();
    assert!(poll_once(pin!(outlet.closed())).await.is_ready(), "there was no turn");
    let connections = outlet.open(7, "jobs/report", unlimited_lease());
    let policy = policy(&listener.local_addr().unwrap().to_string(), ResponseMode::Streamed(1000));
    let gate = Gate::for_turn(policy, &connections, Arc::new(|_| {}), Budget::unlimited());
    let mut peer = exchange(&gate, &listener).await;
    drop((gate, connections));
    // The task that owns the connection did not run yet.
    assert!(poll_once(pin!(outlet.closed())).await.is_pending());
    outlet.closed().await;
    let mut end = [0];
    assert_eq!(peer.try_read(&mut end).ok(), Some(0), "it is still open");
    assert_eq!(count_to_end(&mut peer).await, 0);
}

#[tokio::test]
async fn a_connection_that_waits_for_its_answer_ends_with_the_turn() {
    let listener = listen();
    let (gate, connections) = turn_gate(listener.local_addr().unwrap(), unlimited_lease());
    let send = gate.send(request(&listener, 0), Limits::default());
    let receive = async {
        let (mut peer, _) = listener.accept().await.unwrap();
        head(&mut peer).await;
        drop(connections);
        count_to_end(&mut peer).await
    };
    let both = async { tokio::join!(send, receive) };
    let (sent, more) = timeout(Duration::from_secs(90), both).await.expect("the end");
    assert!(matches!(sent, Err(Error::Denied)), "{sent:?}");
    assert_eq!(more, 0);
}
