//! Work that lasts as long as the leadership.

use tenure_tests::Candidate;

use super::stage::{SOON, Stage, code, event, said};

/// Says that it runs, under which term, and that it was told to end.
const DAEMON: &str = "trap 'echo told to end; exit 0' TERM; echo term $TENURE_TERM; \
                      while :; do sleep 0.1; done";

fn daemon(stage: &Stage, name: &str, more: &[&str], script: &str) -> Candidate {
    let mut group = stage.group.clone();
    group.timer = ["--poll", "1s"];
    let mut all = vec!["--while-leading"];
    all.extend(more);
    let command = group.command(name, &all, &["sh", "-c", script]);
    Candidate::spawn(name, command).unwrap()
}

async fn says(candidate: &Candidate, words: &str, after: usize) {
    let line =
        |line: &tenure_tests::Line| line.event["line"].as_str().is_some_and(|l| l.contains(words));
    candidate.line(words, after, SOON, line).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_runs_once_for_each_leadership_and_ends_with_it() {
    let stage = Stage::embedded().await;
    let mut first = daemon(&stage, "ada", &[], DAEMON);
    let term = first.event("elected", SOON).await.term();
    says(&first, &format!("term {term}"), 0).await;
    let second = daemon(&stage, "ben", &[], DAEMON);
    second.event("following", SOON).await;
    // Renewals go on beside it.
    for after in [0, 1, 2] {
        let renewals = |line: &tenure_tests::Line| line.name() == "renewed";
        let seen = first.lines().len().min(after);
        first.line("renewal", seen, SOON, renewals).await;
    }
    assert_eq!(first.count("turn-started"), 1);
    first.terminate(SOON).await.unwrap();
    says(&first, "told to end", 0).await;
    let next = second.event("elected", SOON).await.term();
    assert!(next > term);
    says(&second, &format!("term {next}"), 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_it_fails_another_candidate_takes_over() {
    let stage = Stage::embedded().await;
    let first = daemon(&stage, "ada", &["--cool-down", "1h"], "sleep 3; exit 3");
    first.event("elected", SOON).await;
    let second = daemon(&stage, "ben", &[], DAEMON);
    assert_eq!(event(&first, "stood-down", 0).await.event["reason"], "work-failed");
    second.event("elected", SOON).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_handed_over_with_nobody_in_between() {
    let stage = Stage::embedded().await;
    let first = daemon(&stage, "ada", &[], DAEMON);
    let term = first.event("elected", SOON).await.term();
    says(&first, &format!("term {term}"), 0).await;
    let others = ["ben", "cleo"].map(|name| daemon(&stage, name, &[], DAEMON));
    for other in &others {
        other.event("following", SOON).await;
    }
    let order = stage.transfer(&["--to", "cleo"]).await;
    assert_eq!(code(&order), 0, "{}", said(&order));
    says(&first, "told to end", 0).await;
    assert_eq!(event(&first, "stood-down", 0).await.event["reason"], "handed-over");
    let next = others[1].event("elected", SOON).await.term();
    says(&others[1], &format!("term {next}"), 0).await;
    assert!(next > term);
    assert_eq!((others[0].count("elected"), first.count("elected")), (0, 1));
}
