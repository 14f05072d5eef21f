//! I5 (protocol.md §12). At-most-once: no slot has two turns. At-least-once: no slot has two turns of one attempt,
//! none is left neither completed nor abandoned for a later one, and none at the end. Always: no
//! turn runs that was not claimed, no slot is claimed before its instant (by the dates that its
//! candidate was told), the record never goes back, no trigger has two turns of one attempt, and where
//! all missed slots have a turn none is left out. A trigger that waits is not left for ever (`trigger`).
//!
//! With the record its slots are lost: what was claimed before does not count any more then, also
//! when its turn begins later.

use std::collections::{BTreeMap, BTreeSet};

use tenure_core::Missed;

use super::super::fault::Fault;
use super::super::fault::Step;
use super::super::history::{Asked, Entry, History, Periods, Triggered, What, Who, Written};
use super::super::world::Millis;
use super::dates;
use super::{Violation, violation};

/// A slot, its attempt, and the trigger that it is for, if it is none of the timer.
type Claim = (u64, u32, Option<u32>);

/// A claimed slot that nobody is done with for longer than this is left: some attempts, and the
/// longest cool-down between them.
const LEFT: Millis = 45_000;

/// In nanoseconds.
const MILLISECOND: u64 = 1_000_000;

/// What a leader knows of triggers.
#[derive(Clone, Copy)]
enum Knows {
    /// It did not look.
    Nothing,
    /// It looked last then, and no answer came in the time that it had.
    Unanswered(Millis),
    /// It had its first answer then.
    Since(Millis),
}

struct Judge<'h> {
    history: &'h History,
    /// Where in the history the record was lost last.
    lost: usize,
    ran: BTreeSet<Claim>,
    /// Triggers that had a turn, and which attempt at it.
    had: BTreeSet<(u32, u32)>,
    /// Triggers that wait, and since when.
    waiting: BTreeMap<u32, Millis>,
    /// Until then strangers may have written over them.
    written_over: Millis,
    /// Since when the newest claim of a trigger is on record.
    triggered: Millis,
    claimed: BTreeMap<(Who, u64, Claim), usize>,
    /// The newest slot that each candidate wrote in its last term, and that term.
    wrote: BTreeMap<Who, (u64, u64)>,
    /// What is on record, and since when the newest claim is.
    newest: Option<(Millis, Written)>,
    /// When another candidate led last, and who.
    won: Millis,
    leader: Option<Who>,
    /// What that one knows of triggers.
    knows: Knows,
    violations: Vec<Violation>,
}

/// Judges claims and turns.
pub fn i5(history: &History) -> Vec<Violation> {
    let mut judge = Judge {
        history,
        lost: 0,
        ran: BTreeSet::new(),
        had: BTreeSet::new(),
        waiting: BTreeMap::new(),
        written_over: 0,
        triggered: 0,
        claimed: BTreeMap::new(),
        wrote: BTreeMap::new(),
        newest: None,
        won: 0,
        leader: None,
        knows: Knows::Nothing,
        violations: Vec::new(),
    };
    for (index, Entry { at, what }) in history.entries.iter().enumerate() {
        match *what {
            What::Struck(fault, ..) if fault.loses_record() => {
                judge.lost = index;
                judge.ran.clear();
                judge.had.clear();
                judge.waiting.clear();
                judge.newest = None;
            }
            What::Struck(Fault::HostileSideBlobs, _, until) => {
                judge.written_over = judge.written_over.max(until);
            }
            What::Triggered(number) => {
                judge.waiting.insert(number, *at);
            }
            What::Sent(number) => judge.sent(*at, &history.asked[number]),
            What::Answered(number, _) => judge.answered(*at, &history.asked[number]),
            What::Handled(..) => {
                if let Some(asked) = history.carried_out(*what) {
                    judge.written(*at, index, asked);
                }
            }
            What::TurnBegan { who, term, slot, attempt, trigger } => {
                judge.began(*at, who, term, (slot, attempt, trigger));
            }
            What::Over => judge.over(*at),
            _ => {}
        }
    }
    judge.violations
}

