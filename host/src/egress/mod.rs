//! Requests of guests: to whom they may go, when, and how long they may take.
//!
//! All of them go through pooled connections of the host. Nothing is followed, retried, proxied
//! or remembered on the way: what a guest asked for is sent once, or not at all.

mod allow;
mod body;
mod client;
mod error;
mod gate;
#[cfg(test)]
mod tests;

pub use allow::{AllowList, InvalidOrigin};
pub(crate) use client::Clients;
pub(crate) use gate::{Answers, Gate, Policy};
