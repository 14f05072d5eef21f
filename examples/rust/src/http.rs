//! One POST request over `wasi:http`.

use wasip2::http::outgoing_handler;
use wasip2::http::types::{Fields, Method, OutgoingBody, OutgoingRequest, RequestOptions, Scheme};

/// Maximum time until the endpoint responds. The turn may be cut off earlier.
const ANSWER_WITHIN: u64 = 10_000_000_000; // nanoseconds

/// Sends `json` to `url` with these headers, and returns the status of the response.
pub fn post_json(url: &str, headers: &[(&str, String)], json: &str) -> Result<u16, String> {
    let (scheme, authority, path) = split(url)?;
    let length = json.len().to_string();
    let body = [("content-type", "application/json".to_owned()), ("content-length", length)];
    let headers: Vec<_> = body
        .iter()
        .chain(headers)
        .map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec()))
        .collect();
    let headers = Fields::from_list(&headers).map_err(|e| format!("headers: {e}"))?;

    let request = OutgoingRequest::new(headers);
    let valid = request
        .set_method(&Method::Post)
        .and_then(|()| request.set_scheme(Some(&scheme)))
        .and_then(|()| request.set_authority(Some(authority)))
        .and_then(|()| request.set_path_with_query(Some(path)));
    valid.map_err(|()| format!("{url} is not a URL that can be requested"))?;

    let options = RequestOptions::new();
    // If the host does not support this limit, it still stops the turn when its time is over.
    let _ = options.set_first_byte_timeout(Some(ANSWER_WITHIN));

    let body = request.body().map_err(|()| "the request has no body".to_owned())?;
    let answer = outgoing_handler::handle(request, Some(options)).map_err(|e| failed(url, &e))?;
    // A host that refuses the request drops the body; the response says why.
    let written = write(body, json);
    answer.subscribe().block();
    match answer.get() {
        Some(Ok(Ok(response))) => written.map(|()| response.status()),
        Some(Ok(Err(error))) => Err(failed(url, &error)),
        _ => Err(format!("{url} gave no answer")),
    }
}

fn write(body: OutgoingBody, json: &str) -> Result<(), String> {
    {
        let stream = body.write().map_err(|()| "the body cannot be written".to_owned())?;
        for chunk in json.as_bytes().chunks(4096) {
            stream.blocking_write_and_flush(chunk).map_err(|e| format!("the body: {e}"))?;
        }
    }
    OutgoingBody::finish(body, None).map_err(|e| format!("the body: {e}"))
}

fn failed(url: &str, error: &wasip2::http::types::ErrorCode) -> String {
    format!("{url}: {error}")
}

/// Splits a URL into its scheme, its authority, and its path with the query.
fn split(url: &str) -> Result<(Scheme, &str, &str), String> {
    let (scheme, rest) = if let Some(rest) = url.strip_prefix("https://") {
        (Scheme::Https, rest)
    } else if let Some(rest) = url.strip_prefix("http://") {
        (Scheme::Http, rest)
    } else {
        return Err(format!("{url} must start with http:// or https://"));
    };
    Ok(match rest.find('/') {
        Some(at) => (scheme, &rest[..at], &rest[at..]),
        None => (scheme, rest, "/"),
    })
}
