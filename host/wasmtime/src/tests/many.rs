//! Tests of many elections in one process.

use super::{Wireless, settings, store, surroundings};
use crate::permits::Urgency;
use crate::{ComponentError, ElectionComponent, Engine, Network, NetworkFailure};
use bytes::Bytes;
use futures_util::FutureExt as _;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tenure::engine::{Elector as _, Runner, Variables};
use tenure::handler::{BoxFuture, from_fn};
use tenure::{Event, StandDownReason};
use tenure_clock::{BootClock, Clock};
use tenure_core::{EndingReason, Report, RequestKind, Role, variable};
use tenure_store::{Account, Service};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

/// More elections than permits.
const MANY: usize = 100;

/// A network that delivers nothing until it is opened.
struct Gated {
    network: Wireless,
    open: Arc<Semaphore>,
}

impl Network for Gated {
    fn send(
        &self,
        request: http::Request<Bytes>,
    ) -> BoxFuture<'static, Result<http::Response<Bytes>, NetworkFailure>> {
        let (answer, open) = (self.network.send(request), self.open.clone());
        Box::pin(async move {
            let _open = open.acquire().await;
            answer.await
        })
    }
}

fn wireless() -> Wireless {
    Wireless(Mutex::new(Service::new(vec![Account::emulator()], 1)))
}

fn settings_for(name: &str) -> Variables {
    Variables::new()
        .with(variable::CONNECTION_STRING, "UseDevelopmentStorage=true")
        .with(variable::ELECTION, format!("tests/{name}"))
        .with(variable::EVERY, "1h")
}

/// Starts a step in each of a hundred elections. A step ends only with a permit of `open`.
async fn start_many(
    component: &ElectionComponent,
    open: &Arc<Semaphore>,
) -> JoinSet<Result<Report, ComponentError>> {
    let gated = Gated { network: wireless(), open: open.clone() };
    let environment = surroundings(gated, 7);
    let mut steps = JoinSet::new();
    for number in 0..MANY {
        let settings = settings_for(&number.to_string());
        let clock = BootClock::new();
        let component = component.for_candidate(settings, &clock);
        let component = component.in_surroundings(environment.clone());
        steps.spawn(async move { component.step(None, clock.now(), None).await });
    }
    settle().await;
    steps
}

