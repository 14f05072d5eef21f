//! Resource usage of a process, as the system reports it.

use std::time::Duration;

use anyhow::{Context, Result};
use nix::time::{clock_getcpuclockid, clock_gettime};
use rustix::process::Pid;

/// Returns the processor time that a process has used so far.
///
/// # Errors
/// The process has ended.
pub fn processor_time(id: Pid) -> Result<Duration> {
    let id = nix::unistd::Pid::from_raw(id.as_raw_nonzero().get());
    Ok(clock_gettime(clock_getcpuclockid(id)?)?.into())
}

/// Returns the peak memory of a process so far, in bytes.
///
/// # Errors
/// The process has ended, or the system does not provide the value.
pub fn peak_memory(id: Pid) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", id.as_raw_nonzero()))?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes: u64 = peak.context("no peak")?.trim().trim_end_matches(" kB").parse()?;
    Ok(kibibytes * 1024)
}
