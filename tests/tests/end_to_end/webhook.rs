//! Real `tenure run` processes whose work is a webhook: what arrives there, how turns end, and that a call
//! is cut off before the lease is released.

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

/// For what has no bound of its own, on a busy machine.
const SOON: Duration = tenure_tests::PATIENCE;

/// A part of the URL that must not be seen.
const SECRET: &str = "TGVha2VkUGF0aA";

/// One call: the headers and the turn.
type Call = (HeaderMap, Value);

/// All calls, and how many there are.
type Calls = Arc<(Mutex<Vec<Call>>, watch::Sender<usize>)>;

/// Takes every call, and says where to it was when it is to fail.
struct Receiver {
    port: u16,
    calls: Calls,
}

impl Receiver {
    async fn start(status: StatusCode) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let calls: Calls = Arc::new((Mutex::default(), watch::Sender::new(0)));
        let take =
            async move |State(calls): State<Calls>, uri: Uri, headers: HeaderMap, body: Bytes| {
                let turn = serde_json::from_slice(&body).unwrap();
                let mut all = calls.0.lock().unwrap();
                all.push((headers, turn));
                calls.1.send_replace(all.len());
                (status, format!("nothing is done at {uri}"))
            };
        let app = Router::new().fallback(post(take)).with_state(Arc::clone(&calls));
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { port, calls }
    }

    fn url(&self) -> String {
        format!("http://localhost:{}/hooks/{SECRET}?code={SECRET}", self.port)
    }

    /// Waits for so many calls, and tells all that came.
    async fn calls(&self, count: usize) -> Vec<Call> {
        let mut counts = self.calls.1.subscribe();
        let arrived = counts.wait_for(|arrived| *arrived >= count);
        tokio::time::timeout(SOON, arrived).await.expect("it is called").unwrap();
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

fn command(group: &Group, name: &str, more: &[&str]) -> Command {
    let mut command = Command::new(&group.program);
    command
        .args(["run", "--log", "json", "--log-level", "debug", &group.election, "--name", name])
        .args(group.timer)
        .args(more);
    group.access.give(&mut command);
    command
}

fn start(group: &Group, name: &str, more: &[&str]) -> Candidate {
    Candidate::spawn(name, command(group, name, more)).unwrap()
}

fn no_secret(candidate: &Candidate) {
    let told = candidate.transcript();
    assert!(!told.contains(SECRET) && !told.contains("/hooks"), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_slot_is_called_once_and_terms_rise() {
    let (_store, group) = stage().await;
    let receiver = Receiver::start(StatusCode::OK).await;
    let mut ada = start(&group, "ada", &["--webhook", &receiver.url()]);
    ada.event("elected", SOON).await;
    let mut ben = command(&group, "ben", &[]);
    ben.env("TENURE_HANDLER_URL", receiver.url());
    let mut ben = Candidate::spawn("ben", ben).unwrap();
    ben.event("following", SOON).await;
    receiver.calls(2).await;
    assert!(ada.terminate(SOON).await.unwrap().success(), "{}", ada.transcript());
    let seen = receiver.calls(2).await.len();
    receiver.calls(seen + 2).await;
    assert!(ben.terminate(SOON).await.unwrap().success(), "{}", ben.transcript());

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
async fn turns_of_two_elections_on_one_url_are_never_taken_for_one_another() {
    let (_store, group) = stage().await;
    let receiver = Receiver::start(StatusCode::OK).await;
    let (url, folder) = (receiver.url(), tempfile::tempdir().unwrap());
    let file = folder.path().join("tenure.toml");
    let election = |name| {
        let election = format!("{}-{name}", group.election);
        format!("[[election]]\nelection = \"{election}\"\nwebhook = \"{url}\"\n")
    };
    // So seldom that both have the same slots.
    let content = format!("log = \"json\"\nevery = \"2s\"\n{}{}", election("a"), election("b"));
    std::fs::write(&file, content).unwrap();
    let mut command = Command::new(&group.program);
    command.arg("run").arg("--config").arg(&file);
    group.access.give(&mut command);
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
    let stood_down = candidate.event("stood-down", SOON).await;
    assert_eq!(stood_down.event["reason"], "work-failed");
    assert_eq!(candidate.count("turn-ended"), 2, "{}", candidate.transcript());
    let ended = candidate.event("turn-ended", SOON).await.event;
    assert_eq!(ended["outcome"], "failed");
    // The answer quotes the URL.
    let detail =
        "the webhook answered 502, with a text that is not shown, since it repeats the URL";
    assert_eq!(ended["detail"], detail);
    assert_eq!(receiver.calls(2).await.len(), 2);
    no_secret(&candidate);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_fails_is_told_in_the_same_words_whatever_named_the_url() {
    let (_store, group) = stage().await;
    let receiver = Receiver::start(StatusCode::BAD_GATEWAY).await;
    let (url, folder) = (receiver.url(), tempfile::tempdir().unwrap());
    let file = folder.path().join("tenure.toml");
    std::fs::write(&file, format!("webhook = \"{url}\"\n")).unwrap();
    let of = |name: &str| Group { election: format!("{}-{name}", group.election), ..group.clone() };
    let mut by_variable = command(&of("variable"), "ada", &[]);
    by_variable.env("TENURE_HANDLER_URL", &url);
    let all = [
        command(&of("option"), "ada", &["--webhook", &url]),
        command(&of("file"), "ada", &["--config", file.to_str().unwrap()]),
        by_variable,
    ];
    for command in all {
        let candidate = Candidate::spawn("ada", command).unwrap();
        let ended = candidate.event("turn-ended", SOON).await.event;
        let detail =
            "the webhook answered 502, with a text that is not shown, since it repeats the URL";
        assert_eq!(ended["detail"], detail, "{}", candidate.transcript());
        no_secret(&candidate);
    }
}

/// A call that is never answered: the connection, as it is at the moment.
#[derive(Clone, Default)]
struct Unanswered(Arc<OnceLock<std::net::TcpStream>>);

impl Unanswered {
    /// Takes the first call.
    async fn call(&self, listener: &TcpListener) {
        let accepted = tokio::time::timeout(SOON, listener.accept()).await;
        let mut peer = accepted.expect("it is called").unwrap().0;
        let mut heard = String::new();
        while !heard.ends_with('}') {
            let mut some = [0; 4096];
            let count = peer.read(&mut some).await.unwrap();
            assert!(count > 0, "{heard}");
            heard.push_str(std::str::from_utf8(&some[..count]).unwrap());
        }
        self.0.set(peer.into_std().unwrap()).unwrap();
    }

    /// Whether nothing more can come of the call. Nothing more has come either.
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
        let (call, releases) = (Unanswered::default(), watch::Sender::new(Vec::new()));
        let (called, seen) = (call.clone(), releases.clone());
        let witness = move |bytes: &[u8]| {
            if String::from_utf8_lossy(bytes).contains("x-ms-lease-action: release") {
                seen.send_modify(|all| all.push(called.is_cut()));
            }
        };
        let known = group.connection_string.clone();
        let (proxy, through) = Proxy::of_store_with(&known, witness).await.unwrap();
        group.access = Access::with(through);
        let mut candidate = start(&group, "ada", &["--webhook", &url]);
        call.call(&listener).await;
        assert!(!call.is_cut());
        match leaves {
            true => candidate.signal(Signal::TERM).unwrap(),
            false => proxy.set(Mode::Drop),
        }
        let ended = candidate.event("turn-ended", SOON).await;
        assert_eq!(ended.event["outcome"], "cut-off", "{}", candidate.transcript());
        let mut seen = releases.subscribe();
        let sent = seen.wait_for(|all| !all.is_empty());
        let cut = tokio::time::timeout(SOON, sent).await.expect("it releases").unwrap().clone();
        assert!(cut.iter().all(|cut| *cut), "cut at each release: {cut:?}");
        if leaves {
            assert!(candidate.end(SOON).await.unwrap().success(), "{}", candidate.transcript());
        }
    };
    tokio::join!(cut_off(true), cut_off(false));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_takes_too_long_fails_its_turn_and_a_turn_that_does_ends_the_leadership() {
    let (_store, mut group) = stage().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let candidate = start(&group, "ada", &["--webhook", &url, "--webhook-timeout", "300ms"]);
    let ended = candidate.event("turn-ended", SOON).await.event;
    assert_eq!(ended["outcome"], "failed");
    assert_eq!(ended["detail"], "the webhook did not answer within 300 ms");
    group.election.push_str("-2");
    let candidate = start(&group, "ben", &["--webhook", &url, "--turn-timeout", "300ms"]);
    assert_eq!(candidate.event("turn-ended", SOON).await.event["outcome"], "timed-out");
    assert_eq!(candidate.event("stood-down", SOON).await.event["reason"], "work-failed");
}

/// Runs the program against a store that must not be spoken to.
fn refused(arguments: &[&str], variables: &[(&str, &str)]) -> String {
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
    let (status, said) = ended(command);
    assert_eq!(status.code(), Some(2), "{said}");
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    assert!(!said.contains(SECRET), "{said}");
    said
}

/// How a command ends that should do so at once, and what it said.
#[tokio::main(flavor = "current_thread")]
async fn ended(mut command: Command) -> (ExitStatus, String) {
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output();
    let output = tokio::time::timeout(SOON, output).await.expect("it ends").unwrap();
    (output.status, String::from_utf8(output.stderr).unwrap())
}

/// A good URL with a secret.
fn good() -> String {
    format!("https://example.com/{SECRET}?code={SECRET}")
}

#[test]
fn a_leader_has_one_work() {
    let (timer, url) = (["--every", "5s"], good());
    let all = [&timer[..], &["--webhook", &url, "--handler", BEAT_HANDLER, "--", "true"]].concat();
    let said = refused(&all, &[]);
    let problem =
        "--handler, --webhook, -- COMMAND\n    a component and a webhook and a command are given";
    assert!(said.contains(problem), "{said}");
    let all = [&timer[..], &["--handler", BEAT_HANDLER]].concat();
    let said = refused(&all, &[("TENURE_HANDLER_URL", &url)]);
    let problem = "--handler, TENURE_HANDLER_URL\n    a component and a webhook are given";
    assert!(said.contains(problem), "{said}");
    assert!(refused(&timer, &[]).contains("--webhook"));
}

#[test]
fn a_webhook_is_no_work_that_lasts() {
    let said = refused(&["--while-leading", "--webhook", &good()], &[]);
    assert!(said.contains("--while-leading\n    a webhook is one call for each turn"), "{said}");
    let said = refused(&["--webhook", &good()], &[("TENURE_WHILE_LEADING", "true")]);
    assert!(said.contains("a webhook is one call for each turn"), "{said}");
}

#[test]
fn what_makes_no_sense_for_the_kind_of_work_is_told() {
    let url = good();
    let given = [
        ["--allow-host", "a", "a component"],
        ["--env", "A=b", "a component or a command"],
        ["--memory-limit", "1GiB", "a component"],
        ["--stop-time", "3s", "a command"],
    ];
    let options = given.each_ref().map(|[option, value, _]| [*option, *value]);
    let all = [&["--every", "5s", "--webhook", &url][..], options.as_flattened()].concat();
    let said = refused(&all, &[]);
    for [flag, _, works] in given {
        let problem = format!("{flag}\n    this is for {works}; a webhook is one request");
        assert!(said.contains(&problem), "{flag}: {said}");
    }
    for work in [&["--handler", BEAT_HANDLER][..], &["--", "true"]] {
        let all = [&["--every", "5s", "--webhook-timeout", "3s"][..], work].concat();
        let said = refused(&all, &[]);
        assert!(said.contains("--webhook-timeout\n    this is for a webhook"), "{said}");
    }
}

#[test]
fn what_is_wrong_is_told_all_at_once_and_without_the_url() {
    let bad = format!("https://user:{SECRET}@example.com/{SECRET}");
    let more = ["--every", "5s", "--webhook-timeout", "soon"];
    let said = refused(&[&["--webhook", &bad][..], &more].concat(), &[]);
    for problem in [
        "--webhook\n    has a user or password (a part before @)",
        "--webhook-timeout soon\n    is not a duration",
    ] {
        assert!(said.contains(problem), "{problem}: {said}");
    }
    for (url, problem) in [
        (format!("ftp://{SECRET}"), "does not begin with http:// or https://"),
        (format!("http://1.2.3.4.5/{SECRET}"), "names a host that is neither a name nor"),
        (format!("http://a/ {SECRET}"), "has characters that need percent-encoding"),
        (" ".to_owned(), "--webhook\n    the value is empty"),
    ] {
        let said = refused(&["--every", "5s", "--webhook", &url], &[]);
        assert!(said.contains(problem), "{said}");
    }
    let said = refused(&["--every", "5s"], &[("TENURE_HANDLER_URL", &bad)]);
    assert!(said.contains("TENURE_HANDLER_URL\n    has a user or password"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_for_a_share_says_which() {
    let (_store, group) = stage().await;
    let receiver = Receiver::start(StatusCode::OK).await;
    let _ada = start(&group, "ada", &["--webhook", &receiver.url(), "--shares", "3"]);
    let (mut count, mut seen) = (0, BTreeSet::new());
    while seen.len() < 3 {
        let calls = receiver.calls(count + 1).await;
        count = calls.len();
        for (_, turn) in calls {
            let share = &turn["share"];
            assert_eq!(share["count"], 3, "{turn}");
            let own = format!("{}.share.1.{}-of-3", group.election, share["index"]);
            assert_eq!(turn["election"], own, "{turn}");
            seen.insert(own);
        }
    }
}
