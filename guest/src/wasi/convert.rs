//! Between the values of the core and those of the WIT.

use core::time::Duration;

use super::bindings::tenure::election::types as wit;
use super::clock;
use tenure_azure::request::Request;
use tenure_core::{
    Complaint, Ended, EndingReason, Event, Exchange, ExchangeResult, Failure, FailureKind,
    Incumbent, LeaseState, Listed, Needs, Outcome, Problem, ProblemClass, RawAnswer, Report, Role,
    Settings, Snapshot, Started, Timestamp, Told, TransferState, TriggerState, Turn, TurnId,
    TurnResult, Turns,
};
use tenure_wasi::nanos;

impl From<Needs> for wit::Needs {
    fn from(needs: Needs) -> Self {
        Self { origins: needs.origins, notes: needs.notes }
    }
}

impl From<Complaint> for wit::Complaint {
    fn from(complaint: Complaint) -> Self {
        Self {
            setting: complaint.setting.into(),
            problem: complaint.problem,
            advice: complaint.advice,
        }
    }
}

impl From<wit::Event> for Event {
    fn from(event: wit::Event) -> Self {
        match event {
            wit::Event::TurnEnded(result) => Self::TurnEnded(result.into()),
            wit::Event::Leave(result) => Self::Leave(result.map(Into::into)),
            wit::Event::ResetSlot => Self::ResetSlot,
            wit::Event::Resign => Self::Resign,
            wit::Event::HandOver(to) => Self::HandOver(to),
            wit::Event::Ready(ready) => Self::Ready(ready),
            wit::Event::Answered(reply) => Self::Answered(Told {
                reply: reply.map(Into::into).map_err(Into::into),
                at: Timestamp::from_date(clock::wall()),
            }),
            wit::Event::Hint => Self::Hint,
        }
    }
}

impl From<wit::TurnResult> for TurnResult {
    fn from(result: wit::TurnResult) -> Self {
        Self { outcome: result.outcome.into(), reason: result.reason }
    }
}

impl From<wit::Response> for RawAnswer {
    fn from(response: wit::Response) -> Self {
        let wit::Response { status, headers, body } = response;
        Self { status, headers, body }
    }
}

impl From<wit::Failure> for Failure {
    fn from(failure: wit::Failure) -> Self {
        let kind = match failure.kind {
            wit::FailureKind::Timeout => FailureKind::Timeout,
            wit::FailureKind::Name => FailureKind::Name,
            wit::FailureKind::Connect => FailureKind::Connect,
            wit::FailureKind::Reset => FailureKind::Reset,
            wit::FailureKind::Tls => FailureKind::Tls,
            wit::FailureKind::Denied => FailureKind::Denied,
            wit::FailureKind::Other => FailureKind::Other,
        };
        Self { kind, detail: failure.detail }
    }
}

/// A request as the host sends it.
pub fn request(request: Request, timeout: Duration) -> wit::Request {
    wit::Request {
        method: request.method.as_str().into(),
        url: request.origin + &request.path_and_query,
        headers: request.headers,
        body: request.body.reveal().into(),
        timeout: nanos(timeout),
    }
}

impl From<wit::Outcome> for Outcome {
    fn from(outcome: wit::Outcome) -> Self {
        match outcome {
            wit::Outcome::Succeeded => Self::Succeeded,
            // That a slot is abandoned is for this side to say.
            wit::Outcome::Failed | wit::Outcome::Abandoned => Self::Failed,
            wit::Outcome::Trapped => Self::Trapped,
            wit::Outcome::TimedOut => Self::TimedOut,
            wit::Outcome::CutOff => Self::CutOff,
            wit::Outcome::NotStarted => Self::NotStarted,
        }
    }
}

impl From<Outcome> for wit::Outcome {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Succeeded => Self::Succeeded,
            Outcome::Failed => Self::Failed,
            Outcome::Trapped => Self::Trapped,
            Outcome::TimedOut => Self::TimedOut,
            Outcome::CutOff => Self::CutOff,
            Outcome::Abandoned => Self::Abandoned,
            Outcome::NotStarted => Self::NotStarted,
        }
    }
}

