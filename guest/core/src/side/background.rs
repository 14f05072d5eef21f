//! Background requests: requests that a candidate sends in its spare time, when nothing else is
//! due. They renew a token long before it expires, or read or write a side blob. protocol.md §5.
//!
//! The requests wait in one queue. The candidate sends the first one that is due, may be sent, and
//! has enough time before something else is due. A leader whose newest renewal failed has no spare
//! time. The step of a renewal ends with the answer. If a background request is due then, the next
//! step follows at once.
//!
//! A candidate with failover has no spare time at all. Its background requests run in parallel with
//! the steps, one at a time, and the host reports the answers (protocol.md §13).

use core::time::Duration;

use super::announcement::{
    Announcement, MAX_REPORTED_AGE, MAX_TIMEOUT, MIN_TIMEOUT, is_from_candidate,
};
use super::{listing, orders};
use crate::Moment;
use crate::protocol::context::{
    BackgroundKind, BackgroundRequest, CompletedRequest, Context, InFlight, StepAction,
    UnsignedRequest,
};
use crate::protocol::handing_over;
use crate::protocol::phase::{Hold, Phase};
use crate::step::credential_state::{self, CredentialState, MAX_FETCH, MIN_FETCH, TokenReply};
use crate::step::pace::Chance;
use crate::step::problem::{Problem, ProblemClass};
use crate::step::report::{BackgroundReply, Exchange, ExchangeResult};
use crate::step::settings::Settings;
use chrono::{DateTime, Utc};
use tenure_azure::answer::Answer;
use tenure_azure::blob::{Metadata, SideBlob};
use tenure_azure::credential::AuthSource;
use tenure_azure::operation::{Kind, Operation};
use tenure_base::prelude::*;

/// Maximum time-out of a request that renews a valid token, if the step waits for the answer.
const MAX_EARLY_FETCH: Duration = Duration::from_secs(3);

/// A request that waits for spare time.
pub(crate) struct QueuedRequest {
    kind: QueuedKind,
    pub due: Moment,
    /// Minimum time-out. With less time, the request is not sent.
    pub least_timeout: Duration,
    /// Time that the request may take even if something else becomes due meanwhile. Without any
    /// spare time, the request is not sent at all.
    guaranteed_timeout: Duration,
    longest_timeout: Duration,
}

enum QueuedKind {
    Token,
    SideBlob(Operation),
}

impl QueuedRequest {
    /// Returns the action that sends the request, if it is due and `spare_time` is enough. Without
    /// authorisation, only a token can be requested.
    fn into_action(
        self,
        spare_time: Duration,
        auth: Option<&AuthSource>,
        context: &Context<'_>,
    ) -> Option<StepAction> {
        let timeout = if spare_time.is_zero() {
            spare_time
        } else {
            spare_time.max(self.guaranteed_timeout).min(self.longest_timeout)
        };
        if context.now < self.due || timeout < self.least_timeout {
            return None;
        }
        match self.kind {
            QueuedKind::Token => {
                let settings = context.settings;
                let is_early = auth.is_some() && settings.timings.failover.is_none();
                let timeout = if is_early { timeout.min(MAX_EARLY_FETCH) } else { timeout };
                let credential = settings.account.credential();
                CredentialState::token_request(credential, timeout).map(StepAction::Fetch)
            }
            QueuedKind::SideBlob(operation) => {
                // With whole milliseconds, hosts with coarser timers give up at the same instant.
                let timeout = Duration::from_millis(u64::try_from(timeout.as_millis()).ok()?);
                Some(UnsignedRequest { operation, timeout }.sign(auth?.clone()))
            }
        }
    }
}

/// Time after a request's time-out within which the host reports the reply. A later reply does not
/// come.
const REPLY_GRACE: Duration = Duration::from_secs(5);

