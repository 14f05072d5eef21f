//! State of an election, as pages and `tenure status` show it.

mod clock;
mod outlook;

pub use crate::settings::replacement::TakeoverTime;
pub use clock::{ClockDifference, ServiceTime};
pub(crate) use outlook::wall_clock;
pub use outlook::{UpcomingTurn, EndedTurn, ElectionHealth, TurnSummary, local_time};
