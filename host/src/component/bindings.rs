//! Bindings to the worlds of the WIT package `tenure:election`, whose values are in
//! [`crate::contract`].
//!
//! The handler's world is generated. The four functions of `election` are called
//! by hand: what is generated would look up and check all four in each call, and a step needs one.
#![allow(missing_docs, clippy::all, reason = "generated from wit/, which is documented there")]

/// The world of a leader handler. Shares the types of the other.
pub(crate) mod leader {
    wasmtime::component::bindgen!({
        path: "wit",
        world: "tenure:election/leader",
        imports: { default: async },
        exports: { default: async },
        with: { "tenure:election/types": crate::contract::bindings::tenure::election::types },
    });
}
