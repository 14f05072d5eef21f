//! Data that an OpenTelemetry collector receives; no process waits for a collector.

use crate::PROGRAM;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::{Metric, metric, number_data_point};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{Span, status};
use prost::Message as _;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tenure_tests::{BEAT_HANDLER, Candidate, Group, Sink, Store, reserve_port};
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::sync::watch;

const TIMEOUT: Duration = tenure_tests::PATIENCE;

/// Everything that arrived.
#[derive(Default)]
struct Received {
    spans: Vec<Span>,
    metrics: Vec<Metric>,
    resources: Vec<Resource>,
    /// Trace contexts in requests of handlers.
    traceparents: Vec<String>,
    /// Headers of requests to the collector.
    headers: Vec<HeaderMap>,
}

/// Collector that also serves as the target of handlers.
struct Collector {
    address: SocketAddr,
    received: Arc<(Mutex<Received>, watch::Sender<()>)>,
}

type ReceivedState = State<Arc<(Mutex<Received>, watch::Sender<()>)>>;

impl Collector {
    async fn start() -> Self {
        let received = Arc::<(Mutex<Received>, watch::Sender<()>)>::default();
        let router = Router::new()
            .route("/v1/traces", post(traces))
            .route("/v1/metrics", post(metrics))
            .route("/none", post(async || StatusCode::NOT_FOUND))
            .fallback(work)
            .with_state(received.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { address, received }
    }

    /// Waits until `extract` returns a value.
    async fn wait_for<T>(&self, description: &str, extract: impl Fn(&Received) -> Option<T>) -> T {
        let mut changes = self.received.1.subscribe();
        let waited = tokio::time::timeout(TIMEOUT, async {
            loop {
                if let Some(found) = extract(&self.received.0.lock().unwrap()) {
                    return found;
                }
                changes.changed().await.unwrap();
            }
        });
        waited.await.unwrap_or_else(|_| panic!("{description} did not arrive"))
    }
}

async fn traces(State(received): ReceivedState, headers: HeaderMap, body: Bytes) -> &'static str {
    let request = ExportTraceServiceRequest::decode(body).unwrap();
    let mut all = received.0.lock().unwrap();
    all.headers.push(headers);
    for resource_data in request.resource_spans {
        all.resources.extend(resource_data.resource);
        all.spans.extend(resource_data.scope_spans.into_iter().flat_map(|scope| scope.spans));
    }
    received.1.send_replace(());
    ""
}

async fn metrics(State(received): ReceivedState, body: Bytes) -> &'static str {
    let request = ExportMetricsServiceRequest::decode(body).unwrap();
    let mut all = received.0.lock().unwrap();
    for resource_data in request.resource_metrics {
        all.resources.extend(resource_data.resource);
        all.metrics.extend(resource_data.scope_metrics.into_iter().flat_map(|scope| scope.metrics));
    }
    received.1.send_replace(());
    ""
}

async fn work(State(received): ReceivedState, headers: HeaderMap) -> &'static str {
    let mut all = received.0.lock().unwrap();
    all.traceparents.push(headers["traceparent"].to_str().unwrap().to_owned());
    received.1.send_replace(());
    ""
}

async fn stage() -> (Store, Group) {
    let (store, sink) = (Store::embedded().await.unwrap(), Sink::start().await.unwrap());
    let mut group = Group::new(PROGRAM, &store, &sink);
    group.timer = ["--every", "1s"];
    group.warm_up().await.unwrap();
    (store, group)
}

fn run(group: &Group, collector: SocketAddr, work: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(["run", "--log", "json", &group.election, "--name", "ada"]);
    command.args(["--every", "1s"]).args(work).stdin(Stdio::null());
    group.access.apply(&mut command);
    command
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{collector}"))
        .env("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=acme")
        .env("OTEL_BSP_SCHEDULE_DELAY", "50")
        .env("OTEL_METRIC_EXPORT_INTERVAL", "50");
    command
}

