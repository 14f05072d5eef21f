use super::super::EndedLeadership;
use super::*;
use crate::responses::query_value;
use crate::role::Leader;

const AT_START: Duration = Duration::ZERO;

fn leader() -> FollowedLeader {
    let address = "http://10.0.0.7:8080".to_owned();
    FollowedLeader { name: "ben".to_owned(), term: 7, address }
}

fn board() -> Board {
    Board::new("jobs/report", "ada", Duration::ZERO)
}

fn news(more: impl FnOnce(&mut StatusUpdate)) -> Vec<u8> {
    let leader = Leader { name: "ben".to_owned(), term: 7, address: None, since: None };
    let mut news = StatusUpdate {
        version: VERSION,
        election: "jobs/report".to_owned(),
        candidate: "ben".to_owned(),
        leading: true,
        leader: Some(leader),
        valid_for_ms: Some(9_000),
        valid_until: Some("2026-11-23T08:00:00.000Z".to_owned()),
        handing_over_to: None,
        ended: None,
        outlook: Default::default(),
    };
    more(&mut news);
    format!("data: {}\n\n", serde_json::to_string(&news).unwrap()).into_bytes()
}

fn ended(term: u64, released: bool) -> Option<EndedLeadership> {
    Some(EndedLeadership { term, reason: "left".to_owned(), released })
}

fn resigned(released: bool) -> Vec<u8> {
    news(|news| {
        (news.leading, news.leader, news.ended) = (false, None, ended(7, released));
    })
}

#[test]
fn only_relevant_changes_trigger_a_poll() {
    let (leader, board) = (leader(), board());
    let mut reader = Reader::new(&leader, &board.election, &board.candidate);
    for (bytes, hint) in [
        (news(|_| {}), false),
        (b": comment\n\nretry: 5\n".to_vec(), false),
        (news(|news| news.valid_for_ms = Some(12_000)), false),
        (news(|news| news.handing_over_to = Some("cyd".to_owned())), false),
        (news(|news| news.handing_over_to = Some("ada".to_owned())), true),
        (news(|news| news.handing_over_to = Some("ada".to_owned())), false),
        // The transfer failed and the leader continues.
        (news(|_| {}), false),
        (news(|news| news.ended = ended(6, true)), false),
        (resigned(false), true),
        (resigned(true), true),
        (resigned(true), false),
    ] {
        assert_eq!(reader.read(&bytes, AT_START), Ok(hint), "{}", String::from_utf8_lossy(&bytes));
    }
}

#[test]
fn a_follower_that_finds_the_leader_gone_polls_at_once() {
    let (leader, board) = (leader(), board());
    for bytes in [
        resigned(true),
        // Its process has restarted.
        news(|news| (news.leading, news.leader) = (false, None)),
        // The leader has won another term meanwhile.
        news(|news| news.leader.as_mut().unwrap().term = 8),
    ] {
        assert_eq!(
            Reader::new(&leader, &board.election, &board.candidate).read(&bytes, AT_START),
            Ok(true)
        );
    }
}

#[test]
fn news_arrive_in_pieces() {
    let (leader, board) = (leader(), board());
    let mut reader = Reader::new(&leader, &board.election, &board.candidate);
    let bytes = resigned(true);
    let hints = bytes.iter().filter(|byte| reader.read(&[**byte], AT_START).unwrap()).count();
    assert_eq!(hints, 1);
}

#[test]
fn streams_of_no_candidate_are_rejected() {
    let (leader, board) = (leader(), board());
    let read = |bytes: &[u8]| {
        Reader::new(&leader, &board.election, &board.candidate).read(bytes, AT_START).is_err()
    };
    assert!(read(&news(|news| news.candidate = "eve".to_owned())));
    assert!(read(&news(|news| news.election = "jobs/other".to_owned())));
    assert!(read(&news(|news| news.version = 2)));
    assert!(read(b"data: {}\n"));
    assert!(read(b"data: \xff\n"));
    assert!(read(&[b'x'; MAX_LINE + 1]));
    assert!(!read(&[b'x'; MAX_LINE]));
}

