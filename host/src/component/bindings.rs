//! Bindings to the WIT package `tenure:election`.
//!
//! The types and the handler's world are generated. The four functions of `election` are called
//! by hand: what is generated would look up and check all four in each call, and a step needs one.
#![allow(missing_docs, clippy::all, reason = "generated from wit/, which is documented there")]

/// The values that the component and the host exchange.
pub(crate) mod values {
    wasmtime::component::bindgen!({
        path: "../wit",
        inline: "
            package tenure:host;
            world values { import tenure:election/types@0.1.0; }
        ",
        additional_derives: [PartialEq, Eq],
    });
}

/// The world of a leader handler. Shares the types of the other.
pub(crate) mod leader {
    wasmtime::component::bindgen!({
        path: "../wit",
        world: "tenure:election/leader",
        imports: { default: async },
        exports: { default: async },
        with: { "tenure:election/types": crate::component::bindings::values::tenure::election::types },
    });
}

#[cfg(feature = "doctor")]
/// The world of the doctor's component; only its types are used.
pub(crate) mod doctor {
    wasmtime::component::bindgen!({
        path: "../wit",
        inline: "
            package tenure:host;
            world doctor { export tenure:election/examination@0.1.0; }
        ",
        additional_derives: [PartialEq, Eq],
        with: { "tenure:election/types": crate::component::bindings::values::tenure::election::types },
    });
}

pub(crate) use values::tenure::election::types;
