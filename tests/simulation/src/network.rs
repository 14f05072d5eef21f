//! The way from a candidate to the store and back.

use std::sync::Arc;

use tenure_store::{Request, Response};
use tokio::sync::oneshot;

use super::fate::{self, Broken, Fate, Reply};
use super::fault::{Fault, Kind, Step};
use super::history::{Answer, Asked, Number, What, Who};
use super::plan::{Latency, Moment, Trait};
use super::strike;
use super::transfers;
use super::wire;
use super::world::{Millis, State, World};

/// What arrives at the sender.
type Delivery = Result<(Response, Answer), Broken>;

/// Sends a request, and waits for the answer for as long as that may take: the sender has its
/// own time-out. Nothing goes on while the process stands still.
///
/// # Errors
/// There will be no answer, and the sender knows.
pub async fn send(world: &Arc<World>, who: Who, request: Request) -> Result<Response, Broken> {
    world.in_turn(who, &format!("sends {} {}", request.method, request.target), 0).await;
    world.record_request(who, &request);
    let asked = world.state().wire.read(who, &request);
    let step = asked.step;
    let waiting = Waiting::begin(world, who, step);
    strike::ambush(world, who, step, Moment::Before);
    world.goes_on(who).await;
    world.in_turn(who, "goes on", 0).await;
    let now = world.now();
    let (number, fate) = goes_out(world, asked, now);
    if let (Step::Acquire, Some(late)) = (step, fate.late(now)) {
        strike::follow_up(world, who, step, late);
    }
    let (to_sender, mut answer) = oneshot::channel();
    tokio::spawn(carry(world.clone(), number, request, fate, to_sender));
    strike::ambush(world, who, step, Moment::Sent);
    let Ok(delivery) = (&mut answer).await else { std::future::pending().await };
    world.goes_on(who).await;
    drop(waiting);
    strike::ambush(world, who, step, Moment::Answered);
    world.goes_on(who).await;
    world.in_turn(who, "hears", number).await;
    let now = world.now();
    let mut state = world.state();
    let arrived = match &delivery {
        Ok((response, answer)) => {
            state.history.asked[number].told = wire::told(response);
            What::Answered(number, *answer)
        }
        Err(_) => What::Failed(number),
    };
    state.note(now, arrived);
    let reads_orders = state.history.asked[number].of_orders;
    drop(state);
    if let (true, Ok((response, _))) = (reads_orders, &delivery) {
        transfers::read(world, who, response);
    }
    delivery.map(|(response, _)| response)
}

/// Sends a request of a process that is dead, and waits for the status of the answer. None: nobody knows what
/// became of it.
pub async fn send_for_the_dead(world: &Arc<World>, who: Who, request: Request) -> Option<u16> {
    world.record_request(who, &request);
    let asked = Asked { step: Step::Will, ..world.state().wire.read(who, &request) };
    let (number, fate) = goes_out(world, asked, world.now());
    let (to_sender, answer) = oneshot::channel();
    tokio::spawn(carry(world.clone(), number, request, fate, to_sender));
    let Ok(delivery) = answer.await else { std::future::pending().await };
    let answered = delivery.ok().map(|(_, answer)| answer);
    world.note(answered.map_or(What::Failed(number), |answer| What::Answered(number, answer)));
    answered.map(|answer| answer.status)
}

/// A request is on the wire, and it is decided what becomes of it.
fn goes_out(world: &World, asked: Asked, now: Millis) -> (Number, Fate) {
    let (who, step) = (asked.who, asked.step);
    let mut state = world.state();
    let number = state.history.asked.len();
    state.history.asked.push(asked);
    state.note(now, What::Sent(number));
    (number, decide(world, &mut state, who, step, now))
}

/// A request of a process is under way.
struct Waiting<'a>(&'a World, Who);

impl<'a> Waiting<'a> {
    fn begin(world: &'a World, who: Who, step: Step) -> Self {
        let mut state = world.state();
        state.step = step;
        let process = &mut state.processes[who];
        (process.step, process.waiting) = (step, process.waiting + 1);
        Self(world, who)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.state().processes[self.1].waiting -= 1;
    }
}

/// Cut off, caught by an ambush, struck by chance, or unharmed.
fn decide(world: &World, state: &mut State, who: Who, step: Step, now: Millis) -> Fate {
    let latency = state.latency(world, who, step, now);
    let cut_off = cut_off(state, who, step, now, latency);
    if let Some(fate) = cut_off.or_else(|| state.fails(who, step, now, latency)) {
        return fate;
    }
    let fault = strike::waiting_for(state, step, Moment::Before, now < world.plan.calm, |fault| {
        fault.kind() == Kind::Request
    });
    let noise = now < world.plan.calm && state.network.permille(world.plan.noise);
    let fault = fault.or_else(|| noise.then(|| strike::any_of_request(&mut state.network)));
    let Some(fault) = fault else {
        return fate::unharmed(now, latency, &mut state.network);
    };
    let other = match state.service.leader {
        Some((leader, lease)) if leader != who => lease,
        _ => u128::from(state.network.bits()) << 64 | 0x4000_8000_0000_0000_0000,
    };
    let date = state.service.date(now);
    let off = state.service.date_off(now, &mut state.network);
    let ways = (latency, world.plan.latest);
    let fate = fate::of(fault, step, now, ways, (&date, off), other, &mut state.network);
    state.struck(now, fault, step, Some(who), now);
    fate
}

/// No request gets through.
pub fn outage(state: &State, who: Who, now: Millis) -> Option<(Fault, bool)> {
    let machine = state.processes[who].machine;
    let all = state.partitions.len() - 1;
    let (one, all) = (state.partitions[machine], state.partitions[all]);
    if now < state.restart {
        Some((Fault::StoreRestart, true))
    } else if now < all.until {
        Some((Fault::PartitionAll, all.refused))
    } else if now < one.until {
        Some((Fault::PartitionOne, one.refused))
    } else {
        None
    }
}

