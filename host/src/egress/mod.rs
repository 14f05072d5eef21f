//! Requests of guests: to whom they may go, when, and how long they may take.
//!
//! Nothing is followed, retried or remembered on the way: what a guest asked for is sent once, or not at all. The election
//! component has a pool of connections, through the proxies that the environment names. Each turn of a handler
//! has connections of its own, on which nothing is written without a check of the deadline in
//! the same call, and which end with the turn.

mod allow;
mod authorities;
mod body;
mod budget;
mod client;
pub(crate) mod direct;
mod error;
mod gate;
mod lookup;
mod names;
mod permit;
mod place;
mod proxies;
#[cfg(test)]
mod tests;
mod tls;
mod turn;
mod wire;

pub use allow::{AllowList, InvalidOrigin};
pub use authorities::{RootCertificates, InvalidRootCertificates};
pub use budget::Budget;
pub use client::Clients;
pub use error::Error;
pub(crate) use gate::ResponseMode;
pub use gate::{Gate, Limits, Policy};
pub use proxies::Proxy;
pub use turn::Outlet;

/// The body of a request or an answer.
pub type Body = http_body_util::combinators::UnsyncBoxBody<bytes::Bytes, Error>;
