//! Bindings to the WIT package `tenure:election`: its values, and the world of a leader handler.
//!
//! The functions of `election` are called by hand. Generated code would look up and check all of
//! them in each call, and a step needs one.
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

/// Converts the input of a step.
pub(crate) fn event(event: Event) -> wit::Event {
    match event {
        Event::TurnEnded(result) => wit::Event::TurnEnded(result.convert()),
        Event::Leave(result) => wit::Event::Leave(result.convert()),
        Event::LeaveLate(result) => wit::Event::Leave(Some(result.convert())),
        Event::ResetSlot => wit::Event::ResetSlot,
        Event::Resign => wit::Event::Resign,
        Event::HandOver(to) => wit::Event::HandOver(to),
        Event::Ready(ready) => wit::Event::Ready(ready),
        Event::Hint => wit::Event::Hint,
        // The component reads the time itself.
        Event::BackgroundReply(BackgroundReply { result: reply, .. }) => {
            wit::Event::Answered(reply.convert())
        }
    }
}
