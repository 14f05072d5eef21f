//! The state of an election in the words of its pages and of `tenure status`.

mod clock;
mod outlook;

pub use crate::settings::replacement::TakeoverTime;
pub use clock::{ClockDifference, ServiceTime};
pub(crate) use outlook::wall_clock;
pub use outlook::{UpcomingTurn, EndedTurn, ElectionHealth, TurnSummary, local_time};
