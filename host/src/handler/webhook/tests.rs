//! Turns that are posted, with a server on loopback.

use super::*;
use crate::clock::{BootClock, Clock};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// For what has no bound of its own.
const SOON: Duration = Duration::from_secs(20);

fn turn() -> Turn {
    Turn {
        election: "jobs/report".to_owned(),
        key: "acme/jobs/report/1970-01-01T00:00:01.500Z".to_owned(),
        term: 7,
        slot: 1_500_000_000,
        value: None,
        trigger: None,
        attempt: 1,
        past_due: false,
        missed: 0,
        valid_for: 1_000_000_000,
        time_limit: None,
    }
}

fn handler(url: &str, timeout: &str) -> WebhookHandler {
    let variable = |name: &str| match name {
        "TENURE_HANDLER_URL" => Some(url.to_owned()),
        "TENURE_HANDLER_TIMEOUT" => Some(timeout.to_owned()),
        _ => None,
    };
    WebhookHandler::new(Target::read(variable).unwrap(), Authorities::default()).unwrap()
}

fn for_ever() -> Deadline {
    Deadline::new(BootClock::new().reading(), Duration::MAX)
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
        r#"{"election":"jobs/report","term":7,"slot":"1970-01-01T00:00:01.500Z","value":null,"attempt":1,"past_due":false,"missed":0,"valid_for_ms":1000}"#
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
    assert_eq!(end, failed("404, in words that repeat the URL"));
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
    timeout(SOON, given_up.read_to_end(&mut all)).await.expect("the connection ends").unwrap();
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
    let short = Turn { valid_for: 1, ..turn() };
    let (end, _) = both(handler.on_tick(short, for_ever()), serve).await;
    assert_eq!(end, TurnEnd::Succeeded);
}

#[tokio::test]
async fn who_cannot_be_called_is_told() {
    let (listener, port) = listen().await;
    let url = format!("http://127.0.0.1:{port}/S3CRETS3CRET");
    let handler = handler(&url, "");
    let (end, ()) = both(handler.on_tick(turn(), for_ever()), async {
        drop(listener.accept().await.unwrap());
        drop(listener);
    })
    .await;
    let failed = |text: &str| TurnEnd::Failed(format!("the webhook {text}"));
    assert_eq!(end, failed("closed the connection before it answered"));
    let end = handler.on_tick(turn(), for_ever()).await;
    assert_eq!(end, failed("cannot be connected to"));
    assert!(!format!("{handler:?}").contains("S3CRET"), "{handler:?}");
}

#[tokio::test]
async fn nothing_is_sent_once_the_lease_is_over() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let handler = handler(&format!("http://{}/", listener.local_addr().unwrap()), "");
    let over = Deadline::new(BootClock::new().reading(), Duration::ZERO);
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
