//! The state of an election in the words of its pages and of `tenure status`.

mod clock;
mod outlook;

pub use crate::settings::replacement::Replacement;
pub use clock::{ClockDifference, ServiceTime};
pub(crate) use outlook::wall;
pub use outlook::{ComingTurn, EndedTurn, Fares, Outlook, local_time};
