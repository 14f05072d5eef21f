//! One candidate and its host, as far as a schedule needs them.

use std::collections::BTreeSet;
use std::time::Duration;

use tenure_guest::azure::{BlobName, Operation};
use tenure_guest::election::{Chance, Event, Outcome, Settings, Step, Turn};

/// A small generator; the same seed gives the same schedule on every machine.
#[derive(Clone, Debug)]
pub struct Dice(pub u64);

impl Chance for Dice {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }
}

impl Dice {
    /// Uniform below `most`.
    pub fn below(&mut self, most: u64) -> u64 {
        self.bits() % most
    }

    /// True once in `in_all` throws.
    pub fn once_in(&mut self, in_all: u64) -> bool {
        self.below(in_all) == 0
    }

    /// Uniform below `most`, in milliseconds.
    pub fn millis(&mut self, most: u64) -> Duration {
        Duration::from_millis(self.below(most))
    }
}

/// A turn that the host runs.
#[derive(Clone, Copy, Debug)]
pub struct Running {
    pub turn: Turn,
    pub number: u64,
    /// On the candidate's clock.
    pub deadline: Duration,
    /// Since when it works; none while the process is frozen.
    pub working_since: Option<Duration>,
}

/// A request under way.
#[derive(Clone, Debug)]
pub struct Asked {
    pub number: u64,
    pub operation: Operation,
    pub sent: Duration,
}

/// A process.
pub struct Host {
    pub settings: &'static Settings,
    /// Incarnation: what was scheduled for an earlier one is void.
    pub life: u64,
    pub alive: bool,
    /// True time at which its clock began.
    pub origin: Duration,
    /// How fast its clock runs, in millionths.
    pub rate: u64,
    /// How far its wall clock is off, in seconds.
    pub wall_off: i64,
    pub memory: Option<Vec<u8>>,
    pub step: Option<Step<'static>>,
    pub step_began: Duration,
    pub asked: Option<Asked>,
    pub word: Option<Event>,
    pub turn: Option<Running>,
    pub leading: Option<u64>,
    pub frozen_until: Duration,
    /// It was asked to leave.
    pub leaving: bool,
    /// The lease ids that it made up.
    pub leases: BTreeSet<String>,
}

impl Host {
    pub fn new(name: &str, lease: &str, dice: &mut Dice) -> Self {
        let variables = [
            ("TENURE_ELECTION", "leases/leader"),
            ("TENURE_NAME", name),
            ("TENURE_LEASE", lease),
            ("TENURE_EVERY", "3s"),
            ("AZURE_STORAGE_CONNECTION_STRING", "UseDevelopmentStorage=true"),
        ];
        let find = |wanted: &str| {
            variables.iter().find(|(name, _)| *name == wanted).map(|(_, value)| value.to_string())
        };
        Self {
            // A step borrows them for as long as the schedule lasts.
            settings: Box::leak(Box::new(Settings::read(find).unwrap())),
            life: 0,
            alive: true,
            origin: Duration::ZERO,
            rate: 990_000 + dice.below(20_001),
            wall_off: i64::try_from(dice.below(7_200)).unwrap() - 3_600,
            memory: None,
            step: None,
            step_began: Duration::ZERO,
            asked: None,
            word: None,
            turn: None,
            leading: None,
            frozen_until: Duration::ZERO,
            leaving: false,
            leases: BTreeSet::new(),
        }
    }

    /// What its clock shows at a true time.
    pub fn clock(&self, now: Duration) -> Duration {
        scaled(now.saturating_sub(self.origin), self.rate, 1_000_000)
    }

    /// The true time at which its clock shows `at`, rounded up.
    pub fn when(&self, at: Duration) -> Duration {
        self.origin + scaled(at, 1_000_000, self.rate) + Duration::from_nanos(2)
    }

    pub fn blob(&self) -> &'static BlobName {
        &self.settings.election
    }

    /// The host saw its handler stopped.
    pub fn turn_over(&mut self, outcome: Outcome) -> Option<Running> {
        let running = self.turn.take()?;
        if !self.leaving {
            self.word = Some(Event::TurnEnded(outcome));
        }
        Some(running)
    }
}

fn scaled(span: Duration, by: u64, of: u64) -> Duration {
    let nanos = span.as_nanos() * u128::from(by) / u128::from(of);
    Duration::from_nanos(u64::try_from(nanos).unwrap())
}
