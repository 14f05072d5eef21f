//! Constructors of responses, and access to the queries of requests.

use axum::body::Body;
use axum::http::{Response, StatusCode, Uri, header};
use serde_json::{Value, json};

/// Returns the response to a request for an election that this process does not have.
pub(super) fn unknown_election(elections: &[&str]) -> Response<Body> {
    let error = "this process has no candidate of that election";
    json_response(StatusCode::NOT_FOUND, &json!({ "error": error, "elections": elections }))
}

pub(super) fn unavailable(reason: &str) -> Response<Body> {
    json_response(
        StatusCode::SERVICE_UNAVAILABLE,
        &json!({ "status": "unavailable", "reason": reason }),
    )
}

/// Returns an uncacheable response with `body` as JSON.
pub fn json_response(status: StatusCode, body: &Value) -> Response<Body> {
    let mut response = uncached_response("application/json", format!("{body}\n"));
    *response.status_mut() = status;
    response
}

/// Returns an uncacheable response that browsers must not sniff for another type.
pub(super) fn uncached_response(
    content_type: &'static str,
    text: impl Into<Body>,
) -> Response<Body> {
    let mut response = Response::new(text.into());
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_TYPE, content_type),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ] {
        headers.insert(name, header::HeaderValue::from_static(value));
    }
    response
}

/// Returns true if the query has this key, with or without a value.
pub(super) fn has_query_key(uri: &Uri, key: &str) -> bool {
    query_value(uri, key).is_some()
}

/// Returns the first value of this key in the query. The value is empty if the key has none.
pub(super) fn query_value(uri: &Uri, name: &str) -> Option<String> {
    let query = uri.query().unwrap_or_default();
    let url = reqwest::Url::parse(&format!("http://-/?{query}")).ok();
    let pair = url.as_ref()?.query_pairs().find(|(key, _)| key == name)?;
    Some(pair.1.into_owned())
}
