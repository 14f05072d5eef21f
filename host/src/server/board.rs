//! What a candidate is at the moment, as far as others may know it. Written by the runner, read by the
//! pages.

use super::application::Told as ToApplication;
use super::metrics::{Metrics, Now};
use super::summary::LastTurn;
use super::timeline::Timeline;
use super::watch::Ended;
use crate::contract::{
    self, ExchangeResult, Incumbent, Outlook, Problem, ProblemClass, Report, Turns, class_name,
    reason_name, rfc3339, wall,
};
use crate::handler::TurnEnd;
use crate::runner::Event;
use crate::settings::FailOver;
use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// As many changes are kept in mind.
const HISTORY: usize = 200;

/// As many problems, for the page.
const PROBLEMS: usize = 20;

/// A loop that was not heard of for so long stands still: longer than the longest step.
const STILL: Duration = Duration::from_secs(150);

/// What a lease is given up by.
const GIVES_UP: [&str; 2] = ["release lease", "change lease"];

/// So many requests in a row that came to nothing: the first may have met a connection that had died.
const FAILURES: u32 = 2;

/// The present state of one candidate, with its newest changes and its figures.
#[derive(Debug)]
pub struct Board {
    /// The candidate's name.
    pub(super) candidate: String,
    /// `container/blob`.
    pub(super) election: String,
    state: Mutex<State>,
    pub(super) metrics: Metrics,
    /// How soon somebody else leads, by this candidate's settings.
    fail_over: Option<FailOver>,
    /// When the credential expires.
    expiry: Option<Expiry>,
    /// The word that something may have changed.
    changed: watch::Sender<()>,
}

struct Expiry(Box<dyn Fn() -> Option<DateTime<Utc>> + Send + Sync>);

impl fmt::Debug for Expiry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Expiry")
    }
}

#[derive(Debug, Default)]
pub(super) struct State {
    /// When the loop was last heard of.
    heard: Duration,
    /// Requests in a row that the service did not answer as it does when all is well.
    failures: u32,
    /// The service has answered at least once.
    answered: bool,
    pub(super) role: Role,
    /// How long a leader may act right after a renewal.
    pub(super) whole: Duration,
    /// What the leader promises, by the record.
    promise: Option<Duration>,
    /// To whom it hands over.
    successor: Option<String>,
    /// Its newest leadership, when that is over.
    ended: Option<Ended>,
    /// Why nothing came of the last order.
    refused_order: Option<String>,
    /// An operator keeps it out of the race.
    paused: bool,
    problem: Option<Told>,
    /// What keeps it from leading and from following.
    blocked: Option<Told>,
    /// The loop has made a step, whatever came of it.
    stepped: bool,
    /// The turn that runs, or else the last one.
    pub(super) turn: Option<LastTurn>,
    /// How the turns of the election go, by its record.
    turns: Option<Turns>,
    /// So many turns in a row did not succeed.
    failed_turns: u32,
    /// Where the work is an application's that asks: what that was told.
    pub(super) application: Option<ToApplication>,
    pub(super) history: VecDeque<Change>,
    /// When and what, also what is over.
    pub(super) problems: VecDeque<(Duration, String)>,
    pub(super) timeline: Timeline,
}

/// What the candidate is in its election.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Role {
    /// Nobody is known to lead.
    #[default]
    Undecided,
    /// It leads, and may act until then.
    Leading { term: u64, until: Duration },
    /// Another one leads; who, where that is known.
    Following(Option<Leader>),
    /// It has left.
    Left,
}

/// Who leads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leader {
    /// How candidates name it.
    pub name: String,
    /// Its fencing token.
    pub term: u64,
    /// Where it can be reached, if it said so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// When it won, by the record.
    #[serde(skip)]
    pub since: Option<String>,
}

/// Something that went wrong.
#[derive(Clone, Debug, Serialize)]
pub struct Told {
    /// The class of the WIT's `problem`, or `component`.
    pub class: &'static str,
    /// What happened, and what to do about it.
    pub detail: String,
}

impl Told {
    fn of(problem: &Problem) -> Self {
        Self { class: class_name(problem.class), detail: problem.detail.clone() }
    }
}

