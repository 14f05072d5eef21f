//! Resource usage of a process, as the system reports it.

use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::Pid;

/// Returns the processor time that a process has used so far. Linux reports hundredths of a second.
///
/// # Errors
/// The process has ended, or the system does not provide the value.
pub fn processor_time(id: Pid) -> Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", id.as_raw_nonzero()))?;
    // The name of the program, in brackets, may contain any character. utime and stime are the 12th
    // and 13th fields after it.
    let (_, numbers) = stat.rsplit_once(')').context("no name in it")?;
    let mut ticks = 0;
    for number in numbers.split_whitespace().skip(11).take(2) {
        ticks += number.parse::<u64>()?;
    }
    // Linux reports hundredths of a second to programs, independent of its internal unit.
    Ok(Duration::from_millis(10 * ticks))
}

/// Returns the peak memory of a process so far, in bytes.
///
/// # Errors
/// Fails like [`processor_time`].
pub fn peak_memory(id: Pid) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", id.as_raw_nonzero()))?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes: u64 = peak.context("no peak")?.trim().trim_end_matches(" kB").parse()?;
    Ok(kibibytes * 1024)
}
