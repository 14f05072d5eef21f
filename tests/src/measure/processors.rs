//! Keeping threads on one processor. Loopback has two speeds: client and server on one
//! processor, or on two; a comparison must choose.

use std::io;

/// The processors that this thread may run on, by number. Empty where it cannot be told.
#[must_use]
pub fn allowed() -> Vec<usize> {
    system::allowed()
}

/// Keeps the calling thread on `processor`, and all threads and processes that it starts from
/// then on.
///
/// # Errors
/// It may not run there, or this system cannot keep it there.
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
