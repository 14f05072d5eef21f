//! The Tenure election component: leader election with a lease on an Azure blob.
//!
//! [`tenure_core`] decides for a candidate, and [`tenure_azure`] builds the requests to the Blob
//! service. This crate turns them into a component. The module `wasi`, compiled only for wasm,
//! moves bytes and time between them and the host, and implements the WIT world `socket`.
//! [`entry`] handles the requests of platforms, without I/O.

#![deny(missing_docs)]
#![cfg_attr(target_family = "wasm", no_std)]

pub mod entry;
#[cfg(target_family = "wasm")]
mod wasi;
