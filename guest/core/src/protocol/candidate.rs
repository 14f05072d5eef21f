//! One step of a candidate: its phase, the requests of that phase, and the effects of each answer.
//!
//! Each phase is a module with two functions. `next` returns the request to send now; `on_answer`
//! handles the answer. Both take the phase by value with its [`Context`], and return the phase that
//! follows. In the order of the specification:
//!
//! | phase | module | sections |
//! |---|---|---|
//! | watching | `watching` | §4.1 |
//! | acquiring | `acquiring` | §4.2 |
//! | raising | `raising` | §4.3, §4.4 |
//! | holding | `holding`, `handing_over` | §5, §6, §7.2 |
//! | stopping, releasing | `releasing` | §7.1 |
//!
//! Events from the host change the phase too (`events`). When a phase has nothing to send, there
//! may be time for a request in the `background`. `wake` computes when the next step is due.

use super::context::{
    BackgroundRequest, CompletedRequest, Context, Effects, Extension, State, StepAction,
    UnsignedRequest,
};
use super::follower::Pulse;
use super::handing_over::{is_winding_down, wind_down_limit};
use super::one_turn::StepProgress;
use super::phase::{Phase, Watch};
use super::releasing::{self, LastWill};
use super::{acquiring, holding, raising, watching};
use crate::Moment;
use crate::mutants::{memory, mutant};
use crate::schedule::turns::Turns;
use crate::side::background;
use crate::side::listing::Listing;
use crate::step::clocks::{StepStart, Timestamp};
use crate::step::credential_state::{CredentialState, TokenReply};
use crate::step::events;
use crate::step::options::{Complaint, SecretFile};
use crate::step::pace::Chance;
use crate::step::problem::{Failure, ProblemClass};
use crate::step::report::{
    self, Event, Exchange, ExchangeResult, Leadership, Postponed, Report, Role,
};
use crate::step::settings::Settings;
use crate::step::wake::{self, MAX_REQUESTS};
use chrono::{DateTime, TimeDelta, Utc};
use tenure_azure::answer::{Answer, Class};
use tenure_azure::operation::Operation;
use tenure_base::prelude::*;

/// The version of the state. Bytes of another version count as no state.
const VERSION: u8 = 1;

/// Clock skew beyond which a refused signature is attributed to the clock.
const SKEW: TimeDelta = TimeDelta::minutes(5);

/// One call from the host.
#[derive(Clone, Debug)]
pub struct Step<'s> {
    phase: Phase,
    context: Context<'s>,
    /// The operation of the request that is not answered yet.
    pending: Option<Operation>,
}

impl<'s> Step<'s> {
    /// Starts a step. Without readable state, it is the first step of a new candidate.
    pub fn new(
        settings: &'s Settings,
        state: Option<&[u8]>,
        start: impl Into<StepStart>,
        event: Option<Event>,
        chance: &mut dyn Chance,
    ) -> Self {
        // `clock_lead` is the time by which the host's clock may run ahead: protocol.md §2.
        let StepStart { at: elapsed, clock_lead } = start.into();
        let Postponed { events, state } = state.map(Postponed::from_bytes).unwrap_or_default();
        let (mut phase, mut state) = decode_state(&state).unwrap_or_else(|| {
            let nonce = chance.bits();
            let listing = Listing::new(settings, elapsed, nonce);
            let state = State { nonce, listing, ..State::default() };
            (Phase::Watching(Watch::at(elapsed)), state)
        });
        // `file` is the secret file. If it differs, it has new content.
        if state.file != settings.file {
            state.file = settings.file.clone();
            state.credential_state.on_replaced();
            background::on_credential_changed(&mut phase, elapsed);
        }
        let (started, now, effects) = (elapsed, elapsed, Effects::default());
        let mut context = Context { settings, state, started, now, clock_lead, effects };
        for event in events.into_iter().chain(event) {
            phase = events::apply(event, phase, &mut context, chance);
        }
        let is_working = context.state.turn.is_some() && !mutant!(ReleaseBeforeStop);
        if let (Phase::Stopping { lease }, false) = (&phase, is_working) {
            phase = releasing::on_work_stopped(*lease, &context);
        }
        Self { phase, context, pending: None }
    }