/// Starts the due background request, unless another one is in flight.
pub(crate) fn start_background(
    phase: &Phase,
    auth: Option<&AuthSource>,
    context: &mut Context<'_>,
) {
    let now = context.now;
    if context.state.background.as_ref().is_some_and(|in_flight| now < in_flight.until) {
        return;
    }
    let Some(action) = queue(phase, context)
        .into_iter()
        .find_map(|queued| queued.into_action(Duration::MAX, auth, context))
    else {
        return;
    };
    let (kind, timeout, request) = match action {
        StepAction::Fetch(fetch) => {
            (BackgroundKind::Token, fetch.timeout, BackgroundRequest::Fetch(fetch))
        }
        StepAction::Send(signed) => {
            let kind = match &signed.operation {
                Operation::WriteSideBlob { blob, .. } => BackgroundKind::Writing(*blob),
                Operation::ReadSideBlob(blob) => BackgroundKind::Reading(*blob),
                _ => return,
            };
            (kind, signed.timeout, BackgroundRequest::Send(signed))
        }
        StepAction::Done(_) => return,
    };
    let (until, credential) =
        (now + timeout + REPLY_GRACE, context.state.credential_state.replacements());
    context.state.background = Some(InFlight { kind, sent_at: now, credential, until });
    context.effects.background = Some(request);
}

/// Returns the time until which a background request may be in flight. None if there is none.
pub(crate) fn in_flight_until(context: &Context<'_>) -> Option<Moment> {
    let in_flight = context.state.background.as_ref()?;
    Some(in_flight.until).filter(|until| *until > context.now)
}

/// Handles the answer to a background request.
pub(crate) fn on_background_reply(
    background_reply: BackgroundReply,
    mut phase: Phase,
    context: &mut Context<'_>,
    chance: &mut dyn Chance,
) -> Phase {
    let Some(InFlight { kind, sent_at: sent, credential: replacements, .. }) =
        context.state.background.take()
    else {
        return phase;
    };
    let BackgroundReply { result: reply, received_at } = background_reply;
    let operation = match kind {
        BackgroundKind::Token => {
            let date = context.service_estimate().unwrap_or(received_at).to_date();
            let reply = reply.map(|response| (response.status, response.body));
            on_token_reply(sent, reply, date, (&mut phase, context), chance);
            return phase;
        }
        BackgroundKind::Reading(blob) => Operation::ReadSideBlob(blob),
        BackgroundKind::Writing(blob) => {
            Operation::WriteSideBlob { blob, replaces: None, metadata: Metadata::default() }
        }
    };
    let (BackgroundKind::Reading(blob) | BackgroundKind::Writing(blob)) = kind else {
        return phase;
    };
    let reply = reply.map(|response| {
        Answer::from_parts(&operation, response.status, &response.headers).with_body(&response.body)
    });
    let mut completed =
        CompletedRequest { operation: &operation, reply: &reply, sent_at: sent, chance };
    let result = completed.class().map_or(ExchangeResult::Unanswered, ExchangeResult::from_class);
    let took = context.now.saturating_sub(sent);
    context.effects.exchanges.push(Exchange { what: operation.kind(), result, took });
    let is_replaced = replacements != context.state.credential_state.replacements();
    if is_replaced && completed.answer().is_some_and(credential_state::is_refused) {
        // The request is still due, and is sent again with the key or token now in use.
        return phase;
    }
    on_side_blob_answer(blob, &mut completed, &mut phase, context);
    phase
}

/// Returns the background request to send now.
pub(crate) fn next_request(
    phase: &Phase,
    spare_time: Duration,
    auth: Option<&AuthSource>,
    context: &Context<'_>,
) -> Option<StepAction> {
    if auth.is_none() && !spare_time.is_zero() {
        return missing_token(phase, context);
    }
    queue(phase, context)
        .into_iter()
        .find_map(|queued| queued.into_action(spare_time, auth, context))
}

