//! Network between candidates and the store.

use std::sync::Arc;

use tenure_store::{Request, Response};
use tokio::sync::oneshot;

use super::fault::{Fault, Kind, Step};
use super::history::{Answer, CandidateId, HistoryEvent, RequestIndex, SentRequest};
use super::injection;
use super::plan::{Latency, Moment, Trait};
use super::request_outcome::{self, ConnectionError, Reply, RequestOutcome};
use super::step_classifier;
use super::transfers;
use super::world::{Millis, State, World};

/// Result that reaches the sender.
type DeliveredReply = Result<(Response, Answer), ConnectionError>;

/// Sends a request and waits for its response. The sender has its own timeout. A suspended process
/// makes no progress.
///
/// # Errors
/// If there is no response and the sender learns that.
/// There will be no answer, and the sender knows.
pub async fn send(
    world: &Arc<World>,
    candidate: CandidateId,
    request: Request,
) -> Result<Response, ConnectionError> {
    world
        .wait_for_turn(candidate, &format!("sends {} {}", request.method, request.target), 0)
        .await;
    world.record_request(candidate, &request);
    let sent_request = world.state().classifier.classify(candidate, &request);
    let step = sent_request.step;
    let waiting = Waiting::start(world, candidate, step);
    injection::trigger_ambush(world, candidate, step, Moment::Before);
    world.wait_until_running(candidate).await;
    world.wait_for_turn(candidate, "goes on", 0).await;
    let now = world.now();
    let (number, outcome) = put_on_wire(world, sent_request, now);
    if let (Step::Acquire, Some(late)) = (step, outcome.late_arrival(now)) {
        injection::leave_before_late_acquire(world, candidate, step, late);
    }
    let (reply_sender, mut answer) = oneshot::channel();
    tokio::spawn(deliver(world.clone(), number, request, outcome, reply_sender));
    injection::trigger_ambush(world, candidate, step, Moment::Sent);
    let Ok(delivery) = (&mut answer).await else { std::future::pending().await };
    world.wait_until_running(candidate).await;
    drop(waiting);
    injection::trigger_ambush(world, candidate, step, Moment::Answered);
    world.wait_until_running(candidate).await;
    world.wait_for_turn(candidate, "hears", number).await;
    let now = world.now();
    let mut state = world.state();
    let event = match &delivery {
        Ok((response, answer)) => {
            state.history.requests[number].reported_time = step_classifier::reported_time(response);
            HistoryEvent::Answered(number, *answer)
        }
        Err(_) => HistoryEvent::RequestFailed(number),
    };
    state.note(now, event);
    let read_orders = state.history.requests[number].is_about_orders;
    drop(state);
    if let (true, Ok((response, _))) = (read_orders, &delivery) {
        transfers::on_orders_read(world, candidate, response);
    }
    delivery.map(|(response, _)| response)
}

/// Sends a request of a dead process, and returns the status of the response. Returns `None` if the
/// outcome is unknown.
pub async fn send_last_will(
    world: &Arc<World>,
    candidate: CandidateId,
    request: Request,
) -> Option<u16> {
    world.record_request(candidate, &request);
    let sent_request =
        SentRequest { step: Step::Will, ..world.state().classifier.classify(candidate, &request) };
    let (number, outcome) = put_on_wire(world, sent_request, world.now());
    let (reply_sender, answer) = oneshot::channel();
    tokio::spawn(deliver(world.clone(), number, request, outcome, reply_sender));
    let Ok(delivery) = answer.await else { std::future::pending().await };
    let reply = delivery.ok().map(|(_, answer)| answer);
    world.note(reply.map_or(HistoryEvent::RequestFailed(number), |answer| {
        HistoryEvent::Answered(number, answer)
    }));
    reply.map(|answer| answer.status)
}

/// Puts a request on the wire, and decides its outcome.
fn put_on_wire(world: &World, request: SentRequest, now: Millis) -> (RequestIndex, RequestOutcome) {
    let (candidate, step) = (request.candidate, request.step);
    let mut state = world.state();
    let number = state.history.requests.len();
    state.history.requests.push(request);
    state.note(now, HistoryEvent::Sent(number));
    (number, decide_outcome(world, &mut state, candidate, step, now))
}

/// Guard for a process's pending request.
struct Waiting<'a>(&'a World, CandidateId);

