//! What the rules of every phase have around them: the settings, the instant, what the candidate
//! remembers beside its phase, and where their effects go.

use core::time::Duration;

use super::Moment;
use super::announcement::QUICK_POLL;
use super::beside::{InFlight, BackgroundKind};
use super::chance::{Chance, jitter};
use super::complaint::{Complaint, SettingId};
use super::credential_state::{CredentialState, TokenRequest};
use super::environment::SecretFile;
use super::failover::Failover;
use super::failure::Failure;
use super::follower::Follower;
use super::health::Health;
use super::hints::Hints;
use super::listing::Listing;
use super::next_record::ProposedClaims;
use super::problem::{Problem, ProblemClass, RecentProblems};
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
use tenure_azure::credential::AuthSource;
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
    pub turn_started: Moment,
    pub leaving: bool,
    pub health: Health,
    pub steering: Steering,
    pub follower: Follower,
    pub hints: Hints,
    pub listing: Listing,
    pub reported: RecentProblems,
    pub credential_state: CredentialState,
    /// What the files of the settings said when they were last good.
    pub file: Option<SecretFile>,
    /// The newest turns that were put forward, and whether the host was given them.
    pub claims: ProposedClaims,
    /// The account keeps every version of a blob, and would keep every beat.
    pub keeps_versions: bool,
    /// What goes on beside the steps.
    pub background: Option<InFlight>,
}

/// What a step has done so far, beside moving from phase to phase.
#[derive(Clone, Debug, Default)]
pub(super) struct Effects {
    pub ending: Option<Ending>,
    /// By what the candidate may act for longer. The host is to hear of it at once.
    pub extension: Option<Extension>,
    pub run: Option<Turn>,
    /// The outcome of the last turn was put on record before the release.
    pub outcome_recorded: bool,
    pub problems: Vec<Problem>,
    pub exchanges: Vec<Exchange>,
    /// To be sent beside the steps.
    pub background: Option<BackgroundRequest>,
    /// Requests that were sent.
    pub requests_sent: u32,
    /// A leader's turns are not what they were.
    pub turns_changed: bool,
    /// What a follower read of the leader's turns.
    pub turns: Option<Turns>,
    /// The list of candidates may be another one than before.
    pub listing_changed: bool,
}

/// By what a candidate may act for longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extension {
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
    pub clock_lead: Duration,
    pub effects: Effects,
}

/// A request that a phase has to send.
#[derive(Debug)]
pub(super) struct UnsignedRequest {
    pub operation: Operation,
    pub timeout: Duration,
}

impl UnsignedRequest {
    pub fn sign(self, auth: AuthSource) -> StepAction {
        let Self { operation, timeout } = self;
        StepAction::Send(SignedRequest { operation, timeout, auth })
    }
}

/// A request to send.
#[derive(Clone, Debug)]
pub struct SignedRequest {
    /// What to ask the service.
    pub operation: Operation,
    /// The longest that it may take, everything included.
    pub timeout: Duration,
    /// With what it is authorised.
    pub auth: AuthSource,
}

impl SignedRequest {
    /// As it goes to the service.
    pub fn to_http(&self, settings: &Settings, date: DateTime<Utc>) -> Request {
        // The service stops working on a request after as many whole seconds.
        let seconds = u32::try_from(self.timeout.as_secs()).unwrap_or(u32::MAX).max(1);
        let account = &settings.account;
        let authorization = account.credential().authorization(&self.auth);
        self.operation.request(account, &settings.election, date, seconds, authorization)
    }
}

/// What a step wants next.
#[derive(Debug)]
pub enum StepAction {
    /// Send this, and tell [`Step::answered`](super::Step::answered).
    Send(SignedRequest),
    /// Ask for a token with this, and tell [`Step::fetched`](super::Step::fetched).
    Fetch(TokenRequest),
    /// Nothing more is due: the result.
    Done(Box<Report>),
}

/// A request that goes out beside the steps.
#[derive(Clone, Debug)]
pub enum BackgroundRequest {
    /// To the Blob service.
    Send(SignedRequest),
    /// For a token.
    Fetch(TokenRequest),
}

impl BackgroundRequest {
    /// What is wrong with settings that need a host which sends them, on one that does not say so.
    #[must_use]
    pub fn complaint(settings: &Settings) -> Option<Complaint> {
        settings.timings.failover.filter(|_| !settings.background)?;
        Some(Complaint {
            setting: SettingId::new(variable::FAILOVER),
            problem: "failover before the lease ends needs requests between the steps of the election, and this \
                      host sends none"
                .into(),
            advice: "leave it out, or use a host that does, like tenure run".into(),
        })
    }
}

pub(super) type Reply = Result<Answer, Failure>;

/// A request that was answered at the instant of the context, or failed.
pub(super) struct CompletedRequest<'a> {
    pub operation: &'a Operation,
    pub reply: &'a Reply,
    /// Read before it was sent.
    pub sent_at: Moment,
    /// With what the next try is spread, and lease ids are made.
    pub chance: &'a mut dyn Chance,
}

impl<'a> CompletedRequest<'a> {
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
    pub fn is_outcome_unknown(&self) -> bool {
        self.class().is_none_or(|class| matches!(class, Class::Unavailable | Class::Nonsense))
    }
}

