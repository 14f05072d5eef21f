//! Operations on containers, on blobs and on their leases, except lists. Container leases are not
//! supported.

use std::time::Duration;

use bytes::Bytes;
use tenure_azure::LeaseId;

use super::blob::{
    BLOB_TYPE, Blob, Container, Content, Part, Properties, requested_part, with_etag,
};
use super::code::{Code, Failure};
use super::headers::{
    Conditions, LEASE_ID, PROPOSED_LEASE_ID, break_period, lease_duration, lease_id, metadata,
    required_lease_id,
};
use super::lease::Lease;
use super::service::{Call, Service};
use super::wire::{Request, Response};

/// Time for which the name of a deleted container cannot be used again. The reference says "at
/// least 30 seconds".
const DELETION_PERIOD: Duration = Duration::from_secs(30);

/// Operations on containers, except listing.
impl Service {
    pub(super) fn create_container(&mut self, call: &Call<'_>) -> Result<Response, Failure> {
        let metadata = metadata(call.request)?;
        self.deleting.retain(|_, until| call.now.elapsed < *until);
        if self.deleting.contains_key(&call.container_key) {
            return Err(Code::ContainerBeingDeleted.into());
        }
        if self.containers.contains_key(&call.container_key) {
            return Err(Code::ContainerAlreadyExists.into());
        }
        let container = Container {
            etag: self.generator.etag(),
            modified: call.now.wall,
            metadata,
            ..Container::default()
        };
        let response = with_etag(201, &container.etag, container.modified);
        self.containers.insert(call.container_key.clone(), container);
        Ok(response)
    }

    /// Deletes the container with all its blobs. A lease on a blob does not protect its container.
    pub(super) fn delete_container(&mut self, call: &Call<'_>) -> Result<Response, Failure> {
        let conditions = Conditions::for_write(call.request)?;
        let container = self.containers.get(&call.container_key).ok_or(Code::ContainerNotFound)?;
        conditions.check_write(&container.etag, container.modified)?;
        self.containers.remove(&call.container_key);
        self.deleting.insert(call.container_key.clone(), call.now.elapsed + DELETION_PERIOD);
        Ok(Response::new(202))
    }

    pub(super) fn get_container(&self, call: &Call<'_>) -> Result<Response, Failure> {
        let container = self.containers.get(&call.container_key).ok_or(Code::ContainerNotFound)?;
        let response = with_etag(200, &container.etag, container.modified)
            .with("x-ms-lease-status", "unlocked")
            .with("x-ms-lease-state", "available")
            .with("x-ms-has-immutability-policy", "false")
            .with("x-ms-has-legal-hold", "false");
        Ok(response.with_metadata(&container.metadata))
    }
}

/// Operations on blobs, except leases.
///
/// The lease is checked before the conditions, as in the service. Creation with `If-None-Match: *`
/// over a leased blob without its id fails with `LeaseIdMissing`, not `BlobAlreadyExists`.
impl Service {
    /// Creates the blob, or replaces everything except its lease.
    pub(super) fn put_blob(&mut self, call: &Call<'_>) -> Result<Response, Failure> {
        let body = put_blob_body(call.request)?;
        let properties = Properties::from_request(call.request)?;
        let metadata = metadata(call.request)?;
        let id = lease_id(call.request, LEASE_ID)?;
        let conditions = Conditions::for_write(call.request)?;
        let container =
            self.containers.get_mut(&call.container_key).ok_or(Code::ContainerNotFound)?;
        match container.blobs.get(call.blob_name) {
            Some(blob) => {
                blob.lease.check_write(call.now.elapsed, id)?;
                if conditions.is_create_only() {
                    return Err(Code::BlobAlreadyExists.into());
                }
                conditions.check_write(&blob.content.etag, blob.content.modified)?;
            }
            // A missing blob has no lease (REST reference: *Lease Blob*, since version 2013-08-15).
            None if id.is_some() => return Err(Code::LeaseNotPresentWithBlobOperation.into()),
            None => conditions.check_create()?,
        }
        let (etag, created, modified) = (self.generator.etag(), call.now.wall, call.now.wall);
        let content = Content { body, properties, metadata, etag, created, modified };
        let mut response =
            with_etag(201, &content.etag, modified).with("x-ms-request-server-encrypted", "true");
        if let Some(checksum) = content.properties.get("Content-MD5") {
            response = response.with("Content-MD5", checksum);
        }
        match container.blobs.get_mut(call.blob_name) {
            Some(blob) => {
                blob.lease.on_write(call.now.elapsed);
                blob.content = content;
            }
            None => {
                let blob = Blob { content, lease: Lease::default() };
                container.blobs.insert(call.blob_name.to_owned(), blob);
            }
        }
        Ok(response)
    }

