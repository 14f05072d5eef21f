//! The candidates that `tenure status` shows, by what they leave beside the election's blob.

use std::path::Path;
use std::process::Output;
use std::time::Duration;

use serde_json::Value;
use tenure_store::sas::Scope;
use tenure_tests::credential::with_sas;
use tenure_tests::{Access, BEAT_HANDLER, Group, Line, Sink, Store, needs};
use tokio::process::Command;
use tokio::time::{sleep, timeout};

use crate::PROGRAM;

/// For what has no bound of its own, on a busy machine.
const SOON: Duration = tenure_tests::PATIENCE;

async fn candidates(group: &Group, more: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    command.args(["status", &group.election]).args(more);
    group.access.give(&mut command);
    timeout(SOON, command.output()).await.unwrap().unwrap()
}

fn object(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

/// The names, once there are so many.
async fn listed(group: &Group, count: usize) -> Vec<Value> {
    let asked = async {
        loop {
            let output = candidates(group, &["--json"]).await;
            let told = object(&output);
            let listed = told["candidates"].as_array().unwrap().clone();
            if listed.len() == count {
                let expected = if told["leader"].is_null() { 1 } else { 0 };
                assert_eq!(output.status.code(), Some(expected));
                return listed;
            }
            sleep(Duration::from_millis(200)).await;
        }
    };
    timeout(SOON, asked).await.unwrap()
}

async fn contend_and_are_listed(store: Store) {
    let sink = Sink::start().await.unwrap();
    let group = Group::new(PROGRAM, &store, &sink);
    group.warm_up().await.unwrap();
    let nobody = candidates(&group, &[]).await;
    assert_eq!(nobody.status.code(), Some(1), "{nobody:?}");
    let shown = String::from_utf8_lossy(&nobody.stdout).into_owned();
    assert!(
        shown.contains("no candidate has run yet") && !shown.contains("candidate  state"),
        "{shown}"
    );

    // Nobody takes over, and a store that stands still for a while is no problem.
    let patient = ["--lease", "60s", "--request-timeout", "15s"];
    let own = [&patient[..], &["--address", "http://10.0.0.4:80"]].concat();
    let ada = group.start("ada", &own).unwrap();
    ada.event("elected", SOON).await;
    let ben = group.start("ben", &["--failover", "3s", "--request-timeout", "15s"]).unwrap();
    let mut told = listed(&group, 2).await;
    told.sort_by_key(|candidate| candidate["name"].to_string());
    assert_eq!((&told[0]["name"], &told[1]["name"]), (&"ada".into(), &"ben".into()));
    assert_eq!(told[0]["address"], "http://10.0.0.4:80");
    assert_eq!((&told[0]["failover_ms"], &told[1]["failover_ms"]), (&Value::Null, &3_000.into()));
    assert_eq!((&told[0]["ready"], &told[1]["ready"]), (&true.into(), &true.into()));
    let text = candidates(&group, &[]).await;
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("\n\ncandidate  state     failover  seen"), "{text}");
    assert_eq!((ada.count("stood-down"), ada.count("problem")), (0, 0), "{}", ada.transcript());
    assert_eq!(ben.count("problem"), 0, "{}", ben.transcript());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn candidates_are_listed_by_the_embedded_store() {
    contend_and_are_listed(Store::embedded().await.unwrap()).await;
}

async fn candidates_are_listed_by_azurite() {
    contend_and_are_listed(Store::shared_azurite(false).await.unwrap()).await;
}

needs!(Node => async fn candidates_are_listed_by_azurite);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_not_write_there_says_so_once_and_contends_all_the_same() {
    let (store, sink) = (Store::embedded().await.unwrap(), Sink::start().await.unwrap());
    let mut group = Group::new(PROGRAM, &store, &sink);
    group.patient = true;
    group.warm_up().await.unwrap();
    let mut ada = group.start("ada", &[]).unwrap();
    ada.event("elected", SOON).await;
    let (container, blob) = group.election.split_once('/').unwrap();
    let scope = Scope::Blob { container: container.into(), blob: blob.into() };
    let access = Access::with(with_sas(&group.connection_string, scope, "rw"));
    let ben = group.start_with("ben", &access, Path::new(BEAT_HANDLER), &[]).unwrap();
    let mut status = Command::new(PROGRAM);
    status.args(["status", &group.election]);
    access.give(&mut status);
    let status = timeout(SOON, status.output()).await.unwrap().unwrap();
    let shown = String::from_utf8_lossy(&status.stdout).into_owned();
    assert_eq!(status.status.code(), Some(0), "{status:?}");
    assert!(shown.contains("the list of candidates could not be read (refused): "), "{shown}");
    let told = |line: &Line| {
        line.event["detail"]
            .as_str()
            .unwrap_or("")
            .contains("this candidate is missing from the list of candidates")
    };
    timeout(SOON, ben.line_where(told)).await.unwrap();
    ada.terminate(SOON).await.unwrap();
    ben.event("elected", SOON).await;
    ben.event("turn-ended", SOON).await;
    let lines = ben.lines();
    assert_eq!(lines.iter().filter(|line| told(line)).count(), 1, "{}", ben.transcript());
    // Orders, which it may not read either, are reported as a problem.
    let problems = lines.iter().filter(|line| line.name() == "problem");
    let others = problems
        .filter(|line| !line.event["detail"].as_str().unwrap_or("").starts_with("read orders"));
    assert_eq!((ben.count("stood-down"), others.count()), (0, 0), "{}", ben.transcript());
}
