//! The page of the demo, and its buttons: `POST /candidates/NAME/ACT`.
//!
//! Whoever reaches the address may look. To act takes the token of this demo, and a request of this
//! very page: other pages of the same browser reach this machine too, under other names (`Host`) or
//! under their own (`Origin`).

use super::act::Act;
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Response, StatusCode, header};
use axum::routing::post;
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Arc;
use tenure::program::server::answer;
use tenure::program::server::{self as page, Source};
use tokio::sync::{mpsc, oneshot};

/// What somebody wants.
pub(super) struct Wish {
    pub who: usize,
    pub act: Act,
    /// Done, or why not.
    pub answer: oneshot::Sender<Result<(), String>>,
}

/// Who may act, and who hears of it.
pub(super) struct Control {
    /// Where the page is.
    pub address: SocketAddr,
    pub token: String,
    pub names: Vec<&'static str>,
    pub wishes: mpsc::Sender<Wish>,
}

/// The page, and what its buttons ask for.
pub(super) fn router(control: Control, source: Source) -> Router {
    Router::new()
        .route("/candidates/{name}/{act}", post(act))
        .with_state(Arc::new(control))
        .merge(page::router(move || vec![source.clone()]))
}

async fn act(
    State(control): State<Arc<Control>>,
    Path((name, act)): Path<(String, String)>,
    headers: HeaderMap,
) -> Response<Body> {
    if let Err(why) = admitted(&headers, control.address, &control.token) {
        return refuse(StatusCode::FORBIDDEN, why);
    }
    let who = control.names.iter().position(|known| *known == name);
    let (Some(who), Some(act)) = (who, Act::read(&act)) else {
        return refuse(StatusCode::NOT_FOUND, "there is no such candidate, or no such action");
    };
    let (sender, done) = oneshot::channel();
    if control.wishes.try_send(Wish { who, act, answer: sender }).is_err() {
        return refuse(StatusCode::SERVICE_UNAVAILABLE, "too many requests at once");
    }
    match done.await {
        Ok(Ok(())) => answer(StatusCode::OK, &json!({ "done": act.word() })),
        Ok(Err(why)) => refuse(StatusCode::CONFLICT, &why),
        Err(_) => refuse(StatusCode::SERVICE_UNAVAILABLE, "the demo has ended"),
    }
}

fn refuse(status: StatusCode, why: &str) -> Response<Body> {
    answer(status, &json!({ "error": why }))
}

/// Whether a request is one of the page's own.
fn admitted(headers: &HeaderMap, address: SocketAddr, token: &str) -> Result<(), &'static str> {
    let only = |name| {
        let mut values = headers.get_all(name).iter();
        values.next().filter(|_| values.next().is_none())
    };
    let is = |name, expected: String| only(name).is_some_and(|value| *value == *expected);
    if !is(header::HOST, address.to_string()) {
        return Err("this was sent to another name than this page's address");
    }
    if !is(header::ORIGIN, format!("http://{address}")) {
        return Err("this was not sent by this page");
    }
    let given = only(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    match given.and_then(|value| value.strip_prefix("Bearer ")) {
        Some(given) if is_same(given, token) => Ok(()),
        _ => Err("the token is wrong: open the address that `tenure demo --page` printed"),
    }
}

/// Returns true if the texts are the same. Takes as long wherever they differ.
fn is_same(given: &str, token: &str) -> bool {
    let pairs = given.bytes().zip(token.bytes());
    given.len() == token.len() && pairs.fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::super::stage::ELECTION;
    use super::*;
    use http_body_util::BodyExt as _;
    use tenure::program::server::view::View;
    use tokio::sync::watch;
    use tower_service::Service as _;

    const ADDRESS: &str = "127.0.0.1:4711";
    const TOKEN: &str = "0123456789abcdef";

    fn control(wishes: mpsc::Sender<Wish>) -> Control {
        let (address, token) = (ADDRESS.parse().unwrap(), TOKEN.to_owned());
        Control { address, token, names: vec!["anna", "ben"], wishes }
    }

    fn headers(entries: &[(&'static str, &str)]) -> HeaderMap {
        let entry =
            |(name, value): &(&'static str, &str)| (name.parse().unwrap(), value.parse().unwrap());
        let entries: Vec<(http::HeaderName, http::HeaderValue)> =
            entries.iter().map(entry).collect();
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
        let admitted = |entries: &[(&'static str, &str)]| {
            super::admitted(&headers(entries), ADDRESS.parse().unwrap(), TOKEN).is_ok()
        };
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

    /// A POST of the page itself.
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
    async fn a_wish_is_passed_on_and_its_answer_is_told() {
        let (sender, mut wishes) = mpsc::channel::<Wish>(1);
        let (_changes, changed) = watch::channel(());
        let mut app = router(control(sender), Source::new(ELECTION, View::default, changed));

        let (status, body) = post(&mut app, "/candidates/ben/kill-process", "wrong").await;
        assert_eq!(status, 403);
        assert!(body.starts_with("{\"error\":"), "{body}");
        assert_eq!(post(&mut app, "/candidates/cleo/kill-process", TOKEN).await.0, 404);
        assert_eq!(post(&mut app, "/candidates/ben/hug", TOKEN).await.0, 404);
        assert!(wishes.try_recv().is_err(), "nobody heard of these");

        let hears = tokio::spawn(async move {
            for result in [Ok(()), Err("it is gone".to_owned())] {
                let Wish { who, act, answer } = wishes.recv().await.unwrap();
                assert_eq!((who, act), (1, Act::KillProcess));
                answer.send(result).unwrap();
            }
            wishes
        });
        let path = "/candidates/ben/kill-process";
        assert_eq!(
            post(&mut app, path, TOKEN).await,
            (200, "{\"done\":\"kill-process\"}\n".to_owned())
        );
        assert_eq!(
            post(&mut app, path, TOKEN).await,
            (409, "{\"error\":\"it is gone\"}\n".to_owned())
        );
        drop(hears.await.unwrap());
        assert_eq!(post(&mut app, path, TOKEN).await.0, 503);
        let get = http::Request::get(path).body(Body::empty()).unwrap();
        assert_eq!(app.call(get).await.unwrap().status(), 405);
    }
}
