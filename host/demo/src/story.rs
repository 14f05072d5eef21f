//! The events so far: what was done to the candidates, and what they reported. All times count from the start.

use super::act::Act;
use super::stage::{Event, Heard, What};
use chrono::{DateTime, Utc};
use std::time::Duration;
use tenure::status::Replacement;
use tenure_server::page::view::Kind;

/// The most notes and terms that are kept.
const KEPT: usize = 200;

#[derive(Debug)]
pub(super) struct Story {
    origin: DateTime<Utc>,
    pub replacement: Replacement,
    pub lanes: Vec<Lane>,
    pub turns: Vec<Turn>,
    pub terms: Vec<Term>,
    pub notes: Vec<Note>,
    /// Notes that were not printed yet.
    pub unsaid: Vec<Note>,
    /// Candidates that ended unasked.
    pub lost: usize,
    /// Turns that began, and turns that succeeded.
    pub began: usize,
    pub succeeded: usize,
    /// Why another candidate must take over now, and since when.
    vacancy: Option<(Act, Duration)>,
}

/// The state of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Starting,
    Follows,
    Leads,
    Killed,
    Stopping,
    Stopped,
    Lost,
}

/// One candidate.
#[derive(Debug)]
pub(super) struct Lane {
    pub name: &'static str,
    pub state: State,
    /// Its process has ended.
    pub ended: bool,
    pub frozen: bool,
    pub cut_off: bool,
    /// It was asked to resign.
    resigns: bool,
    /// When it was no leader: what it was, from when to when.
    pub spans: Vec<(Kind, Duration, Option<Duration>)>,
}

/// A turn, by the log of the candidate that ran it.
#[derive(Debug)]
pub(super) struct Turn {
    pub who: usize,
    pub term: u64,
    pub slot: String,
    pub began: Duration,
    /// None while it runs.
    pub outcome: Option<String>,
}

/// A term, and its leader.
#[derive(Debug)]
pub(super) struct Term {
    pub who: usize,
    pub term: u64,
    pub since: Duration,
    /// How long the leader may act after a beat.
    pub acts: Duration,
    /// The newest beat that it can have given; none while it gives them.
    last_beat: Option<Duration>,
    pub takeover: Option<Takeover>,
    /// When, and how in words.
    pub ended: Option<(Duration, String)>,
    /// The lease was given back: no other candidate has to wait.
    released: bool,
    pub turns: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Takeover {
    pub cause: Act,
    pub after: Duration,
}

/// A sentence for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Note {
    pub at: Duration,
    pub is_problem: bool,
    pub text: String,
}

impl Lane {
    /// Returns true if it takes part.
    pub(super) fn is_in(&self) -> bool {
        matches!(self.state, State::Follows | State::Leads)
    }

    fn may_end(&self) -> bool {
        matches!(self.state, State::Killed | State::Stopping)
    }

    fn enter(&mut self, at: Duration, state: State) {
        if self.state == state {
            return;
        }
        let kind = match state {
            State::Follows => Some(Kind::Follows),
            State::Killed | State::Stopped | State::Lost => Some(Kind::Gone),
            State::Starting | State::Leads | State::Stopping => None,
        };
        self.close(at, Kind::Follows);
        self.close(at, Kind::Gone);
        self.spans.extend(kind.map(|kind| (kind, at, None)));
        self.state = state;
    }

    fn close(&mut self, at: Duration, kind: Kind) {
        for (of, _, to) in &mut self.spans {
            if *of == kind && to.is_none() {
                *to = Some(at);
            }
        }
    }
}

impl Term {
    /// Returns until when the leader may act, as far as is known at `now`.
    pub(super) fn valid_until(&self, now: Duration) -> Duration {
        self.last_beat.unwrap_or(now) + self.acts
    }

    /// Returns until when the leader keeps the others out with such a promise, unless it gave the lease back.
    pub(super) fn waits_until(&self, promise: Duration) -> Option<Duration> {
        self.last_beat.filter(|_| !self.released).map(|beat| beat + promise)
    }
}

/// A measured time, as exactly as people can feel it.
pub(super) fn brief(span: Duration) -> String {
    match span.as_millis() {
        millis @ ..1_000 => format!("{millis} ms"),
        _ => format!("{:.1} s", span.as_secs_f64()),
    }
}

