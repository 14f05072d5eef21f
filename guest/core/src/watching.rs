//! Polling, and making what is not there. protocol.md §4.1. How a successor polls for the lease that it
//! is given is in `inheriting`.

mod inheriting;

use super::Moment;
use super::chance::{Chance, lease_id};
use super::context::{CompletedRequest, Context, UnsignedRequest, State};
use super::next_record::next_record;
use super::pace::RetrySchedule;
use super::phase::{Attempt, MOST_ROUNDS, MissingResource, Phase, SplitCheck, Watch};
use super::problem::{Problem, ProblemClass};
use super::pulse::Pulse;
use super::raising::report_no_date;
use super::record::{ValidatedRecord, Record, UnusableRecord};
use super::timings::BACK_OFF;
use super::turns::Turns;
use crate::mutants::mutant;
use tenure_azure::answer::{Class, LeaseState, Properties};
use tenure_azure::operation::{ETag, Operation};
use tenure_base::prelude::*;

/// Codes with which a blob that another candidate made answers a creation.
const IT_EXISTS: [&str; 2] = ["BlobAlreadyExists", "LeaseIdMissing"];

/// Polls, a successor by its own lease id, or makes what is missing; takes over from a leader whose promise
/// ended.
pub(super) fn next(mut watch: Watch, context: &Context<'_>) -> (Phase, Option<UnsignedRequest>) {
    let (now, follower) = (context.now, &context.state.follower);
    let promise_now = promise_clock(now, context);
    let may_contend = !context.is_ineligible();
    // It may have been paused since it found the blob missing.
    watch.missing = watch.missing.filter(|_| may_contend);
    let ready_pulse = follower.pulse.as_ref().filter(|pulse| may_contend && pulse.is_takeover_due(promise_now));
    let operation = match watch.missing {
        None => ready_pulse.map_or(Operation::Read { lease: follower.poll_lease(now) }, Pulse::take_over),
        Some(MissingResource::Blob) => Operation::CreateBlob,
        Some(MissingResource::Container) => Operation::CreateContainer,
    };
    let timings = &context.settings.timings;
    let timeout = match timings.failover {
        // Where the service is slow, the next try has more time.
        Some(failover) if follower.pulse.is_some() && watch.pace.failures == 0 => {
            failover.poll_timeout().min(timings.request_timeout)
        }
        _ => timings.request_timeout,
    };
    let outgoing = (watch.pace.next_at <= context.now).then_some(UnsignedRequest { operation, timeout });
    (Phase::Watching(watch), outgoing)
}

/// Takes the answer. After a hint the next poll may come soon.
pub(super) fn on_answer(watch: Watch, completed: CompletedRequest<'_>, context: &mut Context<'_>) -> Phase {
    let (sent, was_poll) = (completed.sent_at, matches!(completed.operation, Operation::Read { .. }));
    let mut phase = handle_answer(watch, completed, context);
    if !was_poll {
        return phase;
    }
    // It counts, whatever came of it.
    let State { follower, hints, .. } = &mut context.state;
    let next = hints.on_poll(sent, follower.known_term(), context.now);
    match (&mut phase, next) {
        // What is to be told to the leader needs the time until the next poll.
        (Phase::Watching(watch), Some(next))
            if watch.missing.is_none() && !follower.has_request() =>
        {
            watch.pace.next_at = watch.pace.next_at.min(next);
        }
        _ => hints.clear(),
    }
    phase
}

