//! `tenure check`: the meaning of the settings, their mistakes, and the findings at the account.

use std::net::TcpListener;
use std::process::Output;

use serde_json::Value;
use tenure_tests::{BEAT_HANDLER, Group, Sink, Store};
use tokio::process::Command;

use crate::PROGRAM;

use super::stage::{TIMEOUT, tenure, text, write_settings};

const KEY: &str = "c2VjcmV0LWtleQ==";

/// Returns a store that must receive no connection, and its connection string.
fn untouched_store() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    (listener, format!("AccountName=acme;AccountKey={KEY};BlobEndpoint=http://{address}/acme"))
}

fn check(arguments: &[&str], store: &str) -> Output {
    let arguments = [&["check"][..], arguments].concat();
    let output = tenure(&arguments, &[("AZURE_STORAGE_CONNECTION_STRING", store)]);
    assert!(!text(&output).contains(KEY), "{}", text(&output));
    output
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(output)))
}

#[test]
fn offline_check_shows_resolved_settings_without_requests() {
    let (listener, store) = untouched_store();
    let (_folder, file) = write_settings(&format!(
        "[[election]]\nelection = \"jobs/backup\"\ncron = \"0 3 * * *\"\ntime-zone = \"Asia/Kolkata\"\n\
         command = [\"/bin/sh\", \"-c\", \"hunter2\"]\n\
         [[election]]\nelection = \"jobs/report\"\nevery = \"1h\"\nhandler = \"{BEAT_HANDLER}\"\n\
         env = {{ BEAT_URL = \"http://hunter2/\" }}\n"
    ));
    let arguments = ["--offline", "--config", file.to_str().unwrap()];
    let output = check(&[&arguments[..], &["--json"]].concat(), &store);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let report_json = json(&output);
    let [backup, report] = [0, 1].map(|index| report_json["elections"][index].clone());
    let turns = backup["next_turns"].as_array().unwrap();
    assert_eq!(turns.len(), 3, "{backup}");
    assert!(
        turns.iter().all(|turn| turn.as_str().unwrap().ends_with("T03:00:00+05:30[Asia/Kolkata]")),
        "{backup}"
    );
    assert_eq!(backup["schedule"], "cron 0 3 * * * Asia/Kolkata");
    assert_eq!(backup["work"]["kind"], "command");
    assert_eq!(
        (&backup["work"]["file"], &backup["work"]["arguments"]),
        (&"/bin/sh".into(), &2.into())
    );
    assert_eq!((&backup["findings"], &backup["lease_ms"]), (&Value::Null, &15_000.into()));
    assert_eq!(backup["credential"], "the key in the connection string");
    assert!(report["next_turns"][0].as_str().unwrap().ends_with(":00:00Z"), "{report}");
    let imports = report["work"]["imports"].as_array().unwrap();
    let http = |name: &Value| name.as_str().unwrap().starts_with("wasi:http/outgoing-handler");
    assert!(imports.iter().any(http), "{report}");
    assert_eq!(report["work"]["variables"], serde_json::json!(["BEAT_URL"]));
    let notes = report["notes"].to_string();
    assert!(notes.contains("each will be refused") && notes.contains("--allow-host"), "{notes}");

    let output = check(&arguments, &store);
    let output_text = text(&output);
    for words in [
        "jobs/backup\n  candidate ",
        "T03:00:00+05:30[Asia/Kolkata] (in ",
        "command /bin/sh, with 2 arguments\n  processes   ",
        "may reach   nothing: no host is allowed",
        "account     acme at http://127.0.0.1:",
        "2 elections: the settings are right\n",
    ] {
        assert!(output_text.contains(words), "{words}: {output_text}");
    }
    assert!(
        !output_text.contains("hunter2"),
        "an argument or a variable may be a secret: {output_text}"
    );
    assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}

