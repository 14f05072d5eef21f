//! What a runner tells while it runs.

use crate::contract::{Turn, rfc3339};
use crate::handler::{Stream, TurnEnd};
use serde::Serialize;
use std::time::Duration;

/// Something that people or programs may want to know of. Serialized with its name in `event`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Event {
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
        /// How long it may act without a renewal from now on, in milliseconds. The instant of
        /// this event and this time are the end of its validity.
        valid_for_ms: u64,
    },
    /// The leadership was prolonged.
    Renewed {
        /// The term that goes on.
        term: u64,
        /// As in [`Event::Elected`].
        valid_for_ms: u64,
    },
    /// A turn of the handler began.
    TurnStarted {
        /// The term under which it runs.
        term: u64,
        /// The scheduled instant, RFC 3339.
        slot: String,
        /// What the turn runs for once and for all, where it is none of the schedule.
        #[serde(skip_serializing_if = "Option::is_none")]
        value: Option<String>,
        /// 1 for the first attempt at this slot.
        attempt: u32,
        /// Whether it comes late, or stands for missed slots too.
        past_due: bool,
        /// So many slots before this one have no turn, and never will; counted up to 1000.
        missed: u32,
    },
    /// A turn of the handler is over: nothing of it runs any more.
    TurnEnded {
        /// The term under which it ran.
        term: u64,
        /// The scheduled instant, RFC 3339.
        slot: String,
        /// `succeeded`, `failed`, `trapped`, `timed-out` or `cut-off`.
        outcome: String,
        /// How long it ran, in milliseconds.
        elapsed_ms: u64,
        /// The handler's error, or why it trapped.
        #[serde(skip_serializing_if = "Option::is_none")]
        detail: Option<String>,
    },
    /// This candidate leads no longer.
    StoodDown {
        /// The term that ended.
        term: u64,
        /// `validity-ended`, `lease-lost`, `left`, `work-failed`, `resigned`, `handed-over` or
        /// `component-failed`.
        reason: &'static str,
    },
    /// Something went wrong. The candidate goes on.
    Problem {
        /// The class of the WIT's `problem`, or `component`: the component itself failed.
        class: &'static str,
        /// What happened, and what to do about it.
        detail: String,
    },
    /// An operator ordered something, over the listener or by a signal.
    Ordered {
        /// `resign`, `hand over to NAME`, `pause` or `resume`. The program `tenure` tells here, too, that
        /// it was told to end: `leave`, and what is left to a turn.
        order: String,
    },
    /// A line that the handler wrote.
    Handler {
        /// The line, without its end.
        line: String,
        /// Where it was written to.
        stream: Stream,
    },
    /// The candidate has left the election. The last event.
    Stopped,
}

impl Event {
    pub(super) fn turn_started(turn: &Turn) -> Self {
        Self::TurnStarted {
            term: turn.term,
            slot: rfc3339(turn.slot),
            value: turn.value.clone(),
            attempt: turn.attempt,
            past_due: turn.past_due,
            missed: turn.missed,
        }
    }

    pub(super) fn turn_ended(turn: &Turn, end: &TurnEnd, elapsed: Duration) -> Self {
        Self::TurnEnded {
            term: turn.term,
            slot: rfc3339(turn.slot),
            outcome: end.to_string(),
            elapsed_ms: milliseconds(elapsed),
            detail: end.detail().map(str::to_owned),
        }
    }

    /// A problem that the component did not report, since it is its own.
    pub(super) fn component_problem(detail: impl Into<String>) -> Self {
        Self::Problem { class: "component", detail: detail.into() }
    }
}

pub(super) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{EndingReason, reason_name};

    #[test]
    fn events_serialize_with_their_names() {
        let json = |event: Event| serde_json::to_string(&event).unwrap();
        assert_eq!(
            json(Event::Elected { term: 7, valid_for_ms: 12_000 }),
            r#"{"event":"elected","term":7,"valid_for_ms":12000}"#
        );
        assert_eq!(
            json(Event::StoodDown { term: 7, reason: reason_name(EndingReason::LeaseLost) }),
            r#"{"event":"stood-down","term":7,"reason":"lease-lost"}"#
        );
        assert_eq!(
            json(Event::Renewed { term: 7, valid_for_ms: 11_990 }),
            r#"{"event":"renewed","term":7,"valid_for_ms":11990}"#
        );
        let turn = Turn {
            election: "jobs/report".to_owned(),
            key: "acme/jobs/report/1970-01-01T00:00:01.500Z".to_owned(),
            term: 7,
            slot: 1_500_000_000,
            value: None,
            attempt: 1,
            past_due: false,
            missed: 0,
            valid_for: 1,
            time_limit: None,
        };
        assert_eq!(
            json(Event::turn_started(&turn)),
            r#"{"event":"turn-started","term":7,"slot":"1970-01-01T00:00:01.500Z","attempt":1,"past_due":false,"missed":0}"#
        );
        assert_eq!(
            json(Event::turn_ended(&turn, &TurnEnd::CutOff, Duration::from_millis(3))),
            r#"{"event":"turn-ended","term":7,"slot":"1970-01-01T00:00:01.500Z","outcome":"cut-off","elapsed_ms":3}"#
        );
        assert_eq!(
            json(Event::Handler { line: "x".to_owned(), stream: Stream::Stderr }),
            r#"{"event":"handler","line":"x","stream":"stderr"}"#
        );
        assert_eq!(json(Event::Stopped), r#"{"event":"stopped"}"#);
    }
}
