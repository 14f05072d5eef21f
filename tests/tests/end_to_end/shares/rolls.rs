//! An update that adds `--shares`, and one that removes it: processes with and without shares are there at a time, and
//! never is a share worked for while all of the work runs. protocol.md §14.6.

use std::time::Duration;

use rustix::process::{Signal, kill_process};
use tenure_tests::{Candidate, Line, Store};
use tokio::time::{sleep, timeout};

use super::processes::{SHARES, Stage, beats};

/// For what has no bound of its own, on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(240);

/// A poll of this length makes a leader without shares look for members every 37.5 s.
const POLL: [&str; 2] = ["--poll", "500ms"];

/// Waits for a problem that has this text.
pub(super) async fn wait_for_problem(candidate: &Candidate, text: &str) {
    let matches = |line: &Line| {
        line.name() == "problem" && line.event["detail"].as_str().is_some_and(|d| d.contains(text))
    };
    candidate.line(text, 0, TIMEOUT, matches).await;
}

/// Numbers of shares in the order in which they were worked for; 0 is all of the work.
fn phases(stage: &Stage) -> Vec<u32> {
    let mut phases = beats(&stage.beats_file).iter().map(|beat| beat.share.0).collect::<Vec<_>>();
    phases.dedup();
    phases
}

/// Waits until all of the work runs again, after these phases.
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

    // Shares are added while the leader without them lives.
    let mut ada = stage.start("ada", &POLL);
    wait_for_problem(&ada, "old leads").await;
    let mut ben = stage.start("ben", &POLL);
    wait_for_problem(&old, "it resigns. Start it with --shares").await;
    stage.balanced(&["ada", "ben"], SHARES).await;
    old.kill().await.unwrap();

    // They are removed: one member dies with its supervisor, and the runner of the other one.
    let mut new = stage.start_without_shares("new", &POLL);
    new.event("following", TIMEOUT).await;
    ada.kill().await.unwrap();
    kill_process(ben.runner().unwrap(), Signal::KILL).unwrap();
    assert_eq!(ben.end(TIMEOUT).await.unwrap().code(), Some(128 + 9));
    // The coordinating election is free while the leases of the first one's shares still last.
    let broken = stage.command(&["break", "--period", "0s", "--yes"]).await;
    assert_eq!(broken.status.code(), Some(0), "{broken:?}");
    wait_for_problem(&new, "is split into shares, and").await;
    wait_for_unsplit_work(&stage, &[0, SHARES]).await;

    // And added again: members of the same names find the plan that was theirs.
    let _ada = stage.start("ada", &POLL);
    let _ben = stage.start("ben", &POLL);
    wait_for_problem(&new, "it resigns. Start it with --shares").await;
    stage.balanced(&["ada", "ben"], SHARES).await;
    new.kill().await.unwrap();
    assert_eq!(phases(&stage), [0, SHARES, 0, SHARES], "{:?}", beats(&stage.beats_file));
}
