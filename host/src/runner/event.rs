//! What a runner tells while it runs.

use crate::handler::{Stream, TurnEnd};
use crate::status::{UpcomingTurn, TurnSummary};
use serde::{Serialize, Serializer};
use std::fmt;
use std::time::Duration;
use tenure_core::{EndingReason, ProblemClass, Turn, milliseconds};
use tracing::Level;

/// Something that people or programs may want to know of. Serialized with its name in `event`, as
/// `tenure run --log json` writes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Event {
    /// What is about to contend: the first event of the program `tenure`, which tells it itself.
    Starting {
        /// The program's version, with what it was built from.
        version: String,
        /// The candidate. Not serialized: each line of the log has it.
        #[serde(skip)]
        candidate: String,
        /// The election. Not serialized, for the same reason.
        #[serde(skip)]
        election: String,
        /// What decides in the election ([`Elector::kind`](super::Elector::kind)): `component`.
        elector: &'static str,
        /// When there are turns, as the record has it: `every 1h`.
        schedule: Option<String>,
        /// What runs in a turn: `command /usr/local/bin/backup`. None: it observes, and never leads.
        work: Option<String>,
        /// How long a lease lasts without a renewal.
        #[serde(rename = "lease_ms", serialize_with = "as_milliseconds")]
        lease: Duration,
        /// How soon a leader that died is replaced, where that is to be sooner than its lease ends.
        #[serde(rename = "failover_ms", serialize_with = "as_milliseconds_if_any")]
        failover: Option<Duration>,
        /// The storage account and where it is: `mystore at https://mystore.blob.core.windows.net`.
        account: String,
        /// The kind of credential that is used, and why this one of several. Nothing of the credential itself.
        credential: String,
    },
    /// What people should know at the start, of the credential for example.
    Note {
        /// One sentence.
        detail: String,
    },
    /// Another candidate leads, or another than before.
    Following {
        /// Its name, where the record could be read.
        leader: Option<String>,
        /// Its term.
        term: Option<u64>,
    },
    /// This candidate leads from now on.
    Elected {
        /// The fencing token.
        term: u64,
        /// How long it may act without a renewal from now on. The instant of this event and this time are
        /// the end of its validity.
        #[serde(rename = "valid_for_ms", serialize_with = "as_milliseconds")]
        valid_for: Duration,
        /// The next turn of the schedule, where that is known already.
        #[serde(skip_serializing_if = "Option::is_none")]
        next_turn: Option<UpcomingTurn>,
    },
    /// The leadership was prolonged.
    Renewed {
        /// The term that goes on.
        term: u64,
        /// As in [`Event::Elected`].
        #[serde(rename = "valid_for_ms", serialize_with = "as_milliseconds")]
        valid_for: Duration,
    },
    /// A turn of the handler began.
    TurnStarted {
        /// Serialized without what only the handler is told: `election`, `key` and limits.
        #[serde(flatten, serialize_with = "as_started")]
        turn: Turn,
    },
    /// A turn of the handler is over: nothing of it runs any more. Without a [`TurnStarted`](Event::TurnStarted)
    /// before it, the turn was claimed but never began; it is then cut off, after no time.
    TurnEnded {
        /// Serialized as `term`, `slot` and, where there is one, `trigger`.
        #[serde(flatten, serialize_with = "as_which")]
        turn: Turn,
        /// Serialized as `outcome` and, where there is one, `detail`.
        #[serde(flatten, serialize_with = "as_outcome")]
        end: TurnEnd,
        /// How long it ran.
        #[serde(rename = "elapsed_ms", serialize_with = "as_milliseconds")]
        elapsed: Duration,
        /// Of the turns before this one the last success and the last failure, and the next slot; another
        /// attempt at this one may come before it. Empty as far as that is not known.
        #[serde(flatten)]
        other_turns: Box<TurnSummary>,
    },
    /// This candidate leads no longer. It is for logs: the turn was cut at its [`Lease`](crate::Lease), and this
    /// comes when the step that was under way then is over. The handler may still be stopping; `TurnEnded` says when it has.
    StoodDown {
        /// The term that ended.
        term: u64,
        /// Why.
        reason: StandDownReason,
    },
    /// Something went wrong. The candidate goes on.
    Problem {
        /// Of what kind it is.
        class: ProblemKind,
        /// What happened, and what to do about it.
        detail: String,
    },
    /// The candidate took an order of its host.
    Ordered {
        /// `resign`, `hand over to NAME`, `contend` or `do not contend`.
        order: String,
    },
    /// The candidate was told to leave.
    Leaving {
        /// How long a turn that runs may go on.
        #[serde(rename = "grace_ms", serialize_with = "as_milliseconds")]
        grace: Duration,
    },
    /// The program `tenure` compiles a component that it has not compiled before, or that is no longer in its
    /// cache.
    Compiling {
        /// Which one.
        component: String,
    },
    /// The component is compiled.
    Compiled {
        /// Which one.
        component: String,
        /// How long it took.
        #[serde(rename = "elapsed_ms", serialize_with = "as_milliseconds")]
        elapsed: Duration,
    },
    /// A line that the handler wrote.
    Handler {
        /// The line, without its end.
        line: String,
        /// Where it was written to.
        stream: Stream,
    },
    /// The candidate has left the election. The last event. If it could not leave in time, a `Problem` says so, no
    /// `StoodDown` came before, and its lease expires. It does not come when the future of `run` is dropped.
    Stopped,
}

/// Why a leadership ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StandDownReason {
    /// The election says so. Shown as the contract spells it: `lease-lost`, for example.
    Election(EndingReason),
    /// The election component failed, and its state was lost. Shown as `component-failed`.
    ComponentFailed,
}

/// Of what kind a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProblemKind {
    /// One of the election's. Shown as the contract spells it: `unreachable`, for example.
    Election(ProblemClass),
    /// The election component itself failed. Shown as `component`.
    Component,
    /// The log of the program `tenure` could not be written. Shown as `log`.
    Log,
    /// The process in which the program `tenure` ran the election has ended. Shown as `process`.
    Process,
    /// The process has more to do than its processors have time for. Shown as `overload`.
    Overload,
    /// Traces or metrics of the program `tenure` could not be sent to their collector. Shown as `telemetry`.
    Telemetry,
}

impl Event {
    /// How much it matters. `ERROR`: somebody has to act, or a turn went wrong. `WARN`: Tenure goes on by itself.
    /// `DEBUG`: what repeats while all is well, as renewals do.
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
                ProblemKind::Election(_) | ProblemKind::Log | ProblemKind::Overload | ProblemKind::Telemetry => Level::WARN,
            },
            _ => Level::INFO,
        }
    }

    /// What is due comes too late, or not at all.
    pub(super) fn overload(cause: &str) -> Self {
        let detail = format!(
            "{cause}: this process was paused, is short of processor time, or has more elections than the account \
             answers in time. While its leaders are late, it wins no election. Give it more processor time, or fewer elections"
        );
        Self::Problem { class: ProblemKind::Overload, detail }
    }

    /// A problem that the component did not report, since it is its own.
    pub(super) fn component_problem(detail: impl Into<String>) -> Self {
        Self::Problem { class: ProblemKind::Component, detail: detail.into() }
    }
}

impl StandDownReason {
    /// As logs and pages show it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Election(reason) => reason.name(),
            Self::ComponentFailed => "component-failed",
        }
    }
}

impl ProblemKind {
    /// As logs, pages and figures show it.
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
            json(Event::StoodDown { term: 7, reason: StandDownReason::Election(EndingReason::LeaseLost) }),
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
