//! The events of a demo so far: the actions on the candidates, and their reports. All times count
//! from the start.

use super::sink::Sink;
use chrono::{DateTime, Utc};
use serde::Deserialize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tenure::status::TakeoverTime;
use tenure_server::page::Rate;
use tenure_server::page::view::{Kind, WINDOW};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::watch;

/// The election in which the candidates contend.
pub(super) const ELECTION: &str = "demo/report";

/// The outcome of a running turn.
const RUNNING: &str = "running";

/// Maximum number of turns, terms and notes that are kept: more than the page shows.
const MAX_ENTRIES: usize = 200;

/// The story, shared by the candidates that extend it and the views that show it.
#[derive(Clone)]
pub(super) struct SharedStory(Arc<Mutex<Story>>);

impl SharedStory {
    pub(super) fn new(story: Story) -> Self {
        Self(Arc::new(Mutex::new(story)))
    }

    /// Runs `action` on the story, with the time since its start.
    pub(super) fn with<T>(&self, action: impl FnOnce(&mut Story, Duration) -> T) -> T {
        let mut story = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = story.at(Utc::now());
        action(&mut story, now)
    }
}

pub(super) struct Story {
    origin: DateTime<Utc>,
    pub takeover_time: TakeoverTime,
    /// Counts the invalid turns.
    pub sink: Sink,
    pub lanes: Vec<Lane>,
    pub turns: Vec<Turn>,
    pub terms: Vec<Term>,
    pub notes: Vec<Note>,
    /// Numbers of turns that started, and of turns that succeeded.
    pub turns_started: usize,
    pub turns_succeeded: usize,
}

/// The events of a candidate's log that the demo uses.
#[derive(Debug, Deserialize, PartialEq, Eq)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub(super) enum Event {
    Following,
    Note { detail: String },
    Elected { term: u64, valid_for_ms: u64 },
    Renewed { term: u64 },
    TurnStarted { term: u64, slot: String },
    TurnEnded { term: u64, slot: String, outcome: String, detail: Option<String> },
    StoodDown { term: u64, reason: String },
    Problem { class: String, detail: String },
}

/// Faults and orders for a candidate, from the demo's script or the page's user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Starts a new process of that name.
    Start,
    /// Kills all its processes (SIGKILL), as when its machine dies.
    KillMachine,
    /// Kills the process that runs the election (SIGKILL). Its supervisor lives.
    KillProcess,
    /// Stops it cleanly (SIGTERM). Not on the page.
    Stop,
    /// Freezes it (SIGSTOP).
    Freeze,
    /// Continues it (SIGCONT).
    Thaw,
    /// Cuts it off from the store, and the other candidates from it.
    Partition,
    /// Ends a partition.
    Heal,
    /// Runs `tenure transfer`: the leader releases the lease and follows.
    Resign,
}

/// The state of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Starting,
    Follows,
    Leads,
    Killed,
    /// Stopped on request.
    Stopped,
    /// Ended unexpectedly.
    Lost,
}

/// One candidate.
pub(super) struct Lane {
    pub name: &'static str,
    pub state: State,
    /// True once its process has ended.
    pub ended: bool,
    /// Spans in which it followed, was dead, frozen or cut off, with start and end.
    pub spans: Vec<(Kind, Duration, Option<Duration>)>,
    pub requests: Rate,
    /// Sends actions to its task.
    pub action_sender: UnboundedSender<Action>,
    /// Cuts its network paths.
    pub cut: watch::Sender<bool>,
}

/// A turn, by the log of the candidate that ran it.
pub(super) struct Turn {
    pub candidate: usize,
    pub slot: String,
    pub started_at: Duration,
    /// The outcome as the log names it, or `RUNNING`.
    pub outcome: String,
}

/// A term and its leader.
pub(super) struct Term {
    pub candidate: usize,
    pub term: u64,
    pub since: Duration,
    /// Time for which the leader may act after a beat.
    pub validity: Duration,
    /// The fault that makes another candidate take over, and its time.
    pub fault: Option<(Action, Duration)>,
    /// Time and description of its end.
    pub ended: Option<(Duration, String)>,
    pub turns: usize,
}

