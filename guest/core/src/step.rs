//! One step of a candidate: settings and state in, requests and a report out.

pub(crate) mod chance;
pub(crate) mod complaint;
pub mod contract;
pub(crate) mod credential_state;
pub mod driver;
pub(crate) mod elapsed_clock;
pub(crate) mod environment;
pub(crate) mod events;
pub(crate) mod failure;
pub(crate) mod failure_policy;
pub mod limits;
pub(crate) mod options;
pub(crate) mod pace;
pub(crate) mod postponed;
pub(crate) mod problem;
pub(crate) mod report;
pub(crate) mod service_clock;
pub(crate) mod settings;
pub(crate) mod state;
pub(crate) mod timings;
pub mod variable;
pub(crate) mod wake;
