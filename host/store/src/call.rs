//! A request to an operation, with all that is known of it before anything is looked up.

use super::address::Address;
use super::blob::ContainerKey;
use super::wire::{Now, Request};

/// A request that its row has judged, and what it is about.
pub(super) struct Call<'a> {
    pub(super) now: Now,
    pub(super) request: &'a Request,
    pub(super) address: &'a Address,
    /// Account and container.
    pub(super) container_key: ContainerKey,
    /// Of the blob; empty where none is addressed.
    pub(super) blob_name: &'a str,
}
