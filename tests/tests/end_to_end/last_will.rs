//! Processes of leaders that die, freeze and end, and what their supervisors do about it. protocol.md §7.3.

use crate::PROGRAM;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tenure_store::{Entry, Verb};
use tenure_tests::candidate::is_alive;
use tenure_tests::{Access, Candidate, Credential, Group, Line, Sink, Store, killed_calls, needs};
use tokio::process::Command;

/// For what has no bound of its own, on a busy machine.
const SOON: Duration = tenure_tests::PATIENCE;

/// The lease of these candidates, which is the longest.
const LEASE: Duration = Duration::from_secs(60);

/// The store may stand still for a while.
const TIMINGS: [&str; 8] =
    ["--lease", "60s", "--request-timeout", "15s", "--renew", "4s", "--poll", "1s"];

/// A leader at work, and who comes after it.
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
        let group = Group::with(PROGRAM, &store, &sink, credential);
        group.warm_up().await.unwrap();
        if credential != Credential::SharedKey {
            group.outsider().create_container().await.unwrap();
        }
        let old = group.start("old", &TIMINGS).unwrap();
        old.event("elected", SOON).await;
        // Handed over with a renewal, too.
        let renewed = old.event("renewed", SOON).await;
        let new = group.start("new", &TIMINGS).unwrap();
        new.event("following", SOON).await;
        Self { store, _sink: sink, group, old, new, term: renewed.term() }
    }

    async fn new() -> Self {
        Self::with(Store::embedded().await.unwrap(), Credential::SharedKey).await
    }

    fn hit_runner(&self, signal: Signal) {
        kill_process(self.old.runner().unwrap(), signal).unwrap();
    }

    /// What the supervisor of the old leader said at the end, and its exit code.
    async fn last_words(&mut self) -> (String, Option<i32>) {
        let code = self.old.end(SOON).await.unwrap().code();
        let of_process = |line: &Line| line.event["class"] == "process";
        let lines: Vec<_> = self.old.all_lines().await.into_iter().filter(of_process).collect();
        assert!(lines.len() <= 1, "{}", self.old.transcript());
        let told = lines.first().map(|line| line.event["detail"].as_str().unwrap().to_owned());
        (told.unwrap_or_default(), code)
    }

    /// What the store was asked for the lease.
    fn about_the_lease(&self) -> Vec<Entry> {
        let Store::Embedded(store) = &self.store else { panic!("it has no such log") };
        let of_lease =
            [Verb::Acquire, Verb::Renew, Verb::Change, Verb::Release].map(|verb| verb.name());
        store.with(|service| {
            let entries = service.log().entries();
            entries.filter(|entry| of_lease.contains(&entry.verb.name())).cloned().collect()
        })
    }

    /// The releases that were done.
    fn releases(&self) -> usize {
        let done = |entry: &&Entry| entry.verb == Verb::Release && entry.status == 200;
        self.about_the_lease().iter().filter(done).count()
    }

    /// The next leader came by the release, and not because the lease ran out.
    async fn is_succeeded_early(&self) {
        let elected = self.new.event("elected", SOON).await;
        assert!(elected.term() > self.term, "{}", self.new.transcript());
        if let Store::Embedded(_) = self.store {
            let all = self.about_the_lease();
            let released = all.iter().position(|entry| entry.verb == Verb::Release).unwrap();
            let held = all[..released].iter().rfind(|entry| {
                matches!((entry.verb, entry.status), (Verb::Renew, 200) | (Verb::Acquire, 201))
            });
            let next = all[released..].iter().find(|entry| entry.verb == Verb::Acquire).unwrap();
            let took = next.at - held.unwrap().at;
            assert!(took < LEASE, "{took:?} after the last renewal: {all:#?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lease_of_a_process_that_is_killed_is_released() {
    let mut scene = Scene::new().await;
    let killed = Instant::now();
    scene.hit_runner(Signal::KILL);
    let (told, code) = scene.last_words().await;
    println!("answered {} ms after the kill", killed.elapsed().as_millis());
    assert_eq!(code, Some(128 + 9));
    let term = scene.term;
    assert_eq!(
        told,
        format!(
            "the process that ran the election was killed by SIGKILL; nothing of its work runs any more, and its \
             lease (term {term}) was released, so another candidate can lead"
        )
    );
    assert_eq!(scene.releases(), 1);
    scene.is_succeeded_early().await;
    let said = scene.old.transcript();
    assert!(!scene.group.access.is_told_by(&said) && !said.contains("SharedKey "), "{said}");
}

/// `chaos --calls` does the same more often.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_byte_of_a_call_leaves_after_the_end_of_its_process() {
    let store = Store::embedded().await.unwrap();
    let round = killed_calls::round(PROGRAM, &store).await.unwrap();
    println!("{round:?}");
    assert_eq!(round.late, 0, "{round:?}");
}

/// As systemd ends what shows no sign of life, and as a program ends that runs out of memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lease_of_a_process_that_aborts_is_released() {
    let mut scene = Scene::new().await;
    scene.old.signal(Signal::ABORT).unwrap();
    let (told, code) = scene.last_words().await;
    assert_eq!(code, Some(128 + 6), "{told}");
    assert!(told.contains("killed by SIGABRT") && told.contains("was released"), "{told}");
    scene.is_succeeded_early().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sas_is_as_good_as_a_key_on_the_embedded_store() {
    a_sas_is_as_good_as_a_key(Store::embedded().await.unwrap()).await;
}

async fn a_sas_is_as_good_as_a_key_on_azurite() {
    a_sas_is_as_good_as_a_key(Store::shared_azurite(false).await.unwrap()).await;
}

needs!(Node => async fn a_sas_is_as_good_as_a_key_on_azurite);

async fn a_sas_is_as_good_as_a_key(store: Store) {
    let mut scene = Scene::with(store, Credential::ServiceSas).await;
    scene.old.signal(Signal::QUIT).unwrap();
    let (told, code) = scene.last_words().await;
    assert_eq!(code, Some(128 + 3), "{told}");
    assert!(told.contains("was released"), "{told}");
    let said = scene.old.transcript();
    assert!(!said.contains("sig="), "{said}");
    scene.is_succeeded_early().await;
}

/// With a token, and a certificate that only `--ca-file` vouches for.
async fn the_supervisor_trusts_whom_its_runner_trusts() {
    let store = Store::shared_azurite(true).await.unwrap();
    let mut scene = Scene::with(store, Credential::Bearer).await;
    scene.hit_runner(Signal::KILL);
    let (told, _) = scene.last_words().await;
    assert!(told.contains("was released"), "{told}");
    let said = scene.old.transcript();
    assert!(!scene.group.access.is_told_by(&said), "{said}");
    scene.is_succeeded_early().await;
}

needs!(Node => async fn the_supervisor_trusts_whom_its_runner_trusts);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_elections_of_a_process_are_released() {
    let store = Store::embedded().await.unwrap();
    let sink = Sink::start().await.unwrap();
    let group = Group::new(PROGRAM, &store, &sink);
    let (container, _) = group.election.split_once('/').unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file: PathBuf = folder.path().join("tenure.toml");
    let of = |blob: &str| {
        let election = format!("[[election]]\nelection = \"{container}/{blob}\"\n");
        election + "command = [\"/bin/sleep\", \"60\"]\nwhile-leading = true\n"
    };
    let text = format!("log = \"json\"\nlog-level = \"debug\"\n{}{}", of("first"), of("second"));
    std::fs::write(&file, text).unwrap();
    let mut command = Command::new(PROGRAM);
    command.arg("run").arg("--config").arg(&file);
    group.access.give(&mut command);
    let mut process = Candidate::spawn("both", command).unwrap();
    let mut terms = Vec::new();
    for blob in ["first", "second"] {
        // The supervisor has the will of the acquisition before the lease is renewed.
        let renewed = |line: &Line| {
            let election = line.event["election"].as_str().unwrap_or_default();
            line.name() == "renewed" && election.ends_with(blob)
        };
        terms.push(process.line("renewal", 0, SOON, renewed).await.term());
    }
    kill_process(process.runner().unwrap(), Signal::KILL).unwrap();
    process.end(SOON).await.unwrap();
    for (blob, term) in ["first", "second"].into_iter().zip(terms) {
        let told = process.all_lines().await.into_iter().find(|line| {
            let election = line.event["election"].as_str().unwrap_or_default();
            line.event["class"] == "process" && election.ends_with(blob)
        });
        let told = told.unwrap_or_else(|| panic!("{}", process.transcript()));
        let expected = format!("its lease (term {term}) was released");
        assert!(told.event["detail"].as_str().unwrap().contains(&expected), "{}", told.event);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_stands_still_is_not_dead_and_a_will_that_is_too_old_is_not_sent() {
    let mut scene = Scene::new().await;
    scene.hit_runner(Signal::STOP);
    let elected = scene.new.event("elected", SOON).await;
    assert!(elected.term() > scene.term);
    assert_eq!(scene.releases(), 0, "its lease ran out");
    let renewed = scene.new.event("renewed", SOON).await;
    scene.hit_runner(Signal::KILL);
    let (told, code) = scene.last_words().await;
    assert_eq!(code, Some(128 + 9));
    assert!(told.contains("was not sent: the lease has expired"), "{told}");
    let releases = scene.about_the_lease().into_iter().filter(|e| e.verb == Verb::Release);
    assert_eq!(releases.count(), 0);
    let seen = scene.new.lines().len();
    scene.new.line("renewal", seen, SOON, |line| line.name() == "renewed").await;
    assert_eq!(scene.new.count("stood-down"), 0, "{}: {}", renewed.term(), scene.new.transcript());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_leaves_in_good_order_leaves_no_will() {
    let mut scene = Scene::new().await;
    scene.old.signal(Signal::TERM).unwrap();
    assert_eq!(scene.last_words().await, (String::new(), Some(0)));
    let releases = scene.about_the_lease().into_iter().filter(|e| e.verb == Verb::Release);
    assert_eq!(releases.count(), 1);
    scene.is_succeeded_early().await;
}

/// A script that has started something before it became the supervisor.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_was_there_before_is_left_alone() {
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
    candidate.event("turn-started", SOON).await;
    candidate.event("renewed", SOON).await;
    let stranger = candidate.lines()[0].event.as_i64().unwrap();
    let stranger = Pid::from_raw(stranger.try_into().unwrap()).unwrap();
    kill_process(candidate.runner().unwrap(), Signal::KILL).unwrap();
    assert_eq!(candidate.end(SOON).await.unwrap().code(), Some(128 + 9));
    let told = candidate.event("problem", SOON).await;
    assert!(told.event["detail"].as_str().unwrap().contains("was released"), "{}", told.event);
    assert!(is_alive(stranger), "{}", candidate.transcript());
    kill_process(stranger, Signal::KILL).unwrap();
}

/// What a terminal sends reaches both processes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupt_from_a_terminal_is_heard_once() {
    let mut scene = Scene::new().await;
    let runner = scene.old.runner().unwrap();
    scene.old.signal(Signal::INT).unwrap();
    kill_process(runner, Signal::INT).unwrap();
    assert_eq!(scene.last_words().await, (String::new(), Some(0)));
    assert_eq!(scene.old.event("stood-down", SOON).await.event["reason"], "left");
}

/// Who does not wait for work to end leaves the lease to the supervisor.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_signal_leaves_no_lease_behind() {
    let mut scene = Scene::new().await;
    let mut group = scene.group.clone();
    group.election += "-command";
    group.timer = ["--while-leading", "--grace=300s"];
    let deaf = ["sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.05; done"];
    scene.old = Candidate::spawn("deaf", group.command("deaf", &TIMINGS, &deaf)).unwrap();
    scene.old.event("handler", SOON).await;
    let before = scene.releases();
    scene.old.signal(Signal::TERM).unwrap();
    scene.old.event("leaving", SOON).await;
    // The same signal within a second counts once. The lease is renewed meanwhile, every four seconds: from one renewal to
    // the next that second is over.
    for _ in 0..2 {
        let from = scene.old.lines().len();
        scene.old.line("renewal", from, SOON, |line| line.name() == "renewed").await;
    }
    scene.old.signal(Signal::TERM).unwrap();
    let (told, code) = scene.last_words().await;
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("ended with exit code 1; nothing of its work runs any more"), "{told}");
    assert!(told.contains("was released"), "{told}");
    assert_eq!(scene.releases(), before + 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_dies_with_its_supervisor_and_its_lease_runs_out() {
    let mut scene = Scene::new().await;
    let runner = scene.old.runner().unwrap();
    kill_process(scene.old.id().unwrap(), Signal::KILL).unwrap();
    assert_eq!(scene.old.end(SOON).await.unwrap().code(), None);
    let dead = async {
        while is_alive(runner) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(SOON, dead).await.expect("it dies with its supervisor");
    let elected = scene.new.event("elected", SOON).await;
    assert!(elected.term() > scene.term);
    assert_eq!(scene.releases(), 0);
}

/// The service does not answer, and would not be asked for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_cannot_be_released_runs_out() {
    let store = Store::embedded().await.unwrap();
    let sink = Sink::start().await.unwrap();
    let mut group = Group::new(PROGRAM, &store, &sink);
    group.warm_up().await.unwrap();
    let known = group.connection_string.clone();
    let (proxy, through) = tenure_tests::Proxy::of_store_with(&known, |_| {}).await.unwrap();
    group.access = Access::with(through);
    let mut old = group.start("old", &[]).unwrap();
    let term = old.event("renewed", SOON).await.term();
    proxy.set(tenure_tests::Mode::Drop);
    kill_process(old.runner().unwrap(), Signal::KILL).unwrap();
    assert_eq!(old.end(SOON).await.unwrap().code(), Some(128 + 9));
    let told = old.event("problem", SOON).await;
    let told = told.event["detail"].as_str().unwrap();
    let expected = format!("its lease (term {term}) could not be released before it expired: ");
    assert!(told.contains(&expected), "{told}");
}
