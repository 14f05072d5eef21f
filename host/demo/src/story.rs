//! What has happened so far: from what was done to the candidates and what they said about it.

mod steered;
#[cfg(test)]
mod tests;

use super::act::Act;
use super::heard::{Event, Heard, What};
use super::lane::{Hindrance, Lane, State};
use super::note::{Kind, Note};
use chrono::{DateTime, Utc};
use std::time::Duration;
use tenure::settings::Replacement;

/// All times count from the start of the demo.
#[derive(Debug)]
pub(super) struct Story {
    origin: DateTime<Utc>,
    pub replacement: Replacement,
    pub lanes: Vec<Lane>,
    pub turns: Vec<Turn>,
    pub leaderships: Vec<Leadership>,
    pub take_overs: Vec<TakeOver>,
    pub notes: Vec<Note>,
    /// Candidates that ended though nobody asked them to.
    pub lost: usize,
    /// Why somebody else must take over now, and since when.
    vacancy: Option<(Act, Duration)>,
    /// How many notes there were before those that are kept.
    notes_forgotten: usize,
    /// How many turns there were before those that are kept, and how many of them did not end well.
    pub turns_forgotten: usize,
    pub cut_off_forgotten: usize,
}

/// A turn, by the log of the candidate that ran it.
#[derive(Debug)]
pub(super) struct Turn {
    pub who: usize,
    pub term: u64,
    pub slot: String,
    pub began: Duration,
    /// When it ended, or the process that ran it did.
    pub ended: Option<Duration>,
    /// As its log tells it; none when it does not.
    pub outcome: Option<String>,
    /// Whether its process was frozen meanwhile.
    pub halted: bool,
}

impl Turn {
    /// Of all turns, this one.
    pub(super) fn key(&self) -> (u64, &str) {
        (self.term, &self.slot)
    }

    /// Whether it ended well.
    pub(super) fn done(&self) -> bool {
        self.outcome.as_deref() == Some("succeeded")
    }
}

/// One term, and who led in it.
#[derive(Debug)]
pub(super) struct Leadership {
    pub who: usize,
    pub term: u64,
    pub since: Duration,
    /// How long the leader may act after a beat.
    pub acts: Duration,
    /// The newest beat that it can have given; none while it gives them.
    pub last_sign: Option<Duration>,
    /// From whom it took over, and how soon.
    pub took_over: Option<TakeOver>,
    /// When, and how in words.
    pub ended: Option<(Duration, String)>,
    /// How many of its turns are kept no longer.
    pub turns_forgotten: usize,
}

impl Leadership {
    /// Until when the leader may act, as far as is known at `now`.
    pub(super) fn valid_until(&self, now: Duration) -> Duration {
        self.last_sign.unwrap_or(now) + self.acts
    }

    /// Until when a leader that has not given the lease back keeps the others out, with such a promise.
    pub(super) fn waits_until(&self, promise: Duration) -> Option<Duration> {
        let how = self.ended.as_ref().map_or("", |(_, how)| how);
        let given_back = matches!(how, "stopped" | "left" | "resigned" | PROCESS_DIED);
        self.last_sign.filter(|_| !given_back).map(|sign| sign + promise)
    }
}

/// How the term of a leader ended whose supervisor released its lease.
const PROCESS_DIED: &str = "its process died";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TakeOver {
    pub cause: Act,
    pub after: Duration,
}

