//! Supervisors of processes: when a process has died, its supervisor sends its last wills
//! (protocol.md §7.3, §14.1).

use fastrand::Rng;
use tenure_shares::Tag;
use tenure_shares::mutants::{Mutant, is_active};

use crate::network::RequestOutcome;
use crate::store::{Id, Key, Op};
use crate::world::{Event, REQUEST_TIMEOUT, World};

/// Action of a last will.
#[derive(Clone, Debug)]
pub enum WillAction {
    /// Releases the lease with that id.
    Release(Key, Id),
    /// Deletes the sign of life, if it has this tag.
    Delete(Tag),
}

/// A last will that the supervisor of a process holds.
#[derive(Clone, Debug)]
pub struct LastWill {
    /// Process that left it.
    pub process: usize,
    /// Action of the will.
    pub action: WillAction,
    /// Time after which it is not sent, in true time.
    pub until: u64,
    /// Delay before it is sent again when the outcome is unknown.
    retry_delay: u64,
}

/// Simulated supervisors of all processes.
#[derive(Debug)]
pub struct Supervisors {
    rng: Rng,
    /// True if the schedule has supervisors.
    pub enabled: bool,
    /// True if each last will is sent once, without delay.
    pub reliable: bool,
    /// True if the wills of the process that died last reveal its death completely, and allow other
    /// processes to take over.
    pub wills_were_complete: bool,
}

/// Maximum delay of a supervisor that has seen the end of all work, without faults.
pub const MAX_SEND_DELAY: u64 = 20;
/// Maximum delay of a duplicate request.
const MAX_DUPLICATE_DELAY: u64 = 30_000;
const FIRST_RETRY_DELAY: u64 = 100;
const MAX_RETRY_DELAY: u64 = 1_000;

impl Supervisors {
    /// Creates the supervisors of a schedule; half of the schedules have some.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let enabled = rng.bool();
        Self { rng, enabled, reliable: false, wills_were_complete: false }
    }

    /// Returns true if the newest will of a sign has not reached the supervisor.
    fn is_will_delayed(&mut self) -> bool {
        !self.reliable && self.rng.u8(..4) == 0
    }

    /// Returns the delays after which a will is sent.
    fn send_delays(&mut self) -> Vec<u64> {
        let prompt_delay = self.rng.u64(1..=MAX_SEND_DELAY);
        if self.reliable {
            return vec![prompt_delay];
        }
        match self.rng.u8(..8) {
            0 => Vec::new(),
            1 => vec![prompt_delay, self.rng.u64(..MAX_DUPLICATE_DELAY)],
            2 | 3 => vec![self.rng.u64(1..=20_000)],
            4 => vec![self.rng.u64(1..=200)],
            _ => vec![prompt_delay],
        }
    }
}

impl LastWill {
    /// Creates a will of that process.
    #[must_use]
    pub fn new(index: usize, action: WillAction, until: u64) -> Self {
        Self { process: index, action, until, retry_delay: FIRST_RETRY_DELAY }
    }
}

impl World {
    /// Kills a process, but not its supervisor.
    pub fn kill_process(&mut self, index: usize) {
        let supervisors = &mut self.supervisors;
        let process = &self.processes[index];
        supervisors.wills_were_complete =
            supervisors.enabled && supervisors.reliable && process.is_settled();
        if supervisors.enabled {
            let wills = process.last_wills(supervisors.is_will_delayed());
            self.schedule_wills(wills);
        }
        self.kill(index);
    }

    fn schedule_wills(&mut self, wills: Vec<LastWill>) {
        for will in wills {
            for after in self.supervisors.send_delays() {
                self.schedule(self.scene.now + after, Event::SendWill(Box::new(will.clone())));
            }
        }
    }

    /// Handles a frozen process: with a seeded bug, its supervisor takes it for dead and deletes
    /// its sign.
    pub(crate) fn treat_as_dead(&mut self, index: usize) {
        if is_active(Mutant::WillOfTheLiving) && self.supervisors.enabled {
            let wills = self.processes[index].last_wills(false);
            let deletes_sign = |will: &LastWill| matches!(will.action, WillAction::Delete(_));
            self.schedule_wills(wills.into_iter().filter(deletes_sign).collect());
        }
    }

    /// Sends the will, and repeats it until it is answered or no longer useful.
    pub(crate) fn send_will(&mut self, will: LastWill) {
        let now = self.scene.now;
        if now >= will.until {
            return;
        }
        let timeout = match self.network.outcome(will.process, None, now) {
            RequestOutcome::Delivered(request_delay, reply_delay) => {
                self.schedule(now + request_delay, Event::ApplyWill(Box::new(will.clone())));
                if reply_delay
                    .is_some_and(|reply_delay| request_delay + reply_delay <= REQUEST_TIMEOUT)
                {
                    return;
                }
                REQUEST_TIMEOUT
            }
            RequestOutcome::Lost => REQUEST_TIMEOUT,
            RequestOutcome::Throttled(after) | RequestOutcome::Refused(after) => after,
        };
        let retry_delay = MAX_RETRY_DELAY.min(2 * will.retry_delay);
        let at = now + timeout + will.retry_delay;
        self.schedule(at, Event::SendWill(Box::new(LastWill { retry_delay, ..will })));
    }

    /// Applies the will to the store.
    pub(crate) fn apply_will(&mut self, will: &LastWill) {
        let (now, operation) = (self.scene.now, self.next_operation());
        match &will.action {
            WillAction::Release(key, id) => {
                self.store.election(*key, &Op::Release(*id), will.process, now);
            }
            WillAction::Delete(tag) => {
                let process = &self.processes[will.process];
                let Some(life) = self.store.delete_sign(&process.name, tag) else { return };
                self.scene.checker.record_sign(&process.name, false, operation, now);
                if process.is_running && process.life == life {
                    let message =
                        format!("{} lives, and a last will deleted its sign", process.name);
                    self.scene.checker.add_violation(now, "S3", message);
                }
            }
        }
    }
}
