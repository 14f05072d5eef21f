//! Transfers: each lands on its target, nobody else leads in between, and no turns overlap.
//!
//! `TENURE_TEST_TRANSFERS` sets their number.

use std::time::{Duration, Instant};

use tenure_tests::{Candidate, Store, needs, reserved};

use super::stage::{SOON, Stage, address, code, said};

/// Who won, in order.
fn winners(candidates: &[Candidate]) -> Vec<(Instant, String)> {
    let lines = candidates.iter().flat_map(|candidate| {
        let elected = candidate.lines().into_iter().filter(|line| line.name() == "elected");
        elected.map(|line| (line.at, candidate.name.clone()))
    });
    let mut winners: Vec<_> = lines.collect();
    winners.sort();
    winners
}

async fn transfers(store: Store, default: usize) {
    let count = std::env::var("TENURE_TEST_TRANSFERS").ok().and_then(|n| n.parse().ok());
    let count = count.unwrap_or(default);
    let stage = Stage::new(store).await;
    let names = ["ada", "ben", "cleo"];
    let candidates = stage.started(&names).await;
    let (mut leads, mut gaps, mut expected) = (0, Vec::new(), vec!["ada".to_owned()]);
    for round in 0..count {
        // To each of the others in turn.
        let successor = (leads + 1 + round % 2) % names.len();
        // Work is under way when it is ordered.
        let term =
            candidates[leads].lines().iter().rfind(|l| l.name() == "elected").unwrap().term();
        stage.sink.beat_of(term, SOON).await;
        let order = stage.order(&candidates[leads], &["transfer", "--to", names[successor]]).await;
        assert_eq!(code(&order), 0, "round {round}: {}", said(&order));
        expected.push(names[successor].to_owned());
        let stood_down = candidates[leads].lines().into_iter().rfind(|l| l.name() == "stood-down");
        let stood_down = stood_down.unwrap();
        assert_eq!(stood_down.event["reason"], "handed-over");
        let elected =
            candidates[successor].lines().into_iter().rfind(|l| l.name() == "elected").unwrap();
        gaps.push(elected.at.saturating_duration_since(stood_down.at));
        leads = successor;
    }
    let won: Vec<_> = winners(&candidates).into_iter().map(|(_, name)| name).collect();
    assert_eq!(won, expected);
    assert_eq!(stage.sink.overlap(), (Duration::ZERO, 0));
    assert_eq!(stage.sink.doubled_slots(), Vec::<u64>::new());
    gaps.sort();
    let at = |share: usize| gaps[(gaps.len() * share / 100).min(gaps.len() - 1)];
    println!(
        "{count} transfers; from the end of one term to the next: p50 {:?}, p99 {:?}",
        at(50),
        at(99)
    );
}

async fn on_azurite_each_lands_on_its_target() {
    transfers(Store::azurite().await.unwrap(), 4).await;
}

needs!(Node => async fn on_azurite_each_lands_on_its_target);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_the_embedded_store_too() {
    transfers(Store::embedded().await.unwrap(), 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grace_that_is_longer_than_a_transfer_may_take_does_not_prevent_it() {
    let mut stage = Stage::embedded().await;
    stage.group.turn_ms = 600_000;
    let leader = stage.start("ada", &["--grace", "10m"]);
    leader.event("turn-started", SOON).await;
    let successor = stage.start("ben", &[]);
    successor.event("following", SOON).await;
    let order = stage.order(&leader, &["transfer", "--to", "ben"]).await;
    assert_eq!(code(&order), 0, "{}", said(&order));
    let ended = leader.event("turn-ended", SOON).await;
    assert_eq!(ended.event["outcome"], "cut-off", "{:?}", ended.event);
    assert_eq!(stage.sink.overlap(), (Duration::ZERO, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_candidate_of_that_name_the_leader_goes_on() {
    let stage = Stage::embedded().await;
    let candidates = stage.started(&["ada", "ben"]).await;
    let order = stage.order(&candidates[0], &["transfer", "--to", "nobody"]).await;
    assert_eq!(code(&order), 2, "{}", said(&order));
    assert!(
        said(&order).contains("no candidate of that name announced itself"),
        "{}",
        said(&order)
    );
    assert_eq!(candidates[0].count("stood-down"), 0);
    let problems = |line: &tenure_tests::Line| line.name() == "problem";
    let problem = candidates[0].line("problem", 0, SOON, problems).await;
    assert!(problem.event["detail"].as_str().unwrap().contains("nobody"), "{:?}", problem.event);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_leader_is_found_by_the_address_on_record() {
    let stage = Stage::embedded().await;
    // A port of the kernel's choice, which has to be known before.
    let port = reserved().unwrap().port();
    let (listen, url) = (format!("127.0.0.1:{port}"), format!("http://127.0.0.1:{port}/"));
    let token = stage.token.path().to_str().unwrap();
    let more =
        ["--listen", &listen, "--address", &url, "--control-token-file", token, "--poll", "1s"];
    let leader = stage.group.start("ada", &more).unwrap();
    leader.event("elected", SOON).await;
    let successor = stage.start("ben", &[]);
    successor.event("following", SOON).await;
    let order = stage.operate(&["transfer", "--to", "ben", &stage.group.election]).await;
    assert_eq!(code(&order), 0, "{}", said(&order));
    assert!(said(&order).contains("ada handed over to ben"), "{}", said(&order));
    assert!(!address(&successor).await.is_empty());
}
