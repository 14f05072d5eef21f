//! What has happened so far: from what was done to the candidates and what they said about it.

mod steered;
#[cfg(test)]
mod tests;

use super::heard::{Event, Heard, What};
use super::lane::{Hindrance, Lane, State};
use super::note::{Kind, Note};
use chrono::{DateTime, Utc};
use std::time::Duration;

/// All times count from the start of the demo.
#[derive(Debug)]
pub(super) struct Story {
    origin: DateTime<Utc>,
    pub lease: Duration,
    pub lanes: Vec<Lane>,
    pub turns: Vec<Turn>,
    pub leaderships: Vec<Leadership>,
    pub take_overs: Vec<TakeOver>,
    pub notes: Vec<Note>,
    /// Candidates that ended though nobody asked them to.
    pub lost: usize,
    /// Why somebody else must take over now, and since when.
    vacancy: Option<(Cause, Duration)>,
    /// How many notes there were before those that are kept.
    notes_forgotten: usize,
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
    /// Until when the leader may act without another renewal.
    pub valid_until: Duration,
    /// Until when the lease lasts without another renewal.
    pub lease_until: Duration,
    /// When, and how in words.
    pub ended: Option<(Duration, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The leader was killed.
    Crash,
    /// The leader was asked to leave.
    Stop,
    /// The leader was frozen.
    Freeze,
    /// The leader was cut off from the store.
    Partition,
    /// The leader was asked to give the lease back.
    Resign,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TakeOver {
    pub cause: Cause,
    pub after: Duration,
}

impl Story {
    pub(super) fn new(origin: DateTime<Utc>, names: &[&'static str], lease: Duration) -> Self {
        let text = format!("{} candidates start. Whoever gets the lease first leads.", names.len());
        Self {
            origin,
            lease,
            lanes: names.iter().map(|name| Lane::new(name)).collect(),
            turns: Vec::new(),
            leaderships: Vec::new(),
            take_overs: Vec::new(),
            notes: vec![Note::new(Duration::ZERO, Kind::Headline, text)],
            lost: 0,
            vacancy: None,
            notes_forgotten: 0,
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

    /// How long a lease still runs whose leader was killed, if nobody has taken over yet.
    pub(super) fn lease_left(&self, now: Duration) -> Option<Duration> {
        let (Cause::Crash, _) = self.vacancy? else { return None };
        Some(self.leaderships.last()?.lease_until.saturating_sub(now))
    }

    pub(super) fn start(&mut self, now: Duration, who: usize) {
        let Some(lane) = self.lanes.get_mut(who) else { return };
        lane.enter(now, State::Starting);
        (lane.ended, lane.listens, lane.resigns) = (false, None, false);
        if !self.leaderships.is_empty() {
            let text = format!("{} is started again, and follows from now on.", self.name(who));
            self.note(now, Kind::Detail, text);
        }
    }

    pub(super) fn kill(&mut self, now: Duration, who: usize) {
        let works = self.turns.iter().any(|turn| turn.who == who && turn.ended.is_none());
        let leads = self.doom(now, who, State::Killed, Cause::Crash);
        let during = if works { " in the middle of a turn" } else { "" };
        let so = match leads {
            true => "Nobody may take over before its lease has run out.",
            false => "It only followed: nothing changes.",
        };
        self.headline(now, format!("{} is killed{during} (SIGKILL). {so}", self.name(who)));
    }

    pub(super) fn stop(&mut self, now: Duration, who: usize) {
        self.doom(now, who, State::Stopping, Cause::Stop);
        let text = format!(
            "{} is asked to stop (SIGTERM). It ends its work, then releases the lease: nobody \
             has to wait for it to run out.",
            self.name(who)
        );
        self.note(now, Kind::Headline, text);
    }

    pub(super) fn finish(&mut self, now: Duration) {
        let text = "That is all. The candidates are asked to stop, the leader last.";
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
            Event::Renewed { term, valid_for_ms } => {
                self.renewed(at, term, Duration::from_millis(valid_for_ms));
            }
            Event::Note { detail } => {
                let address = detail.strip_prefix("listening on http://");
                lane.listens = address.map(str::to_owned).or(lane.listens.take());
            }
            Event::TurnStarted { term, slot, past_due } => {
                let missed = if past_due { ", also for the slots that nobody ran" } else { "" };
                let text = format!("{name} runs the turn of {}{missed}.", time_of(&slot));
                self.note(at, Kind::Detail, text);
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
                    let text = format!("{name} leads no longer, though nobody asked it: {why}.");
                    self.note(at, Kind::Problem, text);
                }
                let how = if asked { "stopped" } else { end_of_term(&reason) };
                self.close(at, |leadership| leadership.term == term, how);
            }
            Event::Problem { class, detail } => {
                self.note(at, Kind::Problem, format!("{name}: {class}: {detail}"));
            }
            Event::Handler { line, stream } if stream == "stderr" => {
                self.note(at, Kind::Problem, format!("{name}: its handler says: {line}"));
            }
            Event::Handler { .. } | Event::Other => {}
        }
    }

    fn renewed(&mut self, at: Duration, term: u64, valid_for: Duration) {
        let renewed = self.leaderships.iter_mut().rfind(|leadership| leadership.term == term);
        let Some(leadership) = renewed else { return };
        leadership.valid_until = at + valid_for;
        leadership.lease_until = at + self.lease;
        // It was not hindered for long enough.
        let over = |(cause, since)| matches!(cause, Cause::Freeze | Cause::Partition) && since < at;
        if self.vacancy.is_some_and(over) {
            self.vacancy = None;
        }
    }

    fn elected(&mut self, who: usize, at: Duration, term: u64, valid_for: Duration) {
        let name = self.name(who);
        let text = match self.vacancy.take() {
            Some((cause, since)) => {
                let after = at.saturating_sub(since);
                self.take_overs.push(TakeOver { cause, after });
                let than = match cause {
                    Cause::Crash => "after the kill",
                    Cause::Stop => "after the signal",
                    Cause::Freeze => "after it was frozen",
                    Cause::Partition => "after it was cut off",
                    Cause::Resign => "after it was given back",
                };
                format!(
                    "{name} takes over {:.1} s {than}, with a higher term: {term}.",
                    after.as_secs_f64()
                )
            }
            None => format!("{name} leads, with term {term}. Only {name} runs the turns."),
        };
        self.note(at, Kind::Headline, text);
        self.close(at, |_| true, end_of_term("validity-ended"));
        let (valid_until, lease_until) = (at + valid_for, at + self.lease);
        let since = at;
        self.leaderships.push(Leadership {
            who,
            term,
            since,
            valid_until,
            lease_until,
            ended: None,
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
            let text = format!("{name} has ended, though nobody asked it: {how}.");
            self.note(at, Kind::Problem, text);
        }
        for turn in self.turns.iter_mut().filter(|turn| turn.who == who && turn.ended.is_none()) {
            turn.ended = Some(at);
        }
        self.close(at, |leadership| leadership.who == who, if killed { "killed" } else { how });
    }

    /// The end of a candidate; whether it led.
    fn doom(&mut self, now: Duration, who: usize, state: State, cause: Cause) -> bool {
        if let Some(lane) = self.lanes.get_mut(who) {
            lane.enter(now, state);
        }
        self.vacate(now, who, cause)
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

/// How a term ended, in few words. The log has a code for it.
fn end_of_term(reason: &str) -> &str {
    match reason {
        "validity-ended" => "its time ran out",
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
