//! The state of a candidate, and its updates by reports and events.

use super::page::view::{LastTurn, short};
use super::recent::{RUNNING, RecentTurns};
use super::role::{EndedLeadership, Leader, Role};
use super::timeline::Timeline;
use chrono::{DateTime, SecondsFormat, Utc};
use serde::Serialize;
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;
use tenure::handler::TurnEnd;
use tenure::status::{ServiceTime, TurnSummary};
use tenure::{Event, ProblemKind};
use tenure_core as contract;
use tenure_core::{
    ExchangeResult, Incumbent, Leadership, Listed, ProblemClass, Report, RequestKind, Timestamp,
    Turn, Turns, milliseconds,
};
use tokio::sync::watch;

/// Maximum number of changes of leadership that are kept.
const HISTORY: usize = 200;

/// Maximum number of problems that are kept for the page.
const PROBLEMS: usize = 20;

/// Maximum number of names that [`State::known_candidates`] returns.
const KNOWN: usize = 50;

/// Requests that give up a lease.
const RELEASE_REQUESTS: [RequestKind; 2] = [RequestKind::ReleaseLease, RequestKind::ChangeLease];

/// Number of consecutive failed requests after which the candidate is not ready. The first failure
/// may be due to a dead connection.
pub(super) const MAX_FAILURES: u32 = 2;

/// A problem of a candidate.
#[derive(Clone, Debug, Serialize)]
pub struct Problem {
    /// The class as the WIT names it.
    pub class: &'static str,
    /// A description, with advice.
    pub detail: String,
}

impl Problem {
    fn new(problem: &contract::Problem) -> Self {
        Self { class: problem.class.name(), detail: problem.detail.clone() }
    }
}