impl From<Incumbent> for wit::Incumbent {
    fn from(incumbent: Incumbent) -> Self {
        Self {
            name: incumbent.name,
            term: incumbent.term,
            since: incumbent.since.0,
            address: incumbent.address,
            coordinates: incumbent.coordinates,
        }
    }
}

/// A turn of the election that the settings name.
pub fn turn(turn: Turn, settings: &Settings) -> wit::Turn {
    let id = TurnId::of(&turn, settings);
    wit::Turn {
        election: id.election,
        key: id.key,
        term: turn.term,
        slot: turn.slot.0,
        trigger: turn.trigger,
        attempt: turn.attempt,
        past_due: turn.past_due,
        missed: turn.missed,
        valid_for: nanos(turn.valid_for),
        time_limit: turn.time_limit.map(nanos),
        // The host knows it.
        share: None,
    }
}

impl From<Problem> for wit::Problem {
    fn from(problem: Problem) -> Self {
        let class = match problem.class {
            ProblemClass::Configuration => wit::ProblemClass::Configuration,
            ProblemClass::UnusableBlob => wit::ProblemClass::UnusableBlob,
            ProblemClass::ForeignLease => wit::ProblemClass::ForeignLease,
            ProblemClass::Refused => wit::ProblemClass::Refused,
            ProblemClass::Clock => wit::ProblemClass::Clock,
            ProblemClass::Unreachable => wit::ProblemClass::Unreachable,
            ProblemClass::Unavailable => wit::ProblemClass::Unavailable,
            ProblemClass::Nonsense => wit::ProblemClass::Nonsense,
            ProblemClass::LeaseLost => wit::ProblemClass::LeaseLost,
            ProblemClass::Schedule => wit::ProblemClass::Schedule,
            ProblemClass::Work => wit::ProblemClass::Work,
            ProblemClass::Order => wit::ProblemClass::Order,
        };
        Self { class, detail: problem.detail }
    }
}

impl From<Exchange> for wit::Exchange {
    fn from(exchange: Exchange) -> Self {
        let result = match exchange.result {
            ExchangeResult::Done => wit::ExchangeResult::Done,
            ExchangeResult::Declined => wit::ExchangeResult::Declined,
            ExchangeResult::Refused => wit::ExchangeResult::Refused,
            ExchangeResult::Unavailable => wit::ExchangeResult::Unavailable,
            ExchangeResult::Nonsense => wit::ExchangeResult::Nonsense,
            ExchangeResult::Unanswered => wit::ExchangeResult::Unanswered,
        };
        Self { what: exchange.what.into(), result, took: nanos(exchange.took) }
    }
}

/// What a step of a candidate with these settings came to, without requests for the host to send. Without settings it has
/// no turn run.
pub fn report(report: Report, settings: Option<&Settings>) -> wit::Report {
    wit::Report {
        state: report.state,
        role: match report.role {
            Role::Leading(leadership) => wit::Role::Leading(wit::Leadership {
                term: leadership.term,
                valid_for: nanos(leadership.valid_for),
            }),
            Role::Following(incumbent) => wit::Role::Following(incumbent.map(Into::into)),
            Role::Undecided => wit::Role::Undecided,
            Role::Left => wit::Role::Left,
        },
        wins_within: report.wins_within.map(nanos),
        ending: report.ending.map(|ending| wit::Ending {
            term: ending.term,
            reason: match ending.reason {
                EndingReason::ValidityEnded => wit::EndingReason::ValidityEnded,
                EndingReason::LeaseLost => wit::EndingReason::LeaseLost,
                EndingReason::Left => wit::EndingReason::Left,
                EndingReason::WorkFailed => wit::EndingReason::WorkFailed,
                EndingReason::Resigned => wit::EndingReason::Resigned,
                EndingReason::HandedOver => wit::EndingReason::HandedOver,
            },
        }),
        renewed: report.renewed,
        last_will: None,
        wind_down: report.wind_down,
        wind_down_limit: report.wind_down_limit.map(nanos),
        successor: report.successor,
        promise: report.promise.map(nanos),
        turns: report.turns.map(Into::into),
        candidates: report
            .candidates
            .map(|candidates| candidates.into_iter().map(Into::into).collect()),
        run: report.run.zip(settings).map(|(run, settings)| turn(run, settings)),
        background: None,
        problems: report.problems.into_iter().map(Into::into).collect(),
        exchanges: report.exchanges.into_iter().map(Into::into).collect(),
        service_time: report.service_time.map(|time| time.0),
        again_in: nanos(report.again_in),
    }
}

