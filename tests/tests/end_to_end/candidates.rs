//! Candidates in `tenure status`, which reads the blobs that they write beside the election's blob.

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

/// Limit of waits without a specific bound, on a busy machine.
const TIMEOUT: Duration = tenure_tests::PATIENCE;

async fn status_output(group: &Group, extra_args: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    command.args(["status", &group.election]).args(extra_args);
    group.access.apply(&mut command);
    timeout(TIMEOUT, command.output()).await.unwrap().unwrap()
}

fn parse_json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

/// Waits until there are `count` candidates, and returns them.
async fn wait_for_candidates(group: &Group, count: usize) -> Vec<Value> {
    let polling = async {
        loop {
            let output = status_output(group, &["--json"]).await;
            let status = parse_json(&output);
            let entries = status["candidates"].as_array().unwrap().clone();
            if entries.len() == count {
                let expected = if status["leader"].is_null() { 1 } else { 0 };
                assert_eq!(output.status.code(), Some(expected));
                return entries;
            }
            sleep(Duration::from_millis(200)).await;
        }
    };
    timeout(TIMEOUT, polling).await.unwrap()
}

async fn contend_and_are_listed(store: Store) {
    let sink = Sink::start().await.unwrap();
    let group = Group::new(PROGRAM, &store, &sink);
    group.warm_up().await.unwrap();
    let no_candidates = status_output(&group, &[]).await;
    assert_eq!(no_candidates.status.code(), Some(1), "{no_candidates:?}");
    let stdout = String::from_utf8_lossy(&no_candidates.stdout).into_owned();
    assert!(
        stdout.contains("no candidate has run yet") && !stdout.contains("candidate  state"),
        "{stdout}"
    );

    // No candidate takes over, and a store that stalls for a while is no problem.
    let patient_args = ["--lease", "60s", "--request-timeout", "15s"];
    let ada_args = [&patient_args[..], &["--address", "http://10.0.0.4:80"]].concat();
    let ada = group.start("ada", &ada_args).unwrap();
    ada.event("elected", TIMEOUT).await;
    let ben = group.start("ben", &["--failover", "3s", "--request-timeout", "15s"]).unwrap();
    let mut entries = wait_for_candidates(&group, 2).await;
    entries.sort_by_key(|candidate| candidate["name"].to_string());
    assert_eq!((&entries[0]["name"], &entries[1]["name"]), (&"ada".into(), &"ben".into()));
    assert_eq!(entries[0]["address"], "http://10.0.0.4:80");
    assert_eq!(
        (&entries[0]["failover_ms"], &entries[1]["failover_ms"]),
        (&Value::Null, &3_000.into())
    );
    assert_eq!((&entries[0]["ready"], &entries[1]["ready"]), (&true.into(), &true.into()));
    let text = status_output(&group, &[]).await;
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
async fn refused_list_write_is_reported_once_and_candidate_contends() {
    let (store, sink) = (Store::embedded().await.unwrap(), Sink::start().await.unwrap());
    let mut group = Group::new(PROGRAM, &store, &sink);
    group.patient_timings = true;
    group.warm_up().await.unwrap();
    let mut ada = group.start("ada", &[]).unwrap();
    ada.event("elected", TIMEOUT).await;
    let (container, blob) = group.election.split_once('/').unwrap();
    let scope = Scope::Blob { container: container.into(), blob: blob.into() };
    let access = Access::from_connection_string(with_sas(&group.connection_string, scope, "rw"));
    let ben = group.start_with("ben", &access, Path::new(BEAT_HANDLER), &[]).unwrap();
    let mut status = Command::new(PROGRAM);
    status.args(["status", &group.election]);
    access.apply(&mut status);
    let status = timeout(TIMEOUT, status.output()).await.unwrap().unwrap();
    let stdout = String::from_utf8_lossy(&status.stdout).into_owned();
    assert_eq!(status.status.code(), Some(0), "{status:?}");
    assert!(stdout.contains("the list of candidates could not be read (refused): "), "{stdout}");
    let is_missing_notice = |line: &Line| {
        line.event["detail"]
            .as_str()
            .unwrap_or("")
            .contains("this candidate is missing from the list of candidates")
    };
    timeout(TIMEOUT, ben.wait_for_line(is_missing_notice)).await.unwrap();
    ada.terminate(TIMEOUT).await.unwrap();
    ben.event("elected", TIMEOUT).await;
    ben.event("turn-ended", TIMEOUT).await;
    let lines = ben.lines();
    assert_eq!(
        lines.iter().filter(|line| is_missing_notice(line)).count(),
        1,
        "{}",
        ben.transcript()
    );
    // Orders, which it may not read either, are reported as a problem.
    let problems = lines.iter().filter(|line| line.name() == "problem");
    let other_problems = problems
        .filter(|line| !line.event["detail"].as_str().unwrap_or("").starts_with("read orders"));
    assert_eq!((ben.count("stood-down"), other_problems.count()), (0, 0), "{}", ben.transcript());
}
