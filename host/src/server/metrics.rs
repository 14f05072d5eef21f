//! The figures of a candidate.

use crate::contract::{Exchange, ExchangeResult, ProblemClass, Turn};
use crate::handler::TurnEnd;
use crate::runner::{self, Event};
use chrono::{DateTime, Utc};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// The request whose times are worth a histogram: the lease depends on it.
const RENEWAL: &str = "renew lease";

/// How long a renewal took that was answered; none for all else.
pub fn renewal(exchange: &Exchange) -> Option<Duration> {
    let answered = exchange.result != ExchangeResult::Unanswered;
    (exchange.what == RENEWAL && answered).then(|| Duration::from_nanos(exchange.took))
}

/// What times of renewals are counted by, in seconds: 1 ms to 16 s.
pub fn renewal_bounds() -> impl Iterator<Item = f64> {
    exponential_buckets(0.001, 2.0, 15)
}

/// What times of turns are counted by, in seconds: 10 ms to 3 h.
pub fn turn_bounds() -> impl Iterator<Item = f64> {
    exponential_buckets(0.01, 4.0, 11)
}

/// How turns end: each has its series before the first one ends so.
const ENDS: [TurnEnd; 5] = [
    TurnEnd::Succeeded,
    TurnEnd::Failed(String::new()),
    TurnEnd::Trapped(String::new()),
    TurnEnd::TimedOut,
    TurnEnd::CutOff,
];

/// What problems are of: each has its series before there is one.
const CLASSES: [runner::Class; 12] = [
    runner::Class::Election(ProblemClass::Configuration),
    runner::Class::Election(ProblemClass::Refused),
    runner::Class::Election(ProblemClass::Clock),
    runner::Class::Election(ProblemClass::Unreachable),
    runner::Class::Election(ProblemClass::Unavailable),
    runner::Class::Election(ProblemClass::Nonsense),
    runner::Class::Election(ProblemClass::LeaseLost),
    runner::Class::Election(ProblemClass::Schedule),
    runner::Class::Election(ProblemClass::Work),
    runner::Class::Election(ProblemClass::Order),
    runner::Class::Component,
    runner::Class::Overload,
];

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

/// An instant in seconds since 1970. It has a sample only where it is known.
type Instants = Family<Vec<(String, String)>, Gauge<f64, AtomicU64>>;

/// What is true at a moment.
#[derive(Default)]
pub(super) struct Now {
    /// That of the leader.
    pub term: Option<u64>,
    pub valid_for: Duration,
    pub ready: bool,
    pub last_success: Option<DateTime<Utc>>,
    pub last_failure: Option<DateTime<Utc>>,
    pub next_turn: Option<DateTime<Utc>>,
    pub credential_expires: Option<DateTime<Utc>>,
}

/// All figures of one candidate.
#[derive(Debug)]
pub(super) struct Metrics {
    /// Of the election and of the candidate.
    names: [String; 2],
    /// Whether it only observes: who leads, and who could, is for candidates to say.
    pub(super) observes: bool,
    is_leader: Gauge,
    ready: Gauge,
    term: Gauge<u64, AtomicU64>,
    valid_for: Gauge<f64, AtomicU64>,
    last_success: Instants,
    last_failure: Instants,
    next_turn: Instants,
    credential_expires: Instants,
    elected: Counter,
    stood_down: Counter,
    requests: Family<Request, Counter>,
    renewals: Histogram,
    turns: Family<Outcome, Counter>,
    turn_time: Histogram,
    /// A turn has begun, and not ended.
    works: AtomicBool,
    triggered: Counter,
    late: Counter,
    missed: Counter,
    refused: Counter,
    preempted: Counter,
    problems: Family<Class, Counter>,
}

impl Metrics {
    pub(super) fn new(election: &str, candidate: &str) -> Self {
        Self {
            names: [election, candidate].map(escaped),
            observes: false,
            is_leader: Gauge::default(),
            ready: Gauge::default(),
            term: Gauge::default(),
            valid_for: Gauge::default(),
            last_success: Family::default(),
            last_failure: Family::default(),
            next_turn: Family::default(),
            credential_expires: Family::default(),
            elected: Counter::default(),
            stood_down: Counter::default(),
            requests: Family::default(),
            renewals: Histogram::new(renewal_bounds()),
            turns: Family::default(),
            turn_time: Histogram::new(turn_bounds()),
            works: AtomicBool::default(),
            triggered: Counter::default(),
            late: Counter::default(),
            missed: Counter::default(),
            refused: Counter::default(),
            preempted: Counter::default(),
            problems: Family::default(),
        }
    }