/// Returns the request for a missing token. All other requests wait for the token, so this request
/// gets all the time that there is.
pub(crate) fn missing_token(phase: &Phase, context: &Context<'_>) -> Option<StepAction> {
    let time_left = match phase {
        Phase::Holding(hold) => hold.valid_until.saturating_sub(context.now),
        Phase::Raising(raise) => raise.valid_until.saturating_sub(context.now),
        _ => MAX_FETCH,
    };
    token_request(context)?.into_action(time_left, None, context)
}

fn token_request(context: &Context<'_>) -> Option<QueuedRequest> {
    let due = context.state.credential_state.due_at(context.settings.account.credential())?;
    let (least_timeout, longest_timeout) = (MIN_FETCH, MAX_FETCH);
    Some(QueuedRequest {
        kind: QueuedKind::Token,
        due,
        least_timeout,
        guaranteed_timeout: Duration::ZERO,
        longest_timeout,
    })
}

/// Returns the waiting requests, the most urgent first. If requests are slow, there may be spare
/// time for one only. So during a handover, which has a time limit, its requests come first.
pub(crate) fn queue(phase: &Phase, context: &Context<'_>) -> Vec<QueuedRequest> {
    let is_handover_pending = context.state.steering.hand_over().is_some()
        || context.state.follower.named_successor().is_some();
    let mut queue = Vec::new();
    match phase {
        Phase::Watching(_) => queue.extend(follower_request(context)),
        Phase::Holding(hold) => queue.extend(leader_requests(hold, context).into_iter().flatten()),
        _ => {}
    }
    // The list has no time limit, so it waits for the end of a handover.
    if !is_handover_pending && matches!(phase, Phase::Watching(_) | Phase::Holding(_)) {
        queue.extend(list_request(context));
    }
    let token_index = if is_handover_pending { queue.len() } else { 0 };
    if let Some(token_request) = token_request(context) {
        queue.insert(token_index, token_request);
    }
    queue
}

fn side_blob(operation: Operation, due: Moment, longest_timeout: Duration) -> QueuedRequest {
    let kind = QueuedKind::SideBlob(operation);
    QueuedRequest {
        kind,
        due,
        least_timeout: MIN_TIMEOUT,
        guaranteed_timeout: Duration::ZERO,
        longest_timeout,
    }
}

/// Returns the due request about the list of candidates, which has the lowest priority.
fn list_request(context: &Context<'_>) -> Option<QueuedRequest> {
    let (state, settings) = (&context.state, context.settings);
    let time = context.service_time();
    let (due, operation) = state.listing.request(settings, !state.steering.is_unready, time)?;
    Some(side_blob(operation, due, MAX_TIMEOUT))
}

/// Returns the due request about a follower's announcement. It may take the usual request time-out,
/// so that it succeeds if the service is slow.
fn follower_request(context: &Context<'_>) -> Option<QueuedRequest> {
    let (follower, settings) = (&context.state.follower, context.settings);
    let longest = settings.timings.request_timeout;
    Some(side_blob(follower.operation(settings)?, context.now, longest))
}

/// Returns the reads of the successor's announcement and of the orders. If only a renewal is due
/// meanwhile, they may take longer than the spare time.
fn leader_requests(hold: &Hold, context: &Context<'_>) -> [Option<QueuedRequest>; 2] {
    let timings = &context.settings.timings;
    let long_read = |blob, due| {
        let read = Operation::ReadSideBlob(blob);
        let guaranteed_timeout = timings.background_timeout(context.now, hold.valid_until);
        QueuedRequest { guaranteed_timeout, ..side_blob(read, due, timings.request_timeout) }
    };
    let announcement = handing_over::next_read_at(hold, context);
    let announcement = announcement.map(|due| long_read(SideBlob::Successor, due));
    let orders = long_read(SideBlob::Orders, hold.orders.read_at);
    [announcement, context.settings.reads_orders().then_some(orders)]
}

