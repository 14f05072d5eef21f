//! Updates that add `--shares` and remove it again. Processes with and without shares run at the
//! same time, but no share has a worker while the unsplit work runs. protocol.md §14.6.

use std::time::Duration;

use rustix::process::{Signal, kill_process};
use tenure_tests::{Candidate, Line, Store};
use tokio::time::{sleep, timeout};

use super::processes::{SHARES, Stage, beats};

/// Limit of waits without a specific bound, on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(240);

/// With this poll interval, a leader without shares checks for members every 37.5 s.
const POLL: [&str; 2] = ["--poll", "500ms"];

/// Waits for a problem that contains this text.
pub(super) async fn wait_for_problem(candidate: &Candidate, text: &str) {
    let matches = |line: &Line| {
        line.name() == "problem" && line.event["detail"].as_str().is_some_and(|d| d.contains(text))
    };
    candidate.line(text, 0, TIMEOUT, matches).await;
}

/// Returns the numbers of shares in the order of their work; 0 is the unsplit work.
fn phases(stage: &Stage) -> Vec<u32> {
    let mut phases = beats(&stage.beats_file).iter().map(|beat| beat.share.0).collect::<Vec<_>>();
    phases.dedup();
    phases
}

/// Waits until the unsplit work runs again, after these phases.
async fn wait_for_unsplit_work(stage: &Stage, before: &[u32]) {
    let expected = [before, &[0]].concat();
    let waiting = async {
        while phases(stage) != expected {
            assert!(expected.starts_with(&phases(stage)), "{:?}", beats(&stage.beats_file));
            sleep(Duration::from_millis(100)).await;
        }
    };
    let result = timeout(TIMEOUT, waiting).await;
    assert!(result.is_ok(), "{expected:?}: {:?}", beats(&stage.beats_file));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_update_adds_shares_and_removes_them_and_no_work_runs_twice() {
    let store = Store::embedded().await.unwrap();
    let mut stage = Stage::new(&store).await;
    stage.lease = Duration::from_secs(30);
    let mut old = stage.start_without_shares("old", &POLL);
    wait_for_unsplit_work(&stage, &[]).await;

    // Adds shares while the leader without them lives.
    let mut ada = stage.start("ada", &POLL);
    wait_for_problem(&ada, "old leads").await;
    let mut ben = stage.start("ben", &POLL);
    wait_for_problem(&old, "it resigns. Start it with --shares").await;
    stage.balanced(&["ada", "ben"], SHARES).await;
    old.kill().await.unwrap();

    // Removes shares: one member dies with its supervisor, and only the runner of the other one.
    let mut new = stage.start_without_shares("new", &POLL);
    new.event("following", TIMEOUT).await;
    ada.kill().await.unwrap();
    kill_process(ben.runner().unwrap(), Signal::KILL).unwrap();
    assert_eq!(ben.end(TIMEOUT).await.unwrap().code(), Some(128 + 9));
    // The coordinating election is free while the leases of the first member's shares remain.
    let broken = stage.command(&["break", "--period", "0s", "--yes"]).await;
    assert_eq!(broken.status.code(), Some(0), "{broken:?}");
    wait_for_problem(&new, "is split into shares, and").await;
    wait_for_unsplit_work(&stage, &[0, SHARES]).await;

    // Adds shares again: members of the same names find their former plan.
    let _ada = stage.start("ada", &POLL);
    let _ben = stage.start("ben", &POLL);
    wait_for_problem(&new, "it resigns. Start it with --shares").await;
    stage.balanced(&["ada", "ben"], SHARES).await;
    new.kill().await.unwrap();
    assert_eq!(phases(&stage), [0, SHARES, 0, SHARES], "{:?}", beats(&stage.beats_file));
}
