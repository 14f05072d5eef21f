//! Work that lasts as long as the leadership.

use tenure_tests::Candidate;

use super::stage::{Stage, TIMEOUT, code, event, output_text};

/// Script that prints its term at the start, and a line when it receives SIGTERM.
const DAEMON: &str = "trap 'echo told to end; exit 0' TERM; echo term $TENURE_TERM; \
                      while :; do sleep 0.1; done";

fn daemon(stage: &Stage, name: &str, extra_args: &[&str], script: &str) -> Candidate {
    let mut group = stage.group.clone();
    group.timer = ["--poll", "1s"];
    let mut args = vec!["--while-leading"];
    args.extend(extra_args);
    let command = group.command(name, &args, &["sh", "-c", script]);
    Candidate::spawn(name, command).unwrap()
}

async fn wait_for_output(candidate: &Candidate, text: &str, after: usize) {
    let line =
        |line: &tenure_tests::Line| line.event["line"].as_str().is_some_and(|l| l.contains(text));
    candidate.line(text, after, TIMEOUT, line).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn daemon_runs_once_per_leadership_and_ends_with_it() {
    let stage = Stage::embedded().await;
    let mut first = daemon(&stage, "ada", &[], DAEMON);
    let term = first.event("elected", TIMEOUT).await.term();
    wait_for_output(&first, &format!("term {term}"), 0).await;
    let second = daemon(&stage, "ben", &[], DAEMON);
    second.event("following", TIMEOUT).await;
    // Renewals continue in parallel.
    for after in [0, 1, 2] {
        let renewals = |line: &tenure_tests::Line| line.name() == "renewed";
        let line_count = first.lines().len().min(after);
        first.line("renewal", line_count, TIMEOUT, renewals).await;
    }
    assert_eq!(first.count("turn-started"), 1);
    first.terminate(TIMEOUT).await.unwrap();
    wait_for_output(&first, "told to end", 0).await;
    let next = second.event("elected", TIMEOUT).await.term();
    assert!(next > term);
    wait_for_output(&second, &format!("term {next}"), 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_daemon_makes_another_candidate_take_over() {
    let stage = Stage::embedded().await;
    let first = daemon(&stage, "ada", &["--cool-down", "1h"], "sleep 3; exit 3");
    first.event("elected", TIMEOUT).await;
    let second = daemon(&stage, "ben", &[], DAEMON);
    assert_eq!(event(&first, "stood-down", 0).await.event["reason"], "work-failed");
    second.event("elected", TIMEOUT).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn daemon_is_handed_over_directly_to_successor() {
    let stage = Stage::embedded().await;
    let first = daemon(&stage, "ada", &[], DAEMON);
    let term = first.event("elected", TIMEOUT).await.term();
    wait_for_output(&first, &format!("term {term}"), 0).await;
    let others = ["ben", "cleo"].map(|name| daemon(&stage, name, &[], DAEMON));
    for other in &others {
        other.event("following", TIMEOUT).await;
    }
    let order = stage.transfer(&["--to", "cleo"]).await;
    assert_eq!(code(&order), 0, "{}", output_text(&order));
    wait_for_output(&first, "told to end", 0).await;
    assert_eq!(event(&first, "stood-down", 0).await.event["reason"], "handed-over");
    let next = others[1].event("elected", TIMEOUT).await.term();
    wait_for_output(&others[1], &format!("term {next}"), 0).await;
    assert!(next > term);
    assert_eq!((others[0].count("elected"), first.count("elected")), (0, 1));
}