/// Whether a candidate with such a problem cannot win while it lasts.
fn keeps_out(class: ProblemClass) -> bool {
    match class {
        ProblemClass::Configuration
        | ProblemClass::Refused
        | ProblemClass::Clock
        | ProblemClass::Unreachable
        | ProblemClass::Unavailable
        | ProblemClass::Nonsense => true,
        ProblemClass::LeaseLost
        | ProblemClass::Schedule
        | ProblemClass::Work
        | ProblemClass::Order => false,
    }
}

/// A change of leadership, as this candidate saw it.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Change {
    /// By this machine's clock.
    pub at: String,
    /// The same by the clock of the candidate.
    #[serde(skip)]
    pub seen: Duration,
    /// `elected`, `stood-down` or `following`.
    pub event: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leader: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub term: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
}

/// Whether a candidate is ready, and why not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Readiness {
    Ready,
    NotReady(String),
}

impl Board {
    /// The board of a candidate that begins now.
    #[must_use]
    pub fn new(election: &str, candidate: &str, now: Duration) -> Self {
        let state = State { heard: now, ..State::default() };
        Self {
            candidate: candidate.to_owned(),
            election: election.to_owned(),
            state: Mutex::new(state),
            metrics: Metrics::new(election, candidate),
            fail_over: None,
            expiry: None,
            changed: watch::Sender::new(()),
        }
    }

    /// Shows how soon a leader that dies is replaced: `by_settings` where the record does not say.
    #[must_use]
    pub fn with_fail_over(self, by_settings: FailOver) -> Self {
        Self { fail_over: Some(by_settings), ..self }
    }

    /// Shows when the credential expires, as `expiry` says whenever it is asked.
    #[must_use]
    pub fn with_expiry(
        self,
        expiry: impl Fn() -> Option<DateTime<Utc>> + Send + Sync + 'static,
    ) -> Self {
        Self { expiry: Some(Expiry(Box::new(expiry))), ..self }
    }

    /// Says that there is something new to show.
    pub(super) fn has_changed(&self) {
        self.changed.send_replace(());
    }

    /// The word that there is something new to show.
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// The state, for whoever shows all of it.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the report of a step that began at `taken_at`, as the clock says.
    pub fn stepped(&self, report: &Report, taken_at: Duration, now: Duration) {
        let mut state = self.state();
        state.heard = now;
        state.timeline.requests.add(now, report.exchanges.len());
        state.stepped = true;
        for exchange in &report.exchanges {
            self.metrics.exchange(exchange);
            match exchange.result {
                ExchangeResult::Done | ExchangeResult::Declined => {
                    (state.failures, state.answered) = (0, true);
                    state.problem = None;
                }
                _ => state.failures += 1,
            }
        }
        if let Some(turn) = &report.run {
            self.metrics.claimed(turn);
        }
        if let Some(problem) = report.problems.last() {
            state.problem = Some(Told::of(problem));
        }
        let state = &mut *state;
        if let Some(application) = &mut state.application {
            application.winds_down = report.wind_down;
        }
        state.promise = report.promise;
        if report.turns.is_some() {
            state.turns.clone_from(&report.turns);
        }
        state.successor.clone_from(&report.successor);
        let refused = report.problems.iter().rfind(|problem| problem.class == ProblemClass::Order);
        match refused {
            Some(problem) => state.refused_order = Some(problem.detail.clone()),
            None if report.successor.is_some() => state.refused_order = None,
            None => {}
        }
        if let Some(ending) = &report.ending {
            state.ended(ending.term, reason_name(ending.reason));
        }
        let gave_up = report.exchanges.iter().any(|exchange| {
            let answered =
                matches!(exchange.result, ExchangeResult::Done | ExchangeResult::Declined);
            answered && GIVES_UP.contains(&exchange.what.as_str())
        });
        if let Some(ended) = state.ended.as_mut().filter(|_| gave_up) {
            ended.released = true;
        }
        state.role = match &report.role {
            contract::Role::Leading(leadership) => {
                state.ended = None;
                let (term, valid_for) =
                    (leadership.term, Duration::from_nanos(leadership.valid_for));
                let same = matches!(state.role, Role::Leading { term: known, .. } if known == term);
                state.whole = if same { state.whole.max(valid_for) } else { valid_for };
                Role::Leading { term, until: taken_at + valid_for }
            }
            contract::Role::Following(incumbent) => Role::Following(incumbent.as_ref().map(leader)),
            contract::Role::Undecided => Role::Undecided,
            contract::Role::Left => Role::Left,
        };
        // A look may succeed, and what comes after it never: then nobody is known to lead. The same
        // problem is told once a minute only, so it is kept in mind until that ends.
        match state.role {
            Role::Undecided => {
                let blocked = report.problems.iter().rfind(|problem| keeps_out(problem.class));
                state.blocked = blocked.map(Told::of).or(state.blocked.take());
            }
            _ => state.blocked = None,
        }
        state.timeline.stands(now, &self.candidate, &state.role);
        self.changed.send_replace(());
    }

