//! Handler that only records when it works, and sometimes sends a request.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tenure::Lease;
use tenure::handler::{BoxFuture, Handler, TurnEnd};
use tenure_clock::Clock;
use tenure_core::{Timestamp, Turn};

use super::clock::SimClock;
use super::dice::Dice;
use super::history::{CandidateId, HistoryEvent, trigger_number};
use super::plan::Trait;
use super::process_state::{Gate, TurnState};
use super::world::{Millis, World};
use std::time::Duration;

/// Maximum delay of an order to stop.
const STOP_LATENCY: Millis = 20;

/// Duration that exceeds any schedule.
const FOREVER: Millis = 100_000_000;

/// Handler of one process, which runs its turns.
pub struct SimHandler {
    world: Arc<World>,
    candidate: CandidateId,
    clock: SimClock,
}

impl SimHandler {
    /// Creates a handler without a turn.
    #[must_use]
    pub fn new(world: Arc<World>, candidate: CandidateId, clock: SimClock) -> Self {
        Self { world, candidate, clock }
    }
}

impl Handler for SimHandler {
    fn on_tick(&self, turn: Turn, lease: Lease) -> BoxFuture<'_, TurnEnd> {
        let now = self.world.now();
        let mut dice = Dice::new(self.world.seed ^ turn.slot.0, 2_000 + self.candidate as u64);
        {
            let mut state = self.world.state();
            // The process may be suspended between the order and the first action.
            let is_working = !state.processes[self.candidate].paused;
            let machine = state.processes[self.candidate].machine;
            state.processes[self.candidate].turn = Some(TurnState { term: turn.term, is_working });
            let Turn { term, slot: Timestamp(slot), attempt, .. } = turn;
            let trigger = turn.trigger.as_deref().map(trigger_number);
            state.note(
                now,
                HistoryEvent::TurnBegan { candidate: self.candidate, term, slot, attempt, trigger },
            );
            if is_working {
                state.note(now, HistoryEvent::WorkStarted(self.candidate, turn.term));
            }
            if turn.trigger.is_some() {
                state.coverage.add_trait(Trait::Triggers);
            }
            for feature in self.world.plan.turn_traits(machine) {
                state.coverage.add_trait(feature);
            }
        }
        // Half of the handlers are running when their process resumes, and learn at once that their
        // time is over. The other half waits, and must be stopped.
        let is_cpu_bound = dice.once_in(2);
        let guard = TurnGuard {
            world: self.world.clone(),
            candidate: self.candidate,
            clock: self.clock.clone(),
            limit: turn.time_limit.map(|limit| self.clock.now() + limit),
            has_ended: false,
        };
        let work = Box::pin(work(
            self.world.clone(),
            self.candidate,
            turn,
            lease.clone(),
            self.clock.clone(),
            dice,
        ));
        Box::pin(SimTurn { guard, lease, is_cpu_bound, work })
    }
}

/// Runs the work of a turn.
async fn work(
    world: Arc<World>,
    candidate: CandidateId,
    turn: Turn,
    lease: Lease,
    clock: SimClock,
    mut dice: Dice,
) -> TurnEnd {
    let in_fault_phase = world.now() < world.plan.calm;
    let is_long = in_fault_phase && dice.permille(world.plan.long_turns_permille);
    let duration = match (world.plan.traits.has(Trait::Lasting), is_long) {
        // Some lasting work still ends.
        (true, false) => FOREVER,
        (_, true) => dice.between(1_000, world.plan.longest_work),
        (false, false) => dice.between(0, world.plan.longest_turn),
    };
    let ends_at = clock.now() + Duration::from_millis(duration);
    loop {
        let pause = Duration::from_millis(dice.between(100, 4_000));
        clock.sleep_until(ends_at.min(clock.now() + pause)).await;
        // The call that sends a request checks the deadline first.
        if lease.is_lost() {
            return TurnEnd::CutOff;
        }
        if clock.now() >= ends_at {
            // The failure depends only on the slot, not on the candidate or the time.
            let is_poisoned =
                Dice::new(world.seed ^ turn.slot.0, 6).permille(world.plan.rules.poison_permille);
            if is_poisoned {
                world.note(HistoryEvent::TurnFailed(candidate));
                return TurnEnd::Failed("the slot is poisoned".into());
            }
            if !in_fault_phase || !dice.permille(world.plan.failing_turns_permille) {
                world.note(HistoryEvent::TurnSucceeded(candidate));
                return TurnEnd::Succeeded;
            }
            world.note(HistoryEvent::TurnFailed(candidate));
            if dice.once_in(3) {
                world.note(HistoryEvent::TurnTrapped(candidate));
                return TurnEnd::Trapped("as the dice fell".into());
            }
            return TurnEnd::Failed("as the dice fell".into());
        }
        world.note(HistoryEvent::HandlerActed(candidate, turn.term));
    }
}

