//! Small values that the crates of Tenure share: durations, JSON, texts. Nothing of an election, and no
//! standard library: the components would be a third larger by it.

#![deny(missing_docs)]
#![cfg_attr(target_family = "wasm", no_std)]

extern crate alloc;

pub mod duration;
pub mod json;
pub mod prelude;
pub mod secret;
pub mod text;
