//! Tests of reused instances.

use super::{Wireless, settings, store, surroundings};
use crate::{CheckError, ElectionComponent, Engine, MAX_IDLE_INSTANCES, Network, NetworkFailure};
use bytes::Bytes;
use futures_util::FutureExt as _;
use std::sync::Mutex;
use tenure::engine::Variables;
use tenure::handler::BoxFuture;
use tenure_clock::{BootClock, Clock as _};
use tenure_core::{State, variable};
use tenure_store::{Account, Service};
use tokio::task::JoinSet;

fn component(settings: Variables) -> ElectionComponent {
    ElectionComponent::new(&Engine::new().unwrap(), settings, &BootClock::new()).unwrap()
}

/// Returns settings without a real account; the network of the surroundings answers.
fn settings_for(name: &str) -> Variables {
    Variables::new()
        .with(variable::CONNECTION_STRING, "UseDevelopmentStorage=true")
        .with(variable::ELECTION, format!("tests/{name}"))
        .with(variable::EVERY, "1h")
}

#[tokio::test]
async fn an_instance_is_reused_by_all_candidates() {
    let store = store().await;
    let first = component(settings(&store));
    let clock = BootClock::new();
    let wrong = first.for_candidate(Variables::new(), &clock);
    for _ in 0..3 {
        first.check().await.unwrap();
        assert_eq!(first.idle_instances(), 1);
        // A grant for one candidate is not available to the next.
        let Err(CheckError::Settings(complaints)) = wrong.check().await else {
            panic!("it has no settings")
        };
        assert!(complaints.iter().any(|complaint| complaint.starts_with(variable::ELECTION)));
        first.step(None, clock.now(), None).await.unwrap();
        assert_eq!(wrong.idle_instances(), 1, "they share it");
    }
}

#[tokio::test]
async fn an_instance_that_trapped_grew_or_was_cancelled_is_dropped() {
    let service = Wireless(Mutex::new(Service::new(vec![Account::emulator()], 1)));
    let clock = BootClock::new();
    let first = component(settings_for("first")).in_surroundings(surroundings(service, 7));
    let step = async |state: Option<Vec<u8>>| {
        let state = state.map(State::from);
        first.step(state.as_ref(), clock.now(), None).await
    };
    step(None).await.unwrap();
    assert_eq!(first.idle_instances(), 1);
    // Above the memory limit.
    step(Some(vec![0; 100 * 1024 * 1024])).await.unwrap_err();
    assert_eq!(first.idle_instances(), 0);
    step(Some(vec![0; 1024])).await.unwrap();
    assert_eq!(first.idle_instances(), 1);
    // Above the limit of idle instances. The state is unknown to it, so it starts anew.
    step(Some(vec![0; 8 * 1024 * 1024])).await.unwrap();
    assert_eq!(first.idle_instances(), 0);
    step(None).await.unwrap();
    // A cancelled call.
    let left = first.for_candidate(settings_for("left"), &clock);
    let left = left.in_surroundings(surroundings(Silent, 7));
    assert!(left.step(None, clock.now(), None).now_or_never().is_none());
    assert_eq!(first.idle_instances(), 0);
    step(None).await.unwrap();
}

/// A network that never answers.
struct Silent;

impl Network for Silent {
    fn send(
        &self,
        _: http::Request<Bytes>,
    ) -> BoxFuture<'static, Result<http::Response<Bytes>, NetworkFailure>> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn idle_instances_are_bounded() {
    let store = store().await;
    let first = component(settings(&store));
    first.check().await.unwrap();
    let mut steps = JoinSet::new();
    for number in 0..3 * MAX_IDLE_INSTANCES {
        let settings = settings(&store).with(variable::ELECTION, format!("tests/{number}"));
        let clock = BootClock::new();
        let component = first.for_candidate(settings, &clock);
        steps.spawn(async move {
            component.check().await.unwrap();
            component.step(None, clock.now(), None).await.unwrap();
        });
    }
    steps.join_all().await;
    let idle = first.idle_instances();
    assert!((1..=usize::from(MAX_IDLE_INSTANCES)).contains(&idle), "{idle}");
}
