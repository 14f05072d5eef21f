//! Leaders whose processes die, freeze and end, and the reactions of their supervisors. protocol.md
//! §7.3.

use crate::PROGRAM;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tenure_store::{Entry, OperationKind};
use tenure_tests::candidate::is_alive;
use tenure_tests::{Access, Candidate, Credential, Group, Line, Sink, Store, killed_calls, needs};
use tokio::process::Command;

/// Limit of waits without a specific bound, on a busy machine.
const TIMEOUT: Duration = tenure_tests::PATIENCE;

/// Lease of these candidates, the longest possible.
const LEASE: Duration = Duration::from_secs(60);

/// Tolerates a store that stalls for a while.
const TIMINGS: [&str; 8] =
    ["--lease", "60s", "--request-timeout", "15s", "--renew", "4s", "--poll", "1s"];

/// A working leader, and its successor.
struct Scene {
    store: Store,
    _sink: Sink,
    group: Group,
    old: Candidate,
    new: Candidate,
    term: u64,
}

impl Scene {
    async fn with(store: Store, credential: Credential) -> Self {
        let sink = Sink::start().await.unwrap();
        let group = Group::with_credential(PROGRAM, &store, &sink, credential);
        group.warm_up().await.unwrap();
        if credential != Credential::SharedKey {
            group.outsider().create_container().await.unwrap();
        }
        let old = group.start("old", &TIMINGS).unwrap();
        old.event("elected", TIMEOUT).await;
        // A renewal also updates the release request at the supervisor.
        let renewed = old.event("renewed", TIMEOUT).await;
        let new = group.start("new", &TIMINGS).unwrap();
        new.event("following", TIMEOUT).await;
        Self { store, _sink: sink, group, old, new, term: renewed.term() }
    }

    async fn new() -> Self {
        Self::with(Store::embedded().await.unwrap(), Credential::SharedKey).await
    }

    fn signal_runner(&self, signal: Signal) {
        kill_process(self.old.runner().unwrap(), signal).unwrap();
    }

    /// Returns the output of the old leader's supervisor, and its exit code.
    async fn supervisor_report(&mut self) -> (String, Option<i32>) {
        let code = self.old.end(TIMEOUT).await.unwrap().code();
        let is_process_problem = |line: &Line| line.event["class"] == "process";
        let lines: Vec<_> =
            self.old.all_lines().await.into_iter().filter(is_process_problem).collect();
        assert!(lines.len() <= 1, "{}", self.old.transcript());
        let message = lines.first().map(|line| line.event["detail"].as_str().unwrap().to_owned());
        (message.unwrap_or_default(), code)
    }

    /// Returns the store's log entries for lease operations.
    fn lease_entries(&self) -> Vec<Entry> {
        let Store::Embedded(store) = &self.store else { panic!("it has no such log") };
        let lease_operations = [
            OperationKind::Acquire,
            OperationKind::Renew,
            OperationKind::Change,
            OperationKind::Release,
        ]
        .map(|operation| operation.name());
        store.with(|service| {
            let entries = service.log().entries();
            entries
                .filter(|entry| lease_operations.contains(&entry.operation.name()))
                .cloned()
                .collect()
        })
    }

    /// Returns the number of successful releases.
    fn releases(&self) -> usize {
        let done =
            |entry: &&Entry| entry.operation == OperationKind::Release && entry.status == 200;
        self.lease_entries().iter().filter(done).count()
    }

