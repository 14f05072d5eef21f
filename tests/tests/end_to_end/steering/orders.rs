//! A transfer to any candidate, break, the longest tenure, and a slow start.

use super::stage::{Stage, TIMEOUT, address, code, event, output_text};
use std::time::Duration;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resigned_leader_makes_way() {
    let stage = Stage::embedded().await;
    let candidates = stage.start_all(&["ada", "ben"]).await;
    let order = stage.transfer(&[]).await;
    assert_eq!(code(&order), 0, "{}", output_text(&order));
    assert!(output_text(&order).contains("ben leads with term"), "{}", output_text(&order));
    let stood_down = event(&candidates[0], "stood-down", 0).await;
    assert_eq!(stood_down.event["reason"], "resigned");
    candidates[1].event("elected", TIMEOUT).await;
    assert_eq!(stage.sink.overlap().1, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broken_lease_is_won_only_after_break_period() {
    let stage = Stage::embedded().await;
    let candidates = stage.start_all(&["ada", "ben"]).await;
    let election = &stage.group.election;
    let output = stage.run_command(&["break", election]).await;
    assert_eq!(code(&output), 2, "{}", output_text(&output));
    assert!(
        output_text(&output).contains("add --yes") && output_text(&output).contains("ada"),
        "{}",
        output_text(&output)
    );
    assert_eq!(candidates[0].count("stood-down"), 0);

    let done = stage.run_command(&["break", election, "--yes"]).await;
    assert_eq!(code(&done), 0, "{}", output_text(&done));
    let stood_down = event(&candidates[0], "stood-down", 0).await;
    assert_eq!(stood_down.event["reason"], "lease-lost");
    let winners = candidates.iter().map(|c| c.count("elected")).sum::<usize>();
    assert_eq!(winners, 1, "before the rest of the lease has run out");
}

async fn probe(url: &str) -> (u16, String) {
    // reqwest is built without a default crypto provider. A second call has no effect.
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
    first.line("note", 0, TIMEOUT, notes("not ready yet")).await;
    let readyz = format!("{}/readyz", address(&first).await);
    let (status, reason) = probe(&readyz).await;
    assert!(status == 503 && reason.contains("not ready"), "{status} {reason}");
    // Until then no candidate leads.
    let mut second = stage.start("ben", &[]);
    second.event("elected", TIMEOUT).await;
    std::fs::write(&flag, "").unwrap();
    first.line("note", 0, TIMEOUT, notes("ready, so this candidate now contends")).await;
    assert_eq!(first.count("elected"), 0, "{}", first.transcript());
    while probe(&readyz).await.0 != 200 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    second.terminate(TIMEOUT).await.unwrap();
    first.event("elected", TIMEOUT).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn max_tenure_out_of_range_is_rejected() {
    let stage = Stage::embedded().await;
    let run = ["run", &stage.group.election, "--every", "1h"];
    let output =
        stage.run_command(&[&run[..], &["--max-tenure", "10s", "--", "true"]].concat()).await;
    assert_eq!(code(&output), 2, "{}", output_text(&output));
    assert!(output_text(&output).contains("--max-tenure"), "{}", output_text(&output));
}
