//! Findings of `tenure check` about the account: on the embedded store and on Azurite, with every
//! kind of credential.

use crate::PROGRAM;
use std::net::TcpListener;
use std::process::{Output, Stdio};
use std::time::Duration;

use chrono::{TimeDelta, Utc};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tenure_store::sas::{SasParameters, Scope};
use tenure_store::{KeyName, OperationKind};
use tenure_tests::credential::with_sas;
use tenure_tests::{Access, Credential, Front, Outsider, Override, Store, needs, operation_name};
use tokio::process::Command;

const TIMEOUT: Duration = tenure_tests::PATIENCE;
const CONTAINER: &str = "checked";
const ELECTION: &str = "checked/report";

fn command(access: &Access, extra_args: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(["check", ELECTION]).args(extra_args).stdin(Stdio::null());
    access.apply(&mut command);
    command
}

/// Exit code and report of a check.
struct CheckResult {
    code: Option<i32>,
    json: Value,
    text: String,
}

impl CheckResult {
    fn from_output(output: &Output, access: &Access) -> Self {
        let text = format!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        assert!(!access.leaks_in(&text), "a secret is shown: {text}");
        let json = serde_json::from_slice(&output.stdout).unwrap_or_default();
        Self { code: output.status.code(), json, text }
    }

    fn findings(&self) -> &[Value] {
        self.json["elections"][0]["findings"].as_array().unwrap_or_else(|| panic!("{}", self.text))
    }

    /// Returns the verdict of a check, and its text.
    fn finding(&self, check: &str) -> (&str, &str) {
        let matching = self.findings().iter().find(|finding| finding["check"] == check);
        let matching = matching.unwrap_or_else(|| panic!("no {check}: {}", self.text));
        (matching["verdict"].as_str().unwrap(), matching["detail"].as_str().unwrap())
    }

    /// Returns the checks with a verdict other than `ok`.
    fn failed_checks(&self) -> Vec<&str> {
        let findings = self.findings().iter().filter(|finding| finding["verdict"] != "ok");
        findings.map(|finding| finding["check"].as_str().unwrap()).collect()
    }
}

async fn examine(access: &Access) -> CheckResult {
    let output = tokio::time::timeout(TIMEOUT, command(access, &["--json"]).output());
    CheckResult::from_output(&output.await.unwrap().unwrap(), access)
}

async fn with_container(front: &Front) -> String {
    let connection_string = front.connection_string();
    Outsider::new(&connection_string, ELECTION).create_container().await.unwrap();
    connection_string
}

fn sas(connection_string: &str, permissions: &str) -> Access {
    Access::from_connection_string(with_sas(
        connection_string,
        Scope::Container(CONTAINER.to_owned()),
        permissions,
    ))
}