    /// The figures with their names. Made when they are asked for: of thousands of candidates hardly anybody asks.
    fn registry(&self) -> Registry {
        let labels = ["election", "candidate"].into_iter().zip(&self.names);
        let labels = labels.map(|(name, value)| (Cow::from(name), Cow::from(value.clone())));
        let mut registry = Registry::with_prefix_and_labels("tenure", labels);
        if !self.observes {
            registry.register("is_leader", "1 while this candidate leads", self.is_leader.clone());
            registry.register(
                "ready",
                "1 while the storage account answers, and lets this candidate lead or follow",
                self.ready.clone(),
            );
            registry.register(
                "term",
                "The term of this candidate while it leads, otherwise 0",
                self.term.clone(),
            );
            registry.register(
                "valid_for_seconds",
                "How long this leader may act without another renewal or beat",
                self.valid_for.clone(),
            );
        }
        registry.register(
            "last_success_timestamp_seconds",
            "When the last turn that succeeded ended, by the record, in seconds since 1970",
            self.last_success.clone(),
        );
        registry.register(
            "last_failure_timestamp_seconds",
            "When the last turn that did not succeed ended, by the record, in seconds since 1970",
            self.last_failure.clone(),
        );
        registry.register(
            "next_turn_timestamp_seconds",
            "When the next turn is due, by the record, in seconds since 1970",
            self.next_turn.clone(),
        );
        registry.register(
            "credential_expires_timestamp_seconds",
            "When the shared access signature expires, in seconds since 1970",
            self.credential_expires.clone(),
        );
        registry.register("elections_won", "Leaderships that began", self.elected.clone());
        registry.register("stand_downs", "Leaderships that ended", self.stood_down.clone());
        registry.register("requests", "Requests, by verb and result", self.requests.clone());
        registry.register(
            "renewal_seconds",
            "How long answered renewals of the lease took",
            self.renewals.clone(),
        );
        registry.register("turns", "Turns by their outcome", self.turns.clone());
        registry.register("turn_seconds", "How long turns took", self.turn_time.clone());
        registry.register(
            "turns_triggered",
            "Turns that somebody asked for outside the schedule",
            self.triggered.clone(),
        );
        registry.register(
            "turns_past_due",
            "Turns that ran late, or for missed slots",
            self.late.clone(),
        );
        registry.register(
            "slots_missed",
            "Slots that had no turn and never will, counted by the leader that claimed the next one",
            self.missed.clone(),
        );
        registry.register(
            "turns_refused",
            "Turns that were claimed but did not begin, because the validity had ended",
            self.refused.clone(),
        );
        registry.register(
            "preemptions",
            "Turns that were stopped: at their time limit, or when the leadership ended",
            self.preempted.clone(),
        );
        registry.register(
            "problems",
            "Problems that were reported, by class",
            self.problems.clone(),
        );
        for end in ENDS {
            drop(self.turns.get_or_create(&Outcome { outcome: end.to_string() }));
        }
        for class in CLASSES {
            drop(self.problems.get_or_create(&Class { class: class.name() }));
        }
        registry
    }

    /// A text in which each figure has a sample, for who has to know all names.
    pub(super) fn example() -> String {
        let this = Self::new("container/blob", "candidate");
        let (result, some) = (ExchangeResult::Done, Some(DateTime::UNIX_EPOCH));
        this.exchange(&Exchange { what: RENEWAL.to_owned(), result, took: 0 });
        let now = Now {
            last_success: some,
            last_failure: some,
            next_turn: some,
            credential_expires: some,
            ..Now::default()
        };
        this.text(&now)
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
        let verb = exchange.what.replace(' ', "-");
        self.requests.get_or_create(&Request { verb, result }).inc();
        if let Some(took) = renewal(exchange) {
            self.renewals.observe(took.as_secs_f64());
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
                self.triggered.inc_by(u64::from(turn.trigger.is_some()));
                self.late.inc_by(u64::from(turn.past_due));
            }
            Event::TurnEnded { end, elapsed, .. } => {
                // It never began: it is no turn.
                if !self.works.swap(false, Ordering::Relaxed) {
                    self.refused.inc();
                    return;
                }
                if matches!(end, TurnEnd::CutOff | TurnEnd::TimedOut) {
                    self.preempted.inc();
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
    pub(super) fn text(&self, now: &Now) -> String {
        self.is_leader.set(i64::from(now.term.is_some()));
        self.ready.set(i64::from(now.ready));
        self.term.set(now.term.unwrap_or(0));
        self.valid_for.set(now.valid_for.as_secs_f64());
        for (instants, at) in [
            (&self.last_success, now.last_success),
            (&self.last_failure, now.last_failure),
            (&self.next_turn, now.next_turn),
            (&self.credential_expires, now.credential_expires),
        ] {
            match at {
                Some(at) => drop(instants.get_or_create(&Vec::new()).set(seconds(at))),
                None => instants.clear(),
            }
        }
        let mut text = String::new();
        // Writing into a string cannot fail.
        let _ = encode(&mut text, &self.registry());
        text
    }
}

#[allow(clippy::cast_precision_loss, reason = "to the millisecond, for 200,000 years")]
fn seconds(at: DateTime<Utc>) -> f64 {
    at.timestamp_millis() as f64 / 1000.0
}
