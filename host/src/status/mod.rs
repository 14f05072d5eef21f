//! State of an election, as pages and `tenure status` show it.

mod clock;
mod turn_summary;

pub use crate::settings::takeover_time::TakeoverTime;
pub use clock::{ClockDifference, ServiceTime};
pub(crate) use turn_summary::wall_clock;
pub use turn_summary::{ElectionHealth, EndedTurn, TurnSummary, UpcomingTurn, local_time};