/// Returns the blobs that were created but not deleted.
fn leftover_blobs(front: &Front) -> Vec<String> {
    front.with_service(|service| {
        let mut leftover = Vec::new();
        for entry in service.log().entries() {
            match (entry.operation, entry.status) {
                (OperationKind::PutBlob, 201) => leftover.push(entry.blob.clone()),
                (OperationKind::DeleteBlob, 202) => leftover.retain(|blob| *blob != entry.blob),
                _ => {}
            }
        }
        leftover
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn check_with_key_passes_and_leaves_no_blobs() {
    let front = Front::start().await.unwrap();
    let access = Access::from_connection_string(front.connection_string());
    let result = examine(&access).await;
    assert_eq!((result.code, result.failed_checks()), (Some(0), vec![]), "{}", result.text);
    assert_eq!(result.json["verdict"], "ok");
    assert!(result.finding("create container").1.contains("is kept"), "{}", result.text);
    assert_eq!(result.finding("account").1, "Standard_LRS, StorageV2");
    let second = examine(&access).await;
    assert_eq!((second.code, second.failed_checks()), (Some(0), vec![]), "{}", second.text);
    assert_eq!(leftover_blobs(&front), [""; 0]);
    let touched = front.with_service(|service| {
        let election_entries = service.log().entries().filter(|entry| entry.blob == "report");
        election_entries.filter(|entry| entry.operation != OperationKind::HeadBlob).count()
    });
    assert_eq!(touched, 0, "the election's own blob is only looked at");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn text_output_has_a_line_per_check_and_a_verdict() {
    let front = Front::start().await.unwrap();
    let access = Access::from_connection_string(front.connection_string());
    let output = command(&access, &[]).output().await.unwrap();
    let result = CheckResult::from_output(&output, &access);
    let lines: Vec<_> = result.text.lines().collect();
    assert_eq!(lines[0], ELECTION, "{}", result.text);
    let first = lines.iter().position(|line| line.starts_with("ok       connection        "));
    assert_eq!(lines[first.unwrap() - 1], "", "{}", result.text);
    assert!(
        lines.last().unwrap().ends_with("ok: a candidate can lead from this machine"),
        "{}",
        result.text
    );
    assert!(!result.text.contains('\u{1b}'), "no control codes in a pipe");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sas_findings_follow_its_permissions() {
    let front = Front::start().await.unwrap();
    let connection_string = with_container(&front).await;
    // The SAS expires in an hour, which is soon.
    let all = examine(&sas(&connection_string, "rcwd")).await;
    assert_eq!((all.code, all.failed_checks()), (Some(1), vec!["credential"]), "{}", all.text);
    assert!(all.finding("credential").1.contains("which is soon"), "{}", all.text);
    assert_eq!(leftover_blobs(&front), [""; 0]);

    for _ in 0..2 {
        let no_delete = examine(&sas(&connection_string, "rcw")).await;
        assert_eq!(no_delete.failed_checks(), ["credential"], "{}", no_delete.text);
        assert!(no_delete.finding("delete blob").1.contains("checked/report.check stays"));
        assert_eq!(leftover_blobs(&front), ["report.check"]);
    }
    for (permissions, missing) in [("rc", "writing (w)"), ("cw", "reading (r)")] {
        let result = examine(&sas(&connection_string, permissions)).await;
        assert_eq!(result.code, Some(2));
        assert!(
            result.text.contains("does not permit") && result.text.contains(missing),
            "{}",
            result.text
        );
    }
    let scope = Scope::Blob { container: CONTAINER.to_owned(), blob: "report".to_owned() };
    let one =
        examine(&Access::from_connection_string(with_sas(&connection_string, scope, "rw"))).await;
    assert_eq!(one.code, Some(1), "{}", one.text);
    assert_eq!(one.finding("permissions").0, "unknown");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sas_without_container_rights_or_expired_fails() {
    let front = Front::start().await.unwrap();
    let connection_string = front.connection_string();
    let objects = Scope::Account { services: "b".into(), types: "o".into() };
    let result =
        examine(&Access::from_connection_string(with_sas(&connection_string, objects, "rwdc")))
            .await;
    assert_eq!(result.code, Some(2), "{}", result.text);
    let (verdict, detail) = result.finding("create container");
    assert_eq!(verdict, "failed");
    assert!(detail.contains("the container checked is missing: create it"), "{detail}");

    let terms = SasParameters::new(
        Scope::Container(CONTAINER.to_owned()),
        "rcwd",
        Utc::now() - TimeDelta::minutes(1),
    );
    let token =
        front.with_service(|service| service.accounts()[0].sas(KeyName::Key1, &terms).unwrap());
    let origin =
        connection_string.split(';').find_map(|part| part.strip_prefix("BlobEndpoint=")).unwrap();
    let result = examine(&Access::from_connection_string(token.connection_string(origin))).await;
    assert_eq!(result.code, Some(2), "{}", result.text);
    assert_eq!(result.finding("credential").0, "failed");
    assert!(result.finding("credential").1.contains("has expired"), "{}", result.text);
    assert_eq!(result.finding("read blob").0, "failed");
}

/// Tests the actions that a role without a permission cannot perform, by the names of the checks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_permission_is_named() {
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
        let access = Access::from_connection_string(with_container(&front).await);
        front.set_rule(move |request| {
            (operation_name(request) == verb)
                .then_some(Override::Error(403, "AuthorizationPermissionMismatch"))
        });
        let result = examine(&access).await;
        assert_eq!(result.code, Some(2), "{verb}: {}", result.text);
        let (verdict, detail) = result.finding(check);
        assert_eq!(verdict, "failed", "{verb}");
        assert!(detail.contains(action), "{verb}: {detail}");
        assert_eq!(leftover_blobs(&front), [""; 0], "{verb}: {}", result.text);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn interrupted_check_removes_its_blob() {
    let front = Front::start().await.unwrap();
    let access = Access::from_connection_string(with_container(&front).await);
    let (created_tx, mut created_rx) = tokio::sync::watch::channel(false);
    front.set_rule(move |request| {
        // At this point the blob exists.
        if operation_name(request) == "acquire" {
            created_tx.send_replace(true);
            // Leaves the check in progress until the interrupt.
            return Some(Override::Nothing);
        }
        None
    });
    let mut command = command(&access, &["--json", "--request-timeout", "5s"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let child = command.spawn().unwrap();
    created_rx.wait_for(|created| *created).await.unwrap();
    let id = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap()).unwrap();
    kill_process(id, Signal::INT).unwrap();
    let output = tokio::time::timeout(TIMEOUT, child.wait_with_output()).await.unwrap().unwrap();
    let result = CheckResult::from_output(&output, &access);
    assert_eq!(result.finding("delete blob").0, "ok", "{}", result.text);
    assert_eq!(result.code, Some(130), "{}", result.text);
    assert_eq!(leftover_blobs(&front), [""; 0]);
}

#[tokio::test]
async fn wrong_settings_are_reported_before_any_request() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let access = Access::from_connection_string(format!(
        "AccountName=silent;AccountKey=c2lsZW50;BlobEndpoint=http://{address}/silent"
    ));
    let mut command = command(&access, &["--request-timeout", "1h"]);
    let result = CheckResult::from_output(
        &command.env("TENURE_LEASE", "5s").output().await.unwrap(),
        &access,
    );
    assert_eq!(result.code, Some(2));
    for expected in ["--request-timeout 1h", "TENURE_LEASE", "nothing was sent"] {
        assert!(result.text.contains(expected), "{}", result.text);
    }
    assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}

/// The report always covers the requirements of failover; a missing one is a failure if failover is
/// enabled.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn account_unfit_for_failover_is_reported() {
    let front = Front::start().await.unwrap();
    let connection_string = with_container(&front).await;
    // The signature of a SAS does not cover the condition, unlike that of the key.
    let access = sas(&connection_string, "rcwd");
    for (failover, verdict, code) in
        [(&[][..], "warning", 1), (&["--failover", "3s"][..], "failed", 2)]
    {
        let run_check = async || {
            let args: Vec<_> = [failover, &["--json"]].concat();
            let output = command(&access, &args).output();
            CheckResult::from_output(
                &tokio::time::timeout(TIMEOUT, output).await.unwrap().unwrap(),
                &access,
            )
        };
        front.set_rule(|_| Some(Override::Versioned));
        let versioned = run_check().await;
        let (actual_verdict, detail) = versioned.finding("versioning");
        assert_eq!((versioned.code, actual_verdict), (Some(code), verdict), "{}", versioned.text);
        assert!(detail.contains("--failover"), "{detail}");
        assert_eq!(versioned.finding("conditional break").0, "ok", "{}", versioned.text);

        front.set_rule(|request| {
            (operation_name(request) == "break").then_some(Override::Unconditional)
        });
        let unconditional = run_check().await;
        let (actual_verdict, detail) = unconditional.finding("conditional break");
        assert_eq!(
            (unconditional.code, actual_verdict),
            (Some(code), verdict),
            "{}",
            unconditional.text
        );
        assert!(detail.contains("If-Match does not reach the service"), "{detail}");
        assert_eq!(unconditional.finding("versioning").0, "ok", "{}", unconditional.text);
        assert_eq!(leftover_blobs(&front), [""; 0]);
    }
}

async fn azurite_is_recognised_as_emulator() {
    let store = Store::azurite().await.unwrap();
    let connection_string = store.connection_string();
    Outsider::new(&connection_string, ELECTION).create_container().await.unwrap();
    for access in [
        Access::from_connection_string(&connection_string),
        sas(&connection_string, "rcwd"),
        sas(&connection_string, "rcw"),
    ] {
        let result = examine(&access).await;
        // A SAS that expires in an hour is a warning. The emulator itself is no reason to fail.
        let expires = result.finding("credential").0 == "warning";
        assert_eq!(result.code, Some(i32::from(expires)), "{}", result.text);
        let expected_checks =
            if expires { vec!["credential", "emulator"] } else { vec!["emulator"] };
        assert_eq!(result.failed_checks(), expected_checks, "{}", result.text);
        assert!(result.finding("emulator").1.contains("Azurite-Blob/"), "{}", result.text);
        let failed = result.findings().iter().filter(|finding| finding["verdict"] == "failed");
        assert_eq!(failed.count(), 0, "{}", result.text);
        for check in ["exclusion", "conditions", "renew lease", "break lease", "delete blob"] {
            assert_eq!(result.finding(check).0, "ok", "{check}: {}", result.text);
        }
        // Requirements of failover.
        for check in ["conditional break", "versioning"] {
            assert_eq!(result.finding(check).0, "ok", "{check}: {}", result.text);
        }
    }
    let wrong = Credential::SharedKey.wrong_access(&connection_string, CONTAINER);
    let result = examine(&wrong).await;
    assert_eq!(result.code, Some(2), "{}", result.text);
    assert!(result.finding("read blob").1.contains("account key"), "{}", result.text);
}

needs!(Node => async fn azurite_is_recognised_as_emulator);

async fn check_over_tls_names_untrusted_server_and_accepts_tokens() {
    let store = Store::azurite_tls().await.unwrap();
    let connection_string = store.connection_string();
    let ca = store.ca_file();
    for credential in [Credential::SharedKey, Credential::Bearer, Credential::AccountSas] {
        let access = credential.access(&connection_string, CONTAINER).trusting(ca.clone());
        let result = examine(&access).await;
        let expires = result.finding("credential").0 == "warning";
        assert_eq!(result.code, Some(i32::from(expires)), "{credential:?}: {}", result.text);
        let (verdict, detail) = result.finding("connection");
        assert_eq!(verdict, "ok");
        assert!(detail.contains(", TLS "), "{detail}");
        assert_eq!(result.finding("renew lease").0, "ok", "{credential:?}: {}", result.text);
    }
    let result = examine(&Access::from_connection_string(&connection_string)).await;
    assert_eq!(result.code, Some(2), "{}", result.text);
    let (verdict, detail) = result.finding("connection");
    assert_eq!(verdict, "failed");
    assert!(detail.contains("--ca-file"), "{detail}");
}

needs!(Node => async fn check_over_tls_names_untrusted_server_and_accepts_tokens);
