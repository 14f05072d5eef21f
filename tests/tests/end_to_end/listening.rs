//! HTTP endpoints of a candidate, as a real process.

use crate::PROGRAM;
use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use tenure_store::sas::Scope;
use tenure_tests::credential::with_sas;
use tenure_tests::{Access, BEAT_HANDLER, Candidate, Group, Sink, Store};

const TIMEOUT: Duration = tenure_tests::PATIENCE;

const LISTEN: [&str; 2] = ["--listen", "127.0.0.1:0"];

/// Returns the address that it reports.
async fn address(candidate: &Candidate) -> String {
    let listens = |line: &tenure_tests::Line| {
        line.name() == "note" && line.event["detail"].as_str().unwrap().starts_with("listening on ")
    };
    let line = candidate.line("address", 0, TIMEOUT, listens).await;
    line.event["detail"].as_str().unwrap().trim_start_matches("listening on ").to_owned()
}

async fn get(url: String) -> (u16, String) {
    // reqwest is built without a default crypto provider. A second call has no effect.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none());
    let client = client.build().unwrap();
    let answer = client.get(url).send().await.unwrap();
    (answer.status().as_u16(), answer.text().await.unwrap())
}

/// Polls until the response has this status.
async fn poll_until_status(url: &str, status: u16) -> String {
    let polling = async {
        loop {
            let (actual, body) = get(url.to_owned()).await;
            if actual == status {
                return body;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, polling).await.unwrap_or_else(|_| panic!("{url}: never {status}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn listeners_show_leader_and_unreachable_store() {
    let (store, sink) = (Store::embedded().await.unwrap(), Sink::start().await.unwrap());
    let group = Group::new(PROGRAM, &store, &sink);
    group.warm_up().await.unwrap();
    let mut args = LISTEN.to_vec();
    args.extend(["--address", "http://leader.example:8080/"]);
    let mut leader = group.start("ada", &args).unwrap();
    let term = leader.event("elected", TIMEOUT).await.term();
    let mut follower = group.start("ben", &LISTEN).unwrap();
    follower.event("following", TIMEOUT).await;
    let (first, second) = (address(&leader).await, address(&follower).await);

    poll_until_status(&format!("{first}/readyz?leader"), 200).await;
    poll_until_status(&format!("{second}/readyz"), 200).await;
    assert_eq!(get(format!("{second}/readyz?leader")).await.0, 503);
    assert_eq!(get(format!("{second}/leader?redirect")).await.0, 307);
    let leader_json: Value =
        serde_json::from_str(&get(format!("{second}/leader")).await.1).unwrap();
    assert_eq!(
        (&leader_json["leader"]["name"], &leader_json["leader"]["term"]),
        (&"ada".into(), &term.into())
    );
    let (_, metrics) = get(format!("{first}/metrics")).await;
    assert!(metrics.contains(&format!("candidate=\"ada\"}} {term}\n")), "{metrics}");

    let stopped = store.stop().await.unwrap();
    let reason = poll_until_status(&format!("{second}/readyz"), 503).await;
    assert!(reason.contains("unreachable"), "{reason}");
    let store = stopped.start().await.unwrap();
    poll_until_status(&format!("{second}/readyz"), 200).await;
    leader.terminate(TIMEOUT).await.unwrap();
    poll_until_status(&format!("{second}/readyz?leader"), 200).await;
    let history: Value = serde_json::from_str(&get(format!("{second}/history")).await.1).unwrap();
    let events: Vec<&str> = history["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["event"].as_str().unwrap())
        .collect();
    assert_eq!((events.first(), events.last()), (Some(&"following"), Some(&"elected")));
    follower.terminate(TIMEOUT).await.unwrap();
    drop(store);
}

/// The handler is a pipe: until a process writes to it, it takes as long to load as a large
/// component to compile.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn listener_answers_while_components_compile() {
    let (store, sink) = (Store::embedded().await.unwrap(), Sink::start().await.unwrap());
    let group = Group::new(PROGRAM, &store, &sink);
    group.warm_up().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("slow.wasm");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut ada = group.start_with("ada", &group.access, &pipe, &LISTEN).unwrap();
    let is_about = |name: &'static str| {
        let pipe = pipe.to_str().unwrap().to_owned();
        move |line: &tenure_tests::Line| line.name() == name && line.event["component"] == *pipe
    };
    let compiling = ada.line("compiling", 0, TIMEOUT, is_about("compiling")).await;
    assert_eq!(compiling.event["level"], "info");
    let url = address(&ada).await;
    poll_until_status(&format!("{url}/healthz"), 200).await;
    poll_until_status(&format!("{url}/readyz"), 503).await;
    assert_eq!(ada.count("compiled"), 0, "{}", ada.transcript());
    let (handler, to) = (std::fs::read(BEAT_HANDLER).unwrap(), pipe.clone());
    tokio::task::spawn_blocking(move || std::fs::write(to, handler)).await.unwrap().unwrap();
    let compiled = ada.line("compiled", 0, TIMEOUT, is_about("compiled")).await;
    assert!(compiled.event["elapsed_ms"].as_u64().unwrap() > 0);
    ada.event("elected", TIMEOUT).await;
    assert!(ada.terminate(TIMEOUT).await.unwrap().success());
    // A candidate that receives SIGTERM meanwhile ends.
    let mut ben = group.start_with("ben", &group.access, &pipe, &LISTEN).unwrap();
    ben.line("compiling", 0, TIMEOUT, is_about("compiling")).await;
    assert!(ben.terminate(TIMEOUT).await.unwrap().success(), "{}", ben.transcript());
    assert_eq!(ben.count("compiled"), 0, "{}", ben.transcript());
}

/// The process that holds the lease also needs descriptors now and then.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_connections_do_not_disturb_the_leader() {
    use rustix::process::{Resource, Rlimit, prlimit};
    let (store, sink) = (Store::embedded().await.unwrap(), Sink::start().await.unwrap());
    let group = Group::new(PROGRAM, &store, &sink);
    group.warm_up().await.unwrap();
    // Tolerates a machine that stalls for a while.
    let timings = ["--lease", "60s", "--request-timeout", "15s"];
    let mut leader = group.start("ada", &[&LISTEN[..], &timings].concat()).unwrap();
    leader.event("elected", TIMEOUT).await;
    let limit = Rlimit { current: Some(200), maximum: Some(200) };
    prlimit(Some(leader.runner().unwrap()), Resource::Nofile, limit).unwrap();
    let url = address(&leader).await;
    let host = url.trim_start_matches("http://").to_owned();
    let host = host.trim_end_matches('/');
    let mut idle_streams = Vec::new();
    for _ in 0..300 {
        let mut stream = TcpStream::connect(host).unwrap();
        stream.write_all(b"GET /healthz HT").unwrap();
        idle_streams.push(stream);
    }
    // Longer than one validity.
    let validity_passed = Instant::now() + Duration::from_secs(50);
    let late = leader.line("turn", 0, 3 * TIMEOUT, |line| {
        line.name() == "turn-ended" && line.at >= validity_passed
    });
    assert_eq!(late.await.event["outcome"], "succeeded", "{}", leader.transcript());
    assert_eq!(leader.count("problem"), 0, "{}", leader.transcript());
    poll_until_status(&format!("{url}/healthz"), 200).await;
    assert_eq!(leader.count("elected"), 1, "{}", leader.transcript());
    leader.terminate(TIMEOUT).await.unwrap();
}

#[test]
fn port_in_use_is_reported_before_any_request() {
    let occupied = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = occupied.local_addr().unwrap().to_string();
    for (listen, expected) in
        [(address.as_str(), "cannot be listened on"), ("8080", "not an address")]
    {
        let output = Command::new(PROGRAM)
            .args(["run", "jobs/report", "--every", "1h"])
            .args(["--handler", BEAT_HANDLER, "--listen", listen])
            .env("AZURE_STORAGE_CONNECTION_STRING", "UseDevelopmentStorage=true")
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(
            stderr.contains(&format!("--listen {listen}")) && stderr.contains(expected),
            "{stderr}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn share_problems_are_counted_in_metrics() {
    let (store, sink) = (Store::embedded().await.unwrap(), Sink::start().await.unwrap());
    let mut group = Group::new(PROGRAM, &store, &sink);
    group.warm_up().await.unwrap();
    group.outsider().create_container().await.unwrap();
    // Permits an election, but not a list of the other candidates.
    let container = Scope::Container(group.election.split_once('/').unwrap().0.to_owned());
    group.access =
        Access::from_connection_string(with_sas(&store.connection_string(), container, "rcwd"));
    let member = group.start("ada", &[&LISTEN[..], &["--shares", "2"]].concat()).unwrap();
    let is_list_problem = |line: &tenure_tests::Line| {
        line.event["detail"].as_str().is_some_and(|detail| detail.contains("list blobs"))
    };
    member.line("problem", 0, TIMEOUT, is_list_problem).await;
    let base_url = address(&member).await;
    let (_, metrics) = get(format!("{base_url}/metrics")).await;
    let election = &group.election;
    let series = format!(
        "tenure_problems_total{{election=\"{election}\",candidate=\"ada\",class=\"refused\"}} "
    );
    let counted = metrics.lines().find_map(|line| line.strip_prefix(&series)).unwrap();
    assert_ne!(counted, "0", "{metrics}");
}
