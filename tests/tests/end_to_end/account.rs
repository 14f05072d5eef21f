//! What `tenure check` says of the account: on the embedded store and on Azurite, with every kind of credential.

use crate::PROGRAM;
use std::net::TcpListener;
use std::process::{Output, Stdio};
use std::time::Duration;

use chrono::{TimeDelta, Utc};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tenure_store::sas::{Scope, Terms};
use tenure_store::{KeyName, Verb};
use tenure_tests::credential::with_sas;
use tenure_tests::{Access, Credential, Front, Instead, Outsider, Store, asks, needs};
use tokio::process::Command;

const SOON: Duration = tenure_tests::PATIENCE;
const CONTAINER: &str = "checked";
const ELECTION: &str = "checked/report";

fn command(access: &Access, more: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(["check", ELECTION]).args(more).stdin(Stdio::null());
    access.give(&mut command);
    command
}

/// Its exit code, and what it said.
struct Told {
    code: Option<i32>,
    json: Value,
    text: String,
}

impl Told {
    fn of(output: &Output, access: &Access) -> Self {
        let text = format!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        assert!(!access.is_told_by(&text), "a secret is shown: {text}");
        let json = serde_json::from_slice(&output.stdout).unwrap_or_default();
        Self { code: output.status.code(), json, text }
    }

    fn findings(&self) -> &[Value] {
        self.json["elections"][0]["findings"].as_array().unwrap_or_else(|| panic!("{}", self.text))
    }

    /// The verdict on a check, and its text.
    fn of_check(&self, check: &str) -> (&str, &str) {
        let found = self.findings().iter().find(|finding| finding["check"] == check);
        let found = found.unwrap_or_else(|| panic!("no {check}: {}", self.text));
        (found["verdict"].as_str().unwrap(), found["detail"].as_str().unwrap())
    }

    /// The checks that are not all right.
    fn others(&self) -> Vec<&str> {
        let findings = self.findings().iter().filter(|finding| finding["verdict"] != "ok");
        findings.map(|finding| finding["check"].as_str().unwrap()).collect()
    }
}

async fn examine(access: &Access) -> Told {
    let output = tokio::time::timeout(SOON, command(access, &["--json"]).output());
    Told::of(&output.await.unwrap().unwrap(), access)
}

async fn with_container(front: &Front) -> String {
    let known = front.connection_string();
    Outsider::new(&known, ELECTION).create_container().await.unwrap();
    known
}

fn sas(known: &str, permissions: &str) -> Access {
    Access::with(with_sas(known, Scope::Container(CONTAINER.to_owned()), permissions))
}

