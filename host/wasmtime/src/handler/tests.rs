//! Tests of component handlers, with the example as the handler.

use crate::{ComponentHandler, ELECTION_COMPONENT, EXAMPLE_HANDLER, Engine, Options};
use http::HeaderMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tenure::Lease;
use tenure::engine::AllowList;
use tenure::handler::{Handler as _, Stream, TurnEnd};
use tenure_clock::{BootClock, Clock};
use tenure_core::{Timestamp, Turn};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

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
        share: None,
    }
}

type Lines = Arc<Mutex<Vec<(Stream, String)>>>;

fn load(
    binary: &[u8],
    env: &[(&str, &str)],
    allow: &str,
) -> Result<(ComponentHandler, Lines), String> {
    let lines = Lines::default();
    let written = lines.clone();
    let mut list = AllowList::default();
    if !allow.is_empty() {
        list.allow(allow).unwrap();
    }
    let options = Options {
        env: env.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
        allow: list,
        output: Some(Arc::new(move |stream, line| written.lock().unwrap().push((stream, line)))),
        ..Options::default()
    };
    let engine = Engine::new().unwrap();
    let handler = ComponentHandler::from_binary(&engine, binary, options, &BootClock::new());
    handler.map(|handler| (handler, lines)).map_err(|error| error.to_string())
}

fn lease() -> Lease {
    Lease::new(1, BootClock::new().handle(), Duration::MAX)
}

#[tokio::test]
async fn a_turn_runs_and_its_lines_are_seen() {
    let (handler, lines) = load(EXAMPLE_HANDLER, &[], "").unwrap();
    assert_eq!(handler.on_tick(turn(), lease()).await, TurnEnd::Succeeded);
    let lines = lines.lock().unwrap();
    let expected = "slot 1970-01-01T00:00:01.500000000Z, term 7";
    assert_eq!(*lines, [(Stream::Stdout, expected.to_owned())]);
}

#[tokio::test]
async fn a_turn_reports_to_an_allowed_host() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let (reported, mut reports) = tokio::sync::mpsc::channel(1);
    let report = axum::routing::post(async move |headers: HeaderMap, body: String| {
        let _ = reported.send((headers, body)).await;
    });
    let app = axum::Router::new().route("/r", report);
    tokio::spawn(async move { axum::serve(listener, app).await });
    let (handler, _) =
        load(EXAMPLE_HANDLER, &[("REPORT_URL", &format!("http://{host}/r"))], &host).unwrap();
    assert_eq!(handler.on_tick(turn(), lease()).await, TurnEnd::Succeeded);
    let (headers, body) = reports.recv().await.unwrap();
    assert_eq!(headers["tenure-term"], "7");
    assert_eq!(headers["tenure-election"], "jobs/report");
    assert_eq!(
        body,
        r#"{"election":"jobs/report","term":7,"slot":"1970-01-01T00:00:01.500000000Z","attempt":1,"past_due":false}"#
    );
}

#[tokio::test]
async fn the_connections_of_a_turn_end_with_it() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let (handler, _) =
        load(EXAMPLE_HANDLER, &[("REPORT_URL", &format!("http://{host}/"))], &host).unwrap();
    let serve = async {
        let (mut peer, _) = listener.accept().await.unwrap();
        let mut request = [0; 4096];
        assert!(peer.read(&mut request).await.unwrap() > 0);
        peer.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
        // The server keeps the connection open. The rest of the request may still arrive, then the
        // end.
        while peer.read(&mut request).await.unwrap() > 0 {}
    };
    let served = tokio::time::timeout(Duration::from_secs(90), serve);
    let (end, served) = tokio::join!(handler.on_tick(turn(), lease()), served);
    assert_eq!(end, TurnEnd::Succeeded);
    served.expect("the connection is closed");
}

#[tokio::test]
async fn a_denied_request_fails_the_turn_and_is_logged() {
    let (handler, lines) =
        load(EXAMPLE_HANDLER, &[("REPORT_URL", "http://127.0.0.1:1/")], "").unwrap();
    let end = handler.on_tick(turn(), lease()).await;
    assert!(matches!(&end, TurnEnd::Failed(text) if text.contains("HttpRequestDenied")), "{end:?}");
    let lines = lines.lock().unwrap();
    let expected = (
        Stream::Stderr,
        "tenure: a request to http://127.0.0.1:1 is not allowed; to allow it, give --allow-host 127.0.0.1:1".to_owned(),
    );
    assert!(lines.contains(&expected), "{lines:?}");
}

#[tokio::test]
async fn nothing_reaches_an_allowed_host_after_the_deadline() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let url = format!("http://{host}/");
    let (handler, _) = load(EXAMPLE_HANDLER, &[("REPORT_URL", &url)], &host).unwrap();
    let expired = Lease::new(1, BootClock::new().handle(), Duration::ZERO);
    // Denied, or cut off earlier by the next tick.
    let end = handler.on_tick(turn(), expired).await;
    assert!(matches!(end, TurnEnd::Failed(_) | TurnEnd::CutOff), "{end:?}");
    let error = listener.accept().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
}

#[test]
fn a_file_that_is_no_handler_is_rejected() {
    let problem = |binary: &[u8]| load(binary, &[], "").unwrap_err();
    assert_eq!(problem(b"#!/bin/sh"), "is not a WebAssembly component");
    assert!(problem(b"\0asm\x01\0\0\0").starts_with("is a core WebAssembly module"));
    assert!(problem(b"\0asm\x0d\0\x01\0nonsense").starts_with("is not a valid component: "));
    assert_eq!(
        problem(b"\0asm\x0d\0\x01\0"),
        "does not export tenure:election/leader-handler@0.1.0; it exports nothing"
    );
    let other = problem(ELECTION_COMPONENT);
    assert!(other.contains("; it exports ") && other.contains("wasi:cli/run@0.2"), "{other}");
}
