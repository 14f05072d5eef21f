//! What the components of Tenure share. They are built without the standard library, which would
//! be a third of each: this brings what they need of it, and nothing of an election.

#![deny(missing_docs)]
#![cfg_attr(target_family = "wasm", no_std)]

extern crate alloc;

pub mod duration;
pub mod json;
#[cfg(target_family = "wasm")]
mod memory;
pub mod prelude;
pub mod secret;
pub mod text;
