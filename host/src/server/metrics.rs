//! Figures in the text format of Prometheus.

use crate::contract::{Exchange, ExchangeResult, Turn};
use crate::handler::TurnEnd;
use crate::runner::Event;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use std::borrow::Cow;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// The type of the text: OpenMetrics.
pub(super) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The request whose times are worth a histogram: the lease depends on it.
const RENEWAL: &str = "renew lease";

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Request {
    verb: String,
    result: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Outcome {
    outcome: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Class {
    class: &'static str,
}

/// The encoder writes labels as they are.
fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n")
}

/// The last line of a text.
const END: &str = "# EOF";

/// What is said of figures of one name, and these.
#[derive(Default)]
struct Figures<'t> {
    help: &'t str,
    more: Vec<&'t str>,
    samples: Vec<&'t str>,
}

/// The figures of several candidates as one text: those of one name must stand together.
pub(super) fn together(texts: &[String]) -> String {
    let mut all: Vec<Figures<'_>> = Vec::new();
    for text in texts {
        let mut at = 0;
        for line in text.lines().filter(|line| *line != END) {
            if line.starts_with("# HELP ") {
                at = all.iter().position(|figures| figures.help == line).unwrap_or(all.len());
                if at == all.len() {
                    all.push(Figures { help: line, ..Figures::default() });
                }
            } else if let Some(figures) = all.get_mut(at) {
                match line.starts_with('#') {
                    true if figures.more.contains(&line) => {}
                    true => figures.more.push(line),
                    false => figures.samples.push(line),
                }
            }
        }
    }
    let lines = all.iter().flat_map(|f| [&[f.help][..], &f.more, &f.samples].concat());
    lines.chain([END]).map(|line| format!("{line}\n")).collect()
}

/// All figures of one candidate.
#[derive(Debug)]
pub(super) struct Metrics {
    registry: Mutex<Registry>,
    is_leader: Gauge,
    ready: Gauge,
    term: Gauge<u64, AtomicU64>,
    valid_for: Gauge<f64, AtomicU64>,
    elected: Counter,
    stood_down: Counter,
    requests: Family<Request, Counter>,
    renewals: Histogram,
    turns: Family<Outcome, Counter>,
    turn_time: Histogram,
    /// A turn has begun, and not ended.
    works: AtomicBool,
    late: Counter,
    missed: Counter,
    refused: Counter,
    preempted: Counter,
    problems: Family<Class, Counter>,
}

impl Metrics {
    pub(super) fn new(election: &str, candidate: &str) -> Self {
        let labels = [("election", election), ("candidate", candidate)];
        let labels = labels.map(|(name, value)| (Cow::from(name), Cow::from(escaped(value))));
        let mut registry = Registry::with_prefix_and_labels("tenure", labels.into_iter());
        let this = Self {
            is_leader: Gauge::default(),
            ready: Gauge::default(),
            term: Gauge::default(),
            valid_for: Gauge::default(),
            elected: Counter::default(),
            stood_down: Counter::default(),
            requests: Family::default(),
            // 1 ms to 16 s.
            renewals: Histogram::new(exponential_buckets(0.001, 2.0, 15)),
            turns: Family::default(),
            // 10 ms to 3 h.
            turn_time: Histogram::new(exponential_buckets(0.01, 4.0, 11)),
            works: AtomicBool::default(),
            late: Counter::default(),
            missed: Counter::default(),
            refused: Counter::default(),
            preempted: Counter::default(),
            problems: Family::default(),
            registry: Mutex::new(Registry::default()),
        };
        registry.register("is_leader", "1 while this candidate leads", this.is_leader.clone());
        registry.register("ready", "1 while the storage account answers", this.ready.clone());
        registry.register(
            "term",
            "The term of this leader; 0 while it does not lead",
            this.term.clone(),
        );
        registry.register(
            "valid_for_seconds",
            "How long this leader may act without another renewal or beat",
            this.valid_for.clone(),
        );
        registry.register("elections_won", "Leaderships that began", this.elected.clone());
        registry.register("stand_downs", "Leaderships that ended", this.stood_down.clone());
        registry.register("requests", "Requests, by verb and result", this.requests.clone());
        registry.register(
            "renewal_seconds",
            "How long the answered renewals of the lease took",
            this.renewals.clone(),
        );
        registry.register("turns", "Turns by their outcome", this.turns.clone());
        registry.register("turn_seconds", "How long turns took", this.turn_time.clone());
        registry.register(
            "turns_past_due",
            "Turns that came late, or stood for slots that were missed",
            this.late.clone(),
        );
        registry.register(
            "slots_missed",
            "Slots that had no turn and never will, counted by the leader that claimed the next one",
            this.missed.clone(),
        );
        registry.register(
            "turns_refused",
            "Turns that were claimed and did not begin, since their time was over",
            this.refused.clone(),
        );
        registry.register(
            "preemptions",
            "Turns that were stopped: at their time limit, or when the leadership ended",
            this.preempted.clone(),
        );
        registry.register(
            "problems",
            "Problems that were reported, by class",
            this.problems.clone(),
        );
        *this.registry.lock().unwrap_or_else(PoisonError::into_inner) = registry;
        this
    }

    pub(super) fn exchange(&self, exchange: &Exchange) {
        let result = match exchange.result {
            ExchangeResult::Done => "done",
            ExchangeResult::Declined => "declined",
            ExchangeResult::Refused => "refused",
            ExchangeResult::Unavailable => "unavailable",
            ExchangeResult::Nonsense => "nonsense",
            ExchangeResult::Unanswered => "unanswered",
        };
        let verb = exchange.what.clone();
        self.requests.get_or_create(&Request { verb, result }).inc();
        if exchange.what == RENEWAL && result != "unanswered" {
            self.renewals.observe(Duration::from_nanos(exchange.took).as_secs_f64());
        }
    }

    /// A turn was claimed, whether it begins or not.
    pub(super) fn claimed(&self, turn: &Turn) {
        self.missed.inc_by(u64::from(turn.missed));
    }

    pub(super) fn event(&self, event: &Event) {
        match event {
            Event::Elected { .. } => drop(self.elected.inc()),
            Event::StoodDown { .. } => drop(self.stood_down.inc()),
            Event::TurnStarted { turn } => {
                self.works.store(true, Ordering::Relaxed);
                self.late.inc_by(u64::from(turn.past_due));
            }
            Event::TurnEnded { end, elapsed, .. } => {
                match (self.works.swap(false, Ordering::Relaxed), end) {
                    (false, _) => drop(self.refused.inc()),
                    (true, TurnEnd::CutOff | TurnEnd::TimedOut) => drop(self.preempted.inc()),
                    (true, _) => {}
                }
                self.turns.get_or_create(&Outcome { outcome: end.to_string() }).inc();
                self.turn_time.observe(elapsed.as_secs_f64());
            }
            Event::Problem { class, .. } => {
                self.problems.get_or_create(&Class { class: class.name() }).inc();
            }
            _ => {}
        }
    }

    /// All of them, with what is true at this moment.
    pub(super) fn text(&self, term: Option<u64>, valid_for: Duration, ready: bool) -> String {
        self.is_leader.set(i64::from(term.is_some()));
        self.ready.set(i64::from(ready));
        self.term.set(term.unwrap_or(0));
        self.valid_for.set(valid_for.as_secs_f64());
        let mut text = String::new();
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        // Writing into a string cannot fail.
        let _ = encode(&mut text, &registry);
        text
    }
}
