//! Applications that ask if they may act (`tenure run --no-work`), or for the leader (`tenure
//! observe`). The examples of the documents run unchanged.

use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use chrono::DateTime;
use serde_json::Value;
use tempfile::TempDir;
use tenure_tests::{
    Access, Candidate, Front, Group, Line, Mode, Override, Proxy, Sink, Store, needs,
};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::PROGRAM;

/// Limit of waits without a specific bound, on a busy machine.
const TIMEOUT: Duration = tenure_tests::PATIENCE;

struct Stage {
    store: Store,
    _sink: Sink,
    group: Group,
}

impl Stage {
    async fn new() -> Self {
        let (store, sink) = (Store::embedded().await.unwrap(), Sink::start().await.unwrap());
        let group = Group::new(PROGRAM, &store, &sink);
        group.warm_up().await.unwrap();
        Self { store, _sink: sink, group }
    }

    /// Returns a command for this election with these arguments.
    fn command(
        &self,
        subcommand: &str,
        name: &str,
        access: &Access,
        extra_args: &[&str],
    ) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args([subcommand, "--log", "json", "--name", name, "--listen", "127.0.0.1:0"]);
        command.args([&self.group.election]).args(extra_args);
        access.apply(&mut command);
        command
    }

    /// Starts a candidate whose work is an application's.
    async fn candidate(&self, name: &str, extra_args: &[&str]) -> ListeningProcess {
        self.candidate_with_access(name, &self.group.access, extra_args).await
    }

    async fn candidate_with_access(
        &self,
        name: &str,
        access: &Access,
        extra_args: &[&str],
    ) -> ListeningProcess {
        let args = [&["--no-work", "--poll", "1s"], extra_args].concat();
        ListeningProcess::start(name, self.command("run", name, access, &args)).await
    }

    async fn observer(&self, access: &Access, extra_args: &[&str]) -> ListeningProcess {
        ListeningProcess::start("olga", self.command("observe", "olga", access, extra_args)).await
    }
}

/// A process that serves HTTP.
struct ListeningProcess {
    process: Candidate,
    address: String,
}