impl<'a> Waiting<'a> {
    fn start(world: &'a World, candidate: CandidateId, step: Step) -> Self {
        let mut state = world.state();
        state.last_step = step;
        let process = &mut state.processes[candidate];
        (process.step, process.pending_requests) = (step, process.pending_requests + 1);
        Self(world, candidate)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.state().processes[self.1].pending_requests -= 1;
    }
}

/// Decides the outcome of a request: cut off, hit by an ambush, hit by a random fault, or without a
/// fault.
fn decide_outcome(
    world: &World,
    state: &mut State,
    candidate: CandidateId,
    step: Step,
    now: Millis,
) -> RequestOutcome {
    let latency = state.latency(world, candidate, step, now);
    let cut_off = outage_outcome(state, candidate, step, now, latency);
    if let Some(outcome) = cut_off.or_else(|| state.fail_request(candidate, step, now, latency)) {
        return outcome;
    }
    let fault =
        injection::take_ambush(state, step, Moment::Before, now < world.plan.calm, |fault| {
            fault.kind() == Kind::Request
        });
    let has_noise = now < world.plan.calm && state.network.permille(world.plan.noise_permille);
    let fault =
        fault.or_else(|| has_noise.then(|| injection::any_request_fault(&mut state.network)));
    let Some(fault) = fault else {
        return request_outcome::without_fault(now, latency, &mut state.network);
    };
    let other_lease = match state.service.leader {
        Some((leader, lease)) if leader != candidate => lease,
        _ => u128::from(state.network.bits()) << 64 | 0x4000_8000_0000_0000_0000,
    };
    let date = state.service.date(now);
    let wrong_date = state.service.wrong_date(now, &mut state.network);
    let delays = (latency, world.plan.max_delay);
    let outcome = request_outcome::with_fault(
        fault,
        step,
        now,
        delays,
        (&date, wrong_date),
        other_lease,
        &mut state.network,
    );
    state.record_fault(now, fault, step, Some(candidate), now);
    outcome
}

/// Returns the outage that stops a candidate's requests, if there is one.
pub fn current_outage(state: &State, candidate: CandidateId, now: Millis) -> Option<(Fault, bool)> {
    let machine = state.processes[candidate].machine;
    let whole_network = state.outages.len() - 1;
    let (one_machine, all_machines) = (state.outages[machine], state.outages[whole_network]);
    if now < state.restart_until {
        Some((Fault::StoreRestart, true))
    } else if now < all_machines.until {
        Some((Fault::PartitionAll, all_machines.is_refused))
    } else if now < one_machine.until {
        Some((Fault::PartitionOne, one_machine.is_refused))
    } else {
        None
    }
}

fn outage_outcome(
    state: &mut State,
    candidate: CandidateId,
    step: Step,
    now: Millis,
    latency: Latency,
) -> Option<RequestOutcome> {
    let (fault, is_refused) = current_outage(state, candidate, now)?;
    state.record_fault(now, fault, step, Some(candidate), now);
    let reply = match is_refused {
        true => Reply::Disconnected(
            now + state.network.between(1, 2 * latency.most),
            ConnectionError::Refused,
        ),
        false => Reply::None,
    };
    Some(RequestOutcome { arrives_at: None, copy_arrives_at: None, reply })
}

/// Delivers one request, whether its sender stays alive or not.
async fn deliver(
    world: Arc<World>,
    number: RequestIndex,
    request: Request,
    outcome: RequestOutcome,
    reply_sender: oneshot::Sender<DeliveredReply>,
) {
    let candidate = world.state().history.requests[number].candidate;
    let mut delivery = None;
    if let Some(at) = outcome.arrives_at {
        world.wait_until(at).await;
        world.wait_for_turn(candidate, "is carried", number).await;
        delivery = handle(&world, number, &request);
    }
    let (at, delivery) = match outcome.reply {
        Reply::None => (world.now(), None),
        Reply::Original(after) => (world.now() + after, delivery.map(Ok)),
        Reply::OtherLease(after, lease) => {
            (world.now() + after, delivery.map(|delivery| Ok(with_lease(delivery, lease))))
        }
        Reply::OtherDate(after, date) => {
            (world.now() + after, delivery.map(|delivery| Ok(with_other_date(delivery, date))))
        }
        Reply::Replaced(at, response, answer) => (at, Some(Ok((response, answer)))),
        Reply::Disconnected(at, error) => (at, Some(Err(error))),
    };
    if let Some(delivery) = delivery {
        world.wait_until(at).await;
        world.wait_for_turn(candidate, "is carried", number).await;
        if reply_arrives(&world, number) {
            let _ = reply_sender.send(delivery);
        }
    }
    if let Some(at) = outcome.copy_arrives_at {
        world.wait_until(at).await;
        world.wait_for_turn(candidate, "is carried", number).await;
        handle(&world, number, &request);
    }
}

