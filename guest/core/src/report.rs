//! What the host tells a step, and what a step tells the host. The meaning of each
//! item is that of its namesake in `wit/types.wit`.

use core::fmt;
use core::time::Duration;

use super::failure::Failure;
use super::history::Incumbent;
use super::listing::Listed;
use super::problem::Problem;
use super::record::{Kind, Outcome};
use super::service_clock::Timestamp;
use super::turns::Turns;
use serde::{Deserialize, Serialize};
use tenure_azure::answer::Class;
use tenure_azure::operation::Kind as RequestKind;
use tenure_azure::request;
use tenure_base::prelude::*;
use zeroize::Zeroize as _;

/// Leadership, and how long it may be acted upon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leadership {
    /// The fencing token.
    pub term: u64,
    /// From the instant that the `elapsed` of the step stands for.
    pub valid_for: Duration,
}

/// What a candidate is, after a step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// It leads.
    Leading(Leadership),
    /// Another leads; who, where the record can be read.
    Following(Option<Incumbent>),
    /// Nobody is known to lead.
    #[default]
    Undecided,
    /// It has left the election.
    Left,
}

/// Why a leadership ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndingReason {
    /// Its time ran out before a renewal was answered.
    ValidityEnded,
    /// The service says that the lease is gone.
    LeaseLost,
    /// The host asked to leave.
    Left,
    /// The work failed.
    WorkFailed,
    /// An operator, or the longest tenure, had it so; others come first now.
    Resigned,
    /// The lease was given to a successor.
    HandedOver,
}

impl EndingReason {
    /// Its name, as the WIT package spells it.
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
    /// Its term.
    pub term: u64,
    /// Why it ended.
    pub reason: EndingReason,
}

/// A part of work that is split. Each is an election of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// Its number, from 0.
    pub index: u32,
    /// How many shares there are.
    pub count: u32,
}

/// One run of the leader handler, for one slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// The election, `container/blob`.
    pub election: String,
    /// The same for all attempts at the turn, and another for every other turn of any election.
    pub key: String,
    /// The fencing token.
    pub term: u64,
    /// The scheduled instant.
    pub slot: Timestamp,
    /// The id of the trigger that it runs for, outside the schedule; none for a turn of the schedule.
    pub trigger: Option<String>,
    /// 1 for the first attempt.
    pub attempt: u32,
    /// It comes late, or stands for earlier slots that were missed.
    pub past_due: bool,
    /// So many slots before this one have no turn, and never will.
    pub missed: u32,
    /// As [`Leadership::valid_for`].
    pub valid_for: Duration,
    /// The longest that the turn may take.
    pub time_limit: Option<Duration>,
    /// The share that its election is. None: the work is not split, or it is the host that knows.
    pub share: Option<Share>,
}

impl Turn {
    pub(super) fn kind(&self) -> Kind {
        Kind::from_trigger(self.trigger.as_ref())
    }
}

/// What happened since the last step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// The turn is over and was seen stopped.
    TurnEnded(TurnResult),
    /// Leave the election; the handler was seen stopped. With the result of a turn whose
    /// end was not told yet.
    Leave(Option<TurnResult>),
    /// The same after a turn that ended later than the leadership: its outcome is put on record
    /// if the service still lets it. For an invocation that is one turn; no host says this.
    LeaveLate(TurnResult),
    /// Forget a claimed slot that lies in the future.
    ResetSlot,
    /// Give up the leadership, and let the others come first.
    Resign,
    /// Give the leadership to the candidate of that name.
    HandOver(String),
    /// False: do not contend; a leader resigns. True: contend again.
    Ready(bool),
    /// A hint: the leader may have changed, or orders may wait.
    Hint,
    /// The request that went out beside the steps was answered, or failed.
    BackgroundReply(BackgroundReply),
}

/// The end of a turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnResult {
    /// The outcome that goes on record.
    pub outcome: Outcome,
    /// Why it failed, for people. Its beginning goes on record, where everyone who may read the blob can read it.
    pub reason: Option<String>,
}

impl From<Outcome> for TurnResult {
    fn from(outcome: Outcome) -> Self {
        Self { outcome, reason: None }
    }
}

/// What came of a request that the host sent beside the steps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackgroundReply {
    /// The answer, or why there is none.
    pub result: Result<Response, Failure>,
    /// When, by this machine's clock.
    pub received_at: Timestamp,
}

/// An answer as it came. `Debug` does not print it: the body may be a token.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Response {
    /// The status.
    pub status: u16,
    /// Names in any case.
    pub headers: Vec<(String, Vec<u8>)>,
    /// Its beginning.
    pub body: Vec<u8>,
}

impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Response({})", self.status)
    }
}

/// A request that a step sent, and what came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// What was asked for.
    pub what: RequestKind,
    /// What came of it.
    pub result: ExchangeResult,
    /// How long it took.
    pub took: Duration,
}

/// What came of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExchangeResult {
    /// It was done.
    Done,
    /// It was declined as the protocol has it: another one holds the lease, there is no blob.
    Declined,
    /// The credential, its permission, or the request is refused.
    Refused,
    /// The service cannot serve now.
    Unavailable,
    /// An answer that the service would not give.
    Nonsense,
    /// No answer.
    Unanswered,
}

impl ExchangeResult {
    /// What an answer comes to.
    pub(super) fn from_class(class: Class) -> Self {
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

/// All that a candidate remembers between two steps. A secret: it holds the lease id, tokens, and what secret
/// files said. Overwritten when it is dropped.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct State(Vec<u8>);

impl State {
    /// Its bytes, for the next step.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The bytes, which nobody overwrites from here on.
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

/// A request for somebody else to send as it is. A secret: it holds a signature or a token. `Debug` does not print it, and
/// it is overwritten when it is dropped.
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
    /// The longest that it may take. Of a last will: how long it can be of use, counted as
    /// [`Leadership::valid_for`].
    pub timeout: Duration,
}

impl Request {
    /// A request that may take so long.
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
    /// For the next step.
    pub state: State,
    /// What the candidate is now.
    pub role: Role,
    /// It has the lease, and leads if its term is on record within this time.
    pub wins_within: Option<Duration>,
    /// Set in the step in which a leadership ended.
    pub ending: Option<Ending>,
    /// Set in the step in which the lease was renewed.
    pub renewed: bool,
    /// The release of the lease, for somebody else to send once this process is dead.
    pub last_will: Option<Request>,
    /// The turn that runs is to come to its end.
    pub wind_down: bool,
    /// The longest that the turn may go on then, from the instant that the `elapsed` of the step stands for; none:
    /// as long as its grace.
    pub wind_down_limit: Option<Duration>,
    /// The name of the candidate that this leader hands over to.
    pub successor: Option<String>,
    /// So long after its newest beat the leader has stopped, by the record.
    pub promise: Option<Duration>,
    /// How the turns of the election go by its record, where that may be news: when a candidate begins to lead, a
    /// turn was claimed or ended, and when a follower has read the record.
    pub turns: Option<Turns>,
    /// The candidates that were seen lately, where that may be news.
    pub candidates: Option<Vec<Listed>>,
    /// A turn to run now, already claimed.
    pub run: Option<Turn>,
    /// A request to send beside the steps.
    pub background: Option<Request>,
    /// What went wrong.
    pub problems: Vec<Problem>,
    /// The requests that were sent, in their order.
    pub exchanges: Vec<Exchange>,
    /// The most likely time of the service at `elapsed` of the step.
    pub service_time: Option<Timestamp>,
    /// When to step again at the latest.
    pub again_in: Duration,
}

impl Report {
    /// Of a step after which nothing is to be done but the next one.
    #[must_use]
    pub fn new(role: Role, again_in: Duration) -> Self {
        Self { role, again_in, ..Self::default() }
    }

    /// Counts what it counts from the instant of its step from one that was `by` earlier.
    pub fn shift_to_earlier(&mut self, offset: Duration) {
        let add = |span: &mut Duration| *span = span.saturating_add(offset);
        if let Role::Leading(leadership) = &mut self.role {
            add(&mut leadership.valid_for);
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
        // It is the time at that instant.
        if let Some(time) = &mut self.service_time {
            *time = time.minus(offset);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_of_a_step_that_began_late_counts_from_when_it_was_asked_for() {
        let seconds = Duration::from_secs;
        let leading = Role::Leading(Leadership { term: 7, valid_for: seconds(12) });
        let mut report = Report {
            wind_down_limit: Some(seconds(5)),
            service_time: Some(Timestamp(1_795_000_003_000_000_000)),
            ..Report::new(leading, seconds(4))
        };
        report.shift_to_earlier(seconds(3));
        assert_eq!(report.role, Role::Leading(Leadership { term: 7, valid_for: seconds(15) }));
        assert_eq!(report.wind_down_limit, Some(seconds(8)));
        // The clock showed this 3 s before the step began.
        assert_eq!(report.service_time, Some(Timestamp(1_795_000_000_000_000_000)));
        assert_eq!(report.again_in, seconds(7));
    }
}
