//! One whole turn in one invocation: read, acquire, claim, run, complete, release. protocol.md §10.
//!
//! Drives [`Step`](super::Step) for platforms that call a component on a timer and keep nothing of
//! it in between. No renewal goes on beside the turn, so the lease is as long as may be, and a turn
//! that outlasts it is reported as overrun. Everything else is as with a candidate that lives on.

use core::time::Duration;

use super::Moment;
use super::history::Incumbent;
use super::problem::Problem;
use super::record::{End, Outcome, Record};
use super::report::{Event, Report, Role, State, Turn, TurnResult};
use super::service_clock::Timestamp;
use super::settings::Settings;
use super::snapshot::{LeaseState, Inspection};
use tenure_base::prelude::*;

/// How long to contend without leading, and to lead without a turn to run.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long to try to give the lease back; then it runs out.
const RELEASE_TIME: Duration = Duration::from_secs(8);

/// A turn that is due so soon is waited for: the clock that calls may be a little fast, and
/// the next call may be a day away.
const SHORT_WAIT: Duration = Duration::from_secs(2);

/// Between two reads, when another candidate was faster.
const READ_AGAIN: Duration = Duration::from_millis(300);

/// How far a step brought the candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepProgress {
    /// It holds nothing, and nothing that it asked for can still be granted.
    Watching,
    /// Something is being won, claimed or given back.
    UnderWay,
    /// It leads, and no turn is due.
    Leading {
        /// What is on record.
        record: Box<Record>,
        /// The time of the service.
        time: Timestamp,
    },
    /// It has left.
    Left {
        /// The outcome of the turn was put on record.
        outcome_recorded: bool,
    },
}

/// What an invocation came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OneTurnOutcome {
    /// The turn ran and succeeded.
    Succeeded,
    /// The turn ran, and the handler returned an error.
    Failed,
    /// The turn ended after the time for which the leadership was certain.
    Overran,
    /// There was no turn to run.
    NothingDue,
    /// Another candidate leads.
    Followed,
    /// It did not come to lead in the time that it takes for that.
    Undecided,
    /// The service could not be asked, or the blob is not usable.
    Unanswered,
}

/// The result of an invocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OneTurnResult {
    /// What it came to.
    pub outcome: OneTurnOutcome,
    /// The term under which it led, if it did.
    pub term: Option<u64>,
    /// Who leads, when it followed.
    pub leader: Option<Incumbent>,
    /// The turn that was claimed.
    pub turn: Option<Turn>,
    /// The handler was called.
    pub handler_called: bool,
    /// What the handler complained of.
    pub error: Option<String>,
    /// Whether the outcome is on record, when there is one.
    pub outcome_recorded: Option<bool>,
    /// When the next turn is due; not later than now: at once.
    pub next: Option<Timestamp>,
    /// What went wrong on the way.
    pub problems: Vec<Problem>,
}

/// What an invocation does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OneTurnAction {
    /// Read the election, and tell [`OneTurn::read`].
    Read,
    /// Do a step with [`OneTurn::state`] and this event, and tell [`OneTurn::stepped`].
    Step(Option<Event>),
    /// Wait until then.
    Wait(Moment),
    /// Call the handler, and tell [`OneTurn::ran`].
    Run(Turn),
    /// It is over.
    Done(Box<OneTurnResult>),
}

/// An invocation.
#[derive(Debug)]
pub struct OneTurn<'s> {
    settings: &'s Settings,
    stage: Stage,
    /// Contending ends then.
    patient_until: Moment,
    /// It has waited for a turn once.
    has_waited: bool,
    state: Option<State>,
    /// Up to when the leadership is certain.
    valid_until: Moment,
    /// What is on record while leading, and what time it was when.
    last_known: Option<(Box<Record>, Timestamp, Moment)>,
    result: OneTurnResult,
}

#[derive(Debug)]
enum Stage {
    Reading { at: Moment },
    Contending { at: Moment },
    Running(Turn),
    Leaving { event: Option<Event>, at: Moment, until: Moment },
    Done,
}

