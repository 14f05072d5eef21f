//! Inputs and results of a step, and the bytes of the state between two steps. Each item means the
//! same as its namesake in `wit/types.wit`.

use core::fmt;
use core::time::Duration;

use super::clocks::Timestamp;
use super::problem::{Failure, Problem};
use crate::record::history::Incumbent;
use crate::record::metadata::{Kind, Outcome};
use crate::schedule::turns::Turns;
use crate::side::listing::Listed;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tenure_azure::answer::Class;
use tenure_azure::operation::Kind as RequestKind;
use tenure_azure::request;
use tenure_base::prelude::*;
use zeroize::Zeroize as _;

/// A leadership, and the time for which the leader may act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leadership {
    /// Fencing token.
    pub term: u64,
    /// Time for which the leader may act, counted from the step's `elapsed`.
    pub valid_for: Duration,
}

/// The role of a candidate after a step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// The candidate leads.
    Leading(Leadership),
    /// Another candidate leads. The incumbent is missing if there is no record.
    Following(Option<Incumbent>),
    /// No leader is known.
    #[default]
    Undecided,
    /// The candidate has left the election.
    Left,
}

/// The reason why a leadership ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndingReason {
    /// The validity ended before a renewal or a beat was answered.
    ValidityEnded,
    /// The service reports that the lease is lost.
    LeaseLost,
    /// The host asked the candidate to leave.
    Left,
    /// The work failed.
    WorkFailed,
    /// The leader resigned: by an order, after its maximum tenure, or because its work ended. Other
    /// candidates have priority now.
    Resigned,
    /// The leader gave the lease to a successor.
    HandedOver,
}

impl EndingReason {
    /// Returns the name of the reason, as the WIT package spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ValidityEnded => "validity-ended",
            Self::LeaseLost => "lease-lost",
            Self::Left => "left",
            Self::WorkFailed => "work-failed",
            Self::Resigned => "resigned",
            Self::HandedOver => "handed-over",
        }
    }
}

/// A leadership that ended in this step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    /// The term of the leadership.
    pub term: u64,
    /// The reason of the end.
    pub reason: EndingReason,
}

/// A share of work that is split. Each share is an election of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// Index of the share, from 0.
    pub index: u32,
    /// Number of shares.
    pub count: u32,
}

/// One run of the leader's handler, for a slot or a trigger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// The election, `container/blob`.
    pub election: String,
    /// Idempotency key: the same for all attempts at the turn, and different for every other turn
    /// of any election.
    pub key: String,
    /// Fencing token.
    pub term: u64,
    /// The scheduled instant, or the time at which the trigger was placed.
    pub slot: Timestamp,
    /// Id of the trigger that the turn runs for, outside the schedule. None for a turn of the
    /// schedule.
    pub trigger: Option<String>,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// True if the turn comes late, or stands for earlier slots that were missed.
    pub past_due: bool,
    /// Number of slots before this one that had no turn and never will.
    pub missed: u32,
    /// Time for which the turn may run, counted like [`Leadership::valid_for`].
    pub valid_for: Duration,
    /// Time limit of the turn.
    pub time_limit: Option<Duration>,
    /// The share, if the election is that of a share. None also if only the host knows the share.
    pub share: Option<Share>,
}

impl Turn {
    pub(crate) fn kind(&self) -> Kind {
        Kind::from_trigger(self.trigger.as_ref())
    }
}

/// An event since the last step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// The turn is over, and its work has stopped.
    TurnEnded(TurnResult),
    /// The candidate must leave the election; its work has stopped. Carries the result of a turn
    /// whose end was not reported yet.
    Leave(Option<TurnResult>),
    /// Like `Leave`, for a turn that ended after its leadership: its outcome is recorded if the
    /// service still accepts it. Only an invocation that is one whole turn uses this; no host does.
    LeaveLate(TurnResult),
    /// The leader must forget a claimed slot that lies in the future.
    ResetSlot,
    /// The leader must give up the leadership. Other candidates have priority after that.
    Resign,
    /// The leader must hand over to the candidate with that name.
    HandOver(String),
    /// The readiness of the process changed. If it is false, the candidate does not contend, and a
    /// leader resigns.
    Ready(bool),
    /// A hint came: the leader may have changed, or orders may be pending.
    Hint,
    /// The background request was answered, or failed.
    BackgroundReply(BackgroundReply),
}

