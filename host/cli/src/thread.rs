//! A thread for the elections alone.
//!
//! The candidates of a process share it, with their requests and timers: what one of them does needs no other thread to
//! wake up. Turns, pages and collectors are elsewhere, so that nothing that they compute holds up a renewal.

use std::io;
use std::thread;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// It ends when this is dropped, and what runs on it with it.
pub(super) struct ElectionThread {
    pub runtime: Handle,
    /// Its end ends the thread.
    _keep: oneshot::Sender<()>,
}

impl ElectionThread {
    /// # Errors
    ///
    /// The system has no thread left, or no descriptor.
    pub(super) fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (keep, end) = oneshot::channel();
        let handle = runtime.handle().clone();
        let work = move || {
            let _ = runtime.block_on(end);
            // Name resolution under way must not hold up the end.
            runtime.shutdown_background();
        };
        thread::Builder::new().name("tenure-elections".to_owned()).spawn(work)?;
        Ok(Self { runtime: handle, _keep: keep })
    }
}
