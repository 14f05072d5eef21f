//! Followers watch the leader: they take over long before their next poll. A listener that lies to
//! them costs only a few requests.

use crate::PROGRAM;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tenure_tests::{
    Access, BEAT_HANDLER, Candidate, Group, Proxy, Sink, Store, operator, reserve_port,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Limit of waits without a specific bound, on a busy machine.
const TIMEOUT: Duration = tenure_tests::PATIENCE;

/// Poll interval of followers, and the shortest wait between two polls.
const POLL: [&str; 2] = ["--poll", "60s"];
const MIN_POLL: Duration = Duration::from_secs(30);

struct Stage {
    store: Store,
    _sink: Sink,
    group: Group,
}

impl Stage {
    async fn new() -> Self {
        let (store, sink) = (Store::embedded().await.unwrap(), Sink::start().await.unwrap());
        let mut group = Group::new(PROGRAM, &store, &sink);
        group.timer = ["--every", "1h"];
        group.turn_ms = 1;
        group.patient_timings = true;
        group.warm_up().await.unwrap();
        Self { store, _sink: sink, group }
    }

    /// Starts a candidate that listens at `listen` and has `address` in the record while it leads.
    fn start(&self, name: &str, listen: &str, address: &str) -> Candidate {
        let listen_args = ["--listen", listen, "--address", address];
        self.group.start(name, &[&listen_args[..], &POLL].concat()).unwrap()
    }

    /// Starts a leader and a follower that watches it.
    async fn watched(&self) -> Watched {
        let listen = reserve_port().unwrap().to_string();
        let (watch_tx, mut watch_rx) = watch::channel(false);
        let witness = move |bytes: &[u8]| {
            let is_watch_request = bytes.windows(11).any(|window| window == b"GET /watch?");
            watch_tx.send_if_modified(|is_watched| {
                is_watch_request && !std::mem::replace(is_watched, true)
            });
        };
        let proxy = Proxy::start_with_witness(listen.parse().unwrap(), witness).await.unwrap();
        let leader = self.start("ada", &listen, &format!("http://{}", proxy.address()));
        leader.event("elected", TIMEOUT).await;
        let follower =
            self.start("ben", &reserve_port().unwrap().to_string(), "http://127.0.0.1:1");
        let polled_at = follower.event("following", TIMEOUT).await.at;
        timeout(TIMEOUT, watch_rx.wait_for(|is_watched| *is_watched)).await.unwrap().unwrap();
        // That request has its response by now.
        assert_eq!(send(&listen, "GET /leader").await, "200");
        Watched { leader, follower, next_poll: polled_at + MIN_POLL, _proxy: proxy }
    }
}

struct Watched {
    leader: Candidate,
    follower: Candidate,
    /// Earliest time of the follower's next poll.
    next_poll: std::time::Instant,
    _proxy: Proxy,
}

/// Returns the status of the response.
async fn send(to: &str, request_line: &str) -> String {
    let mut stream = tokio::net::TcpStream::connect(to).await.unwrap();
    let request = format!("{request_line} HTTP/1.1\r\nhost: {to}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer.split(' ').nth(1).unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_ends_is_replaced_before_the_next_poll() {
    let stage = Stage::new().await;
    let mut watched = stage.watched().await;
    watched.leader.terminate(TIMEOUT).await.unwrap();
    let elected = watched.follower.event("elected", TIMEOUT).await.at;
    assert!(elected < watched.next_poll, "{}", watched.follower.transcript());
    assert_eq!(watched.follower.count("problem"), 0, "{}", watched.follower.transcript());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn successor_takes_over_before_its_next_poll() {
    let stage = Stage::new().await;
    let watched = stage.watched().await;
    let (code, output_text) =
        operator::run_command(&stage.group, &["transfer", &stage.group.election, "--to", "ben"])
            .await
            .unwrap();
    assert_eq!(code, Some(0), "{output_text}");
    let elected = watched.follower.event("elected", TIMEOUT).await.at;
    assert!(elected < watched.next_poll, "{}", watched.follower.transcript());
    let stood_down = watched.leader.event("stood-down", TIMEOUT).await;
    assert_eq!(stood_down.event["reason"], "handed-over");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lying_peer_costs_few_requests() {
    let stage = Stage::new().await;
    let peer = Peer::start(stage.group.election.clone()).await;
    let leader = stage.start("ada", "127.0.0.1:0", &peer.address);
    leader.event("elected", TIMEOUT).await;
    let polls = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&polls);
    let count_polls = move |bytes: &[u8]| {
        let count = bytes.windows(6).filter(|window| *window == b"HEAD /").count();
        counter.fetch_add(count, Ordering::Relaxed);
    };
    let proxy_start =
        Proxy::for_store_with_witness(&stage.store.connection_string(), count_polls).await.unwrap();
    let (_proxy, proxy_connection_string) = proxy_start;
    let address_args = ["--address", "http://127.0.0.1:1"];
    let follower = stage.group.start_with(
        "ben",
        &Access::from_connection_string(proxy_connection_string),
        Path::new(BEAT_HANDLER),
        &[&address_args[..], &POLL].concat(),
    );
    let follower = follower.unwrap();
    let following = follower.event("following", TIMEOUT).await.at;
    // The follower reconnects after each lie, with growing delays.
    timeout(TIMEOUT, peer.request_count.clone().wait_for(|total| *total == 4))
        .await
        .unwrap()
        .unwrap();
    let polls = polls.load(Ordering::Relaxed);
    assert!(following.elapsed() < MIN_POLL, "it took too long to tell");
    assert!((3..=11).contains(&polls), "{polls} polls\n{}", follower.transcript());
    assert_eq!((follower.count("elected"), leader.count("stood-down")), (0, 0));
    assert_eq!(follower.count("problem"), 0, "{}", follower.transcript());
    let requests = peer.received.lock().unwrap().to_ascii_lowercase();
    for secret in ["authorization", "cookie", "token", "sig="] {
        assert!(!requests.contains(secret), "{requests}");
    }
}

/// Fake listener of a leader: each line contradicts the previous one, for as long as the follower
/// reads.
struct Peer {
    address: String,
    /// Number of requests.
    request_count: watch::Receiver<usize>,
    received: Arc<std::sync::Mutex<String>>,
    _serving: JoinSet<()>,
}

impl Peer {
    async fn start(election: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let (count_tx, request_count) = watch::channel(0);
        let received = Arc::<std::sync::Mutex<String>>::default();
        let (recorder, mut serving) = (Arc::clone(&received), JoinSet::new());
        serving.spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut bytes = vec![0; 4096];
                let length = stream.read(&mut bytes).await.unwrap();
                recorder.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..length]));
                count_tx.send_modify(|count| *count += 1);
                let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
                let mut open = stream.write_all(head.as_bytes()).await.is_ok();
                let mut leading = true;
                while open {
                    let event = serde_json::json!({
                        "version": 1, "election": election, "candidate": "ada", "leading": leading,
                        "leader": null, "valid_for_ms": null,
                        "handing_over_to": if leading { Some("ben") } else { None }, "ended": null,
                    });
                    let line = format!("data: {event}\n\n");
                    open = stream.write_all(line.as_bytes()).await.is_ok();
                    leading = !leading;
                    // Each line may cause a separate hint.
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
        });
        Self { address, request_count, received, _serving: serving }
    }
}
