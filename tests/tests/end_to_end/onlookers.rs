//! `tenure status`: what it follows with `--watch`, and what it says of turns, former leaders and this machine.

use crate::PROGRAM;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use tenure_tests::{Candidate, Group, Line, Sink, Store};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

const SOON: Duration = tenure_tests::PATIENCE;

fn watch(group: &Group, more: &[&str]) -> Command {
    let mut watch = Command::new(PROGRAM);
    watch.args(["status", "--watch", &group.election, "--interval", "200ms"]).args(more);
    group.access.give(&mut watch);
    watch.stdin(Stdio::null());
    watch
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_watches_sees_each_change_once_and_is_ended_by_a_signal() {
    let (store, sink) = (Store::embedded().await.unwrap(), Sink::start().await.unwrap());
    let group = Group::new(PROGRAM, &store, &sink);
    group.warm_up().await.unwrap();
    let mut watch = Candidate::spawn("watch", watch(&group, &["--json"])).unwrap();
    watch.event("nobody", SOON).await;

    let mut ada = group.start("ada", &["--address", "http://10.0.0.4:80"]).unwrap();
    let term = ada.event("elected", SOON).await.term();
    let leader = watch.event("leader", SOON).await;
    assert_eq!((leader.term(), &leader.event["name"]), (term, &Value::from("ada")));
    assert_eq!(leader.event["address"], "http://10.0.0.4:80");
    assert_eq!(leader.event["election"], group.election.as_str());
    watch.event("slot-claimed", SOON).await;
    let finished = watch.event("slot-finished", SOON).await;
    assert_eq!(finished.event["outcome"], "succeeded");

    let stopped = store.stop().await.unwrap();
    let problem = watch.event("problem", SOON).await;
    assert_eq!(problem.event["class"], "unreachable", "{:?}", problem.event);
    let store = stopped.start().await.unwrap();
    watch.event("problem-over", SOON).await;

    let before = watch.lines().len();
    ada.terminate(SOON).await.unwrap();
    let nobody = |line: &Line| line.name() == "nobody";
    let nobody = watch.line("end of the leadership", before, SOON, nobody).await;
    assert_eq!(nobody.event["last"], "ada");
    let claimed: Vec<_> =
        watch.lines().into_iter().filter(|line| line.name() == "slot-claimed").collect();
    for pair in claimed.windows(2) {
        assert_ne!(pair[0].event["slot"], pair[1].event["slot"], "told twice");
    }
    watch.signal(Signal::INT).unwrap();
    assert_eq!(watch.end(SOON).await.unwrap().code(), Some(0), "{}", watch.errors());
    assert_eq!(watch.errors(), "");
    drop(store);
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn status_says_who_ran_the_turn_that_failed_and_why() {
    let (store, sink) = (Store::embedded().await.unwrap(), Sink::start().await.unwrap());
    let mut group = Group::new(PROGRAM, &store, &sink);
    group.timer = ["--every", "1s"];
    let ada = group.command("ada", &["--max-failures", "0"], &["sh", "-c", "exit 3"]);
    let mut ada = Candidate::spawn("ada", ada).unwrap();
    let ended = ada.event("turn-ended", SOON).await;
    let detail = ended.event["detail"].as_str().expect("a detail").to_owned();
    let status = async || {
        let mut command = Command::new(PROGRAM);
        command.args(["status", &group.election, "--json"]).stdin(Stdio::null());
        group.access.give(&mut command);
        serde_json::from_slice::<Value>(&command.output().await.unwrap().stdout).unwrap()
    };
    // On record within 5 s, or with the next claim.
    let failure = tokio::time::timeout(SOON, async {
        loop {
            let told = status().await["last_failure"].clone();
            if !told.is_null() {
                return told;
            }
        }
    });
    let failure = failure.await.unwrap();
    assert_eq!((&failure["candidate"], &failure["reason"]), (&"ada".into(), &detail.into()));
    ada.terminate(SOON).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_goes_away_ends_it_quietly() {
    let (store, sink) = (Store::embedded().await.unwrap(), Sink::start().await.unwrap());
    let group = Group::new(PROGRAM, &store, &sink);
    group.warm_up().await.unwrap();
    let mut command = watch(&group, &[]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let first = lines.next_line().await.unwrap().unwrap();
    assert!(first.ends_with("lease     absent"), "{first}");
    drop(lines);
    // Something to write about.
    let mut ada = group.start("ada", &[]).unwrap();
    let ended = tokio::time::timeout(SOON, child.wait_with_output()).await.unwrap().unwrap();
    assert_eq!(ended.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&ended.stderr), "");
    ada.terminate(SOON).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interval_that_cannot_be_is_told_with_the_rest() {
    let (store, sink) = (Store::embedded().await.unwrap(), Sink::start().await.unwrap());
    let group = Group::new(PROGRAM, &store, &sink);
    let mut command = Command::new(PROGRAM);
    command.args(["status", "--watch", "nothing", "--interval", "1ms"]);
    group.access.give(&mut command);
    let output = command.output().await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("--interval 1ms") && said.contains("nothing"), "{said}");
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_written_is_no_success() {
    let (store, sink) = (Store::embedded().await.unwrap(), Sink::start().await.unwrap());
    let group = Group::new(PROGRAM, &store, &sink);
    group.warm_up().await.unwrap();
    for arguments in
        [&["status"][..], &["status", "--json"], &["check", "--json"], &["status", "--watch"]]
    {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut command = Command::new(PROGRAM);
        command.args(arguments).args([&group.election]).stdin(Stdio::null());
        group.access.give(&mut command);
        let child = command.stdout(full).stderr(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let output = tokio::time::timeout(SOON, child.wait_with_output()).await.unwrap().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert_eq!(said.matches("standard output cannot be written: ").count(), 1, "{said}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn status_says_what_there_is_to_know_of_this_machine() {
    let (store, sink) = (Store::embedded().await.unwrap(), Sink::start().await.unwrap());
    let group = Group::new(PROGRAM, &store, &sink);
    group.warm_up().await.unwrap();
    let status = async |own: &[(&str, &str)]| {
        let mut command = Command::new(PROGRAM);
        command.args(["status", &group.election]).stdin(Stdio::null());
        group.access.give(&mut command);
        let output = command.envs(own.iter().copied()).output().await.unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (code, said) = status(&[]).await;
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("here         nobody leads, because no candidate has run yet"), "{said}");

    let mut ada = group.start("ada", &[]).unwrap();
    ada.event("turn-ended", SOON).await;
    let (code, said) = status(&[("TENURE_NAME", "ben"), ("TENURE_EVERY", "1h")]).await;
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("ben can take over when ada is gone"), "{said}");
    assert!(said.contains("the settings here say \"every 1h\""), "{said}");
    let (_, said) = status(&[("TENURE_NAME", "ada"), ("TENURE_EVERY", "2s")]).await;
    assert!(
        said.contains("here         ada leads; that is the candidate with this machine's settings"),
        "{said}"
    );
    assert!(!said.contains("the settings here say"), "{said}");
    ada.terminate(SOON).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn history_shows_who_led_before() {
    let (store, sink) = (Store::embedded().await.unwrap(), Sink::start().await.unwrap());
    let group = Group::new(PROGRAM, &store, &sink);
    group.warm_up().await.unwrap();
    let history = async |more: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command.args(["status", "--history", &group.election]).args(more).stdin(Stdio::null());
        group.access.give(&mut command);
        let output = command.output().await.unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (code, shown) = history(&[]).await;
    assert_eq!(code, Some(1), "nobody ever led");
    assert!(shown.contains("\n\nNobody has led yet.\n"), "{shown}");
    let mut terms = Vec::new();
    for name in ["ada", "ben", "cleo"] {
        let mut candidate = group.start(name, &[]).unwrap();
        terms.push(candidate.event("elected", SOON).await.term());
        candidate.terminate(SOON).await.unwrap();
    }
    let (code, shown) = history(&[]).await;
    assert_eq!(code, Some(1), "nobody leads: {shown}");
    let (_, table) = shown.split_once("\nterm ").unwrap_or_else(|| panic!("{shown}"));
    let names = table.lines().skip(1).filter_map(|line| line.split_whitespace().last());
    assert_eq!(names.take(3).collect::<Vec<_>>(), ["cleo", "ben", "ada"], "{shown}");
    let told: Value = serde_json::from_str(&history(&["--json"]).await.1).unwrap();
    assert_eq!(told["last_leader"]["name"], "cleo");
    let names: Vec<_> =
        told["history"].as_array().unwrap().iter().map(|leader| &leader["name"]).collect();
    assert_eq!(names, ["ben", "ada"]);
    assert_eq!(told["history"][1]["term"], terms[0]);
    assert_eq!((&told["leader"], &told["changes"]), (&Value::Null, &3.into()));
}
