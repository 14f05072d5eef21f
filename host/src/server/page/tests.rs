use super::*;
use http_body_util::BodyExt as _;
use tower_service::Service as _;

fn source() -> Source {
    let (sender, changed) = watch::channel(());
    let view = move || {
        // Somebody could tell of a change as long as this lives.
        let _ = &sender;
        View { election: "a/b".to_owned(), ..View::default() }
    };
    Source::new(view, changed)
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
    let response = get(&mut router(vec![("demo/report".to_owned(), source())]), "/").await;
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
    // What the policy allows is what stands between the tags, to the byte.
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
    let mut app = router(vec![("demo/report".to_owned(), source())]);
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
    assert!(text(response).await.contains("32 viewers are watching"));
    viewers.pop();
    assert_eq!(get(&mut app, "/events").await.status(), 200);
}

#[tokio::test]
async fn of_several_elections_the_query_chooses_one() {
    let mut app = router(vec![("a/1".to_owned(), source()), ("b/2".to_owned(), source())]);
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
async fn of_several_elections_the_page_links_to_all_and_marks_its_own() {
    let script = "a/<script>alert(1)</script>";
    let mut app = router(vec![(script.to_owned(), source()), ("b/2".to_owned(), source())]);
    for (path, own) in
        [("/", "a/%3Cscript%3E"), ("/?election=b%2F2", "b/2"), ("/?election=c/3", "")]
    {
        let page = text(get(&mut app, path).await).await;
        let marked: Vec<_> =
            page.lines().filter(|line| line.contains("aria-current=\"page\"")).collect();
        assert_eq!(marked.len(), usize::from(!own.is_empty()), "{path}: {marked:?}");
        assert_eq!(page.matches("href=\"/?election=").count(), 2, "{path}");
        assert_eq!(page.matches("<script").count(), 1, "{path}: its own");
        if !own.is_empty() {
            assert!(marked[0].contains(&format!("href=\"/?election={own}")), "{path}: {marked:?}");
            assert!(page.contains(&format!("href=\"/leader?election={own}")), "{path}");
        }
    }
}
