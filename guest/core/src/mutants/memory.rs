//! What the seeded bugs remember beside the state of a candidate.

use super::super::phase::Hold;
use super::super::{Moment, Timestamp};
use super::mutant;
use chrono::{DateTime, Utc};
use core::cell::RefCell;
use std::collections::BTreeMap;
use tenure_azure::lease_id::LeaseId;

/// So many leaderships are kept.
const KEPT: usize = 16;

std::thread_local! {
    static CLOCKS: RefCell<BTreeMap<u64, (Moment, Timestamp)>> =
        const { RefCell::new(BTreeMap::new()) };
    static LEADERSHIPS: RefCell<Vec<Hold>> = const { RefCell::new(Vec::new()) };
}

/// A schedule that ended leaves nothing behind.
pub fn forget() {
    CLOCKS.with_borrow_mut(BTreeMap::clear);
}

/// The machine of the candidate with this nonce shows `wall` at `now`.
pub fn clock(nonce: u64, now: Moment, wall: DateTime<Utc>) {
    CLOCKS.with_borrow_mut(|clocks| clocks.insert(nonce, (now, Timestamp::from_date(wall))));
}

/// The time by which slots are counted, which is to be the `service`'s.
pub fn slot_time(nonce: u64, now: Moment, service: Option<Timestamp>) -> Option<Timestamp> {
    if !mutant!(SlotsInLocalTime) {
        return service;
    }
    let (at, wall) = CLOCKS.with_borrow(|clocks| clocks.get(&nonce).copied())?;
    Some(wall.plus(now.saturating_sub(at)))
}

/// A leadership ended.
pub fn given_up(hold: &Hold) {
    LEADERSHIPS.with_borrow_mut(|kept| {
        kept.push(hold.clone());
        let excess = kept.len().saturating_sub(KEPT);
        kept.drain(..excess);
    });
}

/// The leadership of that lease, as a candidate has it that believes to hold it since its release got no
/// answer.
pub fn resumed(unknown: bool, lease: LeaseId, until: Moment) -> Option<Hold> {
    if !mutant!(ResumedAfterRelease) || !unknown {
        return None;
    }
    let found =
        LEADERSHIPS.with_borrow(|kept| kept.iter().rev().find(|hold| hold.lease == lease).cloned());
    found.map(|hold| Hold { valid_until: until, write: None, pending_claim: None, ..hold })
}
