//! Calls that their receiver verifies, with the libraries of Standard Webhooks and of CloudEvents.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::Value;
use tenure_tests::{Candidate, Group, Store, examples, foreign, needs, tools};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout};

use super::{TIMEOUT, run_refused, stage, start};

const FIRST_SECRET: &str = "whsec_T25lU2VjcmV0T25lU2VjcmV0T25lU2VjcmV0";
const SECOND_SECRET: &str = "whsec_T3RoZXJTZWNyZXRPdGhlclNlY3JldE90aGVy";
const TOKEN: &str = "VG9rZW5PZlRoZVRlc3Q";

/// Prefixes of the secrets, which must never appear in output.
const SECRETS: [&str; 3] = ["T25lU2Vj", "T3RoZXJT", "VG9rZW5P"];

/// Process of `tests/webhook/receiver.py`.
struct Receiver {
    _child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    port: String,
}

impl Receiver {
    async fn start(secret: &Path) -> Self {
        let installed = tools::pip("webhook", "tests/webhook/requirements.txt").unwrap();
        let mut python =
            tokio::process::Command::from(tools::python("tests/webhook/receiver.py", &installed));
        python.arg(secret).stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = python.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let port = lines.next_line().await.unwrap().expect("it listens");
        Self { _child: child, lines, port }
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Waits for the next call.
    async fn call(&mut self) -> Value {
        let line =
            tokio::time::timeout(TIMEOUT, self.lines.next_line()).await.expect("it is called");
        serde_json::from_str(&line.unwrap().expect("it goes on")).unwrap()
    }

    /// Waits for the next call with this status.
    async fn call_with(&mut self, status: u16) -> Value {
        loop {
            let call = self.call().await;
            if call["status"] == status {
                return call;
            }
        }
    }
}

/// Secrets of the sender and of its receiver.
struct Files {
    folder: tempfile::TempDir,
}

impl Files {
    fn new(secret: &str) -> Self {
        let files = Self { folder: tempfile::tempdir().unwrap() };
        files.write("secret", secret);
        files.write("received", secret);
        files.write("token", TOKEN);
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Replaces the file atomically, like platforms do.
    fn write(&self, name: &str, text: &str) {
        let new = self.path("new");
        fs::write(&new, format!("{text}\n")).unwrap();
        fs::rename(new, self.path(name)).unwrap();
    }

    fn webhook_args(&self, url: &str) -> [String; 6] {
        let file = |name| self.path(name).to_str().unwrap().to_owned();
        let [secret, token] = [file("secret"), file("token")];
        let words =
            ["--webhook", url, "--webhook-secret-file", &secret, "--webhook-token-file", &token];
        words.map(str::to_owned)
    }
}

fn start_candidate(group: &Group, files: &Files, url: &str, extra_args: &[&str]) -> Candidate {
    let args = files.webhook_args(url);
    let args: Vec<_> = args.iter().map(String::as_str).chain(extra_args.iter().copied()).collect();
    start(group, "ada", &args)
}

fn no_secret(candidate: &Candidate) {
    let transcript = candidate.transcript();
    assert!(SECRETS.iter().all(|secret| !transcript.contains(secret)), "{transcript}");
}

/// Asserts the properties of every verified call.
fn assert_call_is_valid(call: &Value, election: &str) {
    let (turn, event, headers) = (&call["turn"], &call["event"], &call["headers"]);
    assert_eq!(turn["election"], election, "{call}");
    assert_eq!(headers["tenure-election"], election);
    assert_eq!(headers["authorization"], format!("Bearer {TOKEN}"));
    assert_eq!(headers["idempotency-key"], event["id"]);
    assert_eq!(event["data"], *turn);
    assert_eq!(event["source"], format!("tenure://devstoreaccount1/{election}"));
    assert_eq!((&event["type"], &event["specversion"]), (&"tenure.turn".into(), &"1.0".into()));
    let slot: chrono::DateTime<chrono::Utc> = turn["slot"].as_str().unwrap().parse().unwrap();
    assert_eq!(event["time"], slot.format("%Y-%m-%dT%H:%M:%S%.f+00:00").to_string(), "{call}");
    let key = format!("devstoreaccount1/{election}/{}", turn["slot"].as_str().unwrap());
    assert!(event["id"].as_str().unwrap().starts_with(&key), "{call}");
}

async fn a_receiver_verifies_each_call_while_secrets_change() {
    let (_store, group) = stage().await;
    let files = Files::new(FIRST_SECRET);
    let mut receiver = Receiver::start(&files.path("received")).await;
    let mut ada = start_candidate(&group, &files, &receiver.url("/"), &[]);
    assert_call_is_valid(&receiver.call().await, &group.election);
    // Rotates the secret without a rejected call: the sender adds it, the receiver switches, and
    // the sender removes the first one.
    files.write("secret", &format!("{FIRST_SECRET}\n{SECOND_SECRET}"));
    loop {
        let call = receiver.call().await;
        assert_call_is_valid(&call, &group.election);
        let signatures = call["headers"]["webhook-signature"].as_str().unwrap();
        if signatures.matches("v1,").count() == 2 {
            break;
        }
    }
    files.write("received", SECOND_SECRET);
    files.write("secret", SECOND_SECRET);
    loop {
        let call = receiver.call().await;
        assert_call_is_valid(&call, &group.election);
        if call["headers"]["webhook-signature"].as_str().unwrap().matches("v1,").count() == 1 {
            break;
        }
    }
    // A file in the middle of a change is ignored.
    files.write("secret", "");
    let handler_event = ada.event("handler", TIMEOUT).await.event;
    let line = handler_event["line"].as_str().unwrap();
    assert!(
        line.contains("is empty")
            && line.contains(
                "the credentials could not be read again, so the former ones stay in use"
            ),
        "{line}"
    );
    assert_call_is_valid(&receiver.call().await, &group.election);
    // An unknown secret is rejected.
    files.write("secret", FIRST_SECRET);
    let call = receiver.call_with(401).await;
    assert_eq!(call["turn"], "No matching signature found", "{call}");
    ada.signal(Signal::TERM).unwrap();
    ada.end(TIMEOUT).await.unwrap();
    no_secret(&ada);
}

needs!(Python => async fn a_receiver_verifies_each_call_while_secrets_change);

async fn busy_receiver_is_retried_only_with_at_least_once() {
    let (_store, group) = stage().await;
    let files = Files::new(FIRST_SECRET);
    let mut receiver = Receiver::start(&files.path("received")).await;
    let url = receiver.url("/?busy");
    let mut ada = start_candidate(&group, &files, &url, &["--delivery", "at-least-once"]);
    let (busy, taken) = (receiver.call().await, receiver.call().await);
    assert_eq!((&busy["status"], &taken["status"]), (&503.into(), &204.into()), "{busy} {taken}");
    // The same turn: only measured values and the time of the signature change.
    for field in ["slot", "term", "attempt"] {
        assert_eq!(busy["turn"][field], taken["turn"][field], "{field}");
    }
    for header in ["idempotency-key", "webhook-id", "ce-id", "tenure-term"] {
        assert_eq!(busy["headers"][header], taken["headers"][header], "{header}");
    }
    let at = |call: &Value| {
        call["headers"]["webhook-timestamp"].as_str().unwrap().parse::<u64>().unwrap()
    };
    assert!(at(&busy) < at(&taken), "{busy} {taken}");
    assert_eq!(ada.event("turn-ended", TIMEOUT).await.event["outcome"], "succeeded");
    let handler_event = ada.event("handler", TIMEOUT).await.event;
    assert_eq!(handler_event["line"], "tenure: the webhook answered 503; retrying in 1s");
    assert!(ada.terminate(TIMEOUT).await.unwrap().success());

    let election = format!("{}-2", group.election);
    let group = Group { election, ..group };
    let mut receiver = Receiver::start(&files.path("received")).await;
    let ben = start_candidate(&group, &files, &receiver.url("/?busy"), &[]);
    let ended = ben.event("turn-ended", TIMEOUT).await.event;
    assert_eq!(ended["outcome"], "failed");
    assert_eq!(ended["detail"], "the webhook answered 503");
    let (one, next) = (receiver.call().await, receiver.call().await);
    assert_ne!(one["event"]["id"], next["event"]["id"]);
    no_secret(&ben);
}

needs!(Python => async fn busy_receiver_is_retried_only_with_at_least_once);

async fn the_component_signs_as_the_runner_does() {
    let store = Store::azurite().await.unwrap();
    let files = Files::new(FIRST_SECRET);
    let mut receiver = Receiver::start(&files.path("received")).await;
    let component = examples::components().unwrap().join("tenure.wasm");
    let url = receiver.url("/");
    let turn = async |secret: &str| {
        let mut command = foreign::wasmtime_script("run.py", &component).unwrap();
        command.env("TENURE_ELECTION", "tenure-test/v1.trusted a");
        command.env("TENURE_EVERY", "1s").env("TENURE_HANDLER_URL", &url);
        command.env("TENURE_HANDLER_SECRET", secret).env("TENURE_HANDLER_TOKEN", TOKEN);
        command.env("AZURE_STORAGE_CONNECTION_STRING", store.connection_string());
        let output =
            tokio::time::timeout(TIMEOUT, command.output()).await.expect("it ends").unwrap();
        let output_text = [output.stdout, output.stderr].concat();
        let output_text = String::from_utf8(output_text).unwrap();
        assert!(SECRETS.iter().all(|secret| !output_text.contains(secret)), "{output_text}");
        output_text
    };
    // The first slot of a new election is in the future.
    while !turn(&format!("{FIRST_SECRET} {SECOND_SECRET}")).await.contains("succeeded") {}
    let call = receiver.call().await;
    let (headers, event) = (&call["headers"], &call["event"]);
    assert_eq!(call["status"], 204, "{call}");
    assert_eq!(call["turn"]["election"], "tenure-test/v1.trusted a");
    assert_eq!(headers["tenure-election"], "tenure-test/v1.trusted%20a");
    assert_eq!(headers["authorization"], format!("Bearer {TOKEN}"));
    assert_eq!(headers["idempotency-key"], event["id"]);
    assert_eq!(event["source"], "tenure://devstoreaccount1/tenure-test/v1.trusted%20a");
    assert_eq!(headers["webhook-id"], event["id"].as_str().unwrap().replace('.', "%2E"));
    let output_text = turn("whsec_S3CRET").await;
    let refused = r#""TENURE_HANDLER_SECRET","problem":"is not whsec_"#;
    assert!(output_text.contains(refused) && !output_text.contains("S3CRET"), "{output_text}");
}

needs!(Node, Python => async fn the_component_signs_as_the_runner_does);

#[test]
fn invalid_webhook_credentials_are_reported_before_any_request() {
    let files = Files::new("no secret");
    let args = files.webhook_args("https://example.com/a");
    let args: Vec<_> = args.iter().map(String::as_str).collect();
    let path = files.path("secret");
    let secret = format!("--webhook-secret-file {}\n    is not whsec_", path.display());
    let all = [&args[..], &["--every", "5s"]].concat();
    let message = run_refused(&all, &[]);
    assert!(message.contains(&secret), "{message}");
    fs::remove_file(files.path("token")).unwrap();
    let message = run_refused(&all, &[]);
    let token = format!("the file {} is not there", files.path("token").display());
    assert!(message.contains(&secret) && message.contains(&token), "{message}");
    let variables = [("TENURE_HANDLER_SECRET", "S3CRET"), ("TENURE_HANDLER_TOKEN", "a b")];
    let message = run_refused(&["--every", "5s", "--webhook", "http://a/"], &variables);
    for variable in ["TENURE_HANDLER_SECRET\n    is not whsec_", "TENURE_HANDLER_TOKEN\n    holds"]
    {
        assert!(message.contains(variable), "{message}");
    }
    assert!(!message.contains("S3CRET"), "{message}");
    let message = run_refused(&["--every", "5s", "--webhook-secret-file", "a", "--", "true"], &[]);
    assert!(message.contains("--webhook-secret-file\n    this is for a webhook"), "{message}");
}