/// A sentence for the user.
pub(super) struct Note {
    pub at: Duration,
    pub is_problem: bool,
    pub text: String,
    pub printed: bool,
}

impl Action {
    /// Returns its name in the page's requests.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::KillMachine => "kill-machine",
            Self::KillProcess => "kill-process",
            Self::Stop => "stop",
            Self::Freeze => "freeze",
            Self::Thaw => "thaw",
            Self::Partition => "partition",
            Self::Heal => "heal",
            Self::Resign => "resign",
        }
    }

    /// Describes the action on a candidate. `during` names the interrupted turn, or is empty.
    pub(super) fn sentence(self, name: &str, during: &str) -> String {
        match self {
            Self::Start => format!("{name} starts, and follows unless it gets the lease."),
            Self::KillMachine => format!("The machine of {name} dies{during} (SIGKILL)."),
            Self::KillProcess => format!("The process of {name} dies{during} (SIGKILL)."),
            Self::Stop => format!("{name} is asked to stop (SIGTERM)."),
            Self::Freeze => format!("{name} is frozen (SIGSTOP)."),
            Self::Thaw => format!("{name} goes on (SIGCONT)."),
            Self::Partition => format!("{name} can no longer reach the store."),
            Self::Heal => format!("{name} can reach the store again."),
            Self::Resign => format!("{name} is asked to resign."),
        }
    }

    /// Returns the effect on a leader if the action makes another candidate take over.
    pub(super) fn effect(self) -> Option<&'static str> {
        Some(match self {
            Self::KillMachine => "The others wait until its promise is over.",
            Self::KillProcess => "Its supervisor sees that, and releases the lease.",
            Self::Stop => "It ends its work, then releases the lease: no candidate has to wait.",
            Self::Freeze => "It cannot see its validity end. When it thaws, its work stops first.",
            Self::Partition => "It cannot renew, and stops its work before another one may lead.",
            Self::Start | Self::Thaw | Self::Heal | Self::Resign => return None,
        })
    }

    /// Returns the cause of a takeover, as in "ben takes over 2.1 s after the leader was frozen".
    pub(super) fn cause(self) -> &'static str {
        match self {
            Self::KillMachine => "after the leader's machine died",
            Self::KillProcess => "after the leader's process died",
            Self::Stop => "after the leader was asked to stop",
            Self::Freeze => "after the leader was frozen",
            Self::Partition => "after the leader was cut off",
            Self::Resign => "after the leader resigned",
            Self::Start | Self::Thaw | Self::Heal => "",
        }
    }
}

impl Lane {
    /// Returns true if it is in a span of this kind.
    pub(super) fn is_in(&self, kind: Kind) -> bool {
        self.spans.iter().any(|(span_kind, _, to)| *span_kind == kind && to.is_none())
    }

    /// Returns true if the demo has killed or stopped the candidate, so that its end is expected.
    fn may_end(&self) -> bool {
        matches!(self.state, State::Killed | State::Stopped)
    }

    fn is_impaired(&self) -> bool {
        self.is_in(Kind::Frozen) || self.is_in(Kind::CutOff)
    }

    fn enter(&mut self, at: Duration, state: State) {
        self.state = state;
        self.set(at, Kind::Follows, state == State::Follows);
        self.set(at, Kind::Gone, self.may_end() || state == State::Lost);
    }

    /// Begins or ends a span of this kind, unless the lane is in that state already.
    fn set(&mut self, at: Duration, kind: Kind, active: bool) {
        let open =
            self.spans.iter_mut().find(|(span_kind, _, to)| *span_kind == kind && to.is_none());
        match open {
            Some((_, _, to)) if !active => *to = Some(at),
            None if active => {
                // Older spans are no longer visible.
                self.spans.retain(|(_, _, to)| to.is_none_or(|to| to + WINDOW >= at));
                self.spans.push((kind, at, None));
            }
            _ => {}
        }
    }
}