/// Converts attributes to text.
fn texts(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |pair: &KeyValue| match pair.value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(any_value::Value::StringValue(text)) => text.clone(),
        Some(any_value::Value::IntValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    };
    attributes.iter().map(|pair| (pair.key.clone(), text(pair))).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

fn traceparent(span: &Span) -> String {
    format!("00-{}-{}-01", hex(&span.trace_id), hex(&span.span_id))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_turn_is_a_span_passed_to_its_handler() {
    let (_store, group) = stage().await;
    let collector = Collector::start().await;
    let work = "test $TENURE_ATTEMPT = 1 && echo at $TRACEPARENT && exit 3";
    let mut ada =
        Candidate::spawn("ada", run(&group, collector.address, &["--", "sh", "-c", work])).unwrap();
    let elected = ada.event("elected", TIMEOUT).await;
    let ended = ada.event("turn-ended", TIMEOUT).await;
    let slot = ended.event["slot"].as_str().unwrap().to_owned();
    let span_of_turn = |all: &Received| {
        all.spans.iter().find(|span| texts(&span.attributes)["tenure.slot"] == slot).cloned()
    };
    let span = collector.wait_for("the span of the turn", span_of_turn).await;
    assert_eq!(span.name, "turn");
    assert_eq!(span.parent_span_id, b"");
    let attributes = texts(&span.attributes);
    for (name, value) in [
        ("tenure.election", group.election.as_str()),
        ("tenure.candidate", "ada"),
        ("tenure.term", &elected.term().to_string()),
        ("tenure.attempt", "1"),
        ("tenure.outcome", "failed"),
    ] {
        assert_eq!(attributes[name], value, "{attributes:?}");
    }
    assert_eq!(span.status.as_ref().unwrap().code, i32::from(status::StatusCode::Error));
    assert!(span.end_time_unix_nano > span.start_time_unix_nano);
    let has_trace = |line: &tenure_tests::Line| {
        line.name() == "handler" && line.event["line"] == format!("at {}", traceparent(&span))
    };
    ada.line("the trace in the command's environment", 0, TIMEOUT, has_trace).await;
    assert!(ada.terminate(TIMEOUT).await.unwrap().success(), "{}", ada.transcript());
    // Nothing is lost at the end: even the last turn has arrived.
    let lines = ada.all_lines().await;
    let last = lines.iter().rfind(|line| line.name() == "turn-ended").unwrap();
    let last = last.event["slot"].as_str().unwrap();
    let is_last = |all: &Received| {
        all.spans.iter().any(|span| texts(&span.attributes)["tenure.slot"] == last).then_some(())
    };
    collector.wait_for("the span of the last turn", is_last).await;
    let all = collector.received.0.lock().unwrap();
    assert!(all.headers.iter().all(|headers| headers["x-tenant"] == "acme"));
    let resources = all.resources.iter().map(|resource| texts(&resource.attributes));
    let resources: Vec<_> = resources.collect();
    for resource in &resources {
        assert_eq!(resource["service.name"], "tenure");
        assert_eq!(resource["service.instance.id"], resources[0]["service.instance.id"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_of_handlers_carry_the_span_of_their_turn() {
    let (_store, group) = stage().await;
    let collector = Collector::start().await;
    let at = collector.address.to_string();
    let url = format!("http://{at}/");
    let (env, beats) = (format!("BEAT_URL={url}"), "BEAT_FOR_MS=300");
    let component = ["--handler", BEAT_HANDLER, "--allow-host", &at, "--env", &env, "--env", beats];
    for work in [&["--webhook", &url][..], &component] {
        let mut ada = Candidate::spawn("ada", run(&group, collector.address, work)).unwrap();
        let both = |all: &Received| {
            let spans = all.spans.iter().map(traceparent);
            let matching_spans = spans.filter(|span| all.traceparents.contains(span)).count();
            (matching_spans >= 2).then_some(())
        };
        collector.wait_for("a request with the trace of its turn", both).await;
        assert!(ada.terminate(TIMEOUT).await.unwrap().success(), "{}", ada.transcript());
        let mut all = collector.received.0.lock().unwrap();
        let known: Vec<_> = all.spans.iter().map(traceparent).collect();
        assert!(all.traceparents.iter().all(|parent| known.contains(parent)), "{known:?}");
        (all.spans, all.traceparents) = Default::default();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_arrive_with_their_names() {
    let (_store, group) = stage().await;
    let collector = Collector::start().await;
    let mut ada = Candidate::spawn("ada", run(&group, collector.address, &["--", "true"])).unwrap();
    let value = |all: &Received, name: &str, label: Option<&str>| {
        let metric = all.metrics.iter().rfind(|metric| metric.name == name)?;
        let counts = ["tenure_turns", "process_cpu_seconds"].contains(&name);
        let points = match metric.data.as_ref()? {
            metric::Data::Gauge(gauge) => {
                assert!(!counts, "{name}");
                &gauge.data_points
            }
            metric::Data::Sum(sum) => {
                assert!(counts && sum.is_monotonic, "{name}");
                &sum.data_points
            }
            _ => return None,
        };
        let point = points.iter().find(|point| {
            let labels = texts(&point.attributes);
            label.is_none_or(|label| labels.values().any(|value| value == label))
        })?;
        match point.value? {
            number_data_point::Value::AsDouble(value) => Some(value),
            number_data_point::Value::AsInt(_) => None,
        }
    };
    let leads = |all: &Received| {
        let leads = value(all, "tenure_is_leader", Some("ada"))? > 0.5;
        let turns = value(all, "tenure_turns", Some("succeeded"))? > 1.5;
        (leads && turns).then_some(value(all, "tenure_turns", Some("failed"))?)
    };
    let failed = collector.wait_for("the figures of a leader", leads).await;
    assert!(failed.abs() < 0.5, "{failed}");
    for name in ["tenure_turn_seconds", "tenure_renewal_seconds"] {
        let timed = |all: &Received| {
            let metric = all.metrics.iter().rfind(|metric| metric.name == name)?;
            let metric::Data::Histogram(histogram) = metric.data.as_ref()? else { return None };
            let point = histogram.data_points.first()?;
            assert_eq!(texts(&point.attributes)["election"], group.election);
            (point.count > 0 && metric.unit == "s").then_some(())
        };
        collector.wait_for(name, timed).await;
    }
    let process = |all: &Received| value(all, "process_cpu_seconds", None);
    assert!(collector.wait_for("time on processors", process).await > 0.0);
    assert!(ada.terminate(TIMEOUT).await.unwrap().success(), "{}", ada.transcript());
}

/// A rejected signal is reported once, and the other signal arrives.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn collector_of_one_signal_receives_it() {
    let (_store, group) = stage().await;
    let collector = Collector::start().await;
    for (variable, value, expected_detail) in [
        (
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
            format!("http://{}/none", collector.address),
            "accept traces",
        ),
        ("OTEL_TRACES_EXPORTER", "zipkin".to_owned(), "traces are not sent"),
        (
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
            "http://user:c2VjcmV0@a b".to_owned(),
            "traces are not sent",
        ),
    ] {
        let mut command = run(&group, collector.address, &["--", "true"]);
        command.env(variable, value);
        let mut ada = Candidate::spawn("ada", command).unwrap();
        let leads =
            |all: &Received| all.metrics.iter().any(|m| m.name == "tenure_is_leader").then_some(());
        collector.wait_for("metrics", leads).await;
        ada.event("problem", TIMEOUT).await;
        collector.received.0.lock().unwrap().metrics.clear();
        // More than one request of each signal.
        let enough = |_: &tenure_tests::Line| ada.count("turn-ended") >= 3;
        ada.line("turns", 0, TIMEOUT, enough).await;
        collector.wait_for("metrics", leads).await;
        assert!(ada.terminate(TIMEOUT).await.unwrap().success(), "{}", ada.transcript());
        let lines = ada.all_lines().await;
        let problems: Vec<_> = lines.iter().filter(|line| line.name() == "problem").collect();
        let detail = problems[0].event["detail"].as_str().unwrap();
        assert!(problems.len() == 1 && detail.contains(expected_detail), "{}", ada.transcript());
        assert!(!ada.transcript().contains("c2VjcmV0"), "{}", ada.transcript());
        assert!(!ada.transcript().contains("again"), "{}", ada.transcript());
    }
}

/// The collector accepts connections without answering, or does not exist. Requests to it may take
/// an hour, so any wait for one would hang this test.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unreachable_collector_delays_nothing() {
    let (_store, group) = stage().await;
    let silent_listener = StdListener::bind("127.0.0.1:0").unwrap();
    let unused_address = reserve_port().unwrap();
    for (address, is_reported) in
        [(silent_listener.local_addr().unwrap(), false), (unused_address, true)]
    {
        // Must survive a store or machine that stalls for a while.
        let work_args = ["--lease", "60s", "--renew", "4s", "--log-level", "debug", "--", "true"];
        let mut command = run(&group, address, &work_args);
        command.env("OTEL_EXPORTER_OTLP_TIMEOUT", "3600000");
        let mut ada = Candidate::spawn("ada", command).unwrap();
        let term = ada.event("elected", TIMEOUT).await.term();
        // More than one event of each: a process that waits for the collector would print none.
        for (name, count) in [("renewed", 4), ("turn-ended", 8)] {
            let enough = |_: &tenure_tests::Line| ada.count(name) >= count;
            ada.line(name, 0, TIMEOUT, enough).await;
        }
        assert_eq!((ada.count("elected"), ada.count("stood-down")), (1, 0), "{}", ada.transcript());
        let problems = ada.lines();
        let problems: Vec<_> = problems.iter().filter(|line| line.name() == "problem").collect();
        // One problem for traces and one for metrics, with the cause.
        assert_eq!(problems.len(), 2 * usize::from(is_reported), "{}", ada.transcript());
        assert!(problems.iter().all(|line| line.event["class"] == "telemetry"));
        let refused = |line: &&&tenure_tests::Line| {
            line.event["detail"].as_str().unwrap().contains("refused")
        };
        assert!(problems.iter().all(|line| refused(&line)), "{}", ada.transcript());
        assert!(ada.terminate(TIMEOUT).await.unwrap().success(), "{}", ada.transcript());
        let lines = ada.all_lines().await;
        let ended = lines.iter().find(|line| line.name() == "stood-down").unwrap();
        assert_eq!((ended.term(), &ended.event["reason"]), (term, &"left".into()));
    }
}
