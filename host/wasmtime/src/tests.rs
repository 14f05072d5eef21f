//! Tests of the released component against the embedded store.

mod instances;
mod many;

use super::{CheckError, ElectionComponent, Engine, Network, NetworkFailure, Surroundings};
use bytes::Bytes;
use chrono::DateTime;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tenure::engine::{Election, Variables};
use tenure::handler::BoxFuture;
use tenure_clock::virtual_time::VirtualClock;
use tenure_clock::{BootClock, Clock};
use tenure_core::{Event, LeaseState, Role, Snapshot, State, variable};
use tenure_store::{Account, Now, Request, Service, Store};

fn component(settings: Variables) -> (ElectionComponent, BootClock) {
    let clock = BootClock::new();
    let engine = Engine::new().unwrap();
    (ElectionComponent::new(&engine, settings, &clock).unwrap(), clock)
}

async fn store() -> Store {
    let service = Service::new(vec![Account::emulator()], 1);
    Store::start(([127, 0, 0, 1], 0).into(), service).await.unwrap()
}

fn settings(store: &Store) -> Variables {
    Variables::new()
        .with(variable::ELECTION, "tests/component")
        .with(variable::NAME, "a")
        .with(variable::EVERY, "1h")
        .with(variable::CONNECTION_STRING, store.connection_string())
}

/// Returns the public view of the election.
async fn inspect(store: &Store) -> Snapshot {
    let election = Election::new(settings(store), &BootClock::new());
    election.check().unwrap();
    election.inspect().await.unwrap()
}

#[tokio::test]
async fn all_complaints_come_at_once_and_without_a_secret() {
    let settings = Variables::new()
        .with(variable::LEASE, "5s")
        .with(variable::CONNECTION_STRING, "AccountName=a;AccountKey=c2VjcmV0;Secret");
    let (component, _) = component(settings);
    let Err(CheckError::Settings(complaints)) = component.check().await else {
        panic!("the settings are wrong");
    };
    for setting in [variable::ELECTION, variable::LEASE, variable::CONNECTION_STRING] {
        assert!(complaints.iter().any(|about| about.starts_with(setting)), "{complaints:?}");
    }
    assert!(!format!("{complaints:?}").contains("c2VjcmV0"));
    assert!(!format!("{component:?}").contains("c2VjcmV0"));
}

#[tokio::test]
async fn a_directory_in_place_of_a_secret_is_named_as_natively() {
    let folder = tempfile::tempdir().unwrap();
    let settings = Variables::new()
        .with(variable::ELECTION, "tests/component")
        .with(variable::CONNECTION_STRING_FILE, folder.path().to_str().unwrap());
    let (component, clock) = component(settings.clone());
    let complaint = component.check().await.unwrap_err().to_string();
    assert!(complaint.contains("is a directory"), "{complaint}");
    assert_eq!(complaint, Election::new(settings, &clock).check().unwrap_err().to_string());
}

#[tokio::test]
async fn it_is_elected_seen_and_leaves() {
    let store = store().await;
    let (component, clock) = component(settings(&store));
    let needs = component.check().await.unwrap();
    assert_eq!(needs.origins, [format!("http://{}", store.address())]);

    let before = inspect(&store).await;
    assert_eq!((before.lease, before.incumbent), (LeaseState::Absent, None));

    let mut report = component.step(None, clock.now(), None).await.unwrap();
    while !matches!(report.role, Role::Leading(_)) {
        clock.sleep_until(clock.now() + report.again_in).await;
        report = component.step(Some(&report.state), clock.now(), None).await.unwrap();
    }
    let during = inspect(&store).await;
    assert_eq!(during.lease, LeaseState::Leased);
    assert_eq!(during.incumbent.unwrap().name, "a");

    let left =
        component.step(Some(&report.state), clock.now(), Some(Event::Leave(None))).await.unwrap();
    assert_eq!(left.role, Role::Left);
    let after = inspect(&store).await;
    assert_eq!(after.lease, LeaseState::Available);
}

#[tokio::test]
async fn nothing_is_sent_before_the_check() {
    let store = store().await;
    let (component, clock) = component(settings(&store));
    let report = component.step(None, clock.now(), None).await.unwrap();
    assert_eq!(report.role, Role::Undecided);
    assert_eq!(report.problems.len(), 1, "{:?}", report.problems);
    assert_eq!(inspect(&store).await.lease, LeaseState::Absent);
}

