//! Mistakes of operators: one clear message, and no effect.

use super::stage::{Stage, TIMEOUT, code, output_text};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operator_mistakes_change_nothing() {
    let stage = Stage::embedded().await;
    let leader = stage.start_all(&["ada"]).await.remove(0);
    leader.event("elected", TIMEOUT).await;
    let election = stage.group.election.as_str();
    let elsewhere = format!("{election}-elsewhere");
    for (arguments, exit_code, expected) in [
        (vec!["transfer", &elsewhere], 1, "has led yet"),
        (vec!["transfer", election, "--to", "ada"], 1, "leads already"),
        (vec!["transfer", election, "--wait", "0s"], 2, "is not between 1s and 1d"),
        (vec!["break", &elsewhere, "--yes"], 2, "no such election"),
        (vec!["reset-slot", &elsewhere, "--yes"], 2, "no such election"),
        (vec!["break", election, "--period", "61s", "--yes"], 2, "is not between 0s and 60s"),
        (vec!["break", election, "--period", "-5s", "--yes"], 2, "is not a duration"),
    ] {
        let output = stage.run_command(&arguments).await;
        let text = output_text(&output);
        assert_eq!(code(&output), exit_code, "{arguments:?}: {text}");
        assert!(text.contains(expected), "{arguments:?}: {text}");
    }
    assert_eq!((leader.count("stood-down"), leader.count("ordered")), (0, 0));
}
