//! What operators get wrong: one clear line, exit code 2, and nothing has changed.

use super::stage::{SOON, Stage, TOKEN, address, code, said};
use tenure_tests::reserved;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_changes_by_mistake() {
    let stage = Stage::embedded().await;
    let leader = stage.started(&["ada"]).await.remove(0);
    let at = address(&leader).await;
    let gone = format!("http://{}", reserved().unwrap());
    let short = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(short.path(), "short").unwrap();
    let wrong = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(wrong.path(), "a-token-of-somebody-else-0123").unwrap();
    let (short, wrong) = (short.path().to_str().unwrap(), wrong.path().to_str().unwrap());
    let election = stage.group.election.as_str();
    let elsewhere = format!("{election}-elsewhere");
    for (arguments, words) in [
        (vec!["pause"], "--at <URL>"),
        (vec!["resume", election], "--at <URL>"),
        (vec!["resign", "--at", "localhost:1"], "not an http:// or https:// address"),
        (vec!["resign", "--at", &gone], "cannot be reached"),
        (vec!["resign", "--at", &at, "--control-token-file", short], "fewer than 16"),
        (vec!["resign", "--at", &at, "--control-token-file", wrong], "missing or wrong"),
        (vec!["resign", "--at", &at, "--control-token-file", "/no/such/file"], "cannot be read"),
        (vec!["resign", &elsewhere], "no such election"),
        (vec!["break", &elsewhere, "--yes"], "no such election"),
        (vec!["reset-slot", &elsewhere, "--yes"], "no such election"),
        (vec!["break", election, "--period", "61s", "--yes"], "is not between 0s and 1m"),
        (vec!["break", election, "--period", "-5s", "--yes"], "is not a duration"),
        (vec!["resign", election], "no address on record"),
        (vec!["transfer", "--to", "", "--at", &at], "name the successor"),
    ] {
        let told = stage.operate(&arguments).await;
        let text = said(&told);
        assert_eq!(code(&told), 2, "{arguments:?}: {text}");
        assert!(text.contains(words), "{arguments:?}: {text}");
        assert!(!text.contains(TOKEN) && !text.contains("somebody-else"), "{text}");
    }
    assert_eq!((leader.count("stood-down"), leader.count("ordered")), (0, 0));
    assert!(!leader.transcript().contains(TOKEN));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_candidate_without_a_token_takes_no_orders() {
    let stage = Stage::embedded().await;
    let leader = stage.group.start("ada", &["--listen", "127.0.0.1:0"]).unwrap();
    leader.event("elected", SOON).await;
    let told = stage.order(&leader, &["resign"]).await;
    assert_eq!(code(&told), 2, "{}", said(&told));
    assert!(said(&told).contains("no control token"), "{}", said(&told));
    let token = stage.token.path().to_str().unwrap();
    let told = stage
        .operate(&["run", "a-b/c", "--every", "1h", "--control-token-file", token, "--", "true"])
        .await;
    assert_eq!(code(&told), 2, "{}", said(&told));
    assert!(said(&told).contains("the token needs a listener"), "{}", said(&told));
}
