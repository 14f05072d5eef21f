//! The lease of one blob: five states, five actions (REST reference: *Lease Blob*, its tables of
//! outcomes by state).
//!
//! Times are durations since a fixed origin, which the caller chooses. There are no timers: each
//! call computes from its time whether the lease has expired or its break period has ended.

use std::time::Duration;

use tenure_azure::LeaseId;

use super::code::Code;

/// The duration of a lease: 15 to 60 s from each acquire and renew, or infinite (`None`).
pub(super) type LeaseDuration = Option<Duration>;

/// `x-ms-lease-state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No client holds the lease, and no former holder is remembered.
    Available,
    /// A client holds the lease.
    Leased,
    /// The lease is broken, but its break period continues. No client may acquire until its end.
    Breaking,
    /// The break period has ended. Any client may acquire. The last holder may release, but not
    /// renew.
    Broken,
    /// The lease has expired. Any client may acquire. The last holder may renew until the next
    /// write or acquire.
    Expired,
}

impl State {
    /// Returns the state's name in the header.
    pub fn name(self) -> &'static str {
        match self {
            State::Available => "available",
            State::Leased => "leased",
            State::Breaking => "breaking",
            State::Broken => "broken",
            State::Expired => "expired",
        }
    }

    /// Returns true if a write needs the lease id (`x-ms-lease-status: locked`).
    pub fn is_locked(self) -> bool {
        matches!(self, State::Leased | State::Breaking)
    }
}

/// The stored lease of a blob. Its state depends on the time: [`Lease::state`].
#[derive(Clone, Copy, Debug, Default, Hash)]
pub(super) enum Lease {
    #[default]
    Free,
    /// Leased until `expires_at` (infinite if `None`), expired after that.
    Leased { id: LeaseId, duration: LeaseDuration, expires_at: Option<Duration> },
    /// Breaking until `broken_at`, broken after that.
    Breaking { id: LeaseId, broken_at: Duration },
}

impl Lease {
    pub(super) fn state(&self, now: Duration) -> State {
        match self {
            Lease::Free => State::Available,
            Lease::Leased { expires_at: Some(expiry), .. } if now >= *expiry => State::Expired,
            Lease::Leased { .. } => State::Leased,
            Lease::Breaking { broken_at, .. } if now >= *broken_at => State::Broken,
            Lease::Breaking { .. } => State::Breaking,
        }
    }

    /// Returns true if the lease is held and infinite; `None` if it is not held.
    pub(super) fn is_infinite(&self, now: Duration) -> Option<bool> {
        match self {
            Lease::Leased { duration, .. } if self.state(now) == State::Leased => {
                Some(duration.is_none())
            }
            _ => None,
        }
    }

    /// Returns the id of the present or last holder.
    pub(super) fn id(&self) -> Option<LeaseId> {
        match self {
            Lease::Free => None,
            Lease::Leased { id, .. } | Lease::Breaking { id, .. } => Some(*id),
        }
    }

    fn has_id(&self, id: LeaseId) -> bool {
        self.id() == Some(id)
    }

    /// Acquires the lease and returns its id: the client's proposed id, or else the generated one.
    /// If the client holds the lease already under the proposed id, its period restarts with the
    /// new duration.
    pub(super) fn acquire(
        &mut self,
        now: Duration,
        proposed: Option<LeaseId>,
        generated: LeaseId,
        duration: LeaseDuration,
    ) -> Result<LeaseId, Code> {
        let is_holder = proposed.is_some_and(|proposed| self.has_id(proposed));
        match self.state(now) {
            State::Leased if !is_holder => return Err(Code::LeaseAlreadyPresent),
            State::Breaking if is_holder => return Err(Code::LeaseIsBreakingAndCannotBeAcquired),
            State::Breaking => return Err(Code::LeaseAlreadyPresent),
            State::Leased | State::Available | State::Broken | State::Expired => {}
        }
        let id = proposed.unwrap_or(generated);
        let expires_at = duration.map(|duration| now + duration);
        *self = Lease::Leased { id, duration, expires_at };
        Ok(id)
    }

    /// Renews the lease: the period starts again. An expired lease can be renewed unless a write or
    /// an acquire has intervened; both discard the id.
    pub(super) fn renew(&mut self, now: Duration, id: LeaseId) -> Result<(), Code> {
        match self {
            Lease::Leased { id: holder, duration, expires_at } if *holder == id => {
                *expires_at = duration.map(|duration| now + duration);
                Ok(())
            }
            Lease::Breaking { id: holder, .. } if *holder == id => {
                Err(Code::LeaseIsBrokenAndCannotBeRenewed)
            }
            _ => Err(Code::LeaseIdMismatchWithLeaseOperation),
        }
    }

    /// Changes the id; the period continues. A change to the id that the lease already has succeeds
    /// with any old id, so a client can repeat a change.
    pub(super) fn change(
        &mut self,
        now: Duration,
        id: LeaseId,
        proposed: LeaseId,
    ) -> Result<(), Code> {
        let state = self.state(now);
        match self {
            Lease::Leased { id: holder, .. } if state == State::Leased => {
                if *holder != id && *holder != proposed {
                    return Err(Code::LeaseIdMismatchWithLeaseOperation);
                }
                *holder = proposed;
                Ok(())
            }
            Lease::Breaking { id: holder, .. } if state == State::Breaking => {
                let is_holder = *holder == id;
                Err(if is_holder {
                    Code::LeaseIsBreakingAndCannotBeChanged
                } else {
                    Code::LeaseIdMismatchWithLeaseOperation
                })
            }
            _ => Err(Code::LeaseNotPresentWithLeaseOperation),
        }
    }

