//! Tests of the sink's rules.

use super::*;
use std::sync::Barrier;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

fn sink() -> (Sink, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    (Sink::open(&folder.path().join("sink.json")).unwrap(), folder)
}

/// Returns the leader of an election under a term.
fn leader_of_term(election: &str, term: u64) -> Leader {
    (election.to_owned(), term)
}

fn jobs(term: u64) -> Leader {
    leader_of_term("demo/jobs", term)
}

#[test]
fn terms_never_fall_and_paths_are_apart() {
    let (sink, _folder) = sink();
    sink.write("/a", jobs(7), "first".into()).unwrap();
    sink.write("/a", jobs(7), "same leader".into()).unwrap();
    sink.write("/a", jobs(9), "next leader".into()).unwrap();
    let stale = sink.write("/a", jobs(8), "late".into());
    assert!(matches!(stale, Err(WriteError::Stale(9))), "{stale:?}");
    let stored = sink.read("/a").unwrap();
    assert_eq!((stored.content.as_str(), &stored.terms["demo/jobs"]), ("next leader", &9));
    sink.write("/b", jobs(1), "another".into()).unwrap();
}

#[test]
fn two_elections_do_not_disturb_each_other() {
    let (sink, _folder) = sink();
    sink.write("/a", leader_of_term("demo/jobs", 9), "of jobs".into()).unwrap();
    // Terms of different elections are unrelated.
    sink.write("/a", leader_of_term("demo/mail", 3), "of mail".into()).unwrap();
    assert_eq!(sink.read("/a").unwrap().election, "demo/mail");
    sink.write("/a", leader_of_term("demo/jobs", 9), "of jobs again".into()).unwrap();
    // Each election refuses its own stale leaders.
    for (stale, newest) in
        [(leader_of_term("demo/jobs", 8), 9), (leader_of_term("demo/mail", 2), 3)]
    {
        let refused = sink.write("/a", stale, "late".into());
        assert!(matches!(refused, Err(WriteError::Stale(term)) if term == newest), "{refused:?}");
    }
    assert_eq!(sink.read("/a").unwrap().content, "of jobs again");
}

#[test]
fn terms_outlast_the_sink() {
    let (sink, folder) = sink();
    sink.write("/a", jobs(7), "kept".into()).unwrap();
    let again = Sink::open(&folder.path().join("sink.json")).unwrap();
    assert!(matches!(again.write("/a", jobs(6), "late".into()), Err(WriteError::Stale(7))));
    assert_eq!(again.read("/a"), sink.read("/a"));
}

#[test]
fn content_that_cannot_be_saved_is_not_written() {
    let (sink, folder) = sink();
    drop(folder);
    assert!(matches!(sink.write("/a", jobs(7), "lost".into()), Err(WriteError::Io(_))));
    assert_eq!(sink.read("/a"), None);
}

#[test]
fn writers_at_the_same_time_leave_the_newest() {
    let (sink, _folder) = sink();
    let (sink, together) = (&sink, &Barrier::new(8));
    std::thread::scope(|scope| {
        for term in 1..=8 {
            scope.spawn(move || {
                together.wait();
                let _ = sink.write("/a", jobs(term), term.to_string());
            });
        }
    });
    let newest = sink.read("/a").unwrap();
    assert_eq!((newest.content.as_str(), &newest.terms["demo/jobs"]), ("8", &8));
    let reopened = Sink::open(&sink.file).unwrap();
    assert_eq!(reopened.read("/a"), sink.read("/a"));
}

#[test]
fn a_term_is_one_whole_number() {
    let term = |values: &[&str]| {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(TERM, value.parse().unwrap());
        }
        term_of(&headers).map_err(|(status, _)| status.as_u16())
    };
    assert_eq!(term(&["0"]), Ok(0));
    assert_eq!(term(&["18446744073709551615"]), Ok(u64::MAX));
    assert_eq!(term(&[]), Err(428));
    for garbled in [&["+7"][..], &["-7"], &["7 "], &["seven"], &["18446744073709551616"], &[""]] {
        assert_eq!(term(garbled), Err(400), "{garbled:?}");
    }
    assert_eq!(term(&["7", "8"]), Err(400));
}

#[test]
fn a_term_is_one_of_an_election() {
    let leader = |values: &[&str]| {
        let mut headers = HeaderMap::new();
        headers.append(TERM, "7".parse().unwrap());
        for value in values {
            headers.append(ELECTION, value.parse().unwrap());
        }
        leader_of(&headers).map_err(|(status, _)| status.as_u16())
    };
    assert_eq!(leader(&["demo/jobs"]), Ok(jobs(7)));
    assert_eq!(leader(&[]), Err(428));
    assert_eq!(leader(&[""]), Err(400));
    assert_eq!(leader(&["demo/jobs", "demo/mail"]), Err(400));
}

#[tokio::test]
async fn over_http() {
    let (sink, _folder) = sink();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router(Arc::new(sink))).await });
    let ask = async |method: &str, header: &str, body: &str| {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let length = body.len();
        let request = format!(
            "{method} /report HTTP/1.1\r\nhost: sink\r\nconnection: close\r\n{header}\
             content-length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer.strip_prefix("HTTP/1.1 ").unwrap().to_owned()
    };
    let with_election = |headers: &str| format!("tenure-election: demo/jobs\r\n{headers}");
    assert!(ask("GET", "", "").await.starts_with("404"));
    assert!(ask("POST", &with_election("tenure-term: 7\r\n"), "seven").await.starts_with("204"));
    let stale = ask("POST", &with_election("Tenure-Term: 6\r\n"), "six").await;
    assert!(stale.starts_with("409") && stale.contains("tenure-term: 7\r\n"), "{stale}");
    assert!(stale.ends_with("term 6 is over: a leader of term 7 has written\n"), "{stale}");
    assert!(ask("POST", &with_election(""), "who?").await.starts_with("428"));
    assert!(ask("POST", "tenure-term: 9\r\n", "of what?").await.starts_with("428"));
    assert!(ask("POST", &with_election("tenure-term: x\r\n"), "what?").await.starts_with("400"));
    assert!(ask("DELETE", "tenure-term: 9\r\n", "").await.starts_with("405"));
    assert!(
        ask("POST", &with_election("tenure-term: 9\r\n"), &"x".repeat(MAX_BODY + 1))
            .await
            .starts_with("413")
    );
    let stored = ask("GET", "", "").await;
    assert!(stored.starts_with("200") && stored.ends_with("\r\n\r\nseven"), "{stored}");
    assert!(stored.contains("tenure-election: demo/jobs\r\n"), "{stored}");
}