/// Turn that is suspended together with its process.
struct SimTurn {
    work: Pin<Box<dyn Future<Output = TurnEnd> + Send>>,
    is_cpu_bound: bool,
    lease: Lease,
    guard: TurnGuard,
}

impl Future for SimTurn {
    type Output = TurnEnd;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<TurnEnd> {
        match self.guard.resume(cx, || self.is_cpu_bound && self.lease.is_lost()) {
            Resumption::Suspended => Poll::Pending,
            Resumption::TooLate => Poll::Ready(TurnEnd::CutOff),
            Resumption::Working => {
                let end = self.work.as_mut().poll(cx);
                self.guard.has_ended =
                    matches!(&end, Poll::Ready(end) if !matches!(end, TurnEnd::CutOff));
                end
            }
        }
    }
}

/// Guard that exists as long as any part of the turn.
struct TurnGuard {
    world: Arc<World>,
    candidate: CandidateId,
    /// Clock of the process; the host stops a turn within the millisecond.
    clock: SimClock,
    /// Time limit, at which the host stops it.
    limit: Option<Duration>,
    /// True if the turn ended by itself.
    has_ended: bool,
}

enum Resumption {
    Working,
    Suspended,
    TooLate,
}

impl TurnGuard {
    /// Resumes the work if the process runs and `too_late` is false.
    fn resume(&self, cx: &Context<'_>, too_late: impl FnOnce() -> bool) -> Resumption {
        let Self { world, candidate, .. } = self;
        let now = world.now();
        let mut state = world.state();
        let process = &mut state.processes[*candidate];
        if process.gate(cx.waker()) != Gate::Open {
            return Resumption::Suspended;
        }
        let Some(turn) = &mut process.turn else { return Resumption::Suspended };
        if !turn.is_working {
            drop(state);
            if too_late() {
                return Resumption::TooLate;
            }
            let mut state = world.state();
            let Some(turn) = &mut state.processes[*candidate].turn else {
                return Resumption::Suspended;
            };
            turn.is_working = true;
            let term = turn.term;
            state.note(now, HistoryEvent::WorkStarted(*candidate, term));
        }
        Resumption::Working
    }
}

impl Drop for TurnGuard {
    fn drop(&mut self) {
        let (now, clock_now) = (self.world.now(), self.clock.now());
        let too_slow = self.limit.is_some_and(|limit| clock_now >= limit);
        let mut state = self.world.state();
        if too_slow {
            state.note(now, HistoryEvent::TurnFailed(self.candidate));
        }
        let process = &state.processes[self.candidate];
        let missed_wind_down =
            process.no_wind_down_since.is_some_and(|since| now > since + STOP_LATENCY);
        let still_leads =
            !process.leaving && !process.has_exited && clock_now < process.leads_until;
        if !self.has_ended && !too_slow && missed_wind_down && still_leads {
            state.note(now, HistoryEvent::TurnCutShort(self.candidate));
        }
        state.end_turn(now, self.candidate);
    }
}
