//! What the components of Tenure share of WASI: memory, the words of a panic, and sending a request.
//!
//! They are built without the standard library, which would be a third of each. This brings what they
//! need of it. There is nothing here natively.

#![deny(missing_docs)]
#![cfg_attr(target_family = "wasm", no_std)]

#[cfg(target_family = "wasm")]
extern crate alloc;

#[cfg(target_family = "wasm")]
mod memory;
#[cfg(target_family = "wasm")]
mod panic;
#[cfg(target_family = "wasm")]
mod transport;

#[cfg(target_family = "wasm")]
pub use transport::{nanos, send};