#[test]
fn an_excessive_stream_is_abandoned() {
    let (leader, board) = (leader(), board());
    let mut reader = Reader::new(&leader, &board.election, &board.candidate);
    let flood = [resigned(true), news(|_| {})].concat();
    let hints = (0..).map_while(|_| reader.read(&flood, AT_START).ok()).count();
    assert_eq!(hints, MAX_CHANGES as usize / 2);

    let mut reader = Reader::new(&leader, &board.election, &board.candidate);
    let quiet = news(|_| {});
    let at_once = (0..).map_while(|_| reader.read(&quiet, AT_START).ok()).count() * quiet.len();
    assert!(at_once as u64 <= BURST_BYTES, "{at_once}");
    // The maximum rate of renewals, for a day.
    let mut reader = Reader::new(&leader, &board.election, &board.candidate);
    for second in 0..24 * 3_600 {
        assert_eq!(reader.read(&quiet, Duration::from_secs(second)), Ok(false));
    }
}

#[test]
fn a_listener_reads_every_election_name() {
    for election in ["jobs/a b", "jobs/a+b", "jobs/a%20b&c=d", "jobs/ü"] {
        let at = parse_listener("http://10.0.0.7:8080").unwrap();
        let url = endpoint(&at, "leader", Some(election)).to_string();
        let uri = url.parse().unwrap();
        assert_eq!(query_value(&uri, "election").as_deref(), Some(election), "{url}");
    }
}

#[test]
fn only_listener_addresses_are_requested() {
    let watch_url =
        |text| parse_listener(text).map(|at| endpoint(&at, "watch", Some("jobs/a b")).to_string());
    for (text, url) in [
        ("http://10.0.0.7:8080", Some("http://10.0.0.7:8080/watch?election=jobs%2Fa+b")),
        ("https://x.test/a/?b=c#d", Some("https://x.test/a/watch?election=jobs%2Fa+b")),
        ("ftp://10.0.0.7", None),
        ("file:///etc/passwd", None),
        ("http://user@10.0.0.7", None),
        ("http://:secret@10.0.0.7", None),
        ("the machine below the stairs", None),
    ] {
        assert_eq!(watch_url(text).as_deref(), url, "{text}");
    }
}

mod peers {
    //! Whole streams, from conforming and non-conforming peers.

    use super::*;
    use futures_util::future::join_all;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tenure_core::{Incumbent, Report, Role, Timestamp};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                        transfer-encoding: chunked\r\n\r\n";