fn handle_answer(watch: Watch, completed: CompletedRequest<'_>, context: &mut Context<'_>) -> Phase {
    match completed.operation {
        Operation::Read { lease: Some(lease) } => {
            return inheriting::on_answer(*lease, completed, context);
        }
        Operation::Break { .. } => return on_break_answer(watch, completed, context),
        _ => {}
    }
    if let Some(missing) = watch.missing {
        return on_creation_answer(missing, watch, completed, context);
    }
    if !context.has_pending_background_request() {
        context.state.follower.forget_request();
    }
    let Some(answer) = completed.answer() else {
        return poll_later(watch, completed, context);
    };
    match (answer.class, &answer.properties, &answer.etag) {
        (Class::Done, Some(properties), Some(etag)) => {
            let received_at = if mutant!(PromiseFromLook) { completed.sent_at } else { context.now };
            on_blob_read(watch, properties, (etag, received_at), context, completed.chance)
        }
        (Class::MissingBlob | Class::MissingContainer, ..) if context.is_ineligible() => {
            stay_out(context, completed.chance)
        }
        (Class::MissingBlob, ..) => create(MissingResource::Blob, watch),
        (Class::MissingContainer, ..) => create(MissingResource::Container, watch),
        _ => poll_later(watch, completed, context),
    }
}

/// The blob was read: somebody leads, or this candidate contends.
fn on_blob_read(
    watch: Watch,
    properties: &Properties,
    (etag, received_at): (&ETag, Moment),
    context: &mut Context<'_>,
    chance: &mut dyn Chance,
) -> Phase {
    let time = context.service_estimate();
    let record = match Record::validate(&context.settings.election, properties, time) {
        Ok(ValidatedRecord { record, ignored }) => {
            // What no candidate writes counts as missing.
            if let Some(detail) = ignored {
                context.report_problem(ProblemClass::Configuration, detail);
            }
            record
        }
        // Of two dates that differ, the next one shows which is wrong.
        Err(UnusableRecord { depends_on_time: true, .. })
            if context.service_time().is_none() && watch.rounds < MOST_ROUNDS =>
        {
            return poll_again(watch.rounds, context, chance);
        }
        Err(problem) => return reject_blob(problem, context, chance),
    };
    context.state.follower.pulse = match properties.lease {
        LeaseState::Leased => observe_pulse(record.as_ref(), etag, received_at, context, chance),
        _ => None,
    };
    context.effects.turns = record.as_ref().zip(time).map(|(record, now)| {
        let runs = !record.is_ended() && properties.lease == LeaseState::Leased;
        Turns::from_record(record, runs, now, &context.settings.agenda)
    });
    let schedule = record.as_ref().and_then(|record| record.schedule.as_deref());
    // A lease without an end is no leader's.
    let other_schedule = Problem::schedule_mismatch(schedule, context.settings)
        .filter(|_| properties.lease != LeaseState::Infinite);
    context.report(other_schedule);
    match properties.lease {
        LeaseState::Leased | LeaseState::Breaking => follow(record, context, chance),
        _ if time.is_none() => {
            report_no_date(context);
            Phase::Watching(Watch::at(context.next_try(chance)))
        }
        LeaseState::Infinite => {
            context.report(Some(Problem::infinite_lease(context.settings)));
            stay_out(context, chance)
        }
        LeaseState::Available | LeaseState::Expired | LeaseState::Broken => {
            contend(etag.clone(), record, watch.rounds, context, chance)
        }
    }
}

/// By which clock the promise of a leader is counted.
fn promise_clock(instant: Moment, context: &Context<'_>) -> Moment {
    if mutant!(PromiseByTheFasterClock) { instant } else { context.slow_clock(instant) }
}

/// The beat of a leader that this candidate may take over from, as it was seen in an answer that was
/// `received` then.
fn observe_pulse(
    record: Option<&Record>,
    etag: &ETag,
    received_at: Moment,
    context: &mut Context<'_>,
    chance: &mut dyn Chance,
) -> Option<Pulse> {
    let previous = context.state.follower.pulse.take();
    let record = record.filter(|_| !context.is_ineligible())?;
    let (received_at, own_failover) = (promise_clock(received_at, context), context.settings.timings.failover);
    let pulse = Pulse::observe(previous, record, etag, received_at, own_failover, chance)?;
    validate_next_record(Some(record.clone()), context).is_ok().then_some(pulse)
}

