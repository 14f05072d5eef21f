//! Elections that start and stop with the names in a list, while others work.

use crate::PROGRAM;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::{File, FileTimes, metadata, rename, write};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::post;
use chrono::{DateTime, Utc};
use rustix::process::{Signal, kill_process};
use tempfile::TempDir;
use tenure_tests::{BEAT_HANDLER, Candidate, Group, Line, Sink, Store};
use tokio::net::TcpListener;
use tokio::process::Command;

use super::stage::{TIMEOUT, write_settings};

/// A list, and a process that follows it.
struct Scene {
    _store: Store,
    folder: TempDir,
    list: PathBuf,
    container: String,
    process: Candidate,
    _manager: UnixDatagram,
}

impl Scene {
    /// Starts with one list; `extra_settings` is the rest of the file.
    async fn start(names: &str, extra_settings: &str) -> Self {
        let text = |container: &str| {
            format!(
                "for-each-file = \"names\"\nelection = \"{container}/{{each}}\"\n{extra_settings}"
            )
        };
        Self::with_lists(&[("names", names)], text).await
    }

    /// Starts with these lists, and with a file for that container.
    async fn with_lists(lists: &[(&str, &str)], text: impl Fn(&str) -> String) -> Self {
        let (store, sink) = (Store::embedded().await.unwrap(), Sink::start().await.unwrap());
        let group = Group::new(PROGRAM, &store, &sink);
        group.warm_up().await.unwrap();
        let (container, _) = group.election.split_once('/').unwrap();
        let (folder, file) =
            write_settings(&format!("log = \"json\"\nname = \"ada\"\n{}", text(container)));
        for (list, names) in lists {
            write(folder.path().join(list), names).unwrap();
        }
        let list = folder.path().join("names");
        let socket = folder.path().join("notify");
        let manager = UnixDatagram::bind(&socket).unwrap();
        let mut command = Command::new(PROGRAM);
        command.arg("run").arg("--config").arg(&file).env("NOTIFY_SOCKET", &socket);
        group.access.apply(&mut command);
        let process = Candidate::spawn("lists", command).unwrap();
        let container = container.to_owned();
        Self { _store: store, folder, list, container, process, _manager: manager }
    }

    /// Replaces the list by a rename, like `mv`.
    fn replace(&self, names: &str) {
        self.replace_list("names", names);
    }

    fn replace_list(&self, list: &str, names: &str) {
        let new = self.folder.path().join("new");
        write(&new, names).unwrap();
        rename(new, self.folder.path().join(list)).unwrap();
    }

    /// Waits for an event of an election, among the lines after the first `after`.
    async fn wait_for_event(&self, name: &str, event: &str, after: usize) -> Line {
        let election = format!("{}/{name}", self.container);
        let predicate = |line: &Line| line.event["election"] == election && line.name() == event;
        self.process.line(&format!("{event} of {name}"), after, TIMEOUT, predicate).await
    }

    /// Waits until each election of a kind had an event, among the lines after the first `after`.
    async fn wait_for_all(&self, kind: &str, event: &str, after: usize) {
        let (kind, line_count) = (format!("{}/{kind}", self.container), Cell::new(0));
        let elections = RefCell::new(BTreeSet::new());
        let all = self.process.wait_for_line(|line| {
            let election = line.event["election"].as_str().unwrap_or_default();
            if line_count.replace(line_count.get() + 1) >= after
                && election.starts_with(&kind)
                && line.name() == event
            {
                elections.borrow_mut().insert(election.to_owned());
            }
            elections.borrow().len() == ELECTION_COUNT
        });
        let done = tokio::time::timeout(10 * TIMEOUT, all).await.is_ok();
        assert!(done, "{event} of {:?} alone: {}", elections.borrow(), self.process.transcript());
    }

    async fn wait_for_problem(&self, words: &str, after: usize) -> Line {
        let predicate = |line: &Line| {
            let detail = line.event["detail"].as_str().unwrap_or_default();
            line.name() == "problem" && detail.contains(words)
        };
        self.process.line(words, after, TIMEOUT, predicate).await
    }

