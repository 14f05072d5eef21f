//! Applications in other languages (`examples/sidecar`) that read `/watch` of their sidecar.

use std::time::{Duration, Instant, SystemTime};

use chrono::{DateTime, Utc};
use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};
use tenure_tests::reports::Report;
use tenure_tests::{Candidate, Reports, Store, needs, reserve_port, tools};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;
use tokio::task::spawn_blocking;
use tokio::time::{sleep_until, timeout};

use crate::PROGRAM;

const TIMEOUT: Duration = tenure_tests::PATIENCE;

/// Duration of a permission that does not end within the test.
const LONG: Duration = tenure_tests::PATIENCE.saturating_mul(2);

/// Duration of a permission that ends within the test.
const SHORT: Duration = Duration::from_secs(5);

/// Language of an example.
#[derive(Clone, Copy, Debug)]
enum Language {
    Node,
    Python,
    Java,
    Go,
}

impl Language {
    /// Returns the command that starts the example, as its README has it.
    fn documented_command(self) -> &'static str {
        match self {
            Self::Node => "node poller.mjs",
            Self::Python => "python3 poller.py",
            Self::Java => "java Poller.java",
            Self::Go => "go run poller.go",
        }
    }

    /// Starts the example.
    async fn start(self, name: &str, watch_url: &str, reports: &Reports) -> Candidate {
        let folder = tools::repository().join("examples/sidecar");
        let readme = std::fs::read_to_string(folder.join("README.md")).unwrap();
        let documented = self.documented_command();
        assert!(readme.contains(&format!("`{documented}`")), "{documented}");
        let mut command = match self {
            // `go run` is a parent that does not end its child.
            Self::Go => Command::new(spawn_blocking(built_go_example).await.unwrap()),
            _ => {
                let (program, argument) = documented.split_once(' ').unwrap();
                let mut command = Command::new(program);
                command.arg(argument);
                command
            }
        };
        command.current_dir(folder);
        command.env("WATCH_URL", watch_url).env("REPORT_URL", reports.url());
        Candidate::spawn(name, command).unwrap()
    }
}

fn built_go_example() -> std::path::PathBuf {
    let source = "examples/sidecar/poller.go";
    let folder = tools::build_if_changed("sidecar-go", &[source], |folder| {
        let mut go = std::process::Command::new("go");
        go.args(["build", "-o"]).arg(folder).arg(tools::repository().join(source));
        tools::run_command(go.current_dir(folder)).map(drop)
    });
    folder.unwrap().join("poller")
}

/// Waits for the first report that `matches`.
async fn wait_for_report(reports: &Reports, matches: impl Fn(&Report) -> bool) -> Report {
    let mut read = 0;
    loop {
        let all = reports.wait_for(read + 1, TIMEOUT).await;
        if let Some(report) = all[read..].iter().find(|report| matches(report)) {
            return report.clone();
        }
        read = all.len();
    }
}

async fn wait_for_term(reports: &Reports, term: u64) {
    wait_for_report(reports, |report| term_of(report) == term).await;
}

fn term_of(report: &Report) -> u64 {
    report.term.as_ref().expect("a term").parse().unwrap()
}

/// Starts a sidecar whose timings leave room for a machine that stalls.
fn start_sidecar(store: &Store, election: &str, name: &str, address: &str) -> Candidate {
    let mut command = Command::new(PROGRAM);
    command
        .args(["run", "--log", "json", election, "--no-work", "--name", name, "--listen", address])
        .args(["--poll", "1s", "--lease", "25s", "--margin", "10s"])
        .env("AZURE_STORAGE_CONNECTION_STRING", store.connection_string());
    Candidate::spawn(name, command).unwrap()
}

