//! The instants of a timer, and the delivery rule of each. protocol.md §6.
//! [`agenda`](super::agenda) decides which of them a leader claims next.

mod cron;
mod delivery;
mod schedule;
mod zone;

pub use cron::{Cron, CronError};
pub use delivery::Delivery;
pub use schedule::Schedule;
pub(super) use schedule::WHILE_LEADING;
pub use zone::{ZONES_RELEASE, Zone, ZoneOffset};