impl ListeningProcess {
    async fn start(name: &str, command: Command) -> Self {
        let process = Candidate::spawn(name, command).unwrap();
        let is_listening =
            |line: &Line| line.event["detail"].as_str().unwrap_or("").starts_with("listening");
        let line = process.line("address", 0, TIMEOUT, is_listening).await;
        let at = line.event["detail"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
        Self { process, address: at }
    }

    /// Returns its answer to `/leader`.
    async fn leader_status(&self) -> Value {
        get_leader(&self.address, "").await.1
    }

    /// Waits for the first answer that satisfies `predicate`.
    async fn wait_for_status(&self, predicate: impl Fn(&Value) -> bool) -> Value {
        let polling = async {
            loop {
                let status = self.leader_status().await;
                if predicate(&status) {
                    return status;
                }
                sleep(Duration::from_millis(20)).await;
            }
        };
        let status = timeout(TIMEOUT, polling).await;
        status.unwrap_or_else(|_| panic!("{}", self.process.transcript()))
    }

    /// Waits until it reports that it leads, and returns the term.
    async fn wait_until_leading(&self) -> u64 {
        self.wait_for_status(|status| status["leading"] == true).await["leader"]["term"]
            .as_u64()
            .unwrap()
    }

    /// Waits until it reports this candidate as leader, and returns the term.
    async fn wait_until_following(&self, name: &str) -> u64 {
        let status = self.wait_for_status(|status| status["leader"]["name"] == name).await;
        assert_eq!(status["leading"], false, "{status}");
        assert_eq!((&status["valid_for_ms"], &status["valid_until"]), (&Value::Null, &Value::Null));
        status["leader"]["term"].as_u64().unwrap()
    }
}

/// Returns the status and the body of `/leader`.
async fn get_leader(address: &str, query: &str) -> (u16, Value) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request =
        format!("GET /leader{query} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let body = answer.split("\r\n\r\n").nth(1).unwrap();
    (status, serde_json::from_str(body).unwrap())
}

/// Reader of a process's `/watch`.
struct Stream(BufReader<TcpStream>);

impl Stream {
    async fn open(candidate: &ListeningProcess) -> Self {
        let mut stream = TcpStream::connect(&candidate.address).await.unwrap();
        stream.write_all(b"GET /watch HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        Self(BufReader::new(stream))
    }

    /// Waits for the next event that satisfies `predicate`.
    async fn next_event(&mut self, predicate: impl Fn(&Value) -> bool) -> Value {
        let reading = async {
            loop {
                let mut line = String::new();
                assert!(self.0.read_line(&mut line).await.unwrap() > 0, "the stream has ended");
                let Some(data) = line.strip_prefix("data: ") else { continue };
                let event: Value = serde_json::from_str(data).unwrap();
                assert_eq!(event["version"], 1);
                if predicate(&event) {
                    return event;
                }
            }
        };
        timeout(TIMEOUT, reading).await.unwrap()
    }
}

fn valid_until(status: &Value) -> SystemTime {
    DateTime::parse_from_rfc3339(status["valid_until"].as_str().unwrap()).unwrap().into()
}

fn timestamp(line: &Line) -> SystemTime {
    DateTime::parse_from_rfc3339(line.event["timestamp"].as_str().unwrap()).unwrap().into()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_application_leads_at_a_time_and_observer_follows() {
    let stage = Stage::new().await;
    let olga = stage.observer(&stage.group.access, &["--poll", "1s"]).await;
    let no_leader = olga.leader_status().await;
    assert_eq!((&no_leader["leading"], &no_leader["leader"]), (&Value::Bool(false), &Value::Null));

    let mut ada = stage.candidate("ada", &["--failover", "10s"]).await;
    let first = ada.wait_until_leading().await;
    let ben = stage.candidate("ben", &["--failover", "10s"]).await;
    assert_eq!(
        (ben.wait_until_following("ada").await, olga.wait_until_following("ada").await),
        (first, first)
    );
    let (mut ben_events, mut olga_events) = (Stream::open(&ben).await, Stream::open(&olga).await);
    let event = ben_events.next_event(|event| event["leader"]["term"] == first).await;
    assert_eq!((&event["leading"], &event["valid_until"]), (&Value::Bool(false), &Value::Null));

    ada.process.kill().await.unwrap();
    let leading = ben_events.next_event(|event| event["leading"] == true).await;
    let second = leading["leader"]["term"].as_u64().unwrap();
    assert!(second > first && leading["valid_for_ms"].as_u64().unwrap() > 0, "{leading}");
    olga_events.next_event(|event| event["leader"]["term"] == second).await;
    assert_eq!(olga.wait_until_following("ben").await, second);
    for candidate in [&ada, &ben] {
        let warned = |line: &Line| {
            line.event["detail"].as_str().unwrap_or("").contains("cannot stop the application")
        };
        assert!(candidate.process.lines().iter().any(warned), "{}", candidate.process.transcript());
    }
    assert!(!olga.process.lines().iter().any(|line| line.name() == "turn-started"));
    let starting = olga.process.event("starting", TIMEOUT).await;
    assert_eq!(starting.event["work"], Value::Null, "{:?}", starting.event);
}

/// With the store unreachable, the candidate receives no notice that it has lost its leadership.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leading_turns_false_before_lease_expires() {
    let stage = Stage::new().await;
    let (proxy, proxy_connection_string) =
        Proxy::for_store(&stage.store.connection_string()).await.unwrap();
    // The margin leaves room for a busy machine.
    let long = ["--lease", "60s", "--margin", "45s", "--renew", "2s"];
    let ada = stage
        .candidate_with_access(
            "ada",
            &Access::from_connection_string(proxy_connection_string),
            &long,
        )
        .await;
    ada.wait_until_leading().await;
    let mut stream = Stream::open(&ada).await;
    proxy.set_mode(Mode::BlackHole);
    // A delayed answer yields too early an end, so the latest end counts.
    let mut last = None;
    loop {
        let leader_status = ada.leader_status().await;
        if leader_status["leading"] == false {
            break;
        }
        last = last.max(Some(valid_until(&leader_status)));
        sleep(Duration::from_millis(20)).await;
    }
    let not_leading = stream.next_event(|leader_status| leader_status["leading"] == false).await;
    assert!(
        not_leading["valid_until"].is_null() && SystemTime::now() >= last.unwrap(),
        "{not_leading}"
    );
    let mut status = Command::new(PROGRAM);
    status.args(["status", "--json", &stage.group.election]);
    stage.group.access.apply(&mut status);
    let stored_status: Value =
        serde_json::from_slice(&status.output().await.unwrap().stdout).unwrap();
    assert_eq!(
        (&stored_status["lease"], &stored_status["leader"]["name"]),
        (&"leased".into(), &"ada".into()),
        "{stored_status}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lease_is_released_after_promised_validity() {
    let stage = Stage::new().await;
    let mut ada = stage.candidate("ada", &[]).await;
    ada.wait_until_leading().await;
    let ben = stage.candidate("ben", &[]).await;
    ben.wait_until_following("ada").await;
    let mut stream = Stream::open(&ada).await;
    let leading_event = stream.next_event(|event| event["leading"] == true).await;
    let (streamed_until, queried_until) =
        (valid_until(&leading_event), valid_until(&ada.leader_status().await));
    let leaving = async {
        let stopped_leading = stream.next_event(|event| event["leading"] == false).await;
        assert!(stopped_leading["valid_until"].is_null(), "{stopped_leading}");
    };
    let (ended, ()) = tokio::join!(ada.process.terminate(TIMEOUT), leaving);
    assert_eq!(ended.unwrap().code(), Some(0), "{}", ada.process.transcript());
    let stood_down = ada.process.event("stood-down", TIMEOUT).await;
    assert_eq!(stood_down.event["reason"], "left");
    assert!(
        timestamp(&stood_down) >= streamed_until.max(queried_until),
        "{}",
        ada.process.transcript()
    );
    let ended = ada.process.event("turn-ended", TIMEOUT).await;
    assert_eq!(ended.event["outcome"], "succeeded", "{}", ada.process.transcript());

    // If the application promises to stop within a given time after a "no", the lease is released
    // after that time.
    ben.wait_until_leading().await;
    let mut ben = ben;
    ben.process.terminate(TIMEOUT).await.unwrap();
    let mut cleo = stage.candidate("cleo", &["--lease", "60s", "--grace", "100ms"]).await;
    cleo.wait_until_leading().await;
    let promised_until = valid_until(&cleo.leader_status().await);
    cleo.process.terminate(TIMEOUT).await.unwrap();
    let stood_down = cleo.process.event("stood-down", TIMEOUT).await;
    assert_eq!(stood_down.event["reason"], "left");
    assert!(timestamp(&stood_down) < promised_until, "{}", cleo.process.transcript());
}

/// The account keeps versions of blobs, so there are no beats: the promised validity lasts as long
/// as the lease allows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lease_is_held_for_promised_validity_without_beats() {
    let (stage, front) = (Stage::new().await, Front::start().await.unwrap());
    front.set_rule(|_| Some(Override::Versioned));
    let access = Access::from_connection_string(front.connection_string());
    let beats = ["--failover", "3s", "--lease", "15s"];
    let mut ada = stage.candidate_with_access("ada", &access, &beats).await;
    ada.wait_until_leading().await;
    let promised_until = valid_until(&ada.leader_status().await);
    ada.process.terminate(TIMEOUT).await.unwrap();
    let stood_down = ada.process.event("stood-down", TIMEOUT).await;
    assert_eq!(stood_down.event["reason"], "left");
    assert!(timestamp(&stood_down) >= promised_until, "{}", ada.process.transcript());
}

/// Only the runner dies: the supervisor must not release the lease, because the application may
/// still act.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_dies_leaves_no_last_will() {
    let stage = Stage::new().await;
    let ada = stage.candidate("ada", &["--lease", "60s"]).await;
    let term = ada.wait_until_leading().await;
    rustix::process::kill_process(ada.process.runner().unwrap(), rustix::process::Signal::KILL)
        .unwrap();
    let mut process = ada.process;
    process.end(TIMEOUT).await.unwrap();
    let olga = stage.observer(&stage.group.access, &[]).await;
    assert_eq!(olga.wait_until_following("ada").await, term, "the lease is held");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn observer_only_reads_and_sees_changes_before_next_poll() {
    let stage = Stage::new().await;
    let sent = Arc::new(Mutex::new(Vec::new()));
    let recorder = sent.clone();
    let record_method = move |bytes: &[u8]| {
        let line = String::from_utf8_lossy(bytes);
        let line = line.lines().next().unwrap_or_default();
        recorder.lock().unwrap().push(line.split(' ').next().unwrap_or_default().to_owned());
    };
    let proxy_start =
        Proxy::for_store_with_witness(&stage.store.connection_string(), record_method)
            .await
            .unwrap();
    let (_proxy, proxy_connection_string) = proxy_start;
    // The record holds the address of a proxy, which is known before the candidate listens.
    let front = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", front.local_addr().unwrap());
    let mut ada = stage.candidate("ada", &["--address", &address, "--grace", "1s"]).await;
    ada.wait_until_leading().await;
    let leader_address = ada.address.clone();
    let (watched_tx, mut watched_rx) = watch::channel(false);
    let mut fronts = JoinSet::new();
    fronts.spawn(async move {
        while let Ok((mut client_stream, _)) = front.accept().await {
            let mut leader_stream = TcpStream::connect(&leader_address).await.unwrap();
            watched_tx.send_replace(true);
            let _ = tokio::io::copy_bidirectional(&mut client_stream, &mut leader_stream).await;
        }
    });

    let olga = stage
        .observer(&Access::from_connection_string(proxy_connection_string), &["--poll", "60s"])
        .await;
    olga.wait_until_following("ada").await;
    timeout(TIMEOUT, watched_rx.wait_for(|is_watched| *is_watched)).await.unwrap().unwrap();
    let polls = sent.lock().unwrap().len();
    let ended = Instant::now();
    ada.process.terminate(TIMEOUT).await.unwrap();
    olga.wait_for_status(|status| status["leader"].is_null()).await;
    assert!(ended.elapsed() < Duration::from_secs(30), "it waited for its next poll");
    let sent = sent.lock().unwrap();
    assert!(sent.len() > polls && sent.iter().all(|method| method == "HEAD"), "{sent:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn observer_with_file_serves_each_election() {
    let stage = Stage::new().await;
    let ada = stage.candidate("ada", &[]).await;
    let term = ada.wait_until_leading().await;
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("tenure.toml");
    // The file is for candidates with work.
    let text = format!(
        "[[election]]\nelection = \"{}\"\nno-work = true\n\
         [[election]]\nelection = \"{}-other\"\nevery = \"1h\"\ncommand = [\"/bin/false\"]\n",
        stage.group.election, stage.group.election
    );
    std::fs::write(&file, text).unwrap();
    let mut command = Command::new(PROGRAM);
    command.args(["observe", "--log", "json", "--listen", "127.0.0.1:0", "--config"]).arg(&file);
    stage.group.access.apply(&mut command);
    let olga = ListeningProcess::start("olga", command).await;
    let led = async {
        loop {
            let (status, body) =
                get_leader(&olga.address, &format!("?election={}", stage.group.election)).await;
            if body["leader"]["term"] == term {
                return status;
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    assert_eq!(timeout(TIMEOUT, led).await.unwrap(), 200, "{}", olga.process.transcript());
    let (status, body) =
        get_leader(&olga.address, &format!("?election={}-other", stage.group.election)).await;
    assert_eq!((status, &body["leader"]), (200, &Value::Null), "{body}");
    assert_eq!(get_leader(&olga.address, "").await.0, 400);
    assert_eq!(get_leader(&olga.address, "?election=no/where").await.0, 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn contradictory_options_are_rejected() {
    let stage = Stage::new().await;
    let run_refused = async |arguments: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command.args(arguments).stdin(Stdio::null());
        stage.group.access.apply(&mut command);
        let output = timeout(TIMEOUT, command.output()).await.unwrap().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let run = ["run", "a/b"];
    for (arguments, expected) in [
        // The usual error, with the new alternative.
        (&["--every", "5s"][..], &["no handler is given", "add --no-work"][..]),
        (&["--no-work"], &["--no-work", "the application needs a listener to ask"]),
        (
            &["--no-work", "--listen", "127.0.0.1:0", "--every", "5s", "--turn-timeout", "3s"],
            &["--every", "--turn-timeout", "without work there are no turns"],
        ),
        (
            &["--no-work", "--listen", "127.0.0.1:0", "--env", "A=b"],
            &["--env", "an application that asks is not part of this process"],
        ),
        (
            &["--no-work", "--listen", "127.0.0.1:0", "--webhook", "http://127.0.0.1:1/"],
            &["a webhook and an application that asks (--no-work) are given"],
        ),
    ] {
        let stderr = run_refused(&[&run[..], arguments].concat()).await;
        assert!(expected.iter().all(|word| stderr.contains(word)), "{arguments:?}: {stderr}");
    }
    let stderr = run_refused(&["observe", "nothing"]).await;
    assert!(
        stderr.contains("no address is given, so clients could not query this observer"),
        "{stderr}"
    );
    assert!(stderr.contains("nothing") && stderr.contains("election"), "{stderr}");
    let stderr = run_refused(&["observe", "a/b", "--listen", "here"]).await;
    assert!(stderr.contains("\"here\" is not an address with a port"), "{stderr}");
    let stderr = run_refused(&["observe", "a/b", "--no-work"]).await;
    assert!(stderr.contains("unexpected argument '--no-work'"), "{stderr}");
}

/// Returns the source in docs/handlers.md for this language, adapted to a candidate at this
/// address.
fn documented_source(language: &str, address: &str) -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("docs/handlers.md");
    let page = std::fs::read_to_string(page).unwrap();
    let section = page.split("\n## An application that asks\n").nth(1).unwrap();
    let source = section.split(&format!("```{language}\n")).nth(1).unwrap().split("```").next();
    let source = source.unwrap();
    assert_eq!(source.matches("http://localhost:8080/leader").count(), 1, "{source}");
    source.replace("localhost:8080", address)
}

/// Runs until a step wrote this term, and then until the steps stop because no candidate leads
/// there.
async fn assert_acts_only_under(term: u64, folder: &Path, mut program: Child) {
    let steps = folder.join("steps");
    let acting = async {
        loop {
            let written = std::fs::read_to_string(&steps).unwrap_or_default();
            if written.lines().any(|line| line == term.to_string()) {
                return written;
            }
            assert!(program.try_wait().unwrap().is_none(), "it has ended");
            sleep(Duration::from_millis(20)).await;
        }
    };
    let written = timeout(TIMEOUT, acting).await.unwrap();
    assert!(written.lines().all(|line| line == term.to_string()), "{written}");
    program.kill().await.unwrap();
}

async fn documented_shell_and_python_act_only_while_leading() {
    use std::os::unix::fs::PermissionsExt as _;
    let stage = Stage::new().await;
    let ada = stage.candidate("ada", &[]).await;
    let term = ada.wait_until_leading().await;
    let ben = stage.candidate("ben", &[]).await;
    ben.wait_until_following("ada").await;

    let folders: Vec<_> = (0..4).map(|_| TempDir::new().unwrap()).collect();
    let start = |folder: &TempDir, program: &str, address: &str| {
        let folder = folder.path();
        let step = folder.join("step");
        std::fs::write(&step, "#!/bin/sh\necho \"$TENURE_TERM\" >> steps\n").unwrap();
        std::fs::set_permissions(&step, std::fs::Permissions::from_mode(0o755)).unwrap();
        let work = "def step(term):\n    print(term, file=open('steps', 'a'), flush=True)\n";
        std::fs::write(folder.join("work.py"), work).unwrap();
        let (language, flag) = if program == "sh" { ("sh", "-c") } else { ("python", "-c") };
        let mut command = Command::new(program);
        command
            .arg(flag)
            .arg(documented_source(language, address))
            .current_dir(folder)
            .kill_on_drop(true);
        command.env("NO_PROXY", "*").spawn().unwrap()
    };
    // The followers' programs must do nothing.
    let idle =
        [start(&folders[2], "sh", &ben.address), start(&folders[3], "python3", &ben.address)];
    let busy =
        [start(&folders[0], "sh", &ada.address), start(&folders[1], "python3", &ada.address)];
    for (folder, program) in folders.iter().zip(busy) {
        assert_acts_only_under(term, folder.path(), program).await;
    }
    for (folder, mut program) in folders[2..].iter().zip(idle) {
        assert!(program.try_wait().unwrap().is_none(), "it has ended");
        assert!(!folder.path().join("steps").exists(), "the follower's application acted");
    }
}

needs!(Curl, Jq, Python => async fn documented_shell_and_python_act_only_while_leading);
