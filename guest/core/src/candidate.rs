//! One step of a candidate. Each phase cites its section of the specification.
//!
//! This file holds the state of a candidate, and passes requests and answers to the part that knows what
//! they mean: `winning` until the term is raised, `holding` from then on until the work is to stop,
//! `releasing` until the lease is given back. What is sent in spare time is in `background`. What the
//! host hears of a step is in `reporting`.

mod reporting;

use core::time::Duration;

use super::Moment;
use super::chance::Chance;
use super::credential_state::{CredentialState, Fetch};
use super::damping::Handed;
use super::environment::Files;
use super::failure::Failure;
use super::health::Health;
use super::history::Incumbent;
use super::holding::Hold;
use super::next_record::Began;
use super::one_turn::Prospect;
use super::problem::{Problem, ProblemClass, Reported};
use super::record::Outcome;
use super::releasing::Release;
use super::report::{Ending, EndingReason, Event, Exchange, ExchangeResult, Report, Turn};
use super::service_clock::{ServiceClock, Timestamp};
use super::settings::Settings;
use super::side_request::SideRequest;
use super::steering::Steering;
use super::successor::Successor;
use super::timings::BACK_OFF;
use super::winning::{Attempt, Raise, Watch};
use crate::mutants::mutant;
use crate::state::{self, Postponed};
use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};
use tenure_azure::answer::{Answer, Class};
use tenure_azure::credential::Pass;
use tenure_azure::lease_id::LeaseId;
use tenure_azure::operation::{ETag, Operation, Request};
use tenure_base::prelude::*;

/// The version of the state; bytes of another one count as none.
const VERSION: u8 = 13;

/// No step sends more than this many requests before the host gets its turn.
const MOST_REQUESTS: u32 = 16;

/// A candidate that holds no lease sends nothing more in a step that has lasted so long: the host may have
/// an event for it, such as the order to leave, and brings it with the next step.
const UNINTERRUPTED: Duration = Duration::from_secs(1);

/// A clock that is further off than this explains a refused signature.
const SKEW: TimeDelta = TimeDelta::minutes(5);

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
    /// Send this, and tell [`Step::answered`].
    Send(Ask),
    /// Ask for a token with this, and tell [`Step::fetched`].
    Fetch(Fetch),
    /// Nothing more is due: the result.
    Rest(Box<Report>),
}

/// All that a candidate remembers between two steps.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct State {
    /// Tells this incarnation from others of the same name.
    pub nonce: u64,
    pub service: ServiceClock,
    pub phase: Phase,
    /// Handed to the host and not yet seen stopped.
    pub turn: Option<Turn>,
    /// The leader that was seen last; the inner none is a leader without a record.
    pub following: Option<Option<Incumbent>>,
    pub leaving: bool,
    pub health: Health,
    pub steering: Steering,
    /// A follower that the leader named as its successor.
    pub successor: Option<Successor>,
    /// The tag of its announcement, where the write was answered.
    pub announced: Option<ETag>,
    /// A follower of higher priority does not announce itself before.
    pub wish: Moment,
    pub reported: Reported,
    pub credential_state: CredentialState,
    /// A follower does not leave its notice before.
    pub leave_notice: Moment,
    /// What the files of the settings said when they were last good.
    pub files: Files,
    /// The newest turns that were put forward, and whether the host was given them.
    pub began: Began,
    /// To whom this candidate gave its lease last.
    pub handed: Handed,
    /// The request about a side blob that is due.
    pub side_request: SideRequest,
}

/// Where a candidate stands in the protocol.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(
    clippy::large_enum_variant,
    reason = "there is one, for the length of a step; smaller on wasm"
)]
pub(super) enum Phase {
    /// Winning 1: polling.
    Watching(Watch),
    /// Winning 1: making the blob.
    Creating { container: bool, watch: Watch },
    /// Winning 2: acquiring.
    Acquiring(Attempt),
    /// Winning 3: raising the term.
    Raising(Raise),
    /// Winning 4, Holding: leading.
    Holding(Hold),
    /// Losing: the host was told; the work is not yet seen stopped.
    Stopping { lease: Option<LeaseId> },
    /// Leaving, or losing a lease that is still ours.
    Releasing(Release),
    /// Nothing more to do.
    Left,
}

