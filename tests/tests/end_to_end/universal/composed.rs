//! Handlers that were composed with the component, and the runner with a composed component.

use std::process::Command;
use std::time::Duration;

use ::http::Method;
use tenure::engine::Variables;
use tenure_clock::{BootClock, Clock as _};
use tenure_core::{Event, Role, variable};
use tenure_tests::{UNRULY_HANDLER, tools};
use tenure_wasmtime::compose::{Composed, UNIVERSAL_COMPONENT, compose};
use tenure_wasmtime::{ElectionComponent, Engine};

use super::world::{BEARER, World, get, tick};

fn composed_unruly() -> Composed {
    compose(&std::fs::read(UNRULY_HANDLER).unwrap()).unwrap()
}

fn unruly() -> Vec<u8> {
    composed_unruly().bytes
}

#[tokio::test]
async fn a_handler_sees_its_variables_and_no_secret() {
    let extra_variables =
        [("UNRULY", "environment"), ("MSI_SECRET", "s"), ("IDENTITY_HEADER", "s")];
    let world = World::with_component(&unruly(), &extra_variables).await;
    world.start_first_slot().await;
    let answer = tick(&world.replica("a")).await;
    let names: Vec<_> = answer.json["error"].as_str().unwrap().split(' ').collect();
    assert_eq!(names, ["TENURE_HANDLER_URL", "UNRULY"], "{answer:?}");
}

#[tokio::test]
async fn spin_variables_can_hold_all_settings() {
    let component = composed_unruly().with_spin_variables().unwrap();
    let variables = [("UNRULY", "environment"), ("MSI_SECRET", "s")];
    let world = World::with_component(&component.bytes, &variables).await;
    world.start_first_slot().await;
    let answer = tick(&world.replica("a").with_spin_variables()).await;
    assert_eq!(answer.json["outcome"], "failed", "{answer:?}");
    let names: Vec<_> = answer.json["error"].as_str().unwrap().split(' ').collect();
    assert_eq!(names, ["TENURE_HANDLER_URL", "UNRULY"], "no secret: {answer:?}");
}

#[tokio::test]
async fn webhook_with_spin_variables_takes_a_turn() {
    let folder = tempfile::tempdir().unwrap();
    let app = folder.path().join("app.wasm");
    let mut compose = Command::new(env!("CARGO_BIN_EXE_tenure-under-test"));
    compose.args(["compose", "--spin-variables", "-o"]).arg(&app);
    tools::run_command(&mut compose).unwrap();
    let world = World::with_component(&std::fs::read(app).unwrap(), &[]).await;
    world.start_first_slot().await;
    let (environment, spin) = (world.replica("a"), world.replica("b").with_spin_variables());
    let (succeeded, line) = spin.run().await.unwrap();
    assert!(succeeded && line.contains("\"outcome\":\"succeeded\""), "{line}");
    assert_eq!(world.endpoint.calls().len(), 1);
    let leader = get(&environment, "/leader").await;
    assert_eq!(leader.json["last_leader"]["name"], "b", "the environment counts too: {leader:?}");
}

/// Neither with the settings that are left, nor by a claim of a slot.
#[tokio::test]
async fn no_turn_without_readable_spin_variables() {
    let component = Composed::webhook().unwrap().with_spin_variables().unwrap();
    let world = World::with_component(&component.bytes, &[]).await;
    world.start_first_slot().await;
    let request_total = || world.store.with(|service| service.log().total());
    let before = request_total();
    world.replica("a").with_spin_error().run().await.unwrap_err();
    assert_eq!(request_total(), before);
}

#[tokio::test]
async fn handler_error_is_the_error_of_the_turn() {
    let world = World::with_component(&unruly(), &[("UNRULY", "fail")]).await;
    world.start_first_slot().await;
    let answer = tick(&world.replica("a")).await;
    assert_eq!((answer.status, answer.json["error"].as_str()), (500, Some("on purpose")));
}

#[tokio::test]
async fn after_a_trap_the_slot_stays_claimed_and_the_lease_runs_out() {
    let world = World::with_component(&unruly(), &[("UNRULY", "trap")]).await;
    world.start_first_slot().await;
    let replica = world.replica("a");
    let trapped = replica.request(Method::POST, "/tick", Some(BEARER), "").await;
    assert!(trapped.is_err(), "{trapped:?}");
    let leader = get(&replica, "/leader").await;
    assert_eq!(leader.json["lease"], "leased");
    let other = world.replica("b").with_variable("UNRULY", "fail");
    assert_eq!(tick(&other).await.json["outcome"], "followed");
    world.time.advance(Duration::from_secs(61));
    assert_eq!(get(&replica, "/leader").await.json["lease"], "expired");
    let after = tick(&other).await;
    assert_eq!(after.json["outcome"], "nothing-due", "its slot was claimed: {after:?}");
    world.time.advance(Duration::from_secs(3600));
    assert_eq!(tick(&other).await.json["outcome"], "failed", "the next one is run");
}

#[tokio::test]
async fn runner_accepts_composed_component() {
    let world = World::new(&[]).await;
    let engine = Engine::with_cache(None).unwrap();
    let settings = Variables::from_env()
        .with(variable::CONNECTION_STRING, world.store.connection_string())
        .with(variable::ELECTION, "leases/runner")
        .with(variable::EVERY, "1h");
    for binary in [UNIVERSAL_COMPONENT, &unruly()] {
        let clock = BootClock::new();
        let component =
            ElectionComponent::with_binary(&engine, binary, settings.clone(), &clock).unwrap();
        component.check().await.unwrap();
        let first = component.step(None, clock.now(), None).await.unwrap();
        // The second that an election without a record takes.
        clock.sleep_until(clock.now() + Duration::from_secs(2)).await;
        let report = component.step(Some(&first.state), clock.now(), None).await.unwrap();
        assert!(matches!(report.role, Role::Leading(_)), "{:?}", report.role);
        let leave = Some(Event::Leave(None));
        let leave_report = component.step(Some(&report.state), clock.now(), leave).await;
        assert_eq!(leave_report.unwrap().role, Role::Left);
    }
}