    /// Returns this step with the credential state that earlier requests left. A serverless
    /// invocation reads the election before its first step, so that step does not fetch the token
    /// again.
    #[must_use]
    pub fn with_credential_state(mut self, credential_state: CredentialState) -> Self {
        self.context.state.credential_state = credential_state;
        self
    }

    /// Reports complaints about the current settings. The last valid settings stay in use.
    pub fn report_complaints(&mut self, complaints: &[Complaint], now: Moment) {
        self.context.now = now;
        if !complaints.is_empty() {
            let detail = format!(
                "{}. The former settings stay in use until this is corrected",
                Complaint::join_all(complaints)
            );
            self.context.report_problem(ProblemClass::Configuration, detail);
        }
    }

    /// Returns the action to take at `now`.
    pub fn next(&mut self, now: Moment) -> StepAction {
        self.context.now = now;
        let Effects { requests_sent, extension, .. } = self.context.effects;
        let may_send = requests_sent < MAX_REQUESTS
            && extension.is_none()
            && !wake::yields_to_host(&self.phase, &self.context);
        match if may_send { self.next_request() } else { None } {
            Some(action) => {
                self.context.effects.requests_sent += 1;
                if let StepAction::Send(request) = &action {
                    self.pending = Some(request.operation.clone());
                }
                action
            }
            None => {
                self.send_background();
                StepAction::Done(Box::new(self.report()))
            }
        }
    }

    /// With failover, starts a background request if none is in flight. The request runs in
    /// parallel with the steps, so it delays nothing.
    fn send_background(&mut self) {
        let (phase, context) = (&self.phase, &mut self.context);
        if context.settings.timings.failover.is_some() {
            let credential = context.settings.account.credential();
            let auth = context.state.credential_state.auth_source(credential, context.now);
            background::start_background(phase, auth.as_ref(), context);
        }
    }

    /// Returns the next request: the request of the phase, the request for the token that this one
    /// needs, or a background request.
    fn next_request(&mut self) -> Option<StepAction> {
        let outgoing = self.next_phase_request();
        let (phase, context) = (&self.phase, &self.context);
        let credential = context.settings.account.credential();
        let auth = context.state.credential_state.auth_source(credential, context.now);
        match (outgoing, auth) {
            (Some(outgoing), Some(auth)) => Some(outgoing.sign(auth)),
            // With failover, `send_background` sends the other requests.
            _ if context.settings.timings.failover.is_some() => None,
            (Some(_), None) => background::missing_token(phase, context),
            // A turn that was just claimed has to start first.
            (None, _) if context.effects.turn_to_start.is_some() => None,
            (None, auth) => background::next_request(
                phase,
                wake::spare_time(phase, context),
                auth.as_ref(),
                context,
            ),
        }
    }

    fn next_phase_request(&mut self) -> Option<UnsignedRequest> {
        let context = &mut self.context;
        let (phase, outgoing) = match core::mem::replace(&mut self.phase, Phase::Left) {
            Phase::Watching(watch) => watching::next(watch, context),
            Phase::Acquiring(attempt) => acquiring::next(attempt, context),
            Phase::Raising(raise) => raising::next(raise, context),
            Phase::Holding(hold) => holding::next(hold, context),
            Phase::Releasing(release) => releasing::next(release, context),
            phase @ (Phase::Stopping { .. } | Phase::Left) => (phase, None),
        };
        self.phase = phase;
        outgoing
    }

    /// Returns the date to sign requests with: the service's time once it is known, before that
    /// `wall`, the time of this machine. So a wrong clock of this machine does no harm.
    pub fn date(&self, now: Moment, wall: DateTime<Utc>) -> DateTime<Utc> {
        // For a seeded bug. This does nothing in a release.
        memory::record_clock(self.context.state.nonce, now, wall);
        self.context
            .state
            .service
            .estimate(self.context.without_clock_lead(now))
            .map_or(wall, Timestamp::to_date)
    }