fn cut_off(state: &mut State, who: Who, step: Step, now: Millis, latency: Latency) -> Option<Fate> {
    let (fault, refused) = outage(state, who, now)?;
    state.struck(now, fault, step, Some(who), now);
    let reply = match refused {
        true => Reply::Broken(now + state.network.between(1, 2 * latency.most), Broken::Refused),
        false => Reply::None,
    };
    Some(Fate { arrives: None, copy: None, reply })
}

/// The way of one request. Whether the sender lives on does not matter to it.
async fn carry(
    world: Arc<World>,
    number: Number,
    request: Request,
    fate: Fate,
    to_sender: oneshot::Sender<Delivery>,
) {
    let who = world.state().history.asked[number].who;
    let mut delivery = None;
    if let Some(at) = fate.arrives {
        world.until(at).await;
        world.in_turn(who, "is carried", number).await;
        delivery = handle(&world, number, &request);
    }
    let (at, delivery) = match fate.reply {
        Reply::None => (world.now(), None),
        Reply::Real(after) => (world.now() + after, delivery.map(Ok)),
        Reply::Marked(after, lease) => {
            (world.now() + after, delivery.map(|delivery| Ok(marked(delivery, lease))))
        }
        Reply::Dated(after, date) => {
            (world.now() + after, delivery.map(|delivery| Ok(dated(delivery, date))))
        }
        Reply::Instead(at, response, answer) => (at, Some(Ok((response, answer)))),
        Reply::Broken(at, broken) => (at, Some(Err(broken))),
    };
    if let Some(delivery) = delivery {
        world.until(at).await;
        world.in_turn(who, "is carried", number).await;
        if gets_back(&world, number) {
            let _ = to_sender.send(delivery);
        }
    }
    if let Some(at) = fate.copy {
        world.until(at).await;
        world.in_turn(who, "is carried", number).await;
        handle(&world, number, &request);
    }
}

/// The store handles a request, unless it does not listen.
fn handle(world: &World, number: Number, request: &Request) -> Option<(Response, Answer)> {
    let now = world.now();
    let mut state = world.state();
    if now < state.restart {
        return None;
    }
    let (mut response, answer) = state.service.handle(now, request);
    if let Some(date) = state.service.standing_date(now) {
        response = with_date(response, date);
        let step = state.history.asked[number].step;
        state.coverage.add(Fault::DatesStand, step);
    }
    if world.plan.traits.has(Trait::Versioned) && is_of_version(request, &response) {
        response.headers.push(("x-ms-version-id".into(), state.service.date(now)));
        let machine = state.processes[state.history.asked[number].who].machine;
        if world.plan.machines[machine].failover.is_some() {
            state.coverage.saw(Trait::Versioned);
        }
    }
    state.note(now, What::Handled(number, answer));
    if matches!(answer.status, 200..=299) {
        let asked = &state.history.asked[number];
        let (who, step, lease) = (asked.who, asked.step, asked.lease);
        if let (Some(lease), Some(write)) = (lease, &asked.write) {
            let (beat, trigger) = (write.beat, write.trigger.number);
            state.wire.taken(lease, beat);
            if trigger != 0 {
                state.service.claimed = Some(format!("t{trigger}"));
            }
        }
        match (step, lease, state.service.leader) {
            (Step::Raise, Some(lease), _) => {
                state.service.leader = Some((who, lease));
                state.term = state.history.asked[number].write.as_ref().map_or(0, |w| w.term);
                let term = state.term;
                let process = &mut state.processes[who];
                if process.term != term {
                    (process.term, process.transfers) = (term, Vec::new());
                }
                state.service.keep(request);
            }
            (Step::Claim | Step::Outcome, ..) => state.service.keep(request),
            (Step::Break, ..) => {
                state.service.leader = None;
                state.coverage.saw(Trait::Failover);
            }
            (Step::Release | Step::HandOver | Step::Will, Some(lease), Some((_, held)))
                if lease == held =>
            {
                state.service.leader = None;
                state.news.notify_one();
                if step == Step::Will {
                    state.coverage.saw(Trait::Supervised);
                }
            }
            _ => {}
        }
    }
    Some((response, answer))
}

/// Returns true if the answer names a version of a blob, on an account that keeps them: it was read or written.
fn is_of_version(request: &Request, response: &Response) -> bool {
    let of_blob =
        !request.target.contains("comp=lease") && !request.target.contains("restype=container");
    of_blob && matches!(response.status, 200..=299)
}

/// An answer does not reach a machine that is cut off by now.
fn gets_back(world: &World, number: Number) -> bool {
    let now = world.now();
    let state = world.state();
    let machine = state.processes[state.history.asked[number].who].machine;
    let all = state.partitions.len() - 1;
    now >= state.partitions[machine].until && now >= state.partitions[all].until
}

fn marked((mut response, answer): (Response, Answer), lease: u128) -> (Response, Answer) {
    let id = uuid::Uuid::from_u128(lease).as_hyphenated().to_string();
    response.headers.retain(|(name, _)| name != "x-ms-lease-id");
    response.headers.push(("x-ms-lease-id".into(), id));
    (response, Answer { lease: Some(lease), ..answer })
}

fn dated((response, answer): (Response, Answer), date: String) -> (Response, Answer) {
    (with_date(response, date), answer)
}

fn with_date(mut response: Response, date: String) -> Response {
    response.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("date"));
    response.headers.push(("Date".into(), date));
    response
}
