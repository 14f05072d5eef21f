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
fn a_turn_that_waited_has_the_time_that_is_left() {
    let clock = BootClock::new();
    let lease = |left| Lease::new(1, clock.reading(), clock.now() + Duration::from_secs(left));
    let turn = after(Duration::from_secs(3), turn(), &lease(20));
    assert!(
        (Duration::from_secs(19)..=Duration::from_secs(20)).contains(&turn.valid_for),
        "{turn:?}"
    );
    assert_eq!(turn.time_limit, Some(Duration::from_secs(2)));
    let turn = after(Duration::from_secs(3), Turn { time_limit: None, ..turn }, &lease(0));
    assert_eq!((turn.valid_for, turn.time_limit), (Duration::ZERO, None));
    let turn = after(Duration::from_secs(9), super::tests::turn(), &lease(1));
    assert_eq!(turn.time_limit, Some(Duration::ZERO));
}

/// Its work does not begin, and that is reported once.
#[tokio::test]
async fn a_share_that_cannot_read_of_a_coordinator_waits_and_says_why() {
    let clock = BootClock::new();
    let nobody = "AccountName=tenure;AccountKey=a2V5;BlobEndpoint=http://127.0.0.1:1/tenure";
    let settings = Variables::new()
        .with("TENURE_ELECTION", "jobs/orders")
        .with("TENURE_NAME", "ada")
        .with("AZURE_STORAGE_CONNECTION_STRING", nobody);
    let election = Election::new(settings, &clock);
    election.check().unwrap();
    let events = Arc::new(Mutex::new(Vec::new()));
    let reported = events.clone();
    let work = handler::from_fn(|_, _| async { panic!("it works") });
    let share = OfShare::new(Part { index: 0, count: 2 }, work, Arc::new(election))
        .on_event(move |event| reported.lock().unwrap().push(event));
    let lease = Lease::new(1, clock.reading(), Duration::MAX);
    let ended = timeout(READ_AGAIN * 7 / 2, share.on_tick(turn(), lease)).await;
    assert!(ended.is_err(), "{ended:?}");
    let events = events.lock().unwrap();
    let [Event::Problem { detail, .. }] = &events[..] else { panic!("{events:?}") };
    assert!(detail.starts_with("share 0 of 2 does not begin yet: "), "{detail}");
}
