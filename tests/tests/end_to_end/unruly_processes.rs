//! Real `tenure run` processes with a misbehaving handler, which harms neither the process nor the
//! election.

use crate::PROGRAM;
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;
use tenure_tests::candidate::Line;
use tenure_tests::{Candidate, Group, Sink, Store, UNRULY_HANDLER};

/// Limit of waits without a specific bound, on a busy machine.
const TIMEOUT: Duration = tenure_tests::PATIENCE;

struct Scene {
    _store: Store,
    sink: Sink,
    group: Group,
}

impl Scene {
    async fn new() -> Self {
        let store = Store::embedded().await.unwrap();
        let sink = Sink::start().await.unwrap();
        let mut group = Group::new(PROGRAM, &store, &sink);
        group.timer = ["--every", "1s"];
        group.warm_up().await.unwrap();
        Self { _store: store, sink, group }
    }

    fn start(&self, name: &str, mode: &str, election: &str) -> Candidate {
        let mut group = self.group.clone();
        group.election = format!("{}-{election}", group.election);
        let mode = format!("UNRULY={mode}");
        let handler = Path::new(UNRULY_HANDLER);
        group.start_with(name, &group.access, handler, &["--env", &mode]).unwrap()
    }
}

/// Waits until `candidate` has printed `count` events of this name.
async fn wait_for_count(candidate: &Candidate, name: &str, count: usize) -> Line {
    let mut after = 0;
    loop {
        let line = candidate.line(name, after, TIMEOUT, |line| line.name() == name).await;
        let lines = candidate.lines();
        let actual_count = lines.iter().filter(|line| line.name() == name).count();
        if actual_count >= count {
            return line;
        }
        after = lines.iter().rposition(|line| line.name() == name).unwrap() + 1;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_election_goes_on_beside_a_turn_that_never_ends() {
    let mut scene = Scene::new().await;
    scene.group.patient_timings = true;
    let modes = ["spin", "wait", "flood", "requests"];
    let mut candidates = modes.map(|mode| scene.start(mode, mode, mode));
    for candidate in &mut candidates {
        candidate.event("turn-started", TIMEOUT).await;
        wait_for_count(candidate, "renewed", 3).await;
        assert_eq!(candidate.count("elected"), 1, "{}", candidate.transcript());
        assert_eq!(candidate.count("stood-down"), 0, "{}", candidate.transcript());
        assert_eq!(candidate.count("turn-ended"), 0, "{}", candidate.transcript());
    }
    for candidate in &mut candidates {
        let status = candidate.terminate(TIMEOUT).await.unwrap();
        assert!(status.success(), "{}", candidate.transcript());
        let ended = candidate.event("turn-ended", TIMEOUT).await;
        assert_eq!(ended.event["outcome"], "cut-off", "{}", candidate.transcript());
        let stood_down = candidate.event("stood-down", TIMEOUT).await;
        assert_eq!(stood_down.event["reason"], "left", "{}", candidate.transcript());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_leak_and_a_trap_cost_turns_only() {
    let scene = Scene::new().await;
    let modes = [
        ("leak", "it needs more memory than its limit"),
        ("trap-at-start", "it panicked or aborted"),
    ];
    let mut candidates = modes.map(|(mode, _)| scene.start(mode, mode, mode));
    for (candidate, (_, expected)) in candidates.iter_mut().zip(modes) {
        let ended = candidate.event("turn-ended", TIMEOUT).await;
        assert_eq!(ended.event["outcome"], "trapped", "{}", ended.event);
        let detail = ended.event["detail"].as_str().unwrap();
        assert!(detail.starts_with(expected), "{detail}");
        wait_for_count(candidate, "turn-ended", 2).await;
        assert!(candidate.is_alive(), "{}", candidate.transcript());
        let peak = candidate.peak_memory().unwrap();
        assert!(peak < 1024 * 1024 * 1024, "{peak} bytes");
        assert!(
            candidate.terminate(TIMEOUT).await.unwrap().success(),
            "{}",
            candidate.transcript()
        );
    }
}

/// Asserts that a leader frozen for longer than its lease makes no progress when it resumes.
async fn assert_frozen_leader_is_cut_off(mode: &str) {
    let scene = Scene::new().await;
    let old = scene.start("old", mode, mode);
    let term = old.event("turn-started", TIMEOUT).await.term();
    let new = scene.start("new", mode, mode);
    new.event("following", TIMEOUT).await;
    if mode == "requests" {
        scene.sink.wait_for_term(term, TIMEOUT).await;
    }
    old.signal(Signal::STOP).unwrap();
    let later = new.event("turn-started", TIMEOUT).await.term();
    if mode == "requests" {
        scene.sink.wait_for_term(later, TIMEOUT).await;
    }
    let before = old.lines().len();
    old.signal(Signal::CONT).unwrap();
    let ended = old.line("end", before, TIMEOUT, |line| line.name() == "turn-ended").await;
    assert_eq!(ended.event["outcome"], "cut-off", "{}", old.transcript());
    let stood_down = old.line("end", before, TIMEOUT, |line| line.name() == "stood-down").await;
    assert_eq!(stood_down.term(), term, "{}", old.transcript());
    old.line("follower", before, TIMEOUT, |line| line.name() == "following").await;
    assert_eq!(new.count("stood-down"), 0, "{}", new.transcript());
    let (overlap, stale) = scene.sink.overlap();
    assert_eq!(stale, 0, "stale requests arrived for {overlap:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_spinning_leader_that_was_frozen_is_cut_off() {
    assert_frozen_leader_is_cut_off("spin").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_requesting_leader_that_was_frozen_sends_nothing_more() {
    assert_frozen_leader_is_cut_off("requests").await;
}
