//! Seeded bugs. Each breaks one rule of protocol.md §14, to show that the checkers detect it.
//!
//! Compiled only with the feature `mutants`, which only tests use. At most one is active in a
//! thread.

#[cfg(feature = "mutants")]
use std::cell::Cell;

/// Defines the seeded bugs, and the list of all of them.
#[cfg(feature = "mutants")]
macro_rules! mutants {
    ($($(#[$rule:meta])* $name:ident,)*) => {
        /// A seeded bug.
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
    /// A member counts after one sign, which a dead process may have left.
    CountsAtOnce,
    /// Members are gone after their silence even if the leader's own signs were missing too.
    SilenceOfAll,
    /// A new leader does not know for how long members were silent before its term.
    AgeIgnored,
    /// A sign is dated by the member's own clock.
    TheirClocks,
    /// A silent member stays in the plan.
    NeverGone,
    /// A plan ignores the one before it.
    NotSticky,
    /// The next leader does not count the members of the plan until it has seen two signs.
    PlanForgotten,
    /// An unchanged plan is written again, and all members must read it.
    PlanRewritten,
    /// The plan is written without `If-Match`.
    PlanUnconditional,
    /// A leader continues with the plan that it wrote last, without reading it.
    PlanNotRead,
    /// A member takes shares that are not in the plan.
    TakesUnplanned,
    /// A member releases a share before its successor is ready.
    EndsAtOnce,
    /// A share is passed on while its work continues.
    GivesBeforeStop,
    /// A leaving member does not withdraw its sign.
    SignStays,
    /// A new split begins while shares of the old one are held.
    NotDrained,
    /// A new split begins when the leases of the old one are free, although members may still
    /// acquire them.
    NotClosed,
    /// A member releases all shares when it cannot read the plan.
    LostWithoutPlan,
    /// A member contends for shares while a leader runs all of the work.
    ContendsBesideWhole,
    /// The holder of a share starts its work without reading the leader of the coordinating
    /// election.
    WorksUnseen,
    /// A candidate without shares that has raised its term leads without listing the shares.
    WholeUnseen,
    /// A coordinator stays although its signs fail.
    StaysWithoutSigns,
    /// A coordinator stays although its rounds fail.
    StaysWithoutRounds,
    /// A coordinator writes no plan after one of a higher term.
    HigherTermStops,
    /// A coordinator waits forever for the holder of a share of the former split.
    NeverBreaks,
    /// A coordinator breaks the lease of a holder of the former split at once.
    BreaksAtOnce,
    /// A member contends for shares although it has not read the plan for a long time.
    ContendsUnread,
    /// The last will of a member deletes any sign, even that of a process that restarted under the
    /// name.
    WillUnconditional,
    /// The last will of a process that is silent but alive is sent.
    WillOfTheLiving,
    /// A member leaves a last will for its first sign, but not for later ones.
    WillOfFirstSign,
}

#[cfg(feature = "mutants")]
std::thread_local! {
    static ACTIVE: Cell<Option<Mutant>> = const { Cell::new(None) };
}

/// Activates a seeded bug in this thread, or none.
#[cfg(feature = "mutants")]
pub fn activate(mutant: Option<Mutant>) {
    ACTIVE.set(mutant);
}

/// Returns true if the seeded bug is active in this thread.
#[cfg(feature = "mutants")]
#[must_use]
pub fn is_active(mutant: Mutant) -> bool {
    ACTIVE.get() == Some(mutant)
}

/// True if the seeded bug of that name is active. Always false in releases.
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

/// True if the seeded bug of that name is active. Always false in releases.
#[cfg(not(feature = "mutants"))]
macro_rules! mutant {
    ($name:ident) => {
        $crate::mutants::none_is_active()
    };
}

pub(crate) use mutant;
