//! Operations on blobs, leases aside.
//!
//! For these the lease comes before the conditions: creating with `If-None-Match: *` over a leased blob without its
//! id is answered `LeaseIdMissing`, not `BlobAlreadyExists`, by the service.

use super::blob::{Blob, Body, Container, Content, Part, Properties, stamped};
use super::code::{Code, Failure};
use super::condition::Conditions;
use super::containers::Place;
use super::headers::{LEASE_ID, lease_id, metadata};
use super::lease::Lease;
use super::range::part;
use super::service::Service;
use super::wire::{Now, Request, Response};

/// A change to what exists: what Set Blob Metadata and Set Blob Properties do.
pub(super) type Change = fn(&Request, &mut Content) -> Result<(), Failure>;

pub(super) const SET_METADATA: Change = |request, content| {
    content.metadata = metadata(request)?;
    Ok(())
};

pub(super) const SET_PROPERTIES: Change = |request, content| {
    content.properties = Properties::of_set(request)?;
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
        let body = Body::read(request)?;
        let content = Content {
            properties: Properties::of_put(request, &body)?,
            body,
            metadata: metadata(request)?,
            etag: String::new(),
            created: now.wall,
            modified: now.wall,
        };
        self.replace_blob(now, place, name, request, |_| Ok(content))
    }

    /// Gives the blob this content, and creates it if it is not there. Blocks that were put for it are used or gone.
    pub(super) fn replace_blob(
        &mut self,
        now: Now,
        place: &Place,
        name: &str,
        request: &Request,
        content: impl FnOnce(&Container) -> Result<Content, Failure>,
    ) -> Result<Response, Failure> {
        let id = lease_id(request, LEASE_ID)?;
        let conditions = Conditions::of_write(request)?;
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
        let mut content = content(container)?;
        content.etag = self.generator.etag();
        let mut answer =
            stamped(201, &content.etag, now.wall).with("x-ms-request-server-encrypted", "true");
        if let Some(checksum) = content.properties.get("Content-MD5") {
            answer = answer.with("Content-MD5", checksum);
        }
        container.staged.remove(name);
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
        let conditions = Conditions::of_write(request)?;
        let etag = self.generator.etag();
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
        overrides: &[(&'static str, String)],
    ) -> Result<Response, Failure> {
        let (content, lease) = self.readable(now, place, name, snapshot, request)?;
        let part = if request.method == "HEAD" {
            Part::Nothing
        } else {
            part(request, content.body.length())?
        };
        Ok(content.answer(&lease, now.elapsed, part, overrides))
    }

    /// The metadata of the blob or of a snapshot, without the rest.
    pub(super) fn read_metadata(
        &self,
        now: Now,
        place: &Place,
        name: &str,
        snapshot: Option<&str>,
        request: &Request,
    ) -> Result<Response, Failure> {
        let (content, _) = self.readable(now, place, name, snapshot, request)?;
        let response = stamped(200, &content.etag, content.modified);
        Ok(content.metadata.iter().fold(response, |response, (name, value)| {
            response.with(&format!("x-ms-meta-{name}"), value.as_str())
        }))
    }

    fn readable(
        &self,
        now: Now,
        place: &Place,
        name: &str,
        snapshot: Option<&str>,
        request: &Request,
    ) -> Result<(&Content, Lease), Failure> {
        let id = lease_id(request, LEASE_ID)?;
        let conditions = Conditions::of_read(request)?;
        let blob = self.blob(place, name)?;
        let (content, lease) = match snapshot {
            None => (&blob.current, blob.lease),
            Some(time) => (blob.snapshots.get(time).ok_or(Code::BlobNotFound)?, Lease::default()),
        };
        lease.admits_read(now.elapsed, id)?;
        conditions.admit_read(&content.etag, content.modified)?;
        Ok((content, lease))
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
        let conditions = Conditions::of_write(request)?;
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
                    container.staged.remove(name);
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
        let conditions = Conditions::of_write(request)?;
        let given = metadata(request)?;
        let (time, etag) = (self.generator.snapshot(now.wall), self.generator.etag());
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
