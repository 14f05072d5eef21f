//! Transfers: each reaches its target, no other candidate leads in between, and no turns overlap.
//!
//! `TENURE_TEST_TRANSFERS` sets their number.

use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tenure_tests::{Candidate, Store, needs};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::{Child, ChildStderr, Command};

use super::stage::{Stage, TIMEOUT, code, output_text};

/// Returns the winners, in order.
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
    let candidates = stage.start_all(&names).await;
    let (mut leader_index, mut gaps, mut expected) = (0, Vec::new(), vec!["ada".to_owned()]);
    for round in 0..count {
        // Transfers to each of the other candidates in turn.
        let successor = (leader_index + 1 + round % 2) % names.len();
        // A turn runs when the order is given.
        let term = candidates[leader_index]
            .lines()
            .iter()
            .rfind(|l| l.name() == "elected")
            .unwrap()
            .term();
        stage.sink.wait_for_term(term, TIMEOUT).await;
        let line_counts = [leader_index, successor].map(|at| candidates[at].lines().len());
        let order = stage.transfer(&["--to", names[successor]]).await;
        assert_eq!(code(&order), 0, "round {round}: {}", output_text(&order));
        expected.push(names[successor].to_owned());
        // The command ends once the record has the new term; the candidates may print it later.
        let event = async |at: usize, after: usize, name: &str| {
            candidates[at].line(name, after, TIMEOUT, |line| line.name() == name).await
        };
        let stood_down = event(leader_index, line_counts[0], "stood-down").await;
        assert_eq!(stood_down.event["reason"], "handed-over");
        let elected = event(successor, line_counts[1], "elected").await;
        gaps.push(elected.at.saturating_duration_since(stood_down.at));
        leader_index = successor;
    }
    let won: Vec<_> = winners(&candidates).into_iter().map(|(_, name)| name).collect();
    assert_eq!(won, expected);
    assert_eq!(stage.sink.overlap(), (Duration::ZERO, 0));
    assert_eq!(stage.sink.repeated_slots(), Vec::<u64>::new());
    gaps.sort();
    let at = |share: usize| gaps[(gaps.len() * share / 100).min(gaps.len() - 1)];
    println!(
        "{count} transfers; from the end of one term to the next: p50 {:?}, p99 {:?}",
        at(50),
        at(99)
    );
}

async fn transfers_reach_their_target_on_azurite() {
    transfers(Store::azurite().await.unwrap(), 4).await;
}

