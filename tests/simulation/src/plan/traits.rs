//! Traits: features of a schedule other than faults, such as settings and versions of the program.

use super::super::dice::Dice;

macro_rules! traits {
    ($($what:ident, $chance:literal, $fidelity:ident, $name:literal;)*) => {
        /// A trait of a schedule.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Trait { $(#[doc = $name] $what,)* }

        impl Trait {
            /// All traits, in table order.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$what),*];

            /// Returns the name for tables.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$what => $name),* }
            }

            /// Returns the number of schedules per thousand with the trait.
            fn chance(self) -> u64 {
                match self { $(Self::$what => $chance),* }
            }

            /// Returns the fidelity that the trait requires.
            ///
            /// In this simulation a component has one version, no files and no identity.
            fn of(self) -> Fidelity {
                match self { $(Self::$what => Fidelity::$fidelity),* }
            }
        }
    };
}

#[derive(PartialEq, Eq)]
enum Fidelity {
    Both,
    Native,
}

traits! {
    SlowService, 50, Both, "round trips up to the time-out";
    Timings, 150, Both, "other time-out, renewal and margin";
    Failover, 300, Both, "failover before the lease ends";
    Rotation, 80, Both, "a longest tenure";
    Lasting, 80, Both, "work that lasts";
    Cron, 60, Both, "a cron expression";
    Jitter, 80, Both, "jitter";
    TwoSchedules, 60, Both, "two schedules";
    OneName, 60, Both, "equal names";
    Tokens, 80, Native, "tokens that expire";
    Files, 120, Native, "secrets in files";
    Newer, 120, Native, "a version with another field";
    Older, 80, Native, "a version that knows no successors";
    Hints, 600, Both, "hints, true and false";
    Supervised, 300, Both, "supervisors with last wills";
    Triggers, 400, Both, "triggers";
    Transfers, 250, Both, "transfers through the account";
    Versioned, 60, Both, "an account that keeps versions";
    StoppedTimers, 200, Native, "timers that stop while suspended";
}

/// Pairs of exclusive traits, of which the first one stays.
const EXCLUSIVE: [(Trait, Trait); 8] = [
    (Trait::Lasting, Trait::Cron),
    (Trait::Lasting, Trait::Jitter),
    (Trait::Lasting, Trait::TwoSchedules),
    (Trait::Cron, Trait::TwoSchedules),
    (Trait::Tokens, Trait::Files),
    (Trait::Lasting, Trait::Triggers),
    (Trait::Older, Trait::Triggers),
    (Trait::Older, Trait::Transfers),
];

/// Set of traits of one schedule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traits(u32);

impl Traits {
    /// Draws each trait with its own chance.
    pub(super) fn draw(native: bool, dice: &mut Dice) -> Self {
        let mut traits = Self::default();
        for feature in Trait::ALL {
            let is_drawn = dice.permille(feature.chance());
            let is_excluded =
                EXCLUSIVE.iter().any(|(first, second)| *second == feature && traits.has(*first));
            if is_drawn && !is_excluded && (native || feature.of() == Fidelity::Both) {
                traits.0 |= 1 << feature as u32;
            }
        }
        traits
    }

    /// Adds a trait.
    pub(super) fn with(self, feature: Trait) -> Self {
        Self(self.0 | 1 << feature as u32)
    }

    /// Returns true if the set contains the trait.
    #[must_use]
    pub fn has(self, feature: Trait) -> bool {
        self.0 & (1 << feature as u32) != 0
    }

    /// Returns the names of the traits.
    #[must_use]
    pub fn names(self) -> Vec<&'static str> {
        Trait::ALL.into_iter().filter(|feature| self.has(*feature)).map(Trait::name).collect()
    }
}
