use super::*;
use std::sync::Mutex;
use tenure::engine::Variables;
use tenure::handler;
use tenure_core::Timestamp;
use tokio::time::timeout;

fn turn() -> Turn {
    Turn {
        election: "jobs/orders.share.1.0-of-2".to_owned(),
        term: 7,
        slot: Timestamp(1_500_000_000),
        trigger: None,
        key: "acme/jobs/orders/1970-01-01T00:00:01.500Z".to_owned(),
        attempt: 1,
        past_due: false,
        missed: 0,
        valid_for: Duration::from_secs(12),
        time_limit: Some(Duration::from_secs(5)),
        share: None,
    }
}

#[test]
fn a_turn_that_waited_has_the_remaining_time() {
    let clock = BootClock::new();
    let lease = |seconds| Lease::new(1, clock.handle(), clock.now() + Duration::from_secs(seconds));
    let turn = with_time_passed(Duration::from_secs(3), turn(), &lease(20));
    assert!(
        (Duration::from_secs(19)..=Duration::from_secs(20)).contains(&turn.valid_for),
        "{turn:?}"
    );
    assert_eq!(turn.time_limit, Some(Duration::from_secs(2)));
    let turn =
        with_time_passed(Duration::from_secs(3), Turn { time_limit: None, ..turn }, &lease(0));
    assert_eq!((turn.valid_for, turn.time_limit), (Duration::ZERO, None));
    let turn = with_time_passed(Duration::from_secs(9), super::tests::turn(), &lease(1));
    assert_eq!(turn.time_limit, Some(Duration::ZERO));
}

fn unreachable_election(clock: &BootClock) -> Election {
    let unreachable_account =
        "AccountName=tenure;AccountKey=a2V5;BlobEndpoint=http://127.0.0.1:1/tenure";
    let settings = Variables::new()
        .with("TENURE_ELECTION", "jobs/orders")
        .with("TENURE_NAME", "ada")
        .with("AZURE_STORAGE_CONNECTION_STRING", unreachable_account);
    let election = Election::new(settings, clock);
    election.check().unwrap();
    election
}

/// The work does not start, and the reason is reported once.
#[tokio::test]
async fn a_share_without_a_known_coordinator_waits_and_reports_why() {
    let clock = BootClock::new();
    let election = unreachable_election(&clock);
    let events = Arc::new(Mutex::new(Vec::new()));
    let reported = events.clone();
    let work = handler::from_fn(|_, _| async { panic!("it works") });
    let share = ShareHandler::new(Part { index: 0, count: 2 }, work, Arc::new(election))
        .on_event(move |event| reported.lock().unwrap().push(event));
    let lease = Lease::new(1, clock.handle(), Duration::MAX);
    let ended = timeout(REREAD_INTERVAL * 7 / 2, share.on_tick(turn(), lease)).await;
    assert!(ended.is_err(), "{ended:?}");
    let events = events.lock().unwrap();
    let [Event::Problem { detail, .. }] = &events[..] else { panic!("{events:?}") };
    assert!(detail.starts_with("share 0 of 2 does not begin yet: "), "{detail}");
}

/// The instants are virtual: the loop is not run.
#[tokio::test]
async fn the_loop_wakes_in_time() {
    let seconds = Duration::from_secs;
    let clock = BootClock::new();
    let sign = Sign {
        member: "ada".to_owned(),
        weight: 1,
        max_shares: None,
        timing: SignTiming::from_failover(seconds(15)),
    };
    let settings =
        MemberSettings { sign, count: 2, break_after: seconds(30), leave_within: seconds(20) };
    let environment = (Arc::new(unreachable_election(&clock)), clock, Runtime::current());
    let idle = || -> CandidateFuture { Box::pin(std::future::pending()) };
    let start_candidate = |_: ShareCandidate, _: CandidateContext| idle();
    let mut task = Task::new(settings, environment, Arc::new(|_| {}), |_| idle(), &start_candidate);
    // Reports may change the state meanwhile.
    task.cool_down_until = Some(seconds(160));
    assert_eq!(task.wake_at(seconds(100)), seconds(103));
    assert_eq!(task.wake_at(seconds(159)), seconds(160));
    task.cool_down_until = None;
    // The coordinating candidate leaves 3 s after the start, whenever the loop ran before.
    task.leaving_since = Some(seconds(100));
    assert_eq!(task.wake_at(seconds(102)), seconds(103));
    assert_eq!(task.wake_at(seconds(103)), seconds(106));
    // All shares leave after 20 s.
    assert_eq!(task.wake_at(seconds(119)), seconds(120));
    assert_eq!(task.wake_at(seconds(120)), seconds(121));
}
