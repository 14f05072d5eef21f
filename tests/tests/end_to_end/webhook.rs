//! Real `tenure run` processes with a webhook as work: the received calls, the ends of turns, and
//! the end of a call before the lease is released.

mod trust;
mod trusted;

use crate::PROGRAM;
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::routing::post;
use rustix::process::Signal;
use serde_json::Value;
use tenure_tests::{Access, BEAT_HANDLER, Candidate, Group, Line, Mode, Proxy, Sink, Store};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::sync::watch;

/// Limit of waits without a specific bound, on a busy machine.
const TIMEOUT: Duration = tenure_tests::PATIENCE;

/// Part of the URL that must never appear in output.
const SECRET: &str = "TGVha2VkUGF0aA";

/// One call: headers and turn.
type Call = (HeaderMap, Value);

/// All calls, and their number.
type Calls = Arc<(Mutex<Vec<Call>>, watch::Sender<usize>)>;

/// Receiver that answers every call with one status, and with a text that names the called URL.
struct Receiver {
    port: u16,
    calls: Calls,
}

impl Receiver {
    async fn start(status: StatusCode) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let calls: Calls = Arc::new((Mutex::default(), watch::Sender::new(0)));
        let receive =
            async move |State(calls): State<Calls>, uri: Uri, headers: HeaderMap, body: Bytes| {
                let turn = serde_json::from_slice(&body).unwrap();
                let mut all = calls.0.lock().unwrap();
                all.push((headers, turn));
                calls.1.send_replace(all.len());
                (status, format!("nothing is done at {uri}"))
            };
        let app = Router::new().fallback(post(receive)).with_state(Arc::clone(&calls));
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { port, calls }
    }

    fn url(&self) -> String {
        format!("http://localhost:{}/hooks/{SECRET}?code={SECRET}", self.port)
    }

    /// Waits for `count` calls, and returns all calls.
    async fn calls(&self, count: usize) -> Vec<Call> {
        let mut counts = self.calls.1.subscribe();
        let enough_calls = counts.wait_for(|arrived_count| *arrived_count >= count);
        tokio::time::timeout(TIMEOUT, enough_calls).await.expect("it is called").unwrap();
        self.calls.0.lock().unwrap().clone()
    }
}

async fn stage() -> (Store, Group) {
    let (store, sink) = (Store::embedded().await.unwrap(), Sink::start().await.unwrap());
    let mut group = Group::new(PROGRAM, &store, &sink);
    group.timer = ["--every", "1s"];
    group.warm_up().await.unwrap();
    (store, group)
}

fn command(group: &Group, name: &str, extra_args: &[&str]) -> Command {
    let mut command = Command::new(&group.program);
    command
        .args(["run", "--log", "json", "--log-level", "debug", &group.election, "--name", name])
        .args(group.timer)
        .args(extra_args);
    group.access.apply(&mut command);
    command
}

fn start(group: &Group, name: &str, extra_args: &[&str]) -> Candidate {
    Candidate::spawn(name, command(group, name, extra_args)).unwrap()
}

