//! The values of the contract `tenure:election`, as the WIT package describes them.
//!
//! Durations and points in time are whole nanoseconds here; the rest of this crate uses
//! [`std::time::Duration`].

pub(crate) mod bindings;
mod clock;
mod outlook;
mod words;

use bytes::Bytes;
use chrono::{DateTime, SecondsFormat};
use http::{HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fmt;
use std::time::Duration;
use zeroize::Zeroize;

pub(crate) use bindings::{side_blobs, types};
pub use clock::ClockDifference;
pub(crate) use clock::ServiceTime;
pub use outlook::{ComingTurn, EndedTurn, Fares, Outlook, outcome_name};
pub(crate) use outlook::{local, wall};
pub use types::{
    Complaint, Ended, Ending, EndingReason, Event, Exchange, ExchangeResult, Failure,
    FailureDetail, FailureKind, Finished, Incumbent, LastSlot, Leadership, LeaseState, Listed,
    MissedSlots, Needs, NextTurn, Outcome, Problem, ProblemClass, Response, Role, Share, Snapshot,
    Started, TransferOrder, TransferState, TriggerState, Turn, TurnResult, Turns,
};
pub use words::{schedule_words, schedule_words_and_text};

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", class_name(self.class), self.detail)
    }
}

impl std::error::Error for Problem {}

impl Snapshot {
    /// The leader: the newest one on record, while a candidate holds the lease.
    #[must_use]
    pub fn leader(&self) -> Option<&Incumbent> {
        let held = matches!(self.lease, LeaseState::Leased | LeaseState::Breaking);
        self.incumbent.as_ref().filter(|_| held)
    }
}

/// The interface by which a handler is called.
pub const LEADER_HANDLER: &str = "tenure:election/leader-handler@0.1.0";

/// All that a candidate remembers between two steps. A secret: it holds the lease id, tokens, and what secret
/// files said. Overwritten when it is dropped.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct State(Vec<u8>);

impl State {
    /// The state that a component returned.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// The bytes to hand to the component.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "State({} bytes)", self.0.len())
    }
}

/// A request to send as it is. A secret: it holds a signature or a token. `Debug` does not print it, and it is
/// overwritten when it is dropped.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The method.
    pub method: String,
    /// The whole address.
    pub url: String,
    /// Names and values of all headers but `host`.
    pub headers: Vec<(String, String)>,
    /// Its body; often none.
    pub body: String,
    /// The longest that it may take. Of a last will: how long it can be of use, counted from the instant of the call.
    pub timeout: Duration,
}

impl Request {
    pub(crate) fn of(request: types::Request) -> Self {
        let types::Request { method, url, headers, body, timeout } = request;
        Self { method, url, headers, body, timeout: Duration::from_nanos(timeout) }
    }

    /// As it goes on the wire.
    ///
    /// # Errors
    /// It is no request.
    pub fn to_http(&self) -> http::Result<http::Request<Bytes>> {
        let request = http::Request::builder().method(self.method.as_str()).uri(&self.url);
        let headers = self.headers.iter();
        headers
            .fold(request, |request, (name, value)| request.header(name, value))
            .body(Bytes::copy_from_slice(self.body.as_bytes()))
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        self.url.zeroize();
        self.headers.iter_mut().for_each(|(_, value)| value.zeroize());
        self.body.zeroize();
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Request({} for {:?})", self.method, self.timeout)
    }
}

#[allow(clippy::derivable_impls, reason = "the type is generated")]
impl Default for Role {
    fn default() -> Self {
        Self::Undecided
    }
}

impl From<http::Response<Bytes>> for Response {
    fn from(response: http::Response<Bytes>) -> Self {
        let header = |(name, value): (&HeaderName, &HeaderValue)| {
            (name.to_string(), value.as_bytes().to_vec())
        };
        Self {
            status: response.status().as_u16(),
            headers: response.headers().iter().map(header).collect(),
            body: response.into_body().into(),
        }
    }
}

impl From<tenure_core::Failure> for Failure {
    fn from(failure: tenure_core::Failure) -> Self {
        use tenure_core::FailureKind as Kind;
        let kind = match failure.kind {
            Kind::Timeout => FailureKind::Timeout,
            Kind::Name => FailureKind::Name,
            Kind::Connect => FailureKind::Connect,
            Kind::Reset => FailureKind::Reset,
            Kind::Tls => FailureKind::Tls,
            Kind::Denied => FailureKind::Denied,
            Kind::Other => FailureKind::Other,
        };
        Self { kind, detail: failure.detail }
    }
}

