//! Traces and metrics for a collector, over OTLP/HTTP, configured by the variables of
//! OpenTelemetry.
//!
//! Telemetry never blocks a candidate: threads of the SDK send it, and drop data when their queue
//! is full. Only the exit of the program waits for them, up to a time limit.

use super::collector::{self, Collector, Signal};
use super::log::{Log, LogContext};
use opentelemetry::metrics::{AsyncInstrument, Histogram, Meter, MeterProvider as _};
use opentelemetry::trace::{Span as _, SpanKind, Status, Tracer as _, TracerProvider as _};
use opentelemetry::{Context, KeyValue};
use opentelemetry_otlp::{MetricExporter, SpanExporter, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::{Instrument, SdkMeterProvider, Stream};
use opentelemetry_sdk::trace::{
    IdGenerator as _, RandomIdGenerator, SdkTracer, SdkTracerProvider, Span,
};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tenure::handler::{BoxFuture, Handler, TraceParent, TurnEnd};
use tenure::{Event, Lease, ProblemKind};
use tenure_clock::{BootClock, Clock as _};
use tenure_core::{Report, Turn};
use tenure_server::Roster;
use tenure_server::metrics::{Kind, Metric, Sample, Value, renewal, renewal_bounds, turn_bounds};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// Telemetry of this process.
#[derive(Default)]
pub(crate) struct Telemetry {
    traces: Option<SdkTracerProvider>,
    metrics: Option<SdkMeterProvider>,
    /// The clients hold weak references to it, so dropping the telemetry ends the reports of
    /// failures.
    collector: Option<Arc<Collector>>,
}

/// Telemetry of one candidate.
#[derive(Clone)]
pub(crate) struct CandidateTelemetry {
    tracer: Option<SdkTracer>,
    times: Option<Arc<Times>>,
    /// The running turn, if there is one, and its span, if there are traces.
    running: Arc<Mutex<Option<Option<Span>>>>,
    labels: [KeyValue; 2],
}

/// Histograms of the durations of turns and renewals.
struct Times {
    turns: Histogram<f64>,
    renewals: Histogram<f64>,
}

impl Telemetry {
    /// Starts to send the signals that the variables enable. Logs problems with either signal to
    /// `log`, now and later. One signal may work without the other.
    ///
    /// `max_elections` is the maximum number of elections of this process.
    pub(crate) fn start(
        roster: &Roster,
        max_elections: usize,
        clock: &BootClock,
        log: &Log,
    ) -> Self {
        let mut this = Self::default();
        let log_problem =
            |why: String| log.event(&Event::Problem { class: ProblemKind::Telemetry, detail: why });
        let wanted = [Signal::Traces, Signal::Metrics].map(|signal| {
            // A signal with unsupported variables is left out.
            signal.is_wanted().map_err(log_problem).unwrap_or_default()
        });
        if wanted == [false, false] {
            return this;
        }
        let collector = match Collector::new(log.clone()) {
            Ok(collector) => collector,
            Err(why) => {
                log_problem(why);
                return this;
            }
        };
        let (resource, [traces, metrics]) = (resource(), wanted);
        if traces {
            let exporter = SpanExporter::builder().with_http();
            match exporter.with_http_client(collector.client(Signal::Traces)).build() {
                Ok(exporter) => {
                    let provider = SdkTracerProvider::builder().with_resource(resource.clone());
                    this.traces = Some(provider.with_batch_exporter(exporter).build());
                }
                Err(_) => log_problem(Signal::Traces.exporter_error()),
            }
        }
        if metrics {
            let exporter = MetricExporter::builder().with_http();
            match exporter.with_http_client(collector.client(Signal::Metrics)).build() {
                Ok(exporter) => {
                    let provider = SdkMeterProvider::builder().with_resource(resource);
                    let elections = roster.count().max(max_elections.min(MAX_EXPECTED));
                    let provider = provider
                        .with_view(move |instrument| cardinality_view(instrument, elections));
                    let provider = provider.with_periodic_exporter(exporter).build();
                    observe(&meter(&provider), roster, clock);
                    this.metrics = Some(provider);
                }
                Err(_) => log_problem(Signal::Metrics.exporter_error()),
            }
        }
        this.collector = Some(collector);
        this
    }

    pub(crate) fn for_candidate(
        &self,
        LogContext { election, candidate }: &LogContext,
    ) -> CandidateTelemetry {
        let times = self.metrics.as_ref().map(|provider| {
            let meter = meter(provider);
            let histogram = |name: &'static str, bounds: Vec<f64>| {
                meter.f64_histogram(name).with_unit("s").with_boundaries(bounds).build()
            };
            Arc::new(Times {
                turns: histogram("tenure_turn_seconds", turn_bounds().collect()),
                renewals: histogram("tenure_renewal_seconds", renewal_bounds().collect()),
            })
        });
        CandidateTelemetry {
            tracer: self.traces.as_ref().map(|provider| provider.tracer("tenure")),
            times,
            running: Arc::default(),
            labels: [
                KeyValue::new("election", election.clone()),
                KeyValue::new("candidate", candidate.clone()),
            ],
        }
    }

    /// Sends the remaining data, for `patience` at most.
    pub(crate) async fn shut_down(&self, patience: Duration) {
        let (traces, metrics) = (self.traces.clone(), self.metrics.clone());
        // Both shut down at the same time, since either may take all of `patience`. Errors are
        // ignored: nothing can be done about them at the exit.
        let traces = spawn_blocking(move || {
            drop(traces.map(|traces| traces.shutdown_with_timeout(patience)));
        });
        let metrics = spawn_blocking(move || {
            drop(metrics.map(|metrics| metrics.shutdown_with_timeout(patience)));
        });
        let _ = timeout(patience, async { (traces.await, metrics.await) }).await;
    }
}

