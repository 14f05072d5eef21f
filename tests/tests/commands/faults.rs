//! Leaders whose commands do not want to end are told to leave, killed and frozen.
//!
//! `TENURE_TEST_COMMAND_ROUNDS` says how often each; 2 times by itself.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use tenure_tests::Candidate;

use crate::stage::{BEATER, KIN, SOON, Stage, turn_ended};

fn rounds() -> usize {
    std::env::var("TENURE_TEST_COMMAND_ROUNDS").map_or(2, |rounds| rounds.parse().unwrap())
}

/// A leader, the standby, and all of the leader's family at work.
async fn at_work(stage: &Stage, round: usize) -> (Candidate, Candidate, u64) {
    let name = |which: &str| format!("{which}-{round}");
    let old = stage.start(&name("old"), &[], &[BEATER, KIN]);
    let term = old.event("turn-started", SOON).await.term();
    let new = stage.start(&name("new"), &[], &[BEATER, KIN]);
    new.event("following", SOON).await;
    stage.family_beats(term).await;
    (old, new, term)
}

/// Waits for the successor's work, and ends it.
async fn succeeded_by(stage: &Stage, term: u64, new: &mut Candidate) {
    let later = new.event("turn-started", SOON).await.term();
    assert!(later > term, "{}", new.transcript());
    stage.family_beats(later).await;
    let (overlap, stale) = stage.sink.overlap();
    assert_eq!(stale, 0, "stale beats arrived for {overlap:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_is_dead_before_a_leader_that_leaves_releases() {
    let stage = Stage::new().await;
    for round in 0..rounds() {
        let (mut old, mut new, term) = at_work(&stage, round).await;
        assert!(old.terminate(SOON).await.unwrap().success(), "{}", old.transcript());
        let ended = turn_ended(&old, 0).await;
        assert_eq!(ended.event["outcome"], "cut-off", "{}", old.transcript());
        let stood_down = old.event("stood-down", SOON).await;
        assert_eq!(stood_down.event["reason"], "left", "{}", old.transcript());
        succeeded_by(&stage, term, &mut new).await;
        let after = stage.last_beat_of(term).at.saturating_duration_since(ended.at);
        assert!(after < Duration::from_millis(100), "{after:?} after its turn was over");
        assert!(new.terminate(SOON).await.unwrap().success(), "{}", new.transcript());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_dies_with_a_leader_that_is_killed() {
    let stage = Stage::new().await;
    for round in 0..rounds() {
        let (mut old, mut new, term) = at_work(&stage, round).await;
        let killed = Instant::now();
        old.kill().await.unwrap();
        succeeded_by(&stage, term, &mut new).await;
        let after = stage.last_beat_of(term).at.saturating_duration_since(killed);
        println!("round {round}: the last beat came {after:?} after the kill");
        assert!(after < Duration::from_secs(1), "{after:?}");
        assert!(new.terminate(SOON).await.unwrap().success(), "{}", new.transcript());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_is_dead_before_the_validity_of_a_leader_that_is_frozen_ends() {
    let stage = Stage::new().await;
    for round in 0..rounds() {
        let (mut old, mut new, term) = at_work(&stage, round).await;
        old.signal(Signal::STOP).unwrap();
        succeeded_by(&stage, term, &mut new).await;
        let valid = |line: &tenure_tests::Line| line.event["valid_for_ms"].as_u64();
        let lines = old.lines();
        let (line, ms) =
            lines.iter().rev().find_map(|line| Some((line, valid(line)?))).expect("it was elected");
        let ends = line.at + Duration::from_millis(ms);
        let last = stage.last_beat_of(term).at;
        println!("round {round}: the last beat came {:?} before the end", ends - last.min(ends));
        assert!(last < ends, "{:?} after its validity", last - ends);
        let seen = lines.len();
        old.signal(Signal::CONT).unwrap();
        let ended = turn_ended(&old, seen).await;
        assert_eq!(ended.event["outcome"], "cut-off", "{}", old.transcript());
        for candidate in [&mut old, &mut new] {
            assert!(
                candidate.terminate(SOON).await.unwrap().success(),
                "{}",
                candidate.transcript()
            );
        }
    }
}
