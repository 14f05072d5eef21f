//! Polling, and making what is not there. protocol.md §4.1. How a successor polls for the lease that it
//! is given is in `inheriting`.

mod inheriting;

use super::Moment;
use super::chance::{Chance, lease_id};
use super::context::{Answered, Context, Outgoing, State};
use super::next_record::next_record;
use super::pace::Pace;
use super::phase::{Attempt, MOST_ROUNDS, Missing, Phase, SplitCheck, Watch};
use super::problem::{Problem, ProblemClass};
use super::pulse::Pulse;
use super::raising::report_no_date;
use super::record::{Judged, Record, Unusable};
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
pub(super) fn next(mut watch: Watch, context: &Context<'_>) -> (Phase, Option<Outgoing>) {
    let (now, follower) = (context.now, &context.state.follower);
    let slow = slow(now, context);
    let contends = !context.stays_out();
    // It may have been paused since it found the blob missing.
    watch.missing = watch.missing.filter(|_| contends);
    let over = follower.pulse.as_ref().filter(|pulse| contends && pulse.is_over(slow));
    let operation = match watch.missing {
        None => over.map_or(Operation::Read { lease: follower.poll_as(now) }, Pulse::take_over),
        Some(Missing::Blob) => Operation::CreateBlob,
        Some(Missing::Container) => Operation::CreateContainer,
    };
    let timings = &context.settings.timings;
    let timeout = match timings.failover {
        // Where the service is slow, the next try has more time.
        Some(failover) if follower.pulse.is_some() && watch.pace.failures == 0 => {
            failover.look_timeout().min(timings.request_timeout)
        }
        _ => timings.request_timeout,
    };
    let outgoing = (watch.pace.next <= context.now).then_some(Outgoing { operation, timeout });
    (Phase::Watching(watch), outgoing)
}

/// Takes the answer. After a hint the next poll may come soon.
pub(super) fn answered(watch: Watch, answered: Answered<'_>, context: &mut Context<'_>) -> Phase {
    let (sent, polled) = (answered.sent, matches!(answered.operation, Operation::Read { .. }));
    let mut phase = judged(watch, answered, context);
    if !polled {
        return phase;
    }
    // It counts, whatever came of it.
    let State { follower, hints, .. } = &mut context.state;
    let next = hints.polled(sent, follower.known_term(), context.now);
    match (&mut phase, next) {
        // What is to be told to the leader needs the time until the next poll.
        (Phase::Watching(watch), Some(next))
            if watch.missing.is_none() && !follower.has_request() =>
        {
            watch.pace.next = watch.pace.next.min(next);
        }
        _ => hints.settle(),
    }
    phase
}

fn judged(watch: Watch, answered: Answered<'_>, context: &mut Context<'_>) -> Phase {
    match answered.operation {
        Operation::Read { lease: Some(lease) } => {
            return inheriting::answered(*lease, answered, context);
        }
        Operation::Break { .. } => return broken(watch, answered, context),
        _ => {}
    }
    if let Some(missing) = watch.missing {
        return created(missing, watch, answered, context);
    }
    if !context.tells_beside() {
        context.state.follower.forget_request();
    }
    let Some(answer) = answered.answer() else {
        return poll_later(watch, answered, context);
    };
    match (answer.class, &answer.properties, &answer.etag) {
        (Class::Done, Some(properties), Some(etag)) => {
            let received = if mutant!(PromiseFromLook) { answered.sent } else { context.now };
            read(watch, properties, (etag, received), context, answered.chance)
        }
        (Class::MissingBlob | Class::MissingContainer, ..) if context.stays_out() => {
            stay_out(context, answered.chance)
        }
        (Class::MissingBlob, ..) => create(Missing::Blob, watch),
        (Class::MissingContainer, ..) => create(Missing::Container, watch),
        _ => poll_later(watch, answered, context),
    }
}

