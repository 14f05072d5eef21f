//! What the rules of every phase have around them: the settings, the instant, what the candidate
//! remembers beside its phase, and where their effects go.

use core::time::Duration;

use super::Moment;
use super::announcement::QUICK;
use super::beside::{InFlight, Of};
use super::chance::{Chance, jittered};
use super::complaint::{Complaint, SettingId};
use super::credential_state::{CredentialState, Fetch};
use super::environment::SecretFile;
use super::failover::Failover;
use super::failure::Failure;
use super::follower::Follower;
use super::health::Health;
use super::hints::Hints;
use super::listing::Listing;
use super::next_record::Began;
use super::problem::{Problem, ProblemClass, Reported};
use super::report::{Ending, Exchange, Report, Turn};
use super::service_clock::{ServiceClock, Timestamp};
use super::settings::Settings;
use super::steering::Steering;
use super::turns::Turns;
use super::variable;
use crate::mutants::mutant;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use tenure_azure::answer::{Answer, Class};
use tenure_azure::credential::Pass;
use tenure_azure::operation::Operation;
use tenure_azure::request::Request;
use tenure_base::duration::format_duration;
use tenure_base::prelude::*;

/// All that a candidate remembers between two steps, beside its phase.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct State {
    /// Tells this incarnation from others of the same name.
    pub nonce: u64,
    pub service: ServiceClock,
    /// Handed to the host and not yet seen stopped.
    pub turn: Option<Turn>,
    /// When that was.
    pub turn_began: Moment,
    pub leaving: bool,
    pub health: Health,
    pub steering: Steering,
    pub follower: Follower,
    pub hints: Hints,
    pub listing: Listing,
    pub reported: Reported,
    pub credential_state: CredentialState,
    /// What the files of the settings said when they were last good.
    pub file: Option<SecretFile>,
    /// The newest turns that were put forward, and whether the host was given them.
    pub began: Began,
    /// The account keeps every version of a blob, and would keep every beat.
    pub versioned: bool,
    /// What goes on beside the steps.
    pub beside: Option<InFlight>,
}

/// What a step has done so far, beside moving from phase to phase.
#[derive(Clone, Debug, Default)]
pub(super) struct Effects {
    pub ending: Option<Ending>,
    /// By what the candidate may act for longer. The host is to hear of it at once.
    pub gained: Option<Gained>,
    pub run: Option<Turn>,
    /// The outcome of the last turn was put on record before the release.
    pub recorded: bool,
    pub problems: Vec<Problem>,
    pub exchanges: Vec<Exchange>,
    /// To be sent beside the steps.
    pub beside: Option<Beside>,
    /// Requests that were sent.
    pub requests: u32,
    /// A leader's turns are not what they were.
    pub turns_changed: bool,
    /// What a follower read of the leader's turns.
    pub turns: Option<Turns>,
    /// The list of candidates may be another one than before.
    pub listing_changed: bool,
}

/// By what a candidate may act for longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gained {
    Term,
    Renewal,
    Beat,
}

/// The surroundings of a phase.
#[derive(Clone, Debug)]
pub(super) struct Context<'s> {
    pub settings: &'s Settings,
    pub state: State,
    /// `elapsed` of the step.
    pub started: Moment,
    /// The instant at which is decided.
    pub now: Moment,
    /// By how much it may have run ahead.
    pub ahead: Duration,
    pub effects: Effects,
}

/// A request that a phase has to send.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub operation: Operation,
    pub timeout: Duration,
}

impl Outgoing {
    pub fn signed(self, pass: Pass) -> Todo {
        let Self { operation, timeout } = self;
        Todo::Send(Ask { operation, timeout, pass })
    }
}

/// A request to send.
#[derive(Clone, Debug)]
pub struct Ask {
    /// What to ask the service.
    pub operation: Operation,
    /// The longest that it may take, everything included.
    pub timeout: Duration,
    /// With what it is authorised.
    pub pass: Pass,
}