/// One call from the host.
#[derive(Clone, Debug)]
pub struct Step<'s> {
    pub(super) settings: &'s Settings,
    pub(super) state: State,
    /// `elapsed` of the call.
    pub(super) started: Moment,
    pub(super) ending: Option<Ending>,
    pub(super) renewed: bool,
    pub(super) run: Option<Turn>,
    /// The outcome of the last turn was put on record before the release.
    pub(super) recorded: bool,
    problems: Vec<Problem>,
    pub(super) exchanges: Vec<Exchange>,
    asked: Option<Operation>,
    requests: u32,
    /// The host is to hear at once of a leadership, or of more time for it.
    pub(super) report_now: bool,
}

impl<'s> Step<'s> {
    /// Begins a step at `elapsed`. Without state that can be read, it is the first of a
    /// new candidate.
    pub fn begin(
        settings: &'s Settings,
        state: Option<&[u8]>,
        elapsed: Moment,
        event: Option<Event>,
        chance: &mut dyn Chance,
    ) -> Self {
        let Postponed { events, state } = state.map(Postponed::read).unwrap_or_default();
        let mut step = Self {
            settings,
            state: recall(&state).unwrap_or_else(|| State {
                nonce: chance.bits(),
                service: ServiceClock::default(),
                phase: Phase::Watching(Watch::at(elapsed)),
                turn: None,
                following: None,
                leaving: false,
                health: Health::default(),
                steering: Steering::new(elapsed + settings.warm_up),
                successor: None,
                announced: None,
                wish: Moment::ZERO,
                reported: Reported::default(),
                credential_state: CredentialState::default(),
                leave_notice: Moment::ZERO,
                files: Files::default(),
                began: Began::default(),
                handed: Handed::default(),
                side_request: SideRequest::None,
            }),
            started: elapsed,
            ending: None,
            renewed: false,
            run: None,
            recorded: false,
            problems: Vec::new(),
            exchanges: Vec::new(),
            asked: None,
            requests: 0,
            report_now: false,
        };
        step.state.files = settings.files.clone();
        for event in events.into_iter().chain(event) {
            step.drop_side_request(elapsed);
            step.take(event, elapsed, chance);
        }
        let running = step.state.turn.as_ref().filter(|_| !mutant!(ReleaseBeforeStop));
        if let (Phase::Stopping { lease }, None) = (&step.state.phase, running) {
            // Stopped, seen stopped; now release.
            let at_once = lease.is_some() && !step.state.health.is_out(elapsed);
            let pause = if at_once { Duration::ZERO } else { settings.timings.poll / 2 };
            step.state.phase = step.release(*lease, elapsed, elapsed + pause);
        }
        step
    }

    /// Takes what happened since the last step.
    fn take(&mut self, event: Event, now: Moment, chance: &mut dyn Chance) {
        match event {
            Event::TurnEnded(outcome) => self.turn_ended(outcome, now, chance),
            Event::Leave(outcome) => self.leave(outcome, now),
            Event::LeaveLate(outcome) => self.leave_late(outcome, now),
            Event::ResetSlot => self.reset_slot(now),
            Event::Resign => self.resign(),
            Event::HandOver(to) => self.hand_over(to, now),
            Event::Pause => self.pause(),
            Event::Resume => self.resume(),
        }
    }

    /// What to do at `now`.
    pub fn next(&mut self, now: Moment) -> Todo {
        let free = self.requests < MOST_REQUESTS && !self.report_now;
        let request = if free { self.request(now) } else { None };
        match request {
            Some(request) => {
                self.requests += 1;
                request
            }
            None => Todo::Rest(Box::new(self.report(now))),
        }
    }

    /// What the phase has to send, after the token that it needs; otherwise a background request.
    fn request(&mut self, now: Moment) -> Option<Todo> {
        if self.yields(now) {
            return None;
        }
        let wish = self.wish(now);
        let pass = self.state.credential_state.pass(self.settings.account.credential(), now);
        match (wish, pass) {
            (Some(wish), Some(pass)) => Some(self.send(wish, pass)),
            (Some(_), None) => self.missing_token(now).map(Todo::Fetch),
            (None, pass) => self.background_request(pass, now),
        }
    }