impl Context<'_> {
    /// An instant by the clock that never runs ahead: what must not come too soon is counted by it.
    pub fn slow_clock(&self, instant: Moment) -> Moment {
        instant.saturating_sub(self.clock_lead)
    }

    /// The service's time, as far as it is certain.
    pub fn service_time(&self) -> Option<Timestamp> {
        self.state.service.now(self.slow_clock(self.now))
    }

    /// Whether this candidate beats when it leads, and how it looks at those who do.
    pub fn failover(&self) -> Option<Failover> {
        let may_beat = !self.state.keeps_versions || mutant!(BeatsOnVersionedAccount);
        self.settings.timings.failover.filter(|_| may_beat)
    }

    /// Whether a request about a side blob is under way beside the steps.
    pub fn has_pending_background_request(&self) -> bool {
        self.state
            .background
            .as_ref()
            .is_some_and(|background| background.kind != BackgroundKind::Token && self.now < background.until)
    }

    /// Takes notice of an answer for the credential. Returns true if the same request is worth sending again at once,
    /// with another token.
    pub fn on_credential_answer(&mut self, answer: &Answer) -> bool {
        let credential = self.settings.account.credential();
        let problem = self.state.credential_state.on_answer(credential, answer, self.now);
        let is_replaced = problem.is_some();
        self.report(problem);
        is_replaced
    }

    /// Takes note of whether the account keeps every version of a blob.
    pub fn check_versioning(&mut self, completed: &CompletedRequest<'_>) {
        let is_record_request = matches!(
            completed.operation,
            Operation::Read { .. } | Operation::WriteMetadata { .. } | Operation::CreateBlob
        );
        let done = completed.answer().filter(|answer| answer.class == Class::Done && is_record_request);
        let Some(answer) = done.filter(|_| self.settings.timings.failover.is_some()) else {
            return;
        };
        self.state.keeps_versions = answer.has_version_id;
        if answer.has_version_id {
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
        self.state.service.estimate(self.slow_clock(self.now))
    }

    /// Whether this candidate leaves the lease to the others.
    pub fn is_ineligible(&self) -> bool {
        self.state.steering.not_ready || self.now < self.ineligible_until() || self.settings.observes
    }

    /// Until then a candidate that rests leaves the lease to the others.
    fn ineligible_until(&self) -> Moment {
        self.state.steering.out_until.max(self.state.health.ineligible_until())
    }

    /// Between two tries of a follower, or after one of its requests failed. A follower that is to take over
    /// before the lease ends looks as often as the leader beats, if it does, or has no record yet to do so; and it
    /// looks whether there is such a leader as soon as it contends again.
    pub fn next_try(&self, chance: &mut dyn Chance) -> Moment {
        let Follower { pulse, following, .. } = &self.state.follower;
        let may_beat = pulse.is_some() || *following == Some(None);
        let poll = match self.failover() {
            Some(failover) if may_beat => return self.now + failover.beat_interval(),
            _ => self.settings.timings.poll,
        };
        let extra =
            if mutant!(RarePolls) { 4 * self.settings.timings.lease } else { Duration::ZERO };
        let next = self.now + jitter(poll, chance) + extra;
        let resumes_at = Some(self.ineligible_until()).filter(|resumes_at| self.now < *resumes_at);
        resumes_at.filter(|_| self.failover().is_some()).map_or(next, |back| next.min(back))
    }

    /// After a race that another candidate won, which may beat.
    pub fn next_after_race(&self, chance: &mut dyn Chance) -> Moment {
        let next = self.next_try(chance);
        self.failover().map_or(next, |f| next.min(self.now + f.beat_interval()))
    }

    /// When a follower polls again.
    pub fn next_poll(&mut self, chance: &mut dyn Chance) -> Moment {
        let (next, slow) = (self.next_try(chance), self.was_slow());
        self.state.follower.next_poll(next, slow, self.settings, self.now)
    }

    /// Whether the newest request took long: see [`Follower::next_poll`].
    pub fn was_slow(&self) -> bool {
        self.effects.exchanges.last().is_some_and(|exchange| exchange.took > QUICK_POLL)
    }

    /// Reports a problem, if there is one and it was not reported lately.
    pub fn report(&mut self, problem: Option<Problem>) {
        let (state, now) = (&mut self.state, self.now);
        self.effects.problems.extend(problem.filter(|p| state.reported.is_new(p, now)));
    }

    /// As [`Context::report`].
    pub fn report_problem(&mut self, class: ProblemClass, detail: String) {
        self.report(Some(Problem { class, detail }));
    }

    /// Reports what came of an order. Each order has its answer, also when the last one had the same.
    pub fn report_order(&mut self, class: ProblemClass, detail: String) {
        self.effects.problems.push(Problem { class, detail });
    }

    /// Reports that a request was not answered, or not as hoped.
    pub fn report_failure(&mut self, completed: &CompletedRequest<'_>) {
        let CompletedRequest { operation, reply, .. } = *completed;
        let problem = match reply {
            Err(failure) => failure.to_problem(operation.name(), self.settings.account.origin()),
            Ok(answer) => Problem::from_answer(answer, operation, self.settings),
        };
        self.report(Some(problem));
    }
}
