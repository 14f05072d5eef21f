//! Traces and metrics for a collector, over OTLP/HTTP, as the variables of OpenTelemetry ask for it.
//!
//! Nothing here is ever waited for while a candidate contends: spans and figures are handed over to threads of
//! the SDK, which drop what finds no room. Only the end of the program waits for them, for as long as it likes.

mod collector;
mod figures;

use super::log::{Log, Whose};
use collector::{Collector, Signal};
use opentelemetry::metrics::{Histogram, Meter, MeterProvider as _};
use opentelemetry::trace::{Span as _, SpanKind, Status, Tracer as _, TracerProvider as _};
use opentelemetry::{Context, KeyValue};
use opentelemetry_otlp::{MetricExporter, SpanExporter, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::{Instrument, InstrumentKind, SdkMeterProvider, Stream};
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider, Span};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tenure::Deadline;
use tenure::TraceParent;
use tenure::clock::BootClock;
use tenure::contract::{Report, Turn, rfc3339};
use tenure::handler::{BoxFuture, Handler, TurnEnd};
use tenure::program::server::{renewal, renewal_bounds, turn_bounds};
use tenure::runner::Event;
use tenure::server::Roster;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// What is sent for this process.
#[derive(Default)]
pub(super) struct Telemetry {
    traces: Option<SdkTracerProvider>,
    metrics: Option<SdkMeterProvider>,
    /// The log of failures goes with it.
    collector: Option<Collector>,
}

/// What sees one candidate, for the collector.
#[derive(Clone)]
pub(super) struct Witness {
    tracer: Option<SdkTracer>,
    times: Option<Arc<Times>>,
    /// The turn that runs.
    running: Arc<Mutex<Option<Span>>>,
    labels: [KeyValue; 2],
}

struct Times {
    turns: Histogram<f64>,
    renewals: Histogram<f64>,
}

impl Telemetry {
    /// Begins to send what the variables ask for. Failures are told in `log`.
    ///
    /// # Errors
    ///
    /// What cannot be sent although it is asked for, and why.
    ///
    /// There may be so many elections at a time as `places` says.
    pub(super) fn start(
        roster: &Roster,
        places: usize,
        clock: &BootClock,
        log: &Log,
    ) -> Result<Self, String> {
        let (traces, metrics) = (Signal::Traces.is_wanted()?, Signal::Metrics.is_wanted()?);
        if !traces && !metrics {
            return Ok(Self::default());
        }
        let mut this = Self::default();
        let collector = Collector::new(log.clone())?;
        if traces {
            let exporter = SpanExporter::builder().with_http();
            let exporter = exporter.with_http_client(collector.client()).build();
            let exporter = exporter.map_err(|error| unsent(Signal::Traces, &error))?;
            let provider = SdkTracerProvider::builder().with_resource(resource());
            this.traces = Some(provider.with_batch_exporter(exporter).build());
        }
        if metrics {
            let exporter = MetricExporter::builder().with_http();
            let exporter = exporter.with_http_client(collector.client()).build();
            let exporter = exporter.map_err(|error| unsent(Signal::Metrics, &error))?;
            let provider = SdkMeterProvider::builder().with_resource(resource());
            let elections = roster.count().max(places.min(MOST_EXPECTED));
            let provider = provider.with_view(move |instrument| room(instrument, elections));
            let provider = provider.with_periodic_exporter(exporter).build();
            figures::observe(&meter(&provider), roster, clock);
            this.metrics = Some(provider);
        }
        this.collector = Some(collector);
        Ok(this)
    }

    /// What sees this candidate.
    pub(super) fn witness(&self, Whose { election, candidate }: &Whose) -> Witness {
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
        Witness {
            tracer: self.traces.as_ref().map(|provider| provider.tracer("tenure")),
            times,
            running: Arc::default(),
            labels: [
                KeyValue::new("election", election.clone()),
                KeyValue::new("candidate", candidate.clone()),
            ],
        }
    }

    /// Sends what is left, if the collector takes it within `patience`.
    pub(super) async fn end(&self, patience: Duration) {
        let (traces, metrics) = (self.traces.clone(), self.metrics.clone());
        let last = spawn_blocking(move || {
            // Whatever comes of it: nothing can be done about it any more.
            drop(traces.map(|traces| traces.shutdown_with_timeout(patience)));
            drop(metrics.map(|metrics| metrics.shutdown_with_timeout(patience)));
        });
        let _ = timeout(patience, last).await;
    }
}

/// Without [`end`](Telemetry::end) something went wrong. What the SDK does for its own end would hold up that of
/// the process, and with it the release of the lease.
impl Drop for Telemetry {
    fn drop(&mut self) {
        std::mem::forget((self.traces.take(), self.metrics.take()));
    }
}

/// Room that the SDK allocates at once.
const MOST_EXPECTED: usize = 10_000;