/// Skips the SDK's destructors, in case [`shut_down`](Telemetry::shut_down) was not called because
/// of an error. They could block the exit of the process, and with it the release of the lease.
impl Drop for Telemetry {
    fn drop(&mut self) {
        std::mem::forget((self.traces.take(), self.metrics.take()));
    }
}

/// Maximum number of elections for which the limit of series is raised in advance.
const MAX_EXPECTED: usize = 10_000;

/// Raises the SDK's limit of 2,000 series for each instrument, beyond which it merges series. The
/// limit is twice the number of series for these elections. Returns none if the default is enough.
fn cardinality_view(instrument: &Instrument, elections: usize) -> Option<Stream> {
    let series_per_election = match instrument.name() {
        // The labels are, in this order: verb and result; class; outcome.
        "tenure_requests" => 16,
        "tenure_problems" => 12,
        "tenure_turns" => 5,
        _ => 1,
    };
    let limit = elections.saturating_mul(2 * series_per_election);
    Some(limit).filter(|limit| *limit > 2_000)?;
    Stream::builder().with_cardinality_limit(limit).build().ok()
}

fn meter(provider: &SdkMeterProvider) -> Meter {
    provider.meter("tenure")
}

/// Exports the metrics of `/metrics` through `meter`, with the same names, labels and values.
/// Histograms are recorded where the durations are measured.
fn observe(meter: &Meter, roster: &Roster, clock: &BootClock) {
    for metric in Metric::all() {
        let (roster, clock) = (roster.clone(), clock.clone());
        let observe = move |instrument: &dyn AsyncInstrument<f64>| {
            for Sample { labels, value } in metric.samples(&roster.boards(), clock.now()) {
                if let Some(value) = number(&value) {
                    let labels = labels.into_iter().map(|(name, value)| KeyValue::new(name, value));
                    instrument.observe(value, &labels.collect::<Vec<_>>());
                }
            }
        };
        let (name, help) = (metric.name, format!("{}.", metric.help));
        match metric.kind {
            Kind::Counter => {
                let counter = meter.f64_observable_counter(name).with_description(help);
                let _ = counter.with_callback(observe).build();
            }
            Kind::Gauge => {
                let gauge = meter.f64_observable_gauge(name).with_description(help);
                let _ = gauge.with_callback(observe).build();
            }
            Kind::Histogram => {}
        }
    }
}

#[allow(clippy::cast_precision_loss, reason = "counts and terms are far below 2^52")]
fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(value) => Some(*value as f64),
        Value::Float(value) => Some(*value),
        Value::Histogram(_) => None,
    }
}

/// Returns the attributes that identify this process among others with the same telemetry.
/// Attributes in variables take precedence.
fn resource() -> Resource {
    let attributes_text = collector::variable("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
    let attributes =
        default_attributes(&attributes_text, collector::variable("OTEL_SERVICE_NAME").is_some());
    Resource::builder().with_attributes(attributes).build()
}

/// Returns the attributes that the variables do not set. `attributes_text` is the value of
/// `OTEL_RESOURCE_ATTRIBUTES`, and `is_named` is true if `OTEL_SERVICE_NAME` is set.
fn default_attributes(attributes_text: &str, is_named: bool) -> Vec<KeyValue> {
    let names = attributes_text
        .split(',')
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, _)| name.trim());
    let set_names: Vec<_> = names.chain(is_named.then_some("service.name")).collect();
    // Replicas share their variables, but each has its own metrics.
    let instance = RandomIdGenerator::default().new_trace_id().to_string();
    let all = [
        ("service.name", "tenure".to_owned()),
        ("service.version", env!("CARGO_PKG_VERSION").to_owned()),
        ("service.instance.id", instance),
    ];
    let missing = all.into_iter().filter(|(name, _)| !set_names.contains(name));
    missing.map(|(name, value)| KeyValue::new(name, value)).collect()
}