    /// Handles the answer to the request of [`Step::next`]. `sent` was read before it was sent;
    /// `now` and `wall` after it was answered.
    pub fn on_answer(
        &mut self,
        sent: Moment,
        now: Moment,
        wall: DateTime<Utc>,
        reply: Result<Answer, Failure>,
        chance: &mut dyn Chance,
    ) {
        let Some(operation) = self.pending.take() else { return };
        let context = &mut self.context;
        context.now = now;
        let (kind, took) = (operation.kind(), now.saturating_sub(sent));
        let mut completed =
            CompletedRequest { operation: &operation, reply: &reply, sent_at: sent, chance };
        let result =
            completed.class().map_or(ExchangeResult::Unanswered, ExchangeResult::from_class);
        context.effects.exchanges.push(Exchange { what: kind, result, took });
        if let Operation::ReadSideBlob(blob) | Operation::WriteSideBlob { blob, .. } = operation {
            // Only answers about the election's blob or container update the service clock:
            // protocol.md §8.
            return background::on_side_blob_answer(blob, &mut completed, &mut self.phase, context);
        }
        if update_clock_and_credential(&completed, wall, context) {
            return background::on_credential_changed(&mut self.phase, now);
        }
        context.check_versioning(&completed);
        self.phase = match core::mem::replace(&mut self.phase, Phase::Left) {
            Phase::Watching(watch) => watching::on_answer(watch, completed, context),
            Phase::Acquiring(attempt) => acquiring::on_answer(attempt, completed, context),
            Phase::Raising(raise) => raising::on_answer(raise, completed, context),
            Phase::Holding(hold) => holding::on_answer(hold, completed, context),
            Phase::Releasing(release) => releasing::on_answer(release, completed, context),
            phase @ (Phase::Stopping { .. } | Phase::Left) => phase,
        };
    }

    /// Handles the answer to a token request. `sent` was read before it was sent; `now` and `wall`
    /// after it was answered.
    pub fn on_token_reply(
        &mut self,
        sent: Moment,
        now: Moment,
        wall: DateTime<Utc>,
        reply: TokenReply,
        chance: &mut dyn Chance,
    ) {
        self.context.now = now;
        let date = self.date(now, wall);
        background::on_token_reply(sent, reply, date, (&mut self.phase, &mut self.context), chance);
    }

    /// Takes the request to send in the background. Its answer is an event of a later step.
    pub fn take_background(&mut self) -> Option<BackgroundRequest> {
        self.context.effects.background.take()
    }

    /// Returns the progress at the end of the step, for an invocation that is one whole turn.
    pub fn progress(&self) -> StepProgress {
        match &self.phase {
            Phase::Watching(_) => StepProgress::Watching,
            Phase::Holding(hold) => holding::progress(hold, &self.context),
            Phase::Left => {
                StepProgress::Left { outcome_recorded: self.context.effects.outcome_recorded }
            }
            _ => StepProgress::UnderWay,
        }
    }

    /// Returns the last will of a leader if its leadership began or its lease was renewed in this
    /// step. Call this function after the step has reported. protocol.md §7.3.
    pub fn last_will(&self, now: Moment, wall: DateTime<Utc>) -> Option<LastWill> {
        let (Phase::Holding(hold), context) = (&self.phase, &self.context) else { return None };
        matches!(context.effects.extension, Some(Extension::Term | Extension::Renewal))
            .then_some(())?;
        LastWill::for_leader(hold, self.date(now, wall), now, context)
    }

