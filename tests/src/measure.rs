//! What the benchmarks and measuring programs have in common: distributions, tables,
//! and threads that stay where they are put.

pub mod process;
pub mod processors;
pub mod spread;
pub mod table;

pub use process::{peak_memory, processor_time};
pub use processors::{allowed, stay_on};
pub use spread::Spread;
pub use table::Table;

/// How busy the machine was lately (runnable tasks, averaged over one and five minutes), to be
/// printed beside what was measured. Empty where it is not told.
#[must_use]
pub fn load() -> String {
    let load_average = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load_average.split(' ').take(2).collect::<Vec<_>>().join(" ")
}
