//! Access control: host names, addresses and methods.

use super::*;

#[tokio::test]
async fn a_page_that_has_its_name_resolved_to_the_listener_reads_nothing() {
    let clock = BootClock::new();
    let board = Arc::new(Board::new("jobs/report", "ada", clock.now()));
    let role = following(Some("http://10.0.0.9:8080"));
    board.on_step(&report(role, &[ExchangeResult::Done]), clock.now(), clock.now());
    let listener = Server::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let hosts = Hosts::default();
    let roster = Roster::new(&clock);
    roster.add(board);
    let server = Server::serve_all(listener, roster, hosts.clone()).unwrap();
    // A name that is added later.
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
        ("POST /hint", "evil.example", 421),
        ("GET http://evil.example/leader", "localhost", 421),
        ("GET /healthz", "evil.example", 200),
        ("GET /readyz", "evil.example", 200),
    ] {
        let (head, _) = exchange(&server, path, host).await;
        assert_eq!(status(&head), expected, "{path} by {host}: {head}");
    }
}

#[tokio::test]
async fn any_client_may_hint_at_an_order_and_only_a_leader_looks() {
    let clock = BootClock::new();
    let board = Arc::new(Board::new("jobs/report", "ada", clock.now()));
    let server = serve(board.clone(), &clock).await;
    let hinted =
        async || tokio::time::timeout(Duration::ZERO, board.hints().notified()).await.is_ok();
    let (status, _, body) = get(&server, "POST /hint").await;
    assert!(status == 409 && body.contains("does not lead"), "{status} {body}");
    let role = following(Some("http://10.0.0.9:8080"));
    board.on_step(&report(role, &[ExchangeResult::Done]), clock.now(), clock.now());
    let (status, _, body) = get(&server, "POST /hint").await;
    assert!(status == 409 && body.contains("http://10.0.0.9:8080"), "{status} {body}");
    assert!(!hinted().await);
    board.on_step(&report(leading(), &[ExchangeResult::Done]), clock.now(), clock.now());
    assert_eq!(get(&server, "POST /hint").await.0, 202);
    assert!(hinted().await);
}