impl Story {
    pub(super) fn new(
        origin: DateTime<Utc>,
        names: &[&'static str],
        replacement: Replacement,
    ) -> Self {
        let lane = |name: &&'static str| Lane {
            name,
            state: State::Starting,
            ended: true,
            frozen: false,
            cut_off: false,
            resigns: false,
            spans: Vec::new(),
        };
        let mut story = Self {
            origin,
            replacement,
            lanes: names.iter().map(lane).collect(),
            turns: Vec::new(),
            terms: Vec::new(),
            notes: Vec::new(),
            unsaid: Vec::new(),
            lost: 0,
            began: 0,
            succeeded: 0,
            vacancy: None,
        };
        let count = names.len();
        let text = format!("{count} candidates start. The first one that gets the lease leads.");
        story.note(Duration::ZERO, text);
        story
    }

    /// Returns the time since the start.
    pub(super) fn at(&self, time: DateTime<Utc>) -> Duration {
        (time - self.origin).to_std().unwrap_or_default()
    }

    pub(super) fn name(&self, who: usize) -> &'static str {
        self.lanes[who].name
    }

    /// The candidate that leads by its own log.
    pub(super) fn leader(&self) -> Option<usize> {
        self.lanes.iter().position(|lane| lane.state == State::Leads)
    }

    /// The leader that may act.
    pub(super) fn holder(&self, now: Duration) -> Option<usize> {
        let last = self.terms.last()?;
        (last.ended.is_none() && now < last.valid_until(now)).then_some(last.who)
    }

    /// How long after its newest beat a leader has stopped, as it promises.
    pub(super) fn promise(&self) -> Duration {
        self.replacement.promise.unwrap_or(self.replacement.lease)
    }

    /// Returns what can be done to a candidate on the page.
    pub(super) fn possible(&self, who: usize, now: Duration) -> Vec<Act> {
        let lane = &self.lanes[who];
        let runs = !lane.ended && lane.state != State::Killed;
        let moves = runs && !lane.frozen;
        let all = [
            (Act::KillMachine, runs),
            // A frozen supervisor sees nothing.
            (Act::KillProcess, moves && self.replacement.supervised),
            (Act::Start, lane.ended),
            // Elsewhere only the supervisor would stand still.
            (Act::Freeze, moves && cfg!(target_os = "linux")),
            (Act::Thaw, runs && lane.frozen),
            (Act::Partition, !lane.cut_off),
            (Act::Heal, lane.cut_off),
            (Act::Resign, moves && !lane.cut_off && self.holder(now) == Some(who)),
        ];
        all.into_iter().filter(|(_, possible)| *possible).map(|(act, _)| act).collect()
    }

    /// Notes what is done to a candidate.
    pub(super) fn act(&mut self, now: Duration, who: usize, act: Act) {
        let works = self.turns.iter().any(|turn| turn.who == who && turn.outcome.is_none());
        let during = if works { " in the middle of a turn" } else { "" };
        let ends = !matches!(act, Act::Start | Act::Thaw | Act::Heal | Act::Resign);
        let leads = ends && self.vacate(now, who, act);
        let so = |leads_so| if leads { leads_so } else { "It only followed: nothing changes." };
        let lane = &mut self.lanes[who];
        let name = lane.name;
        let text = match act {
            Act::Start => {
                lane.enter(now, State::Starting);
                lane.ended = false;
                if self.terms.is_empty() {
                    return;
                }
                format!("{name} is started again, and follows from now on.")
            }
            Act::KillMachine => {
                lane.enter(now, State::Killed);
                let so = so("The others wait until its promise is over.");
                format!("The machine of {name} dies{during} (SIGKILL to all of it). {so}")
            }
            Act::KillProcess => {
                lane.enter(now, State::Killed);
                let so = so("Its supervisor sees that, and releases the lease.");
                format!("The process of {name} dies{during} (SIGKILL). {so}")
            }
            Act::Stop => {
                lane.enter(now, State::Stopping);
                format!(
                    "{name} is asked to stop (SIGTERM). It ends its work, then releases the lease: no candidate has to \
                     wait until it expires."
                )
            }
            Act::Freeze => {
                lane.frozen = true;
                lane.spans.push((Kind::Frozen, now, None));
                let so = so("It cannot see its validity end. Thawed, its work is stopped first.");
                format!("{name} is frozen (SIGSTOP). {so}")
            }
            Act::Partition => {
                lane.cut_off = true;
                lane.spans.push((Kind::CutOff, now, None));
                let so = so("It cannot renew, and stops its work before another one may lead.");
                format!("{name} can no longer reach the store. {so}")
            }
            Act::Thaw | Act::Heal => {
                self.free(now, who, act);
                let goes_on = "goes on (SIGCONT)";
                let reaches = "can reach the store again";
                format!("{name} {}.", if act == Act::Thaw { goes_on } else { reaches })
            }
            Act::Resign => {
                lane.resigns = true;
                format!("{name} is asked to resign.")
            }
        };
        match act {
            Act::KillMachine => self.end(now, |term| term.who == who, "its machine died", false),
            Act::KillProcess => self.end(now, |term| term.who == who, "its process died", true),
            _ => {}
        }
        self.note(now, text);
    }

    /// The demo is over for a candidate.
    pub(super) fn dismiss(&mut self, now: Duration, who: usize) {
        self.lanes[who].enter(now, State::Stopping);
    }

    /// Another candidate must take over if this one leads. Returns true if it does.
    fn vacate(&mut self, now: Duration, who: usize, cause: Act) -> bool {
        let leads = self.holder(now) == Some(who);
        // The first cause counts: a frozen leader that is then killed was lost when it froze.
        if let Some(last @ Term { last_beat: None, .. }) = self.terms.last_mut().filter(|_| leads) {
            self.vacancy = Some((cause, now));
            last.last_beat = Some(now).filter(|_| cause != Act::Stop);
        }
        leads
    }

    /// A leader that is hindered no longer, and whose time is not over, gives beats again.
    fn free(&mut self, now: Duration, who: usize, act: Act) {
        let leads = self.holder(now) == Some(who);
        let lane = &mut self.lanes[who];
        let (flag, kind) = match act {
            Act::Thaw => (&mut lane.frozen, Kind::Frozen),
            _ => (&mut lane.cut_off, Kind::CutOff),
        };
        *flag = false;
        lane.close(now, kind);
        let is_free = leads && !lane.frozen && !lane.cut_off;
        if let Some(last) = self.terms.last_mut().filter(|_| is_free) {
            last.last_beat = None;
        }
    }

    /// Takes what a candidate said or did.
    pub(super) fn hear(&mut self, Heard { who, at, what }: Heard) {
        let (at, name) = (self.at(at), self.name(who));
        match what {
            What::Event(event) => self.event(who, at, event),
            What::Words(words) => self.problem(at, format!("{name} says: {words}")),
            What::Ended(how) => self.process_ended(who, at, &how),
            What::NotResigned(why) => {
                self.lanes[who].resigns = false;
                self.problem(at, format!("{name} does not resign: {why}"));
            }
        }
    }

    fn event(&mut self, who: usize, at: Duration, event: Event) {
        let lane = &mut self.lanes[who];
        let (name, may_end) = (lane.name, lane.may_end());
        match event {
            Event::Following if !may_end => lane.enter(at, State::Follows),
            Event::Elected { term, valid_for_ms } => {
                if !may_end {
                    lane.enter(at, State::Leads);
                }
                self.elected(who, at, term, Duration::from_millis(valid_for_ms));
            }
            Event::Renewed { term } => self.goes_on(at, term),
            Event::TurnStarted { term, slot } => {
                self.goes_on(at, term);
                self.began += 1;
                if let Some(of) = self.terms.iter_mut().rfind(|of| of.term == term) {
                    of.turns += 1;
                }
                self.turns.push(Turn { who, term, slot, began: at, outcome: None });
            }
            Event::TurnEnded { term, slot, outcome, detail } => {
                match outcome.as_str() {
                    "succeeded" => self.succeeded += 1,
                    _ => {
                        let detail = detail.map(|text| format!(": {text}")).unwrap_or_default();
                        let time = slot.split_once('T').map_or(&*slot, |(_, time)| time);
                        self.problem(at, format!("{name}: the turn of {time} {outcome}{detail}"));
                    }
                }
                let is_it = |turn: &&mut Turn| turn.term == term && turn.slot == slot;
                if let Some(turn) = self.turns.iter_mut().rfind(is_it) {
                    turn.outcome = Some(outcome);
                }
            }
            Event::StoodDown { term, reason } => self.stood_down(who, at, term, &reason),
            // What a supervisor reports of a process that was killed.
            Event::Problem { class, .. } if class == "process" && may_end => {}
            Event::Problem { class, detail } => {
                self.problem(at, format!("{name}: {class}: {detail}"));
            }
            Event::Following | Event::Note { .. } | Event::Other => {}
        }
    }

    /// The leader of that term still leads: it was not hindered for long enough.
    fn goes_on(&mut self, at: Duration, term: u64) {
        let leads =
            self.terms.last().is_some_and(|last| last.term == term && last.last_beat.is_none());
        let is_over = |(cause, since)| matches!(cause, Act::Freeze | Act::Partition) && since < at;
        if leads && self.vacancy.is_some_and(is_over) {
            self.vacancy = None;
        }
    }

    fn elected(&mut self, who: usize, at: Duration, term: u64, acts: Duration) {
        let name = self.name(who);
        let takeover = self.vacancy.take();
        let takeover =
            takeover.map(|(cause, since)| Takeover { cause, after: at.saturating_sub(since) });
        let text = match takeover {
            Some(Takeover { cause, after }) => {
                let (after, cause) = (brief(after), cause.cause());
                format!("{name} takes over {after} {cause}, with a higher term: {term}.")
            }
            None => format!("{name} leads, with term {term}. Only {name} runs the turns."),
        };
        self.note(at, text);
        self.end(at, |_| true, how_it_ended("validity-ended"), false);
        self.terms.push(Term {
            who,
            term,
            since: at,
            acts,
            last_beat: None,
            takeover,
            ended: None,
            released: false,
            turns: 0,
        });
    }

    fn stood_down(&mut self, who: usize, at: Duration, term: u64, reason: &str) {
        let is_followed = self.terms.last().is_some_and(|last| last.who != who);
        let lane = &mut self.lanes[who];
        let (name, asked) = (lane.name, lane.may_end());
        let how = if asked { "stopped" } else { how_it_ended(reason) };
        let hindered = matches!(self.vacancy, Some((Act::Freeze | Act::Partition, _)));
        if !asked {
            lane.enter(at, State::Follows);
            if std::mem::take(&mut lane.resigns) {
                self.vacancy = Some((Act::Resign, at));
                self.note(at, format!("{name} has given the lease back."));
            } else if hindered || lane.cut_off || is_followed {
                self.note(at, format!("{name} no longer leads: its validity has ended."));
            } else {
                self.problem(at, format!("{name} no longer leads, though unasked: {how}."));
            }
        }
        let released = asked || ["left", "resigned", "handed-over"].contains(&reason);
        self.end(at, |of| of.term == term, how, released);
    }

    fn process_ended(&mut self, who: usize, at: Duration, how: &str) {
        let lane = &mut self.lanes[who];
        let (name, asked) = (lane.name, lane.may_end());
        (lane.ended, lane.frozen) = (true, false);
        lane.close(at, Kind::Frozen);
        match lane.state {
            State::Killed => {}
            _ if asked => lane.enter(at, State::Stopped),
            _ => lane.enter(at, State::Lost),
        }
        if !asked {
            self.lost += 1;
            self.problem(at, format!("{name} has ended unasked: {how}."));
        }
        for turn in self.turns.iter_mut().filter(|turn| turn.who == who) {
            turn.outcome.get_or_insert_with(|| "cut-off".to_owned());
        }
        self.end(at, |term| term.who == who, how, false);
    }

    /// Ends the last such term, unless it has ended before.
    fn end(&mut self, at: Duration, which: impl Fn(&Term) -> bool, how: &str, released: bool) {
        if let Some(term @ Term { ended: None, .. }) =
            self.terms.iter_mut().rfind(|term| which(term))
        {
            (term.ended, term.released) = (Some((at, how.to_owned())), released);
        }
    }

    pub(super) fn note(&mut self, at: Duration, text: String) {
        self.tell(at, false, &text);
    }

    fn problem(&mut self, at: Duration, text: String) {
        self.tell(at, true, &text);
    }

    fn tell(&mut self, at: Duration, is_problem: bool, text: &str) {
        // A candidate may write what a terminal would obey.
        let text = text.replace(char::is_control, " ");
        let note = Note { at, is_problem, text };
        self.unsaid.push(note.clone());
        self.notes.push(note);
    }

    /// Forgets what ended before `before`, and what is too much.
    pub(super) fn forget(&mut self, before: Duration) {
        self.turns.retain(|turn| turn.outcome.is_none() || turn.began >= before);
        for lane in &mut self.lanes {
            lane.spans.retain(|(_, _, to)| to.is_none_or(|to| to >= before));
        }
        self.notes.drain(..self.notes.len().saturating_sub(KEPT));
        self.terms.drain(..self.terms.len().saturating_sub(KEPT));
    }
}

/// How a term ended, in few words. The log has a code for it.
fn how_it_ended(reason: &str) -> &str {
    match reason {
        "validity-ended" => "its validity ended",
        "lease-lost" => "the lease was lost",
        "work-failed" => "its work failed",
        "handed-over" => "it handed over",
        "left" => "stopped",
        "component-failed" => "the component failed",
        other => other,
    }
}