    /// Takes an event of the runner that happened at `now`, as the clock says.
    pub fn happened(&self, event: &Event, now: Duration) {
        self.metrics.event(event);
        if *event == Event::Stopped {
            self.state().role = Role::Left;
        }
        if let Some(turn) = LastTurn::of(event) {
            let mut state = self.state();
            state.failed_turns = match turn.outcome.as_deref() {
                Some("succeeded") => 0,
                Some(_) => state.failed_turns.saturating_add(1),
                None => state.failed_turns,
            };
            state.turn = Some(turn);
        }
        self.state().remember(event, now);
        self.note_change(event, now);
        self.changed.send_replace(());
    }

    fn note_change(&self, event: &Event, seen: Duration) {
        if let Event::Ordered { order } = event {
            let mut state = self.state();
            state.paused = order == "pause" || (state.paused && order != "resume");
        }
        let own = || Some(self.candidate.clone());
        let (name, leader, term, reason) = match event {
            Event::Elected { term, .. } => ("elected", own(), Some(*term), None),
            Event::StoodDown { term, reason } => {
                ("stood-down", own(), Some(*term), Some(reason.name()))
            }
            Event::Following { leader, term } => ("following", leader.clone(), *term, None),
            _ => return,
        };
        let at = wall_clock();
        let state = &mut *self.state();
        if state.history.len() == HISTORY {
            state.history.pop_front();
        }
        state.history.push_back(Change { at, seen, event: name, leader, term, reason });
        if let Event::StoodDown { term, reason } = event {
            state.ended(*term, reason.name());
            state.role = Role::Undecided;
            state.timeline.stands(seen, &self.candidate, &state.role);
        }
    }

    /// What it is at `now`: leadership ends with its time, whether or not anybody says so.
    pub(super) fn role(&self, now: Duration) -> Role {
        match &self.state().role {
            Role::Leading { until, .. } if now >= *until => Role::Undecided,
            role => role.clone(),
        }
    }

    /// Whether the loop runs, or has come to its end.
    pub(super) fn runs(&self, now: Duration) -> bool {
        let state = self.state();
        state.role == Role::Left || now.saturating_sub(state.heard) < STILL
    }

    /// Whether the loop has made its first step.
    pub(super) fn stepped_once(&self) -> bool {
        self.state().stepped
    }

    /// The turn that runs, or else the last one.
    pub(super) fn turn(&self) -> Option<LastTurn> {
        self.state().turn.clone()
    }

    /// How the turns of the election go at this moment, by its record.
    pub(super) fn outlook(&self) -> Outlook {
        self.state().outlook()
    }

    /// So many turns in a row, up to the last one, did not succeed.
    pub(super) fn failed_turns(&self) -> u32 {
        self.state().failed_turns
    }

    /// Its figures at `now`, in OpenMetrics.
    pub(super) fn figures(&self, now: Duration) -> String {
        let (term, valid_for) = match self.role(now) {
            Role::Leading { term, until } => (Some(term), until.saturating_sub(now)),
            _ => (None, Duration::ZERO),
        };
        let ready = self.readiness(now) == Readiness::Ready;
        let credential_expires = self.expiry.as_ref().and_then(|Expiry(expiry)| expiry());
        let turns = self.state().turns.clone();
        let at =
            |nanos: u64| DateTime::from_timestamp_nanos(i64::try_from(nanos).unwrap_or(i64::MAX));
        let turns = turns.as_ref();
        self.metrics.text(&Now {
            term,
            valid_for,
            ready,
            last_success: turns.and_then(|turns| turns.last_success.as_ref()).map(|end| at(end.at)),
            last_failure: turns.and_then(|turns| turns.last_failure.as_ref()).map(|end| at(end.at)),
            next_turn: turns.and_then(|turns| turns.next.as_ref()).map(|next| at(next.at)),
            credential_expires,
        })
    }

