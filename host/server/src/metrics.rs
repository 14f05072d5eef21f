//! The metrics of candidates and of their process: one table for `/metrics` and for OpenTelemetry,
//! and its text for `/metrics` in the formats of Prometheus.

use super::board::{Board, Readiness};
use super::counters::Counts;
use super::role::Role;
use chrono::{DateTime, Utc};
use std::fmt::{Display, Write as _};
use std::sync::Arc;
use std::time::Duration;
use tenure_core::{Timestamp, Turns};

pub use super::counters::{DurationHistogram, renewal, renewal_bounds, turn_bounds};

use Read::{All, Candidate, Count, Process};

/// The media type of OpenMetrics, for clients that accept it.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The media type of the text format, for all other clients.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Clock ticks per second in `/proc` on Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number that only rises.
    Counter,
    /// A present value.
    Gauge,
    /// A histogram of durations.
    Histogram,
}

/// A metric: the description of its samples.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// The name in OpenMetrics. Samples of a counter append `_total` to it.
    pub name: &'static str,
    /// The help text: a sentence without its period.
    pub help: &'static str,
    /// The type.
    pub kind: Kind,
    read: Read,
}

#[derive(Clone, Copy, Debug)]
enum Read {
    /// Read for candidates, not for observers.
    Candidate(fn(&Board, Duration, &mut Samples<'_>)),
    /// Read for candidates and observers.
    All(fn(&Board, Duration, &mut Samples<'_>)),
    /// A count of candidates and observers.
    Count(fn(&Counts) -> u64),
    /// Read once for the process. `None` if the system does not report it.
    Process(fn() -> Option<Sample>),
}

/// A sample of a metric.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Names and values of the labels. Values are not escaped.
    pub labels: Vec<(&'static str, String)>,
    /// The value.
    pub value: Value,
}

/// The value of a sample.
#[derive(Clone, Debug)]
pub enum Value {
    /// An integer.
    Integer(u64),
    /// A floating-point number.
    Float(f64),
    /// A histogram of durations.
    Histogram(DurationHistogram),
}

/// Sink for the samples of one candidate.
struct Samples<'s> {
    board: &'s Board,
    all: &'s mut Vec<Sample>,
}

impl Samples<'_> {
    fn push(&mut self, value: Value) {
        self.push_labelled([], value);
    }

    fn push_integer(&mut self, value: impl Into<u64>) {
        self.push(Value::Integer(value.into()));
    }

    /// Adds the instant in seconds since 1970, if it is known.
    fn push_timestamp(&mut self, at: Option<DateTime<Utc>>) {
        if let Some(at) = at {
            self.push(Value::Float(seconds(at)));
        }
    }

    fn push_labelled<const N: usize>(&mut self, extra: [(&'static str, String); N], value: Value) {
        let Board { election, candidate, .. } = self.board;
        let names = [("election", election.clone()), ("candidate", candidate.clone())];
        self.all.push(Sample { labels: names.into_iter().chain(extra).collect(), value });
    }
}

/// All metrics, in the order of `/metrics`.
const METRICS: [Metric; 25] = [
    gauge(
        "tenure_is_leader",
        "1 while this candidate leads",
        Candidate(|board, now, to| to.push_integer(leadership(board, now).is_some())),
    ),
    gauge(
        "tenure_ready",
        "1 while the storage account answers, lets this candidate lead or follow, and its process is ready",
        Candidate(|board, now, to| to.push_integer(board.participation(now) == Readiness::Ready)),
    ),
    gauge(
        "tenure_term",
        "The term of this candidate while it leads, otherwise 0",
        Candidate(|board, now, to| {
            to.push_integer(leadership(board, now).map_or(0, |(term, _)| term))
        }),
    ),
    gauge(
        "tenure_valid_for_seconds",
        "Duration for which this leader may act without another renewal or beat",
        Candidate(|board, now, to| {
            let remaining = leadership(board, now).map_or(Duration::ZERO, |(_, left)| left);
            to.push(Value::Float(remaining.as_secs_f64()));
        }),
    ),
    gauge(
        "tenure_last_success_timestamp_seconds",
        "Time at which the last turn that succeeded ended, by the record, in seconds since 1970",
        All(|board, _, to| {
            to.push_timestamp(on_record(board, |turns| Some(turns.last_success.as_ref()?.end.at)))
        }),
    ),
    gauge(
        "tenure_last_failure_timestamp_seconds",
        "Time at which the last turn that did not succeed ended, by the record, in seconds since \
         1970",
        All(|board, _, to| {
            to.push_timestamp(on_record(board, |turns| Some(turns.last_failure.as_ref()?.end.at)))
        }),
    ),
    gauge(
        "tenure_next_turn_timestamp_seconds",
        "Time at which the next turn is due, by the record, in seconds since 1970",
        All(|board, _, to| {
            to.push_timestamp(on_record(board, |turns| Some(turns.next.as_ref()?.at)))
        }),
    ),
    gauge(
        "tenure_credential_expires_timestamp_seconds",
        "Time at which the shared access signature expires, in seconds since 1970",
        All(|board, _, to| to.push_timestamp(board.credential_expires())),
    ),
    counter("tenure_elections_won", "Leaderships that began", Count(|counts| counts.elected)),
    counter("tenure_stand_downs", "Leaderships that ended", Count(|counts| counts.stood_down)),
    counter(
        "tenure_requests",
        "Requests, by verb and result",
        All(|board, _, to| {
            for ((verb, result), count) in &board.metrics.counts().requests {
                let labels = [("verb", verb.clone()), ("result", (*result).into())];
                to.push_labelled(labels, Value::Integer(*count));
            }
        }),
    ),
    histogram(
        "tenure_renewal_seconds",
        "Duration of answered renewals of the lease",
        All(|board, _, to| to.push(Value::Histogram(board.metrics.counts().renewals.clone()))),
    ),
    counter(
        "tenure_turns",
        "Turns by their outcome",
        All(|board, _, to| {
            for (outcome, count) in &board.metrics.counts().turns {
                to.push_labelled([("outcome", outcome.clone())], Value::Integer(*count));
            }
        }),
    ),
    histogram(
        "tenure_turn_seconds",
        "Duration of turns",
        All(|board, _, to| {
            to.push(Value::Histogram(board.metrics.counts().turn_durations.clone()))
        }),
    ),
    counter(
        "tenure_turns_triggered",
        "Turns that an operator triggered outside the schedule",
        Count(|counts| counts.triggered),
    ),
    counter(
        "tenure_turns_past_due",
        "Turns that ran late, or for missed slots",
        Count(|counts| counts.past_due),
    ),
    counter(
        "tenure_slots_missed",
        "Slots that had no turn and never will, counted by the leader that claimed the next one",
        Count(|counts| counts.missed),
    ),
    counter(
        "tenure_turns_refused",
        "Turns that were claimed but did not begin, because the validity had ended",
        Count(|counts| counts.refused),
    ),
    counter(
        "tenure_preemptions",
        "Turns that were stopped: at their time-out, or when the leadership ended",
        Count(|counts| counts.preempted),
    ),
    counter(
        "tenure_problems",
        "Problems that were reported, by class",
        All(|board, _, to| {
            for (class, count) in &board.metrics.counts().problems {
                to.push_labelled([("class", (*class).into())], Value::Integer(*count));
            }
        }),
    ),
    gauge(
        "tenure_build_info",
        "Always 1; the version is its label",
        Process(|| {
            let version = ("version", env!("CARGO_PKG_VERSION").into());
            Some(Sample { labels: vec![version], value: Value::Integer(1) })
        }),
    ),
    // These names are those of Prometheus' own client libraries.
    counter(
        "process_cpu_seconds",
        "Time on processors, of the user and of the system, in seconds",
        Process(|| Some(Sample::unlabelled(Value::Float(cpu_seconds()?)))),
    ),
    gauge(
        "process_resident_memory_bytes",
        "Memory that is resident, in bytes",
        Process(|| Some(Sample::unlabelled(Value::Integer(resident_bytes()?)))),
    ),
    gauge(
        "process_open_fds",
        "Open file descriptors",
        Process(|| Some(Sample::unlabelled(Value::Integer(open_descriptors()?)))),
    ),
    gauge(
        "process_start_time_seconds",
        "Time at which this process was started, in seconds since 1970",
        Process(|| Some(Sample::unlabelled(Value::Float(process_started_at()?)))),
    ),
];

const fn counter(name: &'static str, help: &'static str, read: Read) -> Metric {
    Metric { name, help, kind: Kind::Counter, read }
}

const fn gauge(name: &'static str, help: &'static str, read: Read) -> Metric {
    Metric { name, help, kind: Kind::Gauge, read }
}

const fn histogram(name: &'static str, help: &'static str, read: Read) -> Metric {
    Metric { name, help, kind: Kind::Histogram, read }
}

impl Metric {
    /// Returns all metrics.
    pub fn all() -> impl Iterator<Item = &'static Self> {
        METRICS.iter()
    }

    /// Returns the samples at `now`, for these candidates or for the process.
    #[must_use]
    pub fn samples(&self, boards: &[Arc<Board>], now: Duration) -> Vec<Sample> {
        let mut all = Vec::new();
        if let Process(read) = self.read {
            all.extend(read());
            return all;
        }
        for board in boards {
            let mut to = Samples { board, all: &mut all };
            match self.read {
                Candidate(read) if !board.metrics.is_observer => read(board, now, &mut to),
                All(read) => read(board, now, &mut to),
                Count(read) => to.push_integer(read(&board.metrics.counts())),
                Candidate(_) | Process(_) => {}
            }
        }
        all
    }
}

impl Sample {
    pub(super) fn unlabelled(value: Value) -> Self {
        Self { labels: Vec::new(), value }
    }
}

/// Returns the term in which the candidate leads at `now`, and the time for which it may act
/// without another renewal.
fn leadership(board: &Board, now: Duration) -> Option<(u64, Duration)> {
    match board.role(now) {
        Role::Leading { term, until } => Some((term, until.saturating_sub(now))),
        _ => None,
    }
}

/// Returns the instant that `select` finds in the turns on record.
fn on_record(
    board: &Board,
    select: impl FnOnce(&Turns) -> Option<Timestamp>,
) -> Option<DateTime<Utc>> {
    Some(select(board.state().turns.as_ref()?)?.to_date())
}

#[allow(clippy::cast_precision_loss, reason = "exact to the millisecond for 200,000 years")]
fn seconds(at: DateTime<Utc>) -> f64 {
    at.timestamp_millis() as f64 / 1000.0
}

/// Returns the media type and the text of the metrics of these candidates and of the process at
/// `now`. `accept` is the value of the header `Accept`.
pub(super) fn exposition(
    accept: &str,
    boards: &[Arc<Board>],
    now: Duration,
) -> (&'static str, String) {
    let open_metrics = accept.contains("application/openmetrics-text");
    let mut text = String::new();
    for metric in Metric::all() {
        write_metric(&mut text, open_metrics, metric, &metric.samples(boards, now));
    }
    if !open_metrics {
        return (TEXT, text);
    }
    text.push_str("# EOF\n");
    (OPEN_METRICS, text)
}

/// Writes one metric. A metric without samples is omitted.
fn write_metric(text: &mut String, open_metrics: bool, metric: &Metric, samples: &[Sample]) {
    if samples.is_empty() {
        return;
    }
    let (name, help) = (metric.name, metric.help);
    let (kind, suffix) = match metric.kind {
        Kind::Counter => ("counter", "_total"),
        Kind::Gauge => ("gauge", ""),
        Kind::Histogram => ("histogram", ""),
    };
    // In the older format, the description of a counter uses the name of its samples.
    let family = if open_metrics { name.to_owned() } else { format!("{name}{suffix}") };
    // Writing into a string cannot fail.
    let _ = writeln!(text, "# HELP {family} {help}.\n# TYPE {family} {kind}");
    for Sample { labels, value } in samples {
        let labels =
            labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escape_label(value)));
        let labels = labels.collect::<Vec<_>>().join(",");
        let mut sample = |suffix: &str, labels: &str, value: &dyn Display| {
            let _ = match labels {
                "" => writeln!(text, "{name}{suffix} {value}"),
                _ => writeln!(text, "{name}{suffix}{{{labels}}} {value}"),
            };
        };
        match value {
            Value::Integer(value) => sample(suffix, &labels, value),
            Value::Float(value) => sample(suffix, &labels, value),
            Value::Histogram(histogram) => {
                sample("_sum", &labels, &histogram.sum);
                sample("_count", &labels, &histogram.count);
                let mut cumulative = 0;
                for (bound, count) in &histogram.buckets {
                    cumulative += count;
                    sample("_bucket", &format!("{labels},le=\"{bound:?}\""), &cumulative);
                }
                sample("_bucket", &format!("{labels},le=\"+Inf\""), &histogram.count);
            }
        }
    }
}

fn escape_label(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n")
}

/// Returns the processor time of this process in seconds. Like the other values of the process, it
/// comes from `/proc`, and is `None` on systems without `/proc`.
fn cpu_seconds() -> Option<f64> {
    let fields = process_stat()?;
    // `utime` and `stime`.
    let ticks: u64 = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    Some(to_f64(ticks) / TICKS_PER_SECOND)
}

fn process_started_at() -> Option<f64> {
    // `starttime`.
    let ticks: u64 = process_stat()?.get(19)?.parse().ok()?;
    let system = std::fs::read_to_string("/proc/stat").ok()?;
    let booted = system.lines().find_map(|line| line.strip_prefix("btime "))?;
    Some(to_f64(booted.trim().parse().ok()?) + to_f64(ticks) / TICKS_PER_SECOND)
}

/// Returns the fields of `/proc/self/stat` after the name of the program. The name may contain any
/// character.
fn process_stat() -> Option<Vec<String>> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    Some(fields.split_whitespace().map(str::to_owned).collect())
}

fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(1024 * resident.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?)
}

fn open_descriptors() -> Option<u64> {
    // One of the descriptors reads this directory.
    let open = std::fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1);
    u64::try_from(open).ok()
}

#[allow(clippy::cast_precision_loss, reason = "times of a process are far below 2^52 ticks")]
fn to_f64(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests;
