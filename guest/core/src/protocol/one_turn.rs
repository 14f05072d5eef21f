//! One whole turn in one invocation: read, acquire, claim, run, record, release. protocol.md §10.
//!
//! Drives [`Step`](crate::Step) for platforms that call a component on a timer and keep no state
//! between calls. The lease is not renewed during the turn, so it is as long as possible, and a
//! longer turn is reported as overrun. Everything else works as in a long-running candidate.

use core::time::Duration;

use crate::Moment;
use crate::record::history::Incumbent;
use crate::record::metadata::{End, Outcome, Record};
use crate::record::snapshot::{Inspection, LeaseState};
use crate::step::clocks::Timestamp;
use crate::step::problem::Problem;
use crate::step::report::{Event, Report, Role, State, Turn, TurnResult};
use crate::step::settings::Settings;
use tenure_base::prelude::*;

/// Maximum time to contend without leading, and then to lead without a claim.
const PATIENCE: Duration = Duration::from_secs(10);

/// Maximum time for the release of the lease. After that, the lease is left to run out.
const RELEASE_TIME: Duration = Duration::from_secs(8);

/// Maximum wait for a turn that is due soon: the caller's clock may be a little fast, and the next
/// call may be a day away.
const SHORT_WAIT: Duration = Duration::from_secs(2);

/// Maximum pause before the next read after another candidate was faster.
const REREAD_PAUSE: Duration = Duration::from_millis(300);

/// Progress of the candidate after a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepProgress {
    /// The candidate has no lease, and no earlier request can still get it one.
    Watching,
    /// The candidate is winning or releasing a lease, or writing a claim or an outcome.
    UnderWay,
    /// The candidate leads, and no turn is due.
    Leading {
        /// The record on the blob.
        record: Box<Record>,
        /// The service's time.
        time: Timestamp,
    },
    /// The candidate has left.
    Left {
        /// True if the outcome of the turn was recorded.
        outcome_recorded: bool,
    },
}

/// The outcome of an invocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OneTurnOutcome {
    /// The turn ran and succeeded.
    Succeeded,
    /// The turn ran, and the handler returned an error.
    Failed,
    /// The turn ended, or could only start, after the end of validity.
    Overran,
    /// There was no turn to run.
    NothingDue,
    /// Another candidate leads.
    Followed,
    /// The candidate did not win in the available time.
    Undecided,
    /// The service did not answer, or the blob is not usable.
    Unanswered,
}

/// The result of an invocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OneTurnResult {
    /// The outcome.
    pub outcome: OneTurnOutcome,
    /// The term under which the candidate led, if it did.
    pub term: Option<u64>,
    /// The leader, if the candidate followed.
    pub leader: Option<Incumbent>,
    /// The turn that was claimed.
    pub turn: Option<Turn>,
    /// True if the handler was called.
    pub handler_called: bool,
    /// The error that the handler returned.
    pub error: Option<String>,
    /// True if the outcome of the turn is on record. None without an outcome.
    pub outcome_recorded: Option<bool>,
    /// Time at which the next turn is due. It may lie in the past.
    pub next: Option<Timestamp>,
    /// Problems during the invocation.
    pub problems: Vec<Problem>,
}

/// The next action of an invocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OneTurnAction {
    /// Read the election, and pass the result to [`OneTurn::on_read`].
    Read,
    /// Perform a step with [`OneTurn::state`] and this event, and pass its report to
    /// [`OneTurn::on_step`].
    Step(Option<Event>),
    /// Wait until then.
    Wait(Moment),
    /// Call the handler, and pass its result to [`OneTurn::on_handler_done`].
    Run(Turn),
    /// The invocation is complete.
    Done(Box<OneTurnResult>),
}