/// Returns true if a candidate cannot win an election while it has such a problem.
fn prevents_leading(class: ProblemClass) -> bool {
    match class {
        ProblemClass::Configuration
        | ProblemClass::UnusableBlob
        | ProblemClass::ForeignLease
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

/// The permission of an application to act.
#[derive(Debug, Default)]
pub(super) struct Allowance {
    /// The term in which it may act: the one whose turn is running.
    pub term: Option<u64>,
    /// True if the leadership is about to be given up.
    pub winding_down: bool,
    /// True if the process is shutting down.
    pub leaving: bool,
    /// The end of the latest permission to act.
    pub expires_at: Duration,
}

impl Allowance {
    pub fn may_act(&self, term: u64) -> bool {
        self.term == Some(term) && !self.winding_down && !self.leaving
    }
}

#[derive(Debug, Default)]
pub(super) struct State {
    /// The time at which the board was created.
    pub(super) started_at: Duration,
    /// True until the loop starts, if its start was delayed.
    pub(super) start_delayed: bool,
    /// The time of the loop's last activity.
    pub(super) last_active: Duration,
    /// Consecutive requests that failed or were refused.
    pub(super) failures: u32,
    /// True once the service has answered.
    pub(super) answered: bool,
    pub(super) role: Role,
    /// Time that a leader may act right after a renewal.
    pub(super) full_validity: Duration,
    /// The failover promise on record: the time after the leader's newest beat at which it has
    /// stopped.
    pub(super) promise: Option<Duration>,
    /// The candidate to which this leader hands over.
    pub(super) successor: Option<String>,
    /// The newest leadership of this candidate, once it has ended.
    pub(super) ended: Option<EndedLeadership>,
    pub(super) problem: Option<Problem>,
    /// The service's time of day, if known.
    pub(super) service_time: ServiceTime,
    /// The problem that prevents leading and following.
    pub(super) blocked: Option<Problem>,
    /// Receives true once the process can work. `None` unless a command decides that.
    pub(super) ready: Option<watch::Receiver<bool>>,
    /// True once the loop has made a step, successful or not.
    pub(super) has_stepped: bool,
    /// The running turn, or else the last one.
    pub(super) turn: Option<LastTurn>,
    /// The turns of the election, by its record.
    pub(super) turns: Option<Turns>,
    /// The newest turns that this candidate knows.
    pub(super) recent: RecentTurns,
    /// The newest list of candidates that were seen recently.
    listed: Vec<Listed>,
    /// The time at which that list was read.
    listed_at: Duration,
    /// The permission of the application; present if an application does the work.
    pub(super) application: Option<Allowance>,
    pub(super) history: VecDeque<Change>,
    /// Times and texts of problems, past ones included.
    pub(super) problems: VecDeque<(Duration, String)>,
    pub(super) timeline: Timeline,
}

/// A change of leadership that this candidate saw.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Change {
    /// Time by this machine's wall clock.
    pub at: String,
    /// Time by the candidate's clock.
    #[serde(skip)]
    pub observed_at: Duration,
    /// `elected`, `stood-down` or `following`.
    pub event: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leader: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub term: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
}

impl State {
    pub(super) fn new(now: Duration) -> Self {
        Self { started_at: now, last_active: now, ..Self::default() }
    }

    /// Applies the report of a step of `candidate` that began at `started_at`.
    pub(super) fn on_step(
        &mut self,
        candidate: &str,
        report: &Report,
        started_at: Duration,
        now: Duration,
    ) {
        self.last_active = now;
        self.has_stepped = true;
        self.timeline.requests.add(now, report.exchanges.len());
        for exchange in &report.exchanges {
            match exchange.result {
                ExchangeResult::Done | ExchangeResult::Declined => {
                    (self.failures, self.answered) = (0, true);
                    self.problem = None;
                }
                // A candidate can lead without access to side blobs.
                ExchangeResult::Refused if exchange.what.is_side_blob_request() => {}
                _ => self.failures += 1,
            }
        }
        if let Some(problem) = report.problems.last() {
            self.problem = Some(Problem::new(problem));
        }
        if let Some(application) = &mut self.application {
            application.winding_down = report.wind_down;
        }
        self.promise = report.promise;
        self.service_time.update(report, now.saturating_sub(started_at));
        if let Some(turns) = &report.turns {
            self.recent.on_record(turns);
            self.turns = Some(turns.clone());
        }
        if let Some(candidates) = &report.candidates {
            self.listed.clone_from(candidates);
            self.listed_at = now;
        }
        self.successor.clone_from(&report.successor);
        if let Some(ending) = &report.ending {
            self.on_ended(ending.term, ending.reason.name());
        }
        let released = report.exchanges.iter().any(|exchange| {
            let answered =
                matches!(exchange.result, ExchangeResult::Done | ExchangeResult::Declined);
            answered && RELEASE_REQUESTS.contains(&exchange.what)
        });
        if let Some(ended) = self.ended.as_mut().filter(|_| released) {
            ended.released = true;
        }
        self.role = match &report.role {
            contract::Role::Leading(leadership) => {
                self.ended = None;
                let Leadership { term, valid_for } = *leadership;
                let same_term =
                    matches!(self.role, Role::Leading { term: known, .. } if known == term);
                self.full_validity =
                    if same_term { self.full_validity.max(valid_for) } else { valid_for };
                Role::Leading { term, until: started_at + valid_for }
            }
            contract::Role::Following(incumbent) => Role::Following(incumbent.as_ref().map(leader)),
            contract::Role::Undecided => Role::Undecided,
            contract::Role::Left => Role::Left,
        };
        // While no leader is known, a problem may prevent one, even if some requests succeed. A
        // lasting problem is reported only once a minute, so it is kept in between.
        match self.role {
            Role::Undecided => {
                let blocked =
                    report.problems.iter().rfind(|problem| prevents_leading(problem.class));
                self.blocked = blocked.map(Problem::new).or(self.blocked.take());
            }
            _ => self.blocked = None,
        }
        // A follower's last observation is out of date when the account is unavailable.
        let known = match &self.role {
            Role::Following(_) if self.failures >= MAX_FAILURES => &Role::Undecided,
            role => role,
        };
        self.timeline.on_role(now, candidate, known);
    }

    /// Applies an event of the runner of `candidate` that happened at `now`.
    pub(super) fn on_event(&mut self, candidate: &str, event: &Event, now: Duration) {
        if let Event::Problem { class: ProblemKind::Overload, .. } = event {
            // The step of an overloaded candidate waits, but its loop is alive.
            self.last_active = now;
        }
        match event {
            Event::Stopped => self.role = Role::Left,
            // The application must stop acting.
            Event::Leaving { .. } => {
                if let Some(allowance) = &mut self.application {
                    allowance.leaving = true;
                }
            }
            _ => {}
        }
        self.remember(candidate, event, now);
        self.note_change(candidate, event, now);
    }

    fn note_change(&mut self, candidate: &str, event: &Event, observed_at: Duration) {
        let own_name = || Some(candidate.to_owned());
        let (name, leader, term, reason) = match event {
            Event::Elected { term, .. } => ("elected", own_name(), Some(*term), None),
            Event::StoodDown { term, reason } => {
                ("stood-down", own_name(), Some(*term), Some(reason.name()))
            }
            Event::Following { leader, term } => ("following", leader.clone(), *term, None),
            _ => return,
        };
        if self.history.len() == HISTORY {
            self.history.pop_front();
        }
        let at = wall_clock();
        self.history.push_back(Change { at, observed_at, event: name, leader, term, reason });
        if let Event::StoodDown { term, reason } = event {
            self.on_ended(*term, reason.name());
            self.role = Role::Undecided;
            self.timeline.on_role(observed_at, candidate, &self.role);
        }
    }

    /// Returns the present schedule and progress of the turns, according to the record.
    pub(super) fn outlook(&self) -> TurnSummary {
        let turns = self.turns.as_ref();
        turns.map(|turns| TurnSummary::new(self.service_time.now(), turns)).unwrap_or_default()
    }

    /// Returns the names of the known candidates except `own_name`. The leader and the listed
    /// candidates come first, then former leaders; each group is in alphabetical order.
    pub(super) fn known_candidates(&self, own_name: &str, now: Duration) -> Vec<String> {
        let led = self.history.iter().filter_map(|change| change.leader.as_deref());
        let current_leader = match &self.role {
            Role::Following(Some(leader)) => Some(leader.name.as_str()),
            _ => None,
        };
        let listed = self.recently_listed(now).map(|entry| entry.name.as_str());
        let present: BTreeSet<_> =
            listed.chain(current_leader).filter(|name| *name != own_name).collect();
        let past: BTreeSet<_> =
            led.filter(|name| *name != own_name && !present.contains(name)).collect();
        present.into_iter().chain(past).map(str::to_owned).take(KNOWN).collect()
    }

    /// Returns the listed candidates without entries that have expired since the list was read.
    /// Ages count from the newest entry, because the entries have the service's times, and this
    /// machine's wall clock may differ.
    pub(super) fn recently_listed(&self, now: Duration) -> impl Iterator<Item = &Listed> {
        let newest = self.listed.iter().map(|entry| entry.seen_at).max().unwrap_or_default();
        let now = newest.plus(now.saturating_sub(self.listed_at));
        self.listed.iter().filter(move |entry| is_recently_listed(entry, now))
    }

    /// Records the end of a leadership. A second report of the same end has no effect.
    fn on_ended(&mut self, term: u64, reason: &str) {
        if self.ended.as_ref().is_none_or(|ended| ended.term != term) {
            self.ended = Some(EndedLeadership { term, reason: reason.to_owned(), released: false });
        }
    }

    /// Records the turn or the problem in an event.
    fn remember(&mut self, candidate: &str, event: &Event, now: Duration) {
        let own_turn = |turn: &Turn, outcome: String, took_ms| {
            let (slot, candidate) = (turn.slot.to_rfc3339(), Some(short(candidate)));
            Some(LastTurn { slot, outcome, candidate, took_ms })
        };
        let problem = match event {
            Event::TurnStarted { turn } => {
                self.turn = own_turn(turn, RUNNING.to_owned(), None);
                self.recent.started(turn);
                return self.timeline.turn_started(now, &turn.slot.to_rfc3339());
            }
            Event::TurnEnded { turn, end, elapsed, .. } => {
                self.turn = own_turn(turn, end.to_string(), Some(milliseconds(*elapsed)));
                self.recent.ended(turn, end, *elapsed);
                let slot = turn.slot.to_rfc3339();
                self.timeline.turn_ended(&slot, &end.to_string());
                if *end == TurnEnd::Succeeded {
                    return;
                }
                let detail = end.detail().map(|text| format!(": {text}")).unwrap_or_default();
                let trigger = turn.trigger.as_ref();
                let which =
                    trigger.map_or_else(|| format!("of {slot}"), |id| format!("for trigger {id}"));
                format!("The turn {which} {end}{detail}")
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
    let Incumbent { name, term, address, since, .. } = incumbent;
    let since = (*since > Timestamp(0)).then(|| since.to_rfc3339());
    Leader { name: name.clone(), term: *term, address: address.clone(), since }
}

fn wall_clock() -> String {
    DateTime::<Utc>::from(std::time::SystemTime::now()).to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// Age after which a listed candidate is no longer shown. The list is read every ten minutes.
const LISTING_MAX_AGE: Duration = Duration::from_secs(30 * 60);

fn is_recently_listed(candidate: &Listed, now: Timestamp) -> bool {
    now.since(candidate.seen_at) <= LISTING_MAX_AGE
}
