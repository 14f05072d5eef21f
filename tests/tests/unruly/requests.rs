//! Requests of a handler at the end of its turn, as a sink receives them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::{Json, State};
use axum::routing::post;
use serde_json::Value;
use tenure::handler::TurnEnd;
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};

use super::stage::{LONG, Stage, TIMEOUT};

/// Time for the remaining data on this machine to arrive.
const SETTLE: Duration = Duration::from_millis(300);

type OnArrival = Box<dyn FnMut(usize) + Send>;

/// Sink that calls a function with the number of requests before each answer.
struct RequestSink {
    host: String,
    beats: Arc<Mutex<Vec<u64>>>,
    on_arrival: Arc<Mutex<Option<OnArrival>>>,
}

impl RequestSink {
    async fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let beats = Arc::new(Mutex::new(Vec::new()));
        let on_arrival = Arc::new(Mutex::new(None));
        let state = (beats.clone(), on_arrival.clone());
        let router = axum::Router::new().route("/", post(receive)).with_state(state);
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { host, beats, on_arrival }
    }

    fn on_arrival(&self, act: impl FnMut(usize) + Send + 'static) {
        *self.on_arrival.lock().unwrap() = Some(Box::new(act));
    }

    fn beats(&self) -> Vec<u64> {
        self.beats.lock().unwrap().clone()
    }
}

type SinkState = (Arc<Mutex<Vec<u64>>>, Arc<Mutex<Option<OnArrival>>>);

async fn receive(State((beats, on_arrival)): State<SinkState>, Json(json): Json<Value>) {
    let mut beats = beats.lock().unwrap();
    beats.push(json["beat"].as_u64().unwrap());
    if let Some(act) = &mut *on_arrival.lock().unwrap() {
        act(beats.len());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_the_deadline_no_request_arrives() {
    const LAST: usize = 50;
    let sink = RequestSink::open().await;
    let stage = Stage::new("requests", Some(&sink.host));
    let clock = stage.clock.clone();
    // The answer to this request comes after the deadline.
    sink.on_arrival(move |count| {
        if count == LAST {
            clock.jump(LONG);
        }
    });
    assert_eq!(stage.run_turn().await, TurnEnd::CutOff);
    sleep(SETTLE).await;
    assert_eq!(sink.beats().len(), LAST);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_one_after_the_other_do_not_use_up_the_handles_of_a_turn() {
    const MORE_THAN_HANDLES: usize = 4_100;
    let sink = RequestSink::open().await;
    let stage = Stage::new("requests", Some(&sink.host));
    let clock = stage.clock.clone();
    sink.on_arrival(move |count| {
        if count == MORE_THAN_HANDLES {
            clock.jump(LONG);
        }
    });
    assert_eq!(stage.run_turn().await, TurnEnd::CutOff);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pending_requests_end_with_their_turn() {
    const TURNS: usize = 100;
    let sink = RequestSink::open().await;
    let stage = Stage::new("late", Some(&sink.host));
    for _ in 0..TURNS {
        assert_eq!(stage.run_turn().await, TurnEnd::Succeeded);
    }
    sleep(SETTLE).await;
    let beats = sink.beats();
    // Complete requests may have been sent before the end of their turn. The half-written one never
    // is.
    assert!(!beats.contains(&1), "{beats:?}");
    sleep(SETTLE).await;
    assert_eq!(sink.beats().len(), beats.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn very_many_requests_at_once_are_answered_or_refused() {
    let sink = RequestSink::open().await;
    let stage = Stage::new("greedy", Some(&sink.host));
    let end = timeout(TIMEOUT, stage.run_turn()).await.unwrap();
    let TurnEnd::Failed(text) = end else { panic!("{end:?}") };
    assert_eq!(text, format!("{} were answered", sink.beats().len()));
}
