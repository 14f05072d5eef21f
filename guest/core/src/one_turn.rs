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
use super::snapshot::{LeaseState, Look};
use tenure_base::prelude::*;

/// How long to contend without leading, and to lead without a turn to run.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long to try to give the lease back; then it runs out.
const LEAVING: Duration = Duration::from_secs(8);

/// A turn that is due so soon is waited for: the clock that calls may be a little fast, and
/// the next call may be a day away.
const SOON: Duration = Duration::from_secs(2);

/// Between two reads, when another candidate was faster.
const READ_AGAIN: Duration = Duration::from_millis(300);

/// How far a step brought the candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prospect {
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
        recorded: bool,
    },
}

/// What an invocation came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Course {
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
pub struct Turned {
    /// What it came to.
    pub course: Course,
    /// The term under which it led, if it did.
    pub term: Option<u64>,
    /// Who leads, when it followed.
    pub leader: Option<Incumbent>,
    /// The turn that was claimed.
    pub turn: Option<Turn>,
    /// The handler was called.
    pub ran: bool,
    /// What the handler complained of.
    pub error: Option<String>,
    /// Whether the outcome is on record, when there is one.
    pub recorded: Option<bool>,
    /// When the next turn is due; not later than now: at once.
    pub next: Option<Timestamp>,
    /// What went wrong on the way.
    pub problems: Vec<Problem>,
}

/// What an invocation does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Read the election, and tell [`OneTurn::read`].
    Read,
    /// Do a step with [`OneTurn::state`] and this event, and tell [`OneTurn::stepped`].
    Step(Option<Event>),
    /// Wait until then.
    Wait(Moment),
    /// Call the handler, and tell [`OneTurn::ran`].
    Run(Turn),
    /// It is over.
    Done(Box<Turned>),
}

/// An invocation.
#[derive(Debug)]
pub struct OneTurn<'s> {
    settings: &'s Settings,
    stage: Stage,
    /// Contending ends then.
    patient_until: Moment,
    /// It has waited for a turn once.
    waited: bool,
    state: Option<State>,
    /// Up to when the leadership is certain.
    valid_until: Moment,
    /// What is on record while leading, and what time it was when.
    known: Option<(Box<Record>, Timestamp, Moment)>,
    result: Turned,
}

#[derive(Debug)]
enum Stage {
    Reading { at: Moment },
    Contending { at: Moment },
    Running(Turn),
    Leaving { event: Option<Event>, at: Moment, until: Moment },
    Over,
}

