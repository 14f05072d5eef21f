//! Requests of guests: allowed destinations, permission to send, and timeouts. A guest is an
//! election or the handler of a turn.
//!
//! Redirects are not followed, and requests are neither retried nor cached: each is sent at most
//! once. Elections share a connection pool, and use the proxies of the environment. Each turn of a
//! handler has its own connections, which end with it. Each write to such a connection checks the
//! deadline in the same call.

mod allow;
mod body;
mod budget;
mod client;
pub(crate) mod direct;
mod error;
mod gate;
mod lookup;
#[cfg(test)]
mod tests;
mod tls;
mod turn;
mod wire;

pub use allow::{AllowList, InvalidOrigin};
pub use budget::Budget;
pub use client::{Clients, Proxy};
pub use error::Error;
pub(crate) use gate::ResponseMode;
pub use gate::{Gate, Limits, Policy};
pub use tls::{InvalidRootCertificates, RootCertificates};
pub use turn::Outlet;

/// Body of a request or a response.
pub type Body = http_body_util::combinators::UnsyncBoxBody<bytes::Bytes, Error>;
