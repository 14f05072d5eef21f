//! A transfer to any candidate, break, the longest tenure, and a slow start.

use super::stage::{SOON, Stage, address, code, event, said};
use std::time::Duration;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_resigns_makes_way() {
    let stage = Stage::embedded().await;
    let candidates = stage.started(&["ada", "ben"]).await;
    let order = stage.transfer(&[]).await;
    assert_eq!(code(&order), 0, "{}", said(&order));
    assert!(said(&order).contains("ben leads with term"), "{}", said(&order));
    let stood_down = event(&candidates[0], "stood-down", 0).await;
    assert_eq!(stood_down.event["reason"], "resigned");
    candidates[1].event("elected", SOON).await;
    assert_eq!(stage.sink.overlap().1, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broken_lease_is_won_by_another_after_its_rest() {
    let stage = Stage::embedded().await;
    let candidates = stage.started(&["ada", "ben"]).await;
    let election = &stage.group.election;
    let asked = stage.operate(&["break", election]).await;
    assert_eq!(code(&asked), 2, "{}", said(&asked));
    assert!(said(&asked).contains("add --yes") && said(&asked).contains("ada"), "{}", said(&asked));
    assert_eq!(candidates[0].count("stood-down"), 0);

    let done = stage.operate(&["break", election, "--yes"]).await;
    assert_eq!(code(&done), 0, "{}", said(&done));
    let stood_down = event(&candidates[0], "stood-down", 0).await;
    assert_eq!(stood_down.event["reason"], "lease-lost");
    let winners = candidates.iter().map(|c| c.count("elected")).sum::<usize>();
    assert_eq!(winners, 1, "before the rest of the lease has run out");
}

async fn probe(url: &str) -> (u16, String) {
    // reqwest is built without a provider of its own; a second call changes nothing.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let answer = reqwest::Client::builder().no_proxy().build().unwrap().get(url).send().await;
    let answer = answer.unwrap();
    (answer.status().as_u16(), answer.text().await.unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_candidate_that_is_not_ready_stays_out() {
    let stage = Stage::embedded().await;
    let ready = tempfile::tempdir().unwrap();
    let flag = ready.path().join("ready");
    let command = format!("test -z \"$AZURE_STORAGE_CONNECTION_STRING\" -a -e {}", flag.display());
    let first = stage.start("ada", &["--ready-cmd", &command]);
    let notes = |words: &'static str| {
        move |line: &tenure_tests::Line| {
            line.event["detail"].as_str().is_some_and(|detail| detail.contains(words))
        }
    };
    first.line("note", 0, SOON, notes("not ready yet")).await;
    let readyz = format!("{}/readyz", address(&first).await);
    let (status, why) = probe(&readyz).await;
    assert!(status == 503 && why.contains("not ready"), "{status} {why}");
    // Until then nobody leads.
    let mut second = stage.start("ben", &[]);
    second.event("elected", SOON).await;
    std::fs::write(&flag, "").unwrap();
    first.line("note", 0, SOON, notes("ready, so this candidate now contends")).await;
    assert_eq!(first.count("elected"), 0, "{}", first.transcript());
    while probe(&readyz).await.0 != 200 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    second.terminate(SOON).await.unwrap();
    first.event("elected", SOON).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_out_of_range_is_refused() {
    let stage = Stage::embedded().await;
    let run = ["run", &stage.group.election, "--every", "1h"];
    let told = stage.operate(&[&run[..], &["--max-tenure", "10s", "--", "true"]].concat()).await;
    assert_eq!(code(&told), 2, "{}", said(&told));
    assert!(said(&told).contains("--max-tenure"), "{}", said(&told));
}
