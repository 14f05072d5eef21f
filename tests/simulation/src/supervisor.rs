//! Supervisor of a process: when the process dies, it releases the lease by its last will
//! (protocol.md §7.3).
//!
//! The supervisor has the newest will, or the one before if the newest was still in transit. Work
//! is a command here. It may outlive its process briefly, but never its deadline. The supervisor
//! kills the work, waits for its end, and sends the will. Network faults of that request are drawn
//! as for any other.

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
use super::history::{CandidateId, HistoryEvent};
use super::network;
use super::world::{Millis, World};

/// Longest time that work outlives its process, while its supervisor kills it.
const MAX_KILL_DELAY: Millis = 2_000;

/// Timeout for a response.
const TIMEOUT: Duration = Duration::from_secs(3);

/// First and longest delay between two attempts.
const RETRY_DELAYS: (Millis, Millis) = (100, 1_000);

/// A signed release.
#[derive(Clone, Debug)]
struct Will {
    request: Request,
    /// Time until which the will is useful, on the clock of its machine.
    valid_until: Duration,
}

/// Last wills that a process sent to its supervisor.
#[derive(Clone, Debug, Default)]
pub struct LastWills {
    newest: Option<Will>,
    previous: Option<Will>,
    /// End of the process's leadership, on the clock of its machine.
    leads_until: Duration,
}

impl LastWills {
    /// Applies the report of a step that began at `started_at`.
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

/// Waits for the end of a killed process's work, and releases its lease.
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
    // The supervisor usually acts at once, but may be suspended itself.
    let most = dice.pick(&[20, 20, 200, 20_000]);
    let delay = dice.between(0, most);
    let send_will = async {
        if !is_active(Mutant::WillBeforeStop) {
            // Candidates that wait for the lease follow later.
            world.wait_until(world.now() + delay).await;
        }
        send(&world, candidate, will, &clock).await;
    };
    match is_active(Mutant::WillBeforeStop) {
        true => drop(tokio::join!(send_will, work)),
        false => {
            work.await;
            send_will.await;
        }
    }
}

/// Sends the will until its outcome is known, or it is no longer useful.
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
    /// Ends the work of a killed process.
    fn end_orphaned_work(&mut self, now: Millis, candidate: CandidateId) {
        if let Some(term) = self.processes[candidate].orphaned_term.take() {
            self.note(now, HistoryEvent::WorkStopped(candidate, term));
            self.note(now, HistoryEvent::TurnOver(candidate, term));
        }
    }
}
