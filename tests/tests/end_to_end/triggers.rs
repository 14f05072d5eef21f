//! `tenure trigger`: requested turns in real processes.

use crate::PROGRAM;
use std::io::Write as _;
use std::process::{Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use tenure_store::sas::Scope;
use tenure_tests::credential::with_sas;
use tenure_tests::{
    Access, Candidate, Front, Group, Line, Override, Sink, Store, needs, operation_name,
    reserve_port, triggers,
};
use tokio::process::Command;
use tokio::time::timeout;

/// Limit of waits without a specific bound, on a busy machine.
const TIMEOUT: Duration = tenure_tests::PATIENCE;

/// Work that succeeds, fails for a trigger named `bad*`, and hangs for one named `long*`.
const WORK: &str = r#"echo "ran for $TENURE_TRIGGER"; case "$TENURE_TRIGGER" in bad*) exit 3;; long*) sleep 600;; esac"#;

struct Stage {
    _store: Store,
    group: Group,
}

impl Stage {
    async fn new(store: Store) -> Self {
        let sink = Sink::start().await.unwrap();
        let mut group = Group::new(PROGRAM, &store, &sink);
        // No slot comes due while a test runs, except at midnight.
        group.timer = ["--every", "24h"];
        group.patient_timings = true;
        group.warm_up().await.unwrap();
        Self { _store: store, group }
    }

    async fn embedded() -> Self {
        Self::new(Store::embedded().await.unwrap()).await
    }

    /// Starts a candidate without a listener.
    fn start_without_listener(&self, name: &str, extra_args: &[&str]) -> Candidate {
        let args = [&["--poll", "1s", "--max-failures", "0"], extra_args].concat();
        let command = self.group.command(name, &args, &["sh", "-c", WORK]);
        Candidate::spawn(name, command).unwrap()
    }

    /// Starts a candidate with a listener, and returns the address for hints.
    async fn start_listening(&self, name: &str, extra_args: &[&str]) -> (Candidate, String) {
        let listen = reserve_port().unwrap().to_string();
        let address = format!("http://{listen}");
        let args = ["--listen", &listen, "--address", &address];
        (self.start_without_listener(name, &[&args, extra_args].concat()), address)
    }

    async fn trigger(&self, arguments: &[&str]) -> (i32, String) {
        let mut command = Command::new(PROGRAM);
        command.arg("trigger").args(arguments);
        self.group.access.apply(&mut command);
        run_to_end(command).await
    }

    async fn trigger_election(&self, arguments: &[&str]) -> (i32, String) {
        self.trigger(&[&[self.group.election.as_str()], arguments].concat()).await
    }

    async fn status(&self) -> Value {
        let mut command = Command::new(PROGRAM);
        command.args(["status", &self.group.election, "--json"]);
        self.group.access.apply(&mut command);
        serde_json::from_slice(&timeout(TIMEOUT, command.output()).await.unwrap().unwrap().stdout)
            .unwrap()
    }
}

/// Returns the exit code, and all output.
async fn run_to_end(mut command: Command) -> (i32, String) {
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output();
    let Output { status, stdout, stderr } = timeout(2 * TIMEOUT, output).await.unwrap().unwrap();
    let output_text = String::from_utf8([stdout, stderr].concat()).unwrap();
    (status.code().unwrap_or(-1), output_text)
}

/// Returns the number of started turns for this trigger.
fn turns(candidate: &Candidate, id: &str) -> usize {
    let matches = |line: &&Line| line.name() == "turn-started" && line.event["trigger"] == id;
    candidate.lines().iter().filter(matches).count()
}

async fn wait_for_turn(candidate: &Candidate, id: &str) -> Line {
    let matches = |line: &Line| line.name() == "turn-started" && line.event["trigger"] == id;
    candidate.line("turn for the trigger", 0, TIMEOUT, matches).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trigger_runs_once_and_reports_outcome_on_embedded_store() {
    assert_trigger_runs_once(&Stage::embedded().await).await;
}

/// Otherwise the user would not know the id that the program generated.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unconfirmed_trigger_suggests_repeating_with_id() {
    let front = Front::start().await.unwrap();
    let mut stage = Stage::embedded().await;
    stage.group.access = Access::from_connection_string(front.connection_string());
    let mut ada = stage.start_without_listener("ada", &[]);
    ada.event("elected", TIMEOUT).await;
    ada.terminate(TIMEOUT).await.unwrap();
    for (status, code, extra_args, suggests_id) in [
        (503, "ServerBusy", &[][..], true),
        (503, "ServerBusy", &["--id", "mine"], false),
        (403, "AuthorizationPermissionMismatch", &[], false),
    ] {
        front.set_rule(move |request| {
            let writes = operation_name(request) == "create-blob";
            writes.then_some(Override::Error(status, code))
        });
        let (exit, output_text) = stage.trigger_election(extra_args).await;
        assert_eq!(exit, 2, "{output_text}");
        assert_eq!(output_text.contains("add --id "), suggests_id, "{output_text}");
    }
}

async fn trigger_runs_once_and_reports_outcome_on_azurite() {
    assert_trigger_runs_once(&Stage::new(Store::shared_azurite(false).await.unwrap()).await).await;
}

needs!(Node => async fn trigger_runs_once_and_reports_outcome_on_azurite);

async fn assert_trigger_runs_once(stage: &Stage) {
    // No other candidate takes over.
    let (ada, _) =
        stage.start_listening("ada", &["--lease", "60s", "--request-timeout", "15s"]).await;
    let term = ada.event("elected", TIMEOUT).await.term();
    let (code, output_text) = stage.trigger_election(&["--id", "good-1", "--wait", "60s"]).await;
    assert_eq!(code, 0, "{output_text}\n{}", ada.transcript());
    assert!(output_text.contains("ada leads, and was notified.\n"), "{output_text}");
    assert!(
        output_text.ends_with("Trigger good-1: its turn has ended: succeeded.\n"),
        "{output_text}"
    );
    let started = wait_for_turn(&ada, "good-1").await;
    assert_eq!((started.term(), started.event["attempt"].as_u64()), (term, Some(1)));
    let (code, output_text) = stage.trigger_election(&["--id", "bad-1", "--wait", "60s"]).await;
    assert_eq!(code, 3, "{output_text}");
    assert!(output_text.ends_with("Trigger bad-1: its turn has ended: failed.\n"), "{output_text}");
    // The same ids have no further effect.
    for (id, code) in [("good-1", 0), ("bad-1", 3)] {
        let (placed, output_text) = stage.trigger_election(&["--id", id]).await;
        assert_eq!(placed, 0, "{output_text}");
        let (ended, output_text) = stage.trigger_election(&["--id", id, "--wait", "60s"]).await;
        assert_eq!(ended, code, "{output_text}");
    }
    // Each trigger runs in order, and none of the earlier ones again.
    let (code, output_text) = stage.trigger_election(&["--wait", "60s"]).await;
    assert_eq!(code, 0, "{output_text}");
    assert_eq!((turns(&ada, "good-1"), turns(&ada, "bad-1")), (1, 1), "{}", ada.transcript());
    assert_eq!(ada.count("turn-started"), 3, "{}", ada.transcript());
    let matches = |line: &Line| line.name() == "turn-ended" && line.event["trigger"] == "bad-1";
    assert_eq!(ada.line("end", 0, TIMEOUT, matches).await.event["outcome"], "failed");
    let status = stage.status().await;
    assert_eq!(status["triggered"]["outcome"], "succeeded", "{status}");
    assert_eq!(status["last_success"]["triggered"], true, "{status}");
    assert_eq!(status["last_failure"]["outcome"], "failed", "{status}");
    let ran = |line: &Line| line.event["line"] == "ran for good-1";
    ada.line("line of the work", 0, TIMEOUT, ran).await;
}

/// The trigger waits on the blob, independent of the leader.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trigger_waits_for_the_next_leader() {
    let stage = Stage::embedded().await;
    let mut ada = stage.start_without_listener("ada", &[]);
    ada.event("elected", TIMEOUT).await;
    ada.terminate(TIMEOUT).await.unwrap();
    let (code, output_text) = stage.trigger_election(&["--id", "later"]).await;
    assert_eq!(code, 0, "{output_text}");
    assert!(
        output_text.contains("there is no leader now. The next leader runs it.\n"),
        "{output_text}"
    );
    let ben = stage.start_without_listener("ben", &[]);
    wait_for_turn(&ben, "later").await;
    let (code, output_text) = stage.trigger_election(&["--id", "later", "--wait", "60s"]).await;
    assert_eq!(code, 0, "{output_text}");
    let (code, output_text) = stage.trigger_election(&["--id", "another"]).await;
    assert!(
        code == 0 && output_text.contains("ben leads, and looks for orders every 10 s"),
        "{output_text}"
    );
    assert_eq!((turns(&ada, "later"), turns(&ben, "later")), (0, 1), "{}", ben.transcript());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_leader_turn_follows_delivery_rule() {
    for (delivery, again, code) in [("at-most-once", 0, 3), ("at-least-once", 1, 1)] {
        let stage = Stage::embedded().await;
        let extra_args = ["--delivery", delivery];
        let (mut ada, _) = stage.start_listening("ada", &extra_args).await;
        ada.event("elected", TIMEOUT).await;
        stage.trigger_election(&["--id", "long-1"]).await;
        wait_for_turn(&ada, "long-1").await;
        ada.kill().await.unwrap();
        let (ben, _) = stage.start_listening("ben", &extra_args).await;
        ben.event("elected", TIMEOUT).await;
        if again > 0 {
            assert_eq!(wait_for_turn(&ben, "long-1").await.event["attempt"], 2);
        }
        let (ended, output_text) =
            stage.trigger_election(&["--id", "long-1", "--wait", "1s"]).await;
        assert_eq!(ended, code, "{delivery}: {output_text}");
        let words = if again > 0 { "was not over within 1s" } else { "is not on record" };
        assert!(output_text.contains(words), "{output_text}");
        assert_eq!(turns(&ben, "long-1"), again, "{}", ben.transcript());
    }
}

/// A deployment requests the turn of its release before any candidate runs, and each replica
/// repeats the request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_without_timer_runs_once_per_trigger() {
    let mut stage = Stage::embedded().await;
    stage.group.timer = ["--delivery", "at-most-once"];
    let (code, output_text) = stage.trigger_election(&["--id", "release-42"]).await;
    assert!(code == 0 && output_text.contains("release-42 waits for its turn"), "{output_text}");
    assert!(output_text.contains("there is no leader now"), "{output_text}");
    let mut ada = stage.start_without_listener("ada", &[]);
    wait_for_turn(&ada, "release-42").await;
    let (code, output_text) =
        stage.trigger_election(&["--id", "release-42", "--wait", "60s"]).await;
    assert!(code == 0 && output_text.contains("its turn has ended: succeeded"), "{output_text}");
    let status = stage.status().await;
    assert_eq!((&status["schedule"], &status["next_turn"]), (&"on trigger".into(), &Value::Null));
    ada.terminate(TIMEOUT).await.unwrap();

    let (code, output_text) = stage.trigger_election(&["--id", "release-42"]).await;
    assert!(code == 0 && output_text.contains("its turn has ended: succeeded"), "{output_text}");
    let (code, output_text) = stage.trigger_election(&["--id", "release-43"]).await;
    assert!(code == 0 && output_text.contains("release-43 waits for its turn"), "{output_text}");
    let ben = stage.start_without_listener("ben", &[]);
    wait_for_turn(&ben, "release-43").await;
    assert_eq!((turns(&ada, "release-42"), turns(&ben, "release-42")), (1, 0));
    let all = |candidate: &Candidate| {
        candidate.lines().iter().filter(|line| line.name() == "turn-started").count()
    };
    assert_eq!((all(&ada), all(&ben)), (1, 1), "{}", ben.transcript());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn impossible_trigger_is_rejected_with_reason() {
    let stage = Stage::embedded().await;
    let (ada, _) = stage.start_listening("ada", &[]).await;
    ada.event("elected", TIMEOUT).await;
    // The first trigger runs, and eight are pending behind it.
    stage.trigger_election(&["--id", "long-1"]).await;
    wait_for_turn(&ada, "long-1").await;
    for n in 0..8 {
        let (code, output_text) = stage.trigger_election(&["--id", &format!("waits-{n}")]).await;
        assert!(code == 0 && output_text.contains("waits for its turn"), "{output_text}");
    }
    let (code, output_text) = stage.trigger_election(&["--id", "ninth"]).await;
    assert!(code == 2 && output_text.contains("8 triggers of "), "{output_text}");
    let (code, output_text) = stage.trigger_election(&["--id", "a b"]).await;
    assert!(code == 2 && output_text.contains("1 to 64 letters"), "{output_text}");
    assert!(output_text.contains("nothing was sent"), "{output_text}");
    // A credential that can read but not write.
    let (container, _) = stage.group.election.split_once('/').unwrap();
    let scope = Scope::Container(container.to_owned());
    let mut command = Command::new(PROGRAM);
    command.args(["trigger", &stage.group.election]);
    Access::from_connection_string(with_sas(&stage.group.connection_string, scope, "r"))
        .apply(&mut command);
    let (code, output_text) = run_to_end(command).await;
    assert!(code == 2 && output_text.contains("does not permit writing"), "{output_text}");
    assert_eq!(ada.count("turn-started"), 1, "{}", ada.transcript());

    let mut lasting = Stage::embedded().await;
    lasting.group.timer = ["--while-leading", "--grace=0s"];
    let ben = lasting.start_without_listener("ben", &[]);
    ben.event("elected", TIMEOUT).await;
    let (code, output_text) = lasting.trigger_election(&[]).await;
    assert!(code == 2 && output_text.contains("there are no turns to trigger"), "{output_text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trigger_takes_election_from_file() {
    let stage = Stage::embedded().await;
    let (ada, _) = stage.start_listening("ada", &[]).await;
    ada.event("elected", TIMEOUT).await;
    let mut file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
    let election = &stage.group.election;
    writeln!(file, "[[election]]\nelection = \"{election}\"\nevery = \"24h\"").unwrap();
    let config = file.path().to_str().unwrap().to_owned();
    let config = config.as_str();
    let (code, output_text) = stage.trigger(&["--config", config, "--wait", "60s"]).await;
    assert_eq!(code, 0, "{output_text}");
    writeln!(file, "[[election]]\nelection = \"jobs/other\"\nevery = \"24h\"").unwrap();
    let (code, output_text) = stage.trigger(&["--config", config]).await;
    assert!(code == 2 && output_text.contains("name one of them"), "{output_text}");
    let (code, output_text) = stage.trigger(&[election, "--config", config, "--wait", "60s"]).await;
    assert_eq!(code, 0, "{output_text}");
}

/// Runs like `chaos --triggers`, but shorter.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_leaders_keep_delivery_guarantee() {
    for delivery in ["at-most-once", "at-least-once"] {
        let store = Store::embedded().await.unwrap();
        let life = Duration::from_secs(2);
        let tally = triggers::round(PROGRAM, &store, 24, delivery, life).await.unwrap();
        assert_eq!(tally.placed, 24);
        assert!(tally.killed > 0, "{tally:?}");
        match delivery {
            "at-most-once" => assert_eq!(tally.ran_twice(), Vec::<&str>::new(), "{tally:?}"),
            _ => assert_eq!(tally.never_completed(), Vec::<String>::new(), "{tally:?}"),
        }
    }
}
