//! Pins threads to one processor. Loopback is faster or slower depending on whether client and
//! server share a processor, so a comparison must choose.

use std::io;

/// Returns the numbers of the processors that this thread may use. Empty if the system does not
/// provide them.
#[must_use]
pub fn allowed() -> Vec<usize> {
    system::allowed()
}

/// Pins the calling thread to `processor`, and all threads and processes that it starts later.
///
/// # Errors
/// The thread may not run there, or the system does not support pinning.
pub fn stay_on(processor: usize) -> io::Result<()> {
    system::stay_on(processor)
}

#[cfg(target_os = "linux")]
mod system {
    use std::io;

    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    pub(super) fn allowed() -> Vec<usize> {
        let set = sched_getaffinity(None).unwrap_or_default();
        (0..CpuSet::MAX_CPU).filter(|&processor| set.is_set(processor)).collect()
    }

    pub(super) fn stay_on(processor: usize) -> io::Result<()> {
        let mut set = CpuSet::new();
        set.set(processor);
        Ok(sched_setaffinity(None, &set)?)
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::io;

    pub(super) fn allowed() -> Vec<usize> {
        Vec::new()
    }

    pub(super) fn stay_on(_processor: usize) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
