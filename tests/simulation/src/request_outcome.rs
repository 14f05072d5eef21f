//! Outcome of one request, and the responses that replace the store's.

use tenure_store::Response;

use super::dice::Dice;
use super::fault::{Fault, Step};
use super::history::Answer;
use super::plan::Latency;
use super::world::Millis;

/// Outcome of a request.
#[derive(Clone, Debug)]
pub struct RequestOutcome {
    /// Arrival at the store; `None` if the request is lost.
    pub arrives_at: Option<Millis>,
    /// Arrival of a duplicate.
    pub copy_arrives_at: Option<Millis>,
    /// Reply that the sender receives.
    pub reply: Reply,
}

/// Reply that the sender of a request receives.
#[derive(Clone, Debug)]
pub enum Reply {
    /// No reply.
    None,
    /// The store's response, with this delay.
    Original(Millis),
    /// The store's response with this delay, but with another lease id.
    OtherLease(Millis, u128),
    /// The store's response with this delay, but with another date.
    OtherDate(Millis, String),
    /// A different response, at that time.
    Replaced(Millis, Response, Answer),
    /// A connection error, at that time.
    Disconnected(Millis, ConnectionError),
}

/// Reason for a missing response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionError {
    /// The connection was refused.
    Refused,
    /// The connection was reset.
    Reset,
}

impl RequestOutcome {
    /// Returns the arrival if it comes after the sender has timed out.
    #[must_use]
    pub fn late_arrival(&self, now: Millis) -> Option<Millis> {
        self.copy_arrives_at.or(self.arrives_at).filter(|at| *at > now + 3_000)
    }
}

/// Returns the outcome of a request without a fault.
#[must_use]
pub fn without_fault(now: Millis, latency: Latency, dice: &mut Dice) -> RequestOutcome {
    let arrives = Some(now + draw_latency(latency, dice));
    RequestOutcome {
        arrives_at: arrives,
        copy_arrives_at: None,
        reply: Reply::Original(draw_latency(latency, dice)),
    }
}

fn draw_latency(latency: Latency, dice: &mut Dice) -> Millis {
    dice.between(latency.least, latency.most)
}

/// Returns the outcome of a request with `fault`.
///
/// `date` is the service's date, and `wrong_date` is a wrong one. `other_lease` is the lease id of
/// another candidate.
#[must_use]
pub fn with_fault(
    fault: Fault,
    step: Step,
    now: Millis,
    (latency, max_delay): (Latency, Millis),
    (date, wrong_date): (&str, String),
    other_lease: u128,
    dice: &mut Dice,
) -> RequestOutcome {
    let mut outcome = without_fault(now, latency, dice);
    let replied_at = now + dice.between(2 * latency.least, 2 * latency.most);
    let mut replace_reply = |status, code, is_applied: bool| {
        outcome.arrives_at = outcome.arrives_at.filter(|_| is_applied);
        outcome.reply = refusal(replied_at, status, code, date);
    };
    match fault {
        Fault::RequestLost => (outcome.arrives_at, outcome.reply) = (None, Reply::None),
        Fault::AnswerLost => outcome.reply = Reply::None,
        Fault::Delayed => {
            let delay = dice.between(200, 2_900);
            match dice.once_in(2) {
                true => outcome.arrives_at = outcome.arrives_at.map(|at| at + delay),
                false => outcome.reply = Reply::Original(delay),
            }
        }
        Fault::AnsweredLate => outcome.reply = Reply::Original(dice.between(3_000, 12_000)),
        Fault::AppliedLate => outcome.arrives_at = Some(now + dice.between(3_000, max_delay)),
        Fault::Duplicated => {
            let longest = dice.pick(&[3_000, max_delay, max_delay]);
            outcome.copy_arrives_at = Some(now + dice.between(1, longest));
        }
        Fault::Forbidden => {
            replace_reply(403, dice.pick(&["AuthenticationFailed", "AuthorizationFailure"]), false);
        }
        Fault::NotFound => {
            replace_reply(404, dice.pick(&["BlobNotFound", "ContainerNotFound"]), false);
        }
        Fault::Conflict => replace_reply(409, conflict(step), false),
        Fault::Precondition => {
            let codes = ["ConditionNotMet", "LeaseIdMismatchWithLeaseOperation", "LeaseLost"];
            replace_reply(412, dice.pick(&codes), false);
        }
        Fault::TooMany => replace_reply(429, "TooManyRequests", false),
        Fault::Internal => {
            replace_reply(500, dice.pick(&["InternalError", "OperationTimedOut"]), dice.once_in(2));
        }
        Fault::Busy => replace_reply(503, "ServerBusy", dice.once_in(4)),
        Fault::Nonsense => {
            let status = dice.pick(&[200, 201, 204, 302, 299, 999]);
            outcome.arrives_at = outcome.arrives_at.filter(|_| dice.once_in(2));
            outcome.reply = garbage_reply(replied_at, status, dice);
        }
        Fault::WrongLease => match step {
            // The emulator renews any holder's lease, and returns its id.
            Step::Acquire | Step::Renew => {
                let status = if step == Step::Acquire { 201 } else { 200 };
                outcome.arrives_at = None;
                outcome.reply = success_for_other_lease(replied_at, status, other_lease, date);
            }
            _ => outcome.reply = Reply::OtherLease(draw_latency(latency, dice), other_lease),
        },
        Fault::Reset => {
            outcome.arrives_at = outcome.arrives_at.filter(|_| dice.once_in(2));
            outcome.reply = Reply::Disconnected(replied_at, ConnectionError::Reset);
        }
        Fault::DateOff => outcome.reply = Reply::OtherDate(draw_latency(latency, dice), wrong_date),
        // Other faults do not affect single requests.
        _ => {}
    }
    outcome
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

/// Returns the response of a front end instead of the service.
#[must_use]
pub fn refusal(at: Millis, status: u16, code: &'static str, date: &str) -> Reply {
    let headers = [
        ("x-ms-error-code", code),
        ("x-ms-request-id", "of-a-front-end"),
        ("Date", date),
        ("Content-Length", "0"),
    ];
    Reply::Replaced(at, response(status, &headers), Answer { status, code, lease: None })
}

/// Returns the page of an intermediary between the candidate and the service, or less.
fn garbage_reply(at: Millis, status: u16, dice: &mut Dice) -> Reply {
    let headers: &[(&str, &str)] = match dice.between(0, 2) {
        0 => &[],
        1 => &[("Content-Type", "text/html"), ("Date", "Thu, 01 Jan 1970 00:00:00 GMT")],
        _ => &[("ETag", ""), ("x-ms-lease-id", "none"), ("x-ms-lease-state", "dubious")],
    };
    Reply::Replaced(at, response(status, headers), Answer { status, code: "", lease: None })
}

fn success_for_other_lease(at: Millis, status: u16, lease: u128, date: &str) -> Reply {
    let id = uuid::Uuid::from_u128(lease).as_hyphenated().to_string();
    let headers = [
        ("ETag", "\"0x8D0000000000001\""),
        ("x-ms-lease-id", id.as_str()),
        ("x-ms-request-id", "of-another"),
        ("Date", date),
        ("Content-Length", "0"),
    ];
    let answer = Answer { status, code: "", lease: Some(lease) };
    Reply::Replaced(at, response(status, &headers), answer)
}
