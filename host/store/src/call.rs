//! A request with its operation and target, before any lookup.

use super::address::Address;
use super::blob::ContainerKey;
use super::wire::{Now, Request};

/// A request that the table of operations accepts, and its target.
pub(super) struct Call<'a> {
    pub(super) now: Now,
    pub(super) request: &'a Request,
    pub(super) address: &'a Address,
    /// Account and container.
    pub(super) container_key: ContainerKey,
    /// The blob; empty if the address has none.
    pub(super) blob_name: &'a str,
}
