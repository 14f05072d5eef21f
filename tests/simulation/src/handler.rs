//! A handler that does nothing but tell when it works, and sends something now and then.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tenure::Lease;
use tenure::handler::{BoxFuture, Handler, TurnEnd};
use tenure_clock::Clock;
use tenure_core::{Timestamp, Turn};

use super::clock::SimClock;
use super::dice::Dice;
use super::gate::{Gate, TurnState};
use super::history::{What, Who, number};
use super::plan::Trait;
use super::world::{Millis, World};
use std::time::Duration;

/// An order to stop may have been on its way for so long.
const STOPPING: Millis = 20;

/// Longer than any schedule.
const FOR_EVER: Millis = 100_000_000;

/// The desk of one process, at which its turns are worked on.
pub struct Desk {
    world: Arc<World>,
    who: Who,
    clock: SimClock,
}

impl Desk {
    /// A desk at which nobody sits.
    #[must_use]
    pub fn new(world: Arc<World>, who: Who, clock: SimClock) -> Self {
        Self { world, who, clock }
    }
}

impl Handler for Desk {
    fn on_tick(&self, turn: Turn, lease: Lease) -> BoxFuture<'_, TurnEnd> {
        let now = self.world.now();
        let mut dice = Dice::new(self.world.seed ^ turn.slot.0, 2_000 + self.who as u64);
        {
            let mut state = self.world.state();
            // A process may stand still between the order and the first thing that is done.
            let works = !state.processes[self.who].paused;
            let machine = state.processes[self.who].machine;
            state.processes[self.who].turn = Some(TurnState { term: turn.term, works });
            let Turn { term, slot: Timestamp(slot), attempt, .. } = turn;
            let trigger = turn.trigger.as_deref().map(number);
            state.note(now, What::TurnBegan { who: self.who, term, slot, attempt, trigger });
            if works {
                state.note(now, What::Works(self.who, turn.term));
            }
            if turn.trigger.is_some() {
                state.coverage.saw(Trait::Triggers);
            }
            for what in self.world.plan.traits_of_turns(machine) {
                state.coverage.saw(what);
            }
        }
        // Half of the handlers are awake when their process wakes up, and learn at once that
        // their time is over; the others wait for something, and must be stopped.
        let computes = dice.once_in(2);
        let presence = Presence {
            world: self.world.clone(),
            who: self.who,
            clock: self.clock.clone(),
            limit: turn.time_limit.map(|limit| self.clock.now() + limit),
            ended: false,
        };
        let work = Box::pin(work(
            self.world.clone(),
            self.who,
            turn,
            lease.clone(),
            self.clock.clone(),
            dice,
        ));
        Box::pin(Sitting { presence, lease, computes, work })
    }
}

/// What a turn does.
async fn work(
    world: Arc<World>,
    who: Who,
    turn: Turn,
    lease: Lease,
    clock: SimClock,
    mut dice: Dice,
) -> TurnEnd {
    let faulty = world.now() < world.plan.calm;
    let long = faulty && dice.permille(world.plan.long_turns);
    let lasts = match (world.plan.traits.has(Trait::Lasting), long) {
        // Some come to their end all the same.
        (true, false) => FOR_EVER,
        (_, true) => dice.between(1_000, world.plan.longest_work),
        (false, false) => dice.between(0, world.plan.longest_turn),
    };
    let ends = clock.now() + Duration::from_millis(lasts);
    loop {
        let pause = Duration::from_millis(dice.between(100, 4_000));
        clock.sleep_until(ends.min(clock.now() + pause)).await;
        // What hands a request to the network looks at the deadline first, in the same call.
        if lease.is_lost() {
            return TurnEnd::CutOff;
        }
        if clock.now() >= ends {
            // Whoever tries it, and whenever.
            let poisoned = Dice::new(world.seed ^ turn.slot.0, 6).permille(world.plan.rules.poison);
            if poisoned {
                world.note(What::Sick(who));
                return TurnEnd::Failed("the slot is poisoned".into());
            }
            if !faulty || !dice.permille(world.plan.sick_turns) {
                world.note(What::Succeeded(who));
                return TurnEnd::Succeeded;
            }
            world.note(What::Sick(who));
            if dice.once_in(3) {
                world.note(What::Trapped(who));
                return TurnEnd::Trapped("as the dice fell".into());
            }
            return TurnEnd::Failed("as the dice fell".into());
        }
        world.note(What::Acted(who, turn.term));
    }
}

/// A turn that stands still with its process.
struct Sitting {
    work: Pin<Box<dyn Future<Output = TurnEnd> + Send>>,
    computes: bool,
    lease: Lease,
    presence: Presence,
}

impl Future for Sitting {
    type Output = TurnEnd;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<TurnEnd> {
        match self.presence.comes_back(cx, || self.computes && self.lease.is_lost()) {
            Back::No => Poll::Pending,
            Back::TooLate => Poll::Ready(TurnEnd::CutOff),
            Back::Yes => {
                let end = self.work.as_mut().poll(cx);
                self.presence.ended =
                    matches!(&end, Poll::Ready(end) if !matches!(end, TurnEnd::CutOff));
                end
            }
        }
    }
}

/// As long as this exists, something of the turn is there.
struct Presence {
    world: Arc<World>,
    who: Who,
    /// Its own; the host stops a turn within the millisecond.
    clock: SimClock,
    /// When the host stops it as too slow.
    limit: Option<Duration>,
    /// The turn came to its own end.
    ended: bool,
}

enum Back {
    Yes,
    No,
    TooLate,
}

impl Presence {
    /// Goes on working, if the process goes on and it is not `too_late`.
    fn comes_back(&self, cx: &Context<'_>, too_late: impl FnOnce() -> bool) -> Back {
        let Self { world, who, .. } = self;
        let now = world.now();
        let mut state = world.state();
        let process = &mut state.processes[*who];
        if process.gate(cx.waker()) != Gate::Open {
            return Back::No;
        }
        let Some(turn) = &mut process.turn else { return Back::No };
        if !turn.works {
            drop(state);
            if too_late() {
                return Back::TooLate;
            }
            let mut state = world.state();
            let Some(turn) = &mut state.processes[*who].turn else { return Back::No };
            turn.works = true;
            let term = turn.term;
            state.note(now, What::Works(*who, term));
        }
        Back::Yes
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        let (now, own) = (self.world.now(), self.clock.now());
        let too_slow = self.limit.is_some_and(|limit| own >= limit);
        let mut state = self.world.state();
        if too_slow {
            state.note(now, What::Sick(self.who));
        }
        let process = &state.processes[self.who];
        let runs_on = process.runs_on.is_some_and(|since| now > since + STOPPING);
        let stays = !process.leaving && !process.over && own < process.leads_until;
        if !self.ended && !too_slow && runs_on && stays {
            state.note(now, What::CutShort(self.who));
        }
        state.end_turn(now, self.who);
    }
}
