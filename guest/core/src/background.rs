//! Background requests: what a candidate sends in its spare time, when nothing else is due. A token is
//! renewed long before it ends; a side blob is read or written. protocol.md §5.
//!
//! They wait in one queue, with one rule: the first goes out that is due, may be sent, and has enough time
//! before something else is due. A leader that does not hear of its newest renewal has no spare time. One
//! that does is called for a background request at once, because the step that renews ends with that.
//!
//! A candidate that is to take over before a lease ends has no spare time at all: its requests go out beside
//! the steps, one at a time, and the host tells of the answer (protocol.md §13).

use core::time::Duration;

use chrono::{DateTime, Utc};

use super::Moment;
use super::announcement::Announcement;
use super::beside::{InFlight, Of};
use super::chance::Chance;
use super::context::{Answered, Beside, Context, Outgoing, Todo};
use super::credential_state::{self, CredentialState, Fetched, LEAST_FETCH, LONGEST_FETCH};
use super::handing_over;
use super::listing;
use super::orders;
use super::phase::{Hold, Phase};
use super::problem::{Problem, ProblemClass};
use super::report::{Exchange, ExchangeResult, Told};
use super::settings::Settings;
use super::side_blob_rules::{self, LEAST_TIMEOUT, LONGEST_TIMEOUT};
use tenure_azure::answer::Answer;
use tenure_azure::credential::Pass;
use tenure_azure::metadata::Metadata;
use tenure_azure::name::SideBlob;
use tenure_azure::operation::{Kind, Operation};
use tenure_base::prelude::*;

/// The longest that an early request for a token may take, where steps wait for it.
const LONGEST_EARLY: Duration = Duration::from_secs(3);

/// A request that waits for spare time.
pub(super) struct Waiting {
    what: What,
    pub due: Moment,
    /// With less time it is not sent.
    pub least: Duration,
    /// So long it may take also where something else is due before.
    beside: Duration,
    longest: Duration,
}

enum What {
    Token,
    SideBlob(Operation),
}

impl Waiting {
    /// What to send with so much spare time. Without a pass only a token can be asked for.
    fn send(self, spare: Duration, pass: Option<&Pass>, context: &Context<'_>) -> Option<Todo> {
        let timeout =
            if spare.is_zero() { spare } else { spare.max(self.beside).min(self.longest) };
        if context.now < self.due || timeout < self.least {
            return None;
        }
        match self.what {
            What::Token => {
                let settings = context.settings;
                let early = pass.is_some() && settings.timings.failover.is_none();
                let timeout = if early { timeout.min(LONGEST_EARLY) } else { timeout };
                let credential = settings.account.credential();
                CredentialState::fetch(credential, timeout).map(Todo::Fetch)
            }
            What::SideBlob(operation) => {
                // Hosts that wait by other clocks give up in the same instant.
                let timeout = Duration::from_millis(u64::try_from(timeout.as_millis()).ok()?);
                Some(Outgoing { operation, timeout }.signed(pass?.clone()))
            }
        }
    }
}

/// A host that was told to send something has its answer, or none, so long after the time-out.
const TOLD: Duration = Duration::from_secs(5);

/// Sends the request that is due beside the steps, unless another one is under way.
pub(super) fn beside(phase: &Phase, pass: Option<&Pass>, context: &mut Context<'_>) {
    let now = context.now;
    if context.state.beside.as_ref().is_some_and(|under_way| now < under_way.until) {
        return;
    }
    let spare = Duration::MAX;
    let Some(todo) =
        queue(phase, context).into_iter().find_map(|waiting| waiting.send(spare, pass, context))
    else {
        return;
    };
    let (of, timeout, request) = match todo {
        Todo::Fetch(fetch) => (Of::Token, fetch.timeout, Beside::Fetch(fetch)),
        Todo::Send(ask) => {
            let of = match &ask.operation {
                Operation::WriteSideBlob { blob, .. } => Of::Writing(*blob),
                Operation::ReadSideBlob(blob) => Of::Reading(*blob),
                _ => return,
            };
            (of, ask.timeout, Beside::Send(ask))
        }
        Todo::Rest(_) => return,
    };
    let (until, credential) = (now + timeout + TOLD, context.state.credential_state.changes());
    context.state.beside = Some(InFlight { of, sent: now, credential, until });
    context.effects.beside = Some(request);
}

/// When another one can go out, if one is under way.
pub(super) fn under_way_until(context: &Context<'_>) -> Option<Moment> {
    let under_way = context.state.beside.as_ref()?;
    Some(under_way.until).filter(|until| *until > context.now)
}

