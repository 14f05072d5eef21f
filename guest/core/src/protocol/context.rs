//! Context for the rules of every phase: the settings, the current instant, the state that is
//! independent of the phase, and the effects of the step.

use core::time::Duration;

use super::follower::{Follower, Hints};
use super::health::Health;
use super::steering::Steering;
use crate::Moment;
use crate::mutants::mutant;
use crate::record::next_record::ProposedClaims;
use crate::schedule::turns::Turns;
use crate::side::announcement::QUICK_POLL;
use crate::side::listing::Listing;
use crate::step::clocks::{ServiceClock, Timestamp};
use crate::step::credential_state::{CredentialState, TokenRequest};
use crate::step::options::{Complaint, SecretFile, SettingId};
use crate::step::pace::{Chance, Failover, jitter};
use crate::step::problem::{Failure, Problem, ProblemClass, RecentProblems};
use crate::step::report::{Ending, Exchange, Report, Turn};
use crate::step::settings::Settings;
use crate::step::variable;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use tenure_azure::answer::{Answer, Class};
use tenure_azure::blob::SideBlob;
use tenure_azure::credential::AuthSource;
use tenure_azure::operation::Operation;
use tenure_azure::request::Request;
use tenure_base::duration::format_duration;
use tenure_base::prelude::*;

/// The state that a candidate keeps between two steps, apart from its phase.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct State {
    /// Random number that distinguishes this candidate from others with the same name.
    pub nonce: u64,
    pub service: ServiceClock,
    /// The turn that the host runs, until it reports the end.
    pub turn: Option<Turn>,
    /// Start time of that turn.
    pub turn_started: Moment,
    pub is_leaving: bool,
    pub health: Health,
    pub steering: Steering,
    pub follower: Follower,
    pub hints: Hints,
    pub listing: Listing,
    pub reported: RecentProblems,
    pub credential_state: CredentialState,
    /// The last valid content of the secret files that the settings name.
    pub file: Option<SecretFile>,
    /// The newest claims, and whether the host received their turns.
    pub claims: ProposedClaims,
    /// True if the account has blob versioning. Each beat would add a version, so this candidate
    /// does not beat.
    pub keeps_versions: bool,
    /// The background request in flight.
    pub background: Option<InFlight>,
}

/// Effects of a step so far, apart from changes of the phase.
#[derive(Clone, Debug, Default)]
pub(crate) struct Effects {
    pub ending: Option<Ending>,
    /// The cause of an extension of the validity in this step. The step sends nothing more then, so
    /// that the host learns of the extension at once.
    pub extension: Option<Extension>,
    pub turn_to_start: Option<Turn>,
    /// True if the outcome of the last turn was recorded before the lease was released.
    pub outcome_recorded: bool,
    pub problems: Vec<Problem>,
    pub exchanges: Vec<Exchange>,
    /// The request to send in the background.
    pub background: Option<BackgroundRequest>,
    /// Number of requests that were sent.
    pub requests_sent: u32,
    /// True if the status of a leader's turns changed.
    pub turns_changed: bool,
    /// Status of the leader's turns, as a follower read it.
    pub turns: Option<Turns>,
    /// True if the list of candidates may have changed.
    pub listing_changed: bool,
}

/// The cause of an extension of the time for which a candidate may act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extension {
    Term,
    Renewal,
    Beat,
}

/// The context of a phase.
#[derive(Clone, Debug)]
pub(crate) struct Context<'s> {
    pub settings: &'s Settings,
    pub state: State,
    /// The start of the step: its `elapsed`.
    pub started: Moment,
    /// The newest clock reading of the step.
    pub now: Moment,
    /// Maximum time by which the clock of `now` may run ahead.
    pub clock_lead: Duration,
    pub effects: Effects,
}

/// A request of a phase, not signed yet.
#[derive(Debug)]
pub(crate) struct UnsignedRequest {
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
    /// The operation on the service.
    pub operation: Operation,
    /// Time limit of the whole request.
    pub timeout: Duration,
    /// The means of authorisation.
    pub auth: AuthSource,
}

impl SignedRequest {
    /// Returns the HTTP request for the service.
    pub fn to_http(&self, settings: &Settings, date: DateTime<Utc>) -> Request {
        // The service takes its time-out in whole seconds.
        let seconds = u32::try_from(self.timeout.as_secs()).unwrap_or(u32::MAX).max(1);
        let account = &settings.account;
        let authorization = account.credential().authorization(&self.auth);
        self.operation.request(account, &settings.election, date, seconds, authorization)
    }
}

/// The next action of a step.
#[derive(Debug)]
pub enum StepAction {
    /// Send this, and pass the answer to [`Step::on_answer`](crate::Step::on_answer).
    Send(SignedRequest),
    /// Request a token with this, and pass the reply to
    /// [`Step::on_token_reply`](crate::Step::on_token_reply).
    Fetch(TokenRequest),
    /// The step is complete; this is its result.
    Done(Box<Report>),
}

/// A request that is sent in the background, in parallel with the steps.
#[derive(Clone, Debug)]
pub enum BackgroundRequest {
    /// A request to the Blob service.
    Send(SignedRequest),
    /// A request for a token.
    Fetch(TokenRequest),
}

impl BackgroundRequest {
    /// Returns a complaint if the settings require background requests and the host does not
    /// support them.
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

pub(crate) type Reply = Result<Answer, Failure>;

/// A completed request: it was answered or failed at [`Context::now`].
pub(crate) struct CompletedRequest<'a> {
    pub operation: &'a Operation,
    pub reply: &'a Reply,
    /// Clock reading from before the request was sent.
    pub sent_at: Moment,
    /// Randomness for retry jitter and lease ids.
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

