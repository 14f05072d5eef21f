//! Leaders whose commands resist termination are terminated, killed, frozen and cut off.
//!
//! `TENURE_TEST_COMMAND_ROUNDS` sets the number of rounds for each fault. The default is two: one
//! with a command for each slot and one with a command for the whole leadership.

use std::time::Instant;

use rustix::process::Signal;
use tenure_tests::Mode;

use super::round::{Round, rounds};
use super::stage::{TIMEOUT, turn_ended};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_is_dead_before_leaving_leader_releases() {
    rounds(async |mut round: Round| {
        assert!(round.old.terminate(TIMEOUT).await.unwrap().success(), "{round}");
        let ended = turn_ended(&round.old, 0).await;
        assert_eq!(ended.event["outcome"], "cut-off", "{round}");
        let stood_down = round.old.event("stood-down", TIMEOUT).await;
        assert_eq!(stood_down.event["reason"], "left", "{round}");
        assert!(round.releases() > 0, "it has released: {round}");
        round.assert_succeeded().await;
        round.assert_ended_in_time();
        let after = round.last_beat_after(ended.at);
        round.report(&format!("the last beat came {after} ms after the turn was over"));
        round
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_dies_with_a_leader_that_is_killed() {
    rounds(async |mut round: Round| {
        let killed_at = Instant::now();
        round.old.kill().await.unwrap();
        round.assert_succeeded().await;
        assert_eq!(round.releases(), 0, "with its supervisor: {round}");
        round.assert_ended_in_time();
        let after = round.last_beat_after(killed_at);
        round.report(&format!("the last beat came {after} ms after the kill"));
        round
    })
    .await;
}

/// The supervisor survives and releases the lease.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_is_dead_before_lease_of_killed_runner_is_released() {
    rounds(async |mut round: Round| {
        let killed_at = Instant::now();
        rustix::process::kill_process(round.old.runner().unwrap(), Signal::KILL).unwrap();
        let status = round.old.end(TIMEOUT).await.unwrap();
        assert_eq!(status.code(), Some(128 + 9), "{round}");
        assert_eq!(round.releases(), 1, "{round}");
        round.assert_succeeded().await;
        round.assert_ended_in_time();
        let after = round.last_beat_after(killed_at);
        round.report(&format!("the last beat came {after} ms after the kill"));
        round
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_of_frozen_leader_is_dead_before_validity_ends() {
    rounds(async |mut round: Round| {
        round.old.signal(Signal::STOP).unwrap();
        round.assert_succeeded().await;
        round.assert_ended_in_time();
        resume_and_leave(&mut round).await;
        round
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_of_cut_off_leader_is_dead_before_validity_ends() {
    rounds(async |mut round: Round| {
        round.proxy.set_mode(Mode::Drop);
        let ended = turn_ended(&round.old, 0).await;
        assert_eq!(ended.event["outcome"], "cut-off", "{round}");
        assert_eq!(round.alive(), [], "{round}");
        round.assert_succeeded().await;
        round.assert_ended_in_time();
        // The release was sent, although it does not arrive.
        assert!(round.releases() > 0, "{round}");
        round.proxy.set_mode(Mode::Pass);
        assert!(round.old.terminate(TIMEOUT).await.unwrap().success(), "{round}");
        round
    })
    .await;
}

/// The whole machine freezes and resumes later, the work first.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_that_was_frozen_with_its_leader_dies_when_it_wakes() {
    use super::processes::{supervisor, wait_until_dead};
    use rustix::process::kill_process;
    rounds(async |mut round: Round| {
        let (runner, supervisor) = (round.old.runner().unwrap(), supervisor(&round.old));
        let all = [round.family(), &[supervisor, runner, round.old.id().unwrap()]].concat();
        for pid in all.iter().rev() {
            kill_process(*pid, Signal::STOP).unwrap();
        }
        round.wait_for_later_term().await;
        assert_eq!(round.alive(), round.family(), "{round}");
        assert_eq!(round.stage.sink.overlap().1, 0, "{round}");
        let resumed_at = Instant::now();
        for pid in &all {
            kill_process(*pid, Signal::CONT).unwrap();
        }
        for pid in round.family() {
            wait_until_dead(*pid).await;
        }
        let after = resumed_at.elapsed();
        let (_, stale) = round.stage.sink.overlap();
        round.report(&format!("dead {} ms after it woke, {stale} stale beats", after.as_millis()));
        resume_and_leave(&mut round).await;
        round
    })
    .await;
}

/// Resumes a frozen leader, which finds its validity expired.
async fn resume_and_leave(round: &mut Round) {
    round.old.signal(Signal::CONT).unwrap();
    let ended = turn_ended(&round.old, 0).await;
    assert_eq!(ended.event["outcome"], "cut-off", "{round}");
    assert!(round.old.terminate(TIMEOUT).await.unwrap().success(), "{round}");
}
