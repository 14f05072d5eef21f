//! The names of the service's operations, for counts and rights.

/// An operation of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// Get Account Information.
    GetAccount,
    /// List Containers.
    ListContainers,
    /// Create Container.
    CreateContainer,
    /// Delete Container.
    DeleteContainer,
    /// Get Container Properties.
    GetContainer,
    /// List Blobs.
    ListBlobs,
    /// Put Blob.
    PutBlob,
    /// Get Blob.
    GetBlob,
    /// Get Blob Properties: a HEAD.
    HeadBlob,
    /// Get Blob Metadata.
    GetMetadata,
    /// Delete Blob.
    DeleteBlob,
    /// Set Blob Metadata.
    SetMetadata,
    /// Lease Blob, acquire.
    Acquire,
    /// Lease Blob, renew.
    Renew,
    /// Lease Blob, change.
    Change,
    /// Lease Blob, release.
    Release,
    /// Lease Blob, break.
    Break,
    /// Any operation that the store does not support.
    Other,
}