/// An invocation.
#[derive(Debug)]
pub struct OneTurn<'s> {
    settings: &'s Settings,
    stage: Stage,
    /// Deadline for winning, and after that for claiming a turn.
    deadline: Moment,
    /// True if the invocation has already waited for a turn that was due soon.
    has_waited: bool,
    state: Option<State>,
    /// End of the validity, by which the turn has to end.
    valid_until: Moment,
    /// The last known record of the leader, the service's time, and the instant of both.
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
    /// Starts an invocation at `now`.
    #[must_use]
    pub fn new(settings: &'s Settings, now: Moment) -> Self {
        Self {
            settings,
            stage: Stage::Reading { at: now },
            deadline: now + PATIENCE,
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

    /// Returns the state for the next step.
    #[must_use]
    pub fn state(&self) -> Option<&[u8]> {
        self.state.as_ref().map(State::as_bytes)
    }

    /// Returns the action to take at `now`.
    pub fn next(&mut self, now: Moment) -> OneTurnAction {
        let deadline = self.deadline;
        let wait = |at: Moment, until: Moment| OneTurnAction::Wait(at.min(until));
        match &mut self.stage {
            Stage::Reading { .. } if now >= deadline => self.end(OneTurnOutcome::Undecided),
            Stage::Reading { at } if now < *at => wait(*at, deadline),
            Stage::Reading { .. } => OneTurnAction::Read,
            Stage::Contending { .. } if now >= deadline => {
                self.leave(OneTurnOutcome::Undecided, Event::Leave(None), now);
                self.next(now)
            }
            Stage::Contending { at } if now < *at => wait(*at, deadline),
            Stage::Contending { .. } => OneTurnAction::Step(None),
            // The process was suspended after the claim: the turn is not started any more.
            Stage::Running(_) if now >= self.valid_until => {
                self.leave(
                    OneTurnOutcome::Overran,
                    Event::LeaveLate(Outcome::NotStarted.into()),
                    now,
                );
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

    /// Handles the result of a read.
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
        let mismatch =
            Problem::schedule_mismatch(snapshot.turns.schedule.as_deref(), self.settings);
        let ahead =
            snapshot.ahead.map(|ahead_by| Problem::slot_ahead(snapshot.answered_at.plus(ahead_by)));
        for problem in mismatch.into_iter().chain(ahead) {
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
            // Without a record, this candidate leads to write the first one.
            _ if snapshot.incumbent.is_none() => self.stage = Stage::Contending { at: now },
            Some(Duration::ZERO) => self.stage = Stage::Contending { at: now },
            Some(wait) if wait <= SHORT_WAIT && !self.has_waited => {
                // The service's dates have whole seconds, so the turn is seen to be due only after
                // the next full second.
                let wait = Duration::from_secs(wait.as_secs() + u64::from(wait.subsec_nanos() > 0));
                self.has_waited = true;
                self.deadline += wait;
                self.stage = Stage::Reading { at: now + wait };
            }
            _ => {
                self.end(OneTurnOutcome::NothingDue);
            }
        }
    }

    /// Handles the report of a step that started at `started_at`, and the progress of its
    /// candidate.
    pub fn on_step(
        &mut self,
        report: Report,
        progress: StepProgress,
        started_at: Moment,
        now: Moment,
    ) {
        self.state = Some(report.state);
        let has_problems = !report.problems.is_empty();
        self.result.problems.extend(report.problems);
        if let StepProgress::Leading { record, time } = &progress {
            self.last_known = Some((record.clone(), *time, now));
        }
        let next_step_at = started_at + report.again_in;
        if let Stage::Leaving { event, at, .. } = &mut self.stage {
            match progress {
                StepProgress::Left { outcome_recorded } => {
                    self.result.outcome_recorded =
                        self.result.handler_called.then_some(outcome_recorded);
                    self.end(self.result.outcome);
                }
                _ => (*event, *at) = (None, next_step_at),
            }
            return;
        }
        if let Role::Leading(leadership) = &report.role {
            if self.result.term.is_none() {
                self.deadline = now + PATIENCE;
            }
            self.result.term = Some(leadership.term);
        }
        match (report.run, progress, report.role) {
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
            // Another candidate was faster, or a problem occurred. A read shows the new state.
            (None, StepProgress::Watching, _) => {
                let at =
                    if has_problems { next_step_at } else { next_step_at.min(now + REREAD_PAUSE) };
                self.stage = Stage::Reading { at };
            }
            _ => self.stage = Stage::Contending { at: next_step_at },
        }
    }

    /// Handles the result of the handler.
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

    /// Returns the due time of the next turn, according to the last known record.
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