impl CandidateTelemetry {
    pub(crate) fn on_report(&self, report: &Report) {
        let Some(times) = &self.times else { return };
        for elapsed in report.exchanges.iter().filter_map(renewal) {
            times.renewals.record(elapsed.as_secs_f64(), &self.labels);
        }
    }

    pub(crate) fn on_event(&self, event: &Event) {
        match event {
            Event::TurnStarted { turn } => *self.running() = Some(self.start_span(turn)),
            Event::TurnEnded { turn, end, elapsed, .. } => {
                let running_span = self.running().take();
                if let Some(times) = self.times.as_ref().filter(|_| running_span.is_some()) {
                    times.turns.record(elapsed.as_secs_f64(), &self.labels);
                }
                // A turn that was claimed but did not start has a span too.
                if let Some(span) = running_span.unwrap_or_else(|| self.start_span(turn)) {
                    end_span(span, end);
                }
            }
            _ => {}
        }
    }

    /// Wraps a handler, so that its turns run in their spans.
    pub(crate) fn wrap(&self, handler: Box<dyn Handler>) -> Box<dyn Handler> {
        match self.tracer {
            Some(_) => Box::new(Traced { handler, telemetry: self.clone() }),
            None => handler,
        }
    }

    fn running(&self) -> std::sync::MutexGuard<'_, Option<Option<Span>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start_span(&self, turn: &Turn) -> Option<Span> {
        let tracer = self.tracer.as_ref()?;
        let attribute = |name: &'static str, value: String| KeyValue::new(name, value);
        let [_, candidate] = &self.labels;
        let mut attributes = vec![
            attribute("tenure.election", turn.election.clone()),
            attribute("tenure.candidate", candidate.value.to_string()),
            KeyValue::new("tenure.term", i64::try_from(turn.term).unwrap_or(i64::MAX)),
            attribute("tenure.slot", turn.slot.to_rfc3339()),
            KeyValue::new("tenure.attempt", i64::from(turn.attempt)),
        ];
        attributes.extend(turn.trigger.clone().map(|id| attribute("tenure.trigger", id)));
        let builder = tracer.span_builder("turn").with_kind(SpanKind::Internal);
        // Each turn is its own trace.
        Some(builder.with_attributes(attributes).start_with_context(tracer, &Context::new()))
    }
}

fn end_span(mut span: Span, end: &TurnEnd) {
    span.set_attribute(KeyValue::new("tenure.outcome", end.to_string()));
    span.set_status(match end {
        TurnEnd::Succeeded => Status::Ok,
        end => Status::error(end.detail().map_or_else(|| end.to_string(), str::to_owned)),
    });
    span.end();
}

/// A handler whose turns run in their spans.
struct Traced {
    handler: Box<dyn Handler>,
    telemetry: CandidateTelemetry,
}

impl Handler for Traced {
    fn on_tick(&self, turn: Turn, lease: Lease) -> BoxFuture<'_, TurnEnd> {
        let parent = self.telemetry.running().iter().flatten().next().map(|span| {
            let context = span.span_context();
            TraceParent {
                trace: u128::from_be_bytes(context.trace_id().to_bytes()),
                span: u64::from_be_bytes(context.span_id().to_bytes()),
                sampled: context.is_sampled(),
            }
        });
        match parent {
            // The scope includes the handler's code before its first await.
            Some(parent) => {
                Box::pin(parent.scope(async move { self.handler.on_tick(turn, lease).await }))
            }
            None => self.handler.on_tick(turn, lease),
        }
    }

    fn stopped(&self) -> BoxFuture<'_, ()> {
        self.handler.stopped()
    }

    fn grace(&self) -> Duration {
        self.handler.grace()
    }

    fn overtime(&self) -> Duration {
        self.handler.overtime()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn attributes_of(text: &str, is_named: bool) -> BTreeMap<String, String> {
        let attributes = default_attributes(text, is_named);
        attributes.into_iter().map(|pair| (pair.key.to_string(), pair.value.to_string())).collect()
    }

    #[test]
    fn replicas_with_the_same_variables_differ() {
        let (ada, ben) = (attributes_of("", false), attributes_of("", false));
        assert_eq!(ada["service.name"], "tenure");
        assert_eq!(ada["service.version"], env!("CARGO_PKG_VERSION"));
        assert_ne!(ada["service.instance.id"], ben["service.instance.id"]);
    }

    #[test]
    fn attributes_from_variables_are_kept() {
        let text = "deployment.environment.name=live, service.version=7,service.instance.id=pod-1";
        assert_eq!(attributes_of(text, true), BTreeMap::new());
        let named = attributes_of("service.name=reports", false);
        assert_eq!(named.keys().collect::<Vec<_>>(), ["service.instance.id", "service.version"]);
    }
}
