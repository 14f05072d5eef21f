//! Operations on blobs, except leases.
//!
//! The lease is checked before the conditions, as in the service. Creation with `If-None-Match: *`
//! over a leased blob without its id fails with `LeaseIdMissing`, not `BlobAlreadyExists`.

use bytes::Bytes;

use super::blob::{BLOB_TYPE, Blob, Content, Part, Properties, with_etag};
use super::call::Call;
use super::code::{Code, Failure};
use super::condition::Conditions;
use super::headers::{LEASE_ID, lease_id, metadata};
use super::lease::Lease;
use super::range::requested_part;
use super::service::Service;
use super::wire::{Request, Response};

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
                if conditions.only_create() {
                    return Err(Code::BlobAlreadyExists.into());
                }
                conditions.check_write(&blob.content.etag, blob.content.modified)?;
            }
            // A missing blob has no lease (REST reference, *Lease Blob*: since version 2013-08-15).
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
        let Blob { content, lease } = self.readable(call)?;
        let part = if call.request.method == "HEAD" {
            Part::Empty
        } else {
            requested_part(call.request, content.body.len() as u64)?
        };
        Ok(content.response(lease, call.now.elapsed, part))
    }

    /// Returns the metadata only.
    pub(super) fn read_metadata(&self, call: &Call<'_>) -> Result<Response, Failure> {
        let content = &self.readable(call)?.content;
        let response = with_etag(200, &content.etag, content.modified);
        Ok(response.with_metadata(&content.metadata))
    }

    fn readable(&self, call: &Call<'_>) -> Result<&Blob, Failure> {
        let id = lease_id(call.request, LEASE_ID)?;
        let conditions = Conditions::for_read(call.request)?;
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
