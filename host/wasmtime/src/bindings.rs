//! Bindings to the WIT package `tenure:election`: its values, and the world of a leader handler.
//!
//! The functions of `election` have no generated bindings. These would look up and check all
//! functions in each call, and a step needs only one.
#![allow(missing_docs, clippy::all, reason = "generated from wit/, which is documented there")]

wasmtime::component::bindgen!({
    path: "wit",
    inline: "
        package tenure:host;
        world leader {
            import tenure:election/types@0.1.0;
            export tenure:election/leader-handler@0.1.0;
        }
    ",
    exports: { default: async },
    additional_derives: [PartialEq, Eq],
});

pub(crate) use self::tenure::election::types;
use tenure_core::{BackgroundReply, Event};

tenure_core::convert_contract!(types);

/// Interface through which a handler component is called.
pub(crate) const LEADER_HANDLER: &str = "tenure:election/leader-handler@0.1.0";

/// Converts the event of a step.
pub(crate) fn convert_event(event: Event) -> wit::Event {
    match event {
        Event::TurnEnded(result) => wit::Event::TurnEnded(result.convert()),
        Event::Leave(result) => wit::Event::Leave(result.convert()),
        // No host sends this.
        Event::LeaveLate(result) => wit::Event::Leave(Some(result.convert())),
        Event::ResetSlot => wit::Event::ResetSlot,
        Event::Resign => wit::Event::Resign,
        Event::HandOver(to) => wit::Event::HandOver(to),
        Event::Ready(ready) => wit::Event::Ready(ready),
        Event::Hint => wit::Event::Hint,
        // The reply's time is omitted, because the component reads its clock itself.
        Event::BackgroundReply(BackgroundReply { result: reply, .. }) => {
            wit::Event::Answered(reply.convert())
        }
    }
}