    /// Whether the host comes first before this candidate goes on.
    pub(super) fn yields(&self, now: Moment) -> bool {
        let holds_nothing = match &self.state.phase {
            Phase::Watching(_) | Phase::Creating { .. } => true,
            Phase::Acquiring(attempt) => !attempt.unsure,
            _ => false,
        };
        holds_nothing && self.requests > 0 && now >= self.started + UNINTERRUPTED
    }

    pub(super) fn send(&mut self, wish: Wish, pass: Pass) -> Todo {
        let Wish { operation, timeout } = wish;
        self.asked = Some(operation.clone());
        Todo::Send(Ask { operation, timeout, pass })
    }

    /// What the phase has to send.
    fn wish(&mut self, now: Moment) -> Option<Wish> {
        match self.state.phase {
            Phase::Watching(_) | Phase::Creating { .. } => self.poll(now),
            Phase::Acquiring(_) => self.acquire(now),
            Phase::Raising(_) => self.raise(now),
            Phase::Holding(_) => self.hold(now),
            Phase::Releasing(_) => self.send_release(now),
            Phase::Stopping { .. } | Phase::Left => None,
        }
    }

    /// The time to sign with: the service's own, once it is known, so that a wrong
    /// clock of this machine (`wall`) does no harm.
    pub fn date(&self, now: Moment, wall: DateTime<Utc>) -> DateTime<Utc> {
        #[cfg(feature = "mutants")]
        crate::mutants::local::note(self.state.nonce, now, wall);
        self.state.service.estimate(now).map_or(wall, Timestamp::to_date)
    }

    /// Takes the answer to the request that [`Step::next`] asked for. `sent` was read before
    /// it was sent; `now` and `wall` after it was answered.
    pub fn answered(
        &mut self,
        sent: Moment,
        now: Moment,
        wall: DateTime<Utc>,
        reply: Result<Answer, Failure>,
        chance: &mut dyn Chance,
    ) {
        let Some(operation) = self.asked.take() else { return };
        let result = reply
            .as_ref()
            .map_or(ExchangeResult::Unanswered, |answer| ExchangeResult::of(answer.class));
        let took = now.saturating_sub(sent);
        self.exchanges.push(Exchange { what: operation.name(), result, took });
        if let Operation::ReadSideBlob(blob) | Operation::WriteSideBlob { blob, .. } = operation {
            // Not even the service's time is learnt from it.
            return self.side_blob_answered(blob, &reply, (sent, now));
        }
        let signed_by_wall = self.state.service.estimate(now).is_none();
        if let Ok(Answer { date: Some(date), .. }) = &reply {
            self.state.service.learn(*date, now);
        }
        if signed_by_wall && self.skew_explains(&reply, wall, now) {
            return; // The same request again, signed with the service's time.
        }
        let credential = self.settings.account.credential();
        let other = reply
            .as_ref()
            .ok()
            .and_then(|answer| self.state.credential_state.answered(credential, answer, now));
        if let Some(problem) = other {
            self.report_problem(problem.class, problem.detail, now);
            self.asked = None;
            return; // The same request again, with another key or token.
        }
        let (phase, answer) = (core::mem::replace(&mut self.state.phase, Phase::Left), &reply);
        self.state.phase = match phase {
            Phase::Watching(watch) => self.polled(watch, &operation, answer, now, chance),
            Phase::Creating { container, watch } => {
                self.created(container, watch, &operation, answer, now, chance)
            }
            Phase::Acquiring(attempt) => {
                self.acquired(attempt, &operation, answer, (sent, now), chance)
            }
            Phase::Raising(raise) => self.raised(raise, &operation, answer, now, chance),
            Phase::Holding(hold) => self.held(hold, &operation, answer, (sent, now), chance),
            Phase::Releasing(release) => self.released(release, &operation, answer, now, chance),
            phase @ (Phase::Stopping { .. } | Phase::Left) => phase,
        };
    }

