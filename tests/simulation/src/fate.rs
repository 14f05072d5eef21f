//! What becomes of one request, and the answers that stand in for the store's.

use tenure_store::Response;

use super::dice::Dice;
use super::fault::{Fault, Step};
use super::history::Answer;
use super::plan::Latency;
use super::world::Millis;

/// What becomes of a request.
#[derive(Clone, Debug)]
pub struct Fate {
    /// When it arrives at the store; it may never.
    pub arrives: Option<Millis>,
    /// When a copy of it arrives.
    pub copy: Option<Millis>,
    /// What the sender hears.
    pub reply: Reply,
}

/// What the sender hears of a request.
#[derive(Clone, Debug)]
pub enum Reply {
    /// Nothing.
    None,
    /// The store's answer, that long after it was given.
    Real(Millis),
    /// The same, naming another lease id.
    Marked(Millis, u128),
    /// The same, with another date.
    Dated(Millis, String),
    /// Something else, at that time.
    Instead(Millis, Response, Answer),
    /// The connection ends, at that time.
    Broken(Millis, Broken),
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// Nobody listens.
    Refused,
    /// The connection ended.
    Reset,
}

impl Fate {
    /// When the store handles it though nobody waits for it any more.
    #[must_use]
    pub fn late(&self, now: Millis) -> Option<Millis> {
        self.copy.or(self.arrives).filter(|at| *at > now + 3_000)
    }
}

/// A request to which nothing happens.
#[must_use]
pub fn unharmed(now: Millis, latency: Latency, dice: &mut Dice) -> Fate {
    let arrives = Some(now + way(latency, dice));
    Fate { arrives, copy: None, reply: Reply::Real(way(latency, dice)) }
}

fn way(latency: Latency, dice: &mut Dice) -> Millis {
    dice.between(latency.least, latency.most)
}

/// A request to which `fault` happens. The service's date is `date`, a wrong one is `off`; `other` is
/// a lease id that is not the sender's.
#[must_use]
pub fn of(
    fault: Fault,
    step: Step,
    now: Millis,
    (latency, latest): (Latency, Millis),
    (date, off): (&str, String),
    other: u128,
    dice: &mut Dice,
) -> Fate {
    let mut fate = unharmed(now, latency, dice);
    let answered = now + dice.between(2 * latency.least, 2 * latency.most);
    let mut instead = |status, code, applied: bool| {
        fate.arrives = fate.arrives.filter(|_| applied);
        fate.reply = refusal(answered, status, code, date);
    };
    match fault {
        Fault::RequestLost => (fate.arrives, fate.reply) = (None, Reply::None),
        Fault::AnswerLost => fate.reply = Reply::None,
        Fault::Delayed => {
            let delay = dice.between(200, 2_900);
            match dice.once_in(2) {
                true => fate.arrives = fate.arrives.map(|at| at + delay),
                false => fate.reply = Reply::Real(delay),
            }
        }
        Fault::AnsweredLate => fate.reply = Reply::Real(dice.between(3_000, 12_000)),
        Fault::AppliedLate => fate.arrives = Some(now + dice.between(3_000, latest)),
        Fault::Duplicated => {
            let most = dice.pick(&[3_000, latest, latest]);
            fate.copy = Some(now + dice.between(1, most));
        }
        Fault::Forbidden => {
            instead(403, dice.pick(&["AuthenticationFailed", "AuthorizationFailure"]), false);
        }
        Fault::NotFound => {
            instead(404, dice.pick(&["BlobNotFound", "ContainerNotFound"]), false);
        }
        Fault::Conflict => instead(409, conflict(step), false),
        Fault::Precondition => {
            let codes = ["ConditionNotMet", "LeaseIdMismatchWithLeaseOperation", "LeaseLost"];
            instead(412, dice.pick(&codes), false);
        }
        Fault::TooMany => instead(429, "TooManyRequests", false),
        Fault::Internal => {
            instead(500, dice.pick(&["InternalError", "OperationTimedOut"]), dice.once_in(2));
        }
        Fault::Busy => instead(503, "ServerBusy", dice.once_in(4)),
        Fault::Nonsense => {
            let status = dice.pick(&[200, 201, 204, 302, 299, 999]);
            fate.arrives = fate.arrives.filter(|_| dice.once_in(2));
            fate.reply = nonsense(answered, status, dice);
        }
        Fault::WrongLease => match step {
            // The emulator renews whoever holds the lease, and says so.
            Step::Acquire | Step::Renew => {
                let status = if step == Step::Acquire { 201 } else { 200 };
                fate.arrives = None;
                fate.reply = success_of_another(answered, status, other, date);
            }
            _ => fate.reply = Reply::Marked(way(latency, dice), other),
        },
        Fault::Reset => {
            fate.arrives = fate.arrives.filter(|_| dice.once_in(2));
            fate.reply = Reply::Broken(answered, Broken::Reset);
        }
        Fault::DateOff => fate.reply = Reply::Dated(way(latency, dice), off),
        // Befalls others than single requests.
        _ => {}
    }
    fate
}

fn conflict(step: Step) -> &'static str {
    match step {
        Step::CreateContainer => "ContainerAlreadyExists",
        Step::CreateBlob => "BlobAlreadyExists",
        Step::Acquire => "LeaseAlreadyPresent",
        _ => "LeaseIdMismatchWithLeaseOperation",
    }
}

fn response(status: u16, headers: &[(&str, &str)]) -> Response {
    let headers = headers.iter().map(|(name, value)| ((*name).into(), (*value).into()));
    Response { status, headers: headers.collect(), ..Response::default() }
}

/// An answer that a front end gives in the place of the service.
#[must_use]
pub fn refusal(at: Millis, status: u16, code: &'static str, date: &str) -> Reply {
    let headers = [
        ("x-ms-error-code", code),
        ("x-ms-request-id", "of-a-front-end"),
        ("Date", date),
        ("Content-Length", "0"),
    ];
    Reply::Instead(at, response(status, &headers), Answer { status, code, lease: None })
}

/// The page of something between here and the service, or less.
fn nonsense(at: Millis, status: u16, dice: &mut Dice) -> Reply {
    let headers: &[(&str, &str)] = match dice.between(0, 2) {
        0 => &[],
        1 => &[("Content-Type", "text/html"), ("Date", "Thu, 01 Jan 1970 00:00:00 GMT")],
        _ => &[("ETag", ""), ("x-ms-lease-id", "none"), ("x-ms-lease-state", "dubious")],
    };
    Reply::Instead(at, response(status, headers), Answer { status, code: "", lease: None })
}

fn success_of_another(at: Millis, status: u16, lease: u128, date: &str) -> Reply {
    let id = uuid::Uuid::from_u128(lease).as_hyphenated().to_string();
    let headers = [
        ("ETag", "\"0x8D0000000000001\""),
        ("x-ms-lease-id", id.as_str()),
        ("x-ms-request-id", "of-another"),
        ("Date", date),
        ("Content-Length", "0"),
    ];
    let answer = Answer { status, code: "", lease: Some(lease) };
    Reply::Instead(at, response(status, &headers), answer)
}