    /// Releases the lease, so any client may acquire at once. A second release fails, because the
    /// id is cleared.
    pub(super) fn release(&mut self, id: LeaseId) -> Result<(), Code> {
        if !self.has_id(id) {
            return Err(Code::LeaseIdMismatchWithLeaseOperation);
        }
        *self = Lease::Free;
        Ok(())
    }

    /// Breaks the lease after `period`, at most after its remaining time. An infinite lease breaks
    /// at once unless a period is given. Returns the time until another client may acquire.
    pub(super) fn break_lease(
        &mut self,
        now: Duration,
        period: Option<Duration>,
    ) -> Result<Duration, Code> {
        let id = self.id().ok_or(Code::LeaseNotPresentWithLeaseOperation)?;
        let remaining = match self {
            Lease::Free => Some(Duration::ZERO),
            Lease::Leased { expires_at, .. } => expires_at.map(|expiry| expiry.saturating_sub(now)),
            Lease::Breaking { broken_at, .. } => Some(broken_at.saturating_sub(now)),
        };
        let break_time = match (period, remaining) {
            (Some(period), Some(remaining)) => period.min(remaining),
            (Some(only), None) | (None, Some(only)) => only,
            (None, None) => Duration::ZERO,
        };
        *self = Lease::Breaking { id, broken_at: now + break_time };
        Ok(break_time)
    }

    /// Checks that the blob may be written with this lease id, or without one.
    pub(super) fn check_write(&self, now: Duration, id: Option<LeaseId>) -> Result<(), Code> {
        match id {
            None if self.state(now).is_locked() => Err(Code::LeaseIdMissing),
            None => Ok(()),
            Some(id) => self.check_id(now, id),
        }
    }

    /// Checks that the blob may be read. A lease id in the request must be right.
    pub(super) fn check_read(&self, now: Duration, id: Option<LeaseId>) -> Result<(), Code> {
        id.map_or(Ok(()), |id| self.check_id(now, id))
    }

    /// Checks the lease id in a request other than Lease Blob.
    fn check_id(&self, now: Duration, id: LeaseId) -> Result<(), Code> {
        match (self.state(now).is_locked(), self.has_id(id)) {
            (true, true) => Ok(()),
            (true, false) => Err(Code::LeaseIdMismatchWithBlobOperation),
            // The id was valid until the lease expired or was broken. For a broken lease the
            // reference gives only the status; this code fits it best.
            (false, true) => Err(Code::LeaseLost),
            (false, false) => Err(Code::LeaseNotPresentWithBlobOperation),
        }
    }

    /// Records a write to the blob. A lease that no longer locks is cleared, so its last holder
    /// cannot renew without noticing the write.
    pub(super) fn on_write(&mut self, now: Duration) {
        if !self.state(now).is_locked() {
            *self = Lease::Free;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: Duration = Duration::from_secs(15);

    fn id(byte: u8) -> LeaseId {
        LeaseId::from_random([byte; 16])
    }

    fn leased(duration: LeaseDuration) -> Lease {
        let mut lease = Lease::default();
        lease.acquire(Duration::ZERO, Some(id(1)), id(9), duration).unwrap();
        lease
    }

    #[test]
    fn a_lease_runs_out_at_its_instant_and_not_before() {
        let lease = leased(Some(LENGTH));
        assert_eq!(lease.state(LENGTH - Duration::from_nanos(1)), State::Leased);
        assert_eq!(lease.state(LENGTH), State::Expired);
        assert_eq!(leased(None).state(Duration::MAX), State::Leased);
    }

    #[test]
    fn a_break_runs_out_at_its_instant_and_not_before() {
        let mut lease = leased(None);
        let left =
            lease.break_lease(Duration::from_secs(5), Some(Duration::from_secs(10))).unwrap();
        assert_eq!(left, Duration::from_secs(10));
        assert_eq!(lease.state(LENGTH - Duration::from_nanos(1)), State::Breaking);
        assert_eq!(lease.state(LENGTH), State::Broken);
    }

    #[test]
    fn a_change_does_not_restart_the_period() {
        let mut lease = leased(Some(LENGTH));
        lease.change(Duration::from_secs(10), id(1), id(2)).unwrap();
        assert_eq!(lease.state(LENGTH), State::Expired);
        assert!(lease.renew(LENGTH, id(2)).is_ok());
        assert_eq!(lease.state(LENGTH + LENGTH), State::Expired);
    }

    #[test]
    fn a_refusal_changes_nothing() {
        let mut lease = leased(Some(LENGTH));
        let now = Duration::from_secs(10);
        assert_eq!(lease.renew(now, id(2)), Err(Code::LeaseIdMismatchWithLeaseOperation));
        assert_eq!(lease.acquire(now, Some(id(2)), id(9), None), Err(Code::LeaseAlreadyPresent));
        assert_eq!(lease.release(id(2)), Err(Code::LeaseIdMismatchWithLeaseOperation));
        assert_eq!(lease.change(now, id(2), id(3)), Err(Code::LeaseIdMismatchWithLeaseOperation));
        assert_eq!(lease.id(), Some(id(1)));
        assert_eq!(lease.state(LENGTH), State::Expired);
    }

    #[test]
    fn an_acquire_without_a_proposal_is_never_by_the_holder() {
        let mut lease = leased(Some(LENGTH));
        // The generated id is the holder's, but the client has not proposed it.
        assert_eq!(
            lease.acquire(Duration::ZERO, None, id(1), None),
            Err(Code::LeaseAlreadyPresent)
        );
        assert_eq!(lease.acquire(LENGTH, None, id(9), None), Ok(id(9)));
    }
}