    fn count(&self, name: &str, event: &str) -> usize {
        let election = format!("{}/{name}", self.container);
        let matches = |line: &&Line| line.event["election"] == election && line.name() == event;
        self.process.lines().iter().filter(matches).count()
    }
}

/// Overwrites the file with the same length and time, so that its metadata does not show the
/// change.
fn overwrite(path: &Path, content: &str) {
    let before = metadata(path).unwrap();
    assert_eq!(before.len(), content.len() as u64);
    write(path, content).unwrap();
    let times = FileTimes::new().set_modified(before.modified().unwrap());
    File::options().write(true).open(path).unwrap().set_times(times).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn elections_follow_names_of_a_list() {
    let extra_settings = "listen = \"127.0.0.1:0\"\nlease = \"60s\"\nwhile-leading = true\ncommand = [\"/bin/sleep\", \"1000\"]\n";
    let mut scene = Scene::start("# none yet\n", extra_settings).await;
    let listening = |line: &Line| line.event["detail"].as_str().unwrap_or("").contains("listening");
    let address = scene.process.line("address", 0, TIMEOUT, listening).await;
    let address = address.event["detail"].as_str().unwrap().rsplit(' ').next().unwrap().to_owned();
    let leader = async |name: &str| {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let url = format!("{address}/leader?election={}/{name}", scene.container);
        client.get(url).send().await.unwrap().status().as_u16()
    };
    scene.replace("one\ntwo # and no more\n");
    for name in ["one", "two"] {
        scene.wait_for_event(name, "elected", 0).await;
        assert_eq!(leader(name).await, 200);
    }
    scene.replace("two\nthree\n");
    let stood_down = scene.wait_for_event("one", "stood-down", 0).await;
    assert_eq!(stood_down.event["reason"], "left");
    scene.wait_for_event("one", "stopped", 0).await;
    scene.wait_for_event("three", "elected", 0).await;
    let forgotten = async { while leader("one").await != 404 {} };
    tokio::time::timeout(TIMEOUT, forgotten).await.unwrap();

    // A mistake changes nothing, and the problem names its position.
    let after = scene.process.lines().len();
    scene.replace("three\nfour\nthree\n");
    let problem = scene.wait_for_problem("names:3:1: three: this name is a duplicate", after).await;
    assert!(problem.event["detail"].as_str().unwrap().contains("stay as they are"), "{problem:?}");
    scene.replace("");
    scene.wait_for_problem("the file is empty", after).await;
    // An election that cannot start does not affect the others.
    let long = "x".repeat(2_000);
    scene.replace(&format!("two\n{long}\nthree\nfour\n"));
    scene.wait_for_problem("this election was not added", after).await;
    scene.wait_for_event("four", "elected", after).await;
    // The election returns under the same name.
    scene.replace("one\ntwo\nthree\nfour\n");
    scene.wait_for_event("one", "elected", after).await;
    for (name, times) in [("one", 1), ("two", 0), ("three", 0), ("four", 0)] {
        assert_eq!(
            scene.count(name, "stood-down"),
            times,
            "{name}: {}",
            scene.process.transcript()
        );
    }

    // SIGHUP makes the process reread the list, because polls cannot detect this change.
    let after = scene.process.lines().len();
    scene.wait_for_event("one", "turn-started", 0).await;
    overwrite(&scene.list, "one\ntwo\nthree\nfive\n");
    scene.process.signal(Signal::HUP).unwrap();
    scene.wait_for_event("four", "stopped", after).await;
    // After a request under its lease, the supervisor knows the lease.
    scene.wait_for_event("five", "turn-started", after).await;

    // The supervisor releases the leases of the current elections only.
    kill_process(scene.process.runner().unwrap(), Signal::KILL).unwrap();
    assert_eq!(scene.process.end(TIMEOUT).await.unwrap().code(), Some(137));
    for (name, times) in [("one", 1), ("two", 1), ("three", 1), ("four", 0), ("five", 1)] {
        let election = format!("{}/{name}", scene.container);
        let released = |line: &&Line| {
            let detail = line.event["detail"].as_str().unwrap_or_default();
            line.event["election"] == election && detail.contains("was released")
        };
        let lines = scene.process.all_lines().await;
        assert_eq!(lines.iter().filter(released).count(), times, "{name}");
    }
}

/// An election that leaves slowly does not delay the others in its list, and returns when it has
/// left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_election_that_is_still_leaving_does_not_keep_others_waiting() {
    let may_end = tempfile::tempdir().unwrap();
    let may_end = may_end.path().join("may-end");
    let command = format!("trap '' TERM; until [ -e {} ]; do sleep 0.05; done", may_end.display());
    let extra_settings = format!(
        "while-leading = true\ngrace = \"300s\"\ncommand = [\"/bin/sh\", \"-c\", \"{command}\"]\n"
    );
    let scene = Scene::start("slow\nstays\n", &extra_settings).await;
    scene.wait_for_event("slow", "turn-started", 0).await;
    let after = scene.process.lines().len();
    scene.replace("stays\n");
    let read = |line: &Line| line.event["detail"].as_str().unwrap_or("").contains("removed: 1");
    scene.process.line("that it leaves", after, TIMEOUT, read).await;

    scene.replace("slow\nstays\nzoe\n");
    scene.wait_for_event("zoe", "elected", after).await;
    assert_eq!(scene.count("slow", "stopped"), 0, "{}", scene.process.transcript());
    let after = scene.process.lines().len();
    write(&may_end, "").unwrap();
    scene.wait_for_event("slow", "stopped", after).await;
    scene.wait_for_event("slow", "elected", after).await;
}