/// Handles the reply to a token request that was sent at `sent`.
pub(crate) fn on_token_reply(
    sent: Moment,
    reply: TokenReply,
    date: DateTime<Utc>,
    (phase, context): (&mut Phase, &mut Context<'_>),
    chance: &mut dyn Chance,
) {
    let (now, credential) = (context.now, context.settings.account.credential());
    let is_unanswered = reply.is_err();
    let outcome =
        context.state.credential_state.on_token_reply(credential, reply, (sent, now), date, chance);
    let result = match outcome.as_ref().map_err(|problem| problem.class) {
        Ok(()) => ExchangeResult::Done,
        Err(_) if is_unanswered => ExchangeResult::Unanswered,
        Err(ProblemClass::Refused) => ExchangeResult::Refused,
        Err(ProblemClass::Unavailable) => ExchangeResult::Unavailable,
        Err(_) => ExchangeResult::Nonsense,
    };
    context.effects.exchanges.push(Exchange {
        what: Kind::RequestToken,
        result,
        took: now.saturating_sub(sent),
    });
    if outcome.is_ok() {
        on_credential_changed(phase, now);
    }
    context.report(outcome.err());
}

/// Makes a refused read of orders due again, after the candidate's key or token changed.
pub(crate) fn on_credential_changed(phase: &mut Phase, now: Moment) {
    if let Phase::Holding(hold) = phase {
        orders::on_credential_replaced(hold, now);
    }
}

/// Handles the answer to a request about a side blob.
pub(crate) fn on_side_blob_answer(
    blob: SideBlob,
    completed: &mut CompletedRequest<'_>,
    phase: &mut Phase,
    context: &mut Context<'_>,
) {
    let (now, settings) = (context.now, context.settings);
    if completed.answer().is_some_and(|answer| context.on_credential_answer(answer)) {
        // The request is still due, and is sent again with another token.
        return on_credential_changed(phase, now);
    }
    if blob == SideBlob::Candidates {
        let is_write = matches!(completed.operation, Operation::WriteSideBlob { .. });
        let (list_reply, is_ready) =
            ((is_write, completed.reply.as_ref().ok()), !context.state.steering.is_unready);
        let times = (context.service_time(), now);
        let listing = &mut context.state.listing;
        let is_changed =
            listing.on_answer(list_reply, (settings, is_ready), times, completed.chance);
        context.effects.listing_changed |= is_changed;
    }
    let answer = completed.answer();
    let (took, was_slow) = (now.saturating_sub(completed.sent_at), context.was_slow());
    context.report(answer.and_then(|answer| foreign_data_problem(blob, answer, settings)));
    match (blob, phase) {
        (SideBlob::Successor, Phase::Holding(hold)) => {
            handing_over::on_announcement_read(answer, took, hold, context);
        }
        (SideBlob::Orders, Phase::Holding(hold)) => {
            orders::on_orders_answer(answer, completed.sent_at, hold, context);
        }
        (SideBlob::Successor, Phase::Watching(watch)) => {
            let is_write = matches!(completed.operation, Operation::WriteSideBlob { .. });
            let answer = (is_write, answer);
            let follower = &mut context.state.follower;
            follower.on_announcement_answer(answer, (took, was_slow), watch, settings, now);
        }
        // The phase that sent the request is over, or the answer needs no further action.
        _ => {}
    }
}

/// Returns a problem if a recently written side blob has data that no candidate wrote. Such a blob
/// counts as absent.
fn foreign_data_problem(blob: SideBlob, answer: &Answer, settings: &Settings) -> Option<Problem> {
    let properties =
        answer.properties.as_ref().filter(|properties| is_from_candidate(properties))?;
    let age = answer.date?.signed_duration_since(answer.last_modified?);
    let is_valid = match blob {
        SideBlob::Successor => Announcement::is_valid(properties),
        SideBlob::Candidates => listing::is_valid(properties),
        SideBlob::Orders => orders::is_valid(properties),
    };
    (!is_valid && age.abs() < MAX_REPORTED_AGE).then(|| Problem::foreign_side_blob(blob, settings))
}