/// A simulated network with a service whose time stands still.
struct Wireless(Mutex<Service>);

const NOW: u64 = 1_800_000_000;

impl Network for Wireless {
    fn send(
        &self,
        request: http::Request<Bytes>,
    ) -> BoxFuture<'static, Result<http::Response<Bytes>, NetworkFailure>> {
        let (head, body) = request.into_parts();
        let wall = DateTime::from_timestamp(i64::try_from(NOW).unwrap(), 0).unwrap();
        let now = Now { elapsed: Duration::from_secs(1), wall };
        let answer = self.0.lock().unwrap().handle(now, &Request::from_http(&head, body));
        Box::pin(async move { Ok(answer.into_http()) })
    }
}

/// Returns surroundings with this network and randomness from `seed`.
fn surroundings(network: impl Network + 'static, seed: u64) -> Surroundings {
    let bits = AtomicU64::new(seed);
    Surroundings {
        wall: Arc::new(|| Duration::from_secs(NOW)),
        random: Arc::new(move || bits.fetch_add(1, Ordering::Relaxed)),
        network: Arc::new(network),
    }
}

/// Returns the state of a candidate that found no leader.
fn first_state(engine: &Engine, seed: u64) -> State {
    VirtualClock::run(async |clock| {
        let network = Wireless(Mutex::new(Service::new(vec![Account::emulator()], 1)));
        let settings = Variables::new()
            .with(variable::ELECTION, "tests/component")
            .with(variable::EVERY, "1h")
            .with(variable::CONNECTION_STRING, "UseDevelopmentStorage=true");
        let component = ElectionComponent::new(engine, settings, &clock).unwrap();
        let component = component.in_surroundings(surroundings(network, seed));
        let report = component.step(None, clock.now(), None).await.unwrap();
        assert!(report.problems.is_empty(), "{:?}", report.problems);
        report.state
    })
}

#[test]
fn in_simulated_surroundings_a_run_repeats_exactly() {
    let engine = Engine::new().unwrap().uninterrupted();
    let state = first_state(&engine, 7);
    assert_eq!(state, first_state(&engine, 7));
    assert_ne!(state, first_state(&engine, 8));
}

#[tokio::test]
async fn an_event_of_a_step_that_could_not_be_made_comes_first_in_the_next_one() {
    let (store, folder) = (store().await, tempfile::tempdir().unwrap());
    let file = folder.path().join("connection");
    let write = |text: &str| std::fs::write(&file, text).unwrap();
    let settings = Variables::new()
        .with(variable::ELECTION, "tests/component")
        .with(variable::CONNECTION_STRING_FILE, file.to_str().unwrap());
    let (component, clock) = component(settings);
    write(&store.connection_string());
    component.check().await.unwrap();

    write("AccountName=");
    let undone = component.step(None, clock.now(), Some(Event::Ready(false))).await.unwrap();
    assert_eq!(undone.problems.len(), 1, "{:?}", undone.problems);
    assert!(undone.exchanges.is_empty());

    write(&store.connection_string());
    let done = component.step(Some(&undone.state), clock.now(), None).await.unwrap();
    assert!(done.problems.is_empty(), "{:?}", done.problems);
    let requests: Vec<_> = done.exchanges.iter().map(|exchange| exchange.what.name()).collect();
    assert_eq!(requests, ["read blob", "read candidates"], "it was paused");

    write("AccountName=");
    let event = Some(Event::Ready(true));
    let resumed = component.step(Some(&done.state), clock.now(), event).await.unwrap();
    assert!(resumed.problems[0].detail.contains("The former settings stay in use"), "{resumed:?}");
    let mut report = resumed;
    while !matches!(report.role, Role::Leading(_)) {
        clock.sleep_until(clock.now() + report.again_in).await;
        report = component.step(Some(&report.state), clock.now(), None).await.unwrap();
    }
    let left =
        component.step(Some(&report.state), clock.now(), Some(Event::Leave(None))).await.unwrap();
    assert_eq!(left.role, Role::Left);
}
