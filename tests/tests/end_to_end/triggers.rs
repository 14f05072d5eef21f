//! `tenure trigger`: turns that somebody asks for, of real processes.

use crate::PROGRAM;
use std::io::Write as _;
use std::process::{Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use tenure_store::sas::Scope;
use tenure_tests::credential::with_sas;
use tenure_tests::{
    Access, Candidate, Front, Group, Instead, Line, Sink, Store, asks, needs, reserved, triggers,
};
use tokio::process::Command;
use tokio::time::timeout;

/// For what has no bound of its own, on a busy machine.
const SOON: Duration = tenure_tests::PATIENCE;

/// Ends well, unless its trigger has a bad name, or one that takes its time.
const WORK: &str = r#"echo "ran for $TENURE_TRIGGER"; case "$TENURE_TRIGGER" in bad*) exit 3;; long*) sleep 600;; esac"#;

struct Stage {
    _store: Store,
    group: Group,
}

impl Stage {
    async fn new(store: Store) -> Self {
        let sink = Sink::start().await.unwrap();
        let mut group = Group::new(PROGRAM, &store, &sink);
        // No slot comes while a test runs, but at midnight.
        group.timer = ["--every", "24h"];
        group.patient = true;
        group.warm_up().await.unwrap();
        Self { _store: store, group }
    }

    async fn embedded() -> Self {
        Self::new(Store::embedded().await.unwrap()).await
    }

    /// A candidate that nobody can reach.
    fn hidden(&self, name: &str, more: &[&str]) -> Candidate {
        let more = [&["--poll", "1s", "--max-failures", "0"], more].concat();
        let command = self.group.command(name, &more, &["sh", "-c", WORK]);
        Candidate::spawn(name, command).unwrap()
    }

    /// A candidate with a listener, which hints reach at this address.
    async fn open(&self, name: &str, more: &[&str]) -> (Candidate, String) {
        let listen = reserved().unwrap().to_string();
        let address = format!("http://{listen}");
        let all = ["--listen", &listen, "--address", &address];
        (self.hidden(name, &[&all, more].concat()), address)
    }

    async fn trigger(&self, arguments: &[&str]) -> (i32, String) {
        let mut command = Command::new(PROGRAM);
        command.arg("trigger").args(arguments);
        self.group.access.give(&mut command);
        ended(command).await
    }

    async fn of_election(&self, arguments: &[&str]) -> (i32, String) {
        self.trigger(&[&[self.group.election.as_str()], arguments].concat()).await
    }

    async fn status(&self) -> Value {
        let mut command = Command::new(PROGRAM);
        command.args(["status", &self.group.election, "--json"]);
        self.group.access.give(&mut command);
        serde_json::from_slice(&timeout(SOON, command.output()).await.unwrap().unwrap().stdout)
            .unwrap()
    }
}

/// Its exit code, and all that it said.
async fn ended(mut command: Command) -> (i32, String) {
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output();
    let Output { status, stdout, stderr } = timeout(2 * SOON, output).await.unwrap().unwrap();
    let said = String::from_utf8([stdout, stderr].concat()).unwrap();
    (status.code().unwrap_or(-1), said)
}

/// The turns that began for this trigger.
fn turns(candidate: &Candidate, id: &str) -> usize {
    let of = |line: &&Line| line.name() == "turn-started" && line.event["trigger"] == id;
    candidate.lines().iter().filter(of).count()
}

async fn begins(candidate: &Candidate, id: &str) -> Line {
    let of = |line: &Line| line.name() == "turn-started" && line.event["trigger"] == id;
    candidate.line("turn for the trigger", 0, SOON, of).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trigger_has_its_turn_once_and_its_outcome_is_told_on_the_embedded_store() {
    has_its_turn(&Stage::embedded().await).await;
}

/// Of an id that the program made nobody knows otherwise.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_cannot_know_whether_it_was_placed_is_told_how_to_repeat_it() {
    let front = Front::start().await.unwrap();
    let mut stage = Stage::embedded().await;
    stage.group.access = Access::with(front.connection_string());
    let mut ada = stage.hidden("ada", &[]);
    ada.event("elected", SOON).await;
    ada.terminate(SOON).await.unwrap();
    for (status, code, more, told) in [
        (503, "ServerBusy", &[][..], true),
        (503, "ServerBusy", &["--id", "mine"], false),
        (403, "AuthorizationPermissionMismatch", &[], false),
    ] {
        front.set(move |request| {
            let writes = asks(request) == "create-blob";
            writes.then_some(Instead::Code(status, code))
        });
        let (exit, said) = stage.of_election(more).await;
        assert_eq!(exit, 2, "{said}");
        assert_eq!(said.contains("add --id "), told, "{said}");
    }
}

async fn a_trigger_has_its_turn_once_and_its_outcome_is_told_on_azurite() {
    has_its_turn(&Stage::new(Store::shared_azurite(false).await.unwrap()).await).await;
}

needs!(Node => async fn a_trigger_has_its_turn_once_and_its_outcome_is_told_on_azurite);

async fn has_its_turn(stage: &Stage) {
    // Nobody takes over.
    let (ada, _) = stage.open("ada", &["--lease", "60s", "--request-timeout", "15s"]).await;
    let term = ada.event("elected", SOON).await.term();
    let (code, said) = stage.of_election(&["--id", "good-1", "--wait", "60s"]).await;
    assert_eq!(code, 0, "{said}\n{}", ada.transcript());
    assert!(said.contains("ada leads, and was notified.\n"), "{said}");
    assert!(said.ends_with("Trigger good-1: its turn has ended: succeeded.\n"), "{said}");
    let began = begins(&ada, "good-1").await;
    assert_eq!((began.term(), began.event["attempt"].as_u64()), (term, Some(1)));
    let (code, said) = stage.of_election(&["--id", "bad-1", "--wait", "60s"]).await;
    assert_eq!(code, 3, "{said}");
    assert!(said.ends_with("Trigger bad-1: its turn has ended: failed.\n"), "{said}");
    // With the same names there is nothing to be done.
    for (id, code) in [("good-1", 0), ("bad-1", 3)] {
        let (placed, said) = stage.of_election(&["--id", id]).await;
        assert_eq!(placed, 0, "{said}");
        let (ended, said) = stage.of_election(&["--id", id, "--wait", "60s"]).await;
        assert_eq!(ended, code, "{said}");
    }
    // Each in its order, and none of the earlier ones again.
    let (code, said) = stage.of_election(&["--wait", "60s"]).await;
    assert_eq!(code, 0, "{said}");
    assert_eq!((turns(&ada, "good-1"), turns(&ada, "bad-1")), (1, 1), "{}", ada.transcript());
    assert_eq!(ada.count("turn-started"), 3, "{}", ada.transcript());
    let of = |line: &Line| line.name() == "turn-ended" && line.event["trigger"] == "bad-1";
    assert_eq!(ada.line("end", 0, SOON, of).await.event["outcome"], "failed");
    let told = stage.status().await;
    assert_eq!(told["triggered"]["outcome"], "succeeded", "{told}");
    assert_eq!(told["last_success"]["triggered"], true, "{told}");
    assert_eq!(told["last_failure"]["outcome"], "failed", "{told}");
    let ran = |line: &Line| line.event["line"] == "ran for good-1";
    ada.line("line of the work", 0, SOON, ran).await;
}

/// It waits on the blob, whoever leads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trigger_waits_for_the_next_leader() {
    let stage = Stage::embedded().await;
    let mut ada = stage.hidden("ada", &[]);
    ada.event("elected", SOON).await;
    ada.terminate(SOON).await.unwrap();
    let (code, said) = stage.of_election(&["--id", "later"]).await;
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("there is no leader now. The next leader runs it.\n"), "{said}");
    let ben = stage.hidden("ben", &[]);
    begins(&ben, "later").await;
    let (code, said) = stage.of_election(&["--id", "later", "--wait", "60s"]).await;
    assert_eq!(code, 0, "{said}");
    let (code, said) = stage.of_election(&["--id", "another"]).await;
    assert!(code == 0 && said.contains("ben leads, and looks for orders every 10 s"), "{said}");
    assert_eq!((turns(&ada, "later"), turns(&ben, "later")), (0, 1), "{}", ben.transcript());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_killed_in_the_turn_leaves_it_to_the_rule_of_delivery() {
    for (delivery, again, code) in [("at-most-once", 0, 3), ("at-least-once", 1, 1)] {
        let stage = Stage::embedded().await;
        let more = ["--delivery", delivery];
        let (mut ada, _) = stage.open("ada", &more).await;
        ada.event("elected", SOON).await;
        stage.of_election(&["--id", "long-1"]).await;
        begins(&ada, "long-1").await;
        ada.kill().await.unwrap();
        let (ben, _) = stage.open("ben", &more).await;
        ben.event("elected", SOON).await;
        if again > 0 {
            assert_eq!(begins(&ben, "long-1").await.event["attempt"], 2);
        }
        let (ended, said) = stage.of_election(&["--id", "long-1", "--wait", "1s"]).await;
        assert_eq!(ended, code, "{delivery}: {said}");
        let words = if again > 0 { "was not over within 1s" } else { "is not on record" };
        assert!(said.contains(words), "{said}");
        assert_eq!(turns(&ben, "long-1"), again, "{}", ben.transcript());
    }
}

