//! Polling, creating missing resources, and breaking a dead leader's lease. protocol.md §4.1, §13.
//! A successor also polls with its lease id, until the leader gives it the lease (§7.2).

use super::context::{CompletedRequest, Context, State, UnsignedRequest};
use super::follower::Pulse;
use super::phase::{Attempt, MAX_IMMEDIATE_REPEATS, MissingResource, Phase, SplitCheck, Watch};
use super::raising::{self, report_no_date};
use super::releasing::give_back;
use crate::Moment;
use crate::mutants::mutant;
use crate::record::metadata::{Record, UnusableRecord, ValidatedRecord};
use crate::record::next_record::next_record;
use crate::schedule::turns::Turns;
use crate::step::pace::{Chance, RetrySchedule, fresh_lease_id};
use crate::step::problem::{Problem, ProblemClass};
use crate::step::settings::timings::BACK_OFF;
use tenure_azure::answer::{Class, LeaseState, Properties};
use tenure_azure::blob::LeaseId;
use tenure_azure::operation::{ETag, Operation};
use tenure_base::prelude::*;

/// Error codes of a creation if another candidate created the blob first.
const BLOB_EXISTS: [&str; 2] = ["BlobAlreadyExists", "LeaseIdMissing"];

/// Returns the next request: a poll, the creation of a missing resource, or the break of the lease
/// of a leader whose promise ended.
pub(crate) fn next(mut watch: Watch, context: &Context<'_>) -> (Phase, Option<UnsignedRequest>) {
    let (now, follower) = (context.now, &context.state.follower);
    let promise_now = promise_clock(now, context);
    let may_contend = !context.is_ineligible();
    // The candidate may have become ineligible since it found the blob missing.
    watch.missing = watch.missing.filter(|_| may_contend);
    let expired_pulse =
        follower.pulse.as_ref().filter(|pulse| may_contend && pulse.is_takeover_due(promise_now));
    let operation = match watch.missing {
        None => expired_pulse
            .map_or(Operation::Read { lease: follower.poll_lease(now) }, Pulse::take_over),
        Some(MissingResource::Blob) => Operation::CreateBlob,
        Some(MissingResource::Container) => Operation::CreateContainer,
    };
    let timings = &context.settings.timings;
    let timeout = match timings.failover {
        // If the service is slow, the next try has more time.
        Some(failover) if follower.pulse.is_some() && watch.pace.failures == 0 => {
            failover.poll_timeout().min(timings.request_timeout)
        }
        _ => timings.request_timeout,
    };
    let outgoing =
        (watch.pace.next_at <= context.now).then_some(UnsignedRequest { operation, timeout });
    (Phase::Watching(watch), outgoing)
}

/// Handles the answer. After a hint the next poll may come soon.
pub(crate) fn on_answer(
    watch: Watch,
    completed: CompletedRequest<'_>,
    context: &mut Context<'_>,
) -> Phase {
    let (sent, was_poll) =
        (completed.sent_at, matches!(completed.operation, Operation::Read { .. }));
    let mut phase = handle_answer(watch, completed, context);
    if !was_poll {
        return phase;
    }
    // A poll that a hint brought forward counts against the limit, whatever its result.
    let State { follower, hints, .. } = &mut context.state;
    let next = hints.on_poll(sent, follower.known_term(), context.now);
    match (&mut phase, next) {
        // A pending announcement needs the time until the next poll.
        (Phase::Watching(watch), Some(next))
            if watch.missing.is_none() && !follower.has_request() =>
        {
            watch.pace.next_at = watch.pace.next_at.min(next);
        }
        _ => hints.clear(),
    }
    phase
}