impl<'s> OneTurn<'s> {
    /// Begins one at `now`.
    #[must_use]
    pub fn begin(settings: &'s Settings, now: Moment) -> Self {
        Self {
            settings,
            stage: Stage::Reading { at: now },
            patient_until: now + PATIENCE,
            waited: false,
            state: None,
            valid_until: Moment::ZERO,
            known: None,
            result: Turned {
                course: Course::Undecided,
                term: None,
                leader: None,
                turn: None,
                ran: false,
                error: None,
                recorded: None,
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
    pub fn next(&mut self, now: Moment) -> Next {
        let patient_until = self.patient_until;
        let wait = |at: Moment, until: Moment| Next::Wait(at.min(until));
        match &mut self.stage {
            Stage::Reading { .. } if now >= patient_until => self.end(Course::Undecided),
            Stage::Reading { at } if now < *at => wait(*at, patient_until),
            Stage::Reading { .. } => Next::Read,
            Stage::Contending { .. } if now >= patient_until => {
                self.leave(Course::Undecided, Event::Leave(None), now);
                self.next(now)
            }
            Stage::Contending { at } if now < *at => wait(*at, patient_until),
            Stage::Contending { .. } => Next::Step(None),
            // Frozen since the claim: the turn is not begun any more.
            Stage::Running(_) if now >= self.valid_until => {
                self.leave(Course::Overran, Event::LeaveLate(Outcome::NotStarted.into()), now);
                self.next(now)
            }
            Stage::Running(turn) => {
                turn.valid_for = self.valid_until - now;
                Next::Run(turn.clone())
            }
            Stage::Leaving { until, .. } if now >= *until => self.end(self.result.course),
            Stage::Leaving { at, until, .. } if now < *at => wait(*at, *until),
            Stage::Leaving { event, .. } => Next::Step(event.take()),
            Stage::Over => Next::Done(Box::new(self.result.clone())),
        }
    }

    /// Takes what was read.
    pub fn read(&mut self, look: Result<Look, Problem>, now: Moment) {
        let Look { snapshot, next_turn } = match look {
            Ok(look) => look,
            Err(problem) => {
                self.result.problems.push(problem);
                self.end(Course::Unanswered);
                return;
            }
        };
        self.result.next = next_turn;
        let schedules = Problem::of_schedules(snapshot.turns.schedule.as_deref(), self.settings);
        let ahead = snapshot.ahead.map(|by| Problem::of_slot_ahead(snapshot.asked_at.plus(by)));
        for problem in schedules.into_iter().chain(ahead) {
            if !self.result.problems.contains(&problem) {
                self.result.problems.push(problem);
            }
        }
        if let Some(problem) = snapshot.problem {
            self.result.problems.push(problem);
            self.end(Course::Unanswered);
            return;
        }
        if matches!(snapshot.lease, LeaseState::Leased | LeaseState::Breaking) {
            self.result.leader = snapshot.incumbent;
            self.end(Course::Followed);
            return;
        }
        let wait = next_turn.map(|next| next.since(snapshot.asked_at));
        match wait {
            // The first leader of all writes the record.
            _ if snapshot.incumbent.is_none() => self.stage = Stage::Contending { at: now },
            Some(Duration::ZERO) => self.stage = Stage::Contending { at: now },
            Some(wait) if wait <= SOON && !self.waited => {
                // Answers tell whole seconds: by the next one it is due only when such a second has begun.
                let wait = Duration::from_secs(wait.as_secs() + u64::from(wait.subsec_nanos() > 0));
                self.waited = true;
                self.patient_until += wait;
                self.stage = Stage::Reading { at: now + wait };
            }
            _ => {
                self.end(Course::NothingDue);
            }
        }
    }

    /// Takes the report of a step that was begun at `began`.
    pub fn stepped(&mut self, report: Report, prospect: Prospect, began: Moment, now: Moment) {
        self.state = Some(report.state);
        let failed = !report.problems.is_empty();
        self.result.problems.extend(report.problems);
        if let Prospect::Leading { record, time } = &prospect {
            self.known = Some((record.clone(), *time, now));
        }
        let again = began + report.again_in;
        if let Stage::Leaving { event, at, .. } = &mut self.stage {
            match prospect {
                Prospect::Left { recorded } => {
                    self.result.recorded = self.result.ran.then_some(recorded);
                    self.end(self.result.course);
                }
                _ => (*event, *at) = (None, again),
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
                self.valid_until = began + turn.valid_for;
                self.result.turn = Some(turn.clone());
                self.stage = Stage::Running(turn);
            }
            (None, Prospect::Leading { .. }, _) => {
                self.result.next = self.next_turn(now);
                self.leave(Course::NothingDue, Event::Leave(None), now);
            }
            (None, Prospect::Watching, Role::Following(leader)) => {
                self.result.leader = leader;
                self.end(Course::Followed);
            }
            // Another one was faster, or something is wrong. A read is enough to see what now.
            (None, Prospect::Watching, _) => {
                let at = if failed { again } else { again.min(now + READ_AGAIN) };
                self.stage = Stage::Reading { at };
            }
            _ => self.stage = Stage::Contending { at: again },
        }
    }

    /// Takes what the handler returned.
    pub fn ran(&mut self, result: Result<(), String>, now: Moment) {
        self.result.ran = true;
        let outcome = if result.is_ok() { Outcome::Succeeded } else { Outcome::Failed };
        self.result.error = result.err();
        if let (Some((record, time, _)), Some(turn)) = (&mut self.known, &self.result.turn) {
            let end = End { outcome, at: *time, took: None };
            record.put_outcome(turn.kind(), end);
        }
        self.result.next = self.next_turn(now);
        let result = TurnResult { outcome, reason: self.result.error.clone() };
        let (course, event) = match outcome {
            _ if now >= self.valid_until => (Course::Overran, Event::LeaveLate(result)),
            Outcome::Succeeded => (Course::Succeeded, Event::Leave(Some(result))),
            _ => (Course::Failed, Event::Leave(Some(result))),
        };
        self.leave(course, event, now);
    }

    /// When the next turn is due, by what is on record.
    fn next_turn(&self, now: Moment) -> Option<Timestamp> {
        let (record, time, then) = self.known.as_ref()?;
        self.settings.agenda.next(time.plus(now.saturating_sub(*then)), record)
    }

    fn leave(&mut self, course: Course, event: Event, now: Moment) {
        self.result.course = course;
        self.stage = Stage::Leaving { event: Some(event), at: now, until: now + LEAVING };
    }

    fn end(&mut self, course: Course) -> Next {
        self.result.course = course;
        self.stage = Stage::Over;
        Next::Done(Box::new(self.result.clone()))
    }
}
