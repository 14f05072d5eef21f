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
use super::history::{What, Who};
use super::network;
use super::world::{Millis, World};

/// The longest that work outlives its process, while its supervisor kills it.
const DYING: Millis = 2_000;

/// How long an answer is waited for.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Between two tries, at first and at most.
const PAUSES: (Millis, Millis) = (100, 1_000);

/// A release that is signed already.
#[derive(Clone, Debug)]
struct Will {
    request: Request,
    /// Until when it is of use, on the clock of its machine.
    until: Duration,
}

/// What a process told its supervisor.
#[derive(Clone, Debug, Default)]
pub struct Told {
    newest: Option<Will>,
    before: Option<Will>,
    /// Until when the process leads, on the clock of its machine.
    leads_until: Duration,
}

impl Told {
    /// Takes the report of a step that began at `taken_at`.
    pub fn stepped(&mut self, report: &Report, taken_at: Duration) {
        let newest = match (&report.role, &report.last_will) {
            (Role::Leading(leadership), will) => {
                self.leads_until = taken_at + leadership.valid_for;
                let Some(will) = will else { return };
                Some(Will { request: request(will), until: taken_at + will.timeout })
            }
            _ if self.newest.is_some() => None,
            _ => return,
        };
        self.before = std::mem::replace(&mut self.newest, newest);
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
pub async fn executes(world: Arc<World>, who: Who, clock: SimClock) {
    let mut dice = Dice::new(world.seed, 4_000 + who as u64);
    let Told { newest, before, leads_until } =
        std::mem::take(&mut world.state().processes[who].told);
    let dies = world.now() + dice.between(0, DYING);
    let work = async {
        select! {
            biased;
            () = clock.sleep_until(leads_until) => {}
            () = world.until(dies) => {}
        }
        let now = world.now();
        world.state().end_orphan(now, who);
    };
    let late = dice.once_in(4);
    let Some(will) = (if late { before } else { newest }) else { return work.await };
    // Mostly at once. It stands still itself now and then.
    let most = dice.pick(&[20, 20, 200, 20_000]);
    let pause = dice.between(0, most);
    let executes = async {
        if !is_active(Mutant::WillBeforeStop) {
            // Those who wait for it come after it.
            world.until(world.now() + pause).await;
        }
        send(&world, who, will, &clock).await;
    };
    match is_active(Mutant::WillBeforeStop) {
        true => drop(tokio::join!(executes, work)),
        false => {
            work.await;
            executes.await;
        }
    }
}

/// Until it is known what became of it, or it is of no use any more.
async fn send(world: &Arc<World>, who: Who, will: Will, clock: &SimClock) {
    let mut pause = PAUSES.0;
    while clock.now() < will.until {
        let answer = network::send_for_the_dead(world, who, will.request.clone());
        let answer = tokio::time::timeout(TIMEOUT, answer).await;
        let known = |status: u16| !matches!(status, 408 | 429 | 500..);
        if answer.is_ok_and(|answer| answer.is_some_and(known)) {
            return;
        }
        world.until(world.now() + pause).await;
        pause = (2 * pause).min(PAUSES.1);
    }
}

impl super::world::State {
    /// The work of a process that was killed is over.
    fn end_orphan(&mut self, now: Millis, who: Who) {
        if let Some(term) = self.processes[who].orphan.take() {
            self.note(now, What::Rests(who, term));
            self.note(now, What::TurnOver(who, term));
        }
    }
}
