//! Requests that are abandoned or never completed.

use wasip2::http::outgoing_handler;
use wasip2::http::types::{
    Fields, FutureIncomingResponse, Method, OutgoingBody, OutgoingRequest, RequestOptions, Scheme,
};
use wasip2::io::streams::OutputStream;

/// A request in progress, or `None` if the host rejected it.
pub struct Started(Option<FutureIncomingResponse>);

impl Started {
    /// Waits for the response, and returns true if there is one.
    pub fn answered(&self) -> bool {
        let Some(answer) = &self.0 else { return false };
        answer.subscribe().block();
        matches!(answer.get(), Some(Ok(Ok(_))))
    }
}

/// Sends a request without waiting for the response.
pub fn send(url: &str, json: &str) -> Started {
    send_with(url, json, None)
}

/// Sends a request with a time-out of one millisecond.
pub fn send_for_a_moment(url: &str, json: &str) -> Started {
    let options = RequestOptions::new();
    let moment = Some(1_000_000);
    let _ = options.set_connect_timeout(moment);
    let _ = options.set_first_byte_timeout(moment);
    send_with(url, json, Some(options))
}

fn send_with(url: &str, json: &str, options: Option<RequestOptions>) -> Started {
    let Some((answer, body, stream)) = start(url, json, options) else { return Started(None) };
    drop(stream);
    let _ = OutgoingBody::finish(body, None);
    Started(Some(answer))
}

/// Starts a request and leaves its body open.
pub fn leave_open(url: &str, json: &str) -> impl Sized {
    start(url, json, None)
}

fn start(
    url: &str,
    json: &str,
    options: Option<RequestOptions>,
) -> Option<(FutureIncomingResponse, OutgoingBody, OutputStream)> {
    let host = url.strip_prefix("http://")?.strip_suffix('/')?;
    let json_type = ("content-type".to_owned(), b"application/json".to_vec());
    let request = OutgoingRequest::new(Fields::from_list(&[json_type]).ok()?);
    request.set_method(&Method::Post).ok()?;
    request.set_scheme(Some(&Scheme::Http)).ok()?;
    request.set_authority(Some(host)).ok()?;
    request.set_path_with_query(Some("/")).ok()?;
    let body = request.body().ok()?;
    let answer = outgoing_handler::handle(request, options).ok()?;
    let stream = body.write().ok()?;
    stream.write(json.as_bytes()).ok()?;
    Some((answer, body, stream))
}