/// The end of a turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnResult {
    /// The outcome to record.
    pub outcome: Outcome,
    /// Reason of the failure, for the operator. Its beginning is recorded, where every reader of
    /// the blob can see it.
    pub reason: Option<String>,
}

impl From<Outcome> for TurnResult {
    fn from(outcome: Outcome) -> Self {
        Self { outcome, reason: None }
    }
}

/// The result of a background request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackgroundReply {
    /// The response, or the reason why there is none.
    pub result: Result<Response, Failure>,
    /// Time of receipt, by this machine's clock.
    pub received_at: Timestamp,
}

/// A response as received. `Debug` does not print it: the body may be a token.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// Names and values of the headers; the names in any case.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The beginning of the body.
    pub body: Vec<u8>,
}

impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Response({})", self.status)
    }
}

/// A request that a step sent, and its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// The kind of request.
    pub what: RequestKind,
    /// The result.
    pub result: ExchangeResult,
    /// Duration of the request.
    pub took: Duration,
}

/// The result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExchangeResult {
    /// The service carried out the request.
    Done,
    /// The service declined the request in a way that the protocol expects: another candidate holds
    /// the lease, or there is no blob.
    Declined,
    /// The service refused the credential, its permission, or the request.
    Refused,
    /// The service cannot serve now.
    Unavailable,
    /// The response is not one that the service gives.
    Nonsense,
    /// There was no response.
    Unanswered,
}

impl ExchangeResult {
    /// Returns the result for the class of an answer.
    pub(crate) fn from_class(class: Class) -> Self {
        match class {
            Class::Done => Self::Done,
            Class::MissingBlob
            | Class::MissingContainer
            | Class::Conflict
            | Class::ConditionNotMet
            | Class::LeaseMismatch => Self::Declined,
            Class::Refused => Self::Refused,
            Class::Unavailable => Self::Unavailable,
            Class::Nonsense => Self::Nonsense,
        }
    }
}

/// Everything that a candidate remembers between two steps. It is a secret: it holds the lease id,
/// tokens, and the content of secret files. It is overwritten on drop.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct State(Vec<u8>);

impl State {
    /// Returns the bytes of the state, for the next step.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the bytes of the state, which are no longer overwritten on drop.
    #[must_use]
    pub fn into_bytes(mut self) -> Vec<u8> {
        core::mem::take(&mut self.0)
    }
}

impl From<Vec<u8>> for State {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
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

/// A request that another process sends unchanged. It is a secret: it holds a signature or a token.
/// `Debug` does not print it, and it is overwritten on drop.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The method.
    pub method: String,
    /// The complete URL.
    pub url: String,
    /// Names and values of all headers except `host`.
    pub headers: Vec<(String, String)>,
    /// The body; often empty.
    pub body: String,
    /// Time limit. For a last will: the time for which the request is useful, counted like
    /// [`Leadership::valid_for`].
    pub timeout: Duration,
}

