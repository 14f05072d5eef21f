//! The Tenure election component: leader election with a lease on an Azure blob.
//!
//! What a candidate decides is in [`tenure_core`], what is sent to the Blob service in
//! [`tenure_azure`]. Here is what makes a component of them: `wasi`, which exists only as wasm, moves bytes and
//! time between these and the host, and implements the WIT world `socket`; [`entry`] is what the entries for
//! platforms are asked, and answer, without I/O.

#![deny(missing_docs)]
#![cfg_attr(target_family = "wasm", no_std)]

pub mod entry;
#[cfg(target_family = "wasm")]
mod wasi;