/// Takes the answer to a request that went out beside the steps.
pub(super) fn beside_answered(
    told: Told,
    mut phase: Phase,
    context: &mut Context<'_>,
    chance: &mut dyn Chance,
) -> Phase {
    let Some(InFlight { of, sent, credential, .. }) = context.state.beside.take() else {
        return phase;
    };
    let Told { reply, at } = told;
    let operation = match of {
        Of::Token => {
            let date = context.service_estimate().unwrap_or(at).to_date();
            let reply = reply.map(|raw| (raw.status, raw.body));
            fetched(sent, reply, date, (&mut phase, context), chance);
            return phase;
        }
        Of::Reading(blob) => Operation::ReadSideBlob(blob),
        Of::Writing(blob) => {
            Operation::WriteSideBlob { blob, over: None, metadata: Metadata::default() }
        }
    };
    let (Of::Reading(blob) | Of::Writing(blob)) = of else { return phase };
    let reply =
        reply.map(|raw| Answer::read(&operation, raw.status, &raw.headers).with_body(&raw.body));
    let mut answered = Answered { operation: &operation, reply: &reply, sent, chance };
    let result = answered.class().map_or(ExchangeResult::Unanswered, ExchangeResult::of);
    let took = context.now.saturating_sub(sent);
    context.effects.exchanges.push(Exchange { what: operation.kind(), result, took });
    let is_replaced = credential != context.state.credential_state.changes();
    if is_replaced && answered.answer().is_some_and(credential_state::is_refused) {
        // The request is still due, and goes out again with the key or token that is in use now.
        return phase;
    }
    side_blob_answered(blob, &mut answered, &mut phase, context);
    phase
}

/// The background request that goes out now.
pub(super) fn next(
    phase: &Phase,
    spare: Duration,
    pass: Option<&Pass>,
    context: &Context<'_>,
) -> Option<Todo> {
    if pass.is_none() && !spare.is_zero() {
        return missing_token(phase, context);
    }
    queue(phase, context).into_iter().find_map(|waiting| waiting.send(spare, pass, context))
}

/// The request for a token, which everything else waits for: it has all the time that there is.
pub(super) fn missing_token(phase: &Phase, context: &Context<'_>) -> Option<Todo> {
    let left = match phase {
        Phase::Holding(hold) => hold.valid_until.saturating_sub(context.now),
        Phase::Raising(raise) => raise.valid_until.saturating_sub(context.now),
        _ => LONGEST_FETCH,
    };
    token(context)?.send(left, None, context)
}

fn token(context: &Context<'_>) -> Option<Waiting> {
    let due = context.state.credential_state.due(context.settings.account.credential())?;
    let (least, longest) = (LEAST_FETCH, LONGEST_FETCH);
    Some(Waiting { what: What::Token, due, least, beside: Duration::ZERO, longest })
}

/// What waits, the most urgent first. Where requests take long there is spare time for one only. What a
/// handover waits for comes first then: it has a limit.
pub(super) fn queue(phase: &Phase, context: &Context<'_>) -> Vec<Waiting> {
    let hurries =
        context.state.steering.hand_over().is_some() || context.state.follower.named().is_some();
    let mut queue = Vec::new();
    match phase {
        Phase::Watching(_) => queue.extend(of_follower(context)),
        Phase::Holding(hold) => queue.extend(of_leader(hold, context).into_iter().flatten()),
        _ => {}
    }
    // A handover, which has a limit, is not kept waiting by what nobody waits for.
    if !hurries && matches!(phase, Phase::Watching(_) | Phase::Holding(_)) {
        queue.extend(of_list(context));
    }
    let at = if hurries { queue.len() } else { 0 };
    if let Some(token) = token(context) {
        queue.insert(at, token);
    }
    queue
}

fn side_blob(operation: Operation, due: Moment, longest: Duration) -> Waiting {
    let what = What::SideBlob(operation);
    Waiting { what, due, least: LEAST_TIMEOUT, beside: Duration::ZERO, longest }
}

/// What is due about the list of candidates: the last of all.
fn of_list(context: &Context<'_>) -> Option<Waiting> {
    let (state, settings) = (&context.state, context.settings);
    let time = context.service_time();
    let (due, operation) = state.listing.request(settings, !state.steering.not_ready, time)?;
    Some(side_blob(operation, due, LONGEST_TIMEOUT))
}

/// The request about the announcement of a follower, however far away the service is.
fn of_follower(context: &Context<'_>) -> Option<Waiting> {
    let (follower, settings) = (&context.state.follower, context.settings);
    let longest = settings.timings.request_timeout;
    Some(side_blob(follower.operation(settings)?, context.now, longest))
}