/// Runs two applications with sidecars. The first sidecar is killed while it leads, and started
/// again; then the second one is stopped.
async fn acts_on_the_leader_only(language: Language) {
    let (store, reports) = (Store::embedded().await.unwrap(), Reports::start().await.unwrap());
    let election = format!("tenure-test-{}/leader", uuid::Uuid::new_v4().simple());
    let [ada_address, ben_address] = [(); 2].map(|()| reserve_port().unwrap().to_string());
    let from = |name: &'static str| move |report: &Report| report.json["candidate"] == name;
    let start = async |address: &str| {
        language.start("application", &format!("http://{address}/watch"), &reports).await
    };

    let mut ada = start_sidecar(&store, &election, "ada", &ada_address);
    let mut applications = vec![start(&ada_address).await];
    let first = term_of(&wait_for_report(&reports, from("ada")).await);
    let mut ben = start_sidecar(&store, &election, "ben", &ben_address);
    ben.event("following", TIMEOUT).await;
    applications.push(start(&ben_address).await);

    kill_process(ada.runner().unwrap(), Signal::KILL).unwrap();
    ada.end(TIMEOUT).await.unwrap();
    let second = term_of(&wait_for_report(&reports, from("ben")).await);

    let ada = start_sidecar(&store, &election, "ada", &ada_address);
    ada.event("following", TIMEOUT).await;
    ben.terminate(TIMEOUT).await.unwrap();
    let is_of_ada_again = |report: &Report| from("ada")(report) && term_of(report) > second;
    let third = term_of(&wait_for_report(&reports, is_of_ada_again).await);

    for application in &mut applications {
        assert!(application.is_alive(), "{}", application.transcript());
        let code = application.terminate(TIMEOUT).await.unwrap().code();
        // 143 is what Java makes of SIGTERM.
        assert!(matches!(code, Some(0 | 143)), "{code:?}: {}", application.transcript());
    }
    let all = reports.all();
    assert!(all.iter().all(|report| report.election.as_deref() == Some(election.as_str())));
    let mut terms: Vec<_> = all.iter().map(term_of).collect();
    terms.dedup();
    assert_eq!(terms, [first, second, third], "a former leader's application acted");
}

/// Fake sidecar. The test decides what each connection of the application receives.
struct FakeSidecar(TcpListener);

impl FakeSidecar {
    /// Waits for the application's next connection, and starts to answer its request.
    async fn open(&self) -> Stream {
        let mut stream = timeout(TIMEOUT, self.0.accept()).await.unwrap().unwrap().0;
        let mut request = vec![0; 4096];
        let length = stream.read(&mut request).await.unwrap();
        let request = String::from_utf8_lossy(&request[..length]);
        assert!(request.starts_with("GET /watch HTTP/1.1\r\n"), "{request}");
        Stream(stream)
    }

    /// Answers the next `count` requests with an event and the end of the stream.
    async fn send(&self, count: usize, event: &Value) {
        for _ in 0..count {
            let mut stream = self.open().await;
            stream.begin().await;
            stream.send(event).await;
        }
    }
}

struct Stream(TcpStream);

impl Stream {
    async fn write(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).await.unwrap();
    }

    async fn begin(&mut self) {
        self.write("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n").await;
    }

    async fn send(&mut self, event: &Value) {
        self.write(&format!("data: {event}\n\n")).await;
    }
}

/// Returns the event of a leader, whose two ends may contradict each other.
fn leading(term: u64, valid_for: Duration, valid_until: SystemTime) -> Value {
    let valid_for_ms = u64::try_from(valid_for.as_millis()).unwrap();
    json!({
        "version": 1, "election": "jobs/poller", "candidate": "ada", "leading": true,
        "leader": { "name": "}\"ada", "term": term }, "valid_for_ms": valid_for_ms,
        "valid_until": DateTime::<Utc>::from(valid_until).to_rfc3339(), "handing_over_to": null,
        "ended": null, "last_turn": { "slot": "2026-11-20T08:37:00Z", "term": 99 },
    })
}

fn leading_for(term: u64, valid_for: Duration) -> Value {
    leading(term, valid_for, SystemTime::now() + valid_for)
}

fn following() -> Value {
    json!({
        "version": 1, "election": "jobs/poller", "candidate": "ada", "leading": false,
        "leader": { "name": "ben", "term": 99 }, "valid_for_ms": null, "valid_until": null,
        "handing_over_to": null, "ended": { "term": 98, "reason": "left", "released": true },
    })
}

