//! State of the seeded bugs, in addition to the state of a candidate.

use super::super::{Moment, Timestamp};
use super::mutant;
use crate::protocol::phase::Hold;
use chrono::{DateTime, Utc};
use core::cell::RefCell;
use std::collections::BTreeMap;
use tenure_azure::blob::LeaseId;

/// Maximum number of remembered leaderships.
const MAX_LEADERSHIPS: usize = 16;

std::thread_local! {
    static CLOCKS: RefCell<BTreeMap<u64, (Moment, Timestamp)>> =
        const { RefCell::new(BTreeMap::new()) };
    static LEADERSHIPS: RefCell<Vec<Hold>> = const { RefCell::new(Vec::new()) };
}

/// Clears the state at the end of a schedule.
pub fn forget() {
    CLOCKS.with_borrow_mut(BTreeMap::clear);
}

/// Records the time of day `wall` of the candidate with this nonce at `now`.
pub fn clock(nonce: u64, now: Moment, wall: DateTime<Utc>) {
    CLOCKS.with_borrow_mut(|clocks| clocks.insert(nonce, (now, Timestamp::from_date(wall))));
}

/// Returns the time by which slots are counted; normally the `service`'s.
pub fn slot_time(nonce: u64, now: Moment, service: Option<Timestamp>) -> Option<Timestamp> {
    if !mutant!(SlotsInLocalTime) {
        return service;
    }
    let (at, wall) = CLOCKS.with_borrow(|clocks| clocks.get(&nonce).copied())?;
    Some(wall.plus(now.saturating_sub(at)))
}

/// Records a leadership that ended.
pub fn given_up(hold: &Hold) {
    LEADERSHIPS.with_borrow_mut(|leaderships| {
        leaderships.push(hold.clone());
        let excess = leaderships.len().saturating_sub(MAX_LEADERSHIPS);
        leaderships.drain(..excess);
    });
}

/// Returns the leadership with that lease, for a candidate that believes it still holds the lease
/// because its release got no answer.
pub fn resumed(unknown: bool, lease: LeaseId, until: Moment) -> Option<Hold> {
    if !mutant!(ResumedAfterRelease) || !unknown {
        return None;
    }
    let found = LEADERSHIPS.with_borrow(|leaderships| {
        leaderships.iter().rev().find(|hold| hold.lease == lease).cloned()
    });
    found.map(|hold| Hold { valid_until: until, write: None, pending_claim: None, ..hold })
}
