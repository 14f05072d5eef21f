//! The values of the contract `tenure:election`: those of [`tenure_core`], and how people and programs are told of them.

mod clock;
mod outlook;
mod words;

use bytes::Bytes;
use http::{HeaderName, HeaderValue};
use serde_json::{Value, json};
use std::time::Duration;
use tenure_core::milliseconds;

pub use clock::ClockDifference;
pub(crate) use clock::ServiceTime;
pub(crate) use outlook::wall;
pub use outlook::{ComingTurn, EndedTurn, Fares, Outlook, local_time};
pub use tenure_core::{
    Complaint, End, Ended, Ending, EndingReason, Event, Exchange, ExchangeResult, Failure,
    FailureDetail, FailureKind, Finished, Incumbent, LastSlot, Leadership, LeaseState, Listed,
    MissedSlots, Needs, NextTurn, Outcome, Problem, ProblemClass, Report, Request, RequestKind,
    Response, Role, Share, Snapshot, State, Timestamp, Told, TransferOrder, TransferState,
    TriggerState, Triggered, Turn, TurnResult, Turns,
};
pub use words::{schedule_words, schedule_words_and_text};

/// The interface by which a handler is called.
pub const LEADER_HANDLER: &str = "tenure:election/leader-handler@0.1.0";

/// A request as it goes on the wire.
///
/// # Errors
/// It is no request.
pub fn to_http(request: &Request) -> http::Result<http::Request<Bytes>> {
    let Request { method, url, headers, body, .. } = request;
    let request = http::Request::builder().method(method.as_str()).uri(url);
    headers
        .iter()
        .fold(request, |request, (name, value)| request.header(name, value))
        .body(Bytes::copy_from_slice(body.as_bytes()))
}

/// An answer as it came.
pub fn response(response: http::Response<Bytes>) -> Response {
    let header =
        |(name, value): (&HeaderName, &HeaderValue)| (name.to_string(), value.as_bytes().to_vec());
    Response {
        status: response.status().as_u16(),
        headers: response.headers().iter().map(header).collect(),
        body: response.into_body().into(),
    }
}

/// A list is read every ten minutes.
const LATELY: Duration = Duration::from_secs(30 * 60);

/// Whether it was seen in the last half hour.
#[must_use]
pub fn seen_lately(candidate: &Listed, now: Timestamp) -> bool {
    now.since(candidate.seen) <= LATELY
}

/// One object of `candidates` in `tenure status --json`, and of `/candidates`.
#[must_use]
pub fn candidate_as_json(candidate: &Listed, now: Timestamp) -> Value {
    let Listed { name, address, ready, failover, seen } = candidate;
    json!({
        "name": name,
        "address": address,
        "ready": ready,
        "failover_ms": failover.map(milliseconds),
        "seen": seen.to_rfc3339(),
        "ago_ms": milliseconds(now.since(*seen)),
    })
}
