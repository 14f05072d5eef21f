//! The lease of one blob: five states, five actions (REST reference: *Lease Blob*, its tables of outcomes by state).
//!
//! Time comes in as a duration since any fixed origin. Nothing happens between two calls: that a lease has expired,
//! or that its break period is over, is found by whoever looks next.

use std::time::Duration;

use tenure_azure::LeaseId;

use super::code::Code;

/// How long a lease lasts: 15 to 60 s, counted from each acquire and renew, or without end (`None`).
pub(super) type LeaseDuration = Option<Duration>;

/// `x-ms-lease-state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nobody holds it and nobody is remembered.
    Available,
    /// Held.
    Leased,
    /// Broken, with the break period still running: nobody else may acquire.
    Breaking,
    /// Broken, the period over: anybody may acquire, the last holder may release but not renew.
    Broken,
    /// Ran out: anybody may acquire, and the last holder may renew until somebody writes or acquires.
    Expired,
}

impl State {
    /// As the header spells it.
    pub fn name(self) -> &'static str {
        match self {
            State::Available => "available",
            State::Leased => "leased",
            State::Breaking => "breaking",
            State::Broken => "broken",
            State::Expired => "expired",
        }
    }

    /// Whether writing needs the lease id: `x-ms-lease-status: locked`.
    pub fn is_locked(self) -> bool {
        matches!(self, State::Leased | State::Breaking)
    }
}

/// What is known of a blob's lease. What it means depends on when one looks: [`Lease::state`].
#[derive(Clone, Copy, Debug, Default, Hash)]
pub(super) enum Lease {
    #[default]
    Free,
    /// Leased until then (for ever: `None`), expired thereafter.
    Leased { id: LeaseId, length: LeaseDuration, expires_at: Option<Duration> },
    /// Breaking until then, broken thereafter.
    Breaking { id: LeaseId, broken_at: Duration },
}

impl Lease {
    pub(super) fn state(&self, now: Duration) -> State {
        match self {
            Lease::Free => State::Available,
            Lease::Leased { expires_at: Some(until), .. } if now >= *until => State::Expired,
            Lease::Leased { .. } => State::Leased,
            Lease::Breaking { broken_at: until, .. } if now >= *until => State::Broken,
            Lease::Breaking { .. } => State::Breaking,
        }
    }

    /// Whether the lease is held for ever; `None` when it is not held.
    pub(super) fn is_infinite(&self, now: Duration) -> Option<bool> {
        match self {
            Lease::Leased { length, .. } if self.state(now) == State::Leased => {
                Some(length.is_none())
            }
            _ => None,
        }
    }

    /// Who holds it or held it last.
    pub(super) fn id(&self) -> Option<LeaseId> {
        match self {
            Lease::Free => None,
            Lease::Leased { id, .. } | Lease::Breaking { id, .. } => Some(*id),
        }
    }

    fn has_id(&self, id: LeaseId) -> bool {
        self.id() == Some(id)
    }

    /// Acquire. `proposed`: the client's own id; again with the same id, it restarts the period with the new length.
    /// Otherwise the lease gets `fresh`. Returns the id of the lease.
    pub(super) fn acquire(
        &mut self,
        now: Duration,
        proposed: Option<LeaseId>,
        generated: LeaseId,
        length: LeaseDuration,
    ) -> Result<LeaseId, Code> {
        let is_holder = proposed.is_some_and(|proposed| self.has_id(proposed));
        match self.state(now) {
            State::Leased if !is_holder => return Err(Code::LeaseAlreadyPresent),
            State::Breaking if is_holder => return Err(Code::LeaseIsBreakingAndCannotBeAcquired),
            State::Breaking => return Err(Code::LeaseAlreadyPresent),
            State::Leased | State::Available | State::Broken | State::Expired => {}
        }
        let id = proposed.unwrap_or(generated);
        *self = Lease::Leased { id, length, expires_at: length.map(|length| now + length) };
        Ok(id)
    }

