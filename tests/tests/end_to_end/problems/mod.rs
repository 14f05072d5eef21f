//! Everything that can go wrong with a storage account, one after the other, and what each of those who
//! are asked about it says: `tenure status`, `tenure check`, the log of `tenure run` and its `/readyz`.

mod scene;
mod table;

use scene::{Scene, at_a_time};
use table::{ASKED, Cause, HELD};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_asks_is_told_the_cause() {
    let rows = ASKED.iter().map(|row| async move {
        let scene = Scene::set(row.cause).await;
        let mut wrong = Vec::from_iter(scene.status(row).await);
        wrong.extend(scene.account(row).await);
        wrong.extend(scene.lock(row).await);
        wrong.extend(scene.candidate(row).await);
        wrong
    });
    let wrong = at_a_time(3, rows).await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_without_an_end_is_ended_by_break() {
    Scene::set(Cause::InfiniteLease).await.broken().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_is_off_is_reported_once() {
    Scene::set(Cause::Behind(10)).await.clock("this machine's clock is 10m behind").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_is_told_what_became_of_its_lease() {
    let rows = HELD.iter().map(|row| async move { Scene::sound().await.leader(row).await });
    let wrong = at_a_time(3, rows).await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