/// The reads for an announcement and for orders, which may take longer if only a renewal is due.
fn of_leader(hold: &Hold, context: &Context<'_>) -> [Option<Waiting>; 2] {
    let timings = &context.settings.timings;
    let patient = |blob, due| {
        let read = Operation::ReadSideBlob(blob);
        let beside = timings.beside_renewals(context.now, hold.valid_until);
        Waiting { beside, ..side_blob(read, due, timings.request_timeout) }
    };
    let announcement = handing_over::read_due(hold, context);
    let announcement = announcement.map(|due| patient(SideBlob::Successor, due));
    let orders = patient(SideBlob::Orders, hold.orders.read_at);
    [announcement, context.settings.reads_orders().then_some(orders)]
}

/// Takes the answer to the request for a token, which was `sent` then.
pub(super) fn fetched(
    sent: Moment,
    reply: Fetched,
    date: DateTime<Utc>,
    (phase, context): (&mut Phase, &mut Context<'_>),
    chance: &mut dyn Chance,
) {
    let (now, credential) = (context.now, context.settings.account.credential());
    let unanswered = reply.is_err();
    let taken =
        context.state.credential_state.fetched(credential, reply, (sent, now), date, chance);
    let result = match taken.as_ref().map_err(|problem| problem.class) {
        Ok(()) => ExchangeResult::Done,
        Err(_) if unanswered => ExchangeResult::Unanswered,
        Err(ProblemClass::Refused) => ExchangeResult::Refused,
        Err(ProblemClass::Unavailable) => ExchangeResult::Unavailable,
        Err(_) => ExchangeResult::Nonsense,
    };
    context.effects.exchanges.push(Exchange {
        what: Kind::AskForToken,
        result,
        took: now.saturating_sub(sent),
    });
    if taken.is_ok() {
        credential_changed(phase, now);
    }
    context.report(taken.err());
}

/// The candidate has another key or token than before, so what was refused may succeed now.
pub(super) fn credential_changed(phase: &mut Phase, now: Moment) {
    if let Phase::Holding(hold) = phase {
        orders::credential_changed(hold, now);
    }
}

/// Takes the answer to a request about a side blob.
pub(super) fn side_blob_answered(
    blob: SideBlob,
    answered: &mut Answered<'_>,
    phase: &mut Phase,
    context: &mut Context<'_>,
) {
    let (now, settings) = (context.now, context.settings);
    if answered.answer().is_some_and(|answer| context.changes_credential(answer)) {
        // The request is still due, and goes out again with another token.
        return credential_changed(phase, now);
    }
    if blob == SideBlob::Candidates {
        let writes = matches!(answered.operation, Operation::WriteSideBlob { .. });
        let (told, own) =
            ((writes, answered.reply.as_ref().ok()), !context.state.steering.not_ready);
        let when = (context.service_time(), now);
        let listing = &mut context.state.listing;
        let changed = listing.answered(told, (settings, own), when, answered.chance);
        context.effects.listing_changed |= changed;
    }
    let answer = answered.answer();
    let (took, slow) = (now.saturating_sub(answered.sent), context.was_slow());
    context.report(answer.and_then(|answer| strange(blob, answer, settings)));
    match (blob, phase) {
        (SideBlob::Successor, Phase::Holding(hold)) => {
            handing_over::announcement_read(answer, took, hold, context);
        }
        (SideBlob::Orders, Phase::Holding(hold)) => {
            orders::read(answer, answered.sent, hold, context);
        }
        (SideBlob::Successor, Phase::Watching(watch)) => {
            let written = matches!(answered.operation, Operation::WriteSideBlob { .. });
            let answer = (written, answer);
            let follower = &mut context.state.follower;
            follower.announcement_answered(answer, (took, slow), watch, settings, now);
        }
        // An announcement was taken back: nothing waits for that.
        _ => {}
    }
}

/// The problem of a fresh side blob that holds what no candidate writes. Such a blob counts as absent.
fn strange(blob: SideBlob, answer: &Answer, settings: &Settings) -> Option<Problem> {
    let seen =
        answer.properties.as_ref().filter(|seen| side_blob_rules::is_from_candidate(seen))?;
    let age = answer.date?.signed_duration_since(answer.modified?);
    let fit = match blob {
        SideBlob::Successor => Announcement::is_fit(seen),
        SideBlob::Candidates => listing::is_fit(seen),
        SideBlob::Orders => orders::is_fit(seen),
    };
    (!fit && age.abs() < side_blob_rules::RECENT).then(|| Problem::of_foreign(blob, settings))
}