impl From<Listed> for wit::Listed {
    fn from(Listed { name, address, ready, failover, seen }: Listed) -> Self {
        Self { name, address, ready, failover: failover.map(nanos), seen: seen.0 }
    }
}

impl From<Ended> for wit::Ended {
    #[inline(never)]
    fn from(Ended { slot, triggered, end }: Ended) -> Self {
        let (outcome, at) = (end.outcome.into(), end.at.0);
        Self { slot: slot.0, triggered, outcome, at, took: end.took.map(nanos) }
    }
}

impl From<Started> for wit::Started {
    #[inline(never)]
    fn from(started: Started) -> Self {
        Self {
            id: started.id,
            slot: started.slot.0,
            attempt: started.attempt,
            outcome: started.outcome.map(Into::into),
        }
    }
}

impl From<TriggerState> for wit::TriggerState {
    fn from(state: TriggerState) -> Self {
        match state {
            TriggerState::Waiting(until) => Self::Waiting(until.0),
            TriggerState::Claimed(term) => Self::Claimed(term),
            TriggerState::Ended(outcome) => Self::Ended(outcome.into()),
            TriggerState::Unknown => Self::Unknown,
            TriggerState::Missing => Self::Missing,
        }
    }
}

impl From<TransferState> for wit::TransferState {
    fn from(state: TransferState) -> Self {
        match state {
            TransferState::Waiting(term) => Self::Waiting(term),
            TransferState::Done(incumbent) => Self::Done(incumbent.into()),
            TransferState::Changed(incumbent) => Self::Changed(incumbent.into()),
            TransferState::Replaced => Self::Replaced,
            TransferState::Refused(reason) => Self::Refused(reason),
            TransferState::Failed(reason) => Self::Failed(reason),
        }
    }
}

impl From<Turns> for wit::Turns {
    #[inline(never)]
    fn from(turns: Turns) -> Self {
        Self {
            schedule: turns.schedule,
            last_slot: turns
                .last_slot
                .map(|last| wit::LastSlot { slot: last.slot.0, attempt: last.attempt }),
            finished: turns.finished.map(|finished| wit::Finished {
                slot: finished.slot.0,
                outcome: finished.outcome.into(),
            }),
            triggered: turns.triggered.map(Into::into),
            last_success: turns.last_success.map(Into::into),
            last_failure: turns.last_failure.map(Into::into),
            failure_detail: turns.failure_detail.map(|detail| wit::FailureDetail {
                candidate: detail.candidate,
                reason: detail.reason,
            }),
            missed: turns
                .missed
                .map(|missed| wit::MissedSlots { slot: missed.slot.0, count: missed.count }),
            next: turns.next.map(|next| wit::NextTurn { slot: next.slot.0, at: next.at.0 }),
        }
    }
}

impl From<Snapshot> for wit::Snapshot {
    fn from(snapshot: Snapshot) -> Self {
        Self {
            lease: match snapshot.lease {
                LeaseState::Absent => wit::LeaseState::Absent,
                LeaseState::Available => wit::LeaseState::Available,
                LeaseState::Leased => wit::LeaseState::Leased,
                LeaseState::Infinite => wit::LeaseState::Infinite,
                LeaseState::Expired => wit::LeaseState::Expired,
                LeaseState::Breaking => wit::LeaseState::Breaking,
                LeaseState::Broken => wit::LeaseState::Broken,
            },
            incumbent: snapshot.incumbent.map(Into::into),
            turns: snapshot.turns.into(),
            ahead: snapshot.ahead.map(nanos),
            history: snapshot.history.into_iter().map(Into::into).collect(),
            changes: snapshot.changes,
            successor: snapshot.successor,
            promise: snapshot.promise.map(nanos),
            problem: snapshot.problem.map(Into::into),
            asked_at: snapshot.asked_at.0,
        }
    }
}