    /// Renew: the period starts again. Also when it has run out, if nobody wrote or acquired since: both forget the id.
    pub(super) fn renew(&mut self, now: Duration, id: LeaseId) -> Result<(), Code> {
        match self {
            Lease::Leased { id: holder, length, expires_at: until } if *holder == id => {
                *until = length.map(|length| now + length);
                Ok(())
            }
            Lease::Breaking { id: holder, .. } if *holder == id => {
                Err(Code::LeaseIsBrokenAndCannotBeRenewed)
            }
            _ => Err(Code::LeaseIdMismatchWithLeaseOperation),
        }
    }

    /// Change the id; the period runs on. Succeeds, too, when the new id is the current one whatever the old: a repeat.
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

    /// Release: anybody may acquire at once. Not a second time, for the id is forgotten.
    pub(super) fn release(&mut self, id: LeaseId) -> Result<(), Code> {
        if !self.has_id(id) {
            return Err(Code::LeaseIdMismatchWithLeaseOperation);
        }
        *self = Lease::Free;
        Ok(())
    }

    /// Break after `period`, at most the rest of the lease (an infinite one has no rest: at once, unless a period is
    /// given). Returns the time until another may acquire.
    pub(super) fn break_lease(
        &mut self,
        now: Duration,
        period: Option<Duration>,
    ) -> Result<Duration, Code> {
        let id = self.id().ok_or(Code::LeaseNotPresentWithLeaseOperation)?;
        let remaining = match self {
            Lease::Free => Some(Duration::ZERO),
            Lease::Leased { expires_at: until, .. } => until.map(|until| until.saturating_sub(now)),
            Lease::Breaking { broken_at: until, .. } => Some(until.saturating_sub(now)),
        };
        let break_time = match (period, remaining) {
            (Some(period), Some(rest)) => period.min(rest),
            (Some(only), None) | (None, Some(only)) => only,
            (None, None) => Duration::ZERO,
        };
        *self = Lease::Breaking { id, broken_at: now + break_time };
        Ok(break_time)
    }

    /// Whether the blob may be written with this lease id, or without one.
    pub(super) fn check_write(&self, now: Duration, id: Option<LeaseId>) -> Result<(), Code> {
        match id {
            None if self.state(now).is_locked() => Err(Code::LeaseIdMissing),
            None => Ok(()),
            Some(id) => self.check_id(now, id),
        }
    }

    /// Whether the blob may be read: always, but a lease id that is given must be right.
    pub(super) fn check_read(&self, now: Duration, id: Option<LeaseId>) -> Result<(), Code> {
        id.map_or(Ok(()), |id| self.check_id(now, id))
    }

    fn check_id(&self, now: Duration, id: LeaseId) -> Result<(), Code> {
        match (self.state(now).is_locked(), self.has_id(id)) {
            (true, true) => Ok(()),
            (true, false) => Err(Code::LeaseIdMismatchWithBlobOperation),
            // Ours once, run out or broken since. For a broken lease the reference prints only the status; the same
            // code fits it best.
            (false, true) => Err(Code::LeaseLost),
            (false, false) => Err(Code::LeaseNotPresentWithBlobOperation),
        }
    }

    /// The blob was written. A lease that no longer locks is forgotten, so that its last holder cannot renew unaware.
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

    fn leased(length: LeaseDuration) -> Lease {
        let mut lease = Lease::default();
        lease.acquire(Duration::ZERO, Some(id(1)), id(9), length).unwrap();
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
        let left = lease.break_lease(Duration::from_secs(5), Some(Duration::from_secs(10))).unwrap();
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
    fn without_a_proposal_every_acquire_is_another() {
        let mut lease = leased(Some(LENGTH));
        // Even if the service would make the very same id again.
        assert_eq!(
            lease.acquire(Duration::ZERO, None, id(1), None),
            Err(Code::LeaseAlreadyPresent)
        );
        assert_eq!(lease.acquire(LENGTH, None, id(9), None), Ok(id(9)));
    }
}