/// The blob was read: somebody leads, or this candidate contends.
fn read(
    watch: Watch,
    properties: &Properties,
    (etag, received): (&ETag, Moment),
    context: &mut Context<'_>,
    chance: &mut dyn Chance,
) -> Phase {
    let time = context.service_estimate();
    let record = match Record::judge(&context.settings.election, properties, time) {
        Ok(Judged { record, ignored }) => {
            // What no candidate writes counts as missing.
            if let Some(detail) = ignored {
                context.report_problem(ProblemClass::Configuration, detail);
            }
            record
        }
        // Of two dates that differ, the next one shows which is wrong.
        Err(Unusable { by_time: true, .. })
            if context.service_time().is_none() && watch.rounds < MOST_ROUNDS =>
        {
            return poll_again(watch.rounds, context, chance);
        }
        Err(problem) => return refuse(problem, context, chance),
    };
    context.state.follower.pulse = match properties.lease {
        LeaseState::Leased => pulse(record.as_ref(), etag, received, context, chance),
        _ => None,
    };
    context.effects.turns = record.as_ref().zip(time).map(|(record, now)| {
        let runs = !record.is_ended() && properties.lease == LeaseState::Leased;
        Turns::of(record, runs, now, &context.settings.agenda)
    });
    let schedule = record.as_ref().and_then(|record| record.schedule.as_deref());
    // A lease without an end is no leader's.
    let other_schedule = Problem::of_schedules(schedule, context.settings)
        .filter(|_| properties.lease != LeaseState::Infinite);
    context.report(other_schedule);
    match properties.lease {
        LeaseState::Leased | LeaseState::Breaking => follow(record, context, chance),
        _ if time.is_none() => {
            report_no_date(context);
            Phase::Watching(Watch::at(context.next_try(chance)))
        }
        LeaseState::Infinite => {
            context.report(Some(Problem::of_infinite_lease(context.settings)));
            stay_out(context, chance)
        }
        LeaseState::Available | LeaseState::Expired | LeaseState::Broken => {
            contend(etag.clone(), record, watch.rounds, context, chance)
        }
    }
}

/// By which clock the promise of a leader is counted.
fn slow(instant: Moment, context: &Context<'_>) -> Moment {
    if mutant!(PromiseByTheFasterClock) { instant } else { context.slow(instant) }
}

/// The beat of a leader that this candidate may take over from, as it was seen in an answer that was
/// `received` then.
fn pulse(
    record: Option<&Record>,
    etag: &ETag,
    received: Moment,
    context: &mut Context<'_>,
    chance: &mut dyn Chance,
) -> Option<Pulse> {
    let before = context.state.follower.pulse.take();
    let record = record.filter(|_| !context.stays_out())?;
    let (received, own) = (slow(received, context), context.settings.timings.failover);
    let pulse = Pulse::seen(before, record, etag, received, own, chance)?;
    judge_next(Some(record.clone()), context).is_ok().then_some(pulse)
}

/// Takes the answer to a break: the lease is acquired if nothing was written since.
fn broken(mut watch: Watch, answered: Answered<'_>, context: &mut Context<'_>) -> Phase {
    let pulse = context.state.follower.pulse.take();
    if mutant!(TimerNotRestarted) {
        context.state.follower.pulse.clone_from(&pulse);
    }
    match (answered.class(), pulse) {
        (Some(Class::Done), Some(pulse)) => {
            let (etag, record) = pulse.into_parts();
            contend(etag, Some(record), watch.rounds, context, answered.chance)
        }
        (Some(Class::Refused), _) => poll_later(watch, answered, context),
        // It may be broken or not: a look tells.
        (Some(Class::Unavailable | Class::Nonsense) | None, pulse) => {
            let slow = slow(context.now, context);
            let chance = &mut *answered.chance;
            context.state.follower.pulse = pulse.map(|pulse| pulse.doubted(slow, chance));
            watch.pace.failed(context.now, BACK_OFF, chance);
            Phase::Watching(watch)
        }
        // The leader beat again, or somebody else took over.
        _ => poll_again(watch.rounds, context, answered.chance),
    }
}

