//! Seeded bugs: each breaks one rule of the protocol, to prove that the checkers detect it.
//!
//! The bugs are compiled only with the feature `mutants`, which only the tests enable. At most one
//! bug is active in a thread.

#[cfg(feature = "mutants")]
use core::cell::Cell;

use tenure_azure::blob::LeaseId;
use tenure_azure::operation::{ETag, Operation};

/// Defines the seeded bugs, and the list of all of them.
#[cfg(feature = "mutants")]
macro_rules! mutants {
    ($($(#[$rule:meta])* $name:ident,)*) => {
        /// A broken rule of the protocol.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Mutant {
            $($(#[$rule])* $name,)*
        }

        impl Mutant {
            /// All seeded bugs.
            pub const ALL: [Self; [$(stringify!($name)),*].len()] = [$(Self::$name),*];
        }
    };
}

#[cfg(feature = "mutants")]
mutants! {
    /// Validity counts from the answer instead of the request.
    ValidityFromAnswer,
    /// The lease is released while the handler still runs.
    ReleaseBeforeStop,
    /// The lease is given to a successor while the handler still runs.
    HandOverBeforeStop,
    /// A successor leads by the lease that it was given, without acquiring it anew.
    SuccessorDoesNotAcquire,
    /// A successor renews the lease that it was given, so the lease keeps the length that the old
    /// leader set.
    SuccessorOnlyRenews,
    /// A leader ignores an order to hand over, and reports nothing.
    HandOverForgotten,
    /// The age of an announcement is ignored.
    AnnouncementIsStale,
    /// A lease that could not be given to the successor is not released.
    FailedChangeNotReleased,
    /// A successor that leaves does not withdraw its announcement.
    AnnouncementNotWithdrawn,
    /// The lease id in an answer is not compared with the one that was sent.
    LeaseIdNotCompared,
    /// The lease id in the answer to a renewal is adopted without a comparison.
    LeaseIdAdopted,
    /// The term is raised without `If-Match`.
    TermWithoutCondition,
    /// The lease is acquired without `If-Match`.
    AcquireWithoutCondition,
    /// A candidate that finds no record writes its term before the current second is over.
    SecondNotWaitedOut,
    /// A candidate that leaves forgets a lease that it may have acquired.
    UnsureAcquireForgotten,
    /// The next term follows from the record alone.
    TermFromRecordAlone,
    /// The deadline of a turn is ignored; only the order to stop counts.
    DeadlineIgnored,
    /// The host does not stop work whose time is over.
    WorkNotStopped,
    /// The answer to a renewal counts although the validity has ended.
    LateRenewalAdopted,
    /// A release without an answer is treated as not applied.
    ResumedAfterRelease,
    /// No slot is ever claimed.
    NothingClaimed,
    /// With at-most-once delivery, the outcome of a turn is not recorded.
    OutcomeNotRecorded,
    /// With at-most-once delivery, the outcome of a turn waits for the next claim, however far
    /// away.
    OutcomeWaitsForClaim,
    /// The outcome of a turn gets a separate write, even if the next claim comes soon.
    OutcomeNeverRides,
    /// Slots are claimed without `If-Match`.
    ClaimWithoutCondition,
    /// Slots are counted by this machine's clock.
    SlotsInLocalTime,
    /// A slot is run without being claimed.
    ClaimNotAwaited,
    /// A slot whose turn failed is retried with at-most-once delivery.
    RunsAgain,
    /// A slot whose turn failed is not retried with at-least-once delivery.
    UnfinishedIsLeft,
    /// A slot is retried forever.
    NeverAbandoned,
    /// Missed slots that should each have a turn have none.
    MissedForgotten,
    /// A candidate whose request was refused never polls again.
    StopsWhenRefused,
    /// A follower polls too rarely.
    RarePolls,
    /// A follower breaks the lease although the blob changed since its poll.
    BreakWithoutCondition,
    /// A beat is written without `If-Match`.
    BeatWithoutCondition,
    /// A follower counts the promise from its request, not from the answer.
    PromiseFromPoll,
    /// A follower uses its own promise, not the one on record.
    OwnPromise,
    /// A leader counts its promise from the answer to a beat, not from its request.
    PromiseFromAnswer,
    /// A renewal of the lease extends the promise.
    RenewalExtendsPromise,
    /// A leader acts before its first write under the lease.
    LeadsBeforeFirstWrite,
    /// A follower that lost a race breaks the lease of the winner.
    TimerNotRestarted,
    /// A follower counts the promise by the clock that may run ahead.
    PromiseByTheFasterClock,
    /// A beat that was tried twice has the same number both times.
    BeatNumberReused,
    /// A last will ends the lease of any holder.
    WillOfAnyLease,
    /// A last will is sent while the work of the dead process still runs.
    WillBeforeStop,
    /// Every hint brings polls forward.
    HintsWithoutLimit,
    /// A hint changes nothing.
    HintIgnored,
    /// A candidate that writes the list of candidates drops the other entries.
    ListsOnlyItself,
    /// A new leader does not know which triggers had their turn.
    TriggerForgotten,
    /// A leader reads orders only after a hint.
    OrdersUnseen,
    /// A leader obeys the same transfer twice.
    TransferObeyedAgain,
    /// A leader obeys the transfer of another term.
    TransferOfAnyTerm,
    /// The failure of a transfer is not recorded.
    TransferWithoutOutcome,
    /// A command drops existing orders when it places its own.
    PlacingDropsOthers,
    /// A leader gives its lease to an id that was announced in another term.
    AnnouncementOfAnyTerm,
    /// A successor announces the lease id of an earlier term.
    SuccessorKeepsLeaseId,
    /// A leader that is no longer ready continues a handover.
    HandsOverThoughNotReady,
    /// A successor overwrites any announcement.
    AnnouncementWithoutCondition,
    /// A trigger that is older than the newest on record is claimed.
    TriggerInstantIgnored,
    /// A trigger whose id is on record is claimed.
    TriggerIdsForgotten,
    /// A turn has no time limit.
    TurnWithoutLimit,
    /// A leader whose writes fail continues to lead.
    StalledLeaderStays,
    /// A candidate whose work failed contends again at once.
    CoolDownIgnored,
    /// A leader whose turn trapped or timed out continues to lead.
    TrapIgnored,
    /// A leader beats although the account keeps every version of a blob.
    BeatsOnVersionedAccount,
    /// In a handover, the work may continue for its whole grace period.
    WorkOutlastsHandover,
    /// A turn is stopped at its grace although the handover failed and its leader continues.
    GraceNotTakenBack,
    /// A release without an answer is not repeated.
    ReleaseNotRepeated,
}

#[cfg(feature = "mutants")]
std::thread_local! {
    static ACTIVE: Cell<Option<Mutant>> = const { Cell::new(None) };
}

/// Activates a mutant, or none, in this thread.
#[cfg(feature = "mutants")]
pub fn activate(mutant: Option<Mutant>) {
    ACTIVE.set(mutant);
    memory::forget();
}

/// Returns true if this mutant is active in this thread.
#[cfg(feature = "mutants")]
pub fn is_active(mutant: Mutant) -> bool {
    ACTIVE.get() == Some(mutant)
}

/// True if the seeded bug with that name is active. Always false in releases.
#[cfg(feature = "mutants")]
macro_rules! mutant {
    ($name:ident) => {
        $crate::mutants::is_active($crate::mutants::Mutant::$name)
    };
}

#[cfg(not(feature = "mutants"))]
pub(crate) const fn none_is_active() -> bool {
    false
}

/// True if the seeded bug with that name is active. Always false in releases.
#[cfg(not(feature = "mutants"))]
macro_rules! mutant {
    ($name:ident) => {
        $crate::mutants::none_is_active()
    };
}

pub(crate) use mutant;

/// Removes the `If-Match` condition of a record write if `is_mutated`.
pub(crate) fn unconditional(is_mutated: bool, operation: Operation) -> Operation {
    match operation {
        Operation::WriteMetadata { lease, metadata, .. } if is_mutated => {
            Operation::WriteMetadata { lease, if_match: ETag("*".into()), metadata }
        }
        operation => operation,
    }
}

/// Returns the tag that the blob must have for a successor's write. A seeded bug accepts any tag.
pub(crate) fn announcement_condition(tag: Option<ETag>) -> Option<ETag> {
    if mutant!(AnnouncementWithoutCondition) { Some(ETag("*".into())) } else { tag }
}

/// Returns the last will of the holder of a lease.
pub(crate) fn last_will(lease: LeaseId) -> Operation {
    match mutant!(WillOfAnyLease) {
        true => Operation::Break { period: Some(0), if_match: None },
        false => Operation::Release { lease },
    }
}

/// Returns the request that acquires a lease. `is_handed_over` is true if the former leader gave
/// the lease to this candidate.
pub(crate) fn acquire(is_handed_over: bool, operation: Operation) -> Operation {
    match operation {
        Operation::Acquire { lease, .. } if is_handed_over && mutant!(SuccessorOnlyRenews) => {
            Operation::Renew { lease }
        }
        Operation::Acquire { lease, seconds, .. } if mutant!(AcquireWithoutCondition) => {
            Operation::Acquire { lease, seconds, if_match: None }
        }
        operation => operation,
    }
}

/// State of the seeded bugs, in addition to the state of a candidate.
#[cfg(feature = "mutants")]
pub(crate) mod memory {
    use crate::protocol::phase::Hold;
    use crate::{Moment, Timestamp};
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

    /// Clears the clocks of the previous simulated run.
    pub fn forget() {
        CLOCKS.with_borrow_mut(BTreeMap::clear);
    }

    /// Records the time of day `wall` of the candidate with this nonce at `now`.
    pub fn record_clock(nonce: u64, now: Moment, wall: DateTime<Utc>) {
        CLOCKS.with_borrow_mut(|clocks| clocks.insert(nonce, (now, Timestamp::from_date(wall))));
    }

    /// Returns the time by which slots are counted: `service`, unless a seeded bug is active.
    pub fn slot_time(nonce: u64, now: Moment, service: Option<Timestamp>) -> Option<Timestamp> {
        if !mutant!(SlotsInLocalTime) {
            return service;
        }
        let (at, wall) = CLOCKS.with_borrow(|clocks| clocks.get(&nonce).copied())?;
        Some(wall.plus(now.saturating_sub(at)))
    }

    /// Records a leadership that ended.
    pub fn on_leadership_ended(hold: &Hold) {
        LEADERSHIPS.with_borrow_mut(|leaderships| {
            leaderships.push(hold.clone());
            let excess = leaderships.len().saturating_sub(MAX_LEADERSHIPS);
            leaderships.drain(..excess);
        });
    }

    /// Returns the ended leadership with that lease, for the bug of a candidate that leads again if
    /// its release got no answer.
    pub fn resume_released_lease(may_resume: bool, lease: LeaseId, until: Moment) -> Option<Hold> {
        if !mutant!(ResumedAfterRelease) || !may_resume {
            return None;
        }
        let found = LEADERSHIPS.with_borrow(|leaderships| {
            leaderships.iter().rev().find(|hold| hold.lease == lease).cloned()
        });
        found.map(|hold| Hold { valid_until: until, write: None, pending_claim: None, ..hold })
    }
}

/// Replacement of the module `memory` in releases, which have no mutants. Records nothing, and
/// returns the unmutated values.
#[cfg(not(feature = "mutants"))]
pub(crate) mod memory {
    use crate::protocol::phase::Hold;
    use crate::{Moment, Timestamp};
    use chrono::{DateTime, Utc};
    use tenure_azure::blob::LeaseId;

    pub fn record_clock(_: u64, _: Moment, _: DateTime<Utc>) {}

    pub fn slot_time(_: u64, _: Moment, service: Option<Timestamp>) -> Option<Timestamp> {
        service
    }

    pub fn on_leadership_ended(_: &Hold) {}

    pub fn resume_released_lease(_: bool, _: LeaseId, _: Moment) -> Option<Hold> {
        None
    }
}
