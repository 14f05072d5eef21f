//! What becomes of a request on its way.

use fastrand::Rng;
use tenure_shares::Ask;

/// Something that is wrong for a while.
#[derive(Clone, Debug)]
pub struct Trouble {
    /// What.
    pub kind: Kind,
    /// Until then, in true time.
    pub until: u64,
}

impl Trouble {
    /// Returns true if this process is cut off by it.
    #[must_use]
    pub fn cuts(&self, who: usize) -> bool {
        matches!(&self.kind, Kind::Cut(those, _) if those.contains(&who))
    }
}

/// What can be wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// These processes are cut off: all that they send is lost, or only what they are answered.
    Cut(Vec<usize>, bool),
    /// So many of a thousand requests are refused, since there are too many.
    Throttled(u64),
    /// Requests are up to so many milliseconds late.
    Slow(u64),
    /// No request is answered.
    Down,
    /// Signs of these processes are lost, and nothing else.
    Unsigned(Vec<usize>),
    /// Plans of these processes are refused, and nothing else.
    Unplanned(Vec<usize>),
    /// These processes cannot read the plan, and nothing else is wrong.
    Unread(Vec<usize>),
    /// Blobs cannot be written, and leases can be held.
    ReadOnly,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It comes to the store after so long, and its answer goes back in so long, or is lost.
    Comes(u64, Option<u64>),
    /// It is lost.
    Lost,
    /// It is refused after so long, for a while, and not done.
    Throttled(u64),
    /// It is refused after so long.
    Refused(u64),
}

/// The network between all processes and the account.
#[derive(Debug)]
pub struct Network {
    rng: Rng,
    /// Milliseconds that one way takes at most.
    pub way: u64,
    /// Once in so many requests something goes wrong; 0: never.
    pub rough: u64,
    /// What is wrong.
    pub troubles: Vec<Trouble>,
}

impl Network {
    /// One without troubles.
    #[must_use]
    pub fn new(seed: u64, way: u64, rough: u64) -> Self {
        Self { rng: Rng::with_seed(seed), way, rough, troubles: Vec::new() }
    }

    /// What becomes of a request that this process sends `now`.
    pub fn fate(&mut self, who: usize, ask: Option<&Ask>, now: u64) -> Fate {
        let (mut there, mut back) = (self.rng.u64(1..=self.way), Some(self.rng.u64(1..=self.way)));
        self.troubles.retain(|trouble| trouble.until > now);
        for trouble in &self.troubles {
            match &trouble.kind {
                Kind::Cut(those, _) if !those.contains(&who) => {}
                Kind::Cut(_, true) => back = None,
                Kind::Cut(_, false) | Kind::Down => return Fate::Lost,
                Kind::Throttled(permille) if self.rng.u64(..1_000) < *permille => {
                    return Fate::Throttled(there * 2);
                }
                Kind::Slow(most) => there += self.rng.u64(..=*most),
                Kind::ReadOnly if matches!(ask, Some(Ask::Sign(_) | Ask::WritePlan(..))) => {
                    return Fate::Refused(there * 2);
                }
                Kind::Unsigned(those)
                    if those.contains(&who) && matches!(ask, Some(Ask::Sign(_))) =>
                {
                    return Fate::Lost;
                }
                Kind::Unplanned(those)
                    if those.contains(&who) && matches!(ask, Some(Ask::WritePlan(..))) =>
                {
                    return Fate::Refused(there * 2);
                }
                Kind::Unread(those)
                    if those.contains(&who) && matches!(ask, Some(Ask::ReadPlan(_))) =>
                {
                    return Fate::Lost;
                }
                _ => {}
            }
        }
        if self.rough > 0 && self.rng.u64(..self.rough) == 0 {
            match self.rng.u64(..3) {
                0 => return Fate::Lost,
                1 => back = None,
                _ => there += self.rng.u64(..10_000),
            }
        }
        Fate::Comes(there, back)
    }
}
