//! What is to run, and when. protocol.md §6.
//!
//! - [`Schedule`]: the instants that a timer names, and nothing else.
//! - [`Agenda`]: what of them a leader is to claim next, by what is on record.

mod agenda;
mod cron;
mod schedule;
mod zone;

pub(super) use agenda::is_ahead;
pub use agenda::{Agenda, Delivery, Due, Missed, Task};
pub use cron::{Cron, CronError};
pub use schedule::Schedule;
pub use zone::{ZONES_OF, Zone, ZoneOffset};