    /// Returns true if the request may have been applied: see protocol.md §3.
    pub fn is_outcome_unknown(&self) -> bool {
        self.class().is_none_or(|class| matches!(class, Class::Unavailable | Class::Nonsense))
    }
}

impl Context<'_> {
    /// Subtracts the possible lead of the clock from `instant`, for actions that must not come too
    /// early.
    pub fn without_clock_lead(&self, instant: Moment) -> Moment {
        instant.saturating_sub(self.clock_lead)
    }

    /// Returns a lower bound of the service's time. `None` until two answers have agreed on it.
    pub fn service_time(&self) -> Option<Timestamp> {
        self.state.service.now(self.without_clock_lead(self.now))
    }

    /// Returns the failover periods. `None` without failover, or if this candidate may not beat.
    pub fn failover(&self) -> Option<Failover> {
        let may_beat = !self.state.keeps_versions || mutant!(BeatsOnVersionedAccount);
        self.settings.timings.failover.filter(|_| may_beat)
    }

    /// Returns true if a background request about a side blob is in flight.
    pub fn has_pending_side_blob_request(&self) -> bool {
        self.state.background.as_ref().is_some_and(|background| {
            background.kind != BackgroundKind::Token && self.now < background.until
        })
    }

    /// Updates the credential from an answer. Returns true if the same request is worth sending
    /// again at once, with another token.
    pub fn on_credential_answer(&mut self, answer: &Answer) -> bool {
        let credential = self.settings.account.credential();
        let problem = self.state.credential_state.on_answer(credential, answer, self.now);
        let is_replaced = problem.is_some();
        self.report(problem);
        is_replaced
    }

    /// Records whether the account keeps every version of a blob, and reports that failover has no
    /// effect then.
    pub fn check_versioning(&mut self, completed: &CompletedRequest<'_>) {
        let is_record_request = matches!(
            completed.operation,
            Operation::Read { .. } | Operation::WriteMetadata { .. } | Operation::CreateBlob
        );
        let done =
            completed.answer().filter(|answer| answer.class == Class::Done && is_record_request);
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

    /// Returns the most likely time of the service.
    pub fn service_estimate(&self) -> Option<Timestamp> {
        self.state.service.estimate(self.without_clock_lead(self.now))
    }

    /// Returns true if this candidate does not contend for the lease.
    pub fn is_ineligible(&self) -> bool {
        self.state.steering.is_unready
            || self.now < self.ineligible_until()
            || self.settings.observes
    }

    /// Returns the instant until which this candidate must not contend, because it resigned or
    /// failed.
    fn ineligible_until(&self) -> Moment {
        self.state.steering.ineligible_until.max(self.state.health.ineligible_until())
    }

    /// Returns the time of a follower's next request, also after a failed one. A follower with
    /// failover polls once per beat interval if the leader beats, or has no record yet. Otherwise
    /// it polls at the latest when it may contend again.
    pub fn next_follower_request(&self, chance: &mut dyn Chance) -> Moment {
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
        resumes_at.filter(|_| self.failover().is_some()).map_or(next, |at| next.min(at))
    }

    /// Returns the time of a follower's next request after another candidate acquired the lease
    /// first. That candidate may beat, so a follower with failover waits for one beat interval at
    /// most.
    pub fn next_after_race(&self, chance: &mut dyn Chance) -> Moment {
        let next = self.next_follower_request(chance);
        self.failover().map_or(next, |f| next.min(self.now + f.beat_interval()))
    }

    /// Returns the time of a follower's next poll.
    pub fn next_poll(&mut self, chance: &mut dyn Chance) -> Moment {
        let (next, was_slow) = (self.next_follower_request(chance), self.was_slow());
        self.state.follower.next_poll(next, was_slow, self.settings, self.now)
    }

    /// Returns true if the newest request was slow: see [`Follower::next_poll`].
    pub fn was_slow(&self) -> bool {
        self.effects.exchanges.last().is_some_and(|exchange| exchange.took > QUICK_POLL)
    }

    /// Reports a problem, unless it was reported recently.
    pub fn report(&mut self, problem: Option<Problem>) {
        let (state, now) = (&mut self.state, self.now);
        self.effects.problems.extend(problem.filter(|problem| state.reported.note(problem, now)));
    }

    /// Creates a problem and reports it as [`Context::report`] does.
    pub fn report_problem(&mut self, class: ProblemClass, detail: String) {
        self.report(Some(Problem { class, detail }));
    }

    /// Reports the outcome of an order. Each order gets its report, even if the previous one was
    /// the same.
    pub fn report_order(&mut self, class: ProblemClass, detail: String) {
        self.effects.problems.push(Problem { class, detail });
    }

    /// Reports that a request failed or got an unexpected answer.
    pub fn report_failure(&mut self, completed: &CompletedRequest<'_>) {
        let CompletedRequest { operation, reply, .. } = *completed;
        let problem = match reply {
            Err(failure) => failure.to_problem(operation.name(), self.settings.account.origin()),
            Ok(answer) => Problem::from_answer(answer, operation, self.settings),
        };
        self.report(Some(problem));
    }
}

/// A background request that is not answered yet.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct InFlight {
    pub kind: BackgroundKind,
    pub sent_at: Moment,
    /// [`CredentialState::replacements`](crate::CredentialState::replacements) at the time of
    /// signing.
    pub credential: u32,
    /// Instant after which no answer can arrive.
    pub until: Moment,
}

/// The kind of a background request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum BackgroundKind {
    Token,
    Reading(SideBlob),
    Writing(SideBlob),
}
