//! Who may read, who may steer, and by which names and addresses.

use super::*;
use crate::contract::{Outcome, TriggerState};

const TOKEN: &str = "0123456789abcdef";

#[test]
fn a_control_token_is_long_and_never_printed() {
    for (bad, why) in
        [("", "fewer"), ("0123456789abcde", "fewer"), ("0123456789 abcdefgh", "spaces")]
    {
        assert!(ControlToken::new(bad).unwrap_err().contains(why), "{bad}");
    }
    let token = ControlToken::new(" 0123456789abcdef\n").unwrap();
    assert_eq!(token.reveal(), TOKEN);
    assert!(!format!("{token:?}").contains("0123"));
}

#[tokio::test]
async fn who_has_the_token_steers_and_nobody_else() {
    let clock = BootClock::new();
    let board = Arc::new(Board::new("jobs/report", "ada", clock.now()));
    let (orders, mut ordered) = mpsc::channel(1);
    let control = Control { token: ControlToken::new(TOKEN).unwrap(), orders };
    let server = serve_with(board.clone(), &clock, Some(control)).await;
    let with = |path: &str, token: &str| {
        format!("{path} HTTP/1.1\r\nauthorization: Bearer {token}\r\nx-rest:")
    };
    let verbs = ["POST /resign", "POST /transfer?to=b", "POST /pause", "POST /resume"];
    for verb in verbs {
        for shown in [
            verb.to_owned(),
            with(verb, ""),
            with(verb, &TOKEN[1..]),
            with(verb, "0123456789abcdeX"),
        ] {
            assert_eq!(get(&server, &shown).await.0, 401, "{shown}");
        }
        assert_eq!(get(&server, &verb.replace("POST", "GET")).await.0, 405, "{verb}");
    }
    // One that does not lead has nothing to give up.
    for verb in &verbs[..2] {
        assert_eq!(get(&server, &with(verb, TOKEN)).await.0, 409);
    }
    assert!(ordered.try_recv().is_err());

    board.stepped(&report(leading(), &[ExchangeResult::Done]), clock.now(), clock.now());
    for (verb, order) in [
        ("POST /resign", Order::Resign),
        ("POST /transfer?to=b%20c%2F", Order::HandOver("b c/".to_owned())),
        ("POST /pause", Order::Pause),
        ("POST /resume", Order::Resume),
    ] {
        assert_eq!(get(&server, &with(verb, TOKEN)).await.0, 202, "{verb}");
        assert_eq!(ordered.try_recv(), Ok(order));
    }
    for (verb, status) in [
        ("POST /transfer", 400),
        ("POST /transfer?to=", 400),
        ("POST /transfer?to=ada", 409),
        ("POST /pause", 202),
        // The one before was not taken yet.
        ("POST /pause", 503),
    ] {
        assert_eq!(get(&server, &with(verb, TOKEN)).await.0, status, "{verb}");
    }
}

#[tokio::test]
async fn who_proves_the_token_steers_without_showing_it() {
    let clock = BootClock::new();
    let board = Arc::new(Board::new("jobs/report", "ada", clock.now()));
    let (orders, mut ordered) = mpsc::channel(9);
    let token = ControlToken::new(TOKEN).unwrap();
    let server =
        serve_with(board.clone(), &clock, Some(Control { token: token.clone(), orders })).await;
    board.stepped(&report(leading(), &[ExchangeResult::Done]), clock.now(), clock.now());
    let meant = |order, to| proof::Intent { order, to, election: "jobs/report", candidate: "ada" };
    let shown = async |path: &str, intent: proof::Intent<'_>| {
        let (head, _) = exchange(&server, path, "x").await;
        assert_eq!(status(&head), 401, "{path}: {head}");
        let challenges = head.lines().filter_map(|l| l.strip_prefix("www-authenticate: "));
        let nonce = proof::nonce_of(challenges).unwrap_or_else(|| panic!("{head}"));
        let shown = proof::authorization(nonce, &intent.prove(&token, nonce));
        format!("{path} HTTP/1.1\r\nauthorization: {shown}\r\nx-rest:")
    };
    for (path, intent, order) in [
        ("POST /resign", meant("resign", ""), Order::Resign),
        ("POST /transfer?to=b%20c", meant("transfer", "b c"), Order::HandOver("b c".to_owned())),
        ("POST /pause", meant("pause", ""), Order::Pause),
        ("POST /resume", meant("resume", ""), Order::Resume),
    ] {
        let request = shown(path, intent).await;
        assert!(!request.contains(TOKEN));
        assert_eq!(get(&server, &request).await.0, 202, "{path}");
        assert_eq!(ordered.try_recv(), Ok(order));
        assert_eq!(get(&server, &request).await.0, 401, "{path}: once");
        // What was meant for another one, or otherwise, is of no use here.
        let wrong = shown(path, proof::Intent { candidate: "eve", ..intent }).await;
        assert_eq!(get(&server, &wrong).await.0, 401, "{path}");
        let other = if path == "POST /resign" { "POST /pause" } else { "POST /resign" };
        let turned = shown(path, intent).await.replacen(path, other, 1);
        assert_eq!(get(&server, &turned).await.0, 401, "{path}");
    }
    assert!(ordered.try_recv().is_err());
}

