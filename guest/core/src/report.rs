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
use tenure_base::prelude::*;

/// Leadership, and how long it may be acted upon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leadership {
    /// The fencing token.
    pub term: u64,
    /// From the instant that the `elapsed` of the step stands for.
    pub valid_for: Duration,
}

/// What a candidate is, after a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// It leads.
    Leading(Leadership),
    /// Another leads; who, where the record can be read.
    Following(Option<Incumbent>),
    /// Nobody is known to lead.
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

/// A leadership that ended in this step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    /// Its term.
    pub term: u64,
    /// Why it ended.
    pub reason: EndingReason,
}

/// One run of the leader handler, for one slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
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
}

impl Turn {
    pub(super) fn kind(&self) -> Kind {
        Kind::of(self.trigger.as_ref())
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
    Answered(Told),
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
pub struct Told {
    /// The answer, or why there is none.
    pub reply: Result<RawAnswer, Failure>,
    /// When, by this machine's clock.
    pub at: Timestamp,
}

/// An answer as it came. `Debug` does not print it: the body may be a token.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RawAnswer {
    /// The status.
    pub status: u16,
    /// Names in any case.
    pub headers: Vec<(String, Vec<u8>)>,
    /// Its beginning.
    pub body: Vec<u8>,
}

impl fmt::Debug for RawAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RawAnswer({})", self.status)
    }
}

/// A request that a step sent, and what came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// What was asked for.
    pub what: &'static str,
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
    pub(super) fn of(class: Class) -> Self {
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

/// The result of one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// For the next step.
    pub state: Vec<u8>,
    /// What the candidate is now.
    pub role: Role,
    /// It has the lease, and leads if its term is on record within this time.
    pub wins_within: Option<Duration>,
    /// Set in the step in which a leadership ended.
    pub ending: Option<Ending>,
    /// Set in the step in which the lease was renewed.
    pub renewed: bool,
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
    /// What went wrong.
    pub problems: Vec<Problem>,
    /// The requests that were sent, in their order.
    pub exchanges: Vec<Exchange>,
    /// The most likely time of the service at `elapsed` of the step.
    pub service_time: Option<Timestamp>,
    /// When to step again at the latest.
    pub again_in: Duration,
}
