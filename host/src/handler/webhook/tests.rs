//! Turns that are posted, with a server on loopback.

use super::*;
use std::io::ErrorKind;
use tenure_clock::{BootClock, Clock};
use tenure_core::{Share, Timestamp};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// For what has no bound of its own.
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
    delivering(url, timeout, false, None)
}

fn delivering(url: &str, timeout: &str, repeats: bool, output: Option<LineSink>) -> WebhookHandler {
    let variables = Variables::new().with(variable::URL, url).with(variable::TIMEOUT, timeout);
    let authorities = Authorities::default();
    WebhookHandler::new(variables, authorities, repeats, output, &BootClock::new()).unwrap()
}

fn for_ever() -> Lease {
    Lease::new(1, BootClock::new().reading(), Duration::MAX)
}

async fn listen() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

/// The outcomes of a turn and of its server.
async fn both<T, S>(turn: impl Future<Output = T>, server: impl Future<Output = S>) -> (T, S) {
    let both = async { tokio::join!(turn, server) };
    timeout(SOON, both).await.expect("they meet")
}

/// The whole request.
async fn hear(peer: &mut TcpStream) -> String {
    let mut heard = String::new();
    while !heard.ends_with('}') {
        let mut some = [0; 4096];
        let count = peer.read(&mut some).await.unwrap();
        assert!(count > 0, "{heard}");
        heard.push_str(std::str::from_utf8(&some[..count]).unwrap());
    }
    heard
}

/// How a turn ends whose call is answered so, and the request.
async fn answered(path: &str, answer: &str) -> (TurnEnd, String) {
    let (listener, port) = listen().await;
    let handler = handler(&format!("http://localhost:{port}{path}"), "");
    let serve = async {
        let (mut peer, _) = listener.accept().await.unwrap();
        let heard = hear(&mut peer).await;
        peer.write_all(answer.as_bytes()).await.unwrap();
        heard
    };
    both(handler.on_tick(turn(), for_ever()), serve).await
}

#[tokio::test]
async fn a_turn_is_posted_to_a_name_of_this_machine_with_its_term() {
    let ok = "HTTP/1.1 204 No Content\r\n\r\n";
    let (end, heard) = answered("/a?b=c", ok).await;
    assert_eq!(end, TurnEnd::Succeeded);
    let (head, body) = heard.split_once("\r\n\r\n").unwrap();
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
async fn what_is_not_2xx_is_a_failed_turn_with_the_beginning_of_the_answer() {
    let failed = |text: &str| TurnEnd::Failed(format!("the webhook answered {text}"));
    let busy = "HTTP/1.1 503 Busy\r\ncontent-length: 4\r\n\r\nbusy";
    assert_eq!(answered("/", busy).await.0, failed("503: busy"));
    // The rest never comes.
    let stops = "HTTP/1.1 500 No\r\ncontent-length: 400\r\n\r\nno disk";
    assert_eq!(answered("/", stops).await.0, failed("500: no disk"));
    let redirect = "HTTP/1.1 307 Elsewhere\r\nlocation: /b\r\ncontent-length: 0\r\n\r\n";
    assert_eq!(answered("/", redirect).await.0, failed("307"));
    let quotes = "HTTP/1.1 404 No\r\ncontent-length: 24\r\n\r\nno route /hooks/S3CRETS3";
    let (end, _) = answered("/hooks/S3CRETS3CRET", quotes).await;
    assert_eq!(end, failed("404, with a text that is not shown, since it repeats the URL"));
    let (end, _) = answered("/", "nonsense").await;
    let TurnEnd::Failed(text) = end else { panic!("{end:?}") };
    assert!(text.starts_with("the webhook could not be called ("), "{text}");
}

#[tokio::test]
async fn a_call_is_given_up_at_its_own_time_and_not_when_the_turn_was_first_valid_until() {
    let (listener, port) = listen().await;
    let slow = handler(&format!("http://127.0.0.1:{port}/"), "30ms");
    let late = "the webhook did not answer within 30 ms".to_owned();
    assert_eq!(slow.on_tick(turn(), for_ever()).await, TurnEnd::Failed(late));
    let (mut given_up, _) = listener.accept().await.unwrap();
    let mut all = Vec::new();
    let ended = timeout(SOON, given_up.read_to_end(&mut all)).await.expect("the connection ends");
    // What the receiver has not read yet is worth nothing any more.
    assert_eq!(ended.unwrap_err().kind(), ErrorKind::ConnectionReset);
    // Renewed meanwhile, a turn may go on for longer than it was valid for at its start.
    let handler = handler(&format!("http://127.0.0.1:{port}/"), "");
    let serve = async {
        let (mut peer, _) = listener.accept().await.unwrap();
        hear(&mut peer).await;
        // Longer than that.
        tokio::time::sleep(Duration::from_millis(50)).await;
        peer.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
        peer
    };
    let short = Turn { valid_for: Duration::from_nanos(1), ..turn() };
    let (end, _) = both(handler.on_tick(short, for_ever()), serve).await;
    assert_eq!(end, TurnEnd::Succeeded);
}

#[tokio::test]
async fn who_cannot_be_called_is_told() {
    let (listener, port) = listen().await;
    let url = format!("http://127.0.0.1:{port}/S3CRETS3CRET");
    let handler = handler(&url, "400ms");
    let (end, ()) = both(handler.on_tick(turn(), for_ever()), async {
        drop(listener.accept().await.unwrap());
        drop(listener);
    })
    .await;
    let failed = |text: &str| TurnEnd::Failed(format!("the webhook {text}"));
    assert_eq!(end, failed("closed the connection before it answered"));
    let end = handler.on_tick(turn(), for_ever()).await;
    assert_eq!(end, failed("does not accept a connection"));
    assert!(!format!("{handler:?}").contains("S3CRET"), "{handler:?}");
}

#[tokio::test]
async fn nothing_is_sent_once_the_lease_is_over() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let handler = handler(&format!("http://{}/", listener.local_addr().unwrap()), "");
    let over = Lease::new(1, BootClock::new().reading(), Duration::ZERO);
    assert_eq!(handler.on_tick(turn(), over).await, TurnEnd::CutOff);
    let nobody = listener.accept().unwrap_err();
    assert_eq!(nobody.kind(), std::io::ErrorKind::WouldBlock);
}

