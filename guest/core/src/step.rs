//! One step of a candidate: settings and state in, requests and a report out.

pub(crate) mod settings;
pub(crate) mod options;
pub(crate) mod environment;
pub mod limits;
pub mod variable;
pub(crate) mod complaint;
pub(crate) mod timings;
pub(crate) mod failure_policy;
pub(crate) mod state;
pub(crate) mod service_clock;
pub(crate) mod elapsed_clock;
pub(crate) mod chance;
pub mod driver;
pub mod contract;
pub(crate) mod events;
pub(crate) mod report;
pub(crate) mod failure;
pub(crate) mod problem;
pub(crate) mod credential_state;
pub(crate) mod wake;
pub(crate) mod pace;
pub(crate) mod postponed;
