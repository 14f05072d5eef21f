//! Problems with a storage account, one at a time, and their reports: in `tenure status`, `tenure
//! check`, the log of `tenure run` and its `/readyz`.

mod scene;
mod table;

use scene::{Scene, run_limited};
use table::{Cause, LEADER_PROBLEMS, PROBLEMS};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_problem_is_reported_with_its_cause() {
    let rows = PROBLEMS.iter().map(|row| async move {
        let scene = Scene::with_cause(row.cause).await;
        let mut mismatches = Vec::from_iter(scene.status(row).await);
        mismatches.extend(scene.account(row).await);
        mismatches.extend(scene.lock(row).await);
        mismatches.extend(scene.candidate(row).await);
        mismatches
    });
    let mismatches = run_limited(3, rows).await;
    assert!(mismatches.is_empty(), "{}", mismatches.join("\n\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn infinite_lease_is_ended_by_break() {
    Scene::with_cause(Cause::InfiniteLease).await.assert_break_ends_lease().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_clock_is_reported_once() {
    Scene::with_cause(Cause::ClockBehind(10))
        .await
        .assert_clock_reported("this machine's clock is 10m behind")
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leader_log_names_cause_of_lost_lease() {
    let rows = LEADER_PROBLEMS
        .iter()
        .map(|row| async move { Scene::without_problem().await.leader(row).await });
    let mismatches = run_limited(3, rows).await;
    assert!(mismatches.is_empty(), "{}", mismatches.join("\n\n"));
}
