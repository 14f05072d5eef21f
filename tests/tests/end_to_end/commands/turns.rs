//! The environment of a command, and the events about it.

use std::collections::BTreeSet;

use chrono::DateTime;
use tenure_tests::Candidate;

use super::stage::{Stage, TIMEOUT, turn_ended};

/// Returns the output lines of a command, with their stream.
fn handler_output(candidate: &Candidate) -> Vec<(String, String)> {
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let lines = candidate.lines().into_iter().filter(|line| line.name() == "handler");
    lines.map(|line| (text(&line.event["stream"]), text(&line.event["line"]))).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_command_runs_once_per_slot_and_sees_its_turn_but_no_secret() {
    let stage = Stage::new().await;
    let extra_args = ["--env", "GREETING=good morning", "--env", "TENURE_TEST_PASSED_ON"];
    let mut command = stage.group.command("ada", &extra_args, &["env"]);
    command
        .env("AZURE_CLIENT_ID", "6e7b")
        .env("IDENTITY_ENDPOINT", "http://127.0.0.1:9/token")
        .env("AZURE_CLIENT_SECRET", "c2VjcmV0LWhlYWRlcg==")
        .env("TENURE_TEST_PASSED_ON", "yes")
        .env("COLOUR", "blue");
    let mut candidate = Candidate::spawn("ada", command).unwrap();
    let started = candidate.event("turn-started", TIMEOUT).await;
    let ended = turn_ended(&candidate, 0).await;
    assert_eq!(ended.event["outcome"], "succeeded", "{}", candidate.transcript());
    let lines = handler_output(&candidate);
    let variable = |name: &str| {
        let value = |(_, line): &(String, String)| {
            Some(line.strip_prefix(name)?.strip_prefix('=')?.to_owned())
        };
        lines.iter().find_map(value).unwrap_or_else(|| panic!("no {name}: {lines:?}"))
    };
    assert_eq!(variable("TENURE_ELECTION"), stage.group.election);
    let slot = started.event["slot"].as_str().unwrap();
    let key = format!("devstoreaccount1/{}/{slot}", stage.group.election);
    assert_eq!(variable("TENURE_IDEMPOTENCY_KEY"), key);
    assert_eq!(variable("TENURE_TERM"), started.term().to_string());
    assert_eq!(variable("TENURE_SLOT"), started.event["slot"]);
    assert_eq!(variable("TENURE_ATTEMPT"), "1");
    assert_eq!(variable("GREETING"), "good morning");
    assert_eq!(variable("COLOUR"), "blue");
    assert_eq!(variable("AZURE_CLIENT_ID"), "6e7b");
    assert_eq!(variable("IDENTITY_ENDPOINT"), "http://127.0.0.1:9/token");
    assert_eq!(variable("TENURE_TEST_PASSED_ON"), "yes");
    assert_eq!(variable("TENURE_PAST_DUE"), started.event["past_due"].to_string());
    assert_eq!(variable("TENURE_MISSED_SLOTS"), started.event["missed"].to_string());
    let deadline = DateTime::parse_from_rfc3339(&variable("TENURE_DEADLINE")).unwrap();
    let started_at =
        DateTime::parse_from_rfc3339(started.event["timestamp"].as_str().unwrap()).unwrap();
    let remaining_ms = (deadline - started_at).num_milliseconds();
    assert!(
        (1..=11_500).contains(&remaining_ms),
        "{remaining_ms} ms of 12 s less what is for killing"
    );

    let status = candidate.terminate(TIMEOUT).await.unwrap();
    assert!(status.success(), "{}", candidate.transcript());
    let all = candidate.transcript();
    for secret in ["AZURE_STORAGE_", "c2VjcmV0LWhlYWRlcg"] {
        assert!(!all.contains(secret), "{secret}: {all}");
    }
    assert!(!stage.group.access.leaks_in(&all), "{all}");
    let slots = candidate.lines().into_iter().filter(|line| line.name() == "turn-started");
    let slots: Vec<_> = slots.map(|line| line.event["slot"].to_string()).collect();
    assert_eq!(slots.iter().collect::<BTreeSet<_>>().len(), slots.len(), "{slots:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_turn_ends_as_its_command_does() {
    let stage = Stage::new().await;
    let folder = tempfile::tempdir().unwrap();
    let garbled = folder.path().join("garbled");
    std::fs::write(&garbled, "\x7fELF").unwrap();
    let may_run = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&garbled, may_run).unwrap();
    let garbled = garbled.to_str().unwrap();
    let shell = |script: &'static str| vec!["sh", "-c", script];
    let cases = [
        (shell("echo out; echo err >&2; exit 3"), "failed", "exit code 3: err"),
        (shell("exit 130"), "failed", "exit code 130"),
        (shell("kill -9 $$"), "failed", "killed by SIGKILL"),
        (shell("kill -TERM $$"), "failed", "killed by SIGTERM"),
        // The command's process group differs from the runner's and the supervisor's.
        (shell("kill -9 0"), "failed", "killed by SIGKILL"),
        (vec![garbled], "trapped", "the command could not be started: "),
    ];
    let candidates: Vec<_> = cases
        .iter()
        .enumerate()
        .map(|(i, (work, ..))| {
            let mut group = stage.group.clone();
            group.election = format!("{}-{i}", group.election);
            Candidate::spawn("ada", group.command("ada", &[], work)).unwrap()
        })
        .collect();
    for (candidate, (_, outcome, detail)) in candidates.iter().zip(cases) {
        let ended = turn_ended(candidate, 0).await;
        assert_eq!(ended.event["outcome"], outcome, "{}", candidate.transcript());
        let actual_detail = ended.event["detail"].as_str().unwrap();
        assert!(actual_detail.starts_with(detail), "{actual_detail}");
    }
    let mut first = handler_output(&candidates[0]);
    first.truncate(2);
    first.sort();
    let line = |stream: &str, line: &str| (stream.to_owned(), line.to_owned());
    assert_eq!(first, [line("stderr", "err"), line("stdout", "out")]);
}

/// A candidate may inherit open files that the command must not access.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn command_inherits_no_extra_descriptors() {
    let stage = Stage::new().await;
    let probe_script = "if { true <&7; } 2>/dev/null; then echo open; else echo closed; fi";
    let inner = stage.group.command("ada", &[], &["sh", "-c", probe_script]);
    let inner = inner.as_std();
    let mut command = tokio::process::Command::new("sh");
    command.args(["-c", "exec 7</dev/null; exec \"$@\"", "sh"]).arg(inner.get_program());
    command.args(inner.get_args());
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let candidate = Candidate::spawn("ada", command).unwrap();
    let ended = turn_ended(&candidate, 0).await;
    assert_eq!(ended.event["outcome"], "succeeded", "{}", candidate.transcript());
    assert_eq!(handler_output(&candidate)[0].1, "closed", "{}", candidate.transcript());
}
