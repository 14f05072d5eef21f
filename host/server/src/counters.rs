//! Counters of a candidate.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tenure::handler::TurnEnd;
use tenure::{Event, ProblemKind};
use tenure_core::{Exchange, ExchangeResult, ProblemClass, RequestKind, Turn};

/// Returns the duration of `exchange` if it is an answered renewal.
#[must_use]
pub fn renewal(exchange: &Exchange) -> Option<Duration> {
    let answered = exchange.result != ExchangeResult::Unanswered;
    (exchange.what == RequestKind::RenewLease && answered).then_some(exchange.took)
}

/// Returns the bucket bounds for durations of renewals, in seconds: 1 ms to 16 s.
pub fn renewal_bounds() -> impl Iterator<Item = f64> {
    (0..15).map(|n| 0.001 * 2_f64.powi(n))
}

/// Returns the bucket bounds for durations of turns, in seconds: 10 ms to 3 h.
pub fn turn_bounds() -> impl Iterator<Item = f64> {
    (0..11).map(|n| 0.01 * 4_f64.powi(n))
}

/// Outcomes of turns that have a sample from the start, with the count 0.
const ENDS: [TurnEnd; 5] = [
    TurnEnd::Succeeded,
    TurnEnd::Failed(String::new()),
    TurnEnd::Trapped(String::new()),
    TurnEnd::TimedOut,
    TurnEnd::CutOff,
];

/// Classes of problems that have a sample from the start, with the count 0.
const CLASSES: [ProblemKind; 14] = [
    ProblemKind::Election(ProblemClass::Configuration),
    ProblemKind::Election(ProblemClass::UnusableBlob),
    ProblemKind::Election(ProblemClass::ForeignLease),
    ProblemKind::Election(ProblemClass::Refused),
    ProblemKind::Election(ProblemClass::Clock),
    ProblemKind::Election(ProblemClass::Unreachable),
    ProblemKind::Election(ProblemClass::Unavailable),
    ProblemKind::Election(ProblemClass::Nonsense),
    ProblemKind::Election(ProblemClass::LeaseLost),
    ProblemKind::Election(ProblemClass::Schedule),
    ProblemKind::Election(ProblemClass::Work),
    ProblemKind::Election(ProblemClass::Order),
    ProblemKind::Component,
    ProblemKind::Overload,
];

/// A histogram of durations.
#[derive(Clone, Debug)]
pub struct DurationHistogram {
    /// The upper bound of each bucket in seconds, and the number of durations in it.
    pub buckets: Vec<(f64, u64)>,
    /// The number of durations, including those above the last bound.
    pub count: u64,
    /// The sum of the durations, in seconds.
    pub sum: f64,
}

impl DurationHistogram {
    fn with_bounds(bounds: impl Iterator<Item = f64>) -> Self {
        Self { buckets: bounds.map(|bound| (bound, 0)).collect(), count: 0, sum: 0.0 }
    }

    fn add(&mut self, took: Duration) {
        let took = took.as_secs_f64();
        self.sum += took;
        self.count += 1;
        if let Some((_, count)) = self.buckets.iter_mut().find(|(bound, _)| took <= *bound) {
            *count += 1;
        }
    }
}

/// Counts since the candidate started.
#[derive(Debug)]
pub(super) struct Counts {
    pub elected: u64,
    pub stood_down: u64,
    /// Requests by verb and result.
    pub requests: BTreeMap<(String, &'static str), u64>,
    pub renewals: DurationHistogram,
    /// Turns by outcome.
    pub turns: BTreeMap<String, u64>,
    pub turn_durations: DurationHistogram,
    /// True while a turn runs.
    turn_running: bool,
    pub triggered: u64,
    pub past_due: u64,
    pub missed: u64,
    pub refused: u64,
    pub preempted: u64,
    /// Problems by class.
    pub problems: BTreeMap<&'static str, u64>,
}

/// All counters of one candidate.
#[derive(Debug)]
pub(super) struct Metrics {
    /// True for an observer, whose metrics omit leadership and readiness.
    pub(super) is_observer: bool,
    counts: Mutex<Counts>,
}

impl Metrics {
    pub(super) fn new() -> Self {
        let counts = Counts {
            elected: 0,
            stood_down: 0,
            requests: BTreeMap::new(),
            renewals: DurationHistogram::with_bounds(renewal_bounds()),
            turns: ENDS.iter().map(|end| (end.to_string(), 0)).collect(),
            turn_durations: DurationHistogram::with_bounds(turn_bounds()),
            turn_running: false,
            triggered: 0,
            past_due: 0,
            missed: 0,
            refused: 0,
            preempted: 0,
            problems: CLASSES.iter().map(|class| (class.name(), 0)).collect(),
        };
        Self { is_observer: false, counts: Mutex::new(counts) }
    }

    pub(super) fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn on_exchange(&self, exchange: &Exchange) {
        let result = match exchange.result {
            ExchangeResult::Done => "done",
            ExchangeResult::Declined => "declined",
            ExchangeResult::Refused => "refused",
            ExchangeResult::Unavailable => "unavailable",
            ExchangeResult::Nonsense => "nonsense",
            ExchangeResult::Unanswered => "unanswered",
        };
        let verb = exchange.what.name().replace(' ', "-");
        let mut counts = self.counts();
        *counts.requests.entry((verb, result)).or_default() += 1;
        if let Some(took) = renewal(exchange) {
            counts.renewals.add(took);
        }
    }

    /// Counts the slots missed before a claimed turn, even if the turn does not start.
    pub(super) fn on_claimed(&self, turn: &Turn) {
        self.counts().missed += u64::from(turn.missed);
    }

    pub(super) fn on_event(&self, event: &Event) {
        let mut counts = self.counts();
        match event {
            Event::Elected { .. } => counts.elected += 1,
            Event::StoodDown { .. } => counts.stood_down += 1,
            Event::TurnStarted { turn } => {
                counts.turn_running = true;
                counts.triggered += u64::from(turn.trigger.is_some());
                counts.past_due += u64::from(turn.past_due);
            }
            // A claimed turn that never started counts as refused, not as a turn.
            Event::TurnEnded { .. } if !counts.turn_running => counts.refused += 1,
            Event::TurnEnded { end, elapsed, .. } => {
                counts.turn_running = false;
                counts.preempted += u64::from(matches!(end, TurnEnd::CutOff | TurnEnd::TimedOut));
                *counts.turns.entry(end.to_string()).or_default() += 1;
                counts.turn_durations.add(*elapsed);
            }
            Event::Problem { class, .. } => *counts.problems.entry(class.name()).or_default() += 1,
            _ => {}
        }
    }
}
