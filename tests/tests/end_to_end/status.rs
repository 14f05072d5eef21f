//! `tenure status`: its `--watch` output, and its reports about turns, former leaders and this
//! machine.

use crate::PROGRAM;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use tenure_store::sas::Scope;
use tenure_tests::credential::with_sas;
use tenure_tests::{Access, Candidate, Group, Line, Outsider, Sink, Store, needs, operator};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

const TIMEOUT: Duration = tenure_tests::PATIENCE;

fn watch_command(group: &Group, extra_args: &[&str]) -> Command {
    let mut watch = Command::new(PROGRAM);
    watch.args(["status", "--watch", &group.election, "--interval", "200ms"]).args(extra_args);
    group.access.apply(&mut watch);
    watch.stdin(Stdio::null());
    watch
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watch_shows_each_change_once_and_ends_on_signal() {
    let (store, sink) = (Store::embedded().await.unwrap(), Sink::start().await.unwrap());
    let group = Group::new(PROGRAM, &store, &sink);
    group.warm_up().await.unwrap();
    let mut watch = Candidate::spawn("watch", watch_command(&group, &["--json"])).unwrap();
    watch.event("no-leader", TIMEOUT).await;

    let mut ada = group.start("ada", &["--address", "http://10.0.0.4:80"]).unwrap();
    let term = ada.event("elected", TIMEOUT).await.term();
    let leader = watch.event("leader", TIMEOUT).await;
    assert_eq!((leader.term(), &leader.event["name"]), (term, &Value::from("ada")));
    assert_eq!(leader.event["address"], "http://10.0.0.4:80");
    assert_eq!(leader.event["election"], group.election.as_str());
    watch.event("slot-claimed", TIMEOUT).await;
    let finished = watch.event("slot-finished", TIMEOUT).await;
    assert_eq!(finished.event["outcome"], "succeeded");

    let stopped = store.stop().await.unwrap();
    let problem = watch.event("problem", TIMEOUT).await;
    assert_eq!(problem.event["class"], "unreachable", "{:?}", problem.event);
    let store = stopped.start().await.unwrap();
    watch.event("problem-over", TIMEOUT).await;

    let before = watch.lines().len();
    ada.terminate(TIMEOUT).await.unwrap();
    let is_no_leader = |line: &Line| line.name() == "no-leader";
    let no_leader = watch.line("end of the leadership", before, TIMEOUT, is_no_leader).await;
    assert_eq!(no_leader.event["last"], "ada");
    let claimed: Vec<_> =
        watch.lines().into_iter().filter(|line| line.name() == "slot-claimed").collect();
    for pair in claimed.windows(2) {
        assert_ne!(pair[0].event["slot"], pair[1].event["slot"], "told twice");
    }
    watch.signal(Signal::INT).unwrap();
    assert_eq!(watch.end(TIMEOUT).await.unwrap().code(), Some(0), "{}", watch.errors());
    assert_eq!(watch.errors(), "");
    drop(store);
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn status_names_candidate_and_reason_of_last_failure() {
    let (store, sink) = (Store::embedded().await.unwrap(), Sink::start().await.unwrap());
    let mut group = Group::new(PROGRAM, &store, &sink);
    group.timer = ["--every", "1s"];
    let ada = group.command("ada", &["--max-failures", "0"], &["sh", "-c", "exit 3"]);
    let mut ada = Candidate::spawn("ada", ada).unwrap();
    let ended = ada.event("turn-ended", TIMEOUT).await;
    let detail = ended.event["detail"].as_str().expect("a detail").to_owned();
    let status = async || {
        let mut command = Command::new(PROGRAM);
        command.args(["status", &group.election, "--json"]).stdin(Stdio::null());
        group.access.apply(&mut command);
        serde_json::from_slice::<Value>(&command.output().await.unwrap().stdout).unwrap()
    };
    // The record shows the failure within 5 s, or with the next claim.
    let failure = tokio::time::timeout(TIMEOUT, async {
        loop {
            let last_failure = status().await["last_failure"].clone();
            if !last_failure.is_null() {
                return last_failure;
            }
        }
    });
    let failure = failure.await.unwrap();
    assert_eq!((&failure["candidate"], &failure["reason"]), (&"ada".into(), &detail.into()));
    ada.terminate(TIMEOUT).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closed_pipe_ends_watch_quietly() {
    let (store, sink) = (Store::embedded().await.unwrap(), Sink::start().await.unwrap());
    let group = Group::new(PROGRAM, &store, &sink);
    group.warm_up().await.unwrap();
    let mut command = watch_command(&group, &[]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let first = lines.next_line().await.unwrap().unwrap();
    assert!(first.ends_with("lease     absent"), "{first}");
    drop(lines);
    // Causes output for the closed pipe.
    let mut ada = group.start("ada", &[]).unwrap();
    let ended = tokio::time::timeout(TIMEOUT, child.wait_with_output()).await.unwrap().unwrap();
    assert_eq!(ended.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&ended.stderr), "");
    ada.terminate(TIMEOUT).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_interval_is_reported_with_other_mistakes() {
    let (store, sink) = (Store::embedded().await.unwrap(), Sink::start().await.unwrap());
    let group = Group::new(PROGRAM, &store, &sink);
    let mut command = Command::new(PROGRAM);
    command.args(["status", "--watch", "nothing", "--interval", "1ms"]);
    group.access.apply(&mut command);
    let output = command.output().await.unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("--interval 1ms") && stderr.contains("nothing"), "{stderr}");
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unwritable_output_is_an_error() {
    let (store, sink) = (Store::embedded().await.unwrap(), Sink::start().await.unwrap());
    let group = Group::new(PROGRAM, &store, &sink);
    group.warm_up().await.unwrap();
    for arguments in
        [&["status"][..], &["status", "--json"], &["check", "--json"], &["status", "--watch"]]
    {
        let full_device = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut command = Command::new(PROGRAM);
        command.args(arguments).args([&group.election]).stdin(Stdio::null());
        group.access.apply(&mut command);
        let child =
            command.stdout(full_device).stderr(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let output =
            tokio::time::timeout(TIMEOUT, child.wait_with_output()).await.unwrap().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
        assert_eq!(stderr.matches("standard output cannot be written: ").count(), 1, "{stderr}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn status_describes_settings_of_this_machine() {
    let (store, sink) = (Store::embedded().await.unwrap(), Sink::start().await.unwrap());
    let group = Group::new(PROGRAM, &store, &sink);
    group.warm_up().await.unwrap();
    let status = async |variables: &[(&str, &str)]| {
        let mut command = Command::new(PROGRAM);
        command.args(["status", &group.election]).stdin(Stdio::null());
        group.access.apply(&mut command);
        let output = command.envs(variables.iter().copied()).output().await.unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (code, stdout) = status(&[]).await;
    assert_eq!(code, Some(1), "{stdout}");
    assert!(
        stdout.contains("here         there is no leader, because no candidate has run yet"),
        "{stdout}"
    );

    let mut ada = group.start("ada", &[]).unwrap();
    ada.event("turn-ended", TIMEOUT).await;
    let (code, stdout) = status(&[("TENURE_NAME", "ben"), ("TENURE_EVERY", "1h")]).await;
    assert_eq!(code, Some(0), "{stdout}");
    assert!(stdout.contains("ben can take over when ada is gone"), "{stdout}");
    assert!(stdout.contains("the settings here say \"every 1h\""), "{stdout}");
    let (_, stdout) = status(&[("TENURE_NAME", "ada"), ("TENURE_EVERY", "2s")]).await;
    assert!(
        stdout
            .contains("here         ada leads; that is the candidate with this machine's settings"),
        "{stdout}"
    );
    assert!(!stdout.contains("the settings here say"), "{stdout}");
    ada.terminate(TIMEOUT).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn history_lists_former_leaders() {
    let (store, sink) = (Store::embedded().await.unwrap(), Sink::start().await.unwrap());
    let group = Group::new(PROGRAM, &store, &sink);
    group.warm_up().await.unwrap();
    let history = async |extra_args: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command
            .args(["status", "--history", &group.election])
            .args(extra_args)
            .stdin(Stdio::null());
        group.access.apply(&mut command);
        let output = command.output().await.unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (code, stdout) = history(&[]).await;
    assert_eq!(code, Some(1), "nobody ever led");
    assert!(stdout.contains("\n\nNo leader yet.\n"), "{stdout}");
    let mut terms = Vec::new();
    for name in ["ada", "ben", "cleo"] {
        let mut candidate = group.start(name, &[]).unwrap();
        terms.push(candidate.event("elected", TIMEOUT).await.term());
        candidate.terminate(TIMEOUT).await.unwrap();
    }
    let (code, stdout) = history(&[]).await;
    assert_eq!(code, Some(1), "nobody leads: {stdout}");
    let (_, table) = stdout.split_once("\nterm ").unwrap_or_else(|| panic!("{stdout}"));
    let names = table.lines().skip(1).filter_map(|line| line.split_whitespace().last());
    assert_eq!(names.take(3).collect::<Vec<_>>(), ["cleo", "ben", "ada"], "{stdout}");
    let history_json: Value = serde_json::from_str(&history(&["--json"]).await.1).unwrap();
    assert_eq!(history_json["last_leader"]["name"], "cleo");
    let names: Vec<_> =
        history_json["history"].as_array().unwrap().iter().map(|leader| &leader["name"]).collect();
    assert_eq!(names, ["ben", "ada"]);
    assert_eq!(history_json["history"][1]["term"], terms[0]);
    assert_eq!((&history_json["leader"], &history_json["changes"]), (&Value::Null, &3.into()));
}

/// Runs two elections, the election of a share and triggers among the blobs of another application,
/// and lists the container.
async fn assert_all_lists_elections(store: Store, foreign_blobs: usize) {
    let sink = Sink::start().await.unwrap();
    let mut group = Group::new(PROGRAM, &store, &sink);
    group.warm_up().await.unwrap();
    let (container, _) = group.election.split_once('/').unwrap();
    let container = container.to_owned();
    let list = async |group: &Group, extra_args: &[&str]| {
        let arguments = [&["status", "--all", &container][..], extra_args].concat();
        operator::run_command(group, &arguments).await.unwrap()
    };
    let (code, output) = list(&group, &[]).await;
    assert_eq!(code, Some(1), "{output}");
    assert!(output.contains(&format!("{container}: there is no such container")), "{output}");

    group.outsider().create_container().await.unwrap();
    for number in 0..foreign_blobs {
        let name = format!("{container}/a{number}");
        Outsider::new(&group.connection_string, &name).put_foreign_blob().await.unwrap();
    }
    let mut candidates = Vec::new();
    for blob in ["jobs/x", "jobs/x.share.1.0-of-2", "jobs/y"] {
        group.election = format!("{container}/{blob}");
        let candidate = group.start("ada", &[]).unwrap();
        candidate.event("elected", TIMEOUT).await;
        candidates.push(candidate);
    }
    let trigger = ["trigger", &group.election, "--wait", "1m"];
    let (code, output) = operator::run_command(&group, &trigger).await.unwrap();
    assert_eq!(code, Some(0), "{output}");
    candidates[0].terminate(TIMEOUT).await.unwrap();

    let (code, output) = list(&group, &["--json"]).await;
    assert_eq!(code, Some(1), "{output}");
    let listed: Value = serde_json::from_str(&output).unwrap();
    let elections = listed["elections"].as_array().unwrap().iter();
    let elections: Vec<_> = elections
        .map(|one| (one["election"].as_str().unwrap(), one["leader"]["name"].as_str()))
        .collect();
    let [former, led] = ["x", "y"].map(|blob| format!("{container}/jobs/{blob}"));
    assert_eq!(elections, [(&*former, None), (&*led, Some("ada"))], "{output}");

    // A record of a later version cannot be read, which is worth a row.
    let later = Outsider::new(&group.connection_string, &format!("{container}/later"));
    later.put_foreign_blob().await.unwrap();
    later.put_metadata(&[("tenureformat", "2")]).await.unwrap();
    let sas =
        |scope| Access::from_connection_string(with_sas(&group.connection_string, scope, "rl"));
    let access = sas(Scope::Container(container.clone()));
    let reader = Group { access: access.trusting(store.ca_file()), ..group.clone() };
    let (code, output) = list(&reader, &[]).await;
    assert_eq!(code, Some(2), "{output}");
    let rows = output.lines().take_while(|line| !line.starts_with("tenure: "));
    let words = |row: &str| row.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
    let rows: Vec<_> = rows.map(words).collect();
    let expected = ["election leader", &format!("{container}/later unusable-blob")];
    assert_eq!(rows[..2], expected, "{output}");
    assert_eq!(rows[2..], [format!("{former} none"), format!("{led} ada")], "{output}");

    let access = sas(Scope::Blob { container: container.clone(), blob: "jobs/y".to_owned() });
    let reader = Group { access: access.trusting(store.ca_file()), ..group.clone() };
    let (code, output) = list(&reader, &[]).await;
    assert_eq!(code, Some(2), "{output}");
    assert!(output.contains("could not be listed (refused): list blobs"), "{output}");
    assert!(output.contains("for the container (sr=c, sp=rl)"), "{output}");
    for mut candidate in candidates.split_off(1) {
        candidate.terminate(TIMEOUT).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_elections_are_listed_in_embedded_store() {
    // A page of the list has 400 blobs.
    assert_all_lists_elections(Store::embedded().await.unwrap(), 401).await;
}

async fn all_elections_are_listed_in_azurite() {
    assert_all_lists_elections(Store::shared_azurite(false).await.unwrap(), 1).await;
}

needs!(Node => async fn all_elections_are_listed_in_azurite);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_requires_name_of_container_alone() {
    let (store, sink) = (Store::embedded().await.unwrap(), Sink::start().await.unwrap());
    let group = Group::new(PROGRAM, &store, &sink);
    for (arguments, problem) in [
        (["--all", "jobs", "jobs/a"].as_slice(), "cannot be used with '[CONTAINER/BLOB]'"),
        (&["--all", "jobs/a"], "this is an election, not a container"),
        (&["--all", "Jobs"], "lower-case"),
    ] {
        let arguments = [&["status"][..], arguments].concat();
        let (code, output) = operator::run_command(&group, &arguments).await.unwrap();
        assert_eq!(code, Some(2), "{output}");
        assert!(output.contains(problem), "{output}");
    }
}