fn no_secret(candidate: &Candidate) {
    let transcript = candidate.transcript();
    assert!(!transcript.contains(SECRET) && !transcript.contains("/hooks"), "{transcript}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_slot_is_called_once_and_terms_rise() {
    let (_store, group) = stage().await;
    let receiver = Receiver::start(StatusCode::OK).await;
    let mut ada = start(&group, "ada", &["--webhook", &receiver.url()]);
    ada.event("elected", TIMEOUT).await;
    let mut ben = command(&group, "ben", &[]);
    ben.env("TENURE_HANDLER_URL", receiver.url());
    let mut ben = Candidate::spawn("ben", ben).unwrap();
    ben.event("following", TIMEOUT).await;
    receiver.calls(2).await;
    assert!(ada.terminate(TIMEOUT).await.unwrap().success(), "{}", ada.transcript());
    let call_count = receiver.calls(2).await.len();
    receiver.calls(call_count + 2).await;
    assert!(ben.terminate(TIMEOUT).await.unwrap().success(), "{}", ben.transcript());

    let calls = receiver.calls(0).await;
    let slots: Vec<_> = calls.iter().map(|(_, turn)| turn["slot"].as_str().unwrap()).collect();
    assert!(slots.windows(2).all(|pair| pair[0] < pair[1]), "{slots:?}");
    let terms: Vec<_> = calls.iter().map(|(_, turn)| turn["term"].as_u64().unwrap()).collect();
    assert!(terms.is_sorted() && terms.first() < terms.last(), "{terms:?}");
    for (headers, turn) in &calls {
        assert_eq!(headers["tenure-term"], turn["term"].to_string().as_str());
        assert_eq!(headers["tenure-election"], group.election.as_str());
        assert_eq!(turn["election"], group.election.as_str());
        let key = format!("devstoreaccount1/{}/{}", group.election, turn["slot"].as_str().unwrap());
        assert_eq!(headers["idempotency-key"], key.as_str());
    }
    let lines: Vec<_> = [&ada, &ben].iter().flat_map(|candidate| candidate.lines()).collect();
    let succeeded = |line: &&Line| line.event["outcome"] == "succeeded";
    assert_eq!(lines.iter().filter(succeeded).count(), calls.len(), "{lines:?}");
    no_secret(&ada);
    no_secret(&ben);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idempotency_keys_differ_between_elections() {
    let (_store, group) = stage().await;
    let receiver = Receiver::start(StatusCode::OK).await;
    let (url, folder) = (receiver.url(), tempfile::tempdir().unwrap());
    let file = folder.path().join("tenure.toml");
    let election = |name| {
        let election = format!("{}-{name}", group.election);
        format!("[[election]]\nelection = \"{election}\"\nwebhook = \"{url}\"\n")
    };
    // Both elections have the same slots, which are rare.
    let content = format!("log = \"json\"\nevery = \"2s\"\n{}{}", election("a"), election("b"));
    std::fs::write(&file, content).unwrap();
    let mut command = Command::new(&group.program);
    command.arg("run").arg("--config").arg(&file);
    group.access.apply(&mut command);
    let _both = Candidate::spawn("both", command).unwrap();
    let (mut shared, mut count) = (false, 2);
    while !shared {
        let calls = receiver.calls(count).await;
        count = calls.len() + 1;
        let mut keys: Vec<_> =
            calls.iter().map(|(headers, _)| &headers["idempotency-key"]).collect();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), calls.len(), "{calls:?}");
        shared = calls.iter().any(|(_, one)| {
            let same = |other: &Value| one["slot"] == other["slot"] && one != other;
            calls.iter().any(|(_, other)| same(other) && one["election"] != other["election"])
        });
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_fail_are_failed_turns_and_end_the_leadership() {
    let (_store, group) = stage().await;
    let receiver = Receiver::start(StatusCode::BAD_GATEWAY).await;
    let url = receiver.url();
    let candidate = start(&group, "ada", &["--webhook", &url, "--max-failures", "2"]);
    let stood_down = candidate.event("stood-down", TIMEOUT).await;
    assert_eq!(stood_down.event["reason"], "work-failed");
    assert_eq!(candidate.count("turn-ended"), 2, "{}", candidate.transcript());
    let ended = candidate.event("turn-ended", TIMEOUT).await.event;
    assert_eq!(ended["outcome"], "failed");
    // The answer quotes the URL.
    let detail =
        "the webhook answered 502, with a text that is not shown, since it repeats the URL";
    assert_eq!(ended["detail"], detail);
    assert_eq!(receiver.calls(2).await.len(), 2);
    no_secret(&candidate);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_call_is_reported_alike_for_each_url_source() {
    let (_store, group) = stage().await;
    let receiver = Receiver::start(StatusCode::BAD_GATEWAY).await;
    let (url, folder) = (receiver.url(), tempfile::tempdir().unwrap());
    let file = folder.path().join("tenure.toml");
    std::fs::write(&file, format!("webhook = \"{url}\"\n")).unwrap();
    let group_for =
        |name: &str| Group { election: format!("{}-{name}", group.election), ..group.clone() };
    let mut by_variable = command(&group_for("variable"), "ada", &[]);
    by_variable.env("TENURE_HANDLER_URL", &url);
    let all = [
        command(&group_for("option"), "ada", &["--webhook", &url]),
        command(&group_for("file"), "ada", &["--config", file.to_str().unwrap()]),
        by_variable,
    ];
    for command in all {
        let candidate = Candidate::spawn("ada", command).unwrap();
        let ended = candidate.event("turn-ended", TIMEOUT).await.event;
        let detail =
            "the webhook answered 502, with a text that is not shown, since it repeats the URL";
        assert_eq!(ended["detail"], detail, "{}", candidate.transcript());
        no_secret(&candidate);
    }
}

/// Connection of a call that is never answered.
#[derive(Clone, Default)]
struct UnansweredCall(Arc<OnceLock<std::net::TcpStream>>);

impl UnansweredCall {
    /// Accepts the first call.
    async fn call(&self, listener: &TcpListener) {
        let accepted = tokio::time::timeout(TIMEOUT, listener.accept()).await;
        let mut peer = accepted.expect("it is called").unwrap().0;
        let mut received = String::new();
        while !received.ends_with('}') {
            let mut buffer = [0; 4096];
            let count = peer.read(&mut buffer).await.unwrap();
            assert!(count > 0, "{received}");
            received.push_str(std::str::from_utf8(&buffer[..count]).unwrap());
        }
        self.0.set(peer.into_std().unwrap()).unwrap();
    }

    /// Returns true if the call has ended, and asserts that no more data arrived.
    fn is_cut(&self) -> bool {
        match self.0.get().expect("it was called").peek(&mut [0]) {
            Ok(0) => true,
            Ok(_) => panic!("more was written"),
            Err(error) => error.kind() != ErrorKind::WouldBlock,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_is_cut_off_before_the_lease_is_released() {
    let cut_off = async |leaves: bool| {
        let (_store, mut group) = stage().await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let (call, releases) = (UnansweredCall::default(), watch::Sender::new(Vec::new()));
        let (called, release_tx) = (call.clone(), releases.clone());
        let witness = move |bytes: &[u8]| {
            if String::from_utf8_lossy(bytes).contains("x-ms-lease-action: release") {
                release_tx.send_modify(|all| all.push(called.is_cut()));
            }
        };
        let connection_string = group.connection_string.clone();
        let (proxy, proxy_connection_string) =
            Proxy::for_store_with_witness(&connection_string, witness).await.unwrap();
        group.access = Access::from_connection_string(proxy_connection_string);
        let mut candidate = start(&group, "ada", &["--webhook", &url]);
        call.call(&listener).await;
        assert!(!call.is_cut());
        match leaves {
            true => candidate.signal(Signal::TERM).unwrap(),
            false => proxy.set_mode(Mode::Drop),
        }
        let ended = candidate.event("turn-ended", TIMEOUT).await;
        assert_eq!(ended.event["outcome"], "cut-off", "{}", candidate.transcript());
        let mut release_rx = releases.subscribe();
        let sent = release_rx.wait_for(|all| !all.is_empty());
        let cut = tokio::time::timeout(TIMEOUT, sent).await.expect("it releases").unwrap().clone();
        assert!(cut.iter().all(|cut| *cut), "cut at each release: {cut:?}");
        if leaves {
            assert!(candidate.end(TIMEOUT).await.unwrap().success(), "{}", candidate.transcript());
        }
    };
    tokio::join!(cut_off(true), cut_off(false));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn call_timeout_fails_turn_and_turn_timeout_ends_leadership() {
    let (_store, mut group) = stage().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let candidate = start(&group, "ada", &["--webhook", &url, "--webhook-timeout", "300ms"]);
    let ended = candidate.event("turn-ended", TIMEOUT).await.event;
    assert_eq!(ended["outcome"], "failed");
    assert_eq!(ended["detail"], "the webhook did not answer within 300 ms");
    group.election.push_str("-2");
    let candidate = start(&group, "ben", &["--webhook", &url, "--turn-timeout", "300ms"]);
    assert_eq!(candidate.event("turn-ended", TIMEOUT).await.event["outcome"], "timed-out");
    assert_eq!(candidate.event("stood-down", TIMEOUT).await.event["reason"], "work-failed");
}

/// Runs the program, which must fail, against a store that must receive no connection.
fn run_refused(arguments: &[&str], variables: &[(&str, &str)]) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let store =
        format!("AccountName=a;AccountKey=c2VjcmV0LWtleQ==;BlobEndpoint=http://{address}/a");
    let mut command = Command::new(PROGRAM);
    command
        .args(["run", "jobs/a"])
        .args(arguments)
        .envs(variables.iter().copied())
        .env("AZURE_STORAGE_CONNECTION_STRING", store);
    let (status, message) = run_to_end(command);
    assert_eq!(status.code(), Some(2), "{message}");
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    assert!(!message.contains(SECRET), "{message}");
    message
}

/// Runs a command that should end at once, and returns its exit status and output.
#[tokio::main(flavor = "current_thread")]
async fn run_to_end(mut command: Command) -> (ExitStatus, String) {
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output();
    let output = tokio::time::timeout(TIMEOUT, output).await.expect("it ends").unwrap();
    (output.status, String::from_utf8(output.stderr).unwrap())
}

/// Returns a valid URL with a secret.
fn secret_url() -> String {
    format!("https://example.com/{SECRET}?code={SECRET}")
}

#[test]
fn kinds_of_work_exclude_each_other() {
    let (timer, url) = (["--every", "5s"], secret_url());
    let all = [&timer[..], &["--webhook", &url, "--handler", BEAT_HANDLER, "--", "true"]].concat();
    let message = run_refused(&all, &[]);
    let problem =
        "--handler, --webhook, -- COMMAND\n    a component and a webhook and a command are given";
    assert!(message.contains(problem), "{message}");
    let all = [&timer[..], &["--handler", BEAT_HANDLER]].concat();
    let message = run_refused(&all, &[("TENURE_HANDLER_URL", &url)]);
    let problem = "--handler, TENURE_HANDLER_URL\n    a component and a webhook are given";
    assert!(message.contains(problem), "{message}");
    assert!(run_refused(&timer, &[]).contains("--webhook"));
}

#[test]
fn webhook_rejects_while_leading() {
    let message = run_refused(&["--while-leading", "--webhook", &secret_url()], &[]);
    assert!(
        message.contains("--while-leading\n    a webhook is one call for each turn"),
        "{message}"
    );
    let message = run_refused(&["--webhook", &secret_url()], &[("TENURE_WHILE_LEADING", "true")]);
    assert!(message.contains("a webhook is one call for each turn"), "{message}");
}

#[test]
fn options_of_other_kind_of_work_are_rejected() {
    let url = secret_url();
    let wrong_options = [
        ["--allow-host", "a", "a component"],
        ["--env", "A=b", "a component or a command"],
        ["--memory-limit", "1GiB", "a component"],
        ["--stop-time", "3s", "a command"],
    ];
    let options = wrong_options.each_ref().map(|[option, value, _]| [*option, *value]);
    let all = [&["--every", "5s", "--webhook", &url][..], options.as_flattened()].concat();
    let message = run_refused(&all, &[]);
    for [flag, _, work_kinds] in wrong_options {
        let problem = format!("{flag}\n    this is for {work_kinds}; a webhook is one request");
        assert!(message.contains(&problem), "{flag}: {message}");
    }
    for work in [&["--handler", BEAT_HANDLER][..], &["--", "true"]] {
        let all = [&["--every", "5s", "--webhook-timeout", "3s"][..], work].concat();
        let message = run_refused(&all, &[]);
        assert!(message.contains("--webhook-timeout\n    this is for a webhook"), "{message}");
    }
}

#[test]
fn all_webhook_mistakes_are_reported_without_url() {
    let bad_url = format!("https://user:{SECRET}@example.com/{SECRET}");
    let extra_args = ["--every", "5s", "--webhook-timeout", "soon"];
    let message = run_refused(&[&["--webhook", &bad_url][..], &extra_args].concat(), &[]);
    for problem in [
        "--webhook\n    has a user or password (a part before @)",
        "--webhook-timeout soon\n    is not a duration",
    ] {
        assert!(message.contains(problem), "{problem}: {message}");
    }
    for (url, problem) in [
        (format!("ftp://{SECRET}"), "does not begin with http:// or https://"),
        (format!("http://1.2.3.4.5/{SECRET}"), "names a host that is neither a name nor"),
        (format!("http://a/ {SECRET}"), "has characters that need percent-encoding"),
        (" ".to_owned(), "--webhook\n    the value is empty"),
    ] {
        let message = run_refused(&["--every", "5s", "--webhook", &url], &[]);
        assert!(message.contains(problem), "{message}");
    }
    let message = run_refused(&["--every", "5s"], &[("TENURE_HANDLER_URL", &bad_url)]);
    assert!(message.contains("TENURE_HANDLER_URL\n    has a user or password"), "{message}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn call_names_its_share() {
    let (_store, group) = stage().await;
    let receiver = Receiver::start(StatusCode::OK).await;
    let _ada = start(&group, "ada", &["--webhook", &receiver.url(), "--shares", "3"]);
    let (mut count, mut share_elections) = (0, BTreeSet::new());
    while share_elections.len() < 3 {
        let calls = receiver.calls(count + 1).await;
        count = calls.len();
        for (_, turn) in calls {
            let share = &turn["share"];
            assert_eq!(share["count"], 3, "{turn}");
            let share_election = format!("{}.share.1.{}-of-3", group.election, share["index"]);
            assert_eq!(turn["election"], share_election, "{turn}");
            share_elections.insert(share_election);
        }
    }
}