/// Sends the application events that it must not obey, streams that end, break, are silent or
/// refused, and a permission that ends while the application is suspended.
async fn acts_only_within_its_permission(language: Language) {
    let reports = Reports::start().await.unwrap();
    let sidecar = FakeSidecar(TcpListener::bind("127.0.0.1:0").await.unwrap());
    let url = format!("http://{}/watch", sidecar.0.local_addr().unwrap());
    let application = language.start("application", &url, &reports).await;

    // An event that waited for an hour.
    let hour = Duration::from_secs(3600);
    sidecar.send(2, &leading(1, LONG, SystemTime::now() - hour)).await;
    // The wall clock was set back by an hour.
    sidecar.send(2, &leading(2, Duration::ZERO, SystemTime::now() + hour)).await;
    let mut unknown = leading_for(3, LONG);
    unknown["version"] = 2.into();
    sidecar.send(2, &unknown).await;
    let mut refused = sidecar.open().await;
    refused.write("HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n").await;
    drop(refused);

    // A stream that hangs: the permission ends by itself, and the application reconnects.
    let mut hanging = sidecar.open().await;
    hanging.begin().await;
    hanging.send(&leading_for(4, SHORT)).await;
    wait_for_term(&reports, 4).await;
    let mut stream = sidecar.open().await;
    let reconnected_at = Instant::now();
    let last_report_at = reports.all().last().unwrap().received_at;
    // The application waited for 30 s, so this is far from both ends.
    assert!(reconnected_at - last_report_at > 2 * SHORT, "{}", application.transcript());
    drop(hanging);

    // A "no" ends a permission early.
    stream.begin().await;
    stream.send(&leading_for(5, LONG)).await;
    wait_for_term(&reports, 5).await;
    stream.send(&following()).await;
    drop(stream);
    sidecar.send(3, &following()).await;
    let count = reports.all().len();
    sidecar.send(3, &following()).await;
    assert_eq!(reports.all().len(), count, "{}", application.transcript());

    // The permission ends while the application is suspended, and an old event waits for it.
    let mut stream = sidecar.open().await;
    stream.begin().await;
    let (event, ends_at) = (leading_for(6, SHORT), Instant::now() + SHORT);
    stream.send(&event).await;
    wait_for_term(&reports, 6).await;
    application.signal(Signal::STOP).unwrap();
    let old = leading(6, LONG, SystemTime::now());
    stream.send(&old).await;
    drop(stream);
    sleep_until(ends_at.into()).await;
    let count = reports.all().len();
    application.signal(Signal::CONT).unwrap();
    sidecar.send(2, &old).await;

    // An event in two parts: the application has read the first one when it obeys the event before.
    let mut stream = sidecar.open().await;
    assert_eq!(reports.all().len(), count, "{}", application.transcript());
    stream.begin().await;
    let event = format!("data: {}\n\n", leading_for(8, LONG));
    let (first_part, second_part) = event.split_at(event.len() / 2);
    stream.write(&format!(":\n\ndata: {}\n\n{first_part}", leading_for(7, LONG))).await;
    wait_for_term(&reports, 7).await;
    stream.write(second_part).await;
    wait_for_term(&reports, 8).await;
    let mut terms: Vec<_> = reports.all().iter().map(term_of).collect();
    terms.dedup();
    assert_eq!(terms, [4, 5, 6, 7, 8], "{}", application.transcript());
}

async fn assert_example_works(language: Language) {
    tokio::join!(acts_on_the_leader_only(language), acts_only_within_its_permission(language));
}

async fn node_example_works() {
    assert_example_works(Language::Node).await;
}

needs!(Node => async fn node_example_works);

async fn python_example_works() {
    assert_example_works(Language::Python).await;
}

needs!(Python => async fn python_example_works);

async fn java_example_works() {
    assert_example_works(Language::Java).await;
}

needs!(Java => async fn java_example_works);

async fn go_example_works() {
    assert_example_works(Language::Go).await;
}

needs!(Go => async fn go_example_works);