    /// Asserts that the next leader followed a release, and not the expiry of the lease.
    async fn assert_succeeded_by_release(&self) {
        let elected = self.new.event("elected", TIMEOUT).await;
        assert!(elected.term() > self.term, "{}", self.new.transcript());
        if let Store::Embedded(_) = self.store {
            let all = self.lease_entries();
            let released =
                all.iter().position(|entry| entry.operation == OperationKind::Release).unwrap();
            let last_renewal = all[..released].iter().rfind(|entry| {
                matches!(
                    (entry.operation, entry.status),
                    (OperationKind::Renew, 200) | (OperationKind::Acquire, 201)
                )
            });
            let next = all[released..]
                .iter()
                .find(|entry| entry.operation == OperationKind::Acquire)
                .unwrap();
            let took = next.at - last_renewal.unwrap().at;
            assert!(took < LEASE, "{took:?} after the last renewal: {all:#?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lease_of_a_process_that_is_killed_is_released() {
    let mut scene = Scene::new().await;
    let killed = Instant::now();
    scene.signal_runner(Signal::KILL);
    let (message, code) = scene.supervisor_report().await;
    println!("answered {} ms after the kill", killed.elapsed().as_millis());
    assert_eq!(code, Some(128 + 9));
    let term = scene.term;
    assert_eq!(
        message,
        format!(
            "the process that ran the election was killed by SIGKILL; all its processes have exited, and its \
             lease (term {term}) was released, so another candidate can lead"
        )
    );
    assert_eq!(scene.releases(), 1);
    scene.assert_succeeded_by_release().await;
    let transcript = scene.old.transcript();
    assert!(
        !scene.group.access.leaks_in(&transcript) && !transcript.contains("SharedKey "),
        "{transcript}"
    );
}

/// `chaos --calls` runs this more often.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_webhook_byte_is_sent_after_process_end() {
    let store = Store::embedded().await.unwrap();
    let round = killed_calls::round(PROGRAM, &store).await.unwrap();
    println!("{round:?}");
    assert_eq!(round.late_bytes, 0, "{round:?}");
}

/// Covers the end by systemd's watchdog, and by lack of memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lease_of_a_process_that_aborts_is_released() {
    let mut scene = Scene::new().await;
    scene.old.signal(Signal::ABORT).unwrap();
    let (message, code) = scene.supervisor_report().await;
    assert_eq!(code, Some(128 + 6), "{message}");
    assert!(message.contains("killed by SIGABRT") && message.contains("was released"), "{message}");
    scene.assert_succeeded_by_release().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lease_is_released_with_sas_on_embedded_store() {
    a_sas_is_as_good_as_a_key(Store::embedded().await.unwrap()).await;
}

async fn lease_is_released_with_sas_on_azurite() {
    a_sas_is_as_good_as_a_key(Store::shared_azurite(false).await.unwrap()).await;
}

needs!(Node => async fn lease_is_released_with_sas_on_azurite);

async fn a_sas_is_as_good_as_a_key(store: Store) {
    let mut scene = Scene::with(store, Credential::ServiceSas).await;
    scene.old.signal(Signal::QUIT).unwrap();
    let (message, code) = scene.supervisor_report().await;
    assert_eq!(code, Some(128 + 3), "{message}");
    assert!(message.contains("was released"), "{message}");
    let transcript = scene.old.transcript();
    assert!(!transcript.contains("sig="), "{transcript}");
    scene.assert_succeeded_by_release().await;
}

/// Uses a token, and a certificate that only `--ca-file` vouches for.
async fn supervisor_trusts_ca_of_runner() {
    let store = Store::shared_azurite(true).await.unwrap();
    let mut scene = Scene::with(store, Credential::Bearer).await;
    scene.signal_runner(Signal::KILL);
    let (message, _) = scene.supervisor_report().await;
    assert!(message.contains("was released"), "{message}");
    let transcript = scene.old.transcript();
    assert!(!scene.group.access.leaks_in(&transcript), "{transcript}");
    scene.assert_succeeded_by_release().await;
}

needs!(Node => async fn supervisor_trusts_ca_of_runner);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_elections_of_a_process_are_released() {
    let store = Store::embedded().await.unwrap();
    let sink = Sink::start().await.unwrap();
    let group = Group::new(PROGRAM, &store, &sink);
    let (container, _) = group.election.split_once('/').unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file: PathBuf = folder.path().join("tenure.toml");
    let election_settings = |blob: &str| {
        let election = format!("[[election]]\nelection = \"{container}/{blob}\"\n");
        election + "command = [\"/bin/sleep\", \"60\"]\nwhile-leading = true\n"
    };
    let text = format!(
        "log = \"json\"\nlog-level = \"debug\"\n{}{}",
        election_settings("first"),
        election_settings("second")
    );
    std::fs::write(&file, text).unwrap();
    let mut command = Command::new(PROGRAM);
    command.arg("run").arg("--config").arg(&file);
    group.access.apply(&mut command);
    let mut process = Candidate::spawn("both", command).unwrap();
    let mut terms = Vec::new();
    for blob in ["first", "second"] {
        // The supervisor has the release request of the acquisition before the first renewal.
        let renewed = |line: &Line| {
            let election = line.event["election"].as_str().unwrap_or_default();
            line.name() == "renewed" && election.ends_with(blob)
        };
        terms.push(process.line("renewal", 0, TIMEOUT, renewed).await.term());
    }
    kill_process(process.runner().unwrap(), Signal::KILL).unwrap();
    process.end(TIMEOUT).await.unwrap();
    for (blob, term) in ["first", "second"].into_iter().zip(terms) {
        let problem = process.all_lines().await.into_iter().find(|line| {
            let election = line.event["election"].as_str().unwrap_or_default();
            line.event["class"] == "process" && election.ends_with(blob)
        });
        let problem = problem.unwrap_or_else(|| panic!("{}", process.transcript()));
        let expected = format!("its lease (term {term}) was released");
        assert!(problem.event["detail"].as_str().unwrap().contains(&expected), "{}", problem.event);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped_process_keeps_its_lease_and_expired_will_is_not_sent() {
    let mut scene = Scene::new().await;
    scene.signal_runner(Signal::STOP);
    let elected = scene.new.event("elected", TIMEOUT).await;
    assert!(elected.term() > scene.term);
    assert_eq!(scene.releases(), 0, "its lease ran out");
    let renewed = scene.new.event("renewed", TIMEOUT).await;
    scene.signal_runner(Signal::KILL);
    let (message, code) = scene.supervisor_report().await;
    assert_eq!(code, Some(128 + 9));
    assert!(message.contains("was not sent: the lease has expired"), "{message}");
    let releases =
        scene.lease_entries().into_iter().filter(|e| e.operation == OperationKind::Release);
    assert_eq!(releases.count(), 0);
    let line_count = scene.new.lines().len();
    scene.new.line("renewal", line_count, TIMEOUT, |line| line.name() == "renewed").await;
    assert_eq!(scene.new.count("stood-down"), 0, "{}: {}", renewed.term(), scene.new.transcript());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn graceful_exit_sends_no_last_will() {
    let mut scene = Scene::new().await;
    scene.old.signal(Signal::TERM).unwrap();
    assert_eq!(scene.supervisor_report().await, (String::new(), Some(0)));
    let releases =
        scene.lease_entries().into_iter().filter(|e| e.operation == OperationKind::Release);
    assert_eq!(releases.count(), 1);
    scene.assert_succeeded_by_release().await;
}

/// A script started a process before it became the supervisor.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_started_earlier_are_left_alone() {
    let store = Store::embedded().await.unwrap();
    let sink = Sink::start().await.unwrap();
    let group = Group::new(PROGRAM, &store, &sink);
    group.warm_up().await.unwrap();
    let inner = group.command("ada", &[], &["/bin/sleep", "600"]);
    let inner = inner.as_std();
    let mut command = Command::new("sh");
    command.args(["-c", "sleep 600 >/dev/null 2>&1 & echo $!; exec \"$@\"", "sh"]);
    command.arg(inner.get_program()).args(inner.get_args());
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let mut candidate = Candidate::spawn("ada", command).unwrap();
    candidate.event("turn-started", TIMEOUT).await;
    candidate.event("renewed", TIMEOUT).await;
    let background_process = candidate.lines()[0].event.as_i64().unwrap();
    let background_process = Pid::from_raw(background_process.try_into().unwrap()).unwrap();
    kill_process(candidate.runner().unwrap(), Signal::KILL).unwrap();
    assert_eq!(candidate.end(TIMEOUT).await.unwrap().code(), Some(128 + 9));
    let problem = candidate.event("problem", TIMEOUT).await;
    assert!(
        problem.event["detail"].as_str().unwrap().contains("was released"),
        "{}",
        problem.event
    );
    assert!(is_alive(background_process), "{}", candidate.transcript());
    kill_process(background_process, Signal::KILL).unwrap();
}

/// A terminal sends its signal to both processes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn terminal_interrupt_counts_once() {
    let mut scene = Scene::new().await;
    let runner = scene.old.runner().unwrap();
    scene.old.signal(Signal::INT).unwrap();
    kill_process(runner, Signal::INT).unwrap();
    assert_eq!(scene.supervisor_report().await, (String::new(), Some(0)));
    assert_eq!(scene.old.event("stood-down", TIMEOUT).await.event["reason"], "left");
}

/// A runner that does not wait for its work leaves the release to the supervisor.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn second_signal_releases_the_lease() {
    let mut scene = Scene::new().await;
    let mut group = scene.group.clone();
    group.election += "-command";
    group.timer = ["--while-leading", "--grace=300s"];
    let ignoring_term = ["sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.05; done"];
    scene.old = Candidate::spawn("deaf", group.command("deaf", &TIMINGS, &ignoring_term)).unwrap();
    scene.old.event("handler", TIMEOUT).await;
    let before = scene.releases();
    scene.old.signal(Signal::TERM).unwrap();
    scene.old.event("leaving", TIMEOUT).await;
    // Repeated signals within a second count once. The lease is renewed every four seconds, so a
    // renewal shows that the second has passed.
    for _ in 0..2 {
        let from = scene.old.lines().len();
        scene.old.line("renewal", from, TIMEOUT, |line| line.name() == "renewed").await;
    }
    scene.old.signal(Signal::TERM).unwrap();
    let (message, code) = scene.supervisor_report().await;
    assert_eq!(code, Some(1), "{message}");
    assert!(message.contains("ended with exit code 1; all its processes have exited"), "{message}");
    assert!(message.contains("was released"), "{message}");
    assert_eq!(scene.releases(), before + 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_dies_with_its_supervisor_and_its_lease_runs_out() {
    let mut scene = Scene::new().await;
    let runner = scene.old.runner().unwrap();
    kill_process(scene.old.id().unwrap(), Signal::KILL).unwrap();
    assert_eq!(scene.old.end(TIMEOUT).await.unwrap().code(), None);
    let dying = async {
        while is_alive(runner) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, dying).await.expect("it dies with its supervisor");
    let elected = scene.new.event("elected", TIMEOUT).await;
    assert!(elected.term() > scene.term);
    assert_eq!(scene.releases(), 0);
}

/// The service does not answer, and the supervisor must not retry forever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_cannot_be_released_runs_out() {
    let store = Store::embedded().await.unwrap();
    let sink = Sink::start().await.unwrap();
    let mut group = Group::new(PROGRAM, &store, &sink);
    group.warm_up().await.unwrap();
    let connection_string = group.connection_string.clone();
    let (proxy, proxy_connection_string) =
        tenure_tests::Proxy::for_store_with_witness(&connection_string, |_| {}).await.unwrap();
    group.access = Access::from_connection_string(proxy_connection_string);
    let mut old = group.start("old", &[]).unwrap();
    let term = old.event("renewed", TIMEOUT).await.term();
    proxy.set_mode(tenure_tests::Mode::Drop);
    kill_process(old.runner().unwrap(), Signal::KILL).unwrap();
    assert_eq!(old.end(TIMEOUT).await.unwrap().code(), Some(128 + 9));
    let problem = old.event("problem", TIMEOUT).await;
    let detail = problem.event["detail"].as_str().unwrap();
    let expected = format!("its lease (term {term}) could not be released before it expired: ");
    assert!(detail.contains(&expected), "{detail}");
}
