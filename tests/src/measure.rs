//! Helpers of the benchmarks and measuring programs: distributions, tables, and threads that stay
//! on one processor.

pub mod process;
pub mod processors;
pub mod spread;
pub mod table;

pub use process::{peak_memory, processor_time};
pub use processors::{allowed, stay_on};
pub use spread::Spread;
pub use table::Table;

use std::time::{Duration, Instant};

use tenure_store::{Entry, Store};
use tokio::time::interval;

/// The store remembers only its newest ten thousand requests, so the log is read before they are
/// dropped.
const LOG_POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Passes each request that the store handles within this time to `on_request`, in order.
pub async fn watch_requests(store: &Store, time: Duration, mut on_request: impl FnMut(&Entry)) {
    let until = Instant::now() + time;
    let mut last_total = store.with(|service| service.log().total());
    let mut poll = interval(LOG_POLL_INTERVAL);
    while Instant::now() < until {
        poll.tick().await;
        store.with(|service| {
            let log = service.log();
            let new_count = usize::try_from(log.total() - last_total).unwrap_or(usize::MAX);
            let new_entries: Vec<_> = log.entries().rev().take(new_count).collect();
            new_entries.into_iter().rev().for_each(&mut on_request);
            last_total = log.total();
        });
    }
}

/// Returns the recent load of the machine (runnable tasks, averaged over one and five minutes), for
/// printing next to results. Empty if the system does not provide it.
#[must_use]
pub fn load() -> String {
    let load_average = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load_average.split(' ').take(2).collect::<Vec<_>>().join(" ")
}
