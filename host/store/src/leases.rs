//! Lease Blob over the wire: headers in, the state machine asked, headers out.
//!
//! Here the conditions come before the lease, unlike elsewhere (see `blobs.rs`): which of two refusals is told is not
//! documented for these operations.

use std::time::Duration;

use tenure_azure::LeaseId;

use super::blob::stamped;
use super::code::{Code, Failure};
use super::condition::Conditions;
use super::containers::Place;
use super::headers::{
    LEASE_ID, PROPOSED_LEASE_ID, break_period, lease_id, lease_length, required_lease_id,
};
use super::lease::{Lease, Length};
use super::log::Verb;
use super::service::Service;
use super::wire::{Now, Request, Response};

/// A lease operation, its headers read. Headers that belong to another action are not looked at (the reference calls
/// the duration "only allowed" on acquire, and has no code for it elsewhere); so a break ignores a lease id.
enum Action {
    Acquire { proposed: Option<LeaseId>, length: Length },
    Renew(LeaseId),
    Change { id: LeaseId, proposed: LeaseId },
    Release(LeaseId),
    Break(Option<Duration>),
}

impl Action {
    fn read(verb: Verb, request: &Request) -> Result<Action, Failure> {
        let id = || required_lease_id(request, LEASE_ID);
        Ok(match verb {
            Verb::Acquire => Action::Acquire {
                proposed: lease_id(request, PROPOSED_LEASE_ID)?,
                length: lease_length(request)?,
            },
            Verb::Renew => Action::Renew(id()?),
            Verb::Change => Action::Change {
                id: id()?,
                proposed: required_lease_id(request, PROPOSED_LEASE_ID)?,
            },
            Verb::Release => Action::Release(id()?),
            _ => Action::Break(break_period(request)?),
        })
    }

    fn run(self, lease: &mut Lease, now: Duration, fresh: LeaseId) -> Result<Done, Code> {
        match self {
            Action::Acquire { proposed, length } => {
                lease.acquire(now, proposed, fresh, length).map(Done::Acquired)
            }
            Action::Renew(id) => lease.renew(now, id).map(|()| Done::Kept(id)),
            Action::Change { id, proposed } => {
                lease.change(now, id, proposed).map(|()| Done::Kept(proposed))
            }
            Action::Release(id) => lease.release(id).map(|()| Done::Released),
            Action::Break(period) => lease.end(now, period).map(Done::Ending),
        }
    }
}

enum Done {
    Acquired(LeaseId),
    Kept(LeaseId),
    Released,
    Ending(Duration),
}

impl Service {
    /// 1. the headers, 2. container and blob, 3. the conditions, 4. the lease. ETag and Last-Modified stay as they are.
    pub(super) fn lease_blob(
        &mut self,
        now: Now,
        place: &Place,
        name: &str,
        verb: Verb,
        request: &Request,
    ) -> Result<Response, Failure> {
        let action = Action::read(verb, request)?;
        let conditions = Conditions::of_write(request)?;
        let fresh = self.generator.guid();
        let blob = self.blob_mut(place, name)?;
        conditions.admit_write(&blob.current.etag, blob.current.modified)?;
        let done = action.run(&mut blob.lease, now.elapsed, fresh)?;
        let stamped = |status| stamped(status, &blob.current.etag, blob.current.modified);
        Ok(match done {
            Done::Acquired(id) => stamped(201).with("x-ms-lease-id", id.to_string()),
            Done::Kept(id) => stamped(200).with("x-ms-lease-id", id.to_string()),
            Done::Released => stamped(200),
            // Rounded up: whoever waits that many seconds finds it free.
            Done::Ending(rest) => {
                let seconds = rest.as_secs() + u64::from(rest.subsec_nanos() > 0);
                stamped(202).with("x-ms-lease-time", seconds.to_string())
            }
        })
    }
}