    /// Whether it could lead: the storage account answers, and lets it.
    pub(super) fn readiness(&self, now: Duration) -> Readiness {
        if !self.runs(now) {
            return Readiness::NotReady("the loop stands still".to_owned());
        }
        let state = self.state();
        if state.role == Role::Left {
            return Readiness::NotReady("it has left the election".to_owned());
        }
        let answers = state.answered && state.failures < FAILURES;
        if answers && state.blocked.is_none() {
            return Readiness::Ready;
        }
        let why = match state.problem.as_ref().filter(|_| !answers).or(state.blocked.as_ref()) {
            Some(Told { class, detail }) => format!("{class}: {detail}"),
            None if state.answered => "the storage account does not answer".to_owned(),
            None => "the storage account has not answered yet".to_owned(),
        };
        Readiness::NotReady(why)
    }

    /// How soon somebody else leads when the leader dies: the one of `state`, or else the next one.
    pub(super) fn fail_over(&self, state: &State) -> Option<FailOver> {
        let by_settings = self.fail_over?;
        Some(match &state.role {
            Role::Leading { .. } => FailOver { promise: state.promise, ..by_settings },
            Role::Following(Some(leader)) => FailOver {
                promise: state.promise,
                watched: leader.address.is_some(),
                ..by_settings
            },
            _ => by_settings,
        })
    }

    /// To whom it hands over.
    pub(super) fn successor(&self) -> Option<String> {
        self.state().successor.clone()
    }

    /// Its newest leadership, when that is over.
    pub(super) fn ended(&self) -> Option<Ended> {
        self.state().ended.clone()
    }

    /// Name, term and address of the leader that it follows, if that one gave an address.
    pub(super) fn followed(&self) -> Option<(String, u64, String)> {
        match &self.state().role {
            Role::Following(Some(Leader { name, term, address: Some(address), .. })) => {
                Some((name.clone(), *term, address.clone()))
            }
            _ => None,
        }
    }

    /// Why nothing came of the last order.
    pub(super) fn refused_order(&self) -> Option<String> {
        self.state().refused_order.clone()
    }

    /// Whether an operator keeps it out of the race.
    pub(super) fn is_paused(&self) -> bool {
        self.state().paused
    }

    /// The newest problem since the service answered last.
    pub(super) fn problem(&self) -> Option<Told> {
        self.state().problem.clone()
    }

    /// The newest changes, the oldest first.
    pub(super) fn history(&self) -> Vec<Change> {
        self.state().history.iter().cloned().collect()
    }
}

impl State {
    /// How the turns of the election go at this moment, by its record.
    pub(super) fn outlook(&self) -> Outlook {
        self.turns.as_ref().map(|turns| Outlook::at(wall(), turns)).unwrap_or_default()
    }

    /// A leadership is over. It may be told twice.
    fn ended(&mut self, term: u64, reason: &str) {
        if self.ended.as_ref().is_none_or(|ended| ended.term != term) {
            self.ended = Some(Ended { term, reason: reason.to_owned(), released: false });
        }
    }

    /// Takes note of turns and problems.
    fn remember(&mut self, event: &Event, now: Duration) {
        let problem = match event {
            Event::TurnStarted { turn } => {
                return self.timeline.turn_started(now, &rfc3339(turn.slot));
            }
            Event::TurnEnded { turn, end, .. } => {
                let slot = rfc3339(turn.slot);
                self.timeline.turn_ended(&slot, &end.to_string());
                if *end == TurnEnd::Succeeded {
                    return;
                }
                let detail = end.detail().map(|text| format!(": {text}")).unwrap_or_default();
                format!("The turn of {slot} {end}{detail}")
            }
            Event::Problem { class, detail } => format!("{class}: {detail}"),
            _ => return,
        };
        if self.problems.len() == PROBLEMS {
            self.problems.pop_front();
        }
        self.problems.push_back((now, problem));
    }
}

fn leader(incumbent: &Incumbent) -> Leader {
    let Incumbent { name, term, address, since } = incumbent;
    let since = (*since > 0).then(|| rfc3339(*since));
    Leader { name: name.clone(), term: *term, address: address.clone(), since }
}

fn wall_clock() -> String {
    DateTime::<Utc>::from(std::time::SystemTime::now()).to_rfc3339_opts(SecondsFormat::Millis, true)
}
