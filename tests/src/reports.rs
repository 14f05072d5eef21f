//! Endpoint to which handlers report their turns. It accepts every report.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::Result;
use axum::extract::{RawQuery, State};
use axum::http::HeaderMap;
use axum::routing::post;
use axum::{Json, Router};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// One report.
#[derive(Clone, Debug)]
pub struct Report {
    /// Header `tenure-term`.
    pub term: Option<String>,
    /// Header `tenure-election`.
    pub election: Option<String>,
    /// Header `idempotency-key`.
    pub key: Option<String>,
    /// Query of the URL, by which a test recognises the sender.
    pub query: Option<String>,
    /// Body.
    pub json: Value,
    /// Time of arrival.
    pub received_at: Instant,
}

#[derive(Debug)]
struct ReceivedReports {
    all: Mutex<Vec<Report>>,
    count: watch::Sender<usize>,
}

/// Endpoint for reports.
#[derive(Debug)]
pub struct Reports {
    address: SocketAddr,
    received: Arc<ReceivedReports>,
    server: JoinHandle<()>,
}

impl Reports {
    /// Listens on a free port.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub async fn start() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let received =
            Arc::new(ReceivedReports { all: Mutex::default(), count: watch::Sender::new(0) });
        let router =
            Router::new().route("/report", post(receive_report)).with_state(Arc::clone(&received));
        let server = tokio::spawn(async move {
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self { address, received, server })
    }

    /// Returns its address as `127.0.0.1:PORT`.
    #[must_use]
    pub fn host(&self) -> String {
        self.address.to_string()
    }

    /// Returns the URL for reports.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/report", self.address)
    }

    /// Returns all reports so far, in order of arrival.
    #[must_use]
    pub fn all(&self) -> Vec<Report> {
        self.received.all.lock().unwrap().clone()
    }

    /// Waits until at least `count` reports have arrived.
    pub async fn wait_for(&self, count: usize, limit: Duration) -> Vec<Report> {
        let mut report_count = self.received.count.subscribe();
        let result = tokio::time::timeout(
            limit,
            report_count.wait_for(|report_count| *report_count >= count),
        );
        if result.await.is_err() {
            panic!("{} of {count} reports within {limit:?}", self.all().len());
        }
        self.all()
    }

    /// Returns the number of reports of each turn, by its key. Slots would be ambiguous: a
    /// triggered turn may have the same slot as a scheduled one.
    #[must_use]
    pub fn turns(&self) -> BTreeMap<String, usize> {
        let mut turns = BTreeMap::new();
        for report in self.all() {
            *turns.entry(report.key.expect("every handler sends its key")).or_default() += 1;
        }
        turns
    }
}

impl Drop for Reports {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn receive_report(
    State(received): State<Arc<ReceivedReports>>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    Json(json): Json<Value>,
) {
    let header = |name| headers.get(name)?.to_str().ok().map(str::to_owned);
    let (term, election) = (header("tenure-term"), header("tenure-election"));
    let key = header("idempotency-key");
    let mut reports = received.all.lock().unwrap();
    let received_at = Instant::now();
    reports.push(Report { term, election, key, query, json, received_at });
    received.count.send_replace(reports.len());
}
