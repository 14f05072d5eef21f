//! A candidate wrote the address of the leader on the record: a listener there learns nothing that helps, and holds up
//! no order.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::stage::{SOON, Stage, code, said};

/// Listens in the place of a leader, and keeps all that it is sent.
struct Impostor {
    url: String,
    heard: Arc<Mutex<String>>,
    _serving: JoinSet<()>,
}

impl Impostor {
    /// Sends this answer to each request, without an end.
    async fn start(answer: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let heard = Arc::<Mutex<String>>::default();
        let kept = Arc::clone(&heard);
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut open = Vec::new();
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut bytes = [0; 4096];
                let read = stream.read(&mut bytes).await.unwrap_or_default();
                kept.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..read]));
                let _ = stream.write_all(answer.as_bytes()).await;
                open.push(stream);
            }
        });
        Self { url, heard, _serving: serving }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_at_the_address_on_record_hears_a_hint_and_no_secret() {
    for answer in ["", "HTTP/1.1 202 Accepted\r\ncontent-length: 1000000000\r\n\r\nx", "no\r\n\r\n"]
    {
        let (stage, impostor) = (Stage::embedded().await, Impostor::start(answer).await);
        let leader = stage.hidden("ada", &["--address", &impostor.url]);
        leader.event("elected", SOON).await;
        let follower = stage.hidden("ben", &[]);
        follower.event("following", SOON).await;
        let told = stage.transfer(&["--to", "ben"]).await;
        assert_eq!(code(&told), 0, "{}", said(&told));
        let heard = impostor.heard.lock().unwrap().to_ascii_lowercase();
        assert!(heard.contains("post /hint?election="), "{heard}");
        for secret in ["authorization", "cookie", "token", "sig="] {
            assert!(!heard.contains(secret), "{heard}");
        }
    }
}
