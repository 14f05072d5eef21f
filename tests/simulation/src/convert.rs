//! Between the values of the core and those of the contract, as the component does it.

use chrono::{DateTime, Utc};
use tenure::contract as wit;
use tenure_azure::request as azure;
use tenure_core as core;

fn nanos(span: std::time::Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// What the host tells a step.
#[must_use]
pub fn event(event: wit::Event, wall: DateTime<Utc>) -> core::Event {
    match event {
        wit::Event::Leave(of_turn) => core::Event::Leave(of_turn.map(result)),
        wit::Event::TurnEnded(of_turn) => core::Event::TurnEnded(result(of_turn)),
        wit::Event::ResetSlot => core::Event::ResetSlot,
        wit::Event::Resign => core::Event::Resign,
        wit::Event::HandOver(to) => core::Event::HandOver(to),
        wit::Event::Ready(ready) => core::Event::Ready(ready),
        wit::Event::Answered(reply) => {
            let reply = reply.map(raw).map_err(failure);
            core::Event::Answered(core::Told { reply, at: core::Timestamp::from_date(wall) })
        }
        wit::Event::Hint => core::Event::Hint,
    }
}

fn raw(response: wit::Response) -> core::RawAnswer {
    let wit::Response { status, headers, body } = response;
    core::RawAnswer { status, headers, body }
}

fn failure(failure: wit::Failure) -> core::Failure {
    let kind = match failure.kind {
        wit::FailureKind::Timeout => core::FailureKind::Timeout,
        wit::FailureKind::Name => core::FailureKind::Name,
        wit::FailureKind::Connect => core::FailureKind::Connect,
        wit::FailureKind::Reset => core::FailureKind::Reset,
        wit::FailureKind::Tls => core::FailureKind::Tls,
        wit::FailureKind::Denied => core::FailureKind::Denied,
        wit::FailureKind::Other => core::FailureKind::Other,
    };
    core::Failure { kind, detail: failure.detail }
}

/// A request for others to send: beside the steps, or as a last will.
#[must_use]
pub fn request(request: azure::Request, timeout: std::time::Duration) -> wit::Request {
    wit::Request {
        method: request.method.as_str().into(),
        url: request.origin + &request.path_and_query,
        headers: request.headers,
        body: request.body.reveal().into(),
        timeout,
    }
}

fn result(result: wit::TurnResult) -> core::TurnResult {
    core::TurnResult { outcome: outcome(result.outcome), reason: result.reason }
}

fn outcome(outcome: wit::Outcome) -> core::Outcome {
    match outcome {
        wit::Outcome::Succeeded => core::Outcome::Succeeded,
        wit::Outcome::Failed | wit::Outcome::Abandoned => core::Outcome::Failed,
        wit::Outcome::Trapped => core::Outcome::Trapped,
        wit::Outcome::TimedOut => core::Outcome::TimedOut,
        wit::Outcome::CutOff => core::Outcome::CutOff,
        wit::Outcome::NotStarted => core::Outcome::NotStarted,
    }
}

/// What a step tells the host. What went wrong is for people, and left out.
#[must_use]
pub fn report(report: core::Report) -> wit::Report {
    wit::Report {
        state: wit::State::new(report.state),
        ending: report.ending.map(|ending| wit::Ending {
            term: ending.term,
            reason: match ending.reason {
                core::EndingReason::ValidityEnded => wit::EndingReason::ValidityEnded,
                core::EndingReason::LeaseLost => wit::EndingReason::LeaseLost,
                core::EndingReason::WorkFailed => wit::EndingReason::WorkFailed,
                core::EndingReason::Left => wit::EndingReason::Left,
                core::EndingReason::Resigned => wit::EndingReason::Resigned,
                core::EndingReason::HandedOver => wit::EndingReason::HandedOver,
            },
        }),
        renewed: report.renewed,
        wind_down: report.wind_down,
        wind_down_limit: report.wind_down_limit,
        successor: report.successor,
        promise: report.promise,
        turns: None,
        run: report.run.map(|turn| wit::Turn {
            // There is one election in a world.
            election: String::new(),
            key: String::new(),
            term: turn.term,
            slot: turn.slot.0,
            trigger: turn.trigger,
            attempt: turn.attempt,
            past_due: turn.past_due,
            missed: turn.missed,
            valid_for: nanos(turn.valid_for),
            time_limit: turn.time_limit.map(nanos),
            share: None,
        }),
        ..wit::Report::of(role(report.role), report.again_in)
    }
}

fn role(role: core::Role) -> wit::Role {
    match role {
        core::Role::Leading(leadership) => wit::Role::Leading(wit::Leadership {
            term: leadership.term,
            valid_for: nanos(leadership.valid_for),
        }),
        core::Role::Following(incumbent) => {
            wit::Role::Following(incumbent.map(|incumbent| wit::Incumbent {
                name: incumbent.name,
                term: incumbent.term,
                since: incumbent.since.0,
                address: incumbent.address,
                coordinates: incumbent.coordinates,
            }))
        }
        core::Role::Undecided => wit::Role::Undecided,
        core::Role::Left => wit::Role::Left,
    }
}
