//! Mistakes of operators: one clear line, and nothing has changed.

use super::stage::{SOON, Stage, code, said};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_changes_by_mistake() {
    let stage = Stage::embedded().await;
    let leader = stage.started(&["ada"]).await.remove(0);
    leader.event("elected", SOON).await;
    let election = stage.group.election.as_str();
    let elsewhere = format!("{election}-elsewhere");
    for (arguments, exit, words) in [
        (vec!["transfer", &elsewhere], 1, "has led yet"),
        (vec!["transfer", election, "--to", "ada"], 1, "leads already"),
        (vec!["transfer", election, "--wait", "0s"], 2, "is not between 1s and 1d"),
        (vec!["break", &elsewhere, "--yes"], 2, "no such election"),
        (vec!["reset-slot", &elsewhere, "--yes"], 2, "no such election"),
        (vec!["break", election, "--period", "61s", "--yes"], 2, "is not between 0s and 1m"),
        (vec!["break", election, "--period", "-5s", "--yes"], 2, "is not a duration"),
    ] {
        let told = stage.operate(&arguments).await;
        let text = said(&told);
        assert_eq!(code(&told), exit, "{arguments:?}: {text}");
        assert!(text.contains(words), "{arguments:?}: {text}");
    }
    assert_eq!((leader.count("stood-down"), leader.count("ordered")), (0, 0));
}