impl Ask {
    /// As it goes to the service.
    pub fn request(&self, settings: &Settings, date: DateTime<Utc>) -> Request {
        // The service stops working on a request after as many whole seconds.
        let seconds = u32::try_from(self.timeout.as_secs()).unwrap_or(u32::MAX).max(1);
        let account = &settings.account;
        let authorization = account.credential().authorization(&self.pass);
        self.operation.request(account, &settings.election, date, seconds, authorization)
    }
}

/// What a step wants next.
#[derive(Debug)]
pub enum Todo {
    /// Send this, and tell [`Step::answered`](super::Step::answered).
    Send(Ask),
    /// Ask for a token with this, and tell [`Step::fetched`](super::Step::fetched).
    Fetch(Fetch),
    /// Nothing more is due: the result.
    Rest(Box<Report>),
}

/// A request that goes out beside the steps.
#[derive(Clone, Debug)]
pub enum Beside {
    /// To the Blob service.
    Send(Ask),
    /// For a token.
    Fetch(Fetch),
}

impl Beside {
    /// What is wrong with settings that need a host which sends them, on one that does not say so.
    #[must_use]
    pub fn complaint(settings: &Settings) -> Option<Complaint> {
        settings.timings.failover.filter(|_| !settings.background)?;
        Some(Complaint {
            setting: SettingId::of(variable::FAILOVER),
            problem: "failover before the lease ends needs requests between the steps of the election, and this \
                      host sends none"
                .into(),
            advice: "leave it out, or use a host that does, like tenure run".into(),
        })
    }
}

pub(super) type Reply = Result<Answer, Failure>;

/// A request that was answered at the instant of the context, or failed.
pub(super) struct Answered<'a> {
    pub operation: &'a Operation,
    pub reply: &'a Reply,
    /// Read before it was sent.
    pub sent: Moment,
    /// With what the next try is spread, and lease ids are made.
    pub chance: &'a mut dyn Chance,
}

impl<'a> Answered<'a> {
    pub fn answer(&self) -> Option<&'a Answer> {
        self.reply.as_ref().ok()
    }

    pub fn class(&self) -> Option<Class> {
        self.answer().map(|answer| answer.class)
    }

    pub fn is_refused(&self) -> bool {
        self.class() == Some(Class::Refused)
    }

    /// Whether it may have been applied: see protocol.md §3.
    pub fn is_unknown(&self) -> bool {
        self.class().is_none_or(|class| matches!(class, Class::Unavailable | Class::Nonsense))
    }
}

