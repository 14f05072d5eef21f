//! Replacement on systems without a service manager.

use std::time::Duration;

/// Never exists.
pub(crate) struct ServiceManager;

impl ServiceManager {
    pub(crate) fn is_present() -> bool {
        false
    }

    pub(crate) fn from_env() -> Option<Self> {
        None
    }

    pub(crate) fn send(&self, _: String) {}
}

pub(crate) fn watchdog_limit(_: u32) -> Option<Duration> {
    None
}
