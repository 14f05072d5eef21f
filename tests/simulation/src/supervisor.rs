//! The supervisor of a process: when that dies, it releases the lease by its last will. protocol.md §7.3.
//!
//! It knows what the process told it: the newest will, or the one before where the newest was still on its way. Work is
//! a command here, which outlives its process a little, and never its deadline: the supervisor kills it, sees
//! the end of it, and sends the will. What the network does to that is drawn as for any other request.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tenure_clock::Clock;
use tenure_core::mutants::{Mutant, is_active};
use tenure_core::{Report, Role};
use tenure_store::Request;
use tokio::select;

use super::clock::SimClock;
use super::dice::Dice;
use super::history::{HistoryEvent, CandidateId};
use super::network;
use super::world::{Millis, World};

/// The longest that work outlives its process, while its supervisor kills it.
const MAX_KILL_DELAY: Millis = 2_000;

/// How long an answer is waited for.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Between two tries, at first and at most.
const RETRY_DELAYS: (Millis, Millis) = (100, 1_000);

/// A release that is signed already.
#[derive(Clone, Debug)]
struct Will {
    request: Request,
    /// Until when it is of use, on the clock of its machine.
    valid_until: Duration,
}

/// What a process told its supervisor.
#[derive(Clone, Debug, Default)]
pub struct LastWills {
    newest: Option<Will>,
    previous: Option<Will>,
    /// Until when the process leads, on the clock of its machine.
    leads_until: Duration,
}

impl LastWills {
    /// Takes the report of a step that began at `taken_at`.
    pub fn on_report(&mut self, report: &Report, started_at: Duration) {
        let newest = match (&report.role, &report.last_will) {
            (Role::Leading(leadership), will) => {
                self.leads_until = started_at + leadership.valid_for;
                let Some(will) = will else { return };
                Some(Will { request: request(will), valid_until: started_at + will.timeout })
            }
            _ if self.newest.is_some() => None,
            _ => return,
        };
        self.previous = std::mem::replace(&mut self.newest, newest);
    }
}

fn request(will: &tenure_core::Request) -> Request {
    let path = will.url.match_indices('/').nth(2).map_or(0, |(at, _)| at);
    Request {
        method: will.method.clone(),
        target: will.url[path..].into(),
        headers: will.headers.clone(),
        body: Bytes::new(),
    }
}

/// A process was killed: sees the end of its work, and releases its lease.
pub async fn execute_last_will(world: Arc<World>, candidate: CandidateId, clock: SimClock) {
    let mut dice = Dice::new(world.seed, 4_000 + candidate as u64);
    let LastWills { newest, previous, leads_until } =
        std::mem::take(&mut world.state().processes[candidate].last_wills);
    let dies_at = world.now() + dice.between(0, MAX_KILL_DELAY);
    let work = async {
        select! {
            biased;
            () = clock.sleep_until(leads_until) => {}
            () = world.wait_until(dies_at) => {}
        }
        let now = world.now();
        world.state().end_orphaned_work(now, candidate);
    };
    let use_previous = dice.once_in(4);
    let Some(will) = (if use_previous { previous } else { newest }) else { return work.await };
    // Mostly at once. It stands still itself now and then.
    let most = dice.pick(&[20, 20, 200, 20_000]);
    let delay = dice.between(0, most);
    let send_will = async {
        if !is_active(Mutant::WillBeforeStop) {
            // Those who wait for it come after it.
            world.wait_until(world.now() + delay).await;
        }
        send(&world, candidate, will, &clock).await;
    };
    match is_active(Mutant::WillBeforeStop) {
        true => drop(tokio::join!(send_will, work)),
        false => {
            work.await;
            execute_last_will.await;
        }
    }
}

/// Until it is known what became of it, or it is of no use any more.
async fn send(world: &Arc<World>, candidate: CandidateId, will: Will, clock: &SimClock) {
    let mut retry_delay = RETRY_DELAYS.0;
    while clock.now() < will.valid_until {
        let answer = network::send_last_will(world, candidate, will.request.clone());
        let answer = tokio::time::timeout(TIMEOUT, answer).await;
        let is_final = |status: u16| !matches!(status, 408 | 429 | 500..);
        if answer.is_ok_and(|answer| answer.is_some_and(is_final)) {
            return;
        }
        world.wait_until(world.now() + retry_delay).await;
        retry_delay = (2 * retry_delay).min(RETRY_DELAYS.1);
    }
}

impl super::world::State {
    /// The work of a process that was killed is over.
    fn end_orphaned_work(&mut self, now: Millis, candidate: CandidateId) {
        if let Some(term) = self.processes[candidate].orphaned_term.take() {
            self.note(now, HistoryEvent::WorkStopped(candidate, term));
            self.note(now, HistoryEvent::TurnOver(candidate, term));
        }
    }
}