impl Context<'_> {
    /// An instant by the clock that never runs ahead: what must not come too soon is counted by it.
    pub fn slow(&self, instant: Moment) -> Moment {
        instant.saturating_sub(self.ahead)
    }

    /// The service's time, as far as it is certain.
    pub fn service_time(&self) -> Option<Timestamp> {
        self.state.service.now(self.slow(self.now))
    }

    /// Whether this candidate beats when it leads, and how it looks at those who do.
    pub fn failover(&self) -> Option<Failover> {
        let beats = !self.state.versioned || mutant!(BeatsOnVersionedAccount);
        self.settings.timings.failover.filter(|_| beats)
    }

    /// Whether a request about a side blob is under way beside the steps.
    pub fn tells_beside(&self) -> bool {
        self.state
            .beside
            .as_ref()
            .is_some_and(|beside| beside.of != Of::Token && self.now < beside.until)
    }

    /// Takes notice of an answer for the credential. Returns true if the same request is worth sending again at once,
    /// with another token.
    pub fn changes_credential(&mut self, answer: &Answer) -> bool {
        let credential = self.settings.account.credential();
        let problem = self.state.credential_state.answered(credential, answer, self.now);
        let other = problem.is_some();
        self.report(problem);
        other
    }

    /// Takes note of whether the account keeps every version of a blob.
    pub fn sees_versions(&mut self, answered: &Answered<'_>) {
        let of_record = matches!(
            answered.operation,
            Operation::Read { .. } | Operation::WriteMetadata { .. } | Operation::CreateBlob
        );
        let done = answered.answer().filter(|answer| answer.class == Class::Done && of_record);
        let Some(answer) = done.filter(|_| self.settings.timings.failover.is_some()) else {
            return;
        };
        self.state.versioned = answer.versioned;
        if answer.versioned {
            let lease = format_duration(self.settings.timings.lease);
            let detail = format!(
                "the account keeps every version of a blob, and each beat would make one. So TENURE_FAILOVER has \
                 no effect: a leader that dies is replaced when its lease of {lease} ends. Turn blob versioning \
                 off, use another account, or leave TENURE_FAILOVER out (the lease is 15s then)"
            );
            self.report_problem(ProblemClass::Configuration, detail);
        }
    }

    /// What the service's time most likely is.
    pub fn service_estimate(&self) -> Option<Timestamp> {
        self.state.service.estimate(self.slow(self.now))
    }

    /// Whether this candidate leaves the lease to the others.
    pub fn stays_out(&self) -> bool {
        self.state.steering.not_ready || self.now < self.out_until() || self.settings.observes
    }

    /// Until then a candidate that rests leaves the lease to the others.
    fn out_until(&self) -> Moment {
        self.state.steering.out_until.max(self.state.health.out_until())
    }

    /// Between two tries of a follower, or after one of its requests failed. A follower that is to take over
    /// before the lease ends looks as often as the leader beats, if it does, or has no record yet to do so; and it
    /// looks whether there is such a leader as soon as it contends again.
    pub fn next_try(&self, chance: &mut dyn Chance) -> Moment {
        let Follower { pulse, following, .. } = &self.state.follower;
        let may_beat = pulse.is_some() || *following == Some(None);
        let poll = match self.failover() {
            Some(failover) if may_beat => return self.now + failover.beat(),
            _ => self.settings.timings.poll,
        };
        let rarely =
            if mutant!(RarePolls) { 4 * self.settings.timings.lease } else { Duration::ZERO };
        let next = self.now + jittered(poll, chance) + rarely;
        let back = Some(self.out_until()).filter(|back| self.now < *back);
        back.filter(|_| self.failover().is_some()).map_or(next, |back| next.min(back))
    }

    /// After a race that another candidate won, which may beat.
    pub fn next_after_race(&self, chance: &mut dyn Chance) -> Moment {
        let next = self.next_try(chance);
        self.failover().map_or(next, |f| next.min(self.now + f.beat()))
    }

    /// When a follower polls again.
    pub fn next_poll(&mut self, chance: &mut dyn Chance) -> Moment {
        let (next, slow) = (self.next_try(chance), self.was_slow());
        self.state.follower.next_poll(next, slow, self.settings, self.now)
    }

    /// Whether the newest request took long: see [`Follower::next_poll`].
    pub fn was_slow(&self) -> bool {
        self.effects.exchanges.last().is_some_and(|exchange| exchange.took > QUICK)
    }

    /// Reports a problem, if there is one and it was not reported lately.
    pub fn report(&mut self, problem: Option<Problem>) {
        let (state, now) = (&mut self.state, self.now);
        self.effects.problems.extend(problem.filter(|p| state.reported.is_news(p, now)));
    }

    /// As [`Context::report`].
    pub fn report_problem(&mut self, class: ProblemClass, detail: String) {
        self.report(Some(Problem { class, detail }));
    }

    /// Reports what came of an order. Each order has its answer, also when the last one had the same.
    pub fn answer_order(&mut self, class: ProblemClass, detail: String) {
        self.effects.problems.push(Problem { class, detail });
    }

    /// Reports that a request was not answered, or not as hoped.
    pub fn report_reply(&mut self, answered: &Answered<'_>) {
        let Answered { operation, reply, .. } = *answered;
        let problem = match reply {
            Err(failure) => failure.problem(operation.name(), self.settings.account.origin()),
            Ok(answer) => Problem::of_answer(answer, operation, self.settings),
        };
        self.report(Some(problem));
    }
}
