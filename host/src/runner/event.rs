//! Events of a running candidate.

use crate::handler::{Stream, TurnEnd};
use crate::status::{TurnSummary, UpcomingTurn};
use serde::{Serialize, Serializer};
use std::fmt;
use std::time::Duration;
use tenure_core::{EndingReason, ProblemClass, Turn, milliseconds};
use tracing::Level;

/// Event of a candidate, for logs and programs.
///
/// It is serialized with its name in `event`, like the lines of `tenure run --log json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Event {
    /// The candidate is about to contend. This is the first event of the program `tenure`, which
    /// emits it itself.
    Starting {
        /// Version of the program, with its build.
        version: String,
        /// The candidate. Not serialized, because each line of the log contains it.
        #[serde(skip)]
        candidate: String,
        /// The election. Not serialized, because each line of the log contains it.
        #[serde(skip)]
        election: String,
        /// Kind of the elector ([`Elector::kind`](super::Elector::kind)): `component`.
        elector: &'static str,
        /// Schedule of the turns, as in the record: `every 1h`.
        schedule: Option<String>,
        /// Work of a turn: `command /usr/local/bin/backup`. `None` if the candidate only observes
        /// and never leads.
        work: Option<String>,
        /// Duration of a lease without a renewal.
        #[serde(rename = "lease_ms", serialize_with = "as_milliseconds")]
        lease: Duration,
        /// Longest time until a dead leader is replaced, if that is shorter than its lease.
        #[serde(rename = "failover_ms", serialize_with = "as_milliseconds_if_any")]
        failover: Option<Duration>,
        /// Storage account and its address: `mystore at https://mystore.blob.core.windows.net`.
        account: String,
        /// Kind of the credential, and why it was chosen. Contains no part of the credential.
        credential: String,
    },
    /// Information for operators at the start, for example about the credential.
    Note {
        /// One sentence.
        detail: String,
    },
    /// Another candidate leads, or the leader changed.
    Following {
        /// Name of the leader, if its record could be read.
        leader: Option<String>,
        /// Its term.
        term: Option<u64>,
    },
    /// This candidate leads from now on.
    Elected {
        /// The fencing token.
        term: u64,
        /// Time from this event for which the candidate may act without a renewal.
        #[serde(rename = "valid_for_ms", serialize_with = "as_milliseconds")]
        valid_for: Duration,
        /// Next turn of the schedule, if it is already known.
        #[serde(skip_serializing_if = "Option::is_none")]
        next_turn: Option<UpcomingTurn>,
    },
    /// The lease was renewed.
    Renewed {
        /// Term of the leadership.
        term: u64,
        /// Time from this event for which the candidate may act without a renewal.
        #[serde(rename = "valid_for_ms", serialize_with = "as_milliseconds")]
        valid_for: Duration,
    },
    /// A turn of the handler started.
    TurnStarted {
        /// The turn. Serialized without the fields for the handler alone: `election`, `key` and
        /// limits.
        #[serde(flatten, serialize_with = "as_started")]
        turn: Turn,
    },
    /// A turn of the handler ended, and all its work has stopped.
    ///
    /// If no [`TurnStarted`](Event::TurnStarted) came before it, the turn was claimed but never
    /// started. It is then cut off, with an elapsed time of zero.
    TurnEnded {
        /// The turn. Serialized as `term`, `slot` and `trigger`, if there is one.
        #[serde(flatten, serialize_with = "as_which")]
        turn: Turn,
        /// End of the turn. Serialized as `outcome` and `detail`, if there is one.
        #[serde(flatten, serialize_with = "as_outcome")]
        end: TurnEnd,
        /// Run time of the turn.
        #[serde(rename = "elapsed_ms", serialize_with = "as_milliseconds")]
        elapsed: Duration,
        /// Last success and last failure before this turn, and the next slot.
        ///
        /// Another attempt at this turn may come before the next slot. Unknown values are missing.
        #[serde(flatten)]
        other_turns: Box<TurnSummary>,
    },
    /// This candidate no longer leads.
    ///
    /// This event is for logs. The [`Lease`](crate::Lease) of the turn has already cut it off. This
    /// event follows when the step that was running then has ended. The handler may still be
    /// stopping; `TurnEnded` reports its end.
    StoodDown {
        /// Term that ended.
        term: u64,
        /// Reason for the end.
        reason: StandDownReason,
    },
    /// Something went wrong. The candidate continues.
    Problem {
        /// Kind of the problem.
        class: ProblemKind,
        /// Description of the problem, with advice.
        detail: String,
    },
    /// The candidate took an order of its host.
    Ordered {
        /// One of `resign`, `hand over to NAME`, `contend` and `do not contend`.
        order: String,
    },
    /// The candidate was asked to leave.
    Leaving {
        /// Grace period of a running turn.
        #[serde(rename = "grace_ms", serialize_with = "as_milliseconds")]
        grace: Duration,
    },
    /// The program `tenure` compiles a component that is not in its cache.
    Compiling {
        /// Name of the component.
        component: String,
    },
    /// The component is compiled.
    Compiled {
        /// Name of the component.
        component: String,
        /// Time that it took.
        #[serde(rename = "elapsed_ms", serialize_with = "as_milliseconds")]
        elapsed: Duration,
    },
    /// The handler wrote a line.
    Handler {
        /// The line, without its end.
        line: String,
        /// Stream to which it was written.
        stream: Stream,
    },
    /// The candidate has left the election. This is the last event.
    ///
    /// If the candidate could not leave in time, a `Problem` reports it, no `StoodDown` precedes
    /// this event, and its lease expires. This event does not come if the future of `run` is
    /// dropped.
    Stopped,
}

