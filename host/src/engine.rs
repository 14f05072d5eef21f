//! The parts of an elector, for hosts of components and for tests of them: the [seam](Elector), the [loop](Runner) that drives
//! it on a clock of the crate `tenure-clock`, and requests that are guarded down to the socket.
//!
//! The contract between the two sides is the crate `tenure-core`: states, events, reports. All of this may change in any
//! release.

pub use crate::egress::{
    AllowList, Body, Budget, Clients, Error, Gate, InvalidOrigin, Limits, Outlet, Policy, Proxy,
    direct::{from_http, to_http},
};
pub use crate::election::Election;
pub use crate::handler::lines::{HandlerLines, TurnLines};
pub use crate::lines::Lines;
pub use crate::runner::{Elector, ElectorError, Order, Runner};
pub use crate::settings::candidate::CandidateSettings;
pub use crate::settings::variables::Variables;
pub use crate::tasks::{LeaveSignal, Task, Tasks};
pub use crate::trace_parent::TraceParent;

/// The interface by which a handler is called.
pub const LEADER_HANDLER: &str = "tenure:election/leader-handler@0.1.0";
