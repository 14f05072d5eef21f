//! The Tenure election component: leader election with a lease on an Azure blob.
//!
//! Four parts are pure, without I/O, clock or wasm, and build natively too. What is sent to the Blob
//! service is in [`tenure_azure`].
//!
//! - [`election`]: what a candidate decides. Its parts cite the specification.
//! - `doctor`: what an examination of an account tries and finds; natively, and with the feature of this
//!   name.
//! - [`entry`]: what the entries for platforms are asked, and answer.
//! - [`webhook`]: the work that is built in with the feature of this name: one POST per turn.
//!
//! The last, `wasi`, exists only in the component: it moves bytes and time
//! between these and the host, and implements the WIT world `socket`; or `platform` with the feature
//! `webhook`, `doctor` with the feature `doctor`.
//!
//! # Design decisions
//!
//! - Nothing is kept between calls. What a candidate remembers goes out as an
//!   opaque memory and comes back in, so that every call may run on a fresh instance.
//! - The core asks and is answered ([`election::Step::next`],
//!   [`election::Step::answered`]); it never waits. The same code is driven by the
//!   component, by tests with values, and by a simulation in virtual time.
//! - The component is built without `std`, which would be a third of it and import terminals,
//!   standard streams and more. What `std` would add to the prelude is in
//!   [`tenure_base::prelude`].
//! - No request of an election has a body: a bodyless request is the one form that every WASI host
//!   tried sends unharmed.

#![deny(missing_docs)]
#![cfg_attr(target_family = "wasm", no_std)]

#[cfg(doctor)]
pub mod doctor;
pub mod election;
pub mod entry;
#[cfg_attr(not(feature = "mutants"), doc(hidden))]
pub mod mutants;
mod state;
#[cfg(target_family = "wasm")]
mod wasi;
pub mod webhook;