/// Takes the answer to a break: the lease is acquired if nothing was written since.
fn on_break_answer(mut watch: Watch, completed: CompletedRequest<'_>, context: &mut Context<'_>) -> Phase {
    let pulse = context.state.follower.pulse.take();
    if mutant!(TimerNotRestarted) {
        context.state.follower.pulse.clone_from(&pulse);
    }
    match (completed.class(), pulse) {
        (Some(Class::Done), Some(pulse)) => {
            let (etag, record) = pulse.into_parts();
            contend(etag, Some(record), watch.rounds, context, completed.chance)
        }
        (Some(Class::Refused), _) => poll_later(watch, completed, context),
        // It may be broken or not: a look tells.
        (Some(Class::Unavailable | Class::Nonsense) | None, pulse) => {
            let promise_now = promise_clock(context.now, context);
            let chance = &mut *completed.chance;
            context.state.follower.pulse = pulse.map(|pulse| pulse.on_break_unanswered(promise_now, chance));
            watch.pace.on_failure(context.now, BACK_OFF, chance);
            Phase::Watching(watch)
        }
        // The leader beat again, or somebody else took over.
        _ => poll_again(watch.rounds, context, completed.chance),
    }
}

/// Somebody holds the lease: what to tell the leader is put forward.
fn follow(record: Option<Record>, context: &mut Context<'_>, chance: &mut dyn Chance) -> Phase {
    let (now, settings, stays_out) = (context.now, context.settings, context.is_ineligible());
    let has_pending_request = context.has_pending_background_request();
    let follower = &mut context.state.follower;
    // A lease of our own that could not be released is nobody's.
    let is_own = record.as_ref().is_some_and(|record| record.nonce == context.state.nonce);
    let leader = record.filter(|_| !is_own);
    let unsplit_leader =
        leader.as_ref().filter(|record| settings.coordinates && !record.is_coordinated());
    let unsplit_problem = unsplit_leader.map(|record| {
        let (leader, election) = (&record.leader, &settings.election);
        let detail = format!(
            "{leader} leads {election} without --shares, and runs all of its work. The processes that have --shares wait \
             until it no longer leads; end it, or start it with --shares"
        );
        Problem { class: ProblemClass::Configuration, detail }
    });
    if let Some(record) = &leader {
        follower.announce(record, (stays_out, has_pending_request), settings, now, chance);
    }
    follower.following = (!is_own).then(|| leader.as_ref().map(Record::incumbent));
    context.report(unsplit_problem);
    let mut next = context.next_poll(chance);
    if let Some(pulse) = &context.state.follower.pulse {
        let promise_now = promise_clock(now, context);
        let is_takeover_candidate = settings.timings.failover.is_some() || pulse.is_takeover_due(promise_now);
        let end = pulse.takeover_at().filter(|_| is_takeover_candidate);
        next = end.map_or(next, |end| next.min(now + end.saturating_sub(promise_now)));
    }
    Phase::Watching(Watch::at(next))
}

/// Nobody leads: this candidate wants to. A blob is not acquired when it could not begin to lead with its
/// record.
fn contend(
    etag: ETag,
    record: Option<Record>,
    rounds: u32,
    context: &mut Context<'_>,
    chance: &mut dyn Chance,
) -> Phase {
    if context.is_ineligible() {
        return stay_out(context, chance);
    }
    if let Err(problem) = validate_next_record(record.clone(), context) {
        return reject_blob(problem, context, chance);
    }
    clear_leader(context);
    // Orders to an attempt that failed are void, and so is the id that was announced.
    context.state.steering.clear();
    context.state.follower.successor = None;
    let (lease, pace) = (lease_id(chance), RetrySchedule::due_at(context.now));
    let check = SplitCheck::new(record.as_ref(), context.settings);
    let (may_be_granted, handed_over) = (false, false);
    Phase::Acquiring(Attempt { lease, etag, record, may_be_granted, pace, rounds, handed_over, check })
}

/// Whether this candidate could lead with what its record would be.
fn validate_next_record(record: Option<Record>, context: &Context<'_>) -> Result<(), UnusableRecord> {
    let (settings, state) = (context.settings, &context.state);
    let since = context.service_estimate().unwrap_or_default();
    next_record(settings, state.nonce, &state.claims, record, since).validate_next(&settings.election)
}

