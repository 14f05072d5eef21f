//! What a process has used, by the system's account of it.

use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::Pid;

/// The processor time that a process has used so far. Linux tells hundredths of a second.
///
/// # Errors
/// It does not run any more, or this system does not tell.
pub fn processor_time(id: Pid) -> Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", id.as_raw_nonzero()))?;
    // The name of the program, in brackets, may hold anything; utime and stime are the 12th and 13th after it.
    let (_, numbers) = stat.rsplit_once(')').context("no name in it")?;
    let mut ticks = 0;
    for number in numbers.split_whitespace().skip(11).take(2) {
        ticks += number.parse::<u64>()?;
    }
    // Linux counts hundredths of a second for programs, whatever it counts in itself.
    Ok(Duration::from_millis(10 * ticks))
}

/// The most memory that a process had so far, in bytes.
///
/// # Errors
/// As [`processor_time`].
pub fn peak_memory(id: Pid) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", id.as_raw_nonzero()))?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes: u64 = peak.context("no peak")?.trim().trim_end_matches(" kB").parse()?;
    Ok(kibibytes * 1024)
}