impl Term {
    /// Returns the instant since which the leader sends no beats, although it holds the lease.
    fn silent_since(&self) -> Option<Duration> {
        let silent = |act| matches!(act, Action::KillMachine | Action::Freeze | Action::Partition);
        self.fault.filter(|(act, _)| silent(*act)).map(|(_, since)| since)
    }

    /// Returns the instant until which the leader may act, as known at `now`.
    pub(super) fn valid_until(&self, now: Duration) -> Duration {
        self.silent_since().unwrap_or(now) + self.validity
    }

    /// Returns the instant until which the promise of a silent leader blocks the other candidates,
    /// if it does not release the lease before. `None` if the leader is not silent.
    pub(super) fn blocks_until(&self, promise: Duration) -> Option<Duration> {
        self.silent_since().map(|since| since + promise)
    }

    fn end(&mut self, at: Duration, reason: &str) {
        self.ended.get_or_insert_with(|| (at, reason.to_owned()));
    }
}

/// Formats a measured time in milliseconds, or in tenths of a second from one second on.
pub(super) fn format_brief(span: Duration) -> String {
    match span.as_millis() {
        millis @ ..1_000 => format!("{millis} ms"),
        _ => format!("{:.1} s", span.as_secs_f64()),
    }
}

impl Story {
    pub(super) fn new(names: &[&'static str], takeover_time: TakeoverTime, sink: Sink) -> Self {
        let lane = |name: &&'static str| Lane {
            name,
            state: State::Starting,
            ended: true,
            spans: Vec::new(),
            requests: Rate::default(),
            action_sender: unbounded_channel().0,
            cut: watch::Sender::new(false),
        };
        Self {
            origin: Utc::now(),
            takeover_time,
            sink,
            lanes: names.iter().map(lane).collect(),
            turns: Vec::new(),
            terms: Vec::new(),
            notes: Vec::new(),
            turns_started: 0,
            turns_succeeded: 0,
        }
    }

    /// Returns the time since the start.
    pub(super) fn at(&self, time: DateTime<Utc>) -> Duration {
        (time - self.origin).to_std().unwrap_or_default()
    }

    /// Returns the candidate that leads according to its own log.
    pub(super) fn leader(&self) -> Option<usize> {
        self.lanes.iter().position(|lane| lane.state == State::Leads)
    }

    /// Returns the leader whose validity has not ended.
    pub(super) fn valid_leader(&self, now: Duration) -> Option<usize> {
        let last = self.terms.last()?;
        (last.ended.is_none() && now < last.valid_until(now)).then_some(last.candidate)
    }

    /// Returns the turn that a candidate runs.
    pub(super) fn running(&self, index: usize) -> Option<&Turn> {
        self.turns.iter().find(|turn| turn.candidate == index && turn.outcome == RUNNING)
    }

    /// Returns the cause and the duration of the takeover that began this term.
    pub(super) fn takeover(&self, term: usize) -> Option<(Action, Duration)> {
        let (cause, since) = self.terms.get(term.checked_sub(1)?)?.fault?;
        Some((cause, self.terms.get(term)?.since.saturating_sub(since)))
    }

    /// Returns the time after its newest beat within which a leader has stopped. Without failover,
    /// this is the lease.
    pub(super) fn promise(&self) -> Duration {
        self.takeover_time.promise.unwrap_or(self.takeover_time.lease)
    }

