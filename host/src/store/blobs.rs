//! Operations on blobs, leases aside.
//!
//! For these the lease comes before the conditions: creating with `If-None-Match: *` over a leased blob without its
//! id is answered `LeaseIdMissing`, not `BlobAlreadyExists`, by the service.

use super::blob::{Blob, Body, Content, Properties, stamped};
use super::code::{Code, Failure};
use super::condition::Conditions;
use super::containers::Place;
use super::headers::{LEASE_ID, lease_id, metadata};
use super::lease::Lease;
use super::service::Service;
use super::wire::{Now, Request, Response};

/// A change to what exists: what Set Blob Metadata and Set Blob Properties do.
pub(super) type Change = fn(&Request, &mut Content) -> Result<(), Failure>;

pub(super) const SET_METADATA: Change = |request, content| {
    content.metadata = metadata(request)?;
    Ok(())
};

pub(super) const SET_PROPERTIES: Change = |request, content| {
    content.properties = Properties::of_set(request);
    Ok(())
};

impl Service {
    /// Creates it or replaces everything but lease and snapshots.
    pub(super) fn put_blob(
        &mut self,
        now: Now,
        place: &Place,
        name: &str,
        request: &Request,
    ) -> Result<Response, Failure> {
        let id = lease_id(request, LEASE_ID)?;
        let conditions = Conditions::read(request)?;
        let mut content = Content {
            body: Body::read(request)?,
            properties: Properties::of_put(request),
            metadata: metadata(request)?,
            etag: String::new(),
            created: now.wall,
            modified: now.wall,
        };
        let container = self.containers.get_mut(place).ok_or(Code::ContainerNotFound)?;
        match container.blobs.get(name) {
            Some(blob) => {
                blob.lease.admits_write(now.elapsed, id)?;
                if conditions.only_create() {
                    return Err(Code::BlobAlreadyExists.into());
                }
                conditions.admit_write(&blob.current.etag, blob.current.modified)?;
            }
            // What is not there has no lease (REST reference, *Lease Blob*: since version 2013-08-15).
            None if id.is_some() => return Err(Code::LeaseNotPresentWithBlobOperation.into()),
            None => conditions.admit_create()?,
        }
        content.etag = self.mint.etag();
        let answer =
            stamped(201, &content.etag, now.wall).with("x-ms-request-server-encrypted", "true");
        match container.blobs.get_mut(name) {
            Some(blob) => {
                blob.lease.written(now.elapsed);
                blob.current = content;
            }
            None => {
                let blob = Blob {
                    current: content,
                    lease: Lease::default(),
                    snapshots: Default::default(),
                };
                container.blobs.insert(name.to_owned(), blob);
            }
        }
        Ok(answer)
    }

    pub(super) fn change_blob(
        &mut self,
        now: Now,
        place: &Place,
        name: &str,
        request: &Request,
        change: Change,
    ) -> Result<Response, Failure> {
        let id = lease_id(request, LEASE_ID)?;
        let conditions = Conditions::read(request)?;
        let etag = self.mint.etag();
        let blob = self.blob_mut(place, name)?;
        let mut content = blob.current.clone();
        change(request, &mut content)?;
        blob.lease.admits_write(now.elapsed, id)?;
        conditions.admit_write(&blob.current.etag, blob.current.modified)?;
        blob.lease.written(now.elapsed);
        blob.current = Content { etag, modified: now.wall, ..content };
        Ok(stamped(200, &blob.current.etag, now.wall).with("x-ms-request-server-encrypted", "true"))
    }

    /// GET and HEAD, of the blob or of a snapshot. A snapshot has no lease.
    pub(super) fn read_blob(
        &self,
        now: Now,
        place: &Place,
        name: &str,
        snapshot: Option<&str>,
        request: &Request,
    ) -> Result<Response, Failure> {
        let id = lease_id(request, LEASE_ID)?;
        let conditions = Conditions::read(request)?;
        let blob = self.blob(place, name)?;
        let (content, lease) = match snapshot {
            None => (&blob.current, blob.lease),
            Some(time) => (blob.snapshots.get(time).ok_or(Code::BlobNotFound)?, Lease::default()),
        };
        lease.admits_read(now.elapsed, id)?;
        conditions.admit_read(&content.etag, content.modified)?;
        Ok(content.answer(&lease, now.elapsed, request.method == "HEAD"))
    }

    /// The blob with its lease, or one snapshot; what happens to snapshots of a deleted blob must be said.
    pub(super) fn delete_blob(
        &mut self,
        now: Now,
        place: &Place,
        name: &str,
        snapshot: Option<&str>,
        request: &Request,
    ) -> Result<Response, Failure> {
        const SNAPSHOTS: &str = "x-ms-delete-snapshots";
        let id = lease_id(request, LEASE_ID)?;
        let conditions = Conditions::read(request)?;
        let which = request.header(SNAPSHOTS);
        if let Some(other) = which.filter(|which| !matches!(*which, "include" | "only")) {
            return Err(Failure::header(SNAPSHOTS, other));
        }
        let blob = self.blob_mut(place, name)?;
        let answer = Response::new(202).with("x-ms-delete-type-permanent", "true");
        if let Some(time) = snapshot {
            return blob
                .snapshots
                .remove(time)
                .map(|_| answer)
                .ok_or_else(|| Code::BlobNotFound.into());
        }
        blob.lease.admits_write(now.elapsed, id)?;
        conditions.admit_write(&blob.current.etag, blob.current.modified)?;
        match which {
            Some("only") => blob.snapshots.clear(),
            None if !blob.snapshots.is_empty() => return Err(Code::SnapshotsPresent.into()),
            _ => {
                if let Some(container) = self.containers.get_mut(place) {
                    container.blobs.remove(name);
                }
            }
        }
        Ok(answer)
    }

    /// Reads the blob, so it needs no lease id; and it is no write, so the last holder of an expired lease may still
    /// renew (not documented).
    pub(super) fn snapshot_blob(
        &mut self,
        now: Now,
        place: &Place,
        name: &str,
        request: &Request,
    ) -> Result<Response, Failure> {
        let id = lease_id(request, LEASE_ID)?;
        let conditions = Conditions::read(request)?;
        let given = metadata(request)?;
        let (time, etag) = (self.mint.snapshot(now.wall), self.mint.etag());
        let blob = self.blob_mut(place, name)?;
        blob.lease.admits_read(now.elapsed, id)?;
        conditions.admit_write(&blob.current.etag, blob.current.modified)?;
        let mut content = blob.current.clone();
        if !given.is_empty() {
            // Other metadata than the blob's makes it another thing, with an ETag of its own.
            (content.metadata, content.etag) = (given, etag);
        }
        let answer =
            stamped(201, &content.etag, content.modified).with("x-ms-snapshot", time.as_str());
        blob.snapshots.insert(time, content);
        Ok(answer)
    }
}
