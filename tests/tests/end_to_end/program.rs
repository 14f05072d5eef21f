//! The program as people meet it: what it refuses, what it says, its exit codes, its demo.

use crate::PROGRAM;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use tenure_tests::{BEAT_HANDLER, Group, Sink, Store};

const SOON: Duration = tenure_tests::PATIENCE;

/// Base64, and to be recognised wherever it turns up.
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

/// A store that must not be spoken to.
fn silent_store() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let connection_string =
        format!("AccountName=silent;AccountKey={SECRET};BlobEndpoint=http://{address}/silent");
    (listener, connection_string)
}

#[test]
fn everything_that_is_wrong_is_said_at_once_and_nothing_is_sent() {
    let (listener, connection_string) = silent_store();
    let wrong = [
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
    let output = tenure(&[&wrong[..], &["Not_A_Container/"]].concat(), Some(&connection_string));
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("\n  Not_A_Container/\n"), "{said}");
    for pair in wrong[1..].chunks(2) {
        assert!(said.contains(pair[0]), "{} is not named:\n{said}", pair[0]);
        // What is given to the handler may be a secret.
        let shown = said.contains(pair[1]);
        assert_eq!(shown, pair[0] != "--env", "{}:\n{said}", pair[1]);
    }
    assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}

#[test]
fn a_variable_is_named_where_no_option_was_given() {
    let (_listener, connection_string) = silent_store();
    let wrong = [
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
        .envs(wrong)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    for (variable, _) in wrong {
        assert!(text(&output).contains(variable), "{variable}: {}", text(&output));
    }
}

#[test]
fn a_variable_that_is_misspelt_is_told_before_anything_is_sent() {
    let (listener, connection_string) = silent_store();
    for command in [&["run", "--every", "5s", "--handler", BEAT_HANDLER][..], &["status"]] {
        let output = Command::new(PROGRAM)
            .args(command)
            .args(["jobs/a"])
            .env("AZURE_STORAGE_CONNECTION_STRING", &connection_string)
            .env("TENURE_POL", "1s")
            // A cluster sets this for a service called tenure.
            .env("TENURE_PORT", "tcp://10.0.0.1:8080")
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", text(&output));
        let said = text(&output);
        assert!(
            said.contains("TENURE_POL\n") && said.contains("did you mean TENURE_POLL?"),
            "{said}"
        );
        assert!(!said.contains("TENURE_PORT"), "{said}");
    }
    assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}

#[test]
fn advice_speaks_of_options_to_who_uses_options() {
    let (_listener, connection_string) = silent_store();
    let run = ["run", "jobs/a", "--handler", BEAT_HANDLER, "--every", "5s"];
    let output = tenure(&[&run[..], &["--max-attempts", "3"]].concat(), Some(&connection_string));
    let said = text(&output);
    assert!(
        said.contains("set --delivery to at-least-once") && !said.contains("TENURE_"),
        "{said}"
    );
    let run = ["run", "jobs/a", "--handler", BEAT_HANDLER];
    let zone = ["--cron", "CRON_TZ=Europe/Berlin 0 9 * * *"];
    let output = tenure(&[&run[..], &zone].concat(), Some(&connection_string));
    let said = text(&output);
    assert!(said.contains("a time zone stands before the fields"), "{said}");
    assert!(said.contains("the zone in the setting time-zone"), "{said}");
}

#[cfg(unix)]
#[test]
fn code_is_not_kept_where_others_can_write() {
    use std::os::unix::fs::PermissionsExt as _;
    let (_listener, connection_string) = silent_store();
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let output = Command::new(PROGRAM)
        .args(["check", "Not_A_Container/", "--offline", "--every", "5s", "--", "true"])
        .env("AZURE_STORAGE_CONNECTION_STRING", connection_string)
        .env("TENURE_CACHE_DIR", folder.path())
        .output()
        .unwrap();
    let said = text(&output);
    assert_eq!(output.status.code(), Some(2), "it goes on: {said}");
    assert!(said.contains("can be written by other users"), "{said}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn whom_to_trust_is_judged_before_anything_is_sent() {
    let (listener, connection_string) = silent_store();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.pem");
    std::fs::write(&file, SECRET).unwrap();
    let file = file.to_str().unwrap();
    for command in [&["run", "--every", "5s"][..], &["status"], &["reset-slot", "--yes"]] {
        let wrong = [command, &["jobs/a", "--ca-file", file]].concat();
        let output = tenure(&wrong, Some(&connection_string));
        assert_eq!(output.status.code(), Some(2), "{}", text(&output));
        for said in [&format!("--ca-file {file}"), "holds no certificate"] {
            assert!(text(&output).contains(said), "{}", text(&output));
        }
    }
    assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}

#[test]
fn connection_strings_that_are_none_are_explained_without_their_secret() {
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
        let said = text(&output);
        assert_eq!(output.status.code(), Some(2), "{connection_string}: {said}");
        assert!(said.contains("AZURE_STORAGE_CONNECTION_STRING"), "{connection_string}: {said}");
    }
}

#[test]
fn a_secret_in_the_wrong_place_is_not_shown() {
    let connection_string =
        format!("DefaultEndpointsProtocol=https;AccountName=a;AccountKey={SECRET}");
    let with_password = format!("https://user:{SECRET}@example.com/");
    for wrong in [
        ["--connection-string-file", &connection_string],
        ["--lease", &connection_string],
        ["--allow-host", &with_password],
        ["--env", SECRET.trim_end_matches('=')],
    ] {
        // The secret is looked for in `tenure`.
        let output = tenure(&[&["run"][..], &wrong[..]].concat(), None);
        assert_eq!(output.status.code(), Some(2), "{}", text(&output));
        assert!(!text(&output).contains(SECRET.trim_end_matches('=')), "{}", text(&output));
        assert!(text(&output).contains(wrong[0]), "{}", text(&output));
    }
    // In the place of the election.
    let output = tenure(&["run", &connection_string], None);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert!(text(&output).contains("\n  CONTAINER/BLOB …\n"), "{}", text(&output));
}

#[test]
fn an_endpoint_that_is_no_host_is_told_with_everything_else() {
    let connection_string =
        format!("AccountName=acc;AccountKey={SECRET};BlobEndpoint=http://127.0.0.300:10000/acc");
    let run = ["run", "jobs/a", "--every", "5s", "--handler", "/nowhere.wasm"];
    let output = tenure(&run, Some(&connection_string));
    assert_eq!(output.status.code(), Some(2));
    for said in ["AZURE_STORAGE_CONNECTION_STRING", "127.0.0.300", "/nowhere.wasm"] {
        assert!(text(&output).contains(said), "{}", text(&output));
    }
}

#[test]
fn a_file_that_is_no_handler_is_told_what_it_is() {
    let (_listener, connection_string) = silent_store();
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
async fn status_tells_who_leads_by_its_exit_code_too() {
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

    let nobody = status(group.connection_string.clone()).await;
    assert_eq!(nobody.status.code(), Some(1), "{}", text(&nobody));
    assert_eq!(json(&nobody)["lease"], "absent", "{}", text(&nobody));

    let mut candidate = group.start("ada", &["--address", "http://10.0.0.4:80"]).unwrap();
    let term = candidate.event("elected", SOON).await.term();
    candidate.event("turn-ended", SOON).await;
    let somebody = status(group.connection_string.clone()).await;
    assert_eq!(somebody.status.code(), Some(0), "{}", text(&somebody));
    let told = json(&somebody);
    assert_eq!(told["lease"], "leased");
    assert_eq!(told["leader"]["name"], "ada");
    assert_eq!(told["leader"]["term"], term);
    assert_eq!(told["leader"]["address"], "http://10.0.0.4:80");
    assert!(told["last_slot"]["slot"].is_string(), "{told}");
    // How soon it would be replaced: its lease has to run out.
    assert_eq!(told["failover"]["promise_ms"], serde_json::Value::Null, "{told}");
    assert!(
        told["failover"]["detail"].to_string().contains("--failover 3s shortens that"),
        "{told}"
    );

    // The next leader promises more than its lease does.
    assert!(candidate.terminate(SOON).await.unwrap().success(), "{}", candidate.transcript());
    let candidate = group.start("ben", &["--failover", "10s"]).unwrap();
    candidate.event("elected", SOON).await;
    let told = json(&status(group.connection_string.clone()).await);
    let (promise, within) = (&told["failover"]["promise_ms"], &told["failover"]["machine_ms"]);
    assert_eq!((promise.as_u64(), within.as_u64()), (Some(7_000), Some(10_000)), "{told}");

    let key = group.connection_string.split(';').find_map(|part| part.strip_prefix("AccountKey="));
    let wrong = group.connection_string.replace(key.unwrap(), SECRET);
    let refused = status(wrong).await;
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused));
    assert!(text(&refused).contains("key"), "{}", text(&refused));
}

