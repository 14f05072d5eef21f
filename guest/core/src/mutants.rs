//! Seeded bugs: each breaks one rule of the protocol, so that the checks can be seen to find it.
//!
//! Compiled only with the feature `mutants`, which the tests alone ask for; the component never
//! has it. At most one is active in a thread.

#[cfg_attr(not(feature = "mutants"), path = "mutants/none.rs")]
pub(crate) mod memory;

#[cfg(feature = "mutants")]
use core::cell::Cell;

use tenure_azure::lease_id::LeaseId;
use tenure_azure::operation::{ETag, Operation};

/// Defines the seeded bugs, and the list of all of them.
#[cfg(feature = "mutants")]
macro_rules! mutants {
    ($($(#[$rule:meta])* $name:ident,)*) => {
        /// A rule of the protocol that is broken.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Mutant {
            $($(#[$rule])* $name,)*
        }

        impl Mutant {
            /// All of them.
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
    /// A successor renews the lease that it was given, which leaves it the length of the old leader's.
    SuccessorOnlyRenews,
    /// A handover that was ordered never comes about, and nobody hears of it.
    HandOverForgotten,
    /// The age of an announcement does not matter.
    AnnouncementIsStale,
    /// A lease that could not be given to the successor is not released.
    SuccessorOrNobody,
    /// A successor that leaves does not take its announcement back.
    AnnouncementNotTakenBack,
    /// The lease id in an answer is not compared with the one that was sent.
    LeaseIdNotCompared,
    /// The lease id in the answer to a renewal is taken over, whosever it is.
    LeaseIdAdopted,
    /// The term is raised without `If-Match`.
    TermWithoutCondition,
    /// The lease is acquired without `If-Match`.
    AcquireWithoutCondition,
    /// What is left of a second is not waited out where there is no record.
    SecondNotWaitedOut,
    /// A candidate that leaves forgets a lease that it may have acquired.
    UnsureAcquireForgotten,
    /// The next term follows from the record alone.
    TermFromRecordAlone,
    /// The deadline of a turn is ignored; only the order to stop counts.
    DeadlineIgnored,
    /// The host does not stop the work whose time is over.
    WorkNotStopped,
    /// The answer to a renewal counts though the validity had ended.
    LateRenewalAdopted,
    /// A release without an answer is taken for one that did not happen.
    ResumedAfterRelease,
    /// No slot is ever claimed.
    NothingClaimed,
    /// What came of a turn that a slot has once is not put on record.
    OutcomeNotRecorded,
    /// What came of a turn that a slot has once waits for the next claim, however far away that is.
    OutcomeWaitsForClaim,
    /// What came of a turn is written by itself, also where the next claim comes soon.
    OutcomeNeverRides,
    /// Slots are claimed without `If-Match`.
    ClaimWithoutCondition,
    /// Slots are counted by this machine's clock.
    SlotsInLocalTime,
    /// A slot is run without being claimed.
    ClaimNotAwaited,
    /// A slot whose turn went wrong is tried again, though it may have one turn at most.
    RunsAgain,
    /// A slot whose turn went wrong is not tried again.
    UnfinishedIsLeft,
    /// A slot is tried for ever.
    NeverAbandoned,
    /// Missed slots that should each have a turn have none.
    MissedForgotten,
    /// A refused request ends the candidate's efforts.
    StopsWhenRefused,
    /// A follower polls too rarely.
    RarePolls,
    /// A follower breaks the lease whatever was written since it looked.
    BreakWithoutCondition,
    /// A beat is written without `If-Match`.
    BeatWithoutCondition,
    /// A follower counts the promise from when it asked, not from when it was answered.
    PromiseFromLook,
    /// A follower goes by what it would promise itself, not by the record.
    OwnPromise,
    /// A leader counts its promise from when a beat was answered, not from when it was sent.
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
    /// A last will ends the lease of whoever holds it.
    WillOfAnyLease,
    /// A last will is sent while the work of the process that died still runs.
    WillBeforeStop,
    /// Every hint brings polls forward.
    HintsWithoutLimit,
    /// A hint changes nothing.
    HintIgnored,
    /// A candidate that writes the list of candidates forgets the others.
    ListsOnlyItself,
    /// A new leader does not know which triggers had their turn.
    TriggerForgotten,
    /// A leader reads no orders but after a hint.
    OrdersUnseen,
    /// A leader obeys a transfer again that it has obeyed.
    TransferObeyedAgain,
    /// A leader obeys the transfer of another term.
    TransferOfAnyTerm,
    /// The record does not tell that a transfer came to nothing.
    TransferWithoutOutcome,
    /// A command drops the orders of others when it places its own.
    PlacingDropsOthers,
    /// A leader gives its lease to an id that was announced in another term.
    AnnouncementOfAnyTerm,
    /// A successor announces the lease id of an earlier term.
    SuccessorKeepsLeaseId,
    /// A leader that is not ready any more goes on with a handover.
    HandsOverThoughNotReady,
    /// A successor writes its announcement over whatever is there.
    AnnouncementWithoutCondition,
    /// A trigger that is older than the newest on record is claimed.
    TriggerInstantIgnored,
    /// A trigger whose id is on record is claimed.
    TriggerIdsForgotten,
    /// A turn has no time limit.
    TurnWithoutLimit,
    /// A leader whose writes do not get through leads on.
    StalledLeaderStays,
    /// A candidate whose work failed contends again at once.
    CoolDownIgnored,
    /// A leader whose turn trapped or timed out leads on.
    TrapIgnored,
    /// A leader beats although the account keeps every version of a blob.
    BeatsOnVersionedAccount,
    /// The work may go on in a handover for as long as its grace lasts.
    WorkOutlastsHandover,
    /// A turn is stopped at its grace although the handover failed and its leader leads on.
    GraceNotTakenBack,
    /// A release without an answer is not sent again.
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

/// Whether a mutant is active in this thread.
#[cfg(feature = "mutants")]
pub fn is_active(mutant: Mutant) -> bool {
    ACTIVE.get() == Some(mutant)
}

/// Whether the seeded bug of that name is active. Always false in what ships.
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

/// Whether the seeded bug of that name is active. Always false in what ships.
#[cfg(not(feature = "mutants"))]
macro_rules! mutant {
    ($name:ident) => {
        $crate::mutants::none_is_active()
    };
}

pub(crate) use mutant;

/// The same request without its `If-Match`, for a seeded bug.
pub(crate) fn unconditional(really: bool, operation: Operation) -> Operation {
    match operation {
        Operation::WriteMetadata { lease, metadata, .. } if really => {
            Operation::WriteMetadata { lease, if_match: ETag("*".into()), metadata }
        }
        operation => operation,
    }
}

/// The condition of a successor's write over the version with that tag; for a seeded bug, none.
pub(crate) fn over(tag: Option<ETag>) -> Option<ETag> {
    if mutant!(AnnouncementWithoutCondition) { Some(ETag("*".into())) } else { tag }
}

/// The last will of the holder of a lease.
pub(crate) fn last_will(lease: LeaseId) -> Operation {
    match mutant!(WillOfAnyLease) {
        true => Operation::Break { period: Some(0), if_match: None },
        false => Operation::Release { lease },
    }
}

/// The request that acquires a lease, which the leader before gave to this candidate or not.
pub(crate) fn acquire(handed: bool, operation: Operation) -> Operation {
    match operation {
        Operation::Acquire { lease, .. } if handed && mutant!(SuccessorOnlyRenews) => {
            Operation::Renew { lease }
        }
        Operation::Acquire { lease, seconds, .. } if mutant!(AcquireWithoutCondition) => {
            Operation::Acquire { lease, seconds, if_match: None }
        }
        operation => operation,
    }
}