    /// Returns the actions on a candidate that the page can offer.
    pub(super) fn possible_actions(&self, index: usize, now: Duration) -> Vec<Action> {
        let lane = &self.lanes[index];
        let (frozen, cut_off) = (lane.is_in(Kind::Frozen), lane.is_in(Kind::CutOff));
        let is_running = !lane.ended && lane.state != State::Killed;
        let is_responsive = is_running && !frozen;
        let all = [
            (Action::KillMachine, is_running),
            // A frozen supervisor cannot react.
            (Action::KillProcess, is_responsive && self.takeover_time.is_supervised),
            (Action::Start, lane.ended),
            // On other systems only the supervisor would be frozen.
            (Action::Freeze, is_responsive && cfg!(target_os = "linux")),
            (Action::Thaw, is_running && frozen),
            (Action::Partition, !cut_off),
            (Action::Heal, cut_off),
            (Action::Resign, is_responsive && !cut_off && self.valid_leader(now) == Some(index)),
        ];
        all.into_iter().filter(|(_, possible)| *possible).map(|(act, _)| act).collect()
    }

    /// Applies an action to a candidate.
    pub(super) fn apply(&mut self, now: Duration, index: usize, action: Action) {
        // The send fails only once the demo has ended, and with it the candidate's task.
        let _ = self.lanes[index].action_sender.send(action);
        let is_valid_leader = self.valid_leader(now) == Some(index);
        let during = self.running(index).map_or("", |_| " in the middle of a turn");
        let lane = &mut self.lanes[index];
        let name = lane.name;
        if let Some(term) = self.terms.last_mut().filter(|last| last.candidate == index) {
            // The first cause counts: a frozen leader that is then killed was lost when it froze.
            if is_valid_leader && action.effect().is_some() && !lane.is_impaired() {
                term.fault = Some((action, now));
            }
            match action {
                Action::KillMachine => term.end(now, "its machine died"),
                Action::KillProcess => term.end(now, "its process died"),
                _ => {}
            }
        }
        match action {
            Action::Start => {
                lane.enter(now, State::Starting);
                lane.ended = false;
            }
            Action::KillMachine | Action::KillProcess => lane.enter(now, State::Killed),
            Action::Stop => lane.enter(now, State::Stopped),
            Action::Freeze | Action::Thaw => lane.set(now, Kind::Frozen, action == Action::Freeze),
            Action::Partition | Action::Heal => {
                lane.cut.send_replace(action == Action::Partition);
                lane.set(now, Kind::CutOff, action == Action::Partition);
            }
            Action::Resign => {}
        }
        let effect = match action.effect() {
            Some(effect) if is_valid_leader => effect,
            Some(_) => "It only followed: nothing changes.",
            None => "",
        };
        let text = format!("{} {effect}", action.sentence(name, during));
        self.note(now, text.trim_end().to_owned());
    }

    /// Applies an event of a candidate's log.
    pub(super) fn apply_event(&mut self, index: usize, at: Duration, event: Event) {
        let lane = &mut self.lanes[index];
        let (name, may_end) = (lane.name, lane.may_end());
        match event {
            Event::Following if !may_end => lane.enter(at, State::Follows),
            Event::Elected { term, valid_for_ms } => {
                if !may_end {
                    lane.enter(at, State::Leads);
                }
                self.elected(index, at, term, Duration::from_millis(valid_for_ms));
            }
            Event::Renewed { term } => self.on_progress(at, term),
            Event::TurnStarted { term, slot } => {
                self.on_progress(at, term);
                self.turns_started += 1;
                if let Some(leadership) = self.terms.iter_mut().rfind(|entry| entry.term == term) {
                    leadership.turns += 1;
                }
                let outcome = RUNNING.to_owned();
                push_bounded(
                    &mut self.turns,
                    Turn { candidate: index, slot, started_at: at, outcome },
                );
            }
            Event::TurnEnded { slot, outcome, detail, .. } => {
                let is_turn = |turn: &&mut Turn| turn.candidate == index && turn.slot == slot;
                if let Some(turn) = self.turns.iter_mut().rfind(is_turn) {
                    turn.outcome.clone_from(&outcome);
                }
                if outcome == "succeeded" {
                    self.turns_succeeded += 1;
                } else {
                    let detail = detail.map(|text| format!(": {text}")).unwrap_or_default();
                    self.problem(at, format!("{name}: the turn of {slot} {outcome}{detail}"));
                }
            }
            Event::StoodDown { term, reason } => self.stood_down(index, at, term, &reason),
            // The supervisor reports a process that the demo itself has killed.
            Event::Problem { class, .. } if class == "process" && may_end => {}
            Event::Problem { class, detail } => {
                self.problem(at, format!("{name}: {class}: {detail}"));
            }
            Event::Following | Event::Note { .. } => {}
        }
    }