    pub(super) fn set_metadata(&mut self, call: &Call<'_>) -> Result<Response, Failure> {
        let id = lease_id(call.request, LEASE_ID)?;
        let conditions = Conditions::for_write(call.request)?;
        let metadata = metadata(call.request)?;
        let etag = self.generator.etag();
        let Blob { content, lease } = self.blob_mut(&call.container_key, call.blob_name)?;
        lease.check_write(call.now.elapsed, id)?;
        conditions.check_write(&content.etag, content.modified)?;
        lease.on_write(call.now.elapsed);
        (content.metadata, content.etag, content.modified) = (metadata, etag, call.now.wall);
        Ok(with_etag(200, &content.etag, content.modified)
            .with("x-ms-request-server-encrypted", "true"))
    }

    /// Handles GET and HEAD.
    pub(super) fn read_blob(&self, call: &Call<'_>) -> Result<Response, Failure> {
        let conditions = Conditions::for_read(call.request)?;
        let Blob { content, lease } = self.readable_blob(call, &conditions)?;
        let part = if call.request.method == "HEAD" {
            Part::Empty
        } else {
            requested_part(call.request, content.body.len() as u64)?
        };
        Ok(content.response(lease, call.now.elapsed, part))
    }

    /// Returns the metadata only.
    pub(super) fn read_metadata(&self, call: &Call<'_>) -> Result<Response, Failure> {
        let conditions = Conditions::for_write(call.request)?;
        let content = &self.readable_blob(call, &conditions)?.content;
        let response = with_etag(200, &content.etag, content.modified);
        Ok(response.with_metadata(&content.metadata))
    }

    /// Returns the blob if its lease and the conditions allow the read.
    fn readable_blob(&self, call: &Call<'_>, conditions: &Conditions) -> Result<&Blob, Failure> {
        let id = lease_id(call.request, LEASE_ID)?;
        let blob = self.blob(&call.container_key, call.blob_name)?;
        blob.lease.check_read(call.now.elapsed, id)?;
        conditions.check_read(&blob.content.etag, blob.content.modified)?;
        Ok(blob)
    }

    pub(super) fn delete_blob(&mut self, call: &Call<'_>) -> Result<Response, Failure> {
        let id = lease_id(call.request, LEASE_ID)?;
        let conditions = Conditions::for_write(call.request)?;
        let blob = self.blob(&call.container_key, call.blob_name)?;
        blob.lease.check_write(call.now.elapsed, id)?;
        conditions.check_write(&blob.content.etag, blob.content.modified)?;
        if let Some(container) = self.containers.get_mut(&call.container_key) {
            container.blobs.remove(call.blob_name);
        }
        Ok(Response::new(202).with("x-ms-delete-type-permanent", "true"))
    }
}