/// Lets each task run until it waits.
async fn settle() {
    for _ in 0..10 * MANY {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn calls_beyond_the_last_place_wait_for_one() {
    let open = Arc::new(Semaphore::new(0));
    let settings = settings_for("first");
    let first = ElectionComponent::new(&Engine::new().unwrap(), settings, &BootClock::new());
    let mut steps = start_many(&first.unwrap(), &open).await;
    open.add_permits(MANY);
    while let Some(report) = steps.join_next().await {
        let report = report.unwrap().unwrap();
        assert!(report.problems.is_empty(), "{:?}", report.problems);
    }
}

/// A manual clock.
#[derive(Clone, Default)]
struct HandClock(Arc<Mutex<Duration>>);

impl HandClock {
    fn advance(&self, by: Duration) {
        *self.0.lock().unwrap() += by;
    }
}

impl Clock for HandClock {
    fn now(&self) -> Duration {
        *self.0.lock().unwrap()
    }

    async fn sleep_until(&self, _: Duration) {
        std::future::pending().await
    }
}

/// Returns a leader, and the report of the step after which only renewals are due.
async fn leader(engine: &Engine, clock: &HandClock) -> (ElectionComponent, Report) {
    let settings = settings_for("led").with(variable::LEASE, "20s").with(variable::MARGIN, "5s");
    let settings = settings.with(variable::ORDERS, "never");
    let leader = ElectionComponent::new(engine, settings, clock).unwrap();
    let leader = leader.in_surroundings(surroundings(wireless(), 7));
    let mut report = leader.step(None, clock.now(), None).await.unwrap();
    let mut is_listed = false;
    // A new leader soon adds its name to the list.
    while !(is_listed && report.renewed && report.again_in > Duration::from_secs(1)) {
        clock.advance(Duration::from_nanos(1).max(report.again_in));
        report = leader.step(Some(&report.state), clock.now(), None).await.unwrap();
        is_listed |=
            report.exchanges.iter().any(|exchange| exchange.what == RequestKind::WriteCandidates);
    }
    (leader, report)
}

#[tokio::test]
async fn a_leader_gets_a_permit_while_other_accounts_do_not_answer() {
    let (open, clock) = (Arc::new(Semaphore::new(0)), HandClock::default());
    let (leader, report) = leader(&Engine::new().unwrap(), &clock).await;
    let _steps = start_many(&leader, &open).await;
    clock.advance(report.again_in);
    let renewal = leader.step(Some(&report.state), clock.now(), None);
    let others = async {
        settle().await;
        assert!(leader.queue_time().is_some(), "it waits for them");
    };
    let (renewal, ()) = tokio::join!(renewal, others);
    assert!(renewal.unwrap().renewed);
}

#[tokio::test]
async fn a_candidate_with_a_lease_does_not_wait_for_new_ones() {
    let (open, clock) = (Arc::new(Semaphore::new(0)), HandClock::default());
    let new = ElectionComponent::new(&Engine::new().unwrap(), settings_for("new"), &clock).unwrap();
    let new = new.in_surroundings(surroundings(wireless(), 7));
    let mut report = new.step(None, clock.now(), None).await.unwrap();
    while report.exchanges.iter().all(|exchange| exchange.what != RequestKind::AcquireLease) {
        clock.advance(report.again_in);
        report = new.step(Some(&report.state), clock.now(), None).await.unwrap();
    }
    assert_eq!(report.role, Role::Undecided);
    let _steps = start_many(&new, &open).await;
    clock.advance(report.again_in);
    let raises = new.step(Some(&report.state), clock.now(), None);
    let others = async {
        settle().await;
        assert!(new.queue_time().is_some(), "it waits for them");
    };
    let (raised, ()) = tokio::join!(raises, others);
    assert!(matches!(raised.unwrap().role, Role::Leading(_)));
}

#[tokio::test]
async fn a_leader_comes_first_and_its_renewal_counts_from_when_it_was_sent() {
    let (open, clock) = (Arc::new(Semaphore::new(0)), HandClock::default());
    let engine = Engine::new().unwrap();
    let (leader, report) = leader(&engine, &clock).await;
    let mut steps = start_many(&leader, &open).await;
    // Other leaders take the remaining permits.
    let mut leaders = Vec::new();
    let later = Urgency::Leader(Instant::now() + Duration::from_secs(3600));
    while let Some(place) = engine.call_permit(later).now_or_never() {
        leaders.push(place);
    }

    clock.advance(report.again_in);
    let requested_at = clock.now();
    let renewal = leader.step(Some(&report.state), requested_at, None);
    let others = async {
        settle().await;
        assert_eq!(leader.queue_time(), None);
        clock.advance(Duration::from_secs(3));
        // The leader gets the first free permit, before all steps that have waited longer.
        open.add_permits(1);
        steps.join_next().await
    };
    let (renewal, looked) = tokio::join!(renewal, others);
    looked.unwrap().unwrap().unwrap();
    let renewal = renewal.unwrap();
    assert_eq!(leader.queue_time(), Some(Duration::from_secs(3)));
    let Role::Leading(leadership) = renewal.role else { panic!("{renewal:?}") };
    assert!(renewal.renewed, "{renewal:?}");
    // The lease less the margin from the time of sending, counted from the time of the request.
    assert_eq!(leadership.valid_for, Duration::from_secs(15 + 3));
    open.add_permits(MANY);
    steps.join_all().await;
}

#[tokio::test]
async fn time_before_the_first_poll_counts() {
    let clock = HandClock::default();
    let (leader, report) = leader(&Engine::new().unwrap(), &clock).await;
    let frozen = Duration::from_secs(3);
    clock.advance(report.again_in);
    let renewal = leader.step(Some(&report.state), clock.now(), None);
    clock.advance(frozen);
    let renewal = renewal.await.unwrap();
    let Role::Leading(leadership) = renewal.role else { panic!("{renewal:?}") };
    assert!(renewal.renewed, "{renewal:?}");
    // Sent after the freeze; the report counts from before it.
    assert_eq!(leadership.valid_for, Duration::from_secs(15) + frozen);
}

#[tokio::test]
async fn a_late_leader_holds_others_back_and_is_reported_once() {
    let (engine, clock) = (Engine::new().unwrap(), HandClock::default());
    let (leader, mut report) = leader(&engine, &clock).await;
    let late = Duration::from_secs(3);
    for expected in [Some(late), None] {
        clock.advance(report.again_in + late);
        report = leader.step(Some(&report.state), clock.now(), None).await.unwrap();
        assert!(report.renewed, "{report:?}");
        assert_eq!(leader.lateness(), expected);
        assert!(engine.call_permit(Urgency::Other).now_or_never().is_none());
    }
    clock.advance(report.again_in);
    leader.step(Some(&report.state), clock.now(), None).await.unwrap();
    assert_eq!(leader.lateness(), None);
    // After leaders have been in time for a while.
    drop(engine.call_permit(Urgency::Other).await);
}

/// The progress of one election.
#[derive(Debug, Default)]
struct Progress {
    renewals: u32,
    /// Unexpected events.
    unexpected: Vec<Event>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_of_a_hundred_elections_are_led_and_none_is_lost() {
    let store = store().await;
    let clock = BootClock::new();
    let first = ElectionComponent::new(&Engine::new().unwrap(), settings(&store), &clock).unwrap();
    let progress = watch::Sender::new(BTreeMap::<usize, Progress>::new());
    let leave = watch::Sender::new(false);
    let mut candidates = JoinSet::new();
    for number in 0..MANY {
        // Frequent renewals with much time for each: on a busy machine steps and responses are
        // late.
        let settings = settings(&store)
            .with(variable::ELECTION, format!("tests/{number}"))
            .with(variable::LEASE, "60s")
            .with(variable::RENEW, "2s")
            .with(variable::REQUEST_TIMEOUT, "10s");
        let component = first.for_candidate(settings, &clock);
        component.check().await.unwrap();
        let sender = progress.clone();
        let on_event = move |event: Event| {
            sender.send_modify(|all| {
                let progress = all.entry(number).or_default();
                match event {
                    Event::Renewed { .. } => progress.renewals += 1,
                    Event::StoodDown {
                        reason: StandDownReason::Election(EndingReason::Left),
                        ..
                    } => {}
                    Event::Problem { .. } | Event::StoodDown { .. } => {
                        progress.unexpected.push(event)
                    }
                    _ => {}
                }
            });
        };
        let runner = Runner::new(component, from_fn(|_, _| async { Ok(()) }), clock.clone());
        let (mut runner, mut leaving) = (runner.on_event(on_event), leave.subscribe());
        candidates.spawn(async move {
            runner.run(async { drop(leaving.wait_for(|leave| *leave).await) }).await;
        });
    }
    let mut receiver = progress.subscribe();
    let done = |results: &BTreeMap<usize, Progress>| {
        let led = results.len() == MANY && results.values().all(|result| result.renewals >= 3);
        led || results.values().any(|result| !result.unexpected.is_empty())
    };
    drop(receiver.wait_for(done).await.unwrap());
    leave.send_replace(true);
    candidates.join_all().await;
    // The wait may have ended early because of an unexpected event.
    let results = progress.borrow();
    let wrong = results.iter().filter(|(_, result)| !result.unexpected.is_empty());
    assert!(wrong.clone().next().is_none(), "{:?}", wrong.collect::<Vec<_>>());
    assert!(results.values().all(|result| result.renewals >= 3), "{results:?}");
}