fn handle_answer(
    watch: Watch,
    completed: CompletedRequest<'_>,
    context: &mut Context<'_>,
) -> Phase {
    match completed.operation {
        Operation::Read { lease: Some(lease) } => {
            return on_successor_read(*lease, completed, context);
        }
        Operation::Break { .. } => return on_break_answer(watch, completed, context),
        _ => {}
    }
    if let Some(missing) = watch.missing {
        return on_creation_answer(missing, watch, completed, context);
    }
    if !context.has_pending_side_blob_request() {
        context.state.follower.clear_request();
    }
    let Some(answer) = completed.answer() else {
        return poll_later(watch, completed, context);
    };
    match (answer.class, &answer.properties, &answer.etag) {
        (Class::Done, Some(properties), Some(etag)) => {
            let received_at =
                if mutant!(PromiseFromPoll) { completed.sent_at } else { context.now };
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

/// Handles a poll that found the blob: follows the leader, or contends.
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
            if let Some(detail) = ignored {
                context.report_problem(ProblemClass::Configuration, detail);
            }
            record
        }
        // If two dates differ, the date of the next answer shows which is wrong.
        Err(UnusableRecord { depends_on_time: true, .. })
            if context.service_time().is_none()
                && watch.immediate_repeats < MAX_IMMEDIATE_REPEATS =>
        {
            return poll_again(watch.immediate_repeats, context, chance);
        }
        Err(problem) => return reject_blob(problem, context, chance),
    };
    context.state.follower.pulse = match properties.lease {
        LeaseState::Leased => observe_pulse(record.as_ref(), etag, received_at, context, chance),
        _ => None,
    };
    context.effects.turns = record.as_ref().zip(time).map(|(record, now)| {
        let is_running = !record.is_ended() && properties.lease == LeaseState::Leased;
        Turns::from_record(record, is_running, now, &context.settings.agenda)
    });
    let schedule = record.as_ref().and_then(|record| record.schedule.as_deref());
    // No candidate holds a lease without an end, so there is no schedule to compare with.
    let schedule_mismatch = Problem::schedule_mismatch(schedule, context.settings)
        .filter(|_| properties.lease != LeaseState::Infinite);
    context.report(schedule_mismatch);
    match properties.lease {
        LeaseState::Leased | LeaseState::Breaking => follow(record, context, chance),
        _ if time.is_none() => {
            report_no_date(context);
            Phase::Watching(Watch::at(context.next_follower_request(chance)))
        }
        LeaseState::Infinite => {
            context.report(Some(Problem::infinite_lease(context.settings)));
            stay_out(context, chance)
        }
        LeaseState::Available | LeaseState::Expired | LeaseState::Broken => {
            contend(etag.clone(), record, watch.immediate_repeats, context, chance)
        }
    }
}

/// Converts an instant to the clock by which a follower counts a leader's promise.
fn promise_clock(instant: Moment, context: &Context<'_>) -> Moment {
    if mutant!(PromiseByTheFasterClock) { instant } else { context.without_clock_lead(instant) }
}

/// Returns the beat of a leader that this candidate may take over from, as shown by an answer
/// received at `received_at`.
fn observe_pulse(
    record: Option<&Record>,
    etag: &ETag,
    received_at: Moment,
    context: &mut Context<'_>,
    chance: &mut dyn Chance,
) -> Option<Pulse> {
    let previous = context.state.follower.pulse.take();
    let record = record.filter(|_| !context.is_ineligible())?;
    let (received_at, own_failover) =
        (promise_clock(received_at, context), context.settings.timings.failover);
    let pulse = Pulse::observe(previous, record, etag, received_at, own_failover, chance)?;
    validate_next_record(Some(record.clone()), context).is_ok().then_some(pulse)
}

/// Handles the answer to a break. After a success the candidate contends, with the tag and the
/// record of the beat.
fn on_break_answer(
    mut watch: Watch,
    completed: CompletedRequest<'_>,
    context: &mut Context<'_>,
) -> Phase {
    let pulse = context.state.follower.pulse.take();
    if mutant!(TimerNotRestarted) {
        context.state.follower.pulse.clone_from(&pulse);
    }
    match (completed.class(), pulse) {
        (Some(Class::Done), Some(pulse)) => {
            let (etag, record) = pulse.into_parts();
            contend(etag, Some(record), watch.immediate_repeats, context, completed.chance)
        }
        (Some(Class::Refused), _) => poll_later(watch, completed, context),
        // The result of the break is unknown: a poll shows it.
        (Some(Class::Unavailable | Class::Nonsense) | None, pulse) => {
            let promise_now = promise_clock(context.now, context);
            let chance = &mut *completed.chance;
            context.state.follower.pulse =
                pulse.map(|pulse| pulse.on_break_unanswered(promise_now, chance));
            watch.pace.on_failure(context.now, BACK_OFF, chance);
            Phase::Watching(watch)
        }
        // The leader beat again, or another candidate took over.
        _ => poll_again(watch.immediate_repeats, context, completed.chance),
    }
}

