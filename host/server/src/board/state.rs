//! What a board keeps in mind, and how reports and events change it.

use super::super::page::view::{LastTurn, short};
use super::super::recent::{RUNNING, RecentTurns};
use super::super::role::{EndedLeadership, Leader, Role};
use super::super::timeline::Timeline;
use super::allowance::Allowance;
use super::readiness::{MAX_FAILURES, Problem, prevents_leading};
use chrono::{DateTime, SecondsFormat, Utc};
use serde::Serialize;
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;
use tenure::handler::TurnEnd;
use tenure::status::{TurnSummary, ServiceTime};
use tenure::{ProblemKind, Event};
use tenure_core as contract;
use tenure_core::{
    ExchangeResult, Incumbent, Leadership, Listed, Report, RequestKind, Timestamp, Turn, Turns,
    milliseconds,
};
use tokio::sync::watch;

/// As many changes are kept in mind.
const HISTORY: usize = 200;

/// As many problems, for the page.
const PROBLEMS: usize = 20;

/// So many candidates are known by name at most.
const KNOWN: usize = 50;

/// What a lease is given up by.
const RELEASE_REQUESTS: [RequestKind; 2] = [RequestKind::ReleaseLease, RequestKind::ChangeLease];

#[derive(Debug, Default)]
pub(crate) struct State {
    /// Since when it sees anything.
    pub(crate) started_at: Duration,
    /// The loop is not to begin yet.
    pub(crate) start_delayed: bool,
    /// When the loop was last heard of.
    pub(crate) last_active: Duration,
    /// Requests in a row that the service did not answer as it does when all is well.
    pub(crate) failures: u32,
    /// The service has answered at least once.
    pub(crate) answered: bool,
    pub(crate) role: Role,
    /// How long a leader may act right after a renewal.
    pub(crate) full_validity: Duration,
    /// What the leader promises, by the record.
    pub(crate) promise: Option<Duration>,
    /// To whom it hands over.
    pub(crate) successor: Option<String>,
    /// Its newest leadership, when that is over.
    pub(crate) ended: Option<EndedLeadership>,
    pub(crate) problem: Option<Problem>,
    /// The service's time of day, as far as it is known.
    pub(crate) service_time: ServiceTime,
    /// What keeps it from leading and from following.
    pub(crate) blocked: Option<Problem>,
    /// True once its process can work, if a command decides that.
    pub(crate) ready: Option<watch::Receiver<bool>>,
    /// The loop has made a step, whatever came of it.
    pub(crate) has_stepped: bool,
    /// The turn that runs, or else the last one.
    pub(crate) turn: Option<LastTurn>,
    /// How the turns of the election go, by its record.
    pub(crate) turns: Option<Turns>,
    /// The newest of them, as far as they are known here.
    pub(crate) recent: RecentTurns,
    /// The candidates that were seen lately, by their list.
    listed: Vec<Listed>,
    /// When that was read.
    listed_at: Duration,
    /// Where the work is an application's that asks: what that was told.
    pub(crate) application: Option<Allowance>,
    pub(crate) history: VecDeque<Change>,
    /// When and what, also what is over.
    pub(crate) problems: VecDeque<(Duration, String)>,
    pub(crate) timeline: Timeline,
}

/// A change of leadership, as this candidate saw it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Change {
    /// By this machine's clock.
    pub at: String,
    /// The same by the clock of the candidate.
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
    /// That of a candidate that begins now.
    pub(super) fn new(now: Duration) -> Self {
        Self { started_at: now, last_active: now, ..Self::default() }
    }

    /// Takes the report of a step of `candidate` that began at `taken_at`.
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
                // Whoever may not reach what lies beside the election leads as well as others.
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
                let same_term = matches!(self.role, Role::Leading { term: known, .. } if known == term);
                self.full_validity = if same_term { self.full_validity.max(valid_for) } else { valid_for };
                Role::Leading { term, until: started_at + valid_for }
            }
            contract::Role::Following(incumbent) => Role::Following(incumbent.as_ref().map(leader)),
            contract::Role::Undecided => Role::Undecided,
            contract::Role::Left => Role::Left,
        };
        // A look may succeed, and what comes after it never: then nobody is known to lead. The same
        // problem is told once a minute only, so it is kept in mind until that ends.
        match self.role {
            Role::Undecided => {
                let blocked = report.problems.iter().rfind(|problem| prevents_leading(problem.class));
                self.blocked = blocked.map(Problem::new).or(self.blocked.take());
            }
            _ => self.blocked = None,
        }
        // What a follower saw last says nothing of now, where the account answers no more.
        let known = match &self.role {
            Role::Following(_) if self.failures >= MAX_FAILURES => &Role::Undecided,
            role => role,
        };
        self.timeline.on_role(now, candidate, known);
    }

    /// Takes an event of the runner of `candidate` that happened at `now`.
    pub(super) fn on_event(&mut self, candidate: &str, event: &Event, now: Duration) {
        if let Event::Problem { class: ProblemKind::Overload, .. } = event {
            // Its step waits, and the loop does not stand still.
            self.last_active = now;
        }
        match event {
            Event::Stopped => self.role = Role::Left,
            // An application is told that it may not act any more.
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

    /// How the turns of the election go at this moment, by its record.
    pub(crate) fn outlook(&self) -> TurnSummary {
        let turns = self.turns.as_ref();
        turns.map(|turns| TurnSummary::new(self.service_time.now(), turns)).unwrap_or_default()
    }

    /// The candidates but `own` that are known by name: the leader and those on the list of candidates, then those that
    /// were seen to lead before, each by the alphabet. This is the one place that such names come from.
    pub(crate) fn known_candidates(&self, own_name: &str, now: Duration) -> Vec<String> {
        let led = self.history.iter().filter_map(|change| change.leader.as_deref());
        let current_leader = match &self.role {
            Role::Following(Some(leader)) => Some(leader.name.as_str()),
            _ => None,
        };
        let listed = self.recently_listed(now).map(|entry| entry.name.as_str());
        let present: BTreeSet<_> = listed.chain(current_leader).filter(|name| *name != own_name).collect();
        let past: BTreeSet<_> =
            led.filter(|name| *name != own_name && !present.contains(name)).collect();
        present.into_iter().chain(past).map(str::to_owned).take(KNOWN).collect()
    }

    /// The list of candidates without those that became too old since it was read. Its times are the service's, which
    /// this machine's wall clock may be far from.
    pub(crate) fn recently_listed(&self, now: Duration) -> impl Iterator<Item = &Listed> {
        let newest = self.listed.iter().map(|entry| entry.seen).max().unwrap_or_default();
        let now = newest.plus(now.saturating_sub(self.listed_at));
        self.listed.iter().filter(move |entry| is_recently_listed(entry, now))
    }

    /// A leadership is over. It may be told twice.
    fn on_ended(&mut self, term: u64, reason: &str) {
        if self.ended.as_ref().is_none_or(|ended| ended.term != term) {
            self.ended = Some(EndedLeadership { term, reason: reason.to_owned(), released: false });
        }
    }

    /// Takes note of turns and problems.
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
                let turn_label = turn.trigger.as_ref();
                let which =
                    turn_label.map_or_else(|| format!("of {slot}"), |id| format!("for trigger {id}"));
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

/// A list is read every ten minutes.
const LISTING_MAX_AGE: Duration = Duration::from_secs(30 * 60);

/// Whether it was seen in the last half hour.
fn is_recently_listed(candidate: &Listed, now: Timestamp) -> bool {
    now.since(candidate.seen) <= LISTING_MAX_AGE
}
