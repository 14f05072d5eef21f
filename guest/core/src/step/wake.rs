//! The wake-up time of a candidate, and its spare time until then.

use core::time::Duration;

use super::credential_state::MIN_FETCH;
use super::settings::timings::BACK_OFF;
use crate::Moment;
use crate::protocol::context::Context;
use crate::protocol::phase::{Hold, Phase};
use crate::protocol::{handing_over, holding};
use crate::schedule::agenda::Due;
use crate::side::background;

/// Maximum requests in a step before it yields to the host.
pub(crate) const MAX_REQUESTS: u32 = 16;

/// Maximum length of a step for a candidate that holds no lease. The host may have an event for the
/// candidate, such as the order to leave, and can deliver it only with the next step.
const MAX_IDLE_STEP: Duration = Duration::from_secs(1);

/// Interval of steps while the host has not reported that the work has stopped.
const STOPPING_INTERVAL: Duration = Duration::from_secs(1);

/// Interval of checks while the last claimed slot lies in the future.
const STUCK_INTERVAL: Duration = Duration::from_secs(30);

/// Maximum interval of steps for a candidate whose secret is in a file: each step reads the file
/// again.
const FILE_READ_INTERVAL: Duration = Duration::from_secs(4);

/// Returns true if the step ends here, so that the host can deliver its events.
pub(crate) fn yields_to_host(phase: &Phase, context: &Context<'_>) -> bool {
    let holds_nothing = match phase {
        Phase::Watching(_) => true,
        Phase::Acquiring(attempt) => !attempt.may_be_granted,
        _ => false,
    };
    let is_overdue = context.now >= context.started + MAX_IDLE_STEP;
    holds_nothing && context.effects.requests_sent > 0 && is_overdue
}

/// Returns the time until the phase has its next action, which background requests can use.
pub(crate) fn spare_time(phase: &Phase, context: &Context<'_>) -> Duration {
    match phase {
        Phase::Holding(hold) if hold.is_renewed() => {
            leader_due(hold, context).saturating_sub(context.now)
        }
        Phase::Watching(watch) => watch.pace.next_at.saturating_sub(context.now),
        _ => Duration::ZERO,
    }
}

/// Returns the latest time of the next step.
pub(crate) fn wake_up(phase: &Phase, context: &Context<'_>) -> Moment {
    let next = with_background(phase_due(phase, context), phase, context);
    let is_final = matches!(phase, Phase::Left) || context.settings.file.is_none();
    if is_final { next } else { next.min(context.now + FILE_READ_INTERVAL) }
}

/// Returns the time of the next action of the phase, without background requests.
fn phase_due(phase: &Phase, context: &Context<'_>) -> Moment {
    let (now, follower) = (context.now, &context.state.follower);
    match phase {
        _ if context.effects.requests_sent == MAX_REQUESTS => now + BACK_OFF,
        Phase::Watching(_) if follower.has_request() && yields_to_host(phase, context) => now,
        Phase::Watching(watch) => watch.pace.next_at,
        Phase::Acquiring(attempt) => attempt.pace.next_at,
        Phase::Raising(raise) => raise.write.pace.next_at.min(raise.valid_until),
        Phase::Holding(hold) => leader_due(hold, context),
        Phase::Stopping { .. } if context.effects.ending.is_some() => now,
        Phase::Stopping { .. } => now + STOPPING_INTERVAL,
        Phase::Releasing(release) => release.pace.next_at,
        Phase::Left => now + context.settings.timings.lease,
    }
}

/// Returns the time at which a leader next renews, beats, writes, claims, or gives up.
fn leader_due(hold: &Hold, context: &Context<'_>) -> Moment {
    let now = context.now;
    let is_busy = context.state.turn.is_some() || context.state.steering.forbids_new_turns();
    let due = holding::due(hold, context).filter(|_| !is_busy);
    let work = match (&hold.write, due) {
        _ if !hold.is_renewed() && hold.beats.is_none() => None,
        (Some(write), _) => Some(write.pace.next_at),
        (None, _) if holding::plan_record(hold, context).is_some() => Some(now),
        (None, Some(Due::In(wait))) => Some(now + wait),
        (None, Some(Due::Ahead(by))) => Some(now + by.min(STUCK_INTERVAL)),
        (None, _) => None,
    };
    let next = hold.renew.next_at.min(hold.valid_until);
    let give_up_at = handing_over::due_at(hold, context);
    // A beat in doubt is retried together with its write.
    let beat = hold.beats.filter(|_| hold.write.is_none()).map(|beats| beats.next);
    [work, give_up_at, beat].into_iter().flatten().fold(next, Moment::min)
}

/// Returns the wake-up time, with background requests included; `next` is that of the phase.
///
/// Without a valid token, no other request can be sent. So the candidate sleeps until it can
/// request a token, but at least until `next`. Only a leader whose newest renewal succeeded
/// wakes for the token before `next`. With a valid token, a leader also wakes for background
/// requests. Without failover, these must end before `next`.
fn with_background(next: Moment, phase: &Phase, context: &Context<'_>) -> Moment {
    let (now, credential) = (context.now, context.settings.account.credential());
    let credential_state = &context.state.credential_state;
    let in_flight_until = background::in_flight_until(context).unwrap_or(now);
    let token_due = credential_state
        .due_at(credential)
        .filter(|_| credential_state.auth_source(credential, now).is_none());
    let token_due = token_due.map(|due| due.max(in_flight_until));
    match (phase, token_due) {
        (Phase::Stopping { .. } | Phase::Left, _) => next,
        (Phase::Holding(hold), Some(due)) => {
            let due = if hold.is_renewed() { due } else { next.max(due) };
            fetch_before(due, hold.valid_until, now)
        }
        (Phase::Raising(raise), Some(due)) => fetch_before(next.max(due), raise.valid_until, now),
        (Phase::Releasing(release), Some(due)) => next.max(due).min(release.gives_up_at),
        (_, Some(due)) => next.max(due),
        (Phase::Holding(_), None) if context.settings.timings.failover.is_some() => {
            let queued = background::queue(phase, context).into_iter();
            queued.map(|request| request.due.max(in_flight_until)).fold(next, Moment::min)
        }
        (Phase::Holding(hold), None) if hold.is_renewed() => {
            let fitting = background::queue(phase, context).into_iter().filter_map(|request| {
                let due = request.due.max(now);
                (next.saturating_sub(due) >= request.least_timeout).then_some(due)
            });
            fitting.min().unwrap_or(next)
        }
        _ => next,
    }
}

/// Returns the time of a token request that is due at `at`, or `end` if too little time remains
/// between them.
fn fetch_before(at: Moment, end: Moment, now: Moment) -> Moment {
    let fits = end.saturating_sub(at.max(now)) >= MIN_FETCH;
    if fits { at } else { end }
}