/// Follows the holder of the lease, and prepares the announcement.
fn follow(record: Option<Record>, context: &mut Context<'_>, chance: &mut dyn Chance) -> Phase {
    let (now, settings, is_ineligible) = (context.now, context.settings, context.is_ineligible());
    let has_pending_request = context.has_pending_side_blob_request();
    let follower = &mut context.state.follower;
    // If this candidate could not release its own lease, it is the holder, and there is no leader.
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
        follower.announce(record, (is_ineligible, has_pending_request), settings, now, chance);
    }
    follower.following = (!is_own).then(|| leader.as_ref().map(Record::incumbent));
    context.report(unsplit_problem);
    let mut next = context.next_poll(chance);
    if let Some(pulse) = &context.state.follower.pulse {
        let promise_now = promise_clock(now, context);
        // A follower without failover takes over at its ordinary polls only.
        let may_take_over =
            settings.timings.failover.is_some() || pulse.is_takeover_due(promise_now);
        let takeover_at = pulse.takeover_at().filter(|_| may_take_over);
        next = takeover_at.map_or(next, |at| next.min(now + at.saturating_sub(promise_now)));
    }
    Phase::Watching(Watch::at(next))
}

/// Starts an attempt to acquire the lease, since no candidate leads. There is no attempt if this
/// candidate is ineligible, or could not lead with the record on the blob.
fn contend(
    etag: ETag,
    record: Option<Record>,
    immediate_repeats: u32,
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
    // Orders that came during an earlier attempt are void, and so is the announced lease id.
    context.state.steering.clear();
    context.state.follower.successor = None;
    let (lease, pace) = (fresh_lease_id(chance), RetrySchedule::due_at(context.now));
    let check = SplitCheck::new(record.as_ref(), context.settings);
    let (may_be_granted, is_handed_over) = (false, false);
    Phase::Acquiring(Attempt {
        lease,
        etag,
        record,
        may_be_granted,
        pace,
        immediate_repeats,
        is_handed_over,
        check,
    })
}

/// Validates the record that this candidate would write as the next leader after `record`.
fn validate_next_record(
    record: Option<Record>,
    context: &Context<'_>,
) -> Result<(), UnusableRecord> {
    let (settings, state) = (context.settings, &context.state);
    let since = context.service_estimate().unwrap_or_default();
    next_record(settings, state.nonce, &state.claims, record, since)
        .validate_next(&settings.election)
}

/// Reports a blob that no candidate can lead with, and stays out. A closed share is no problem.
fn reject_blob(
    problem: UnusableRecord,
    context: &mut Context<'_>,
    chance: &mut dyn Chance,
) -> Phase {
    if !problem.is_closed {
        context.report(Some(Problem::from_unusable(problem)));
    }
    stay_out(context, chance)
}

/// Does not contend for now, although no candidate leads.
fn stay_out(context: &mut Context<'_>, chance: &mut dyn Chance) -> Phase {
    clear_leader(context);
    Phase::Watching(Watch::at(context.next_follower_request(chance)))
}

/// Clears the known leader and its promise.
fn clear_leader(context: &mut Context<'_>) {
    (context.state.follower.following, context.state.follower.pulse) = (None, None);
}

fn create(missing: MissingResource, watch: Watch) -> Phase {
    Phase::Watching(Watch { missing: Some(missing), ..watch })
}

/// Handles the answer to a creation.
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
            contend(etag.clone(), None, watch.immediate_repeats, context, completed.chance)
        }
        (Class::Conflict, ..) if is_deleting => poll_later(watch, completed, context),
        // This or another candidate created the container.
        (Class::Done | Class::Conflict, MissingResource::Container, _) => {
            create(MissingResource::Blob, watch)
        }
        (Class::MissingContainer, MissingResource::Blob, _)
            if watch.immediate_repeats < MAX_IMMEDIATE_REPEATS =>
        {
            watch.immediate_repeats += 1;
            create(MissingResource::Container, watch)
        }
        // Another candidate created the blob, and may lead already.
        (
            Class::Conflict | Class::LeaseMismatch | Class::ConditionNotMet,
            MissingResource::Blob,
            _,
        ) => {
            report_unless(&BLOB_EXISTS, &completed, context);
            poll_again(watch.immediate_repeats, context, completed.chance)
        }
        _ => poll_later(watch, completed, context),
    }
}

/// Reports an answer with an error code that is not among the expected ones.
pub(crate) fn report_unless(
    expected: &[&str],
    completed: &CompletedRequest<'_>,
    context: &mut Context<'_>,
) {
    let code = completed.answer().and_then(|answer| answer.code.as_deref());
    if code.is_some_and(|code| !expected.contains(&code)) {
        context.report_failure(completed);
    }
}

