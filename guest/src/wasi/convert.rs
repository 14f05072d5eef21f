//! Conversions between the values of the core and those of the WIT.

use super::bindings::tenure::election::types;
use super::clock;
use tenure_core::{BackgroundReply, Event, Outcome, Timestamp, TurnResult};

tenure_core::convert_contract!(types);

/// Converts an event of the host. Its response, if any, has just been received.
pub fn event(event: wit::Event) -> Event {
    match event {
        wit::Event::TurnEnded(result) => Event::TurnEnded(turn_result(result)),
        wit::Event::Leave(result) => Event::Leave(result.map(turn_result)),
        wit::Event::ResetSlot => Event::ResetSlot,
        wit::Event::Resign => Event::Resign,
        wit::Event::HandOver(to) => Event::HandOver(to),
        wit::Event::Ready(ready) => Event::Ready(ready),
        wit::Event::Answered(reply) => {
            let received_at = Timestamp::from_date(clock::wall());
            Event::BackgroundReply(BackgroundReply { result: reply.convert(), received_at })
        }
        wit::Event::Hint => Event::Hint,
    }
}

fn turn_result(result: wit::TurnResult) -> TurnResult {
    let result: TurnResult = result.convert();
    match result.outcome {
        // Only this side marks a slot as abandoned.
        Outcome::Abandoned => TurnResult { outcome: Outcome::Failed, ..result },
        _ => result,
    }
}
