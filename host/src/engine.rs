//! What a host of components builds on: requests that are guarded down to the socket, and the lines of a handler.
//!
//! It is for `tenure-wasmtime` and for whoever writes another host. It may change in any release.

pub use crate::causes::causes;
pub use crate::egress::{
    Answers, Body, Budget, CHUNK, Clients, Error, FIELDS, Gate, Limits, Names, OPEN_BODY, Outlet,
    Policy, direct::through, weight,
};
pub use crate::election::{driven, reach};
pub use crate::handler::lines::{HandlerLines, TurnLines};
pub use crate::handler::shortened::shortened;
pub use crate::lines::Lines;