/// As `tenure demo | head -n 1`.
#[test]
fn a_demo_whose_reader_has_seen_enough_ends_quietly() {
    let mut command = Command::new(PROGRAM);
    command.arg("demo").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut demo = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(demo.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(!line.is_empty());
    let ended = demo.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!((ended.status.code(), said.as_ref()), (Some(0), ""));
}

#[test]
fn a_list_without_names_is_nothing_to_watch() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("names"), "# nobody yet\n").unwrap();
    let file = folder.path().join("tenure.toml");
    let list = "[[election]]\nelection = \"jobs/{each}\"\nfor-each-file = \"names\"\n";
    std::fs::write(&file, list).unwrap();
    let (listener, connection_string) = silent_store();
    for json in [&[][..], &["--json"]] {
        let arguments = [&["status", "--watch", "--config", file.to_str().unwrap()], json].concat();
        let output = tenure(&arguments, Some(&connection_string));
        let said = text(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("no election to watch"), "{said}");
        assert_eq!(said.contains("\"complaints\""), !json.is_empty(), "{said}");
    }
    assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}

#[test]
fn the_demo_ends_by_itself_and_nothing_overlapped() {
    let output = tenure(&["demo"], None);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let overlapping = said.lines().find(|line| line.contains("overlapping turns"));
    let count = overlapping.and_then(|line| line.split_whitespace().nth(2));
    assert_eq!(count, Some("0"), "{said}");
    assert!(said.contains("SIGKILL"), "{said}");
    // How soon another one led, and why.
    for (what, why) in [
        ("machine died, takeover", "s  the failover window had to end"),
        ("process died, takeover", "s  its supervisor released the lease"),
        ("stopped, takeover", "s  it released the lease"),
    ] {
        let row = said.lines().find(|line| line.trim_start().starts_with(what));
        assert!(row.is_some_and(|row| row.ends_with(why)), "{what}: {said}");
    }
    assert!(!said.contains('\u{1b}'), "no control codes in a pipe: {said:?}");
}
