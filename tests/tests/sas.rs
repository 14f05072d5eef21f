//! Candidates with a shared access signature instead of the account's key, against Azurite.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;
use std::time::Duration;

use chrono::{SecondsFormat, TimeDelta, Utc};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tenure_guest::azure::Account;
use tenure_guest::azure::credential::Credential;
use tenure_tests::{BEAT_HANDLER, Group, Outsider, Sink, Store};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tenure-under-test");
const SOON: Duration = Duration::from_secs(60);
const VERSION: &str = "2021-12-02";

/// A service SAS for a container, as the service's reference has it signed.
fn container_sas(account: &Account, container: &str, permissions: &str) -> String {
    let expiry = (Utc::now() + TimeDelta::hours(1)).to_rfc3339_opts(SecondsFormat::Secs, true);
    let resource = format!("/blob/{}/{container}", account.name());
    // sp, st, se, resource, si, sip, spr, sv, sr, snapshot, ses, rscc, rscd, rsce, rscl, rsct
    let lines =
        [permissions, "", &expiry, &resource, "", "", "", VERSION, "c", "", "", "", "", "", "", ""];
    let Credential::SharedKey(key, _) = account.credential() else { panic!("{account:?}") };
    let signature = key.sign(&lines.join("\n"));
    let [expiry, signature] =
        [&expiry, &signature].map(|value| utf8_percent_encode(value, NON_ALPHANUMERIC).to_string());
    format!("sp={permissions}&se={expiry}&sv={VERSION}&sr=c&sig={signature}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_candidate_with_a_sas_leads_and_runs_its_turns() {
    let (store, sink) = (Store::azurite().await.unwrap(), Sink::start().await.unwrap());
    let group = Group::new(PROGRAM, &store, &sink);
    group.warm_up().await.unwrap();
    let account = Account::from_connection_string(&group.connection_string).unwrap();
    let (container, _) = group.election.split_once('/').unwrap();
    // A SAS for a container cannot make it.
    Outsider::new(&group.connection_string, &group.election).create_container().await.unwrap();
    let with = |permissions: &str| {
        let sas = container_sas(&account, container, permissions);
        let endpoint = format!("{}{}", account.origin(), account.prefix());
        format!("BlobEndpoint={endpoint};SharedAccessSignature={sas}")
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
    let text = format!("BlobEndpoint={endpoint};SharedAccessSignature={sas}");
    let candidate = group.start_with("ada", &text, Path::new(BEAT_HANDLER), &[]).unwrap();
    let trouble = candidate.event("trouble", SOON).await;
    assert_eq!(trouble.event["class"], "refused", "{trouble:?}");
    assert!(trouble.event["detail"].as_str().unwrap().contains("SAS"), "{trouble:?}");
    assert!(!candidate.transcript().contains("sig="));
}
