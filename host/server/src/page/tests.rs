use super::*;
use http_body_util::BodyExt as _;
use tower_service::Service as _;

fn source(election: &'static str) -> Source {
    let (sender, changed) = watch::channel(());
    let view = move || {
        // Keeps the sender alive, so the channel stays open.
        let _ = &sender;
        View { election: "a/b".to_owned(), ..View::default() }
    };
    Source::new(election, view, changed)
}

async fn get(app: &mut Router, path: &str) -> Response<Body> {
    let request = http::Request::get(path).body(Body::empty()).unwrap();
    app.call(request).await.unwrap()
}

async fn text(response: Response<Body>) -> String {
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

#[tokio::test]
async fn the_page_is_one_file_that_may_run_its_own_script_and_nothing_else() {
    let response = get(&mut router(|| vec![source("demo/report")]), "/").await;
    let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
    assert_eq!(header("content-type"), "text/html; charset=utf-8");
    assert_eq!(header("x-content-type-options"), "nosniff");
    assert_eq!(header("referrer-policy"), "no-referrer");
    assert!(!response.headers().contains_key("set-cookie"));
    let policy = header("content-security-policy");
    for part in [
        "default-src 'none'",
        "connect-src 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'none'",
    ] {
        assert!(policy.split("; ").any(|directive| directive == part), "{part} is not in {policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");

    let page = text(response).await;
    // The policy allows exactly the bytes between the tags.
    for (tag, directive) in [("script", "script-src"), ("style", "style-src")] {
        let (_, rest) = page.split_once(&format!("<{tag}>")).unwrap();
        let (inside, rest) = rest.split_once(&format!("</{tag}>")).unwrap();
        assert!(!rest.contains(&format!("<{tag}")), "there is one {tag}");
        let hash = STANDARD.encode(Sha256::digest(inside));
        assert!(policy.contains(&format!("{directive} 'sha256-{hash}';")), "{tag}: {policy}");
    }
    assert!(page.contains("<noscript>") && page.contains("href=\"/leader\""));
    assert!(!page.contains("<nav") && !page.contains("<!--"), "there is one election");
    for outside in ["http://", "https://", "//cdn", "@import", "innerHTML"] {
        let found = page.replace("http://www.w3.org/2000/svg", "").contains(outside);
        assert!(!found, "{outside}");
    }
}

#[tokio::test]
async fn the_first_event_is_a_view_and_the_33rd_viewer_is_turned_away_until_one_goes() {
    let mut app = router(|| vec![source("demo/report")]);
    let mut viewers = Vec::new();
    for _ in 0..VIEWERS {
        let mut response = get(&mut app, "/events").await;
        assert_eq!(response.status(), 200);
        let first = response.body_mut().frame().await.unwrap().unwrap().into_data().unwrap();
        let first = String::from_utf8_lossy(&first).into_owned();
        assert!(first.contains("data: {\"election\":\"a/b\""), "{first}");
        viewers.push(response);
    }
    let response = get(&mut app, "/events").await;
    assert_eq!(response.status(), 503);
    assert!(text(response).await.contains("the limit of 32 viewers is reached"));
    viewers.pop();
    assert_eq!(get(&mut app, "/events").await.status(), 200);
}

#[tokio::test]
async fn of_several_elections_the_query_chooses_one() {
    let mut app = router(|| vec![source("a/1"), source("b/2")]);
    for (path, status) in [
        ("/events", 200),
        ("/events?election=b%2F2", 200),
        ("/events?election=c/3", 404),
        ("/?election=c/3", 404),
    ] {
        assert_eq!(get(&mut app, path).await.status(), status, "{path}");
    }
}

#[tokio::test]
async fn of_several_elections_the_page_is_an_overview_and_each_leads_back_to_it() {
    let script = "a/<script>alert(1)</script>\"&%3C#?=+";
    let mut app = router(move || vec![source(script), source("b/2")]);
    let is_overview = |page: &str| page.contains("id=\"search\"") && !page.contains("id=\"lanes\"");
    for path in ["/", "/?election=c/3"] {
        let response = get(&mut app, path).await;
        let policy = response.headers()["content-security-policy"].to_str().unwrap().to_owned();
        let page = text(response).await;
        assert!(is_overview(&page) && !page.contains("<!--"), "{path}");
        let (_, rest) = page.split_once("<script>").unwrap();
        let (inside, _) = rest.split_once("</script>").unwrap();
        let hash = STANDARD.encode(Sha256::digest(inside));
        assert!(policy.contains(&format!("script-src 'sha256-{hash}';")), "{policy}");
    }
    let named = "a/%3Cscript%3Ealert%281%29%3C/script%3E%22%26%253C%23%3F%3D%2B";
    for election in [named, "b/2"] {
        let page = text(get(&mut app, &format!("/?election={election}")).await).await;
        assert!(!is_overview(&page) && page.contains("<a href=\"/\">All 2 elections</a>"));
        assert_eq!(page.matches("<script").count(), 1, "{election}: its own");
        assert!(page.contains(&format!("href=\"/leader?election={election}")), "{election}");
    }
    let mut single = router(|| vec![source("a/b")]);
    for path in ["/", "/?election=a/b"] {
        assert!(!is_overview(&text(get(&mut single, path).await).await), "{path}");
    }
    let mut none = router(Vec::new);
    for (path, status) in [("/", 200), ("/?election=a/b", 404), ("/events?overview", 200)] {
        assert_eq!(get(&mut none, path).await.status(), status, "{path}");
    }
    assert!(is_overview(&text(get(&mut none, "/").await).await));
}

#[tokio::test]
async fn the_overview_has_one_stream_for_all_elections() {
    let row = |name: &'static str| move || Row { election: name.to_owned(), ..Row::default() };
    let source = move |name: &'static str| source(name).with_row(row(name));
    let mut app = router(move || vec![source("a/1"), source("b/2")]);
    let mut response = get(&mut app, "/events?overview").await;
    let first = response.body_mut().frame().await.unwrap().unwrap().into_data().unwrap();
    let first = String::from_utf8_lossy(&first).into_owned();
    assert!(
        first.contains("\"election\":\"a/1\"") && first.contains("\"election\":\"b/2\""),
        "{first}"
    );
}

/// Returns the election in the next event, which must start with `start`.
async fn next_election(response: &mut Response<Body>, start: &str) -> String {
    let frame = response.body_mut().frame().await.unwrap().unwrap();
    let text = String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap();
    let data = text.strip_prefix(start).unwrap_or_else(|| panic!("{text}"));
    let view: serde_json::Value = serde_json::from_str(data.trim_end()).unwrap();
    view["election"].as_str().unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn the_newest_view_is_sent_at_once_on_changes_and_periodically() {
    let (election, changed) = watch::channel(String::from("a"));
    let change = watch::Sender::new(());
    let source = Source::new(
        "a/b",
        move || View { election: changed.borrow().clone(), ..View::default() },
        change.subscribe(),
    );
    let permits = Arc::new(Semaphore::new(1));
    let permit = permits.clone().try_acquire_owned().unwrap();
    let mut response = stream(source, permit);
    assert_eq!(response.headers()["content-type"], "text/event-stream");

    let started_at = Instant::now();
    assert_eq!(next_election(&mut response, "retry: 1000\ndata: ").await, "a");
    assert_eq!(started_at.elapsed(), Duration::ZERO);
    // A slow reader gets only the newest view.
    for name in ["b", "c"] {
        election.send_replace(name.to_owned());
        change.send_replace(());
    }
    assert_eq!(next_election(&mut response, "data: ").await, "c");
    assert!(
        (MIN_SPACING..2 * MIN_SPACING).contains(&started_at.elapsed()),
        "{:?}",
        started_at.elapsed()
    );
    // Without a change, the view is repeated.
    let silent = Instant::now();
    assert_eq!(next_election(&mut response, "data: ").await, "c");
    assert!(
        (MAX_SPACING..MAX_SPACING + MIN_SPACING).contains(&silent.elapsed()),
        "{:?}",
        silent.elapsed()
    );

    assert_eq!(permits.available_permits(), 0);
    // The stream ends and releases its permit.
    while response.body_mut().frame().await.is_some() {}
    assert!(
        (STREAM_LIFETIME..STREAM_LIFETIME + MAX_SPACING).contains(&started_at.elapsed()),
        "{:?}",
        started_at.elapsed()
    );
    assert_eq!(permits.available_permits(), 1);
}
