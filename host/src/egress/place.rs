//! The place of a request among those of its turn, and what its connection is to know of it.

use super::client::CONNECT_TIMEOUT;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;

/// It is free again when all clones are gone.
pub(super) type RequestSlot = Arc<OwnedSemaphorePermit>;

tokio::task_local! {
    /// Of the request that this task sends its place, and how long a connection for it may take: the client calls its
    /// connector without them.
    pub(super) static REQUEST: (Option<RequestSlot>, Duration);
}

/// The place of the request that this call is made for.
pub(super) fn current_slot() -> Option<RequestSlot> {
    REQUEST.try_with(|(place, _)| place.clone()).ok().flatten()
}

/// How long a connection for that request may take.
pub(super) fn current_connect_timeout() -> Duration {
    REQUEST.try_with(|(_, within)| *within).unwrap_or(CONNECT_TIMEOUT)
}
