//! Sinks can distinguish leaders: the requests of `tenure run`'s handlers carry their term.

use crate::PROGRAM;
use std::time::Duration;

use axum::Router;
use axum::http::HeaderMap;
use axum::routing::post;
use tenure_tests::{Group, Sink, Store};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::timeout;

const TIMEOUT: Duration = tenure_tests::PATIENCE;

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn every_request_carries_the_term() {
    let store = Store::embedded().await.unwrap();
    let unused = Sink::start().await.unwrap();
    let mut group = Group::new(PROGRAM, &store, &unused);
    group.warm_up().await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    group.sink = listener.local_addr().unwrap().to_string();
    let (headers_tx, mut requests) = mpsc::unbounded_channel();
    let receive = async move |headers: HeaderMap| drop(headers_tx.send(headers));
    let server = axum::serve(listener, Router::new().route("/", post(receive)));
    let server = tokio::spawn(async { server.await });
    let candidate = group.start("ada", &[]).unwrap();
    let elected_term = candidate.event("elected", TIMEOUT).await.term();
    let headers = timeout(TIMEOUT, requests.recv()).await.expect("a request").unwrap();
    server.abort();
    assert_eq!(headers["tenure-term"], elected_term.to_string().as_str());
}
