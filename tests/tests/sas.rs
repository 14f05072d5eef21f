//! Candidates with a shared access signature instead of the account's key, against Azurite.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;
use std::time::Duration;

use tenure_guest::azure::Account;
use tenure_tests::credential::container_sas;
use tenure_tests::{Access, BEAT_HANDLER, Group, Sink, Store};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tenure-under-test");
const SOON: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_candidate_with_a_sas_leads_and_runs_its_turns() {
    let (store, sink) = (Store::azurite().await.unwrap(), Sink::start().await.unwrap());
    let group = Group::new(PROGRAM, &store, &sink);
    group.warm_up().await.unwrap();
    let account = Account::from_connection_string(&group.connection_string).unwrap();
    let (container, _) = group.election.split_once('/').unwrap();
    // A SAS for a container cannot make it.
    group.outsider().create_container().await.unwrap();
    let with = |permissions: &str| {
        let sas = container_sas(&account, container, permissions);
        let endpoint = format!("{}{}", account.origin(), account.prefix());
        Access::with(format!("BlobEndpoint={endpoint};SharedAccessSignature={sas}"))
    };
    let start = |name, permissions| {
        group.start_with(name, &with(permissions), Path::new(BEAT_HANDLER), &[]).unwrap()
    };
    let mut candidate = start("ada", "rcw");
    candidate.event("turn-ended", SOON).await;
    let term = candidate.event("elected", SOON).await.term();
    candidate.terminate(SOON).await.unwrap();
    let mut heir = start("ben", "rw");
    assert!(heir.event("elected", SOON).await.term() > term);
    heir.terminate(SOON).await.unwrap();
    for said in [candidate.transcript(), heir.transcript()] {
        assert!(!said.contains("sig="), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sas_of_another_container_is_refused_by_the_service_and_explained() {
    let (store, sink) = (Store::azurite().await.unwrap(), Sink::start().await.unwrap());
    let group = Group::new(PROGRAM, &store, &sink);
    let account = Account::from_connection_string(&group.connection_string).unwrap();
    let sas = container_sas(&account, "another", "rcw");
    let endpoint = format!("{}{}", account.origin(), account.prefix());
    let access = Access::with(format!("BlobEndpoint={endpoint};SharedAccessSignature={sas}"));
    let candidate = group.start_with("ada", &access, Path::new(BEAT_HANDLER), &[]).unwrap();
    let trouble = candidate.event("trouble", SOON).await;
    assert_eq!(trouble.event["class"], "refused", "{trouble:?}");
    assert!(trouble.event["detail"].as_str().unwrap().contains("SAS"), "{trouble:?}");
    assert!(!candidate.transcript().contains("sig="));
}