needs!(Node => async fn transfers_reach_their_target_on_azurite);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transfers_reach_their_target_on_embedded_store() {
    transfers(Store::embedded().await.unwrap(), 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_grace_does_not_prevent_transfer() {
    let mut stage = Stage::embedded().await;
    stage.group.turn_ms = 600_000;
    let leader = stage.start("ada", &["--grace", "10m"]);
    leader.event("turn-started", TIMEOUT).await;
    let successor = stage.start("ben", &[]);
    successor.event("following", TIMEOUT).await;
    let order = stage.transfer(&["--to", "ben"]).await;
    assert_eq!(code(&order), 0, "{}", output_text(&order));
    let ended = leader.event("turn-ended", TIMEOUT).await;
    assert_eq!(ended.event["outcome"], "cut-off", "{:?}", ended.event);
    assert_eq!(stage.sink.overlap(), (Duration::ZERO, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_candidate_of_that_name_the_leader_goes_on() {
    let stage = Stage::embedded().await;
    let candidates = stage.start_all(&["ada", "ben"]).await;
    let order = stage.transfer(&["--to", "nobody"]).await;
    assert_eq!(code(&order), 1, "{}", output_text(&order));
    assert!(
        output_text(&order).contains("no candidate of that name announced itself"),
        "{}",
        output_text(&order)
    );
    assert_eq!(candidates[0].count("stood-down"), 0);
    let problems = |line: &tenure_tests::Line| line.name() == "problem";
    let problem = candidates[0].line("problem", 0, TIMEOUT, problems).await;
    assert!(problem.event["detail"].as_str().unwrap().contains("nobody"), "{:?}", problem.event);
}

/// Starts a transfer to this candidate, and returns once its order is placed.
async fn place_transfer(stage: &Stage, to: &str) -> (Child, BufReader<ChildStderr>) {
    let mut command = Command::new(crate::PROGRAM);
    command.args(["transfer", &stage.group.election, "--to", to, "--wait", "5m"]);
    stage.group.access.apply(&mut command);
    let mut child = command.stderr(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let (mut errors, mut line) = (BufReader::new(child.stderr.take().unwrap()), String::new());
    errors.read_line(&mut line).await.unwrap();
    assert!(line.contains("the order is placed"), "{line}");
    (child, errors)
}

/// Waits for the end of a transfer. Returns its exit code, and its output since.
async fn finish_transfer(
    (mut child, mut errors): (Child, BufReader<ChildStderr>),
) -> (Option<i32>, String) {
    let mut text = String::new();
    errors.read_to_string(&mut text).await.unwrap();
    (child.wait().await.unwrap().code(), text)
}

/// The processes have no listener, as in containers.
async fn transfer_needs_no_listener_or_token() {
    let stage = Stage::new(Store::azurite().await.unwrap()).await;
    let names = ["ada", "ben", "cleo"];
    let mut candidates = Vec::new();
    for name in names {
        let candidate = stage.start_without_listener(name, &[]);
        let event = if candidates.is_empty() { "elected" } else { "following" };
        candidate.event(event, TIMEOUT).await;
        candidates.push(candidate);
    }
    let order = stage.transfer(&["--to", "cleo"]).await;
    assert_eq!(code(&order), 0, "{}", output_text(&order));
    assert!(output_text(&order).contains("cleo leads with term"), "{}", output_text(&order));
    let order = stage.transfer(&["--to", "ben"]).await;
    assert_eq!(code(&order), 0, "{}", output_text(&order));
    let won: Vec<_> = winners(&candidates).into_iter().map(|(_, name)| name).collect();
    assert_eq!(won, ["ada", "cleo", "ben"]);
    let listens = |candidate: &Candidate| candidate.transcript().contains("listening");
    assert!(!candidates.iter().any(listens));
    assert_eq!(stage.sink.overlap(), (Duration::ZERO, 0));
}

needs!(Node => async fn transfer_needs_no_listener_or_token);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exit_code_shows_outcome_of_transfer() {
    let stage = Stage::embedded().await;
    let leader = stage.start_without_listener("ada", &["--lease", "60s"]);
    leader.event("elected", TIMEOUT).await;
    let order = stage.transfer(&["--to", "ada"]).await;
    assert_eq!(code(&order), 1, "{}", output_text(&order));
    assert!(output_text(&order).contains("leads already"), "{}", output_text(&order));
    // A frozen leader reads nothing.
    leader.signal(Signal::STOP).unwrap();
    let order = stage.transfer(&["--wait", "1s"]).await;
    assert_eq!(code(&order), 2, "{}", output_text(&order));
    assert!(output_text(&order).contains("has not changed within 1s"), "{}", output_text(&order));
    let replaced = place_transfer(&stage, "cleo").await;
    let newer = place_transfer(&stage, "dora").await;
    let (exit, text) = finish_transfer(replaced).await;
    assert_eq!(exit, Some(1), "{text}");
    assert!(text.contains("a newer transfer replaced this one"), "{text}");
    // The lease of the leader expires.
    stage.start_without_listener("ben", &[]).event("elected", TIMEOUT).await;
    let (exit, text) = finish_transfer(newer).await;
    assert_eq!(exit, Some(3), "{text}");
    assert!(text.contains("ben leads with term"), "{text}");
    leader.signal(Signal::CONT).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_takes_no_orders() {
    let stage = Stage::embedded().await;
    let mut lock = tokio::process::Command::new(crate::PROGRAM);
    lock.args(["lock", &stage.group.election, "--", "sh", "-c", "echo locked; sleep 600"]);
    stage.group.access.apply(&mut lock);
    let mut lock = lock.stdout(std::process::Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut lock_output = [0; 6];
    lock.stdout.as_mut().unwrap().read_exact(&mut lock_output).await.unwrap();
    for command in ["transfer", "trigger"] {
        let order = stage.run_command(&[command, &stage.group.election]).await;
        assert_eq!(
            code(&order),
            if command == "transfer" { 1 } else { 2 },
            "{}",
            output_text(&order)
        );
        assert!(
            output_text(&order).contains("takes no orders: it is a lock"),
            "{}",
            output_text(&order)
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unreachable_account_gets_no_order() {
    // A port without a listener.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let account = format!(
        "AccountName=devstoreaccount1;AccountKey=a2V5;BlobEndpoint=http://127.0.0.1:{port}/devstoreaccount1"
    );
    for (command, exit) in [("transfer", 1), ("trigger", 2)] {
        let mut order = Command::new(crate::PROGRAM);
        order.args([command, "jobs/a"]).env("AZURE_STORAGE_CONNECTION_STRING", &account);
        let order = order.output().await.unwrap();
        assert_eq!(code(&order), exit, "{}", output_text(&order));
        assert!(output_text(&order).contains("Nothing was placed"), "{}", output_text(&order));
    }
}

/// Runs like `chaos --transfers`, but shorter.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transfers_survive_killed_leaders_exactly_once() {
    let store = Store::embedded().await.unwrap();
    let life = Duration::from_secs(10);
    let tally = tenure_tests::transfers::round(crate::PROGRAM, &store, 24, life).await.unwrap();
    assert!(!tally.is_broken(), "{tally:?}");
    assert_eq!(tally.outcomes.values().sum::<u32>(), 24, "{tally:?}");
    assert!(tally.resigned_terms > 0, "{tally:?}");
}
