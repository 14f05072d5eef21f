//! The place of a request among those of its turn.

use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;

/// It is free again when all clones are gone.
pub(super) type Place = Arc<OwnedSemaphorePermit>;

tokio::task_local! {
    /// The place of the request that this task sends: the client calls its connector without it.
    pub(super) static PLACE: Option<Place>;
}

/// The place of the request that this call is made for.
pub(super) fn place() -> Option<Place> {
    PLACE.try_with(Clone::clone).ok().flatten()
}
