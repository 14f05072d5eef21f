//! Lease Blob over HTTP: headers, state machine, headers.
//!
//! The conditions are checked before the lease, unlike in `blobs.rs`. The service's order of the
//! two checks is not documented for these operations.

use std::time::Duration;

use tenure_azure::LeaseId;

use super::blob::with_etag;
use super::call::Call;
use super::code::{Code, Failure};
use super::condition::Conditions;
use super::headers::{
    LEASE_ID, PROPOSED_LEASE_ID, break_period, lease_id, lease_length, required_lease_id,
};
use super::lease::Lease;
use super::service::Service;
use super::wire::Response;

// Headers of other actions are ignored. The reference calls the duration "only allowed" on acquire,
// and has no error code for it elsewhere. So a break ignores a lease id.

pub(super) fn acquire(service: &mut Service, call: &Call<'_>) -> Result<Response, Failure> {
    let proposed = lease_id(call.request, PROPOSED_LEASE_ID)?;
    let length = lease_length(call.request)?;
    service.lease_blob(call, |lease, now, generated| {
        let id = lease.acquire(now, proposed, generated, length)?;
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
        // Rounded up, so the lease is free after this number of seconds.
        let seconds = remaining.as_secs() + u64::from(remaining.subsec_nanos() > 0);
        Ok((202, Some(("x-ms-lease-time", seconds.to_string()))))
    })
}

/// The status of a response, and a header besides the blob's ETag and date.
type LeaseResult = (u16, Option<(&'static str, String)>);

impl Service {
    /// Checks 1. the headers, 2. container and blob, 3. the conditions, 4. the lease. ETag and
    /// Last-Modified do not change.
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
        let answer = with_etag(status, &blob.content.etag, blob.content.modified);
        Ok(header.into_iter().fold(answer, |answer, (name, value)| answer.with(name, value)))
    }
}
