//! The program's errors, messages, exit codes and demo.

use crate::PROGRAM;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use tenure_tests::{BEAT_HANDLER, Group, Sink, Store};

const TIMEOUT: Duration = tenure_tests::PATIENCE;

/// Recognisable secret in base64.
const SECRET: &str = "U0VDUkVULUtFWS1OT1QtVE8tQkUtU0VFTg==";

fn tenure(arguments: &[&str], connection_string: Option<&str>) -> Output {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).stdin(Stdio::null()).env_remove("AZURE_STORAGE_CONNECTION_STRING");
    if let Some(connection_string) = connection_string {
        command.env("AZURE_STORAGE_CONNECTION_STRING", connection_string);
    }
    let output = command.output().unwrap();
    let all = text(&output);
    assert!(!all.contains(SECRET) && !all.contains("SECRET-KEY"), "{all}");
    output
}

fn text(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    format!("{}{}", String::from_utf8_lossy(out), String::from_utf8_lossy(err))
}

/// Returns a store that must receive no connection, and its connection string.
fn untouched_store() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let connection_string =
        format!("AccountName=silent;AccountKey={SECRET};BlobEndpoint=http://{address}/silent");
    (listener, connection_string)
}

#[test]
fn all_mistakes_are_reported_before_any_request() {
    let (listener, connection_string) = untouched_store();
    let wrong_args = [
        "run",
        "--every",
        "10ms",
        "--handler",
        "/nowhere/handler.wasm",
        "--lease",
        "14s",
        "--margin",
        "1s",
        "--renew",
        "eventually",
        "--poll",
        "0s",
        "--request-timeout",
        "1h",
        "--turn-timeout",
        "25h",
        "--max-failures",
        "-1",
        "--cool-down",
        "0s",
        "--grace",
        "61m",
        "--allow-host",
        "http://a/path",
        "--env",
        "NOVALUE",
        "--ca-file",
        "/nowhere/ca.pem",
    ];
    let output =
        tenure(&[&wrong_args[..], &["Not_A_Container/"]].concat(), Some(&connection_string));
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("\n  Not_A_Container/\n"), "{stderr}");
    for pair in wrong_args[1..].chunks(2) {
        assert!(stderr.contains(pair[0]), "{} is not named:\n{stderr}", pair[0]);
        // Values for the handler may be secret.
        let is_shown = stderr.contains(pair[1]);
        assert_eq!(is_shown, pair[0] != "--env", "{}:\n{stderr}", pair[1]);
    }
    assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}

#[test]
fn a_variable_is_named_where_no_option_was_given() {
    let (_listener, connection_string) = untouched_store();
    let wrong_variables = [
        ("TENURE_LEASE", "61s"),
        ("TENURE_TURN_TIMEOUT", "1ms"),
        ("TENURE_MAX_FAILURES", "many"),
        ("TENURE_COOL_DOWN", "1d"),
        ("TENURE_GRACE", "2h"),
        ("TENURE_MEMORY_LIMIT", "1KiB"),
        ("TENURE_CA_FILE", "/nowhere/ca.pem"),
    ];
    let output = Command::new(PROGRAM)
        .args(["run", "jobs/a", "--every", "5s", "--handler", BEAT_HANDLER])
        .env("AZURE_STORAGE_CONNECTION_STRING", connection_string)
        .envs(wrong_variables)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    for (variable, _) in wrong_variables {
        assert!(text(&output).contains(variable), "{variable}: {}", text(&output));
    }
}

#[test]
fn misspelt_variable_is_reported_before_any_request() {
    let (listener, connection_string) = untouched_store();
    for command in [&["run", "--every", "5s", "--handler", BEAT_HANDLER][..], &["status"]] {
        let output = Command::new(PROGRAM)
            .args(command)
            .args(["jobs/a"])
            .env("AZURE_STORAGE_CONNECTION_STRING", &connection_string)
            .env("TENURE_POL", "1s")
            // Kubernetes sets this variable for a service called tenure.
            .env("TENURE_PORT", "tcp://10.0.0.1:8080")
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", text(&output));
        let output_text = text(&output);
        assert!(
            output_text.contains("TENURE_POL\n")
                && output_text.contains("did you mean TENURE_POLL?"),
            "{output_text}"
        );
        assert!(!output_text.contains("TENURE_PORT"), "{output_text}");
    }
    assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}

#[test]
fn advice_names_options_when_options_are_used() {
    let (_listener, connection_string) = untouched_store();
    let run = ["run", "jobs/a", "--handler", BEAT_HANDLER, "--every", "5s"];
    let output = tenure(&[&run[..], &["--max-attempts", "3"]].concat(), Some(&connection_string));
    let output_text = text(&output);
    assert!(
        output_text.contains("set --delivery to at-least-once") && !output_text.contains("TENURE_"),
        "{output_text}"
    );
    let run = ["run", "jobs/a", "--handler", BEAT_HANDLER];
    let zone = ["--cron", "CRON_TZ=Europe/Berlin 0 9 * * *"];
    let output = tenure(&[&run[..], &zone].concat(), Some(&connection_string));
    let output_text = text(&output);
    assert!(output_text.contains("a time zone stands before the fields"), "{output_text}");
    assert!(output_text.contains("the zone in the setting time-zone"), "{output_text}");
}

