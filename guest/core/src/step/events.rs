//! Events from the host: the end of a turn, the readiness of the process, hints, and the end of the
//! process.

use super::pace::Chance;
use super::problem::ProblemClass;
use super::report::{EndingReason, Event, Turn, TurnResult};
use crate::mutants::mutant;
use crate::protocol::context::Context;
use crate::protocol::phase::{Phase, Release};
use crate::protocol::releasing::{leave_as_follower, release, step_down};
use crate::protocol::steering::GivingUp;
use crate::protocol::{handing_over, holding};
use crate::record::metadata::Outcome;
use crate::side::announcement::LAST_WRITE;
use crate::side::{background, orders};

/// Applies an event since the last step.
pub(crate) fn apply(
    event: Event,
    mut phase: Phase,
    context: &mut Context<'_>,
    chance: &mut dyn Chance,
) -> Phase {
    if let Event::BackgroundReply(reply) = event {
        return background::on_background_reply(reply, phase, context, chance);
    }
    let watch = match &mut phase {
        Phase::Watching(watch) => Some(watch),
        _ => None,
    };
    // An event may remove the cause of a follower's due request. A hint never does, and hints can
    // be frequent.
    if event != Event::Hint {
        let (settings, now) = (context.settings, context.now);
        context.state.follower.cancel_request_and_poll_sooner(watch, settings, now);
    }
    match event {
        Event::TurnEnded(result) => return on_turn_ended(&result, phase, context, chance),
        Event::Leave(result) => return leave(result.as_ref(), phase, context),
        Event::LeaveLate(result) => {
            return match leave(Some(&result), phase, context) {
                // The outcome has one try to get on record, so that the turn is not repeated
                // without need.
                Phase::Releasing(release) => {
                    let write_deadline = context.now + 2 * LAST_WRITE;
                    Phase::Releasing(Release { write_deadline, ..release })
                }
                phase => phase,
            };
        }
        Event::ResetSlot => {
            if let Phase::Holding(hold) = &mut phase {
                holding::reset_slot(hold, context);
            }
        }
        Event::Resign => resign(&phase, context),
        Event::HandOver(to) => handing_over::order(to, None, phase.hold(), context),
        Event::Ready(ready) => {
            context.state.steering.is_unready = !ready;
            context.state.listing.on_own_change(context.now);
            match ready {
                true => on_ready(&mut phase, context),
                false
                    if mutant!(HandsOverThoughNotReady)
                        && context.state.steering.hand_over().is_some() => {}
                false => resign(&phase, context),
            }
        }
        Event::BackgroundReply(_) => {}
        Event::Hint => on_hint(&mut phase, context),
    }
    phase
}

/// Makes a follower with failover poll at once: its promise clock starts with the first beat that
/// it sees.
fn on_ready(phase: &mut Phase, context: &Context<'_>) {
    if let Phase::Watching(watch) = phase
        && context.failover().is_some()
        && !context.is_ineligible()
    {
        watch.pace.next_at = watch.pace.next_at.min(context.now);
    }
}

/// Handles a hint. A leader reads orders: protocol.md §7.5. A follower that may contend polls at
/// once, and so does an observer: §4.5. The hint delays a due announcement by one poll at most.
fn on_hint(phase: &mut Phase, context: &mut Context<'_>) {
    let (now, accepts_hint) = (context.now, context.settings.observes || !context.is_ineligible());
    let term = context.state.follower.known_term();
    if let Phase::Holding(hold) = phase {
        orders::on_hint(hold, now);
    }
    if let Phase::Watching(watch) = phase
        && watch.missing.is_none()
        && accepts_hint
        && !mutant!(HintIgnored)
        && context.state.hints.accept(term, now)
    {
        watch.pace.next_at = watch.pace.next_at.min(now);
    }
}

/// Gives up the leadership, or the attempt to win it.
fn resign(phase: &Phase, context: &mut Context<'_>) {
    if matches!(phase, Phase::Acquiring(_) | Phase::Raising(_) | Phase::Holding(_)) {
        context.state.steering.giving_up = Some(GivingUp::Resign);
    }
}

fn on_turn_ended(
    result: &TurnResult,
    mut phase: Phase,
    context: &mut Context<'_>,
    chance: &mut dyn Chance,
) -> Phase {
    let Some(turn) = take_ended_turn(Some(result), &mut phase, context) else { return phase };
    let outcome = result.outcome;
    let (now, settings) = (context.now, context.settings);
    let health = &mut context.state.health;
    let Some(cool_down) = health.on_turn_ended(outcome, &settings.failure_policy, now, chance)
    else {
        // Work that was to last as long as the leadership has ended.
        let is_last = settings.agenda.is_one_turn_a_term();
        if is_last && context.state.steering.hand_over().is_none() {
            resign(&phase, context);
        }
        return phase;
    };
    let detail = health.explain(&turn, outcome, cool_down);
    context.report_problem(ProblemClass::Work, detail);
    match phase {
        Phase::Holding(hold) => {
            Phase::Releasing(step_down(&hold, EndingReason::WorkFailed, context))
        }
        phase => phase,
    }
}

/// Removes the turn in progress from the state and applies its result, if known.
fn take_ended_turn(
    result: Option<&TurnResult>,
    phase: &mut Phase,
    context: &mut Context<'_>,
) -> Option<Turn> {
    let turn = context.state.turn.take()?;
    if result.is_some_and(|result| result.outcome == Outcome::NotStarted) {
        context.state.claims.set_started(&turn, false);
    }
    if let (Some(result), Phase::Holding(hold)) = (result, phase) {
        holding::on_turn_ended(hold, &turn, result, context);
    }
    Some(turn)
}

fn leave(result: Option<&TurnResult>, mut phase: Phase, context: &mut Context<'_>) -> Phase {
    context.state.is_leaving = true;
    take_ended_turn(result, &mut phase, context);
    let lease = match phase {
        Phase::Holding(hold) => {
            return Phase::Releasing(step_down(&hold, EndingReason::Left, context));
        }
        Phase::Releasing(_) => return phase,
        Phase::Acquiring(attempt) => {
            (attempt.may_be_granted && !mutant!(UnsureAcquireForgotten)).then_some(attempt.lease)
        }
        Phase::Raising(raise) => Some(raise.lease),
        Phase::Stopping { lease } => lease,
        Phase::Watching(_) | Phase::Left => None,
    };
    context.state.follower.following = None;
    match lease {
        Some(lease) => Phase::Releasing(release(lease, context.now, context)),
        None => leave_as_follower(context),
    }
}
