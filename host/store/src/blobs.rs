//! Operations on blobs, leases aside.
//!
//! For these the lease comes before the conditions: creating with `If-None-Match: *` over a leased blob without its
//! id is answered `LeaseIdMissing`, not `BlobAlreadyExists`, by the service.

use super::blob::{Blob, Body, Container, Content, Part, Properties, stamped};
use super::call::Call;
use super::code::{Code, Failure};
use super::condition::Conditions;
use super::headers::{LEASE_ID, Metadata, lease_id, metadata};
use super::lease::Lease;
use super::range::part;
use super::service::Service;
use super::wire::Response;

pub(super) fn set_metadata(service: &mut Service, call: &Call<'_>) -> Result<Response, Failure> {
    service.change_blob(call, |content| {
        content.metadata = metadata(call.request)?;
        Ok(())
    })
}

pub(super) fn set_properties(service: &mut Service, call: &Call<'_>) -> Result<Response, Failure> {
    service.change_blob(call, |content| {
        content.properties = Properties::of_set(call.request)?;
        Ok(())
    })
}

impl Service {
    /// Creates it or replaces everything but lease and snapshots.
    pub(super) fn put_blob(&mut self, call: &Call<'_>) -> Result<Response, Failure> {
        let body = Body::read(call.request)?;
        let properties = Properties::of_put(call.request, &body)?;
        let metadata = metadata(call.request)?;
        let checksum = properties.get("Content-MD5").map(str::to_owned);
        let answer = self.replace_blob(call, properties, metadata, |_| Ok(body))?;
        Ok(checksum.into_iter().fold(answer, |answer, own| answer.with("Content-MD5", own)))
    }

    /// Gives the blob this content, and creates it if it is not there. Blocks that were put for it are used or gone.
    pub(super) fn replace_blob(
        &mut self,
        call: &Call<'_>,
        properties: Properties,
        metadata: Metadata,
        body: impl FnOnce(&Container) -> Result<Body, Failure>,
    ) -> Result<Response, Failure> {
        let id = lease_id(call.request, LEASE_ID)?;
        let conditions = Conditions::of_write(call.request)?;
        let container = self.containers.get_mut(&call.place).ok_or(Code::ContainerNotFound)?;
        match container.blobs.get(call.name) {
            Some(blob) => {
                blob.lease.admits_write(call.now.elapsed, id)?;
                if conditions.only_create() {
                    return Err(Code::BlobAlreadyExists.into());
                }
                conditions.admit_write(&blob.current.etag, blob.current.modified)?;
            }
            // What is not there has no lease (REST reference, *Lease Blob*: since version 2013-08-15).
            None if id.is_some() => return Err(Code::LeaseNotPresentWithBlobOperation.into()),
            None => conditions.admit_create()?,
        }
        let body = body(container)?;
        let (etag, created, modified) = (self.generator.etag(), call.now.wall, call.now.wall);
        let content = Content { body, properties, metadata, etag, created, modified };
        let answer = stamped(201, &content.etag, call.now.wall)
            .with("x-ms-request-server-encrypted", "true");
        container.staged.remove(call.name);
        match container.blobs.get_mut(call.name) {
            Some(blob) => {
                blob.lease.written(call.now.elapsed);
                blob.current = content;
            }
            None => {
                let blob = Blob {
                    current: content,
                    lease: Lease::default(),
                    snapshots: Default::default(),
                };
                container.blobs.insert(call.name.to_owned(), blob);
            }
        }
        Ok(answer)
    }

    fn change_blob(
        &mut self,
        call: &Call<'_>,
        change: impl FnOnce(&mut Content) -> Result<(), Failure>,
    ) -> Result<Response, Failure> {
        let id = lease_id(call.request, LEASE_ID)?;
        let conditions = Conditions::of_write(call.request)?;
        let etag = self.generator.etag();
        let blob = self.blob_mut(&call.place, call.name)?;
        let mut content = blob.current.clone();
        change(&mut content)?;
        blob.lease.admits_write(call.now.elapsed, id)?;
        conditions.admit_write(&blob.current.etag, blob.current.modified)?;
        blob.lease.written(call.now.elapsed);
        blob.current = Content { etag, modified: call.now.wall, ..content };
        Ok(stamped(200, &blob.current.etag, call.now.wall)
            .with("x-ms-request-server-encrypted", "true"))
    }