#[cfg(unix)]
#[test]
fn world_writable_cache_dir_is_rejected() {
    use std::os::unix::fs::PermissionsExt as _;
    let (_listener, connection_string) = untouched_store();
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let output = Command::new(PROGRAM)
        .args(["check", "jobs/a", "--offline", "--every", "5s", "--", "true"])
        .env("AZURE_STORAGE_CONNECTION_STRING", connection_string)
        .env("TENURE_CACHE_DIR", folder.path())
        .output()
        .unwrap();
    let output_text = text(&output);
    assert_eq!(output.status.code(), Some(0), "it goes on: {output_text}");
    assert!(output_text.contains("can be written by other users"), "{output_text}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn ca_file_is_validated_before_any_request() {
    let (listener, connection_string) = untouched_store();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.pem");
    std::fs::write(&file, SECRET).unwrap();
    let file = file.to_str().unwrap();
    for command in [&["run", "--every", "5s"][..], &["status"], &["reset-slot", "--yes"]] {
        let wrong_args = [command, &["jobs/a", "--ca-file", file]].concat();
        let output = tenure(&wrong_args, Some(&connection_string));
        assert_eq!(output.status.code(), Some(2), "{}", text(&output));
        for expected in [&format!("--ca-file {file}"), "holds no certificate"] {
            assert!(text(&output).contains(expected), "{}", text(&output));
        }
    }
    assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}

#[test]
fn invalid_connection_strings_are_explained_without_secret() {
    let run = ["run", "jobs/a", "--every", "5s", "--handler", BEAT_HANDLER];
    let garbled = [
        String::new(),
        "nonsense".into(),
        format!("AccountKey={SECRET}"),
        "AccountName=storage1".into(),
        format!("AccountName=storage1;AccountKey={SECRET}!"),
        format!("AccountName=storage1;AccountKey={SECRET};BlobEndpoint=ftp://a"),
        format!("BlobEndpoint=https://a.blob.core.windows.net;SharedAccessSignature=sig={SECRET}"),
    ];
    for connection_string in garbled {
        let output = tenure(&run, Some(&connection_string));
        let output_text = text(&output);
        assert_eq!(output.status.code(), Some(2), "{connection_string}: {output_text}");
        assert!(
            output_text.contains("AZURE_STORAGE_CONNECTION_STRING"),
            "{connection_string}: {output_text}"
        );
    }
}

#[test]
fn a_secret_in_the_wrong_place_is_not_shown() {
    let connection_string =
        format!("DefaultEndpointsProtocol=https;AccountName=a;AccountKey={SECRET}");
    let with_password = format!("https://user:{SECRET}@example.com/");
    for wrong_args in [
        ["--connection-string-file", &connection_string],
        ["--lease", &connection_string],
        ["--allow-host", &with_password],
        ["--env", SECRET.trim_end_matches('=')],
    ] {
        // The test searches the output for the secret in `tenure`.
        let output = tenure(&[&["run"][..], &wrong_args[..]].concat(), None);
        assert_eq!(output.status.code(), Some(2), "{}", text(&output));
        assert!(!text(&output).contains(SECRET.trim_end_matches('=')), "{}", text(&output));
        assert!(text(&output).contains(wrong_args[0]), "{}", text(&output));
    }
    // The secret takes the place of the election.
    let output = tenure(&["run", &connection_string], None);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert!(text(&output).contains("\n  CONTAINER/BLOB …\n"), "{}", text(&output));
}

#[test]
fn invalid_endpoint_is_reported_with_other_mistakes() {
    let connection_string =
        format!("AccountName=acc;AccountKey={SECRET};BlobEndpoint=http://127.0.0.300:10000/acc");
    let run = ["run", "jobs/a", "--every", "5s", "--handler", "/nowhere.wasm"];
    let output = tenure(&run, Some(&connection_string));
    assert_eq!(output.status.code(), Some(2));
    for expected in ["AZURE_STORAGE_CONNECTION_STRING", "127.0.0.300", "/nowhere.wasm"] {
        assert!(text(&output).contains(expected), "{}", text(&output));
    }
}

#[test]
fn non_handler_file_is_rejected_with_its_kind() {
    let (_listener, connection_string) = untouched_store();
    let folder = tempfile::tempdir().unwrap();
    let module = folder.path().join("module.wasm");
    std::fs::write(&module, b"\0asm\x01\0\0\0").unwrap();
    let election = folder.path().join("election.wasm");
    std::fs::write(&election, tenure_wasmtime::ELECTION_COMPONENT).unwrap();
    let cases = [
        (module.to_str().unwrap(), "core WebAssembly module"),
        (election.to_str().unwrap(), "tenure:election/election@0.1.0"),
        (PROGRAM, "not a WebAssembly component"),
    ];
    for (file, expected) in cases {
        let run = ["run", "jobs/a", "--every", "5s", "--handler", file];
        let output = tenure(&run, Some(&connection_string));
        assert_eq!(output.status.code(), Some(2), "{file}");
        assert!(text(&output).contains(expected), "{file}: {}", text(&output));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn status_exit_code_shows_whether_there_is_a_leader() {
    let store = Store::embedded().await.unwrap();
    let sink = Sink::start().await.unwrap();
    let group = Group::new(PROGRAM, &store, &sink);
    group.warm_up().await.unwrap();
    let status = async |connection_string: String| {
        let election = group.election.clone();
        let ask = move || tenure(&["status", "--json", &election], Some(&connection_string));
        tokio::task::spawn_blocking(ask).await.unwrap()
    };
    let json = |output: &Output| -> serde_json::Value {
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    };

    let without_leader = status(group.connection_string.clone()).await;
    assert_eq!(without_leader.status.code(), Some(1), "{}", text(&without_leader));
    assert_eq!(json(&without_leader)["lease"], "absent", "{}", text(&without_leader));

    let mut candidate = group.start("ada", &["--address", "http://10.0.0.4:80"]).unwrap();
    let term = candidate.event("elected", TIMEOUT).await.term();
    candidate.event("turn-ended", TIMEOUT).await;
    let with_leader = status(group.connection_string.clone()).await;
    assert_eq!(with_leader.status.code(), Some(0), "{}", text(&with_leader));
    let status_json = json(&with_leader);
    assert_eq!(status_json["lease"], "leased");
    assert_eq!(status_json["leader"]["name"], "ada");
    assert_eq!(status_json["leader"]["term"], term);
    assert_eq!(status_json["leader"]["address"], "http://10.0.0.4:80");
    assert!(status_json["last_slot"]["slot"].is_string(), "{status_json}");
    // Takeover bound: the lease has to expire.
    assert_eq!(status_json["failover"]["promise_ms"], serde_json::Value::Null, "{status_json}");
    assert!(
        status_json["failover"]["detail"].to_string().contains("--failover 3s shortens that"),
        "{status_json}"
    );

    // The next leader promises more than its lease does.
    assert!(candidate.terminate(TIMEOUT).await.unwrap().success(), "{}", candidate.transcript());
    let candidate = group.start("ben", &["--failover", "10s"]).unwrap();
    candidate.event("elected", TIMEOUT).await;
    let status_json = json(&status(group.connection_string.clone()).await);
    let (promise, within) =
        (&status_json["failover"]["promise_ms"], &status_json["failover"]["machine_ms"]);
    assert_eq!((promise.as_u64(), within.as_u64()), (Some(7_000), Some(10_000)), "{status_json}");

    let key = group.connection_string.split(';').find_map(|part| part.strip_prefix("AccountKey="));
    let wrong_key = group.connection_string.replace(key.unwrap(), SECRET);
    let refused = status(wrong_key).await;
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused));
    assert!(text(&refused).contains("key"), "{}", text(&refused));
}

/// Runs like `tenure demo | head -n 1`.
#[test]
fn closed_pipe_ends_demo_quietly() {
    let mut command = Command::new(PROGRAM);
    command.arg("demo").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut demo = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(demo.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(!line.is_empty());
    let ended = demo.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&ended.stderr);
    assert_eq!((ended.status.code(), stderr.as_ref()), (Some(0), ""));
}

#[test]
fn watch_of_empty_list_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("names"), "# nobody yet\n").unwrap();
    let file = folder.path().join("tenure.toml");
    let list = "[[election]]\nelection = \"jobs/{each}\"\nfor-each-file = \"names\"\n";
    std::fs::write(&file, list).unwrap();
    let (listener, connection_string) = untouched_store();
    for json in [&[][..], &["--json"]] {
        let arguments = [&["status", "--watch", "--config", file.to_str().unwrap()], json].concat();
        let output = tenure(&arguments, Some(&connection_string));
        let output_text = text(&output);
        assert_eq!(output.status.code(), Some(2), "{output_text}");
        assert!(output_text.contains("no election to watch"), "{output_text}");
        assert_eq!(output_text.contains("\"complaints\""), !json.is_empty(), "{output_text}");
    }
    assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}

#[test]
fn demo_ends_without_overlapping_turns() {
    let output = tenure(&["demo"], None);
    let output_text = text(&output);
    assert_eq!(output.status.code(), Some(0), "{output_text}");
    let overlapping = output_text.lines().find(|line| line.contains("overlapping turns"));
    let count = overlapping.and_then(|line| line.split_whitespace().nth(2));
    assert_eq!(count, Some("0"), "{output_text}");
    assert!(output_text.contains("SIGKILL"), "{output_text}");
    // Takeover time, and its reason.
    for (label, reason) in [
        ("machine died, takeover", "s  the failover window had to end"),
        ("process died, takeover", "s  its supervisor released the lease"),
        ("stopped, takeover", "s  it released the lease"),
    ] {
        let row = output_text.lines().find(|line| line.trim_start().starts_with(label));
        assert!(row.is_some_and(|row| row.ends_with(reason)), "{label}: {output_text}");
    }
    assert!(!output_text.contains('\u{1b}'), "no control codes in a pipe: {output_text:?}");
}