#[tokio::test]
async fn a_page_that_has_its_name_resolved_to_the_listener_reads_nothing() {
    let clock = BootClock::new();
    let board = Arc::new(Board::new("jobs/report", "ada", clock.now()));
    let role = following(Some("http://10.0.0.9:8080"));
    board.stepped(&report(role, &[ExchangeResult::Done]), clock.now(), clock.now());
    let listener = Server::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let hosts = Hosts::default();
    let roster = Roster::new(&clock).unwrap();
    roster.add(board, None);
    let server = Server::serve_all(listener, roster, hosts.clone()).unwrap();
    // One that comes later.
    hosts.add("tenure.example.com");
    for path in ["/", "/events", "/leader", "/leader?redirect", "/history", "/metrics", "/none"] {
        let path = &format!("GET {path}");
        for host in ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "a b"] {
            let (head, body) = exchange(&server, path, host).await;
            assert_eq!(status(&head), 421, "{path} by {host}: {head}");
            assert!(body.contains("--listen-host") && !body.contains("10.0.0.9"), "{body}");
        }
    }
    for (path, host, expected) in [
        ("GET /leader", "127.0.0.1:8080", 200),
        ("GET /leader", "tenure.example.com", 200),
        ("GET /leader?redirect", "tenure.jobs.svc:8080", 307),
        ("POST /pause", "evil.example", 421),
        ("GET http://evil.example/leader", "localhost", 421),
        ("GET /healthz", "evil.example", 200),
        ("GET /readyz", "evil.example", 200),
    ] {
        let (head, _) = exchange(&server, path, host).await;
        assert_eq!(status(&head), expected, "{path} by {host}: {head}");
    }
}

#[tokio::test]
async fn without_a_token_nobody_steers() {
    let clock = BootClock::new();
    let server = serve(Arc::new(Board::new("jobs/report", "ada", clock.now())), &clock).await;
    let (status, _, told) = get(&server, "POST /pause").await;
    assert_eq!(status, 403);
    assert!(told.contains("--control-token-file"), "{told}");
}

#[tokio::test]
async fn triggers_are_placed_by_who_has_the_token_and_hinted_at_by_anybody() {
    let clock = BootClock::new();
    let board = Arc::new(Board::new("jobs/report", "ada", clock.now()));
    let (orders, _ordered) = mpsc::channel(1);
    let token = ControlToken::new(TOKEN).unwrap();
    let server =
        serve_with(board.clone(), &clock, Some(Control { token: token.clone(), orders })).await;
    let with = |path: &str| format!("{path} HTTP/1.1\r\nauthorization: Bearer {TOKEN}\r\nx-rest:");
    let hinted =
        async || tokio::time::timeout(Duration::ZERO, board.hints().notified()).await.is_ok();
    assert_eq!(get(&server, "POST /trigger").await.0, 409, "it does not lead");
    assert_eq!(get(&server, &with("POST /trigger?id=a")).await.0, 409);
    assert!(!hinted().await);
    board.stepped(&report(leading(), &[ExchangeResult::Done]), clock.now(), clock.now());
    assert_eq!(get(&server, "POST /trigger").await.0, 202);
    assert!(hinted().await);
    assert_eq!(get(&server, &with("POST /trigger?id=a")).await.0, 503, "it is not judged yet");
    let _ = hinted().await;
    board.place_triggers(|id, place| async move {
        match (id.as_str(), place) {
            ("a", true) => Ok(TriggerState::Waiting(946_684_800_000_000_000)),
            ("a", false) => Ok(TriggerState::Ended(Outcome::TimedOut)),
            ("full", _) => Err(Problem { class: ProblemClass::Order, detail: "too many".into() }),
            _ => Err(Problem { class: ProblemClass::Refused, detail: "it needs w".into() }),
        }
    });
    for path in ["POST /trigger?id=a", "GET /trigger?id=a"] {
        assert_eq!(get(&server, path).await.0, 401, "{path}");
    }
    assert!(!hinted().await);
    for (path, status, told) in [
        (
            "POST /trigger?id=a",
            202,
            r#""state":"waiting","trigger":"a","until":"2000-01-01T00:00:00Z""#,
        ),
        ("GET /trigger?id=a", 200, r#""outcome":"timed-out","state":"ended","trigger":"a""#),
        ("POST /trigger?id=full", 409, "too many"),
        ("POST /trigger?id=b", 502, "it needs w"),
        ("GET /trigger", 400, "name the trigger"),
    ] {
        let (got, _, body) = get(&server, &with(path)).await;
        assert_eq!(got, status, "{path}: {body}");
        assert!(body.contains(told), "{path}: {body}");
    }
    assert!(hinted().await);
    // A proof is for one of the two.
    let (head, _) = exchange(&server, "GET /trigger?id=a", "x").await;
    let challenges = head.lines().filter_map(|l| l.strip_prefix("www-authenticate: "));
    let nonce = proof::nonce_of(challenges).unwrap();
    let (order, to) = ("triggered", "a");
    let intent = proof::Intent { order, to, election: "jobs/report", candidate: "ada" };
    let shown = proof::authorization(nonce, &intent.prove(&token, nonce));
    for (method, status) in [("POST", 401), ("GET", 200)] {
        let proven =
            format!("{method} /trigger?id=a HTTP/1.1\r\nauthorization: {shown}\r\nx-rest:");
        assert_eq!(get(&server, &proven).await.0, status, "{method}");
    }
}
