mod access;

use super::board::Readiness;
use super::*;
use serde_json::Value;
use std::time::Duration;
use tenure::handler::TurnEnd;
use tenure::{Event, StandDownReason};
use tenure_clock::BootClock;
use tenure_core::{
    EndingReason, Exchange, ExchangeResult, Incumbent, Leadership, Problem, ProblemClass, Report,
    RequestKind, Role, Timestamp, Turn,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

pub(super) const NOW: Duration = Duration::from_secs(1_000_000);

pub(super) fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(super) fn report(role: Role, results: &[ExchangeResult]) -> Report {
    let exchange = |result: &ExchangeResult| Exchange {
        what: RequestKind::RenewLease,
        result: *result,
        took: Duration::from_millis(5),
    };
    Report { exchanges: results.iter().map(exchange).collect(), ..Report::new(role, seconds(4)) }
}

pub(super) fn turn() -> Turn {
    Turn {
        election: "jobs/report".to_owned(),
        key: "acme/jobs/report/2000-01-01T00:00:00Z".to_owned(),
        term: 7,
        slot: Timestamp(946_684_800_000_000_000),
        trigger: None,
        attempt: 1,
        past_due: false,
        missed: 0,
        valid_for: seconds(12),
        time_limit: None,
        share: None,
    }
}

fn ended(end: TurnEnd) -> Event {
    let (elapsed, before) = (Duration::from_millis(40), Box::default());
    Event::TurnEnded { turn: turn(), end, elapsed, other_turns: before }
}

pub(super) fn leading() -> Role {
    Role::Leading(Leadership { term: 7, valid_for: seconds(12) })
}

pub(super) fn following(address: Option<&str>) -> Role {
    Role::Following(Some(Incumbent {
        name: "<script>".to_owned(),
        term: 6,
        since: Timestamp(0),
        address: address.map(str::to_owned),
        coordinates: false,
    }))
}

pub(super) fn board() -> Board {
    Board::new("jobs/report", "ada", NOW)
}

#[test]
fn it_is_ready_as_long_as_the_service_answers() {
    let board = board();
    let not_yet = Readiness::NotReady("the storage account has not answered yet".to_owned());
    assert_eq!(board.readiness(NOW), not_yet);
    for (results, ready) in [
        (&[ExchangeResult::Declined][..], true),
        (&[ExchangeResult::Unanswered], true),
        (&[ExchangeResult::Unavailable], false),
        (&[ExchangeResult::Unanswered, ExchangeResult::Done], true),
        (&[ExchangeResult::Refused, ExchangeResult::Refused], false),
        (&[], false),
        (&[ExchangeResult::Done], true),
    ] {
        board.on_step(&report(Role::Undecided, results), NOW, NOW);
        assert_eq!(board.readiness(NOW) == Readiness::Ready, ready, "{results:?}");
    }
}

#[test]
fn it_takes_part_as_soon_as_its_process_can_work() {
    let board = board();
    let ready = tokio::sync::watch::Sender::new(false);
    board.when_ready(ready.subscribe());
    board.on_step(&report(Role::Undecided, &[ExchangeResult::Done]), NOW, NOW);
    let Readiness::NotReady(why) = board.participation(NOW) else { panic!("it is ready") };
    assert!(why.contains("not ready yet"), "{why}");
    ready.send_replace(true);
    assert_eq!(board.participation(NOW), Readiness::Ready);
}

/// A SAS may cover the election's blob only.
#[test]
fn a_candidate_without_access_to_side_blobs_is_ready() {
    let board = board();
    board.on_step(&report(Role::Undecided, &[ExchangeResult::Done]), NOW, NOW);
    let mut refused = report(leading(), &[ExchangeResult::Refused; 4]);
    use RequestKind::{Announce, ReadAnnouncement, ReadOrders, WriteCandidates};
    let side_requests = [ReadAnnouncement, Announce, WriteCandidates, ReadOrders];
    for (exchange, what) in refused.exchanges.iter_mut().zip(side_requests) {
        exchange.what = what;
    }
    board.on_step(&refused, NOW, NOW);
    assert_eq!(board.readiness(NOW), Readiness::Ready);
}

/// The lookup succeeds, and the following acquire is refused repeatedly.
#[test]
fn a_candidate_that_can_read_but_not_acquire_is_not_ready() {
    use ExchangeResult::{Declined, Done, Refused};
    for (class, ready) in [
        (ProblemClass::Refused, false),
        (ProblemClass::Configuration, false),
        (ProblemClass::UnusableBlob, false),
        (ProblemClass::ForeignLease, false),
        (ProblemClass::Nonsense, false),
        (ProblemClass::Work, true),
        (ProblemClass::Order, true),
        (ProblemClass::LeaseLost, true),
    ] {
        let board = board();
        let mut refused = report(Role::Undecided, &[Done, Refused]);
        refused.problems.push(Problem { class, detail: "it needs w".to_owned() });
        board.on_step(&refused, NOW, NOW);
        // The problem is not reported again for a minute.
        board.on_step(&report(Role::Undecided, &[Done]), NOW, NOW);
        let readiness = board.readiness(NOW);
        assert_eq!(readiness == Readiness::Ready, ready, "{class:?}");
        if let Readiness::NotReady(why) = readiness {
            assert!(why.ends_with(": it needs w"), "{why}");
        }
        board.on_step(&report(following(None), &[Declined]), NOW, NOW);
        assert_eq!(board.readiness(NOW), Readiness::Ready, "{class:?}");
    }
}

#[test]
fn the_last_problem_explains_why_it_is_not_ready() {
    let board = board();
    let mut refused = report(Role::Undecided, &[ExchangeResult::Refused; 2]);
    let detail = "look at the role".to_owned();
    refused.problems.push(Problem { class: ProblemClass::Refused, detail });
    board.on_step(&refused, NOW, NOW);
    // Problems are not repeated in each step.
    board.on_step(&report(Role::Undecided, &[ExchangeResult::Refused]), NOW, NOW);
    let reason = Readiness::NotReady("refused: look at the role".to_owned());
    assert_eq!(board.readiness(NOW), reason);
}

#[test]
fn a_loop_that_stands_still_is_neither_healthy_nor_ready() {
    let board = board();
    board.on_step(&report(leading(), &[ExchangeResult::Done]), NOW, NOW);
    assert!(board.is_running(NOW + seconds(149)));
    assert!(!board.is_running(NOW + seconds(150)));
    let reason = "this candidate has made no step for 150 s: its main loop is stalled";
    assert_eq!(board.readiness(NOW + seconds(150)), Readiness::NotReady(reason.to_owned()));
}

#[test]
fn a_loop_that_is_not_to_begin_yet_does_not_stand_still() {
    let board = board();
    board.delay_start();
    assert!(board.is_running(NOW + seconds(3_600)), "components are compiled");
    board.start(NOW + seconds(3_600));
    assert!(board.is_running(NOW + seconds(3_749)));
    assert!(!board.is_running(NOW + seconds(3_750)));
}

#[test]
fn a_loop_that_has_ended_does_not_stand_still() {
    let board = board();
    board.on_step(&report(leading(), &[ExchangeResult::Done]), NOW, NOW);
    board.on_event(&Event::Stopped, NOW);
    let later = NOW + seconds(3600);
    assert!(board.is_running(later));
    let left = Readiness::NotReady("it has left the election".to_owned());
    assert_eq!(board.readiness(later), left);
    assert_eq!(board.summary(later).role, "left");
}

#[test]
fn a_summary_has_the_role_after_the_first_step() {
    let board = board();
    assert!(!board.summary(NOW).has_stepped);
    board.on_step(&report(leading(), &[ExchangeResult::Done]), NOW, NOW);
    let summary = board.summary(NOW + seconds(2));
    assert_eq!((summary.role, summary.has_stepped), ("leading", true));
}

async fn get(server: &Server, path: &str) -> (u16, Option<String>, String) {
    let (head, body) = exchange(server, path, "x").await;
    let location = head.lines().find_map(|line| line.strip_prefix("location: "));
    (status(&head), location.map(str::to_owned), body)
}

fn status(head: &str) -> u16 {
    head.split(' ').nth(1).unwrap().parse().unwrap()
}

/// Returns head and body of the response to a request with this host name.
async fn exchange(server: &Server, path: &str, host: &str) -> (String, String) {
    let mut stream = tokio::net::TcpStream::connect(server.address()).await.unwrap();
    let request = format!("{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

async fn serve(board: Arc<Board>, clock: &BootClock) -> Server {
    let listener = Server::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    Server::serve(listener, board, clock).unwrap()
}

#[tokio::test]
async fn every_candidate_reports_the_leader() {
    let clock = BootClock::new();
    let board = Arc::new(Board::new("jobs/report", "ada", clock.now()));
    let server = serve(board.clone(), &clock).await;
    let parse_json = |body: String| serde_json::from_str::<Value>(&body).unwrap();

    assert_eq!(get(&server, "GET /healthz").await.0, 200);
    assert_eq!(get(&server, "GET /readyz").await.0, 503);
    board.on_step(&report(following(None), &[ExchangeResult::Done]), clock.now(), clock.now());
    assert_eq!(get(&server, "GET /readyz").await.0, 200);
    assert_eq!(get(&server, "GET /readyz?leader").await.0, 503);
    let (status, _, body) = get(&server, "GET /leader").await;
    assert_eq!(status, 200);
    assert_eq!(parse_json(body)["leader"]["name"], "<script>");
    assert_eq!(get(&server, "GET /leader?redirect").await.0, 503);

    for (address, expected) in [
        ("http://10.0.0.9:8080", Some("http://10.0.0.9:8080")),
        ("10.0.0.9", None),
        ("javascript:alert(1)", None),
        ("http://a\r\nset-cookie: b", None),
    ] {
        let role = following(Some(address));
        board.on_step(&report(role, &[ExchangeResult::Done]), clock.now(), clock.now());
        let (status, location, _) = get(&server, "GET /leader?redirect").await;
        assert_eq!(
            (status, location.as_deref()),
            (if expected.is_some() { 307 } else { 503 }, expected)
        );
    }

    board.on_step(&report(leading(), &[ExchangeResult::Done]), clock.now(), clock.now());
    board.on_event(
        &Event::Elected { term: 7, valid_for: seconds(12), next_turn: None },
        clock.now(),
    );
    assert_eq!(get(&server, "GET /readyz?leader").await.0, 200);
    let body = parse_json(get(&server, "GET /leader").await.2);
    assert_eq!((&body["leading"], &body["leader"]["term"]), (&Value::Bool(true), &Value::from(7)));
    let changes = parse_json(get(&server, "GET /history").await.2);
    assert_eq!(changes["changes"][0]["event"], "elected");
    // The validity expires even without an event.
    let over = Role::Leading(Leadership { term: 7, valid_for: Duration::ZERO });
    board.on_step(&report(over, &[ExchangeResult::Done]), clock.now(), clock.now());
    assert_eq!(get(&server, "GET /readyz?leader").await.0, 503);
}

#[tokio::test]
async fn metrics_are_served_and_pages_are_read_only() {
    let clock = BootClock::new();
    let board = Arc::new(Board::new("jobs/report", "ada \"the\" first", clock.now()));
    let server = serve(board.clone(), &clock).await;
    let results = [ExchangeResult::Done, ExchangeResult::Unanswered];
    board.on_step(&report(leading(), &results), clock.now(), clock.now());
    board.on_event(
        &Event::Elected { term: 7, valid_for: seconds(12), next_turn: None },
        clock.now(),
    );
    board.on_event(&Event::TurnStarted { turn: turn() }, clock.now());
    board.on_event(&ended(TurnEnd::Succeeded), clock.now());
    let reason = StandDownReason::Election(EndingReason::Left);
    board.on_event(&Event::StoodDown { term: 7, reason }, clock.now());
    board.on_step(&report(leading(), &[]), clock.now(), clock.now());
    let (status, _, text) = get(&server, "GET /metrics").await;
    assert_eq!(status, 200);
    let labels = r#"election="jobs/report",candidate="ada \"the\" first""#;
    for line in [
        format!("tenure_is_leader{{{labels}}} 1"),
        format!("tenure_term{{{labels}}} 7"),
        format!("tenure_elections_won_total{{{labels}}} 1"),
        format!("tenure_stand_downs_total{{{labels}}} 1"),
        format!("tenure_renewal_seconds_count{{{labels}}} 1"),
        format!(r#"tenure_turns_total{{{labels},outcome="succeeded"}} 1"#),
        format!(r#"tenure_turns_total{{{labels},outcome="failed"}} 0"#),
        format!(r#"tenure_turns_total{{{labels},outcome="trapped"}} 0"#),
        format!(r#"tenure_turns_total{{{labels},outcome="timed-out"}} 0"#),
        format!(r#"tenure_turns_total{{{labels},outcome="cut-off"}} 0"#),
        format!(r#"tenure_problems_total{{{labels},class="refused"}} 0"#),
        "# TYPE tenure_turns_total counter".to_owned(),
        format!(r#"tenure_build_info{{version="{}"}} 1"#, env!("CARGO_PKG_VERSION")),
        format!(r#"tenure_requests_total{{{labels},verb="renew-lease",result="unanswered"}} 1"#),
    ] {
        assert!(text.contains(&line), "{line} is not in {text}");
    }
    for (request, expected) in
        [("POST /leader", 405), ("DELETE /healthz", 405), ("GET /leaders", 404)]
    {
        assert_eq!(get(&server, request).await.0, expected, "{request}");
    }
    for (request, words) in [
        ("GET /hint", "send it as POST, not GET"),
        ("OPTIONS /hint", "send it as POST"),
        ("POST /leader", "this is read-only"),
        ("DELETE /", "this is read-only"),
        ("POST /events", "this is read-only"),
        ("GET /leaders", "/healthz"),
    ] {
        let (_, _, body) = get(&server, request).await;
        assert!(body.contains(words), "{request}: {body}");
    }
    // The table in the documentation of the crate has all paths.
    let (_, _, body) = get(&server, "GET /leaders").await;
    let error = serde_json::from_str::<Value>(&body).unwrap()["error"].to_string();
    let named: Vec<_> = error.split([' ', ',', ';', '"']).collect();
    let requests = include_str!("lib.rs").lines().flat_map(|line| {
        let row = line.strip_prefix("//! | `").unwrap_or_default();
        row.split('`').filter(|text| text.starts_with("GET /") || text.starts_with("POST /"))
    });
    let requests: Vec<_> = requests.collect();
    assert!(requests.len() > 10, "{requests:?}");
    for request in requests {
        let path = request.split(' ').nth(1).unwrap().split('?').next().unwrap();
        assert!(named.contains(&path), "{request} is not in {error}");
    }
    assert!(error.contains("POST /hint"), "{error}");
}

#[tokio::test]
async fn several_elections_are_distinguished() {
    let clock = BootClock::new();
    let now = || clock.now();
    let boards = ["jobs/a", "jobs/b"].map(|election| Arc::new(Board::new(election, "ada", now())));
    let listener = Server::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let roster = Roster::new(&clock);
    boards.iter().for_each(|board| roster.add(board.clone()));
    let server = Server::serve_all(listener, roster, Hosts::default()).unwrap();
    let [first, second] = boards;
    let parse_json = |body: String| serde_json::from_str::<Value>(&body).unwrap();

    assert_eq!(get(&server, "GET /readyz").await.0, 503);
    first.on_step(&report(leading(), &[ExchangeResult::Done]), now(), now());
    // A candidate that was just added does not count yet.
    assert_eq!(get(&server, "GET /readyz").await.0, 200);
    assert_eq!(get(&server, "GET /readyz?election=jobs/b").await.0, 503);
    let unanswered = report(Role::Undecided, &[ExchangeResult::Unavailable; 2]);
    second.on_step(&unanswered, now(), now());
    let (status, _, body) = get(&server, "GET /readyz").await;
    assert_eq!(status, 503);
    assert!(body.contains("jobs/b: "), "{body}");
    second.on_step(&report(following(None), &[ExchangeResult::Done]), now(), now());
    for (request, expected) in [
        ("GET /healthz", 200),
        ("GET /readyz", 200),
        ("GET /readyz?leader", 400),
        ("GET /readyz?leader&election=jobs/a", 200),
        ("GET /readyz?election=jobs%2Fb&leader", 503),
        ("GET /leader", 400),
        ("GET /leader?election=jobs/c", 404),
        ("GET /history?election=jobs/a", 200),
    ] {
        assert_eq!(get(&server, request).await.0, expected, "{request}");
    }
    let body = parse_json(get(&server, "GET /leader?election=jobs/b").await.2);
    assert_eq!((&body["election"], &body["leader"]["term"]), (&"jobs/b".into(), &6.into()));
    let body = parse_json(get(&server, "GET /leader").await.2);
    assert_eq!(body["elections"], serde_json::json!(["jobs/a", "jobs/b"]));

    let (_, _, text) = get(&server, "GET /metrics").await;
    for leads in
        ["election=\"jobs/a\",candidate=\"ada\"} 1", "election=\"jobs/b\",candidate=\"ada\"} 0"]
    {
        assert!(text.contains(&format!("tenure_is_leader{{{leads}")), "{text}");
    }
    let heads: Vec<_> = text.lines().filter(|line| line.starts_with('#')).collect();
    let once: std::collections::BTreeSet<_> = heads.iter().collect();
    assert_eq!(once.len(), heads.len(), "{text}");
    // The samples of a metric follow its head.
    let mut name = "";
    for line in text.lines() {
        match line.strip_prefix("# HELP ").and_then(|head| head.split(' ').next()) {
            Some(next) => name = next,
            None => assert!(line.starts_with('#') || line.starts_with(name), "{line} below {name}"),
        }
    }
}

#[tokio::test]
async fn elections_come_and_go_while_others_are_shown() {
    let clock = BootClock::new();
    let board = |election| {
        let board = Arc::new(Board::new(election, "ada", clock.now()));
        board.on_step(&report(leading(), &[ExchangeResult::Done]), clock.now(), clock.now());
        board
    };
    let listener = Server::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let roster = Roster::new(&clock);
    let server = Server::serve_all(listener, roster.clone(), Hosts::default()).unwrap();
    let status = async |request: &str| get(&server, request).await.0;
    assert_eq!(status("GET /readyz").await, 200, "nothing keeps nobody from leading");
    assert_eq!(status("GET /leader").await, 400);
    let (first, second) = (board("jobs/a"), board("jobs/b"));
    roster.add(first);
    assert_eq!(status("GET /leader").await, 200);
    roster.add(second.clone());
    assert_eq!(status("GET /leader").await, 400);
    assert_eq!(status("GET /leader?election=jobs/b").await, 200);
    assert!(get(&server, "GET /metrics").await.2.contains("jobs/b"));

    // The stream of a removed election sends its last change and ends.
    let mut streams = Vec::new();
    for path in ["/watch", "/events"] {
        let mut stream = tokio::net::TcpStream::connect(server.address()).await.unwrap();
        let request =
            format!("GET {path}?election=jobs/b HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut text = Vec::new();
        while !String::from_utf8_lossy(&text).contains("data: ") {
            assert!(stream.read_buf(&mut text).await.unwrap() > 0);
        }
        streams.push((stream, text));
    }
    second.on_step(&report(Role::Left, &[]), clock.now(), clock.now());
    roster.remove(&second);
    for (mut stream, mut text) in streams {
        let ended = tokio::time::timeout(seconds(60), stream.read_to_end(&mut text)).await;
        ended.expect("it ends").unwrap();
        let text = String::from_utf8(text).unwrap();
        assert_eq!(text.matches("data: ").count(), 2, "{text}");
    }
    assert_eq!(status("GET /leader").await, 200);
    assert_eq!(status("GET /leader?election=jobs/b").await, 404);
    assert!(!get(&server, "GET /metrics").await.2.contains("jobs/b"));
}

#[tokio::test]
async fn a_port_in_use_is_known_at_once() {
    let taken = Server::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let again = Server::bind(taken.local_addr().unwrap()).await;
    assert_eq!(again.unwrap_err().kind(), io::ErrorKind::AddrInUse);
}

#[test]
fn turns_that_were_late_refused_or_stopped_are_counted() {
    let board = board();
    let turn_started = |past_due| Event::TurnStarted { turn: Turn { past_due, ..turn() } };
    for event in [
        turn_started(true),
        ended(TurnEnd::Succeeded),
        turn_started(false),
        ended(TurnEnd::CutOff),
        turn_started(false),
        ended(TurnEnd::TimedOut),
        // Claimed but never started.
        ended(TurnEnd::CutOff),
    ] {
        board.on_event(&event, NOW);
    }
    // The last claim reported missed slots, although its turn never started.
    let turn = Turn {
        election: String::new(),
        key: String::new(),
        term: 7,
        slot: Timestamp(0),
        trigger: None,
        attempt: 1,
        past_due: true,
        missed: 4,
        valid_for: Duration::ZERO,
        time_limit: None,
        share: None,
    };
    board.on_step(&Report { run: Some(turn), ..report(Role::Undecided, &[]) }, NOW, NOW);
    let counts = board.metrics.counts();
    assert_eq!((counts.past_due, counts.missed, counts.refused, counts.preempted), (1, 4, 1, 2));
    assert_eq!(counts.turn_durations.count, 3);
}
