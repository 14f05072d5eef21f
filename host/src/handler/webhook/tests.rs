//! Turns that are posted to a server on loopback.

use super::*;
use std::io::ErrorKind;
use tenure_clock::{BootClock, Clock};
use tenure_core::{Share, Timestamp};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Limit for a test that would otherwise hang.
const SOON: Duration = Duration::from_secs(90);

fn turn() -> Turn {
    Turn {
        election: "jobs/report".to_owned(),
        key: "acme/jobs/report/1970-01-01T00:00:01.500Z".to_owned(),
        term: 7,
        slot: Timestamp(1_500_000_000),
        trigger: None,
        attempt: 1,
        past_due: false,
        missed: 0,
        valid_for: Duration::from_secs(1),
        time_limit: None,
        share: Some(Share { index: 3, count: 8 }),
    }
}

fn handler(url: &str, timeout: &str) -> WebhookHandler {
    handler_with(url, timeout, false, None)
}

fn handler_with(
    url: &str,
    timeout: &str,
    retries: bool,
    output: Option<LineSink>,
) -> WebhookHandler {
    let variables = Variables::new().with(variable::URL, url).with(variable::TIMEOUT, timeout);
    let authorities = RootCertificates::default();
    WebhookHandler::new(variables, authorities, retries, output, &BootClock::new()).unwrap()
}

fn unlimited_lease() -> Lease {
    Lease::new(1, BootClock::new().handle(), Duration::MAX)
}

async fn listen() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

/// Runs a turn and its server, and returns their outcomes.
async fn join_within<T, S>(
    turn: impl Future<Output = T>,
    server: impl Future<Output = S>,
) -> (T, S) {
    let both = async { tokio::join!(turn, server) };
    timeout(SOON, both).await.expect("they meet")
}

/// Reads the whole request.
async fn read_request(peer: &mut TcpStream) -> String {
    let mut received = String::new();
    while !received.ends_with('}') {
        let mut some = [0; 4096];
        let count = peer.read(&mut some).await.unwrap();
        assert!(count > 0, "{received}");
        received.push_str(std::str::from_utf8(&some[..count]).unwrap());
    }
    received
}

/// Returns the end of a turn whose call gets this response, and the request.
async fn call_with_answer(path: &str, answer: &str) -> (TurnEnd, String) {
    let (listener, port) = listen().await;
    let handler = handler(&format!("http://localhost:{port}{path}"), "");
    let serve = async {
        let (mut peer, _) = listener.accept().await.unwrap();
        let received = read_request(&mut peer).await;
        peer.write_all(answer.as_bytes()).await.unwrap();
        received
    };
    join_within(handler.on_tick(turn(), unlimited_lease()), serve).await
}

#[tokio::test]
async fn a_turn_is_posted_to_a_name_of_this_machine_with_its_term() {
    let ok = "HTTP/1.1 204 No Content\r\n\r\n";
    let (end, received) = call_with_answer("/a?b=c", ok).await;
    assert_eq!(end, TurnEnd::Succeeded);
    let (head, body) = received.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /a?b=c HTTP/1.1\r\n"), "{head}");
    for header in [
        "tenure-term: 7".to_owned(),
        "tenure-election: jobs/report".to_owned(),
        "idempotency-key: acme/jobs/report/1970-01-01T00:00:01.500Z".to_owned(),
        "content-type: application/json".to_owned(),
        format!("content-length: {}", body.len()),
    ] {
        assert_eq!(head.matches(&format!("\r\n{header}")).count(), 1, "{header}: {head}");
    }
    assert_eq!(
        body,
        r#"{"election":"jobs/report","term":7,"slot":"1970-01-01T00:00:01.500Z","trigger":null,"attempt":1,"past_due":false,"missed":0,"valid_for_ms":1000,"share":{"index":3,"count":8}}"#
    );
}

