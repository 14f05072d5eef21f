//! A malicious candidate wrote a leader's address into the record: its listener gets no useful
//! secret, and delays no order.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::stage::{Stage, TIMEOUT, code, output_text};

/// Listener in place of a leader, which records everything that it receives.
struct Impostor {
    url: String,
    received: Arc<Mutex<String>>,
    _serving: JoinSet<()>,
}

impl Impostor {
    /// Starts a listener that answers every request with this endless response.
    async fn start(answer: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let received = Arc::<Mutex<String>>::default();
        let recorder = Arc::clone(&received);
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut open = Vec::new();
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut bytes = [0; 4096];
                let read = stream.read(&mut bytes).await.unwrap_or_default();
                recorder.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..read]));
                let _ = stream.write_all(answer.as_bytes()).await;
                open.push(stream);
            }
        });
        Self { url, received, _serving: serving }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn listener_at_recorded_address_receives_hint_without_secret() {
    for answer in ["", "HTTP/1.1 202 Accepted\r\ncontent-length: 1000000000\r\n\r\nx", "no\r\n\r\n"]
    {
        let (stage, impostor) = (Stage::embedded().await, Impostor::start(answer).await);
        let leader = stage.start_without_listener("ada", &["--address", &impostor.url]);
        leader.event("elected", TIMEOUT).await;
        let follower = stage.start_without_listener("ben", &[]);
        follower.event("following", TIMEOUT).await;
        let output = stage.transfer(&["--to", "ben"]).await;
        assert_eq!(code(&output), 0, "{}", output_text(&output));
        let received = impostor.received.lock().unwrap().to_ascii_lowercase();
        assert!(received.contains("post /hint?election="), "{received}");
        for secret in ["authorization", "cookie", "token", "sig="] {
            assert!(!received.contains(secret), "{received}");
        }
    }
}