    /// GET and HEAD, of the blob or of a snapshot. A snapshot has no lease.
    pub(super) fn read_blob(&self, call: &Call<'_>) -> Result<Response, Failure> {
        let (content, lease) = self.readable(call)?;
        let part = if call.request.method == "HEAD" {
            Part::Nothing
        } else {
            part(call.request, content.body.length())?
        };
        Ok(content.answer(&lease, call.now.elapsed, part, call.access.overrides()))
    }

    /// The metadata of the blob or of a snapshot, without the rest.
    pub(super) fn read_metadata(&self, call: &Call<'_>) -> Result<Response, Failure> {
        let (content, _) = self.readable(call)?;
        let response = stamped(200, &content.etag, content.modified);
        Ok(content.metadata.iter().fold(response, |response, (name, value)| {
            response.with(&format!("x-ms-meta-{name}"), value.as_str())
        }))
    }

    fn readable(&self, call: &Call<'_>) -> Result<(&Content, Lease), Failure> {
        let id = lease_id(call.request, LEASE_ID)?;
        let conditions = Conditions::of_read(call.request)?;
        let blob = self.blob(&call.place, call.name)?;
        let (content, lease) = match call.snapshot() {
            None => (&blob.current, blob.lease),
            Some(time) => (blob.snapshots.get(time).ok_or(Code::BlobNotFound)?, Lease::default()),
        };
        lease.admits_read(call.now.elapsed, id)?;
        conditions.admit_read(&content.etag, content.modified)?;
        Ok((content, lease))
    }

    /// The blob with its lease, or one snapshot; what happens to snapshots of a deleted blob must be said.
    pub(super) fn delete_blob(&mut self, call: &Call<'_>) -> Result<Response, Failure> {
        const SNAPSHOTS: &str = "x-ms-delete-snapshots";
        let id = lease_id(call.request, LEASE_ID)?;
        let conditions = Conditions::of_write(call.request)?;
        let which = call.request.header(SNAPSHOTS);
        if let Some(other) = which.filter(|which| !matches!(*which, "include" | "only")) {
            return Err(Failure::header(SNAPSHOTS, other));
        }
        let blob = self.blob_mut(&call.place, call.name)?;
        let answer = Response::new(202).with("x-ms-delete-type-permanent", "true");
        if let Some(time) = call.snapshot() {
            // It has no snapshots of its own, and no lease.
            if let Some(which) = which {
                return Err(Failure::header(SNAPSHOTS, which));
            }
            let content = blob.snapshots.get(time).ok_or(Code::BlobNotFound)?;
            Lease::default().admits_write(call.now.elapsed, id)?;
            conditions.admit_write(&content.etag, content.modified)?;
            blob.snapshots.remove(time);
            return Ok(answer);
        }
        blob.lease.admits_write(call.now.elapsed, id)?;
        conditions.admit_write(&blob.current.etag, blob.current.modified)?;
        match which {
            Some("only") => blob.snapshots.clear(),
            None if !blob.snapshots.is_empty() => return Err(Code::SnapshotsPresent.into()),
            _ => {
                if let Some(container) = self.containers.get_mut(&call.place) {
                    container.blobs.remove(call.name);
                    container.staged.remove(call.name);
                }
            }
        }
        Ok(answer)
    }

    /// Reads the blob, so it needs no lease id; and it is no write, so the last holder of an expired lease may still
    /// renew (not documented).
    pub(super) fn snapshot_blob(&mut self, call: &Call<'_>) -> Result<Response, Failure> {
        let id = lease_id(call.request, LEASE_ID)?;
        let conditions = Conditions::of_write(call.request)?;
        let given = metadata(call.request)?;
        let (time, etag) = (self.generator.snapshot(call.now.wall), self.generator.etag());
        let blob = self.blob_mut(&call.place, call.name)?;
        blob.lease.admits_read(call.now.elapsed, id)?;
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
