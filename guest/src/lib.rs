//! The Tenure election component: leader election with a lease on an Azure blob.
//!
//! What a candidate decides is in [`tenure_core`], what is sent to the Blob service in
//! [`tenure_azure`]. Here is what makes a component of them. Three parts are pure, without I/O, clock or
//! wasm, and build natively too:
//!
//! - `doctor`: what an examination of an account tries and finds; natively, and with the feature of this
//!   name.
//! - [`entry`]: what the entries for platforms are asked, and answer.
//! - [`webhook`]: the work that is built in with the feature of this name: one POST per turn.
//!
//! The last, `wasi`, exists only in the component: it moves bytes and time
//! between these and the host, and implements the WIT world `socket`; or `platform` with the feature
//! `webhook`, `doctor` with the feature `doctor`.

#![deny(missing_docs)]
#![cfg_attr(target_family = "wasm", no_std)]

#[cfg(doctor)]
pub mod doctor;
pub mod entry;
#[cfg(target_family = "wasm")]
mod wasi;
pub mod webhook;
