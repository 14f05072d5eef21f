//! The instants that a timer names, and how often each is run. protocol.md §6. What of them a leader is
//! to claim next is in [`agenda`](super::agenda).

mod cron;
mod delivery;
mod schedule;
mod zone;

pub use cron::{Cron, CronError};
pub use delivery::Delivery;
pub use schedule::Schedule;
pub(super) use schedule::WHILE_LEADING;
pub use zone::{ZONES_RELEASE, Zone, ZoneOffset};