    fn report(&mut self) -> Report {
        let (phase, context) = (&self.phase, &mut self.context);
        let started = context.started;
        if let Phase::Holding(hold) = phase {
            holding::report_slot_ahead(hold, context);
            if let Some(turn) = &mut context.effects.turn_to_start {
                // The lease may have been renewed since the claim.
                turn.valid_for = hold.valid_until.saturating_sub(started);
                context.state.claims.set_started(turn, true);
            }
        }
        let again_in = wake::wake_up(phase, context).saturating_sub(started);
        let role = match phase {
            Phase::Holding(hold) => Role::Leading(Leadership {
                term: hold.record.term,
                valid_for: hold.valid_until.saturating_sub(started),
            }),
            Phase::Left => Role::Left,
            _ => match &context.state.follower.following {
                Some(incumbent) => Role::Following(incumbent.clone()),
                None => Role::Undecided,
            },
        };
        Report {
            state: report::encode_state(VERSION, &(phase, &context.state)).into(),
            role,
            wins_within: match phase {
                Phase::Raising(raise) => Some(raise.valid_until.saturating_sub(started)),
                _ => None,
            },
            ending: context.effects.ending,
            renewed: context.effects.extension == Some(Extension::Renewal),
            // The driver signs these two after the report is complete.
            last_will: None,
            background: None,
            wind_down: is_winding_down(phase.hold(), context),
            wind_down_limit: wind_down_limit(context)
                .filter(|_| is_winding_down(phase.hold(), context)),
            successor: context.state.steering.hand_over().map(|order| order.successor_name.clone()),
            promise: match phase {
                Phase::Holding(hold) => hold.record.beat.map(|beat| beat.promise),
                _ => context.state.follower.pulse.as_ref().map(Pulse::promise),
            },
            turns: match (phase, context.service_time()) {
                (Phase::Holding(hold), Some(now)) if context.effects.turns_changed => {
                    let is_running = context.state.turn.is_some();
                    let agenda = &context.settings.agenda;
                    Some(Turns::from_record(&hold.record, is_running, now, agenda))
                }
                _ => context.effects.turns.take(),
            },
            candidates: context
                .effects
                .listing_changed
                .then(|| context.state.listing.known.clone()),
            run: context.effects.turn_to_start.take(),
            problems: core::mem::take(&mut context.effects.problems),
            exchanges: core::mem::take(&mut context.effects.exchanges),
            service_time: context.service_estimate().map(|time| time.minus(context.now - started)),
            again_in,
        }
    }
}

/// Updates the service clock and the credential from an answer. Returns true if the same request
/// should be sent again, because the answer is about its signature.
fn update_clock_and_credential(
    completed: &CompletedRequest<'_>,
    wall: DateTime<Utc>,
    context: &mut Context<'_>,
) -> bool {
    let now = context.now;
    let Some(answer) = completed.answer() else { return false };
    let is_signed_by_wall = context.service_estimate().is_none();
    if let Some(date) = answer.date {
        context.state.service.learn(date, context.without_clock_lead(now));
    }
    // The repeated request is signed with the service's time.
    if is_signed_by_wall && report_clock_skew(answer, wall, context) {
        return true;
    }
    context.on_credential_answer(answer)
}

/// Reports a wrong clock of this machine if that explains the refusal. Returns true if it does.
fn report_clock_skew(answer: &Answer, wall: DateTime<Utc>, context: &mut Context<'_>) -> bool {
    let Answer { class: Class::Refused, status: 403, date: Some(date), .. } = answer else {
        return false;
    };
    let skew = wall.signed_duration_since(date);
    if skew.abs() <= SKEW {
        return false;
    }
    let direction = if skew > TimeDelta::zero() { "ahead of" } else { "behind" };
    let minutes = skew.abs().num_minutes();
    let detail = format!(
        "this machine's clock is {minutes} min {direction} the storage service's; \
         requests are signed with the service's time. Set the clock by NTP"
    );
    context.report_problem(ProblemClass::Clock, detail);
    true
}

/// Returns the last valid content of the secret files from the bytes of a state.
pub(crate) fn stored_secret_file(state: &[u8]) -> Option<SecretFile> {
    decode_state(&Postponed::from_bytes(state).state).and_then(|(_, state)| state.file)
}

/// Returns true if these bytes are the state of a candidate.
pub(crate) fn is_state(state: &[u8]) -> bool {
    decode_state(state).is_some()
}

fn decode_state(state: &[u8]) -> Option<(Phase, State)> {
    match state.split_first() {
        Some((&VERSION, state)) => report::decode_state(state),
        _ => None,
    }
}
