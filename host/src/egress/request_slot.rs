//! Slot of a request among those of its turn, and the settings of its connection.

use super::client::CONNECT_TIMEOUT;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;

/// Freed when all clones are dropped.
pub(super) type RequestSlot = Arc<OwnedSemaphorePermit>;

tokio::task_local! {
    /// Slot and connect timeout of the request that this task sends. The client calls its connector
    /// without them.
    pub(super) static REQUEST: (Option<RequestSlot>, Duration);
}

/// Returns the slot of the current request.
pub(super) fn current_slot() -> Option<RequestSlot> {
    REQUEST.try_with(|(place, _)| place.clone()).ok().flatten()
}

/// Returns the connect timeout of the current request.
pub(super) fn current_connect_timeout() -> Duration {
    REQUEST.try_with(|(_, within)| *within).unwrap_or(CONNECT_TIMEOUT)
}