impl Request {
    /// Creates a request with a time limit.
    #[must_use]
    pub fn new(request: request::Request, timeout: Duration) -> Self {
        Self {
            method: request.method.as_str().into(),
            url: request.origin + &request.path_and_query,
            headers: request.headers,
            body: request.body.reveal().into(),
            timeout,
        }
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

/// The result of one step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// State for the next step.
    pub state: State,
    /// The current role of the candidate.
    pub role: Role,
    /// Set if the candidate has acquired the lease: it leads if its term is on record within this
    /// time.
    pub wins_within: Option<Duration>,
    /// Set in the step in which a leadership ended.
    pub ending: Option<Ending>,
    /// True in the step in which the lease was renewed.
    pub renewed: bool,
    /// The release of the lease, for another process to send once this process is dead.
    pub last_will: Option<Request>,
    /// True if the running turn should end.
    pub wind_down: bool,
    /// Maximum time for which the turn may still run when it winds down, counted from the step's
    /// `elapsed`. None: the grace period alone limits it.
    pub wind_down_limit: Option<Duration>,
    /// Name of the candidate that this leader hands over to.
    pub successor: Option<String>,
    /// Failover promise on the record: the time after the leader's newest beat at which it has
    /// stopped.
    pub promise: Option<Duration>,
    /// The turns of the election, according to its record. Set if they may have changed: when a
    /// candidate begins to lead, when a turn was claimed or ended, and when a follower has read the
    /// record.
    pub turns: Option<Turns>,
    /// Recently seen candidates. Set if the list may have changed.
    pub candidates: Option<Vec<Listed>>,
    /// The turn to run now, if any. It is claimed already.
    pub run: Option<Turn>,
    /// A request to send in the background.
    pub background: Option<Request>,
    /// Problems of this step.
    pub problems: Vec<Problem>,
    /// The requests that were sent, in their order.
    pub exchanges: Vec<Exchange>,
    /// Most likely time of the service at `elapsed` of the step.
    pub service_time: Option<Timestamp>,
    /// Time until the next step at the latest.
    pub again_in: Duration,
}

impl Report {
    /// Creates the report of a step that requires nothing but the next step.
    #[must_use]
    pub fn new(role: Role, again_in: Duration) -> Self {
        Self { role, again_in, ..Self::default() }
    }

    /// Shifts all spans that start at the step, so that they start `offset` earlier.
    pub fn shift_to_earlier(&mut self, offset: Duration) {
        let add = |span: &mut Duration| *span = span.saturating_add(offset);
        if let Role::Leading(leadership) = &mut self.role {
            add(&mut leadership.valid_for);
        }
        if let Some(span) = &mut self.wins_within {
            add(span);
        }
        if let Some(turn) = &mut self.run {
            add(&mut turn.valid_for);
        }
        if let Some(will) = &mut self.last_will {
            add(&mut will.timeout);
        }
        if let Some(limit) = &mut self.wind_down_limit {
            add(limit);
        }
        add(&mut self.again_in);
        // The service time is that of the start instant, so it moves the other way.
        if let Some(time) = &mut self.service_time {
            *time = time.minus(offset);
        }
    }
}

/// The format number of a state with postponed events. No other format has this number.
const POSTPONED: u8 = u8::MAX;

/// Encodes the number of a format, followed by a value as `postcard` data. Only the same version of
/// the component reads the result.
pub(crate) fn encode_state<T: Serialize>(format: u8, value: &T) -> Vec<u8> {
    // Encoding fails only for types of unknown length, which no state has. An empty state is
    // equivalent to none.
    postcard::to_extend(value, vec![format]).unwrap_or_default()
}

/// Decodes a value from all of the bytes. None if they are damaged.
pub(crate) fn decode_state<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    let (value, rest) = postcard::take_from_bytes(bytes).ok()?;
    rest.is_empty().then_some(value)
}

/// The postponed events, and the state of the last step that ran.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Postponed {
    pub events: Vec<Event>,
    pub state: Vec<u8>,
}

impl Postponed {
    pub fn to_bytes(&self) -> Vec<u8> {
        encode_state(POSTPONED, self)
    }

    pub fn from_bytes(state: &[u8]) -> Self {
        match state.split_first() {
            Some((&POSTPONED, rest)) => decode_state(rest).unwrap_or_default(),
            _ => Self { events: Vec::new(), state: state.into() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shifted_spans_count_from_the_request_of_the_step() {
        let seconds = Duration::from_secs;
        let leading = Role::Leading(Leadership { term: 7, valid_for: seconds(12) });
        let mut report = Report {
            wins_within: Some(seconds(12)),
            wind_down_limit: Some(seconds(5)),
            service_time: Some(Timestamp(1_795_000_003_000_000_000)),
            ..Report::new(leading, seconds(4))
        };
        report.shift_to_earlier(seconds(3));
        assert_eq!(report.role, Role::Leading(Leadership { term: 7, valid_for: seconds(15) }));
        assert_eq!(report.wins_within, Some(seconds(15)));
        assert_eq!(report.wind_down_limit, Some(seconds(8)));
        // The clock showed this 3 s before the step began.
        assert_eq!(report.service_time, Some(Timestamp(1_795_000_000_000_000_000)));
        assert_eq!(report.again_in, seconds(7));
    }
}
