//! What a candidate is at the moment, as far as others may know it. Written by the runner, read by the
//! pages.

use super::metrics::Metrics;
use super::summary::LastTurn;
use crate::contract::{ExchangeResult, Incumbent, Report, Standing};
use crate::runner::{Event, class_name};
use chrono::{DateTime, SecondsFormat, Utc};
use serde::Serialize;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// As many changes are kept in mind.
const HISTORY: usize = 200;

/// A loop that was not heard of for so long stands still: longer than the longest step.
const STILL: Duration = Duration::from_secs(150);

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
}

#[derive(Debug, Default)]
struct State {
    /// When the loop was last heard of.
    heard: Duration,
    /// Requests in a row that the service did not answer as it does when all is well.
    failures: u32,
    /// The service has answered at least once.
    answered: bool,
    role: Role,
    /// To whom it hands over.
    heir: Option<String>,
    /// An operator keeps it out of the race.
    paused: bool,
    trouble: Option<Told>,
    /// The loop has made a step, whatever came of it.
    stepped: bool,
    /// The turn that runs, or else the last one.
    turn: Option<LastTurn>,
    history: VecDeque<Change>,
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Leader {
    pub name: String,
    pub term: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
}

/// Something that went wrong.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Told {
    pub class: &'static str,
    pub detail: String,
}

/// A change of leadership, as this candidate saw it.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Change {
    /// By this machine's clock.
    pub at: String,
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
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the report of a step that began at `taken_at`, as the clock says.
    pub fn stepped(&self, report: &Report, taken_at: Duration, now: Duration) {
        let mut state = self.state();
        state.heard = now;
        state.stepped = true;
        for exchange in &report.exchanges {
            self.metrics.exchange(exchange);
            match exchange.result {
                ExchangeResult::Done | ExchangeResult::Declined => {
                    (state.failures, state.answered) = (0, true);
                    state.trouble = None;
                }
                _ => state.failures += 1,
            }
        }
        if let Some(trouble) = report.trouble.last() {
            let class = class_name(trouble.class);
            state.trouble = Some(Told { class, detail: trouble.detail.clone() });
        }
        state.heir.clone_from(&report.heir);
        state.role = match &report.standing {
            Standing::Leading(tenancy) => Role::Leading {
                term: tenancy.term,
                until: taken_at + Duration::from_nanos(tenancy.valid_for),
            },
            Standing::Following(incumbent) => Role::Following(incumbent.as_ref().map(leader)),
            Standing::Undecided => Role::Undecided,
            Standing::Left => Role::Left,
        };
    }

    /// Takes an event of the runner.
    pub fn happened(&self, event: &Event) {
        self.metrics.event(event);
        if *event == Event::Stopped {
            self.state().role = Role::Left;
        }
        if let Some(turn) = LastTurn::of(event) {
            self.state().turn = Some(turn);
        }
        if let Event::Ordered { order } = event {
            let mut state = self.state();
            state.paused = order == "pause" || (state.paused && order != "resume");
        }
        let own = || Some(self.candidate.clone());
        let (name, leader, term, reason) = match event {
            Event::Elected { term, .. } => ("elected", own(), Some(*term), None),
            Event::StoodDown { term, reason } => ("stood-down", own(), Some(*term), Some(*reason)),
            Event::Following { leader, term } => ("following", leader.clone(), *term, None),
            _ => return,
        };
        let at = now();
        let mut state = self.state();
        if state.history.len() == HISTORY {
            state.history.pop_front();
        }
        state.history.push_back(Change { at, event: name, leader, term, reason });
        if name == "stood-down" {
            state.role = Role::Undecided;
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

    /// Whether it could lead: the storage account answers.
    pub(super) fn readiness(&self, now: Duration) -> Readiness {
        if !self.runs(now) {
            return Readiness::NotReady("the loop stands still".to_owned());
        }
        let state = self.state();
        if state.role == Role::Left {
            return Readiness::NotReady("it has left the election".to_owned());
        }
        if state.answered && state.failures < FAILURES {
            return Readiness::Ready;
        }
        let why = match &state.trouble {
            Some(Told { class, detail }) => format!("{class}: {detail}"),
            None if state.answered => "the storage account does not answer".to_owned(),
            None => "the storage account has not answered yet".to_owned(),
        };
        Readiness::NotReady(why)
    }

    /// To whom it hands over.
    pub(super) fn heir(&self) -> Option<String> {
        self.state().heir.clone()
    }

    /// Whether an operator keeps it out of the race.
    pub(super) fn is_paused(&self) -> bool {
        self.state().paused
    }

    /// The newest trouble since the service answered last.
    pub(super) fn trouble(&self) -> Option<Told> {
        self.state().trouble.clone()
    }

    /// The newest changes, the oldest first.
    pub(super) fn history(&self) -> Vec<Change> {
        self.state().history.iter().cloned().collect()
    }
}

fn leader(incumbent: &Incumbent) -> Leader {
    let Incumbent { name, term, address, .. } = incumbent;
    Leader { name: name.clone(), term: *term, address: address.clone() }
}

fn now() -> String {
    DateTime::<Utc>::from(std::time::SystemTime::now()).to_rfc3339_opts(SecondsFormat::Millis, true)
}
