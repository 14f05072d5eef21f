//! The address of the leader is what somebody wrote on the record: whoever listens there learns
//! nothing that helps, and cannot harm who asks.

use std::sync::{Arc, Mutex};

use serde_json::json;
use tenure_tests::{Candidate, reserved};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::stage::{SOON, Stage, TOKEN, code, said};

/// Listens in the place of a leader, and keeps all that it is sent.
struct Impostor {
    url: String,
    heard: Arc<Mutex<String>>,
    _serving: JoinSet<()>,
}

impl Impostor {
    /// Says that it is ada, and adds so many bytes to that.
    async fn start(more: usize) -> Self {
        Self::that_answers(true, more).await
    }

    /// The same, and may not answer an order that it takes.
    async fn that_answers(answers: bool, more: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let heard = Arc::new(Mutex::new(String::new()));
        let kept = Arc::clone(&heard);
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = String::new();
                let mut bytes = [0; 4096];
                while !request.contains("\r\n\r\n") {
                    let Ok(read @ 1..) = stream.read(&mut bytes).await else { break };
                    request.push_str(&String::from_utf8_lossy(&bytes[..read]));
                }
                let proved = request.to_ascii_lowercase().contains("\r\nauthorization:");
                if proved && !answers {
                    continue;
                }
                let (status, body) = match request.starts_with("POST") {
                    true if proved => ("202 Accepted", json!({ "ordered": "resign" })),
                    true => ("401 Unauthorized", json!({ "error": "no" })),
                    false => {
                        let leading = !kept.lock().unwrap().contains("POST");
                        let leader = if leading { "ada" } else { "eve" };
                        let told = json!({ "candidate": "ada", "election": "x/y", "more": "x".repeat(more),
                            "leading": leading, "leader": { "name": leader, "term": 1 } });
                        ("200 OK", told)
                    }
                };
                kept.lock().unwrap().push_str(&request);
                let (body, nonce) = (body.to_string(), "0a".repeat(48));
                let answer = format!(
                    "HTTP/1.1 {status}\r\nwww-authenticate: Tenure nonce=\"{nonce}\"\r\n\
                     content-length: {}\r\nconnection: close\r\n\r\n{body}",
                    body.len()
                );
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        Self { url, heard, _serving: serving }
    }

    fn heard(&self) -> String {
        self.heard.lock().unwrap().clone()
    }
}

/// A leader with this address on record.
async fn leader(stage: &Stage, address: &str) -> Candidate {
    let leader = stage.start("ada", &["--address", address]);
    leader.event("elected", SOON).await;
    leader
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_token_is_not_given_to_whoever_is_on_record() {
    let (stage, impostor) = (Stage::embedded().await, Impostor::start(0).await);
    let _leader = leader(&stage, &impostor.url).await;
    let told = stage.operate(&["resign", &stage.group.election]).await;
    let heard = impostor.heard();
    assert!(heard.contains("POST /resign"), "{heard}");
    assert!(!heard.contains(TOKEN), "{heard}");
    assert_eq!(code(&told), 0, "{}", said(&told));
    let goes = format!("at {}, the address on record", impostor.url);
    assert!(said(&told).contains(&goes), "{}", said(&told));
}

/// The leader may have taken it, and another one may lead when it is repeated.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_without_an_answer_may_have_been_taken() {
    let (stage, impostor) = (Stage::embedded().await, Impostor::that_answers(false, 0).await);
    let told = stage.operate(&["resign", "--at", &impostor.url]).await;
    assert_eq!(code(&told), 1, "{}", said(&told));
    assert!(said(&told).contains("may have been ordered all the same"), "{}", said(&told));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endless_answer_is_not_read() {
    let (stage, impostor) = (Stage::embedded().await, Impostor::start(1 << 20).await);
    let told = stage.operate(&["resign", "--at", &impostor.url]).await;
    assert_eq!(code(&told), 2, "{}", said(&told));
    assert!(said(&told).contains("more than 64 KiB"), "{}", said(&told));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_for_the_leader_goes_to_no_other_candidate() {
    let stage = Stage::embedded().await;
    // A port of the kernel's choice, which has to be known before.
    let port = reserved().unwrap().port();
    let at = format!("127.0.0.1:{port}");
    let leader = leader(&stage, &format!("http://{at}")).await;
    let token = stage.token.path().to_str().unwrap();
    let other = ["--listen", &at, "--control-token-file", token];
    let other = stage.group.start("ben", &other).unwrap();
    other.event("following", SOON).await;
    let told = stage.operate(&["resign", &stage.group.election]).await;
    assert_eq!(code(&told), 2, "{}", said(&told));
    assert!(said(&told).contains("ada leads, but at the address on record"), "{}", said(&told));
    assert!(said(&told).contains("ben answers"), "{}", said(&told));
    assert_eq!((leader.count("ordered"), other.count("ordered")), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transfer_to_who_leads_already_is_done() {
    let stage = Stage::embedded().await;
    let candidates = stage.started(&["ada", "ben"]).await;
    for asked in &candidates {
        let told = stage.order(asked, &["transfer", "--to", "ada"]).await;
        assert_eq!(code(&told), 0, "{}", said(&told));
        assert!(said(&told).contains("ada leads already; nothing was ordered"), "{}", said(&told));
    }
    assert_eq!(candidates[0].count("ordered") + candidates[0].count("stood-down"), 0);
}