/// A time that was measured, to what can be felt of it.
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
        let text = format!("{} candidates start. Whoever gets the lease first leads.", names.len());
        Self {
            origin,
            replacement,
            lanes: names.iter().map(|name| Lane::new(name)).collect(),
            turns: Vec::new(),
            leaderships: Vec::new(),
            take_overs: Vec::new(),
            notes: vec![Note::new(Duration::ZERO, Kind::Headline, text)],
            lost: 0,
            vacancy: None,
            notes_forgotten: 0,
            turns_forgotten: 0,
            cut_off_forgotten: 0,
        }
    }

    /// How many notes there were so far.
    pub(super) fn notes_told(&self) -> usize {
        self.notes_forgotten + self.notes.len()
    }

    /// The notes after the first `number`, as far as they are kept.
    pub(super) fn notes_since(&self, number: usize) -> impl Iterator<Item = &Note> {
        self.notes.iter().skip(number.saturating_sub(self.notes_forgotten))
    }

    /// The time since the start.
    pub(super) fn at(&self, time: DateTime<Utc>) -> Duration {
        (time - self.origin).to_std().unwrap_or_default()
    }

    /// Who leads, as far as is known.
    pub(super) fn leader(&self) -> Option<usize> {
        self.lanes.iter().position(|lane| lane.state() == Some(State::Leads))
    }

    /// What the leaders promise: to have stopped so long after their newest beat.
    pub(super) fn promise(&self) -> Duration {
        self.replacement.promise.unwrap_or(self.replacement.lease)
    }

    /// How long the promise of a leader that was killed still lasts, if nobody has taken over yet.
    pub(super) fn promise_left(&self, now: Duration) -> Option<Duration> {
        let (Act::KillMachine, _) = self.vacancy? else { return None };
        Some(self.leaderships.last()?.waits_until(self.promise())?.saturating_sub(now))
    }

    pub(super) fn start(&mut self, now: Duration, who: usize) {
        let Some(lane) = self.lanes.get_mut(who) else { return };
        lane.enter(now, State::Starting);
        (lane.ended, lane.resigns) = (false, false);
        if !self.leaderships.is_empty() {
            let text = format!("{} is started again, and follows from now on.", self.name(who));
            self.note(now, Kind::Detail, text);
        }
    }

    /// All its processes.
    pub(super) fn kill(&mut self, now: Duration, who: usize) {
        let during = self.during(who);
        let so = match self.doom(now, who, State::Killed, Act::KillMachine) {
            true => "The others wait until its promise is over.",
            false => FOLLOWED,
        };
        let name = self.name(who);
        let text = format!("The machine of {name} dies{during} (SIGKILL to all of it). {so}");
        self.headline(now, text);
    }

    /// The process that runs the election, and not its supervisor.
    pub(super) fn kill_process(&mut self, now: Duration, who: usize) {
        let during = self.during(who);
        let so = match self.doom(now, who, State::Killed, Act::KillProcess) {
            true => "Its supervisor sees that, and releases the lease.",
            false => FOLLOWED,
        };
        let text = format!("The process of {} dies{during} (SIGKILL). {so}", self.name(who));
        self.headline(now, text);
    }

    fn during(&self, who: usize) -> &'static str {
        let works = self.turns.iter().any(|turn| turn.who == who && turn.ended.is_none());
        if works { " in the middle of a turn" } else { "" }
    }

    pub(super) fn stop(&mut self, now: Duration, who: usize) {
        self.doom(now, who, State::Stopping, Act::Stop);
        let text = format!(
            "{} is asked to stop (SIGTERM). It ends its work, then releases the lease: nobody has to wait until it \
             expires.",
            self.name(who)
        );
        self.note(now, Kind::Headline, text);
    }

    pub(super) fn finish(&mut self, now: Duration) {
        let text = "The demo is over. The candidates are asked to stop, the leader last.";
        self.note(now, Kind::Headline, text);
    }

    /// The end of the demo for one candidate.
    pub(super) fn dismiss(&mut self, now: Duration, who: usize) {
        if let Some(lane) = self.lanes.get_mut(who) {
            lane.enter(now, State::Stopping);
        }
        self.note(now, Kind::Detail, format!("{} is asked to stop.", self.name(who)));
    }

    /// Takes note of what a candidate said or did.
    pub(super) fn hear(&mut self, heard: Heard) {
        let Heard { who, at, what } = heard;
        let at = self.at(at);
        match what {
            What::Event(event) => self.event(who, at, event),
            What::Words(words) => {
                self.note(at, Kind::Problem, format!("{} says: {words}", self.name(who)));
            }
            What::Ended(how) => self.ended(who, at, &how),
            What::NotResigned(why) => self.not_resigned(at, who, &why),
        }
    }

    fn event(&mut self, who: usize, at: Duration, event: Event) {
        let name = self.name(who);
        let Some(lane) = self.lanes.get_mut(who) else { return };
        match event {
            Event::Following { leader } => {
                if !lane.may_end() {
                    lane.enter(at, State::Follows);
                }
                let leader = leader.as_deref().unwrap_or("somebody");
                self.note(at, Kind::Detail, format!("{name} follows {leader}."));
            }
            Event::Elected { term, valid_for_ms } => {
                if !lane.may_end() {
                    lane.enter(at, State::Leads);
                }
                self.elected(who, at, term, Duration::from_millis(valid_for_ms));
            }
            Event::Renewed { term } => self.goes_on(at, term),
            Event::TurnStarted { term, slot, past_due } => {
                let missed = if past_due { ", also for the slots that nobody ran" } else { "" };
                let text = format!("{name} runs the turn of {}{missed}.", time_of(&slot));
                self.note(at, Kind::Detail, text);
                self.goes_on(at, term);
                self.turns.push(Turn {
                    who,
                    term,
                    slot,
                    began: at,
                    ended: None,
                    outcome: None,
                    halted: false,
                });
            }
            Event::TurnEnded { term, slot, outcome, detail } => {
                if outcome != "succeeded" {
                    let detail = detail.map(|text| format!(": {text}")).unwrap_or_default();
                    let text = format!("{name}: the turn of {} {outcome}{detail}", time_of(&slot));
                    self.note(at, Kind::Problem, text);
                }
                let turn = self.turns.iter_mut().rfind(|turn| turn.key() == (term, &slot));
                if let Some(turn) = turn {
                    // Cut off on waking, it did nothing since it was frozen.
                    if !(turn.halted && outcome == "cut-off") {
                        turn.ended = Some(at);
                    }
                    turn.outcome = Some(outcome);
                }
            }
            Event::StoodDown { term, reason } => {
                let asked = lane.may_end();
                if asked {
                    self.note(at, Kind::Detail, format!("{name} has released the lease."));
                } else if let Some(text) = self.expected_end(at, who) {
                    self.headline(at, text);
                } else if let Some(lane) = self.lanes.get_mut(who) {
                    lane.enter(at, State::Follows);
                    let why = end_of_term(&reason);
                    let text =
                        format!("{name} no longer leads, though nobody asked it to stop: {why}.");
                    self.note(at, Kind::Problem, text);
                }
                let how = if asked { "stopped" } else { end_of_term(&reason) };
                self.close(at, |leadership| leadership.term == term, how);
            }
            Event::Problem { class, detail } if class == "process" && lane.may_end() => {
                self.note(at, Kind::Detail, format!("The supervisor of {name}: {detail}"));
            }
            Event::Problem { class, detail } => {
                self.note(at, Kind::Problem, format!("{name}: {class}: {detail}"));
            }
            Event::Handler { line, stream } if stream == "stderr" => {
                self.note(at, Kind::Problem, format!("{name}: its handler says: {line}"));
            }
            Event::Handler { .. } | Event::Note { .. } | Event::Other => {}
        }
    }

    /// The leader of that term still leads.
    fn goes_on(&mut self, at: Duration, term: u64) {
        let Some(last) = self.leaderships.last().filter(|last| last.term == term) else { return };
        // It was not hindered for long enough.
        let over = |(cause, since)| matches!(cause, Act::Freeze | Act::Partition) && since < at;
        if last.last_sign.is_none() && self.vacancy.is_some_and(over) {
            self.vacancy = None;
        }
    }

    fn elected(&mut self, who: usize, at: Duration, term: u64, valid_for: Duration) {
        let name = self.name(who);
        let took_over = self.vacancy.take();
        let took_over =
            took_over.map(|(cause, since)| TakeOver { cause, after: at.saturating_sub(since) });
        self.take_overs.extend(took_over);
        let text = match took_over {
            Some(TakeOver { cause, after }) => {
                let (after, than) = (brief(after), cause.after());
                format!("{name} takes over {after} {than}, with a higher term: {term}.")
            }
            None => format!("{name} leads, with term {term}. Only {name} runs the turns."),
        };
        self.note(at, Kind::Headline, text);
        self.close(at, |_| true, end_of_term("validity-ended"));
        self.leaderships.push(Leadership {
            who,
            term,
            since: at,
            acts: valid_for,
            last_sign: None,
            took_over,
            ended: None,
            turns_forgotten: 0,
        });
    }

    fn ended(&mut self, who: usize, at: Duration, how: &str) {
        let name = self.name(who);
        let Some(lane) = self.lanes.get_mut(who) else { return };
        lane.ended = true;
        lane.free(at, Hindrance::Frozen);
        let (asked, killed) = (lane.may_end(), lane.state() == Some(State::Killed));
        if !killed {
            lane.enter(at, if asked { State::Gone } else { State::Lost });
        }
        if !asked {
            self.lost += 1;
            let text = format!("{name} has ended, though nobody asked it to: {how}.");
            self.note(at, Kind::Problem, text);
        }
        for turn in self.turns.iter_mut().filter(|turn| turn.who == who && turn.ended.is_none()) {
            turn.ended = Some(at);
        }
        self.close(at, |leadership| leadership.who == who, how);
    }

    /// The end of a candidate; whether it led.
    fn doom(&mut self, now: Duration, who: usize, state: State, cause: Act) -> bool {
        if let Some(lane) = self.lanes.get_mut(who) {
            lane.enter(now, state);
        }
        let leads = self.vacate(now, who, cause);
        let how = match cause {
            Act::KillMachine => Some("its machine died"),
            Act::KillProcess => Some(PROCESS_DIED),
            _ => None,
        };
        if let Some(how) = how {
            self.close(now, |leadership| leadership.who == who, how);
        }
        leads
    }

    fn close(&mut self, at: Duration, which: impl Fn(&Leadership) -> bool, how: &str) {
        let open = self.leaderships.iter_mut().rfind(|leadership| which(leadership));
        if let Some(leadership @ Leadership { ended: None, .. }) = open {
            leadership.ended = Some((at, how.to_owned()));
        }
    }

    fn note(&mut self, at: Duration, kind: Kind, text: impl Into<String>) {
        self.notes.push(Note::new(at, kind, text));
    }

    pub(super) fn name(&self, who: usize) -> &'static str {
        self.lanes.get(who).map_or("somebody", |lane| lane.name)
    }
}

/// What the end of a follower means.
const FOLLOWED: &str = "It only followed: nothing changes.";

/// How a term ended, in few words. The log has a code for it.
fn end_of_term(reason: &str) -> &str {
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

/// The time of day of a slot, which is all that changes within a demo.
fn time_of(slot: &str) -> &str {
    slot.split_once('T').map_or(slot, |(_, time)| time.trim_end_matches('Z'))
}