impl Judge<'_> {
    fn tell(&mut self, at: Millis, what: String) {
        self.violations.push(violation("I5", at, what));
    }

    fn sent(&mut self, at: Millis, asked: &Asked) {
        if asked.of_orders
            && Some(asked.who) == self.leader
            && !matches!(self.knows, Knows::Since(_))
        {
            self.knows = Knows::Unanswered(at);
        }
        let Some(write) = &asked.write else { return };
        let (term, newest) = self.wrote.entry(asked.who).or_default();
        let before = if *term == write.term { *newest } else { 0 };
        (*term, *newest) = (write.term, before.max(write.slot));
        if asked.step != Step::Claim {
            return;
        }
        // What it wrote before in its term, it found or claimed: a turn for a trigger leaves that slot, and
        // another attempt claims no other one. The record may be lost meanwhile, which it cannot know.
        // Work that lasts waits for no slot: where that one lies ahead, its own is the next millisecond.
        let lasts = self.history.lives[asked.who].every == 0;
        if write.slot <= before + if lasts { MILLISECOND } else { 0 } {
            return;
        }
        let time = self.history.service_time(at);
        let told = || dates::told(self.history, asked.who, at).unwrap_or(0);
        if write.slot > time && write.slot > told() {
            let early = (write.slot - time) / 1_000_000;
            self.tell(at, format!("c{} claims a slot {early} ms before it", asked.who));
        }
    }

    fn answered(&mut self, at: Millis, asked: &Asked) {
        let first = !matches!(self.knows, Knows::Since(_));
        if asked.of_orders && Some(asked.who) == self.leader && first {
            self.knows = Knows::Since(at);
        }
    }

    fn written(&mut self, at: Millis, index: usize, asked: &Asked) {
        let Some(write) = &asked.write else { return };
        match asked.step {
            Step::Claim => {
                let before = self.newest.as_ref().map(|(_, before)| before);
                let same_slot = before.is_some_and(|before| {
                    (before.slot, before.attempt) == (write.slot, write.attempt)
                });
                let scheduled = Some((write.slot, write.attempt, None));
                let Triggered { number, asked: slot, attempt, .. } = write.trigger;
                let of_trigger = Some((slot, attempt, Some(number)));
                let same_trigger = before.is_some_and(|before| {
                    (before.trigger.number, before.trigger.attempt) == (number, attempt)
                });
                let all = match same_trigger {
                    false if before.is_some() => [None, of_trigger],
                    false => [scheduled, of_trigger],
                    // Where both are what they were, one that never began is taken up again.
                    true => [scheduled, of_trigger.filter(|_| same_slot)],
                };
                self.waiting.remove(&number);
                for claim in all.into_iter().flatten() {
                    self.claimed.insert((asked.who, write.term, claim), index);
                }
            }
            Step::Raise => {
                (self.won, self.leader, self.knows) = (at, Some(asked.who), Knows::Nothing);
            }
            _ => {}
        }
        let mut since = at;
        if let Some((_, before)) = self.newest.clone() {
            self.compare_triggers(at, &before.trigger, &write.trigger);
        }
        if let Some((then, before)) = self.newest.clone() {
            self.compare(at, &before, write);
            if (before.slot, before.attempt) == (write.slot, write.attempt) {
                since = then;
            }
        }
        self.newest = Some((since, write.clone()));
    }

    fn compare(&mut self, at: Millis, before: &Written, write: &Written) {
        let seconds = |slot: u64| slot / 1_000_000_000;
        // One turn a term has no slot that could come again. Each term begins it anew, at the slot that is on
        // record where that is later than the time that its leader knows: a second, in which two terms
        // were won, or dates that stand still. A slot of the future means nothing.
        let lasts = self.history.lives.iter().all(|life| life.every == 0);
        let anew = lasts && write.attempt == 0;
        let stands = self.history.told_time(at) < self.history.service_time(at);
        // Its leader may have heard the time just before the clock was set right again.
        let heard = at.saturating_sub(4 * self.history.latency);
        let behind = self.history.is_behind(at) || self.history.is_behind(heard);
        let ahead = before.slot > write.slot && (stands || behind);
        if anew && (before.slot == write.slot || ahead) {
            return;
        }
        if (write.slot, write.attempt) < (before.slot, before.attempt) {
            let from = (seconds(before.slot), before.attempt);
            let to = (seconds(write.slot), write.attempt);
            return self.tell(at, format!("the record goes back from slot {from:?} to {to:?}"));
        }
        let done = write.finished == before.slot && write.done;
        if write.attempt > write.most.max(1) {
            let (slot, most) = (seconds(write.slot), write.most.max(1));
            self.tell(at, format!("attempt {} of {most} at slot {slot}", write.attempt));
        }
        if write.slot > before.slot && before.most > 0 && before.attempt > 0 && !done {
            let (slot, later) = (seconds(before.slot), seconds(write.slot));
            self.tell(at, format!("slot {slot} is left for {later} without an end"));
        }
        let (gap, all) = (write.slot - before.slot, self.history.rules.missed);
        if matches!(all, Missed::All(_)) && before.slot > 0 && gap > self.history.every {
            let (from, to) = (seconds(before.slot), seconds(write.slot));
            self.tell(at, format!("slots between {from} and {to} are missing"));
        }
    }

    fn compare_triggers(&mut self, at: Millis, before: &Triggered, write: &Triggered) {
        let claim = |of: &Triggered| (of.asked, of.attempt);
        if claim(write) != claim(before) {
            self.triggered = at;
        }
        let (number, later) = (before.number, write.number);
        if claim(write) < claim(before) {
            self.tell(at, format!("the record goes back from trigger {number} to {later}"));
        } else if write.attempt > write.most.max(1) {
            let most = write.most.max(1);
            self.tell(at, format!("attempt {} of {most} at trigger {later}", write.attempt));
        } else if number != later && before.most > 0 && !before.done && !write.before_done {
            self.tell(at, format!("trigger {number} is left for {later} without an end"));
        }
    }

    fn began(&mut self, at: Millis, who: Who, term: u64, claim: Claim) {
        let problem = match self.claimed.get(&(who, term, claim)).copied() {
            None => "it did not claim",
            Some(index) if index >= self.lost && !self.is_new(who, term, claim) => "ran before",
            Some(_) => return,
        };
        let (slot, attempt, trigger) = (claim.0 / 1_000_000_000, claim.1, claim.2);
        let what = trigger.map(|number| format!(" for trigger {number}")).unwrap_or_default();
        let what = format!("c{who} runs slot {slot}{what}, attempt {attempt}, which {problem}");
        self.tell(at, what);
    }

    /// A trigger has one turn of each attempt, whatever its slot.
    ///
    /// Where each term has one turn, slots say nothing: two terms may begin at the same instant by a service's
    /// clock that went back.
    fn is_new(&mut self, who: Who, term: u64, claim: Claim) -> bool {
        match claim {
            (_, attempt, Some(number)) => self.had.insert((number, attempt)),
            (_, attempt, None) if self.history.lives[who].every == 0 => {
                self.ran.insert((term, attempt, None))
            }
            _ => self.ran.insert(claim),
        }
    }

    /// At the end there is one candidate, and no fault.
    fn over(&mut self, at: Millis) {
        let settled = at.saturating_sub(self.won) > LEFT;
        let Some((since, write)) = self.newest.clone().filter(|_| settled) else { return };
        // Where a round trip takes longer than a leader has between two renewals, it may look for a minute in vain.
        let known = match self.knows {
            // Where a renewal and a claim take all the time between two renewals, there is none to look at all. Who beats
            // looks beside its steps.
            Knows::Nothing => self.leader.is_none_or(|leader| {
                let Periods { renew, failover, .. } = self.history.lives[leader].periods;
                failover.is_some() || 4 * self.history.latency < renew
            }),
            // One that does not look any more has no excuse.
            Knows::Unanswered(sent) => at.saturating_sub(sent) > LEFT,
            Knows::Since(since) => at.saturating_sub(since) > LEFT,
        };
        let triggered = at.saturating_sub(self.triggered) > LEFT;
        for (number, since) in std::mem::take(&mut self.waiting) {
            // Triggers have their turns one after the other, and nobody promises how soon the last one has its own: with
            // round trips of 2.3 s, of which renewals, tokens and outcomes take most, a claim takes 8 s. So what counts is
            // that they go on.
            if since > self.written_over && at.saturating_sub(since) > LEFT && triggered && known {
                let what = format!("trigger {number} was never claimed");
                self.violations.push(violation("trigger", at, what));
            }
        }
        if write.trigger.most > 0 && triggered && !write.trigger.done {
            let number = write.trigger.number;
            self.tell(at, format!("trigger {number} is left neither completed nor abandoned"));
        }
        let done = write.finished == write.slot && write.done;
        // Triggers come before another attempt at a slot. Where round trips take seconds, eight that wait take longer
        // than all else: so the slot is left from when no other one of them was claimed.
        // No attempt is made at a slot that lies ahead of the service's time, where its clock went back.
        let back = self.history.steps.iter().map(|(set, _)| *set).filter(|set| *set <= at).max();
        let ahead = back.filter(|set| self.history.service_time(*set) < write.slot);
        let since = ahead.map_or(since, |set| self.history.when(write.slot, since.max(set)));
        let old = at.saturating_sub(since) > LEFT && triggered;
        if write.most > 0 && old && write.attempt > 0 && !done {
            let slot = write.slot / 1_000_000_000;
            self.tell(at, format!("slot {slot} is left neither completed nor abandoned"));
        }
    }
}
