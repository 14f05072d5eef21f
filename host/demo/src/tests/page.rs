use super::script::started;
use crate::page::{Control, app};
use crate::story::SharedStory;
use axum::Router;
use axum::body::Body;
use axum::http::HeaderMap;
use http_body_util::BodyExt as _;
use tenure_server::page::view::Kind;
use tokio::sync::watch;
use tower_service::Service as _;

const ADDRESS: &str = "127.0.0.1:4711";
const TOKEN: &str = "0123456789abcdef";

fn control() -> Control {
    let (address, token) = (ADDRESS.parse().unwrap(), TOKEN.to_owned());
    Control { address, token, story: SharedStory::new(started()) }
}

fn headers(entries: &[(&'static str, &str)]) -> HeaderMap {
    let entry =
        |(name, value): &(&'static str, &str)| (name.parse().unwrap(), value.parse().unwrap());
    let entries: Vec<(http::HeaderName, http::HeaderValue)> = entries.iter().map(entry).collect();
    let mut headers = HeaderMap::new();
    for (name, value) in entries {
        headers.append(name, value);
    }
    headers
}

#[test]
fn only_the_page_itself_with_its_token_is_admitted() {
    let good = [
        ("host", ADDRESS),
        ("origin", "http://127.0.0.1:4711"),
        ("authorization", "Bearer 0123456789abcdef"),
    ];
    let control = control();
    let admitted = |entries: &[(&'static str, &str)]| control.authorize(&headers(entries)).is_ok();
    assert!(admitted(&good));
    for (place, (name, value)) in good.iter().enumerate() {
        let mut without = good.to_vec();
        without.remove(place);
        assert!(!admitted(&without), "without {name}");
        let mut twice = good.to_vec();
        twice.push((name, value));
        assert!(!admitted(&twice), "{name} twice");
    }
    for (place, wrong) in [
        (0, "localhost:4711"),
        (0, "127.0.0.1"),
        (0, "127.0.0.1:4712"),
        (0, "evil.example:4711"),
        (1, "null"),
        (1, "https://127.0.0.1:4711"),
        (1, "http://localhost:4711"),
        (1, "http://127.0.0.1:4711.evil.example"),
        (1, "http://127.0.0.1:4712"),
        (2, "Bearer "),
        (2, "Bearer 0123456789abcdeF"),
        (2, "Bearer 0123456789abcde"),
        (2, "Bearer 0123456789abcdef0"),
        (2, "bearer 0123456789abcdef"),
        (2, "Basic 0123456789abcdef"),
        (2, "0123456789abcdef"),
    ] {
        let mut entries = good;
        entries[place].1 = wrong;
        assert!(!admitted(&entries), "{wrong}");
    }
}

/// Sends a POST as the page does.
async fn post(app: &mut Router, path: &str, token: &str) -> (u16, String) {
    let request = http::Request::post(path)
        .header("host", ADDRESS)
        .header("origin", format!("http://{ADDRESS}"))
        .header("authorization", format!("Bearer {token}"))
        .body(Body::empty())
        .unwrap();
    let response = app.call(request).await.unwrap();
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn a_click_does_something_and_is_answered() {
    let (_changes, changed) = watch::channel(());
    let (control, path) = (control(), "/candidates/ben/partition");
    let story = control.story.clone();
    let cut_off = || story.with(|story, _| story.lanes[1].is_in(Kind::CutOff));
    let mut app = app(control, changed);
    let (status, body) = post(&mut app, path, "wrong").await;
    assert_eq!((status, cut_off()), (403, false));
    assert!(body.starts_with("{\"error\":"), "{body}");
    assert_eq!(post(&mut app, "/candidates/dora/partition", TOKEN).await.0, 404);
    for action in ["hug", "stop", "heal"] {
        let refused = post(&mut app, &format!("/candidates/ben/{action}"), TOKEN).await;
        let body = "{\"error\":\"that is not possible at the moment\"}\n".to_owned();
        assert_eq!(refused, (409, body), "{action}");
    }
    let done = post(&mut app, path, TOKEN).await;
    assert_eq!(done, (200, "{\"done\":\"partition\"}\n".to_owned()));
    assert_eq!((post(&mut app, path, TOKEN).await.0, cut_off()), (409, true));
    let get = http::Request::get(path).body(Body::empty()).unwrap();
    assert_eq!(app.call(get).await.unwrap().status(), 405);
}