/// The SDK keeps 2,000 series of an instrument, and puts all others into one. Here is room for so many elections, and as
/// many to come. None: the SDK's own limit does, or the instrument is a histogram, whose view would need its bounds too.
fn room(instrument: &Instrument, elections: usize) -> Option<Stream> {
    let of_one = match instrument.name() {
        // By verb and result, by class, by outcome.
        "tenure_requests" => 16,
        "tenure_problems" => 12,
        "tenure_turns" => 5,
        _ => 1,
    };
    let limit = elections.saturating_mul(2 * of_one);
    Some(limit).filter(|limit| *limit > 2_000 && instrument.kind() != InstrumentKind::Histogram)?;
    Stream::builder().with_cardinality_limit(limit).build().ok()
}

fn meter(provider: &SdkMeterProvider) -> Meter {
    provider.meter("tenure")
}

fn unsent(signal: Signal, error: &dyn std::fmt::Display) -> String {
    format!("{} cannot be sent: {error}", signal.name())
}

/// Who sends it: `tenure`, unless the variables say otherwise.
fn resource() -> Resource {
    let named = collector::variable("OTEL_SERVICE_NAME").is_some()
        || collector::variable("OTEL_RESOURCE_ATTRIBUTES").is_some_and(|given| {
            given.split(',').any(|pair| pair.trim().starts_with("service.name="))
        });
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    let resource = Resource::builder().with_attribute(version);
    if named { resource.build() } else { resource.with_service_name("tenure").build() }
}

impl Witness {
    /// Takes note of a step.
    pub(super) fn stepped(&self, report: &Report) {
        let Some(times) = &self.times else { return };
        for took in report.exchanges.iter().filter_map(renewal) {
            times.renewals.record(took.as_secs_f64(), &self.labels);
        }
    }

    /// Takes note of an event.
    pub(super) fn happened(&self, event: &Event) {
        match event {
            Event::TurnStarted { turn } => *self.running() = self.begin(turn),
            Event::TurnEnded { turn, end, elapsed, .. } => {
                if let Some(times) = &self.times {
                    times.turns.record(elapsed.as_secs_f64(), &self.labels);
                }
                // One that was claimed and did not begin is a turn too.
                let span = self.running().take();
                if let Some(span) = span.or_else(|| self.begin(turn)) {
                    finish(span, end);
                }
            }
            _ => {}
        }
    }

    /// `handler`, whose turns run in the spans that were begun for them.
    pub(super) fn around(&self, handler: Box<dyn Handler>) -> Box<dyn Handler> {
        match self.tracer {
            Some(_) => Box::new(Traced { handler, witness: self.clone() }),
            None => handler,
        }
    }

    fn running(&self) -> std::sync::MutexGuard<'_, Option<Span>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, turn: &Turn) -> Option<Span> {
        let tracer = self.tracer.as_ref()?;
        let attribute = |name: &'static str, value: String| KeyValue::new(name, value);
        let [_, candidate] = &self.labels;
        let mut attributes = vec![
            attribute("tenure.election", turn.election.clone()),
            attribute("tenure.candidate", candidate.value.to_string()),
            KeyValue::new("tenure.term", i64::try_from(turn.term).unwrap_or(i64::MAX)),
            attribute("tenure.slot", rfc3339(turn.slot)),
            KeyValue::new("tenure.attempt", i64::from(turn.attempt)),
        ];
        attributes.extend(turn.trigger.clone().map(|id| attribute("tenure.trigger", id)));
        let builder = tracer.span_builder("turn").with_kind(SpanKind::Internal);
        // Each turn is a trace of its own.
        Some(builder.with_attributes(attributes).start_with_context(tracer, &Context::new()))
    }
}

fn finish(mut span: Span, end: &TurnEnd) {
    span.set_attribute(KeyValue::new("tenure.outcome", end.to_string()));
    span.set_status(match end {
        TurnEnd::Succeeded => Status::Ok,
        end => Status::error(end.detail().map_or_else(|| end.to_string(), str::to_owned)),
    });
    span.end();
}

/// A handler whose turns are traced.
struct Traced {
    handler: Box<dyn Handler>,
    witness: Witness,
}

impl Handler for Traced {
    fn on_tick(&self, turn: Turn, lease: Deadline) -> BoxFuture<'_, TurnEnd> {
        let parent = self.witness.running().as_ref().map(|span| {
            let context = span.span_context();
            TraceParent {
                trace: u128::from_be_bytes(context.trace_id().to_bytes()),
                span: u64::from_be_bytes(context.span_id().to_bytes()),
                sampled: context.is_sampled(),
            }
        });
        match parent {
            // What the handler does before its first wait belongs to it too.
            Some(parent) => {
                Box::pin(parent.scope(async move { self.handler.on_tick(turn, lease).await }))
            }
            None => self.handler.on_tick(turn, lease),
        }
    }

    fn stopped(&self) -> BoxFuture<'_, ()> {
        self.handler.stopped()
    }
}