    fn skew_explains(
        &mut self,
        reply: &Result<Answer, Failure>,
        wall: DateTime<Utc>,
        now: Moment,
    ) -> bool {
        let Ok(Answer { class: Class::Refused, status: 403, date: Some(date), .. }) = reply else {
            return false;
        };
        let skew = wall.signed_duration_since(date);
        if skew.abs() <= SKEW {
            return false;
        }
        let side = if skew > TimeDelta::zero() { "ahead of" } else { "behind" };
        let minutes = skew.abs().num_minutes();
        let detail = format!(
            "this machine's clock is {minutes} min {side} the storage service's; its time is used \
             for signing now. Set the clock right (NTP): other programs fail by it"
        );
        self.report_problem(ProblemClass::Clock, detail, now);
        true
    }

    /// How far the candidate is, for an invocation that is one whole turn.
    pub fn prospect(&self, now: Moment) -> Prospect {
        match &self.state.phase {
            Phase::Watching(_) | Phase::Creating { .. } => Prospect::Watching,
            Phase::Holding(hold) => self.prospect_of_leader(hold, now),
            Phase::Left => Prospect::Left { recorded: self.recorded },
            _ => Prospect::UnderWay,
        }
    }

    /// The turn that was handed to the host and is over, so far as is known how.
    fn ended_turn(&mut self, outcome: Option<Outcome>, now: Moment) -> Option<Turn> {
        let turn = self.state.turn.take()?;
        if outcome == Some(Outcome::NotStarted) {
            self.state.began.note(&turn, false);
        }
        if let (Some(outcome), Phase::Holding(hold)) = (outcome, &mut self.state.phase) {
            hold.turn_ended(&turn, outcome, now);
        }
        Some(turn)
    }

    fn turn_ended(&mut self, outcome: Outcome, now: Moment, chance: &mut dyn Chance) {
        let Some(turn) = self.ended_turn(Some(outcome), now) else { return };
        let policy = &self.settings.failure_policy;
        let out = self.state.health.turn_ended(outcome, policy, now, chance);
        let Some(span) = out else {
            // What was to last as long as the leadership came to its end.
            let last = self.settings.agenda.is_one_turn_a_term() && turn.value.is_none();
            if last && self.state.steering.hand_over().is_none() {
                self.resign();
            }
            return;
        };
        self.report_problem(
            ProblemClass::Work,
            self.state.health.explain(&turn, outcome, span),
            now,
        );
        self.step_down(EndingReason::WorkFailed, now, now + self.settings.timings.poll / 2, None);
    }

    pub(super) fn leave(&mut self, outcome: Option<Outcome>, now: Moment) {
        self.state.leaving = true;
        self.ended_turn(outcome, now);
        let lease = match &self.state.phase {
            Phase::Holding(_) => return self.step_down(EndingReason::Left, now, now, None),
            Phase::Acquiring(attempt) => {
                (attempt.unsure && !mutant!(UnsureAcquireForgotten)).then_some(attempt.lease)
            }
            Phase::Raising(raise) => Some(raise.lease),
            Phase::Stopping { lease } => *lease,
            Phase::Releasing(_) => return,
            Phase::Watching(_) | Phase::Creating { .. } | Phase::Left => None,
        };
        self.state.following = None;
        self.state.phase = match lease {
            Some(lease) => self.release(Some(lease), now, now),
            None => self.leave_as_follower(now),
        };
    }

    /// Between two tries of a follower, or after one of its requests failed.
    pub(super) fn next_try(&self, now: Moment, chance: &mut dyn Chance) -> Moment {
        let rarely =
            if mutant!(RarePolls) { 4 * self.settings.timings.lease } else { Duration::ZERO };
        now + super::chance::jittered(self.settings.timings.poll, chance) + rarely
    }
}

/// What a phase has to send.
pub(super) struct Wish {
    pub operation: Operation,
    pub timeout: Duration,
}

/// The longest wait of a follower between two tries of one request.
pub(super) fn patience(settings: &Settings) -> Duration {
    settings.timings.poll.max(BACK_OFF)
}

fn remember(state: &State) -> Vec<u8> {
    state::written(VERSION, state)
}

/// What the files said when they were last good.
pub(super) fn files_of(state: &[u8]) -> Option<Files> {
    recall(&Postponed::read(state).state).map(|state| state.files)
}

/// Whether these bytes are the state of a candidate.
pub(super) fn recalls(state: &[u8]) -> bool {
    recall(state).is_some()
}

fn recall(state: &[u8]) -> Option<State> {
    match state.split_first() {
        Some((&VERSION, state)) => state::read(state),
        _ => None,
    }
}
