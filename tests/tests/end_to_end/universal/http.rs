//! Authorization of HTTP requests.

use ::http::Method;
use serde_json::{Value, json};
use tenure_tests::Platform;
use tenure_tests::platform::ClockOffset;
use tenure_wasmtime::compose::UNIVERSAL_COMPONENT;

use super::world::{BEARER, World, get, tick};

#[tokio::test]
async fn only_the_token_gets_a_turn() {
    let world = World::new(&[]).await;
    world.start_first_slot().await;
    let replica = world.replica("a");
    for wrong in
        [None, Some(""), Some("Bearer"), Some("Bearer a-long-random-toke"), Some("Basic eA==")]
    {
        let answer = replica.request(Method::POST, "/tick", wrong, "").await.unwrap();
        assert_eq!(answer.status, 401, "{wrong:?}");
        assert_eq!(answer.headers["www-authenticate"], "Bearer");
        assert_eq!(answer.json.as_object().unwrap().keys().collect::<Vec<_>>(), ["error"]);
    }
    assert!(world.endpoint.calls().is_empty());
    assert_eq!(tick(&replica).await.status, 200);
    assert_eq!(world.endpoint.calls().len(), 1);
}

#[tokio::test]
async fn tick_without_token_requires_explicit_opt_in() {
    let world = World::new(&[]).await;
    world.start_first_slot().await;
    let replica = world.replica("a").with_variable("TENURE_TICK_TOKEN", "");
    for header in [None, Some("Bearer "), Some(BEARER)] {
        let answer = replica.request(Method::POST, "/tick", header, "").await.unwrap();
        assert_eq!(answer.status, 403, "{header:?}");
        assert_eq!(settings(&answer.json), ["TENURE_TICK_TOKEN"]);
    }
    assert!(world.endpoint.calls().is_empty());
    let open = replica.with_variable("TENURE_TICK_OPEN", "true");
    assert_eq!(open.request(Method::POST, "/tick", None, "").await.unwrap().status, 200);
    assert_eq!(world.endpoint.calls().len(), 1);
}

#[tokio::test]
async fn unknown_paths_and_methods_are_rejected() {
    let world = World::new(&[]).await;
    let replica = world.replica("a");
    for (method, path, status, allowed) in [
        (Method::GET, "/", 404, None),
        (Method::POST, "/tick/x", 404, None),
        (Method::GET, "/tick", 405, Some("POST")),
        (Method::DELETE, "/tick", 405, Some("POST")),
        (Method::POST, "/leader", 405, Some("GET, HEAD")),
        (Method::PUT, "/healthz", 405, Some("GET, HEAD")),
    ] {
        let answer = replica.request(method.clone(), path, Some(BEARER), "").await.unwrap();
        assert_eq!(answer.status, status, "{method} {path}");
        let allow = answer.headers.get("allow").map(|value| value.to_str().unwrap());
        assert_eq!(allow, allowed, "{method} {path}");
        assert_eq!(answer.headers["content-type"], "application/json");
        assert!(answer.json["error"].is_string(), "{answer:?}");
    }
}

#[tokio::test]
async fn request_body_is_optional_and_bounded() {
    let world = World::new(&[]).await;
    world.start_first_slot().await;
    let replica = world.replica("a");
    for (length, status) in [(64 * 1024 + 1, 413), (10 * 1024 * 1024, 413), (64 * 1024, 200)] {
        let answer = replica.request(Method::POST, "/tick", Some(BEARER), vec![b'x'; length]).await;
        assert_eq!(answer.unwrap().status, status, "{length}");
    }
    assert_eq!(world.endpoint.calls().len(), 1);
}

#[tokio::test]
async fn http_lists_all_missing_settings() {
    let unconfigured = Platform::new(UNIVERSAL_COMPONENT, &[], ClockOffset::default()).unwrap();
    let missing = [
        "TENURE_EVERY",
        "TENURE_ELECTION",
        "AZURE_STORAGE_CONNECTION_STRING",
        "TENURE_HANDLER_URL",
    ];
    for path in ["/leader", "/healthz"] {
        let answer = get(&unconfigured, path).await;
        assert_eq!((answer.status, settings(&answer.json)), (503, missing.to_vec()), "{path}");
    }
    let answer = unconfigured.request(Method::POST, "/tick", None, "").await.unwrap();
    assert_eq!(answer.status, 503);
    assert_eq!(settings(&answer.json), [&missing[..], &["TENURE_TICK_TOKEN"]].concat());
    let complaints = answer.json["complaints"].as_array().unwrap();
    let (token, others) = complaints.split_last().unwrap();
    assert!(token["advice"].is_string());
    assert!(others.iter().all(|complaint| complaint["problem"].is_null()), "anybody may ask");
}

#[tokio::test]
async fn health_sends_no_request_and_head_has_no_body() {
    let world = World::new(&[]).await;
    let replica = world.replica("a");
    let request_total = || world.store.with(|service| service.log().total());
    let before = request_total();
    let health = get(&replica, "/healthz").await;
    assert_eq!((health.status, health.json), (200, json!({ "healthy": true })));
    let head = replica.request(Method::HEAD, "/healthz", None, "").await.unwrap();
    assert_eq!((head.status, head.json), (200, Value::Null));
    assert_eq!(request_total(), before);
    get(&replica, "/leader").await;
    assert!(request_total() > before);
}

fn settings(json: &Value) -> Vec<&str> {
    let complaints = json["complaints"].as_array().unwrap();
    complaints.iter().map(|complaint| complaint["setting"].as_str().unwrap()).collect()
}
