//! Bindings to the WIT package `tenure:election`: its values, and the world of a leader handler.
//!
//! The functions of `election` are called by hand: what is generated would look up and check all of them in each call,
//! and a step needs one.
#![allow(missing_docs, clippy::all, reason = "generated from wit/, which is documented there")]

wasmtime::component::bindgen!({
    path: "wit",
    inline: "
        package tenure:host;
        world leader {
            import tenure:election/types@0.1.0;
            import tenure:election/side-blobs@0.1.0;
            export tenure:election/leader-handler@0.1.0;
        }
    ",
    exports: { default: async },
    additional_derives: [PartialEq, Eq],
});

pub(crate) use self::tenure::election::{side_blobs, types};