/// A deployment asks for the turn of its release before any candidate runs, and each replica asks again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_without_a_timer_runs_once_for_each_trigger_also_for_one_before_any_candidate() {
    let mut stage = Stage::embedded().await;
    stage.group.timer = ["--delivery", "at-most-once"];
    let (code, said) = stage.of_election(&["--id", "release-42"]).await;
    assert!(code == 0 && said.contains("release-42 waits for its turn"), "{said}");
    assert!(said.contains("there is no leader now"), "{said}");
    let mut ada = stage.hidden("ada", &[]);
    begins(&ada, "release-42").await;
    let (code, said) = stage.of_election(&["--id", "release-42", "--wait", "60s"]).await;
    assert!(code == 0 && said.contains("its turn has ended: succeeded"), "{said}");
    let status = stage.status().await;
    assert_eq!((&status["schedule"], &status["next_turn"]), (&"on trigger".into(), &Value::Null));
    ada.terminate(SOON).await.unwrap();

    let (code, said) = stage.of_election(&["--id", "release-42"]).await;
    assert!(code == 0 && said.contains("its turn has ended: succeeded"), "{said}");
    let (code, said) = stage.of_election(&["--id", "release-43"]).await;
    assert!(code == 0 && said.contains("release-43 waits for its turn"), "{said}");
    let ben = stage.hidden("ben", &[]);
    begins(&ben, "release-43").await;
    assert_eq!((turns(&ada, "release-42"), turns(&ben, "release-42")), (1, 0));
    let all = |candidate: &Candidate| {
        candidate.lines().iter().filter(|line| line.name() == "turn-started").count()
    };
    assert_eq!((all(&ada), all(&ben)), (1, 1), "{}", ben.transcript());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_triggered_is_refused_with_the_reason() {
    let stage = Stage::embedded().await;
    let (ada, _) = stage.open("ada", &[]).await;
    ada.event("elected", SOON).await;
    // The first one runs, and eight wait behind it.
    stage.of_election(&["--id", "long-1"]).await;
    begins(&ada, "long-1").await;
    for n in 0..8 {
        let (code, said) = stage.of_election(&["--id", &format!("waits-{n}")]).await;
        assert!(code == 0 && said.contains("waits for its turn"), "{said}");
    }
    let (code, said) = stage.of_election(&["--id", "ninth"]).await;
    assert!(code == 2 && said.contains("8 triggers of "), "{said}");
    let (code, said) = stage.of_election(&["--id", "a b"]).await;
    assert!(code == 2 && said.contains("1 to 64 letters"), "{said}");
    assert!(said.contains("nothing was sent"), "{said}");
    // Who may read and not write.
    let (container, _) = stage.group.election.split_once('/').unwrap();
    let scope = Scope::Container(container.to_owned());
    let mut command = Command::new(PROGRAM);
    command.args(["trigger", &stage.group.election]);
    Access::with(with_sas(&stage.group.connection_string, scope, "r")).give(&mut command);
    let (code, said) = ended(command).await;
    assert!(code == 2 && said.contains("does not permit writing"), "{said}");
    assert_eq!(ada.count("turn-started"), 1, "{}", ada.transcript());

    let mut lasting = Stage::embedded().await;
    lasting.group.timer = ["--while-leading", "--grace=0s"];
    let ben = lasting.hidden("ben", &[]);
    ben.event("elected", SOON).await;
    let (code, said) = lasting.of_election(&[]).await;
    assert!(code == 2 && said.contains("there are no turns to trigger"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_election_is_told_by_a_file_too() {
    let stage = Stage::embedded().await;
    let (ada, _) = stage.open("ada", &[]).await;
    ada.event("elected", SOON).await;
    let mut file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
    let election = &stage.group.election;
    writeln!(file, "[[election]]\nelection = \"{election}\"\nevery = \"24h\"").unwrap();
    let config = file.path().to_str().unwrap().to_owned();
    let config = config.as_str();
    let (code, said) = stage.trigger(&["--config", config, "--wait", "60s"]).await;
    assert_eq!(code, 0, "{said}");
    writeln!(file, "[[election]]\nelection = \"jobs/other\"\nevery = \"24h\"").unwrap();
    let (code, said) = stage.trigger(&["--config", config]).await;
    assert!(code == 2 && said.contains("name one of them"), "{said}");
    let (code, said) = stage.trigger(&[election, "--config", config, "--wait", "60s"]).await;
    assert_eq!(code, 0, "{said}");
}

/// What `chaos --triggers` does, shorter.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_leaders_are_killed_none_runs_twice_or_none_is_lost() {
    for delivery in ["at-most-once", "at-least-once"] {
        let store = Store::embedded().await.unwrap();
        let life = Duration::from_secs(2);
        let tally = triggers::round(PROGRAM, &store, 24, delivery, life).await.unwrap();
        assert_eq!(tally.placed, 24);
        assert!(tally.killed > 0, "{tally:?}");
        match delivery {
            "at-most-once" => assert_eq!(tally.ran_twice(), Vec::<&str>::new(), "{tally:?}"),
            _ => assert_eq!(tally.lost(), Vec::<String>::new(), "{tally:?}"),
        }
    }
}
