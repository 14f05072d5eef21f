//! Members with partial access to the account. protocol.md §14.2, §14.3.

use std::time::Duration;

use tenure_tests::proxy::{Mode, Proxy};
use tenure_tests::{PATIENCE, Store};
use tokio::time::{sleep, timeout};

use super::processes::{SHARES, Stage, beats, violations};
use super::rollout::wait_for_problem;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_cannot_read_the_plan_loses_its_shares_to_a_new_split() {
    let store = Store::embedded().await.unwrap();
    let (proxy, proxied) = Proxy::for_store(&store.connection_string()).await.unwrap();
    let mut stage = Stage::new(&store).await;
    stage.lease = Duration::from_secs(30);
    let ada = stage.start("ada", &[]);
    stage.balanced(&["ada"], SHARES).await;
    let _ben = stage.start_through_proxy(&proxied, "ben");
    stage.balanced(&["ada", "ben"], SHARES).await;

    proxy.set_mode(Mode::RefusePlanReads);
    let output = stage.command(&["reshare", "--shares", "4", "--yes"]).await;
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    wait_for_problem(&ada, "is held by ben, which does not release it").await;
    let works = async {
        while beats(&stage.beats_file).iter().all(|beat| beat.share.0 != 4) {
            sleep(Duration::from_millis(100)).await;
        }
    };
    assert!(timeout(PATIENCE, works).await.is_ok(), "{}", ada.transcript());
    proxy.set_mode(Mode::Pass);
    stage.balanced(&["ada", "ben"], 4).await;
    assert_eq!(violations(&beats(&stage.beats_file)), [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn coordinator_with_refused_signs_makes_way() {
    let store = Store::embedded().await.unwrap();
    let (proxy, proxied) = Proxy::for_store(&store.connection_string()).await.unwrap();
    let mut stage = Stage::new(&store).await;
    stage.lease = Duration::from_secs(30);
    let ada = stage.start_through_proxy(&proxied, "ada");
    stage.balanced(&["ada"], SHARES).await;
    let _ben = stage.start("ben", &[]);
    let mut cleo = stage.start("cleo", &[]);
    stage.balanced(&["ada", "ben", "cleo"], SHARES).await;

    proxy.set_mode(Mode::RefuseSigns);
    cleo.kill().await.unwrap();
    wait_for_problem(&ada, "the signs of life of this coordinator have failed").await;
    // A member without signs of life counts as gone, and hands over its shares.
    stage.balanced(&["ben"], SHARES).await;
    proxy.set_mode(Mode::Pass);
    stage.balanced(&["ada", "ben"], SHARES).await;
    assert_eq!(violations(&beats(&stage.beats_file)), [""; 0]);
}