/// Reason for the end of leadership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StandDownReason {
    /// Reason of the election. Shown with its name in the contract, for example `lease-lost`.
    Election(EndingReason),
    /// The election component failed, and its state was lost. Shown as `component-failed`.
    ComponentFailed,
}

/// Kind of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProblemKind {
    /// Problem class of the election. Shown with its name in the contract, for example
    /// `unreachable`.
    Election(ProblemClass),
    /// The election component itself failed. Shown as `component`.
    Component,
    /// The log of the program `tenure` could not be written. Shown as `log`.
    Log,
    /// The process in which the program `tenure` ran the election has ended. Shown as `process`.
    Process,
    /// The process is overloaded. Shown as `overload`.
    Overload,
    /// Traces or metrics of the program `tenure` could not be sent to their collector. Shown as
    /// `telemetry`.
    Telemetry,
}

impl Event {
    /// Returns the level of the event.
    ///
    /// `ERROR`: an operator must act, or a turn failed. `WARN`: Tenure continues by itself.
    /// `DEBUG`: regular events, like renewals.
    #[must_use]
    pub fn level(&self) -> Level {
        match self {
            Self::Renewed { .. } => Level::DEBUG,
            Self::TurnEnded { end, .. } => match end {
                TurnEnd::Succeeded => Level::INFO,
                TurnEnd::CutOff => Level::WARN,
                TurnEnd::Failed(_) | TurnEnd::Trapped(_) | TurnEnd::TimedOut => Level::ERROR,
            },
            Self::StoodDown { reason, .. } => match reason {
                StandDownReason::Election(
                    EndingReason::Left | EndingReason::Resigned | EndingReason::HandedOver,
                ) => Level::INFO,
                StandDownReason::Election(_) | StandDownReason::ComponentFailed => Level::WARN,
            },
            Self::Problem { class, .. } => match class {
                ProblemKind::Election(
                    ProblemClass::Configuration
                    | ProblemClass::UnusableBlob
                    | ProblemClass::ForeignLease
                    | ProblemClass::Refused
                    | ProblemClass::Clock
                    | ProblemClass::Schedule
                    | ProblemClass::Work,
                )
                | ProblemKind::Component
                | ProblemKind::Process => Level::ERROR,
                ProblemKind::Election(_)
                | ProblemKind::Log
                | ProblemKind::Overload
                | ProblemKind::Telemetry => Level::WARN,
            },
            _ => Level::INFO,
        }
    }

    /// Creates the problem of an overloaded process, whose steps are late.
    pub(super) fn overload(cause: &str) -> Self {
        let detail = format!(
            "{cause}: this process was paused, is overloaded, or has more elections than the account \
             answers in time. While its leaders are late, it does not contend for new leases. Give it more CPU time or fewer elections"
        );
        Self::Problem { class: ProblemKind::Overload, detail }
    }