/// Returns the body of a Put Blob.
fn put_blob_body(request: &Request) -> Result<Bytes, Failure> {
    const BLOB_TYPE_HEADER: &str = "x-ms-blob-type";
    match request.header(BLOB_TYPE_HEADER) {
        None => Err(Failure::missing(BLOB_TYPE_HEADER)),
        Some(BLOB_TYPE) if request.header("content-length").is_none() => {
            Err(Code::MissingContentLengthHeader.into())
        }
        Some(BLOB_TYPE) => Ok(request.body.clone()),
        Some(other @ ("AppendBlob" | "PageBlob")) => {
            Err(Failure::unsupported(&format!("{BLOB_TYPE_HEADER}: {other}")))
        }
        Some(other) => Err(Failure::header(BLOB_TYPE_HEADER, other)),
    }
}

// The actions of Lease Blob. Each action ignores the headers of the other actions; for example, a
// break ignores a lease id. The reference says that the duration is "only allowed" on acquire, but
// has no error code for a duration on another action.

pub(super) fn acquire(service: &mut Service, call: &Call<'_>) -> Result<Response, Failure> {
    let proposed = lease_id(call.request, PROPOSED_LEASE_ID)?;
    let duration = lease_duration(call.request)?;
    service.lease_blob(call, |lease, now, generated| {
        let id = lease.acquire(now, proposed, generated, duration)?;
        Ok((201, Some((LEASE_ID, id.to_string()))))
    })
}

pub(super) fn renew(service: &mut Service, call: &Call<'_>) -> Result<Response, Failure> {
    let id = required_lease_id(call.request, LEASE_ID)?;
    service.lease_blob(call, |lease, now, _| {
        lease.renew(now, id)?;
        Ok((200, Some((LEASE_ID, id.to_string()))))
    })
}

pub(super) fn change(service: &mut Service, call: &Call<'_>) -> Result<Response, Failure> {
    let id = required_lease_id(call.request, LEASE_ID)?;
    let proposed = required_lease_id(call.request, PROPOSED_LEASE_ID)?;
    service.lease_blob(call, |lease, now, _| {
        lease.change(now, id, proposed)?;
        Ok((200, Some((LEASE_ID, proposed.to_string()))))
    })
}

pub(super) fn release(service: &mut Service, call: &Call<'_>) -> Result<Response, Failure> {
    let id = required_lease_id(call.request, LEASE_ID)?;
    service.lease_blob(call, |lease, _, _| {
        lease.release(id)?;
        Ok((200, None))
    })
}

pub(super) fn break_lease(service: &mut Service, call: &Call<'_>) -> Result<Response, Failure> {
    let period = break_period(call.request)?;
    service.lease_blob(call, |lease, now, _| {
        let remaining = lease.break_lease(now, period)?;
        // The seconds are rounded up, so the lease is free once they have passed.
        let seconds = remaining.as_secs() + u64::from(remaining.subsec_nanos() > 0);
        Ok((202, Some(("x-ms-lease-time", seconds.to_string()))))
    })
}

/// The status of the response to a lease action, and an additional header.
type LeaseResult = (u16, Option<(&'static str, String)>);

impl Service {
    /// Performs `action` on the lease of the blob. The action gets the lease, the time, and a
    /// generated id, which it uses if the client proposes none. The blob's ETag and date do not
    /// change.
    ///
    /// The conditions are checked before the lease, unlike in the other operations on blobs. The
    /// service's order of the two checks is not documented for Lease Blob.
    fn lease_blob(
        &mut self,
        call: &Call<'_>,
        action: impl FnOnce(&mut Lease, Duration, LeaseId) -> Result<LeaseResult, Code>,
    ) -> Result<Response, Failure> {
        let conditions = Conditions::for_write(call.request)?;
        let generated = self.generator.guid();
        let blob = self.blob_mut(&call.container_key, call.blob_name)?;
        conditions.check_write(&blob.content.etag, blob.content.modified)?;
        let (status, header) = action(&mut blob.lease, call.now.elapsed, generated)?;
        let response = with_etag(status, &blob.content.etag, blob.content.modified);
        Ok(match header {
            Some((name, value)) => response.with(name, value),
            None => response,
        })
    }
}
