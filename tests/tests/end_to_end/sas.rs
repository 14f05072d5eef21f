//! Candidates with a shared access signature instead of the account's key, and the permissions of
//! such a signature: against Azurite and the embedded store.

mod agreement;

use crate::PROGRAM;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tenure_store::sas::Scope;
use tenure_tests::credential::with_sas;
use tenure_tests::{Access, BEAT_HANDLER, Candidate, Group, Sink, Store, needs};
use tokio::process::Command;

const TIMEOUT: Duration = tenure_tests::PATIENCE;

/// Returns access to a container with these permissions only.
fn with_container(connection_string: &str, container: &str, permissions: &str) -> Access {
    Access::from_connection_string(with_sas(
        connection_string,
        Scope::Container(container.to_owned()),
        permissions,
    ))
}

async fn a_candidate_with_a_sas_leads_and_runs_its_turns_on_azurite() {
    leads_and_runs_its_turns(Store::shared_azurite(false).await.unwrap()).await;
}

needs!(Node => async fn a_candidate_with_a_sas_leads_and_runs_its_turns_on_azurite);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_candidate_with_a_sas_leads_and_runs_its_turns_on_the_embedded_store() {
    leads_and_runs_its_turns(Store::embedded().await.unwrap()).await;
}

async fn leads_and_runs_its_turns(store: Store) {
    let sink = Sink::start().await.unwrap();
    let mut group = Group::new(PROGRAM, &store, &sink);
    group.patient_timings = true;
    group.warm_up().await.unwrap();
    let (container, _) = group.election.split_once('/').unwrap();
    // A SAS for a container cannot create it.
    group.outsider().create_container().await.unwrap();
    let start = |name, permissions| {
        let access = with_container(&group.connection_string, container, permissions);
        group.start_with(name, &access, Path::new(BEAT_HANDLER), &[]).unwrap()
    };
    let mut candidate = start("ada", "rcw");
    candidate.event("turn-ended", TIMEOUT).await;
    let term = candidate.event("elected", TIMEOUT).await.term();
    candidate.terminate(TIMEOUT).await.unwrap();
    let mut successor = start("ben", "rw");
    assert!(successor.event("elected", TIMEOUT).await.term() > term);
    successor.terminate(TIMEOUT).await.unwrap();
    for transcript in [candidate.transcript(), successor.transcript()] {
        assert!(!transcript.contains("sig="), "{transcript}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn read_only_sas_shows_election_and_cannot_contend() {
    let (store, sink) = (Store::embedded().await.unwrap(), Sink::start().await.unwrap());
    let group = Group::new(PROGRAM, &store, &sink);
    group.warm_up().await.unwrap();
    let (container, _) = group.election.split_once('/').unwrap();
    let access = with_container(&group.connection_string, container, "r");
    let mut leader = group.start("ada", &[]).unwrap();
    leader.event("turn-ended", TIMEOUT).await;
    let command = |arguments: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command.args(arguments).args([&group.election]).stdin(Stdio::null());
        access.apply(&mut command);
        command
    };
    for arguments in [&["status"][..], &["status", "--history"]] {
        let output = command(arguments).output().await.unwrap();
        let stdout = String::from_utf8_lossy(&output.stdout);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {stderr}");
        assert!(stdout.contains("ada"), "{arguments:?}: {stdout}");
    }
    let json = ["--log", "json", "--listen", "127.0.0.1:0"];
    let observe = command(&[&["observe"][..], &json].concat());
    let mut observer = Candidate::spawn("observer", observe).unwrap();
    let following = observer.event("following", TIMEOUT).await;
    assert_eq!(following.event["leader"], "ada", "{following:?}");
    observer.terminate(TIMEOUT).await.unwrap();

    let run = command(&["run", "--every", "5s", "--", "true"]).output().await.unwrap();
    let stderr = String::from_utf8_lossy(&run.stderr);
    assert_eq!(run.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("the SAS does not permit writing (w)"), "{stderr}");
    leader.terminate(TIMEOUT).await.unwrap();
}

async fn a_sas_of_another_container_is_refused_by_azurite_and_explained() {
    is_refused_and_explained(Store::shared_azurite(false).await.unwrap()).await;
}

needs!(Node => async fn a_sas_of_another_container_is_refused_by_azurite_and_explained);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sas_of_another_container_is_refused_by_the_embedded_store_and_explained() {
    is_refused_and_explained(Store::embedded().await.unwrap()).await;
}

async fn is_refused_and_explained(store: Store) {
    let sink = Sink::start().await.unwrap();
    let group = Group::new(PROGRAM, &store, &sink);
    let access = with_container(&group.connection_string, "another", "rcw");
    let candidate = group.start_with("ada", &access, Path::new(BEAT_HANDLER), &[]).unwrap();
    let problem = candidate.event("problem", TIMEOUT).await;
    assert_eq!(problem.event["class"], "refused", "{problem:?}");
    assert!(problem.event["detail"].as_str().unwrap().contains("SAS"), "{problem:?}");
    assert!(!candidate.transcript().contains("sig="));
}