    fn chunk(bytes: &[u8]) -> Vec<u8> {
        [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
    }

    /// Returns the number of hints and the warnings for a peer that closes after each of two
    /// responses. The third request confirms that the client noticed the second close.
    async fn watch_peer(answer: Vec<u8>) -> (usize, Vec<String>) {
        let peer = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", peer.local_addr().unwrap());
        let board = Arc::new(board());
        let incumbent = Incumbent {
            name: "ben".to_owned(),
            term: 7,
            since: Timestamp(0),
            address: Some(address),
            coordinates: false,
        };
        let report = Report::new(Role::Following(Some(incumbent)), Duration::from_secs(4));
        board.on_step(&report, Duration::ZERO, Duration::ZERO);
        let watcher = Watcher::new(RootCertificates::default());
        let (hints, warnings) = (Arc::new(Notify::new()), Mutex::new(Vec::new()));
        let warn = |reason: String| warnings.lock().unwrap().push(reason);
        let count = AtomicUsize::new(0);
        let counting = async {
            loop {
                hints.notified().await;
                count.fetch_add(1, Ordering::Relaxed);
            }
        };
        let mut requests = String::new();
        let serve = async {
            for _ in 0..2 {
                let (mut stream, _) = peer.accept().await.unwrap();
                let mut head = vec![0; 4096];
                let length = stream.read(&mut head).await.unwrap();
                requests.push_str(&String::from_utf8_lossy(&head[..length]));
                let _ = stream.write_all(&answer).await;
                let _ = stream.shutdown().await;
            }
            peer.accept().await.unwrap();
        };
        select! {
            biased;
            () = watcher.run(board.clone(), hints.clone(), warn) => {}
            () = counting => {}
            () = serve => {}
        }
        assert!(
            requests.starts_with("GET /watch?election=jobs%2Freport HTTP/1.1\r\n"),
            "{requests}"
        );
        assert!(!requests.to_lowercase().contains("authorization"), "{requests}");
        (count.into_inner(), warnings.into_inner().unwrap())
    }

    #[tokio::test]
    async fn a_stream_that_breaks_off_is_a_hint_and_one_that_ends_is_none() {
        let quiet = [HEAD.as_bytes(), &chunk(&news(|_| {}))].concat();
        let ended = [&quiet[..], b"0\r\n\r\n"].concat();
        let (broke_off, ended) = tokio::join!(watch_peer(quiet), watch_peer(ended));
        assert_eq!((broke_off, ended), ((2, Vec::new()), (0, Vec::new())));
    }

    #[tokio::test]
    async fn a_leader_that_others_watch_already_is_no_problem() {
        let full =
            b"HTTP/1.1 503 -\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
        assert_eq!(watch_peer(full.to_vec()).await, (0, Vec::new()));
    }

    #[test]
    fn one_process_cannot_use_all_permits_of_a_leader() {
        let watcher = Watcher::new(RootCertificates::default());
        let permits = watcher.permits_for("http://10.1.2.3:8080");
        let taken: Vec<_> =
            (0..MAX_WATCHED_PER_ADDRESS).map_while(|_| permits.try_acquire().ok()).collect();
        assert_eq!(taken.len(), MAX_WATCHED_PER_ADDRESS);
        assert!(watcher.permits_for("http://10.1.2.3:8080").try_acquire().is_err());
        assert!(watcher.permits_for("http://10.1.2.4:8080").try_acquire().is_ok());
        // Unused addresses are dropped.
        assert_eq!(watcher.by_address.lock().unwrap().len(), 2);
        drop(taken);
        drop(permits);
        watcher.permits_for("http://10.1.2.5:8080");
        assert_eq!(watcher.by_address.lock().unwrap().len(), 1);
    }

    #[tokio::test]
    async fn a_peer_that_is_no_candidate_is_reported_once_and_gives_no_hint() {
        let redirect = b"HTTP/1.1 307 -\r\nlocation: http://127.0.0.1:1/\r\n\r\n".to_vec();
        let nonsense = [HEAD.as_bytes(), &chunk(b"data: nonsense\n\n")].concat();
        let silent = [HEAD.as_bytes(), b"0\r\n\r\n"].concat();
        let cases = [
            (b"HTTP/1.1 404 -\r\ncontent-length: 0\r\n\r\n".to_vec(), "HTTP 404 instead"),
            (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi".to_vec(), "HTTP 200 instead"),
            (b"HTTP/1.1 503 -\r\ncontent-length: 0\r\n\r\n".to_vec(), "HTTP 503 instead"),
            (redirect, "HTTP 307 instead"),
            (b"\x16\x03\x01 no HTTP at all".to_vec(), ""),
            (Vec::new(), ""),
            (nonsense, "does not come from a candidate"),
            (silent, "was silent"),
        ];
        let all = cases.map(|(answer, why)| async move { (watch_peer(answer).await, why) });
        for ((hints, warnings), why) in join_all(all).await {
            assert_eq!((hints, warnings.len()), (0, 1), "{why}: {warnings:?}");
            assert!(
                warnings[0].starts_with("cannot watch ben at http://127.0.0.1:"),
                "{warnings:?}"
            );
            assert!(warnings[0].contains(why), "{warnings:?}");
        }
    }
}
