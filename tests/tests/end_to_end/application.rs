//! Applications that ask whether they may act (`tenure run --no-work`), or who leads (`tenure observe`). What the
//! documents show is run as it stands there.

use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use chrono::DateTime;
use serde_json::Value;
use tempfile::TempDir;
use tenure_tests::{
    Access, Candidate, Front, Group, Instead, Line, Mode, Proxy, Sink, Store, needs,
};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::PROGRAM;

/// For what has no bound of its own, on a busy machine.
const SOON: Duration = tenure_tests::PATIENCE;

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

    /// The program with these arguments, for this election.
    fn command(&self, what: &str, name: &str, access: &Access, more: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args([what, "--log", "json", "--name", name, "--listen", "127.0.0.1:0"]);
        command.args([&self.group.election]).args(more);
        access.give(&mut command);
        command
    }

    /// A candidate whose work is an application's.
    async fn candidate(&self, name: &str, more: &[&str]) -> Shown {
        self.candidate_by(name, &self.group.access, more).await
    }

    async fn candidate_by(&self, name: &str, access: &Access, more: &[&str]) -> Shown {
        let all = [&["--no-work", "--poll", "1s"], more].concat();
        Shown::start(name, self.command("run", name, access, &all)).await
    }

    async fn observer(&self, access: &Access, more: &[&str]) -> Shown {
        Shown::start("olga", self.command("observe", "olga", access, more)).await
    }
}

/// A process that answers.
struct Shown {
    process: Candidate,
    at: String,
}