impl<'s> OneTurn<'s> {
    /// Begins one at `now`.
    #[must_use]
    pub fn new(settings: &'s Settings, now: Moment) -> Self {
        Self {
            settings,
            stage: Stage::Reading { at: now },
            patient_until: now + PATIENCE,
            has_waited: false,
            state: None,
            valid_until: Moment::ZERO,
            last_known: None,
            result: OneTurnResult {
                outcome: OneTurnOutcome::Undecided,
                term: None,
                leader: None,
                turn: None,
                handler_called: false,
                error: None,
                outcome_recorded: None,
                next: None,
                problems: Vec::new(),
            },
        }
    }

    /// For the next step.
    #[must_use]
    pub fn state(&self) -> Option<&[u8]> {
        self.state.as_ref().map(State::as_bytes)
    }

    /// What to do at `now`.
    pub fn next(&mut self, now: Moment) -> OneTurnAction {
        let patient_until = self.patient_until;
        let wait = |at: Moment, until: Moment| OneTurnAction::Wait(at.min(until));
        match &mut self.stage {
            Stage::Reading { .. } if now >= patient_until => self.end(OneTurnOutcome::Undecided),
            Stage::Reading { at } if now < *at => wait(*at, patient_until),
            Stage::Reading { .. } => OneTurnAction::Read,
            Stage::Contending { .. } if now >= patient_until => {
                self.leave(OneTurnOutcome::Undecided, Event::Leave(None), now);
                self.next(now)
            }
            Stage::Contending { at } if now < *at => wait(*at, patient_until),
            Stage::Contending { .. } => OneTurnAction::Step(None),
            // Frozen since the claim: the turn is not begun any more.
            Stage::Running(_) if now >= self.valid_until => {
                self.leave(OneTurnOutcome::Overran, Event::LeaveLate(Outcome::NotStarted.into()), now);
                self.next(now)
            }
            Stage::Running(turn) => {
                turn.valid_for = self.valid_until - now;
                OneTurnAction::Run(turn.clone())
            }
            Stage::Leaving { until, .. } if now >= *until => self.end(self.result.outcome),
            Stage::Leaving { at, until, .. } if now < *at => wait(*at, *until),
            Stage::Leaving { event, .. } => OneTurnAction::Step(event.take()),
            Stage::Done => OneTurnAction::Done(Box::new(self.result.clone())),
        }
    }

    /// Takes what was read.
    pub fn on_read(&mut self, inspection: Result<Inspection, Problem>, now: Moment) {
        let Inspection { snapshot, next_turn } = match inspection {
            Ok(inspection) => inspection,
            Err(problem) => {
                self.result.problems.push(problem);
                self.end(OneTurnOutcome::Unanswered);
                return;
            }
        };
        self.result.next = next_turn;
        let schedules = Problem::schedule_mismatch(snapshot.turns.schedule.as_deref(), self.settings);
        let ahead = snapshot.ahead.map(|ahead_by| Problem::slot_ahead(snapshot.answered_at.plus(ahead_by)));
        for problem in schedules.into_iter().chain(ahead) {
            if !self.result.problems.contains(&problem) {
                self.result.problems.push(problem);
            }
        }
        if let Some(problem) = snapshot.problem {
            self.result.problems.push(problem);
            self.end(OneTurnOutcome::Unanswered);
            return;
        }
        if matches!(snapshot.lease, LeaseState::Leased | LeaseState::Breaking) {
            self.result.leader = snapshot.incumbent;
            self.end(OneTurnOutcome::Followed);
            return;
        }
        let wait = next_turn.map(|next| next.since(snapshot.answered_at));
        match wait {
            // The first leader of all writes the record.
            _ if snapshot.incumbent.is_none() => self.stage = Stage::Contending { at: now },
            Some(Duration::ZERO) => self.stage = Stage::Contending { at: now },
            Some(wait) if wait <= SHORT_WAIT && !self.has_waited => {
                // Answers tell whole seconds: by the next one it is due only when such a second has begun.
                let wait = Duration::from_secs(wait.as_secs() + u64::from(wait.subsec_nanos() > 0));
                self.has_waited = true;
                self.patient_until += wait;
                self.stage = Stage::Reading { at: now + wait };
            }
            _ => {
                self.end(OneTurnOutcome::NothingDue);
            }
        }
    }