/// The result of one step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// To be handed to the next step. The earlier one is void.
    pub state: State,
    /// What the candidate is now.
    pub role: Role,
    /// The leadership that ended in this step: its work stops now.
    pub ending: Option<Ending>,
    /// Whether the lease was renewed in this step.
    pub renewed: bool,
    /// The release of the lease, for somebody else to send once this process is dead, where that was asked for
    /// (`names::LAST_WILL`): in the step in which the leadership began, and in those in which the lease
    /// was renewed.
    pub last_will: Option<Request>,
    /// Whether the turn that runs is to come to its end, since the leadership is about to be given
    /// up: within a grace, and stopped then.
    pub wind_down: bool,
    /// The longest that this grace may be, counted from the instant of this step; none: any grace.
    pub wind_down_limit: Option<Duration>,
    /// The name of the candidate that this leader hands over to.
    pub successor: Option<String>,
    /// What the leader promises, by the record: that it has stopped so long after its newest beat. None:
    /// nobody is known to lead, or its lease has to run out before another one leads.
    pub promise: Option<Duration>,
    /// How the turns of the election go by its record, where that may be news: when this candidate begins to lead,
    /// when a turn was claimed or ended, and when a follower has read the record.
    pub turns: Option<Turns>,
    /// The candidates that were seen lately, where that may be news.
    pub candidates: Option<Vec<Listed>>,
    /// A turn to run now.
    pub run: Option<Turn>,
    /// A request to send beside the steps.
    pub background: Option<Request>,
    /// What went wrong.
    pub problems: Vec<Problem>,
    /// The requests that were sent.
    pub exchanges: Vec<Exchange>,
    /// The most likely time of the service at the instant of the step, in nanoseconds since 1970 and up to a second too
    /// early.
    pub service_time: Option<u64>,
    /// When to call the next step at the latest, counted from the instant of this one.
    pub again_in: Duration,
}

impl Report {
    /// Of a step after which nothing is to be done but the next one.
    pub fn of(role: Role, again_in: Duration) -> Self {
        Self { role, again_in, ..Self::default() }
    }
}

/// The name of a reason, as the WIT spells it.
pub(crate) fn reason_name(reason: EndingReason) -> &'static str {
    match reason {
        EndingReason::ValidityEnded => "validity-ended",
        EndingReason::LeaseLost => "lease-lost",
        EndingReason::Left => "left",
        EndingReason::WorkFailed => "work-failed",
        EndingReason::Resigned => "resigned",
        EndingReason::HandedOver => "handed-over",
    }
}

/// The name of a class of problem, as the WIT spells it.
pub fn class_name(class: ProblemClass) -> &'static str {
    match class {
        ProblemClass::Configuration => "configuration",
        ProblemClass::UnusableBlob => "unusable-blob",
        ProblemClass::ForeignLease => "foreign-lease",
        ProblemClass::Refused => "refused",
        ProblemClass::Clock => "clock",
        ProblemClass::Unreachable => "unreachable",
        ProblemClass::Unavailable => "unavailable",
        ProblemClass::Nonsense => "nonsense",
        ProblemClass::LeaseLost => "lease-lost",
        ProblemClass::Schedule => "schedule",
        ProblemClass::Work => "work",
        ProblemClass::Order => "order",
    }
}

/// A timestamp of the contract, in nanoseconds since 1970, with as many digits as it needs.
pub fn rfc3339(nanoseconds: u64) -> String {
    let time = DateTime::from_timestamp_nanos(i64::try_from(nanoseconds).unwrap_or(i64::MAX));
    time.to_rfc3339_opts(SecondsFormat::AutoSi, true)
}

/// In nanoseconds: half an hour.
const LATELY: u64 = 30 * 60 * 1_000_000_000;

/// Whether it was seen in the last half hour: a list is read every ten minutes. `now` is in nanoseconds since 1970.
#[must_use]
pub fn seen_lately(candidate: &Listed, now: u64) -> bool {
    now.saturating_sub(candidate.seen) <= LATELY
}

/// One object of `candidates` in `tenure status --json`, and of `/candidates`. `now` is in nanoseconds since 1970.
#[must_use]
pub fn candidate_as_json(candidate: &Listed, now: u64) -> Value {
    let Listed { name, address, ready, failover, seen } = candidate;
    json!({
        "name": name,
        "address": address,
        "ready": ready,
        "failover_ms": failover.map(|within| within / 1_000_000),
        "seen": rfc3339(*seen),
        "ago_ms": now.saturating_sub(*seen) / 1_000_000,
    })
}
