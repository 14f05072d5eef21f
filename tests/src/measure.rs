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

/// Returns the recent load of the machine (runnable tasks, averaged over one and five minutes), for
/// printing next to results. Empty if the system does not provide it.
#[must_use]
pub fn load() -> String {
    let load_average = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load_average.split(' ').take(2).collect::<Vec<_>>().join(" ")
}