impl Shown {
    async fn start(name: &str, command: Command) -> Self {
        let process = Candidate::spawn(name, command).unwrap();
        let listens =
            |line: &Line| line.event["detail"].as_str().unwrap_or("").starts_with("listening");
        let line = process.line("address", 0, SOON, listens).await;
        let at = line.event["detail"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
        Self { process, at }
    }

    /// What it answers to `/leader`.
    async fn asked(&self) -> Value {
        leader(&self.at, "").await.1
    }

    /// The first answer that is as wanted.
    async fn says(&self, wanted: impl Fn(&Value) -> bool) -> Value {
        let asked = async {
            loop {
                let told = self.asked().await;
                if wanted(&told) {
                    return told;
                }
                sleep(Duration::from_millis(20)).await;
            }
        };
        let told = timeout(SOON, asked).await;
        told.unwrap_or_else(|_| panic!("{}", self.process.transcript()))
    }

    /// Waits until it says that it leads; the term.
    async fn leads(&self) -> u64 {
        self.says(|told| told["leading"] == true).await["leader"]["term"].as_u64().unwrap()
    }

    /// Waits until it says that the candidate of this name leads; the term.
    async fn follows(&self, name: &str) -> u64 {
        let told = self.says(|told| told["leader"]["name"] == name).await;
        assert_eq!(told["leading"], false, "{told}");
        assert_eq!((&told["valid_for_ms"], &told["valid_until"]), (&Value::Null, &Value::Null));
        told["leader"]["term"].as_u64().unwrap()
    }
}

/// The status and the body of `/leader`.
async fn leader(at: &str, query: &str) -> (u16, Value) {
    let mut stream = TcpStream::connect(at).await.unwrap();
    let request =
        format!("GET /leader{query} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let body = answer.split("\r\n\r\n").nth(1).unwrap();
    (status, serde_json::from_str(body).unwrap())
}

/// Reads `/watch` of a process.
struct Stream(BufReader<TcpStream>);

impl Stream {
    async fn of(shown: &Shown) -> Self {
        let mut stream = TcpStream::connect(&shown.at).await.unwrap();
        stream.write_all(b"GET /watch HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        Self(BufReader::new(stream))
    }

    /// The first event from here on that is as wanted.
    async fn tells(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        let read = async {
            loop {
                let mut line = String::new();
                assert!(self.0.read_line(&mut line).await.unwrap() > 0, "the stream has ended");
                let Some(data) = line.strip_prefix("data: ") else { continue };
                let told: Value = serde_json::from_str(data).unwrap();
                assert_eq!(told["version"], 1);
                if wanted(&told) {
                    return told;
                }
            }
        };
        timeout(SOON, read).await.unwrap()
    }
}

fn valid_until(told: &Value) -> SystemTime {
    DateTime::parse_from_rfc3339(told["valid_until"].as_str().unwrap()).unwrap().into()
}

fn at(line: &Line) -> SystemTime {
    DateTime::parse_from_rfc3339(line.event["timestamp"].as_str().unwrap()).unwrap().into()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_is_told_yes_at_a_time_and_an_observer_follows_each_change() {
    let stage = Stage::new().await;
    let olga = stage.observer(&stage.group.access, &["--poll", "1s"]).await;
    let nobody = olga.asked().await;
    assert_eq!((&nobody["leading"], &nobody["leader"]), (&Value::Bool(false), &Value::Null));

    let mut ada = stage.candidate("ada", &["--failover", "10s"]).await;
    let first = ada.leads().await;
    let ben = stage.candidate("ben", &["--failover", "10s"]).await;
    assert_eq!((ben.follows("ada").await, olga.follows("ada").await), (first, first));
    let (mut of_ben, mut of_olga) = (Stream::of(&ben).await, Stream::of(&olga).await);
    let told = of_ben.tells(|told| told["leader"]["term"] == first).await;
    assert_eq!((&told["leading"], &told["valid_until"]), (&Value::Bool(false), &Value::Null));

    ada.process.kill().await.unwrap();
    let yes = of_ben.tells(|told| told["leading"] == true).await;
    let second = yes["leader"]["term"].as_u64().unwrap();
    assert!(second > first && yes["valid_for_ms"].as_u64().unwrap() > 0, "{yes}");
    of_olga.tells(|told| told["leader"]["term"] == second).await;
    assert_eq!(olga.follows("ben").await, second);
    for shown in [&ada, &ben] {
        let warned = |line: &Line| line.event["detail"].as_str().unwrap_or("").contains("preempts");
        assert!(shown.process.lines().iter().any(warned), "{}", shown.process.transcript());
    }
    assert!(!olga.process.lines().iter().any(|line| line.name() == "turn-started"));
    let starting = olga.process.event("starting", SOON).await;
    assert_eq!(starting.event["work"], Value::Null, "{:?}", starting.event);
}

/// The store is out of reach, so nothing tells the candidate that it has lost its leadership.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_answer_becomes_no_by_itself_while_the_lease_is_still_held() {
    let stage = Stage::new().await;
    let (proxy, through) = Proxy::of_store(&stage.store.connection_string()).await.unwrap();
    // The margin leaves room for a busy machine.
    let long = ["--lease", "60s", "--margin", "45s", "--renew", "2s"];
    let ada = stage.candidate_by("ada", &Access::with(through), &long).await;
    ada.leads().await;
    let mut stream = Stream::of(&ada).await;
    proxy.set(Mode::BlackHole);
    // An answer that is held up tells an end that is too early.
    let mut last = None;
    loop {
        let told = ada.asked().await;
        if told["leading"] == false {
            break;
        }
        last = last.max(Some(valid_until(&told)));
        sleep(Duration::from_millis(20)).await;
    }
    let no = stream.tells(|told| told["leading"] == false).await;
    assert!(no["valid_until"].is_null() && SystemTime::now() >= last.unwrap(), "{no}");
    let mut status = Command::new(PROGRAM);
    status.args(["status", "--json", &stage.group.election]);
    stage.group.access.give(&mut status);
    let seen: Value = serde_json::from_slice(&status.output().await.unwrap().stdout).unwrap();
    assert_eq!(
        (&seen["lease"], &seen["leader"]["name"]),
        (&"leased".into(), &"ada".into()),
        "{seen}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lease_is_released_when_all_that_was_told_has_run_out() {
    let stage = Stage::new().await;
    let mut ada = stage.candidate("ada", &[]).await;
    ada.leads().await;
    let ben = stage.candidate("ben", &[]).await;
    ben.follows("ada").await;
    let mut stream = Stream::of(&ada).await;
    let yes = stream.tells(|told| told["leading"] == true).await;
    let (yes, asked) = (valid_until(&yes), valid_until(&ada.asked().await));
    let leaving = async {
        let no = stream.tells(|told| told["leading"] == false).await;
        assert!(no["valid_until"].is_null(), "{no}");
    };
    let (ended, ()) = tokio::join!(ada.process.terminate(SOON), leaving);
    assert_eq!(ended.unwrap().code(), Some(0), "{}", ada.process.transcript());
    let stood_down = ada.process.event("stood-down", SOON).await;
    assert_eq!(stood_down.event["reason"], "left");
    assert!(at(&stood_down) >= yes.max(asked), "{}", ada.process.transcript());
    let ended = ada.process.event("turn-ended", SOON).await;
    assert_eq!(ended.event["outcome"], "succeeded", "{}", ada.process.transcript());

    // Of one whose application promises to heed a no within that time, it is released after that.
    ben.leads().await;
    let mut ben = ben;
    ben.process.terminate(SOON).await.unwrap();
    let mut cleo = stage.candidate("cleo", &["--lease", "60s", "--grace", "100ms"]).await;
    cleo.leads().await;
    let told = valid_until(&cleo.asked().await);
    cleo.process.terminate(SOON).await.unwrap();
    let stood_down = cleo.process.event("stood-down", SOON).await;
    assert_eq!(stood_down.event["reason"], "left");
    assert!(at(&stood_down) < told, "{}", cleo.process.transcript());
}

/// The account keeps versions of blobs, so there are no beats: what was told lasts as long as the lease lets it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_beats_are_impossible_the_lease_is_held_as_long_as_was_told_too() {
    let (stage, front) = (Stage::new().await, Front::start().await.unwrap());
    front.set(|_| Some(Instead::Versioned));
    let access = Access::with(front.connection_string());
    let beats = ["--failover", "3s", "--lease", "15s"];
    let mut ada = stage.candidate_by("ada", &access, &beats).await;
    ada.leads().await;
    let told = valid_until(&ada.asked().await);
    ada.process.terminate(SOON).await.unwrap();
    let stood_down = ada.process.event("stood-down", SOON).await;
    assert_eq!(stood_down.event["reason"], "left");
    assert!(at(&stood_down) >= told, "{}", ada.process.transcript());
}

/// Its runner dies alone: the supervisor must not release the lease, since the application may go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_dies_leaves_no_last_will() {
    let stage = Stage::new().await;
    let ada = stage.candidate("ada", &["--lease", "60s"]).await;
    let term = ada.leads().await;
    rustix::process::kill_process(ada.process.runner().unwrap(), rustix::process::Signal::KILL)
        .unwrap();
    let mut process = ada.process;
    process.end(SOON).await.unwrap();
    let olga = stage.observer(&stage.group.access, &[]).await;
    assert_eq!(olga.follows("ada").await, term, "the lease is held");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_observer_only_polls_and_hears_of_changes_before_its_next_poll() {
    let stage = Stage::new().await;
    let sent = Arc::new(Mutex::new(Vec::new()));
    let seen = sent.clone();
    let witness = move |bytes: &[u8]| {
        let line = String::from_utf8_lossy(bytes);
        let line = line.lines().next().unwrap_or_default();
        seen.lock().unwrap().push(line.split(' ').next().unwrap_or_default().to_owned());
    };
    let through = Proxy::of_store_with(&stage.store.connection_string(), witness).await.unwrap();
    let (_proxy, through) = through;
    // On the record is the address of a proxy, which is known before the candidate listens.
    let front = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", front.local_addr().unwrap());
    let mut ada = stage.candidate("ada", &["--address", &address, "--grace", "1s"]).await;
    ada.leads().await;
    let behind = ada.at.clone();
    let (watching, mut watched) = watch::channel(false);
    let mut fronts = JoinSet::new();
    fronts.spawn(async move {
        while let Ok((mut outside, _)) = front.accept().await {
            let mut inside = TcpStream::connect(&behind).await.unwrap();
            watching.send_replace(true);
            let _ = tokio::io::copy_bidirectional(&mut outside, &mut inside).await;
        }
    });

    let olga = stage.observer(&Access::with(through), &["--poll", "60s"]).await;
    olga.follows("ada").await;
    timeout(SOON, watched.wait_for(|watched| *watched)).await.unwrap().unwrap();
    let polls = sent.lock().unwrap().len();
    let ended = Instant::now();
    ada.process.terminate(SOON).await.unwrap();
    olga.says(|told| told["leader"].is_null()).await;
    assert!(ended.elapsed() < Duration::from_secs(30), "it waited for its next poll");
    let sent = sent.lock().unwrap();
    assert!(sent.len() > polls && sent.iter().all(|method| method == "HEAD"), "{sent:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_observer_of_a_file_answers_for_each_election() {
    let stage = Stage::new().await;
    let ada = stage.candidate("ada", &[]).await;
    let term = ada.leads().await;
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("tenure.toml");
    // The file is for candidates, with their work.
    let text = format!(
        "[[election]]\nelection = \"{}\"\nno-work = true\n\
         [[election]]\nelection = \"{}-other\"\nevery = \"1h\"\ncommand = [\"/bin/false\"]\n",
        stage.group.election, stage.group.election
    );
    std::fs::write(&file, text).unwrap();
    let mut command = Command::new(PROGRAM);
    command.args(["observe", "--log", "json", "--listen", "127.0.0.1:0", "--config"]).arg(&file);
    stage.group.access.give(&mut command);
    let olga = Shown::start("olga", command).await;
    let led = async {
        loop {
            let (status, told) =
                leader(&olga.at, &format!("?election={}", stage.group.election)).await;
            if told["leader"]["term"] == term {
                return status;
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    assert_eq!(timeout(SOON, led).await.unwrap(), 200, "{}", olga.process.transcript());
    let (status, told) =
        leader(&olga.at, &format!("?election={}-other", stage.group.election)).await;
    assert_eq!((status, &told["leader"]), (200, &Value::Null), "{told}");
    assert_eq!(leader(&olga.at, "").await.0, 400);
    assert_eq!(leader(&olga.at, "?election=no/where").await.0, 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_makes_no_sense_is_told_at_once() {
    let stage = Stage::new().await;
    let said = async |arguments: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command.args(arguments).stdin(Stdio::null());
        stage.group.access.give(&mut command);
        let output = timeout(SOON, command.output()).await.unwrap().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let run = ["run", "a/b"];
    for (arguments, words) in [
        // As ever, with the new choice.
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
        let told = said(&[&run[..], arguments].concat()).await;
        assert!(words.iter().all(|word| told.contains(word)), "{arguments:?}: {told}");
    }
    let told = said(&["observe", "nothing"]).await;
    assert!(told.contains("no address is given, so this observer could not be asked"), "{told}");
    assert!(told.contains("nothing") && told.contains("election"), "{told}");
    let told = said(&["observe", "a/b", "--listen", "here"]).await;
    assert!(told.contains("\"here\" is not an address with a port"), "{told}");
    let told = said(&["observe", "a/b", "--no-work"]).await;
    assert!(told.contains("unexpected argument '--no-work'"), "{told}");
}

/// The source that docs/handlers.md shows in this language, for a candidate that listens there.
fn shown(language: &str, at: &str) -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("docs/handlers.md");
    let page = std::fs::read_to_string(page).unwrap();
    let section = page.split("\n## An application that asks\n").nth(1).unwrap();
    let source = section.split(&format!("```{language}\n")).nth(1).unwrap().split("```").next();
    let source = source.unwrap();
    assert_eq!(source.matches("http://localhost:8080/leader").count(), 1, "{source}");
    source.replace("localhost:8080", at)
}

/// Runs until a step wrote this term, and then until none does any more since nobody leads there.
async fn acts_under(term: u64, folder: &Path, mut program: Child) {
    let steps = folder.join("steps");
    let acted = async {
        loop {
            let told = std::fs::read_to_string(&steps).unwrap_or_default();
            if told.lines().any(|line| line == term.to_string()) {
                return told;
            }
            assert!(program.try_wait().unwrap().is_none(), "it has ended");
            sleep(Duration::from_millis(20)).await;
        }
    };
    let told = timeout(SOON, acted).await.unwrap();
    assert!(told.lines().all(|line| line == term.to_string()), "{told}");
    program.kill().await.unwrap();
}

async fn the_shell_and_the_python_of_the_documents_act_while_they_lead() {
    use std::os::unix::fs::PermissionsExt as _;
    let stage = Stage::new().await;
    let ada = stage.candidate("ada", &[]).await;
    let term = ada.leads().await;
    let ben = stage.candidate("ben", &[]).await;
    ben.follows("ada").await;

    let folders: Vec<_> = (0..4).map(|_| TempDir::new().unwrap()).collect();
    let start = |folder: &TempDir, program: &str, at: &str| {
        let folder = folder.path();
        let step = folder.join("step");
        std::fs::write(&step, "#!/bin/sh\necho \"$TENURE_TERM\" >> steps\n").unwrap();
        std::fs::set_permissions(&step, std::fs::Permissions::from_mode(0o755)).unwrap();
        let work = "def step(term):\n    print(term, file=open('steps', 'a'), flush=True)\n";
        std::fs::write(folder.join("work.py"), work).unwrap();
        let (language, flag) = if program == "sh" { ("sh", "-c") } else { ("python", "-c") };
        let mut command = Command::new(program);
        command.arg(flag).arg(shown(language, at)).current_dir(folder).kill_on_drop(true);
        command.env("NO_PROXY", "*").spawn().unwrap()
    };
    // Those of the follower must do nothing.
    let idle = [start(&folders[2], "sh", &ben.at), start(&folders[3], "python3", &ben.at)];
    let busy = [start(&folders[0], "sh", &ada.at), start(&folders[1], "python3", &ada.at)];
    for (folder, program) in folders.iter().zip(busy) {
        acts_under(term, folder.path(), program).await;
    }
    for (folder, mut program) in folders[2..].iter().zip(idle) {
        assert!(program.try_wait().unwrap().is_none(), "it has ended");
        assert!(!folder.path().join("steps").exists(), "the follower's application acted");
    }
}

needs!(Curl, Jq, Python => async fn the_shell_and_the_python_of_the_documents_act_while_they_lead);