#[tokio::test]
async fn a_non_2xx_answer_fails_the_turn_with_an_excerpt() {
    let failed = |text: &str| TurnEnd::Failed(format!("the webhook answered {text}"));
    let busy = "HTTP/1.1 503 Busy\r\ncontent-length: 4\r\n\r\nbusy";
    assert_eq!(call_with_answer("/", busy).await.0, failed("503: busy"));
    // The rest never arrives.
    let stops = "HTTP/1.1 500 No\r\ncontent-length: 400\r\n\r\nno disk";
    assert_eq!(call_with_answer("/", stops).await.0, failed("500: no disk"));
    let redirect = "HTTP/1.1 307 Elsewhere\r\nlocation: /b\r\ncontent-length: 0\r\n\r\n";
    assert_eq!(call_with_answer("/", redirect).await.0, failed("307"));
    let quotes = "HTTP/1.1 404 No\r\ncontent-length: 24\r\n\r\nno route /hooks/S3CRETS3";
    let (end, _) = call_with_answer("/hooks/S3CRETS3CRET", quotes).await;
    assert_eq!(end, failed("404, with a text that is not shown, since it repeats the URL"));
    let (end, _) = call_with_answer("/", "nonsense").await;
    let TurnEnd::Failed(text) = end else { panic!("{end:?}") };
    assert!(text.starts_with("the webhook could not be called ("), "{text}");
}

#[tokio::test]
async fn a_call_ends_at_its_own_timeout() {
    let (listener, port) = listen().await;
    let slow = handler(&format!("http://127.0.0.1:{port}/"), "30ms");
    let late = "the webhook did not answer within 30 ms".to_owned();
    assert_eq!(slow.on_tick(turn(), unlimited_lease()).await, TurnEnd::Failed(late));
    let (mut given_up, _) = listener.accept().await.unwrap();
    let mut all = Vec::new();
    let ended = timeout(SOON, given_up.read_to_end(&mut all)).await.expect("the connection ends");
    // Data that the receiver has not read yet are discarded.
    assert_eq!(ended.unwrap_err().kind(), ErrorKind::ConnectionReset);
    // With renewals, a turn may last longer than its initial validity.
    let handler = handler(&format!("http://127.0.0.1:{port}/"), "");
    let serve = async {
        let (mut peer, _) = listener.accept().await.unwrap();
        read_request(&mut peer).await;
        // Longer than that.
        tokio::time::sleep(Duration::from_millis(50)).await;
        peer.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
        peer
    };
    let short = Turn { valid_for: Duration::from_nanos(1), ..turn() };
    let (end, _) = join_within(handler.on_tick(short, unlimited_lease()), serve).await;
    assert_eq!(end, TurnEnd::Succeeded);
}

#[tokio::test]
async fn an_unreachable_webhook_is_reported() {
    let (listener, port) = listen().await;
    let url = format!("http://127.0.0.1:{port}/S3CRETS3CRET");
    let handler = handler(&url, "400ms");
    let (end, ()) = join_within(handler.on_tick(turn(), unlimited_lease()), async {
        drop(listener.accept().await.unwrap());
        drop(listener);
    })
    .await;
    let failed = |text: &str| TurnEnd::Failed(format!("the webhook {text}"));
    assert_eq!(end, failed("closed the connection before it answered"));
    let end = handler.on_tick(turn(), unlimited_lease()).await;
    assert_eq!(end, failed("does not accept a connection"));
    assert!(!format!("{handler:?}").contains("S3CRET"), "{handler:?}");
}

#[tokio::test]
async fn nothing_is_sent_after_the_lease() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let handler = handler(&format!("http://{}/", listener.local_addr().unwrap()), "");
    let expired = Lease::new(1, BootClock::new().handle(), Duration::ZERO);
    assert_eq!(handler.on_tick(turn(), expired).await, TurnEnd::CutOff);
    let no_connection = listener.accept().unwrap_err();
    assert_eq!(no_connection.kind(), std::io::ErrorKind::WouldBlock);
}