#[test]
fn check_rejects_like_run() {
    let (_listener, store) = untouched_store();
    let wrong_args = [
        "Jobs",
        "--cron",
        "61 * * * *",
        "--lease",
        "5s",
        "--grace",
        "soon",
        "--listen",
        "here",
        "--handler",
        "/nowhere.wasm",
        "--allow-host",
        "*.example.com",
    ];
    let checked = check(&wrong_args, &store);
    let ran = tenure(
        &[&["run"][..], &wrong_args].concat(),
        &[("AZURE_STORAGE_CONNECTION_STRING", &store)],
    );
    assert_eq!((checked.status.code(), ran.status.code()), (Some(2), Some(2)));
    // Its log mentions the component, which has to be compiled.
    let stderr = |output: &Output| String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(stderr(&checked), stderr(&ran));
    assert!(stderr(&ran).contains("settings are wrong"), "{}", stderr(&ran));
    let report_json = json(&check(&[&wrong_args[..], &["--json"]].concat(), &store));
    let sources: Vec<_> = report_json["complaints"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["source"].as_str().unwrap())
        .collect();
    for source in ["Jobs", "--cron 61 * * * *", "--lease 5s", "--grace soon", "--listen here"] {
        assert!(sources.contains(&source), "{source}: {sources:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn check_tests_account_while_candidate_runs() {
    let (store, sink) = (Store::embedded().await.unwrap(), Sink::start().await.unwrap());
    let group = Group::new(PROGRAM, &store, &sink);
    group.warm_up().await.unwrap();
    let occupied = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = occupied.local_addr().unwrap().to_string();
    let ask = async |access: &tenure_tests::Access| {
        let mut command = Command::new(PROGRAM);
        command.args(["check", "--json", &group.election]).args(group.timer);
        command.args(["--listen", &address, "--", "/bin/sh"]);
        access.apply(&mut command);
        let output = command.output().await.unwrap();
        (output.status.code(), json(&output))
    };
    let (code, report_json) = ask(&group.access).await;
    assert_eq!(code, Some(0), "{report_json}");
    assert!(report_json.to_string().contains("there is no leader yet"), "{report_json}");
    assert!(report_json["notes"].to_string().contains("in use already"), "{report_json}");
    // The election's own blob was not created.
    let (_, report_json) = ask(&group.access).await;
    assert!(report_json.to_string().contains("there is no leader yet"), "{report_json}");

    let mut ada = group.start("ada", &[]).unwrap();
    ada.event("elected", TIMEOUT).await;
    let (code, report_json) = ask(&group.access).await;
    assert_eq!(code, Some(0), "{report_json}");
    assert!(report_json.to_string().contains("ada leads, term "), "{report_json}");
    // A check of only the account ignores the schedule.
    let mut command = Command::new(PROGRAM);
    command.args(["check", &group.election]);
    group.access.apply(&mut command);
    let output = command.output().await.unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(!text(&output).contains("schedule"), "{}", text(&output));

    let (container, _) = group.election.split_once('/').unwrap();
    let wrong_access =
        tenure_tests::Credential::SharedKey.wrong_access(&store.connection_string(), container);
    let (code, report_json) = ask(&wrong_access).await;
    assert_eq!((code, &report_json["verdict"]), (Some(2), &"failed".into()), "{report_json}");
    ada.terminate(TIMEOUT).await.unwrap();
    let _stopped = store.stop().await.unwrap();
    let (code, report_json) = ask(&group.access).await;
    assert_eq!((code, &report_json["verdict"]), (Some(2), &"failed".into()), "{report_json}");
}

#[test]
fn check_without_work_requires_account_test_only() {
    let (_listener, store) = untouched_store();
    for arguments in [&["--offline"][..], &["--every", "1h"], &["--offline", "--every", "1h"]] {
        let output = check(&[&["jobs/backup"], arguments].concat(), &store);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", text(&output));
        assert!(text(&output).contains("no handler is given"), "{arguments:?}: {}", text(&output));
    }
}
