//! Bindings to the values of the WIT package `tenure:election`.
#![allow(missing_docs, clippy::all, reason = "generated from wit/, which is documented there")]

wasmtime::component::bindgen!({
    path: "wit",
    inline: "
        package tenure:host;
        world values { import tenure:election/types@0.1.0; import tenure:election/side-blobs@0.1.0; }
    ",
    additional_derives: [PartialEq, Eq],
});

pub(crate) use self::tenure::election::{side_blobs, types};