fn pipe(path: &Path) {
    assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// The election's handler is on a file system that does not answer, and later the list is too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stuck_election_or_list_delays_no_other_election() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["one", "two"] {
        std::fs::copy(BEAT_HANDLER, folder.path().join(format!("{name}.wasm"))).unwrap();
    }
    pipe(&folder.path().join("stuck.wasm"));
    let handler = folder.path().join("{each}.wasm");
    let extra_settings = format!("handler = \"{}\"\nevery = \"1m\"\n", handler.display());
    let mut scene = Scene::start("one\n", &extra_settings).await;
    scene.wait_for_event("one", "elected", 0).await;
    scene.replace("one\nstuck\n");
    let read = |line: &Line| line.event["detail"].as_str().unwrap_or("").contains("added: 1");
    scene.process.line("that it is added", 0, TIMEOUT, read).await;
    scene.replace("two\nstuck\n");
    scene.wait_for_event("one", "stopped", 0).await;
    scene.wait_for_event("two", "elected", 0).await;

    // The process reports a missing list once.
    let after = scene.process.lines().len();
    std::fs::remove_file(&scene.list).unwrap();
    scene.wait_for_problem("the file cannot be read", after).await;
    pipe(&scene.list);
    assert!(
        scene.process.terminate(TIMEOUT).await.unwrap().success(),
        "{}",
        scene.process.errors()
    );
}

/// The new list of the election is read before the old list has dropped it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_election_that_moves_to_another_list_is_not_lost() {
    let text = |container: &str| {
        let each = |list| {
            format!(
                "[[election]]\nelection = \"{container}/{{each}}\"\nfor-each-file = \"{list}\"\n\
                 while-leading = true\ncommand = [\"/bin/sleep\", \"1000\"]\n"
            )
        };
        each("names") + &each("more")
    };
    let lists = [("names", "one\n"), ("more", "two\nmoves\n")];
    let scene = Scene::with_lists(&lists, text).await;
    scene.wait_for_event("moves", "elected", 0).await;
    let after = scene.process.lines().len();
    scene.replace_list("names", "one\nmoves\n");
    scene.wait_for_problem("already runs this election", after).await;
    scene.replace_list("more", "two\n");
    scene.wait_for_event("moves", "stopped", after).await;
    scene.wait_for_event("moves", "elected", after).await;
}