/// Polls again at once, because the blob changed since it was read. After the maximum of immediate
/// repetitions, the poll waits as usual.
pub(crate) fn poll_again(
    immediate_repeats: u32,
    context: &Context<'_>,
    chance: &mut dyn Chance,
) -> Phase {
    if immediate_repeats < MAX_IMMEDIATE_REPEATS {
        return Phase::Watching(Watch {
            immediate_repeats: immediate_repeats + 1,
            ..Watch::at(context.now)
        });
    }
    Phase::Watching(Watch::at(context.next_follower_request(chance)))
}

/// Polls again after a request that failed: at once after a first unknown outcome, otherwise at the
/// next poll.
fn poll_later(watch: Watch, completed: CompletedRequest<'_>, context: &mut Context<'_>) -> Phase {
    let Watch { mut pace, immediate_repeats, .. } = watch;
    if completed.is_outcome_unknown() && pace.failures == 0 {
        pace.on_failure(context.now, BACK_OFF, completed.chance);
        return Phase::Watching(Watch { missing: None, pace, immediate_repeats });
    }
    context.report_failure(&completed);
    let failures = pace.failures.saturating_add(1);
    pace = RetrySchedule { next_at: context.next_poll(completed.chance), failures };
    if mutant!(StopsWhenRefused) && completed.is_refused() {
        pace.next_at = Moment::MAX;
    }
    Phase::Watching(Watch { missing: None, pace, immediate_repeats: 0 })
}

/// Handles the answer to a read with the lease id of this successor.
fn on_successor_read(
    lease: LeaseId,
    completed: CompletedRequest<'_>,
    context: &mut Context<'_>,
) -> Phase {
    let held_blob = completed.answer().and_then(|answer| {
        let (properties, etag) = (answer.properties.as_ref()?, answer.etag.clone()?);
        (answer.class == Class::Done && properties.lease == LeaseState::Leased)
            .then_some((properties, etag))
    });
    if let Some((properties, etag)) = held_blob {
        return inherit(lease, properties, etag, context, completed.chance);
    }
    let must_wait = completed.answer().is_some_and(|answer| {
        let code = answer.code.as_deref().unwrap_or_default();
        answer.class == Class::LeaseMismatch && code.starts_with("LeaseIdMismatch")
    });
    let (now, follower) = (context.now, &mut context.state.follower);
    let next = if must_wait || completed.is_outcome_unknown() {
        // The leader still has the lease, or the state is unknown.
        let (quick, _) = follower.poll_intervals();
        follower.time_for_request(context.settings).map_or(now + quick, |time| now + time)
    } else {
        // The next poll shows the state.
        follower.poll_normally(now);
        now
    };
    Phase::Watching(Watch::at(next))
}

/// Takes the lease that the leader gave to this successor. The record is validated as before any
/// other attempt.
fn inherit(
    lease: LeaseId,
    properties: &Properties,
    etag: ETag,
    context: &mut Context<'_>,
    chance: &mut dyn Chance,
) -> Phase {
    let time = context.service_time();
    let validated = Record::validate(&context.settings.election, properties, time);
    let validated = validated.and_then(|current| {
        validate_next_record(current.record.clone(), context).map(|()| current.record)
    });
    context.state.follower.clear_request();
    context.state.follower.successor = None;
    context.state.follower.pulse = None;
    let record = match validated {
        // The candidate became ineligible meanwhile.
        _ if context.is_ineligible() => return Phase::Releasing(give_back(lease, context)),
        Ok(record) => record,
        // The lease is given back: while this candidate holds it, no other candidate can lead.
        Err(problem) => {
            context.report(Some(Problem::from_unusable(problem)));
            return Phase::Releasing(give_back(lease, context));
        }
    };
    context.state.follower.following = None;
    context.state.steering.clear();
    // Acquiring the lease again sets its length to that of this candidate's settings. A renewal
    // would keep the length that the former leader set.
    let (pace, immediate_repeats) = (RetrySchedule::due_at(context.now), MAX_IMMEDIATE_REPEATS);
    let (may_be_granted, is_handed_over) = (true, true);
    let attempt = Attempt {
        lease,
        etag,
        record,
        may_be_granted,
        pace,
        immediate_repeats,
        is_handed_over,
        check: None,
    };
    match mutant!(SuccessorDoesNotAcquire) {
        true => raising::start(attempt, context.now, context, chance),
        false => Phase::Acquiring(attempt),
    }
}