/// Somebody holds the lease: what to tell the leader is put forward.
fn follow(record: Option<Record>, context: &mut Context<'_>, chance: &mut dyn Chance) -> Phase {
    let (now, settings, stays_out) = (context.now, context.settings, context.stays_out());
    let under_way = context.tells_beside();
    let follower = &mut context.state.follower;
    // A lease of our own that could not be released is nobody's.
    let own = record.as_ref().is_some_and(|record| record.nonce == context.state.nonce);
    let leader = record.filter(|_| !own);
    let runs_all =
        leader.as_ref().filter(|record| settings.coordinates && !record.is_coordinated());
    let whole = runs_all.map(|record| {
        let (leader, election) = (&record.leader, &settings.election);
        let detail = format!(
            "{leader} leads {election} without --shares, and runs all of its work. The processes that have --shares wait \
             until it no longer leads; end it, or start it with --shares"
        );
        Problem { class: ProblemClass::Configuration, detail }
    });
    if let Some(record) = &leader {
        follower.announce(record, (stays_out, under_way), settings, now, chance);
    }
    follower.following = (!own).then(|| leader.as_ref().map(Record::incumbent));
    context.report(whole);
    let mut next = context.next_poll(chance);
    if let Some(pulse) = &context.state.follower.pulse {
        let slow = slow(now, context);
        let at_the_end = settings.timings.failover.is_some() || pulse.is_over(slow);
        let end = pulse.ends().filter(|_| at_the_end);
        next = end.map_or(next, |end| next.min(now + end.saturating_sub(slow)));
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
    if context.stays_out() {
        return stay_out(context, chance);
    }
    if let Err(problem) = judge_next(record.clone(), context) {
        return refuse(problem, context, chance);
    }
    nobody_leads(context);
    // Orders to an attempt that failed are void, and so is the id that was announced.
    context.state.steering.settle();
    context.state.follower.successor = None;
    let (lease, pace) = (lease_id(chance), Pace::at(context.now));
    let check = SplitCheck::begin(record.as_ref(), context.settings);
    let (unsure, handed) = (false, false);
    Phase::Acquiring(Attempt { lease, etag, record, unsure, pace, rounds, handed, check })
}

/// Whether this candidate could lead with what its record would be.
fn judge_next(record: Option<Record>, context: &Context<'_>) -> Result<(), Unusable> {
    let (settings, state) = (context.settings, &context.state);
    let since = context.service_estimate().unwrap_or_default();
    next_record(settings, state.nonce, &state.began, record, since).judge_next(&settings.election)
}

/// The blob cannot be led with as it is.
fn refuse(problem: Unusable, context: &mut Context<'_>, chance: &mut dyn Chance) -> Phase {
    if !problem.is_closed {
        context.report(Some(Problem::of_unusable(problem)));
    }
    stay_out(context, chance)
}

/// Nobody leads, but this candidate leaves the lease to the others for now.
fn stay_out(context: &mut Context<'_>, chance: &mut dyn Chance) -> Phase {
    nobody_leads(context);
    Phase::Watching(Watch::at(context.next_try(chance)))
}

/// As far as is known; a promise that was seen before is nobody's.
fn nobody_leads(context: &mut Context<'_>) {
    (context.state.follower.following, context.state.follower.pulse) = (None, None);
}

fn create(missing: Missing, watch: Watch) -> Phase {
    Phase::Watching(Watch { missing: Some(missing), ..watch })
}

/// Takes the answer to a creation.
fn created(
    missing: Missing,
    mut watch: Watch,
    answered: Answered<'_>,
    context: &mut Context<'_>,
) -> Phase {
    nobody_leads(context);
    let Some(answer) = answered.answer() else {
        return poll_later(watch, answered, context);
    };
    let deleting = answer.code.as_deref() == Some("ContainerBeingDeleted");
    match (answer.class, missing, &answer.etag) {
        (Class::Done, Missing::Blob, Some(etag)) => {
            contend(etag.clone(), None, watch.rounds, context, answered.chance)
        }
        (Class::Conflict, ..) if deleting => poll_later(watch, answered, context),
        // Done, or somebody else made the container.
        (Class::Done | Class::Conflict, Missing::Container, _) => create(Missing::Blob, watch),
        (Class::MissingContainer, Missing::Blob, _) if watch.rounds < MOST_ROUNDS => {
            watch.rounds += 1;
            create(Missing::Container, watch)
        }
        // Somebody else made the blob, and may lead already.
        (Class::Conflict | Class::LeaseMismatch | Class::ConditionNotMet, Missing::Blob, _) => {
            report_unless(&IT_EXISTS, &answered, context);
            poll_again(watch.rounds, context, answered.chance)
        }
        _ => poll_later(watch, answered, context),
    }
}

/// Reports an answer whose code is none of those that are part of the protocol.
pub(super) fn report_unless(expected: &[&str], answered: &Answered<'_>, context: &mut Context<'_>) {
    let code = answered.answer().and_then(|answer| answer.code.as_deref());
    if code.is_some_and(|code| !expected.contains(&code)) {
        context.report_reply(answered);
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
fn poll_later(watch: Watch, answered: Answered<'_>, context: &mut Context<'_>) -> Phase {
    let Watch { mut pace, rounds, .. } = watch;
    if answered.is_unknown() && pace.failures == 0 {
        pace.failed(context.now, BACK_OFF, answered.chance);
        return Phase::Watching(Watch { missing: None, pace, rounds });
    }
    context.report_reply(&answered);
    let failures = pace.failures.saturating_add(1);
    pace = Pace { next: context.next_poll(answered.chance), failures };
    if mutant!(StopsWhenRefused) && answered.is_refused() {
        pace.next = Moment::MAX;
    }
    Phase::Watching(Watch { missing: None, pace, rounds: 0 })
}
