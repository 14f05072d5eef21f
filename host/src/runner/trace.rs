//! Events for subscribers of the crate `tracing`. The library installs no subscriber.

use super::event::Event;
use tenure_core::{Turn, milliseconds};
use tracing::{Level, Span, info_span};

/// Emits an event of `tracing` at the level of an [`Event`].
macro_rules! at_level {
    ($event:expr, $($fields:tt)+) => {
        match $event.level() {
            Level::ERROR => tracing::error!($($fields)+),
            Level::WARN => tracing::warn!($($fields)+),
            Level::INFO => tracing::info!($($fields)+),
            _ => tracing::debug!($($fields)+),
        }
    };
}

impl Event {
    /// Emits the event to subscribers of the crate `tracing`. It costs next to nothing without a
    /// subscriber.
    pub fn emit(&self) {
        match self {
            Event::Note { detail } => at_level!(self, "{detail}"),
            Event::Following { leader, term } => at_level!(self, leader, term, "following"),
            Event::Elected { term, valid_for, .. } => {
                at_level!(self, term, valid_for_ms = milliseconds(*valid_for), "elected");
            }
            Event::Renewed { term, valid_for } => {
                at_level!(self, term, valid_for_ms = milliseconds(*valid_for), "renewed");
            }
            Event::TurnStarted { turn } => {
                let &Turn { term, attempt, past_due, missed, .. } = turn;
                at_level!(
                    self,
                    term,
                    slot = turn.slot.to_rfc3339(),
                    attempt,
                    past_due,
                    missed,
                    "turn started"
                );
            }
            Event::TurnEnded { turn, end, elapsed, .. } => at_level!(
                self,
                term = turn.term,
                slot = turn.slot.to_rfc3339(),
                outcome = %end,
                detail = end.detail(),
                elapsed_ms = milliseconds(*elapsed),
                "turn ended"
            ),
            Event::StoodDown { term, reason } => at_level!(self, term, %reason, "stood down"),
            Event::Problem { class, detail } => at_level!(self, %class, "{detail}"),
            Event::Ordered { order } => at_level!(self, order, "ordered"),
            Event::Leaving { .. } => at_level!(self, "leaving"),
            Event::Stopped => at_level!(self, "stopped"),
            // The program logs these itself.
            Event::Starting { .. }
            | Event::Compiling { .. }
            | Event::Compiled { .. }
            | Event::Handler { .. } => {}
        }
    }
}

/// Creates the span of a candidate.
pub(super) fn candidate_span((election, candidate): (&str, &str)) -> Span {
    info_span!("candidate", election, candidate)
}

/// Creates the span of a turn.
pub(super) fn turn_span(turn: &Turn) -> Span {
    let Turn { election, term, attempt, .. } = turn;
    info_span!("turn", election, term, slot = turn.slot.to_rfc3339(), attempt)
}