#[tokio::test]
async fn the_connection_is_cut_when_the_turn_is() {
    let (listener, port) = listen().await;
    let handler = handler(&format!("http://127.0.0.1:{port}/"), "");
    let lease = unlimited_lease();
    let mut running = handler.on_tick(turn(), lease.clone());
    let mut peer = tokio::select! {
        biased;
        end = &mut running => panic!("{end:?}"),
        peer = async { let mut peer = listener.accept().await.unwrap().0; read_request(&mut peer).await; peer } => peer,
    };
    // The runner does the same.
    lease.set_valid_until(Duration::ZERO);
    drop(running);
    let mut remainder = Vec::new();
    let read = timeout(SOON, peer.read_to_end(&mut remainder)).await.expect("the connection ends");
    // A reset, so that the kernel sends no buffered data.
    assert_eq!(read.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
    assert_eq!(remainder, b"");
}

/// Answers each request with the next response; an empty one closes the connection. Returns the
/// requests.
async fn serve(listener: &TcpListener, answers: &[&str]) -> Vec<String> {
    let mut received = Vec::new();
    let mut peer: Option<TcpStream> = None;
    for answer in answers {
        let mut connection = match peer.take() {
            Some(connection) => connection,
            None => listener.accept().await.unwrap().0,
        };
        received.push(read_request(&mut connection).await);
        connection.write_all(answer.as_bytes()).await.unwrap();
        peer = Some(connection).filter(|_| !answer.is_empty());
    }
    received
}

const OK: &str = "HTTP/1.1 204 No Content\r\n\r\n";
const BUSY: &str = "HTTP/1.1 503 Busy\r\ncontent-length: 4\r\n\r\nbusy";

#[tokio::test]
async fn at_least_once_retries_a_failed_call_as_the_same_turn() {
    let (listener, port) = listen().await;
    let lines = Arc::new(Mutex::new(Vec::new()));
    let (sink, output): (_, LineSink) = (lines.clone(), {
        let received = lines.clone();
        Arc::new(move |_, line| received.lock().unwrap().push(line))
    });
    let handler = handler_with(&format!("http://127.0.0.1:{port}/"), "", true, Some(output));
    let turn_of = turn();
    let (end, requests) =
        join_within(handler.on_tick(turn_of, unlimited_lease()), serve(&listener, &[BUSY, "", OK]))
            .await;
    assert_eq!(end, TurnEnd::Succeeded);
    for request in &requests {
        assert!(request.contains("idempotency-key: acme/jobs/report/1970-01-01T00:00:01.500Z"));
        assert!(request.contains(r#""attempt":1,"#), "{request}");
    }
    let written = sink.lock().unwrap().clone();
    assert_eq!(
        written,
        [
            "tenure: the webhook answered 503: busy; retrying in 500ms",
            "tenure: the webhook closed the connection before it answered; retrying in 1s",
        ]
    );
}

#[tokio::test]
async fn at_most_once_never_retries_a_call_that_may_have_arrived() {
    for (answer, detail) in
        [(BUSY, "answered 503: busy"), ("", "closed the connection before it answered")]
    {
        let (listener, port) = listen().await;
        let handler = handler(&format!("http://127.0.0.1:{port}/"), "");
        let (end, requests) =
            join_within(handler.on_tick(turn(), unlimited_lease()), serve(&listener, &[answer]))
                .await;
        assert_eq!(end, TurnEnd::Failed(format!("the webhook {detail}")));
        assert_eq!(requests.len(), 1);
        listener.into_std().unwrap().accept().unwrap_err();
    }
}

#[tokio::test]
async fn a_call_that_did_not_arrive_is_retried_with_any_delivery() {
    let (listener, port) = listen().await;
    // No process listens there any more. The kernel does not assign the port to others yet.
    drop(listener);
    let (line_sender, mut line_receiver) = tokio::sync::mpsc::unbounded_channel();
    let lines: LineSink = Arc::new(move |_, line| line_sender.send(line).unwrap());
    let handler = handler_with(&format!("http://127.0.0.1:{port}/"), "", false, Some(lines));
    let begin = async {
        let line = line_receiver.recv().await.unwrap();
        assert!(line.contains("does not accept a connection; retrying in 500ms"), "{line}");
        let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
        serve(&listener, &[OK]).await
    };
    let (end, requests) = join_within(handler.on_tick(turn(), unlimited_lease()), begin).await;
    assert_eq!((end, requests.len()), (TurnEnd::Succeeded, 1));
}

#[tokio::test]
async fn a_retry_after_beyond_the_time_limit_ends_the_turn() {
    let (listener, port) = listen().await;
    let handler = handler_with(&format!("http://127.0.0.1:{port}/"), "5s", true, None);
    let busy = "HTTP/1.1 429 Wait\r\nretry-after: 60\r\ncontent-length: 0\r\n\r\n";
    let (end, _) =
        join_within(handler.on_tick(turn(), unlimited_lease()), serve(&listener, &[busy])).await;
    assert_eq!(end, TurnEnd::Failed("the webhook answered 429".to_owned()));
}
