//! Where the listener places triggers and looks them up.

use crate::contract::{Problem, TriggerState};
use crate::future::BoxFuture;
use std::fmt;

/// Where triggers are placed and looked up.
pub(super) struct Placer(pub Box<Place>);

/// By the id, and whether to place it.
pub(super) type Place =
    dyn Fn(String, bool) -> BoxFuture<'static, Result<TriggerState, Problem>> + Send + Sync;

impl Placer {
    pub(super) fn new<F>(place: impl Fn(String, bool) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<TriggerState, Problem>> + Send + 'static,
    {
        Self(Box::new(move |id, really| Box::pin(place(id, really))))
    }
}

impl fmt::Debug for Placer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Placer")
    }
}
