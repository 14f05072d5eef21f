//! Responses, and the queries of requests.

use axum::body::Body;
use axum::http::{Response, StatusCode, Uri, header};
use serde_json::{Value, json};

/// The answer to whoever names an election that is none of these.
pub(super) fn unknown(elections: &[&str]) -> Response<Body> {
    let error = "this process has no candidate of that election";
    answer(StatusCode::NOT_FOUND, &json!({ "error": error, "elections": elections }))
}

pub(super) fn refuse(why: &str) -> Response<Body> {
    answer(StatusCode::SERVICE_UNAVAILABLE, &json!({ "status": "unavailable", "reason": why }))
}

/// Returns a response with `told` as JSON, which no cache keeps.
pub fn answer(status: StatusCode, told: &Value) -> Response<Body> {
    let mut response = shown("application/json", format!("{told}\n"));
    *response.status_mut() = status;
    response
}

/// A text that is what it is said to be, and true only now.
pub(super) fn shown(kind: &'static str, text: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(text.into());
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ] {
        headers.insert(name, header::HeaderValue::from_static(value));
    }
    response
}

/// Whether a word is in the query, with or without a value.
pub(super) fn has(uri: &Uri, word: &str) -> bool {
    value(uri, word).is_some()
}

/// What a form of that query has by this name.
pub(super) fn value(uri: &Uri, name: &str) -> Option<String> {
    let query = uri.query().unwrap_or_default();
    let url = reqwest::Url::parse(&format!("http://-/?{query}")).ok();
    let found = url.as_ref()?.query_pairs().find(|(key, _)| key == name)?;
    Some(found.1.into_owned())
}
