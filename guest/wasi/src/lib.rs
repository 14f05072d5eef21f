//! The part of WASI that the components of Tenure share: memory, panic messages, and sending a
//! request.
//!
//! The components are built without the standard library, which would be a third of each. This
//! crate replaces the parts that they need. Natively it is empty.

#![deny(missing_docs)]
#![cfg_attr(target_family = "wasm", no_std)]

#[cfg(target_family = "wasm")]
extern crate alloc;

#[cfg(target_family = "wasm")]
mod runtime;
#[cfg(target_family = "wasm")]
mod transport;

#[cfg(target_family = "wasm")]
pub use transport::{nanos, send};