    /// Creates a problem of the election component itself, which it did not report.
    pub(super) fn component_problem(detail: impl Into<String>) -> Self {
        Self::Problem { class: ProblemKind::Component, detail: detail.into() }
    }
}

impl StandDownReason {
    /// Returns the name in logs and pages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Election(reason) => reason.name(),
            Self::ComponentFailed => "component-failed",
        }
    }
}

impl ProblemKind {
    /// Returns the name in logs, pages and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Election(class) => class.name(),
            Self::Component => "component",
            Self::Log => "log",
            Self::Process => "process",
            Self::Overload => "overload",
            Self::Telemetry => "telemetry",
        }
    }
}

impl fmt::Display for StandDownReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for ProblemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for StandDownReason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl Serialize for ProblemKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

fn as_milliseconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    milliseconds(*time).serialize(serializer)
}

fn as_milliseconds_if_any<S: Serializer>(
    time: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    time.map(milliseconds).serialize(serializer)
}

fn as_started<S: Serializer>(turn: &Turn, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Started<'t> {
        term: u64,
        slot: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        trigger: Option<&'t str>,
        attempt: u32,
        past_due: bool,
        missed: u32,
    }
    let &Turn { term, slot, ref trigger, attempt, past_due, missed, .. } = turn;
    let (slot, trigger) = (slot.to_rfc3339(), trigger.as_deref());
    Started { term, slot, trigger, attempt, past_due, missed }.serialize(serializer)
}

fn as_which<S: Serializer>(turn: &Turn, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Which<'t> {
        term: u64,
        slot: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        trigger: Option<&'t str>,
    }
    let trigger = turn.trigger.as_deref();
    Which { term: turn.term, slot: turn.slot.to_rfc3339(), trigger }.serialize(serializer)
}

fn as_outcome<S: Serializer>(end: &TurnEnd, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Ended<'e> {
        outcome: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        detail: Option<&'e str>,
    }
    Ended { outcome: end.to_string(), detail: end.detail() }.serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure_core::Timestamp;

    #[test]
    fn events_serialize_with_their_names() {
        let json = |event: Event| serde_json::to_string(&event).unwrap();
        assert_eq!(
            json(Event::Elected { term: 7, valid_for: Duration::from_secs(12), next_turn: None }),
            r#"{"event":"elected","term":7,"valid_for_ms":12000}"#
        );
        assert_eq!(
            json(Event::StoodDown {
                term: 7,
                reason: StandDownReason::Election(EndingReason::LeaseLost)
            }),
            r#"{"event":"stood-down","term":7,"reason":"lease-lost"}"#
        );
        assert_eq!(
            json(Event::Renewed { term: 7, valid_for: Duration::from_millis(11_990) }),
            r#"{"event":"renewed","term":7,"valid_for_ms":11990}"#
        );
        let turn = Turn {
            election: "jobs/report".to_owned(),
            key: "acme/jobs/report/1970-01-01T00:00:01.500Z".to_owned(),
            term: 7,
            slot: Timestamp(1_500_000_000),
            trigger: None,
            attempt: 1,
            past_due: false,
            missed: 0,
            valid_for: Duration::from_nanos(1),
            time_limit: None,
            share: None,
        };
        assert_eq!(
            json(Event::TurnStarted { turn: turn.clone() }),
            r#"{"event":"turn-started","term":7,"slot":"1970-01-01T00:00:01.500Z","attempt":1,"past_due":false,"missed":0}"#
        );
        assert_eq!(
            json(Event::TurnEnded {
                turn,
                end: TurnEnd::CutOff,
                elapsed: Duration::from_millis(3),
                other_turns: Box::default(),
            }),
            r#"{"event":"turn-ended","term":7,"slot":"1970-01-01T00:00:01.500Z","outcome":"cut-off","elapsed_ms":3}"#
        );
        assert_eq!(
            json(Event::Handler { line: "x".to_owned(), stream: Stream::Stderr }),
            r#"{"event":"handler","line":"x","stream":"stderr"}"#
        );
        assert_eq!(json(Event::Stopped), r#"{"event":"stopped"}"#);
        assert_eq!(
            json(Event::Leaving { grace: Duration::from_secs(3) }),
            r#"{"event":"leaving","grace_ms":3000}"#
        );
    }
}