/// Passes a request to the store, unless the store is down.
fn handle(world: &World, number: RequestIndex, request: &Request) -> Option<(Response, Answer)> {
    let now = world.now();
    let mut state = world.state();
    if now < state.restart_until {
        return None;
    }
    let (mut response, answer) = state.service.handle(now, request);
    if let Some(date) = state.service.frozen_date(now) {
        response = with_date(response, date);
        let step = state.history.requests[number].step;
        state.coverage.add(Fault::DatesStand, step);
    }
    if world.plan.traits.has(Trait::Versioned) && names_blob_version(request, &response) {
        response.headers.push(("x-ms-version-id".into(), state.service.date(now)));
        let machine = state.processes[state.history.requests[number].candidate].machine;
        if world.plan.machines[machine].failover.is_some() {
            state.coverage.add_trait(Trait::Versioned);
        }
    }
    state.note(now, HistoryEvent::Handled(number, answer));
    if matches!(answer.status, 200..=299) {
        let sent_request = &state.history.requests[number];
        let (candidate, step, lease) =
            (sent_request.candidate, sent_request.step, sent_request.lease);
        if let (Some(lease), Some(write)) = (lease, &sent_request.write) {
            let (beat, trigger) = (write.beat, write.trigger.number);
            state.classifier.on_write_accepted(lease, beat);
            if trigger != 0 {
                state.service.last_trigger_id = Some(format!("t{trigger}"));
            }
        }
        match (step, lease, state.service.leader) {
            (Step::Raise, Some(lease), _) => {
                // After a loss of the record, a leadership may have the term of an earlier one.
                let is_new = state.service.leader != Some((candidate, lease));
                state.service.leader = Some((candidate, lease));
                state.term = state.history.requests[number].write.as_ref().map_or(0, |w| w.term);
                let term = state.term;
                let process = &mut state.processes[candidate];
                if is_new {
                    (process.term, process.transfers) = (term, Vec::new());
                }
                state.service.save_record(request);
            }
            (Step::Claim | Step::Outcome, ..) => state.service.save_record(request),
            (Step::Break, ..) => {
                state.service.leader = None;
                state.coverage.add_trait(Trait::Failover);
            }
            (Step::Release | Step::HandOver | Step::Will, Some(lease), Some((_, leader_lease)))
                if lease == leader_lease =>
            {
                state.service.leader = None;
                state.leadership_changed.notify_one();
                if step == Step::Will {
                    state.coverage.add_trait(Trait::Supervised);
                }
            }
            _ => {}
        }
    }
    Some((response, answer))
}

/// Returns true if the response names a blob version: the account keeps versions, and the blob was
/// read or written.
fn names_blob_version(request: &Request, response: &Response) -> bool {
    let is_blob_request =
        !request.target.contains("comp=lease") && !request.target.contains("restype=container");
    is_blob_request && matches!(response.status, 200..=299)
}

/// Returns true if a response reaches its machine, which may be cut off by now.
fn reply_arrives(world: &World, number: RequestIndex) -> bool {
    let now = world.now();
    let state = world.state();
    let machine = state.processes[state.history.requests[number].candidate].machine;
    let all_machines = state.outages.len() - 1;
    now >= state.outages[machine].until && now >= state.outages[all_machines].until
}

fn with_lease((mut response, answer): (Response, Answer), lease: u128) -> (Response, Answer) {
    let id = uuid::Uuid::from_u128(lease).as_hyphenated().to_string();
    response.headers.retain(|(name, _)| name != "x-ms-lease-id");
    response.headers.push(("x-ms-lease-id".into(), id));
    (response, Answer { lease: Some(lease), ..answer })
}

fn with_other_date((response, answer): (Response, Answer), date: String) -> (Response, Answer) {
    (with_date(response, date), answer)
}

fn with_date(mut response: Response, date: String) -> Response {
    response.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("date"));
    response.headers.push(("Date".into(), date));
    response
}
