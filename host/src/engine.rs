//! Parts of an elector, for hosts of components and their tests.
//!
//! The [`Runner`] drives an [`Elector`] on a clock of the crate `tenure-clock`. A handler's
//! requests are guarded down to the socket. The crate `tenure-core` contains the types that a
//! runner and an elector exchange: states, events and reports.
//!
//! This module may change in any release.

pub use crate::egress::{
    AllowList, Body, Budget, Clients, Error, Gate, InvalidOrigin, Limits, Outlet, Policy, Proxy,
    direct::exchange,
};
pub use crate::election::Election;
pub use crate::handler::lines::{HandlerLines, Lines, TurnLines};
pub use crate::runner::{Elector, ElectorError, Order, Runner};
pub use crate::settings::candidate::CandidateSettings;
pub use crate::settings::variables::Variables;
pub use crate::tasks::{LeaveSignal, Task, Tasks};
