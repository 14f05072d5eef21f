//! The supervisors of processes: when one has died, its supervisor sends the last wills that it left. protocol.md §7.3,
//! §14.1.

use fastrand::Rng;
use tenure_shares::Tag;
use tenure_shares::mutants::{Mutant, is_active};

use crate::network::Fate;
use crate::store::{Id, Key, Op};
use crate::world::{Event, TIME_OUT, World};

/// A last will.
#[derive(Clone, Debug)]
pub enum Deed {
    /// Release the lease of that id.
    Release(Key, Id),
    /// Delete the sign of life, if it is this one.
    Delete(Tag),
}

/// A last will, as the supervisor of a process has it.
#[derive(Clone, Debug)]
pub struct Left {
    /// The process.
    pub who: usize,
    /// What is to be done.
    pub deed: Deed,
    /// It is not sent afterwards, in true time.
    pub until: u64,
    /// Before it is sent again when nobody knows whether it was done.
    pause: u64,
}

/// What becomes of last wills.
#[derive(Debug)]
pub struct Supervisors {
    rng: Rng,
    /// There are some.
    pub there: bool,
    /// All is well from now on: each last will is sent, once and at once.
    pub straight: bool,
    /// All that the process left that died last tells the others of its death, and lets them take over.
    pub tell_all: bool,
}

/// A supervisor that has seen the end of all work sends so soon, when all is well.
pub const SOON: u64 = 20;
/// A second copy of a request comes so much later at most.
const TWICE: u64 = 30_000;
const PAUSE: u64 = 100;
const LONGEST_PAUSE: u64 = 1_000;

impl Supervisors {
    /// Those of a schedule; half of the schedules have some.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let there = rng.bool();
        Self { rng, there, straight: false, tell_all: false }
    }

    /// The newest will of a sign has not come to the supervisor.
    fn is_late(&mut self) -> bool {
        !self.straight && self.rng.u8(..4) == 0
    }

    /// After how long a will is sent, each time.
    fn sendings(&mut self) -> Vec<u64> {
        let soon = self.rng.u64(1..=SOON);
        if self.straight {
            return vec![soon];
        }
        match self.rng.u8(..8) {
            0 => Vec::new(),
            1 => vec![soon, self.rng.u64(..TWICE)],
            2 | 3 => vec![self.rng.u64(1..=20_000)],
            4 => vec![self.rng.u64(1..=200)],
            _ => vec![soon],
        }
    }
}

impl Left {
    /// One of that process.
    #[must_use]
    pub fn new(who: usize, deed: Deed, until: u64) -> Self {
        Self { who, deed, until, pause: PAUSE }
    }
}

impl World {
    /// A process dies, and its supervisor does not.
    pub fn die(&mut self, who: usize) {
        let supervisors = &mut self.supervisors;
        let process = &self.processes[who];
        supervisors.tell_all = supervisors.there && supervisors.straight && process.is_settled();
        if supervisors.there {
            let wills = process.wills(supervisors.is_late());
            self.leave_wills(wills);
        }
        self.kill(who);
    }

    fn leave_wills(&mut self, wills: Vec<Left>) {
        for left in wills {
            for after in self.supervisors.sendings() {
                self.at(self.scene.now + after, Event::Sends(Box::new(left.clone())));
            }
        }
    }

    /// That process stands still: a supervisor that took it for dead would have its sign deleted.
    pub(crate) fn takes_for_dead(&mut self, who: usize) {
        if is_active(Mutant::WillOfTheLiving) && self.supervisors.there {
            let wills = self.processes[who].wills(false);
            let of_sign = |left: &Left| matches!(left.deed, Deed::Delete(_));
            self.leave_wills(wills.into_iter().filter(of_sign).collect());
        }
    }

    /// Sends it, and again until it is answered or of no use any more.
    pub(crate) fn sends(&mut self, left: Left) {
        let now = self.scene.now;
        if now >= left.until {
            return;
        }
        let again = match self.network.fate(left.who, None, now) {
            Fate::Comes(there, back) => {
                self.at(now + there, Event::Takes(Box::new(left.clone())));
                if back.is_some_and(|back| there + back <= TIME_OUT) {
                    return;
                }
                TIME_OUT
            }
            Fate::Lost => TIME_OUT,
            Fate::Throttled(after) | Fate::Refused(after) => after,
        };
        let pause = LONGEST_PAUSE.min(2 * left.pause);
        let at = now + again + left.pause;
        self.at(at, Event::Sends(Box::new(Left { pause, ..left })));
    }

    /// The store does it.
    pub(crate) fn takes(&mut self, left: &Left) {
        let (now, done) = (self.scene.now, self.next_done());
        match &left.deed {
            Deed::Release(key, id) => {
                self.store.election(*key, &Op::Release(*id), left.who, now);
            }
            Deed::Delete(tag) => {
                let process = &self.processes[left.who];
                let Some(life) = self.store.delete(&process.name, tag) else { return };
                self.scene.judge.heard(&process.name, false, done, now);
                if process.is_on && process.life == life {
                    let text = format!("{} lives, and a last will deleted its sign", process.name);
                    self.scene.judge.broken(now, "S3", text);
                }
            }
        }
    }
}
