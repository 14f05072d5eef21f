//! Seeded bugs: each breaks one rule of protocol.md §14, so that the checks can be seen to find it.
//!
//! Compiled only with the feature `mutants`, which the tests alone ask for. At most one is active in a thread.

#[cfg(feature = "mutants")]
use std::cell::Cell;

/// Defines the seeded bugs, and the list of all of them.
#[cfg(feature = "mutants")]
macro_rules! mutants {
    ($($(#[$rule:meta])* $name:ident,)*) => {
        /// A rule that is broken.
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
    /// A member counts after one sign, which may be left of a process that is dead.
    CountsAtOnce,
    /// Members are gone for their silence though the leader's own signs were missing too.
    SilenceOfAll,
    /// A new leader does not know for how long members were silent before its term.
    AgeIgnored,
    /// A member is judged by the time on its own clock at which it left its sign.
    TheirClocks,
    /// A member that is silent stays in the plan.
    NeverGone,
    /// A plan does not heed the one before it.
    NotSticky,
    /// The next leader counts nobody whom the plan names, until it has seen two signs.
    PlanForgotten,
    /// A plan is written though it is the same one, which everybody has to read.
    PlanRewritten,
    /// The plan is written without `If-Match`.
    PlanUnconditional,
    /// A leader goes on with the plan that it wrote last, without reading.
    PlanNotRead,
    /// A member takes shares that the plan does not name.
    TakesUnplanned,
    /// A member gives a share up that another one should hold, without waiting for it.
    EndsAtOnce,
    /// A share is given to the next one while its work goes on.
    GivesBeforeStop,
    /// A member that leaves does not take its sign back.
    SignStays,
    /// A new split begins while shares of the old one are held.
    NotDrained,
    /// A new split begins when the leases of the old one are seen free, though somebody may acquire them yet.
    NotClosed,
    /// A member gives everything up when it cannot read the plan.
    LostWithoutPlan,
    /// A member contends for shares while somebody leads all of the work.
    ContendsBesideWhole,
    /// The holder of a share begins to work without a look at who leads the coordinating election.
    WorksUnseen,
    /// A candidate without shares that has raised its term leads without a look at the shares.
    WholeUnseen,
    /// A coordinator stays though its signs fail.
    StaysWithoutSigns,
    /// A coordinator stays though its rounds fail.
    StaysWithoutRounds,
    /// A coordinator writes no plan after one of a higher term.
    HigherTermStops,
    /// A coordinator waits without end for the holder of a share of the former split.
    NeverBreaks,
    /// A coordinator ends the lease of such a holder at once.
    BreaksAtOnce,
    /// A member contends for shares though it has not read the plan for long.
    ContendsUnread,
    /// The last will of a member deletes whatever sign there is, also that of a process which began anew under the name.
    WillUnconditional,
    /// A last will is sent for a process that is silent, and lives.
    WillOfTheLiving,
    /// A member leaves the deletion of its first sign, and of no later one.
    WillOfFirstSign,
}

#[cfg(feature = "mutants")]
std::thread_local! {
    static ACTIVE: Cell<Option<Mutant>> = const { Cell::new(None) };
}

/// Activates a mutant, or none, in this thread.
#[cfg(feature = "mutants")]
pub fn activate(mutant: Option<Mutant>) {
    ACTIVE.set(mutant);
}

/// Whether a mutant is active in this thread.
#[cfg(feature = "mutants")]
#[must_use]
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