/// The blob cannot be led with as it is.
fn reject_blob(problem: UnusableRecord, context: &mut Context<'_>, chance: &mut dyn Chance) -> Phase {
    if !problem.is_closed {
        context.report(Some(Problem::from_unusable(problem)));
    }
    stay_out(context, chance)
}

/// Nobody leads, but this candidate leaves the lease to the others for now.
fn stay_out(context: &mut Context<'_>, chance: &mut dyn Chance) -> Phase {
    clear_leader(context);
    Phase::Watching(Watch::at(context.next_try(chance)))
}

/// As far as is known; a promise that was seen before is nobody's.
fn clear_leader(context: &mut Context<'_>) {
    (context.state.follower.following, context.state.follower.pulse) = (None, None);
}

fn create(missing: MissingResource, watch: Watch) -> Phase {
    Phase::Watching(Watch { missing: Some(missing), ..watch })
}

/// Takes the answer to a creation.
fn on_creation_answer(
    missing: MissingResource,
    mut watch: Watch,
    completed: CompletedRequest<'_>,
    context: &mut Context<'_>,
) -> Phase {
    clear_leader(context);
    let Some(answer) = completed.answer() else {
        return poll_later(watch, completed, context);
    };
    let is_deleting = answer.code.as_deref() == Some("ContainerBeingDeleted");
    match (answer.class, missing, &answer.etag) {
        (Class::Done, MissingResource::Blob, Some(etag)) => {
            contend(etag.clone(), None, watch.rounds, context, completed.chance)
        }
        (Class::Conflict, ..) if is_deleting => poll_later(watch, completed, context),
        // Done, or somebody else made the container.
        (Class::Done | Class::Conflict, MissingResource::Container, _) => create(MissingResource::Blob, watch),
        (Class::MissingContainer, MissingResource::Blob, _) if watch.rounds < MOST_ROUNDS => {
            watch.rounds += 1;
            create(MissingResource::Container, watch)
        }
        // Somebody else made the blob, and may lead already.
        (Class::Conflict | Class::LeaseMismatch | Class::ConditionNotMet, MissingResource::Blob, _) => {
            report_unless(&IT_EXISTS, &completed, context);
            poll_again(watch.rounds, context, completed.chance)
        }
        _ => poll_later(watch, completed, context),
    }
}

/// Reports an answer whose code is none of those that are part of the protocol.
pub(super) fn report_unless(expected: &[&str], completed: &CompletedRequest<'_>, context: &mut Context<'_>) {
    let code = completed.answer().and_then(|answer| answer.code.as_deref());
    if code.is_some_and(|code| !expected.contains(&code)) {
        context.report_failure(completed);
    }
}

/// The blob changed since it was read.
pub(super) fn poll_again(rounds: u32, context: &Context<'_>, chance: &mut dyn Chance) -> Phase {
    if rounds < MOST_ROUNDS {
        return Phase::Watching(Watch { rounds: rounds + 1, ..Watch::at(context.now) });
    }
    Phase::Watching(Watch::at(context.next_try(chance)))
}

/// It could not be read, or not created.
fn poll_later(watch: Watch, completed: CompletedRequest<'_>, context: &mut Context<'_>) -> Phase {
    let Watch { mut pace, rounds, .. } = watch;
    if completed.is_outcome_unknown() && pace.failures == 0 {
        pace.on_failure(context.now, BACK_OFF, completed.chance);
        return Phase::Watching(Watch { missing: None, pace, rounds });
    }
    context.report_failure(&completed);
    let failures = pace.failures.saturating_add(1);
    pace = RetrySchedule { next_at: context.next_poll(completed.chance), failures };
    if mutant!(StopsWhenRefused) && completed.is_refused() {
        pace.next_at = Moment::MAX;
    }
    Phase::Watching(Watch { missing: None, pace, rounds: 0 })
}