/// Blobs that were made and not deleted.
fn left(front: &Front) -> Vec<String> {
    front.with(|service| {
        let mut left = Vec::new();
        for entry in service.log().entries() {
            match (entry.verb, entry.status) {
                (Verb::PutBlob, 201) => left.push(entry.blob.clone()),
                (Verb::DeleteBlob, 202) => left.retain(|blob| *blob != entry.blob),
                _ => {}
            }
        }
        left
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_is_well_with_a_key_and_nothing_is_left_or_touched() {
    let front = Front::start().await.unwrap();
    let access = Access::with(front.connection_string());
    let told = examine(&access).await;
    assert_eq!((told.code, told.others()), (Some(0), vec![]), "{}", told.text);
    assert_eq!(told.json["verdict"], "ok");
    assert!(told.of_check("create container").1.contains("is kept"), "{}", told.text);
    assert_eq!(told.of_check("account").1, "Standard_LRS, StorageV2");
    let again = examine(&access).await;
    assert_eq!((again.code, again.others()), (Some(0), vec![]), "{}", again.text);
    assert_eq!(left(&front), [""; 0]);
    let touched = front.with(|service| {
        let of_election = service.log().entries().filter(|entry| entry.blob == "report");
        of_election.filter(|entry| entry.verb != Verb::HeadBlob).count()
    });
    assert_eq!(touched, 0, "the election's own blob is only looked at");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn people_get_a_line_for_each_check_and_what_it_comes_to() {
    let front = Front::start().await.unwrap();
    let access = Access::with(front.connection_string());
    let output = command(&access, &[]).output().await.unwrap();
    let told = Told::of(&output, &access);
    let lines: Vec<_> = told.text.lines().collect();
    assert_eq!(lines[0], ELECTION, "{}", told.text);
    let first = lines.iter().position(|line| line.starts_with("ok       connection        "));
    assert_eq!(lines[first.unwrap() - 1], "", "{}", told.text);
    assert!(
        lines.last().unwrap().ends_with("ok: a candidate can lead from this machine"),
        "{}",
        told.text
    );
    assert!(!told.text.contains('\u{1b}'), "no control codes in a pipe");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sas_is_judged_by_what_it_permits() {
    let front = Front::start().await.unwrap();
    let known = with_container(&front).await;
    // It expires in an hour, which is soon.
    let all = examine(&sas(&known, "rcwd")).await;
    assert_eq!((all.code, all.others()), (Some(1), vec!["credential"]), "{}", all.text);
    assert!(all.of_check("credential").1.contains("which is soon"), "{}", all.text);
    assert_eq!(left(&front), [""; 0]);

    for _ in 0..2 {
        let no_delete = examine(&sas(&known, "rcw")).await;
        assert_eq!(no_delete.others(), ["credential"], "{}", no_delete.text);
        assert!(no_delete.of_check("delete blob").1.contains("checked/report.check stays"));
        assert_eq!(left(&front), ["report.check"]);
    }
    for (permissions, lacks) in [("rc", "writing (w)"), ("cw", "reading (r)")] {
        let told = examine(&sas(&known, permissions)).await;
        assert_eq!(told.code, Some(2));
        assert!(
            told.text.contains("does not permit") && told.text.contains(lacks),
            "{}",
            told.text
        );
    }
    let scope = Scope::Blob { container: CONTAINER.to_owned(), blob: "report".to_owned() };
    let one = examine(&Access::with(with_sas(&known, scope, "rw"))).await;
    assert_eq!(one.code, Some(1), "{}", one.text);
    assert_eq!(one.of_check("permissions").0, "unknown");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sas_that_cannot_make_the_container_or_has_expired_fails() {
    let front = Front::start().await.unwrap();
    let known = front.connection_string();
    let objects = Scope::Account { services: "b".into(), types: "o".into() };
    let told = examine(&Access::with(with_sas(&known, objects, "rwdc"))).await;
    assert_eq!(told.code, Some(2), "{}", told.text);
    let (verdict, detail) = told.of_check("create container");
    assert_eq!(verdict, "failed");
    assert!(detail.contains("the container checked is missing: create it"), "{detail}");

    let terms = Terms::new(
        Scope::Container(CONTAINER.to_owned()),
        "rcwd",
        Utc::now() - TimeDelta::minutes(1),
    );
    let token = front.with(|service| service.accounts()[0].sas(KeyName::Key1, &terms).unwrap());
    let origin = known.split(';').find_map(|part| part.strip_prefix("BlobEndpoint=")).unwrap();
    let told = examine(&Access::with(token.connection_string(origin))).await;
    assert_eq!(told.code, Some(2), "{}", told.text);
    assert_eq!(told.of_check("credential").0, "failed");
    assert!(told.of_check("credential").1.contains("has expired"), "{}", told.text);
    assert_eq!(told.of_check("read blob").0, "failed");
}

/// What a role that lacks an action cannot do. The names are those of the checks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_permission_that_lacks_is_named() {
    for (verb, check, action) in [
        ("look", "read blob", "containers/blobs/read"),
        ("create-blob", "create blob", "containers/blobs/write"),
        ("acquire", "acquire lease", "containers/blobs/write"),
        ("renew", "renew lease", "containers/blobs/write"),
        ("write", "write record", "containers/blobs/write"),
        ("change", "change lease", "containers/blobs/write"),
        ("release", "release lease", "containers/blobs/write"),
        ("break", "break lease", "containers/blobs/write"),
    ] {
        let front = Front::start().await.unwrap();
        let access = Access::with(with_container(&front).await);
        front.set(move |request| {
            (asks(request) == verb).then_some(Instead::Code(403, "AuthorizationPermissionMismatch"))
        });
        let told = examine(&access).await;
        assert_eq!(told.code, Some(2), "{verb}: {}", told.text);
        let (verdict, detail) = told.of_check(check);
        assert_eq!(verdict, "failed", "{verb}");
        assert!(detail.contains(action), "{verb}: {detail}");
        assert_eq!(left(&front), [""; 0], "{verb}: {}", told.text);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn somebody_who_interrupts_it_leaves_nothing_behind() {
    let front = Front::start().await.unwrap();
    let access = Access::with(with_container(&front).await);
    let (made, mut seen) = tokio::sync::watch::channel(false);
    front.set(move |request| {
        // The blob is there by now.
        if asks(request) == "acquire" {
            made.send_replace(true);
            // It is not through before it is interrupted.
            return Some(Instead::Nothing);
        }
        None
    });
    let mut command = command(&access, &["--json", "--request-timeout", "5s"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let child = command.spawn().unwrap();
    seen.wait_for(|made| *made).await.unwrap();
    let id = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap()).unwrap();
    kill_process(id, Signal::INT).unwrap();
    let output = tokio::time::timeout(SOON, child.wait_with_output()).await.unwrap().unwrap();
    let told = Told::of(&output, &access);
    assert_eq!(told.of_check("delete blob").0, "ok", "{}", told.text);
    assert_eq!(told.code, Some(130), "{}", told.text);
    assert_eq!(left(&front), [""; 0]);
}

#[tokio::test]
async fn wrong_settings_are_told_and_nothing_is_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let access = Access::with(format!(
        "AccountName=silent;AccountKey=c2lsZW50;BlobEndpoint=http://{address}/silent"
    ));
    let mut command = command(&access, &["--request-timeout", "1h"]);
    let told = Told::of(&command.env("TENURE_LEASE", "5s").output().await.unwrap(), &access);
    assert_eq!(told.code, Some(2));
    for said in ["--request-timeout 1h", "TENURE_LEASE", "nothing was sent"] {
        assert!(told.text.contains(said), "{}", told.text);
    }
    assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}

/// What failover needs is told always, and a failure where that is asked for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_that_is_no_place_for_failover_is_told() {
    let front = Front::start().await.unwrap();
    let known = with_container(&front).await;
    // Its signature does not cover the condition, as that of the key does.
    let access = sas(&known, "rcwd");
    for (failover, verdict, code) in
        [(&[][..], "warning", 1), (&["--failover", "3s"][..], "failed", 2)]
    {
        let told = async || {
            let more: Vec<_> = [failover, &["--json"]].concat();
            let output = command(&access, &more).output();
            Told::of(&tokio::time::timeout(SOON, output).await.unwrap().unwrap(), &access)
        };
        front.set(|_| Some(Instead::Versioned));
        let versioned = told().await;
        let (found, detail) = versioned.of_check("versioning");
        assert_eq!((versioned.code, found), (Some(code), verdict), "{}", versioned.text);
        assert!(detail.contains("--failover"), "{detail}");
        assert_eq!(versioned.of_check("conditional break").0, "ok", "{}", versioned.text);

        front.set(|request| (asks(request) == "break").then_some(Instead::Unconditional));
        let unconditional = told().await;
        let (found, detail) = unconditional.of_check("conditional break");
        assert_eq!((unconditional.code, found), (Some(code), verdict), "{}", unconditional.text);
        assert!(detail.contains("If-Match does not reach the service"), "{detail}");
        assert_eq!(unconditional.of_check("versioning").0, "ok", "{}", unconditional.text);
        assert_eq!(left(&front), [""; 0]);
    }
}

async fn azurite_is_known_for_what_it_is() {
    let store = Store::azurite().await.unwrap();
    let known = store.connection_string();
    Outsider::new(&known, ELECTION).create_container().await.unwrap();
    for access in [Access::with(&known), sas(&known, "rcwd"), sas(&known, "rcw")] {
        let told = examine(&access).await;
        // That a SAS expires in an hour is a warning; that this is an emulator is none to fail for.
        let expires = told.of_check("credential").0 == "warning";
        assert_eq!(told.code, Some(i32::from(expires)), "{}", told.text);
        let others = if expires { vec!["credential", "emulator"] } else { vec!["emulator"] };
        assert_eq!(told.others(), others, "{}", told.text);
        assert!(told.of_check("emulator").1.contains("Azurite-Blob/"), "{}", told.text);
        let failed = told.findings().iter().filter(|finding| finding["verdict"] == "failed");
        assert_eq!(failed.count(), 0, "{}", told.text);
        for check in ["exclusion", "conditions", "renew lease", "break lease", "delete blob"] {
            assert_eq!(told.of_check(check).0, "ok", "{check}: {}", told.text);
        }
        // What failover needs.
        for check in ["conditional break", "versioning"] {
            assert_eq!(told.of_check(check).0, "ok", "{check}: {}", told.text);
        }
    }
    let wrong = Credential::SharedKey.wrong_access(&known, CONTAINER);
    let told = examine(&wrong).await;
    assert_eq!(told.code, Some(2), "{}", told.text);
    assert!(told.of_check("read blob").1.contains("account key"), "{}", told.text);
}

needs!(Node => async fn azurite_is_known_for_what_it_is);

async fn over_tls_it_says_who_is_not_trusted_and_tokens_are_tried_too() {
    let store = Store::azurite_tls().await.unwrap();
    let known = store.connection_string();
    let ca = store.ca_file();
    for credential in [Credential::SharedKey, Credential::Bearer, Credential::AccountSas] {
        let access = credential.access(&known, CONTAINER).trusting(ca.clone());
        let told = examine(&access).await;
        let expires = told.of_check("credential").0 == "warning";
        assert_eq!(told.code, Some(i32::from(expires)), "{credential:?}: {}", told.text);
        let (verdict, detail) = told.of_check("connection");
        assert_eq!(verdict, "ok");
        assert!(detail.contains(", TLS "), "{detail}");
        assert_eq!(told.of_check("renew lease").0, "ok", "{credential:?}: {}", told.text);
    }
    let told = examine(&Access::with(&known)).await;
    assert_eq!(told.code, Some(2), "{}", told.text);
    let (verdict, detail) = told.of_check("connection");
    assert_eq!(verdict, "failed");
    assert!(detail.contains("--ca-file"), "{detail}");
}

needs!(Node => async fn over_tls_it_says_who_is_not_trusted_and_tokens_are_tried_too);