    /// Records progress of the leader of this term. A freeze or a partition that is over did not
    /// end its leadership, so the fault is dropped.
    fn on_progress(&mut self, at: Duration, term: u64) {
        if let Some(last) = self.terms.last_mut().filter(|last| last.term == term)
            && let Some((Action::Freeze | Action::Partition, since)) = last.fault
            && since < at
            && !self.lanes[last.candidate].is_impaired()
        {
            last.fault = None;
        }
    }

    fn elected(&mut self, index: usize, at: Duration, term: u64, validity: Duration) {
        let name = self.lanes[index].name;
        if let Some(last) = self.terms.last_mut() {
            last.end(at, "validity ended");
        }
        let new = Term {
            candidate: index,
            term,
            since: at,
            validity,
            fault: None,
            ended: None,
            turns: 0,
        };
        push_bounded(&mut self.terms, new);
        let text = match self.takeover(self.terms.len() - 1) {
            Some((cause, after)) => {
                let (after, cause) = (format_brief(after), cause.cause());
                format!("{name} takes over {after} {cause}, with a higher term: {term}.")
            }
            None => format!("{name} leads, with term {term}. Only {name} runs the turns."),
        };
        self.note(at, text);
    }

    fn stood_down(&mut self, index: usize, at: Duration, term: u64, reason: &str) {
        let lane = &mut self.lanes[index];
        let (name, is_stopping) = (lane.name, lane.may_end());
        let outcome = if is_stopping { "stopped".to_owned() } else { reason.replace('-', " ") };
        let mut fault = None;
        if let Some(leadership) = self.terms.iter_mut().rfind(|entry| entry.term == term) {
            if !is_stopping && ["resigned", "handed-over"].contains(&reason) {
                leadership.fault = Some((Action::Resign, at));
            }
            leadership.end(at, &outcome);
            fault = leadership.fault;
        }
        if is_stopping {
            return;
        }
        lane.enter(at, State::Follows);
        match fault {
            Some((Action::Resign, _)) => self.note(at, format!("{name} has given the lease back.")),
            Some(_) => self.note(at, format!("{name} no longer leads: its validity has ended.")),
            None => self.problem(at, format!("{name} unexpectedly no longer leads: {outcome}.")),
        }
    }

    /// Records that the process of a candidate has ended.
    pub(super) fn process_ended(&mut self, index: usize, at: Duration, reason: &str) {
        let lane = &mut self.lanes[index];
        let name = lane.name;
        lane.ended = true;
        lane.set(at, Kind::Frozen, false);
        if !lane.may_end() {
            lane.enter(at, State::Lost);
            self.problem(at, format!("{name} has ended unexpectedly: {reason}."));
        }
        let turns = self.turns.iter_mut();
        for turn in turns.filter(|turn| turn.candidate == index && turn.outcome == RUNNING) {
            "cut-off".clone_into(&mut turn.outcome);
        }
        if let Some(term) = self.terms.last_mut().filter(|last| last.candidate == index) {
            term.end(at, reason);
        }
    }

    fn note(&mut self, at: Duration, text: String) {
        push_bounded(&mut self.notes, Note { at, is_problem: false, text, printed: false });
    }

    pub(super) fn problem(&mut self, at: Duration, text: String) {
        // A candidate's text may contain control characters that a terminal would obey.
        let text = text.replace(char::is_control, " ");
        push_bounded(&mut self.notes, Note { at, is_problem: true, text, printed: false });
    }
}

/// Appends an item and drops the oldest beyond the maximum.
fn push_bounded<T>(list: &mut Vec<T>, item: T) {
    list.drain(..list.len().saturating_sub(MAX_ENTRIES - 1));
    list.push(item);
}