/// Number of elections that work, and of those that start and stop meanwhile. A busy machine must
/// bear it, because a leader whose work is blocked for two leases resigns.
const ELECTION_COUNT: usize = 40;

/// Interval of the elections that work.
const INTERVAL: Duration = Duration::from_secs(10);

/// Each slot of the working elections has its turn, in order, by the leader that won once. On an
/// overloaded machine turns are late but must still succeed. Lease and time-out are longer than any
/// delay of an answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_elections_come_and_go_while_as_many_others_work() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let webhook = format!("http://{}/", listener.local_addr().unwrap());
    let app = Router::new().route("/", post(async || StatusCode::NO_CONTENT));
    tokio::spawn(async { axum::serve(listener, app).await });
    let names = |kind: &str| {
        (0..ELECTION_COUNT).fold(String::new(), |mut names, number| {
            writeln!(names, "{kind}{number}").unwrap();
            names
        })
    };
    let (works, comes) = (names("works"), names("comes"));
    let extra_settings = format!(
        "every = \"{}s\"\njitter = \"9s\"\nlease = \"60s\"\nrequest-timeout = \"15s\"\nmargin = \"3s\"\n\
         missed = \"all 100\"\nwebhook = \"{webhook}\"\n",
        INTERVAL.as_secs()
    );
    let mut scene = Scene::start(&works, &extra_settings).await;
    // Each election has had a turn, so the next slot is the one after it.
    scene.wait_for_all("works", "turn-ended", 0).await;
    let all_names = format!("{works}{comes}");
    for _ in 0..2 {
        let after = scene.process.lines().len();
        scene.replace(&all_names);
        scene.wait_for_all("comes", "elected", after).await;
        scene.replace(&works);
        scene.wait_for_all("comes", "stopped", after).await;
    }
    // Waits for one more slot after that.
    let after = scene.process.lines().len();
    scene.wait_for_all("works", "turn-ended", after).await;
    let before = scene.process.lines().len();
    assert!(scene.process.terminate(10 * TIMEOUT).await.unwrap().success());

    let lines = scene.process.all_lines().await;
    let (mut slots, mut left_elections) =
        (BTreeMap::<String, Vec<DateTime<Utc>>>::new(), BTreeSet::new());
    for (number, line) in lines.iter().enumerate() {
        let election = line.event["election"].as_str().unwrap_or_default();
        if !election.contains("/works") {
            continue;
        }
        match line.name() {
            "turn-started" => {
                assert_eq!(line.event["missed"], 0, "{line:?}");
                let slot = line.event["slot"].as_str().unwrap().parse().unwrap();
                slots.entry(election.to_owned()).or_default().push(slot);
            }
            // A turn that runs at SIGTERM is cut off.
            "turn-ended" if number >= before && line.event["outcome"] == "cut-off" => {}
            "turn-ended" => assert_eq!(line.event["outcome"], "succeeded", "{line:?}"),
            "stood-down" => {
                assert_eq!(line.event["reason"], "left", "{line:?}");
                assert!(left_elections.insert(election.to_owned()), "at the end alone: {line:?}");
            }
            _ => {}
        }
    }
    assert_eq!(slots.len(), ELECTION_COUNT);
    for (election, slots) in slots {
        assert!(slots.len() >= 2, "{election}");
        for pair in slots.windows(2) {
            assert_eq!((pair[1] - pair[0]).to_std().unwrap(), INTERVAL, "{election}: {slots:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn elections_of_a_list_cannot_be_split() {
    for names in ["one\ntwo\n", "# none yet\n"] {
        let mut scene =
            Scene::start(names, "every = \"1m\"\nshares = 4\ncommand = [\"true\"]\n").await;
        assert_eq!(scene.process.end(TIMEOUT).await.unwrap().code(), Some(2));
        let stderr = scene.process.errors();
        assert!(stderr.contains("shares\n    elections of a list cannot be split\n"), "{stderr}");
    }
}