#[tokio::test]
async fn the_connection_is_cut_when_the_turn_is() {
    let (listener, port) = listen().await;
    let handler = handler(&format!("http://127.0.0.1:{port}/"), "");
    let lease = for_ever();
    let mut running = handler.on_tick(turn(), lease.clone());
    let mut peer = tokio::select! {
        biased;
        end = &mut running => panic!("{end:?}"),
        peer = async { let mut peer = listener.accept().await.unwrap().0; hear(&mut peer).await; peer } => peer,
    };
    // As the runner does it.
    lease.set(Duration::ZERO);
    drop(running);
    let mut rest = Vec::new();
    let read = timeout(SOON, peer.read_to_end(&mut rest)).await.expect("the connection ends");
    // A reset, so that nothing that still waits in the kernel goes out.
    assert_eq!(read.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
    assert_eq!(rest, b"");
}

/// Answers each request with the next of these; an empty one closes the connection. Tells the requests.
async fn serve(listener: &TcpListener, answers: &[&str]) -> Vec<String> {
    let mut heard = Vec::new();
    let mut peer: Option<TcpStream> = None;
    for answer in answers {
        let mut known = match peer.take() {
            Some(known) => known,
            None => listener.accept().await.unwrap().0,
        };
        heard.push(hear(&mut known).await);
        known.write_all(answer.as_bytes()).await.unwrap();
        peer = Some(known).filter(|_| !answer.is_empty());
    }
    heard
}

const OK: &str = "HTTP/1.1 204 No Content\r\n\r\n";
const BUSY: &str = "HTTP/1.1 503 Busy\r\ncontent-length: 4\r\n\r\nbusy";

#[tokio::test]
async fn with_at_least_once_a_call_that_failed_is_made_again_as_the_same_turn() {
    let (listener, port) = listen().await;
    let told = Arc::new(Mutex::new(Vec::new()));
    let (sink, lines): (_, LineSink) = (told.clone(), {
        let told = told.clone();
        Arc::new(move |_, line| told.lock().unwrap().push(line))
    });
    let handler = delivering(&format!("http://127.0.0.1:{port}/"), "", true, Some(lines));
    let turn_of = turn();
    let (end, heard) =
        both(handler.on_tick(turn_of, for_ever()), serve(&listener, &[BUSY, "", OK])).await;
    assert_eq!(end, TurnEnd::Succeeded);
    for request in &heard {
        assert!(request.contains("idempotency-key: acme/jobs/report/1970-01-01T00:00:01.500Z"));
        assert!(request.contains(r#""attempt":1,"#), "{request}");
    }
    let told = sink.lock().unwrap().clone();
    assert_eq!(
        told,
        [
            "tenure: the webhook answered 503: busy; it is called again in 500ms",
            "tenure: the webhook closed the connection before it answered; it is called again in 1s",
        ]
    );
}

#[tokio::test]
async fn with_at_most_once_no_call_that_may_have_arrived_is_made_again() {
    for (answer, detail) in
        [(BUSY, "answered 503: busy"), ("", "closed the connection before it answered")]
    {
        let (listener, port) = listen().await;
        let handler = handler(&format!("http://127.0.0.1:{port}/"), "");
        let (end, heard) =
            both(handler.on_tick(turn(), for_ever()), serve(&listener, &[answer])).await;
        assert_eq!(end, TurnEnd::Failed(format!("the webhook {detail}")));
        assert_eq!(heard.len(), 1);
        listener.into_std().unwrap().accept().unwrap_err();
    }
}

#[tokio::test]
async fn a_call_that_did_not_arrive_is_made_again_whatever_the_delivery() {
    let (listener, port) = listen().await;
    // Nobody listens there any more; the kernel keeps the port for who asks for it.
    drop(listener);
    let (told, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let lines: LineSink = Arc::new(move |_, line| told.send(line).unwrap());
    let handler = delivering(&format!("http://127.0.0.1:{port}/"), "", false, Some(lines));
    let begin = async {
        let line = heard.recv().await.unwrap();
        assert!(
            line.contains("does not accept a connection; it is called again in 500ms"),
            "{line}"
        );
        let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
        serve(&listener, &[OK]).await
    };
    let (end, heard) = both(handler.on_tick(turn(), for_ever()), begin).await;
    assert_eq!((end, heard.len()), (TurnEnd::Succeeded, 1));
}

#[tokio::test]
async fn a_receiver_that_wants_to_be_left_alone_for_longer_than_there_is_time_is_not_called() {
    let (listener, port) = listen().await;
    let handler = delivering(&format!("http://127.0.0.1:{port}/"), "5s", true, None);
    let busy = "HTTP/1.1 429 Wait\r\nretry-after: 60\r\ncontent-length: 0\r\n\r\n";
    let (end, _) = both(handler.on_tick(turn(), for_ever()), serve(&listener, &[busy])).await;
    assert_eq!(end, TurnEnd::Failed("the webhook answered 429".to_owned()));
}
