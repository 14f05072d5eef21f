//! `tenure lock`: runs a command once under a lock, and returns its exit code.

mod terminal;

use crate::PROGRAM;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tenure_supervisor::children_of;
use tenure_tests::candidate::runner_of;
use tenure_tests::credential::PATIENT_TIMINGS;
use tenure_tests::locks::Scenario;
use tenure_tests::{Front, Sink, Store, needs};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

const TIMEOUT: Duration = tenure_tests::PATIENCE;

struct Stage {
    store: Store,
    lock: String,
}

impl Stage {
    async fn new() -> Self {
        let store = Store::embedded().await.unwrap();
        Self { store, lock: format!("locks-{}/one", uuid::Uuid::new_v4().simple()) }
    }

    fn command(&self, options: &[&str], work: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.arg("lock").args(options).args([&self.lock, "--"]).args(work);
        command
            .env("AZURE_STORAGE_CONNECTION_STRING", self.store.connection_string())
            .envs(PATIENT_TIMINGS)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    async fn run(&self, options: &[&str], work: &[&str]) -> Output {
        let ended = timeout(TIMEOUT, self.command(options, work).output()).await;
        ended.expect("it ends").unwrap()
    }

    /// Starts a holder that keeps the lock until its standard input ends.
    async fn holder(&self) -> Child {
        let mut command = self.command(&["--name", "holder"], &["sh", "-c", "echo has it; cat"]);
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
        let line = timeout(TIMEOUT, lines.next_line()).await.unwrap().unwrap();
        assert_eq!(line.as_deref(), Some("has it"));
        child
    }
}

fn id(child: &Child) -> Pid {
    Pid::from_raw(child.id().unwrap().try_into().unwrap()).unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Waits until a runner has installed its signal handlers, which precedes its first request to the
/// store.
async fn wait_until_following(child: &mut Child) {
    let mut lines = BufReader::new(child.stderr.as_mut().unwrap()).lines();
    while let Some(line) = timeout(TIMEOUT, lines.next_line()).await.unwrap().unwrap() {
        if line.contains("following") {
            return;
        }
    }
    panic!("it does not wait");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lock_exits_like_its_command_without_output() {
    let stage = Stage::new().await;
    for (script, code) in [("echo out; echo err >&2", 0), ("exit 3", 3), ("kill -9 $$", 137)] {
        let ended = stage.run(&[], &["sh", "-c", script]).await;
        assert_eq!(ended.status.code(), Some(code), "{script}: {}", text(&ended.stderr));
        let (out, err) = if code == 0 { ("out\n", "err\n") } else { ("", "") };
        assert_eq!((text(&ended.stdout).as_str(), text(&ended.stderr).as_str()), (out, err));
    }
    // The term rises with each holder.
    let mut terms = Vec::new();
    for _ in 0..2 {
        let ended = stage.run(&[], &["sh", "-c", "echo $TENURE_TERM"]).await;
        terms.push(text(&ended.stdout).trim().parse::<u64>().unwrap());
    }
    assert!(terms[0] < terms[1], "{terms:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unrunnable_or_invalid_lock_has_own_exit_codes() {
    let stage = Stage::new().await;
    let folder = tempfile::tempdir().unwrap();
    let plain = folder.path().join("plain");
    std::fs::write(&plain, "").unwrap();
    let wrong = "--wait";
    for (options, work, code, expected) in [
        (&[][..], "no-such-command", 127, "no directory of PATH holds"),
        (&[], plain.to_str().unwrap(), 126, "is not an executable file"),
        (&[wrong, "60"], "true", 125, "\"60\" is not a duration"),
        (&[wrong, "5s", "--if-free"], "true", 125, "leave out one of them"),
        (&["--every", "5s"], "true", 125, "unexpected argument"),
    ] {
        let ended = stage.run(options, &[work]).await;
        let stderr = text(&ended.stderr);
        assert_eq!(ended.status.code(), Some(code), "{stderr}");
        assert!(stderr.contains(expected), "{stderr}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lock_not_obtained_names_holder_and_runs_nothing() {
    let stage = Stage::new().await;
    let free = stage.run(&["--if-free"], &["echo", "free"]).await;
    assert_eq!((free.status.code(), text(&free.stdout)), (Some(0), "free\n".into()));
    let mut holder = stage.holder().await;
    for options in [&["--if-free"][..], &["--wait", "2s"]] {
        let ended = stage.run(options, &["echo", "ran"]).await;
        let stderr = text(&ended.stderr);
        assert_eq!(ended.status.code(), Some(75), "{stderr}");
        assert_eq!(text(&ended.stdout), "");
        assert!(stderr.contains("is held by holder, term "), "{stderr}");
    }
    // A waiting contender gets the lock, and not before its release.
    let mut waiting = stage.command(&["--log", "text"], &["echo", "ran"]).spawn().unwrap();
    wait_until_following(&mut waiting).await;
    drop(holder.stdin.take());
    assert_eq!(timeout(TIMEOUT, holder.wait()).await.unwrap().unwrap().code(), Some(0));
    let ended = timeout(TIMEOUT, waiting.wait_with_output()).await.unwrap().unwrap();
    assert_eq!((ended.status.code(), text(&ended.stdout)), (Some(0), "ran\n".into()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signals_end_waiting_and_later_reach_the_command() {
    let stage = Stage::new().await;
    let script = "trap 'echo hung up; exit 9' HUP; trap 'echo told' USR1; echo up; while :; do sleep 0.05; done";
    let mut child = stage.command(&[], &["sh", "-c", script]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut line = async || timeout(TIMEOUT, lines.next_line()).await.unwrap().unwrap();
    assert_eq!(line().await.as_deref(), Some("up"));
    let mut waiting = stage.command(&["--log", "text"], &["true"]).spawn().unwrap();
    wait_until_following(&mut waiting).await;
    kill_process(id(&waiting), Signal::INT).unwrap();
    assert_eq!(timeout(TIMEOUT, waiting.wait()).await.unwrap().unwrap().code(), Some(130));
    for (signal, expected) in [(Signal::USR1, "told"), (Signal::HUP, "hung up")] {
        kill_process(id(&child), signal).unwrap();
        assert_eq!(line().await.as_deref(), Some(expected));
    }
    assert_eq!(timeout(TIMEOUT, child.wait()).await.unwrap().unwrap().code(), Some(9));
}

/// Tests a runner that dies together with its work, and one that cannot renew.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_lock_has_own_exit_code() {
    let stage = Stage::new().await;
    // Waiting for the holder would close its standard input, and thus end the command.
    let mut holder = stage.holder().await;
    let _input = holder.stdin.take();
    kill_process(runner_of(id(&holder)), Signal::KILL).unwrap();
    let ended = timeout(TIMEOUT, holder.wait_with_output()).await.unwrap().unwrap();
    let stderr = text(&ended.stderr);
    assert_eq!(ended.status.code(), Some(76), "{stderr}");
    assert!(stderr.contains("was released, so another candidate can lead"), "{stderr}");

    let mut holder = stage.holder().await;
    let _input = holder.stdin.take();
    let Stage { store, .. } = stage;
    drop(store.stop().await.unwrap());
    let ended = timeout(TIMEOUT, holder.wait_with_output()).await.unwrap().unwrap();
    let stderr = text(&ended.stderr);
    assert_eq!(ended.status.code(), Some(76), "{stderr}");
    assert!(stderr.contains("could not be renewed"), "{stderr}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_command_supervisor_loses_the_lock() {
    let stage = Stage::new().await;
    let script = "trap 'echo told' USR1; echo up; while :; do sleep 0.05; done";
    let mut holder = stage.command(&[], &["sh", "-c", script]).spawn().unwrap();
    let mut lines = BufReader::new(holder.stdout.take().unwrap()).lines();
    let mut line = async || timeout(TIMEOUT, lines.next_line()).await.unwrap().unwrap();
    assert_eq!(line().await.as_deref(), Some("up"));
    // The lock forwards signals once it has reported that the command runs.
    kill_process(id(&holder), Signal::USR1).unwrap();
    assert_eq!(line().await.as_deref(), Some("told"));
    let [supervisor] = children_of(runner_of(id(&holder)))[..] else { panic!("it runs one") };
    kill_process(supervisor, Signal::KILL).unwrap();
    let ended = timeout(TIMEOUT, holder.wait_with_output()).await.unwrap().unwrap();
    let stderr = text(&ended.stderr);
    assert_eq!(ended.status.code(), Some(76), "{stderr}");
    assert!(stderr.contains("the process that supervises the command was killed"), "{stderr}");
}

/// A runner that has just started would die of a signal. A later signal must not be lost either.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signal_before_runner_is_ready_is_not_lost() {
    let stage = Stage::new().await;
    let mut holder = stage.holder().await;
    for (signals, code) in
        [(&[Signal::TERM][..], 143), (&[Signal::INT], 130), (&[Signal::TERM, Signal::INT], 143)]
    {
        let waiting = stage.command(&[], &["true"]).spawn().unwrap();
        let supervisor = id(&waiting);
        while runner_of(supervisor) == supervisor {
            tokio::task::yield_now().await;
        }
        for signal in signals {
            kill_process(supervisor, *signal).unwrap();
        }
        let ended = timeout(TIMEOUT, waiting.wait_with_output()).await.unwrap().unwrap();
        let stderr = text(&ended.stderr);
        assert_eq!((ended.status.code(), stderr.as_str()), (Some(code), ""));
    }
    drop(holder.stdin.take());
    assert_eq!(timeout(TIMEOUT, holder.wait()).await.unwrap().unwrap().code(), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn command_reads_standard_input_of_lock() {
    let stage = Stage::new().await;
    let mut command = stage.command(&[], &["sh", "-c", "read a; echo got $a; cat"]);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"one\ntwo\n").await.unwrap();
    drop(input);
    let ended = timeout(TIMEOUT, child.wait_with_output()).await.unwrap().unwrap();
    assert_eq!(text(&ended.stdout), "got one\ntwo\n", "{}", text(&ended.stderr));
}

/// The parent process ignores these signals, like `nohup`, or like a shell for the background jobs
/// of a script.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ignored_signals_stay_ignored_in_the_command() {
    let stage = Stage::new().await;
    let script = "trap '' HUP INT QUIT TERM; exec \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh", PROGRAM, "lock", &stage.lock, "--"]);
    command.args(["grep", "SigIgn", "/proc/self/status"]);
    command.env("AZURE_STORAGE_CONNECTION_STRING", stage.store.connection_string());
    command.stdin(Stdio::null()).kill_on_drop(true);
    let ended = timeout(TIMEOUT, command.output()).await.unwrap().unwrap();
    let output_text = text(&ended.stdout) + &text(&ended.stderr);
    let mask =
        output_text.trim().rsplit('\t').next().and_then(|mask| u64::from_str_radix(mask, 16).ok());
    let mask = mask.unwrap_or_else(|| panic!("{output_text}"));
    for number in [1, 2, 3, 15] {
        assert_eq!(mask >> (number - 1) & 1, 1, "{number}: {output_text}");
    }
}

/// The first step of a candidate without a record ends before it leads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_clock_does_not_count_as_holder() {
    let stage = Stage::new().await;
    let front = Front::start().await.unwrap();
    front.set_clock_ahead(chrono::TimeDelta::minutes(20));
    let mut command = stage.command(&["--if-free"], &["echo", "ran"]);
    command.env("AZURE_STORAGE_CONNECTION_STRING", front.connection_string());
    let ended = timeout(TIMEOUT, command.output()).await.unwrap().unwrap();
    let stderr = text(&ended.stderr);
    assert_eq!((ended.status.code(), text(&ended.stdout)), (Some(0), "ran\n".into()), "{stderr}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn record_with_other_schedule_does_not_count_as_holder() {
    let (mut stage, sink) = (Stage::new().await, Sink::start().await.unwrap());
    let mut group = tenure_tests::Group::new(PROGRAM, &stage.store, &sink);
    group.timer = ["--every", "1s"];
    stage.lock.clone_from(&group.election);
    let command = group.command("ada", &[], &["true"]);
    let mut ada = tenure_tests::Candidate::spawn("ada", command).unwrap();
    ada.event("turn-ended", TIMEOUT).await;
    assert!(ada.terminate(TIMEOUT).await.unwrap().success());
    let ended = stage.run(&["--if-free"], &["echo", "ran"]).await;
    let stderr = text(&ended.stderr);
    assert_eq!((ended.status.code(), text(&ended.stdout)), (Some(0), "ran\n".into()), "{stderr}");
}

/// A lock and an election use one blob: their work does not overlap, and terms keep rising.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_election_on_the_same_blob_takes_turns_with_a_lock() {
    let (store, sink) = (Store::embedded().await.unwrap(), Sink::start().await.unwrap());
    let mut group = tenure_tests::Group::new(PROGRAM, &store, &sink);
    group.timer = ["--every", "1s"];
    let lock = group.election.clone();
    let stage = Stage { store, lock };
    let holder = stage.holder().await;
    let command = group.command("ada", &[], &["true"]);
    let mut ada = tenure_tests::Candidate::spawn("ada", command).unwrap();
    let following = ada.event("following", TIMEOUT).await;
    assert_eq!(following.event["leader"], "holder");
    assert_eq!(ada.count("elected"), 0);
    let mut holder = holder;
    drop(holder.stdin.take());
    assert_eq!(timeout(TIMEOUT, holder.wait()).await.unwrap().unwrap().code(), Some(0));
    let elected = ada.event("elected", TIMEOUT).await;
    assert!(elected.term() > following.term());
    ada.event("turn-ended", TIMEOUT).await;
    let busy = stage.run(&["--if-free"], &["true"]).await;
    assert!(text(&busy.stderr).contains("is held by ada"), "{}", text(&busy.stderr));
    assert!(ada.terminate(TIMEOUT).await.unwrap().success());
    let ended = stage.run(&[], &["sh", "-c", "echo $TENURE_TERM"]).await;
    assert!(text(&ended.stdout).trim().parse::<u64>().unwrap() > elected.term());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_contenders_never_share_the_lock_on_embedded_store() {
    many_contend_and_some_are_killed(Store::embedded().await.unwrap()).await;
}

async fn killed_contenders_never_share_the_lock_on_azurite() {
    many_contend_and_some_are_killed(Store::shared_azurite(false).await.unwrap()).await;
}

needs!(Node => async fn killed_contenders_never_share_the_lock_on_azurite);

async fn many_contend_and_some_are_killed(store: Store) {
    let game = Scenario {
        program: Path::new(PROGRAM).to_owned(),
        connection_string: store.connection_string(),
        election: format!("locks-{}/many", uuid::Uuid::new_v4().simple()),
        contenders: 6,
        // The last holder is no victim, because all processes receive SIGTERM once it has started.
        acquisitions: 37,
        victims: 6,
        options: vec!["--wait".into(), "120s".into()],
    };
    let outcome = game.run().await.unwrap();
    assert_eq!(outcome.breaches, [""; 0]);
    assert!(outcome.acquisitions >= 37 && outcome.harmed >= 6, "{outcome:?}");
}