    /// Takes the report of a step that was begun at `began`.
    pub fn on_step(&mut self, report: Report, prospect: StepProgress, started_at: Moment, now: Moment) {
        self.state = Some(report.state);
        let failed = !report.problems.is_empty();
        self.result.problems.extend(report.problems);
        if let StepProgress::Leading { record, time } = &prospect {
            self.last_known = Some((record.clone(), *time, now));
        }
        let next_step_at = started_at + report.again_in;
        if let Stage::Leaving { event, at, .. } = &mut self.stage {
            match prospect {
                StepProgress::Left { outcome_recorded } => {
                    self.result.outcome_recorded = self.result.handler_called.then_some(outcome_recorded);
                    self.end(self.result.outcome);
                }
                _ => (*event, *at) = (None, next_step_at),
            }
            return;
        }
        if let Role::Leading(leadership) = &report.role {
            if self.result.term.is_none() {
                self.patient_until = now + PATIENCE;
            }
            self.result.term = Some(leadership.term);
        }
        match (report.run, prospect, report.role) {
            (Some(turn), ..) => {
                self.valid_until = started_at + turn.valid_for;
                self.result.turn = Some(turn.clone());
                self.stage = Stage::Running(turn);
            }
            (None, StepProgress::Leading { .. }, _) => {
                self.result.next = self.next_turn(now);
                self.leave(OneTurnOutcome::NothingDue, Event::Leave(None), now);
            }
            (None, StepProgress::Watching, Role::Following(leader)) => {
                self.result.leader = leader;
                self.end(OneTurnOutcome::Followed);
            }
            // Another one was faster, or something is wrong. A read is enough to see what now.
            (None, StepProgress::Watching, _) => {
                let at = if failed { next_step_at } else { next_step_at.min(now + READ_AGAIN) };
                self.stage = Stage::Reading { at };
            }
            _ => self.stage = Stage::Contending { at: next_step_at },
        }
    }

    /// Takes what the handler returned.
    pub fn on_handler_done(&mut self, result: Result<(), String>, now: Moment) {
        self.result.handler_called = true;
        let outcome = if result.is_ok() { Outcome::Succeeded } else { Outcome::Failed };
        self.result.error = result.err();
        if let (Some((record, time, _)), Some(turn)) = (&mut self.last_known, &self.result.turn) {
            let end = End { outcome, at: *time, took: None };
            record.put_outcome(turn.kind(), end);
        }
        self.result.next = self.next_turn(now);
        let result = TurnResult { outcome, reason: self.result.error.clone() };
        let (one_turn_outcome, event) = match outcome {
            _ if now >= self.valid_until => (OneTurnOutcome::Overran, Event::LeaveLate(result)),
            Outcome::Succeeded => (OneTurnOutcome::Succeeded, Event::Leave(Some(result))),
            _ => (OneTurnOutcome::Failed, Event::Leave(Some(result))),
        };
        self.leave(one_turn_outcome, event, now);
    }

    /// When the next turn is due, by what is on record.
    fn next_turn(&self, now: Moment) -> Option<Timestamp> {
        let (record, time, known_at) = self.last_known.as_ref()?;
        self.settings.agenda.next(time.plus(now.saturating_sub(*known_at)), record)
    }

    fn leave(&mut self, outcome: OneTurnOutcome, event: Event, now: Moment) {
        self.result.outcome = outcome;
        self.stage = Stage::Leaving { event: Some(event), at: now, until: now + RELEASE_TIME };
    }

    fn end(&mut self, outcome: OneTurnOutcome) -> OneTurnAction {
        self.result.outcome = outcome;
        self.stage = Stage::Done;
        OneTurnAction::Done(Box::new(self.result.clone()))
    }
}
