//! Output: standard streams, the log, events as text, telemetry.

pub(crate) mod event_lines;
pub(crate) mod log;
pub(crate) mod stdio;
#[cfg_attr(not(feature = "otel"), path = "output/telemetry/none.rs")]
pub(crate) mod telemetry;
pub(crate) mod terminal;
pub(crate) mod times;
