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
use super::super::history::{SentRequest, Entry, History, Periods, Triggered, HistoryEvent, CandidateId, Written};
use super::super::world::Millis;
use super::dates;
use super::{Violation, violation};

/// A slot, its attempt, and the trigger that it is for, if it is none of the timer.
type Claim = (u64, u32, Option<u32>);

/// A claimed slot that nobody is done with for longer than this is left: some attempts, and the
/// longest cool-down between them.
const COMPLETION_TIMEOUT: Millis = 45_000;

/// In nanoseconds.
const MILLISECOND: u64 = 1_000_000;

/// What a leader knows of triggers.
#[derive(Clone, Copy)]
enum TriggerKnowledge {
    /// It did not look.
    NotPolled,
    /// It looked last then, and no answer came in the time that it had.
    Unanswered(Millis),
    /// It had its first answer then.
    AnsweredSince(Millis),
}

struct SlotCheck<'h> {
    history: &'h History,
    /// Where in the history the record was lost last.
    record_lost_at: usize,
    runs: BTreeSet<Claim>,
    /// Triggers that had a turn, and which attempt at it.
    trigger_runs: BTreeSet<(u32, u32)>,
    /// Triggers that wait, and since when.
    waiting: BTreeMap<u32, Millis>,
    /// Until then strangers may have written over them.
    overwritten_until: Millis,
    /// Since when the newest claim of a trigger is on record.
    trigger_claimed_at: Millis,
    claimed: BTreeMap<(CandidateId, u64, Claim), usize>,
    /// The newest slot that each candidate wrote in its last term, and that term.
    last_written: BTreeMap<CandidateId, (u64, u64)>,
    /// What is on record, and since when the newest claim is.
    last_record: Option<(Millis, Written)>,
    /// When another candidate led last, and who.
    led_since: Millis,
    leader: Option<CandidateId>,
    /// What that one knows of triggers.
    trigger_knowledge: TriggerKnowledge,
    violations: Vec<Violation>,
}

/// Judges claims and turns.
pub fn check_i5(history: &History) -> Vec<Violation> {
    let mut check = SlotCheck {
        history,
        record_lost_at: 0,
        runs: BTreeSet::new(),
        trigger_runs: BTreeSet::new(),
        waiting: BTreeMap::new(),
        overwritten_until: 0,
        trigger_claimed_at: 0,
        claimed: BTreeMap::new(),
        last_written: BTreeMap::new(),
        last_record: None,
        led_since: 0,
        leader: None,
        trigger_knowledge: TriggerKnowledge::NotPolled,
        violations: Vec::new(),
    };
    for (index, Entry { at, event }) in history.entries.iter().enumerate() {
        match *event {
            HistoryEvent::FaultInjected(fault, ..) if fault.loses_record() => {
                check.record_lost_at = index;
                check.runs.clear();
                check.trigger_runs.clear();
                check.waiting.clear();
                check.last_record = None;
            }
            HistoryEvent::FaultInjected(Fault::HostileSideBlobs, _, until) => {
                check.overwritten_until = check.overwritten_until.max(until);
            }
            HistoryEvent::Triggered(number) => {
                check.waiting.insert(number, *at);
            }
            HistoryEvent::Sent(number) => check.on_sent(*at, &history.requests[number]),
            HistoryEvent::Answered(number, _) => check.on_answer(*at, &history.requests[number]),
            HistoryEvent::Handled(..) => {
                if let Some(request) = history.accepted_request(*event) {
                    check.on_write(*at, index, request);
                }
            }
            HistoryEvent::TurnBegan { candidate, term, slot, attempt, trigger } => {
                check.on_turn_start(*at, candidate, term, (slot, attempt, trigger));
            }
            HistoryEvent::ScheduleEnded => check.on_end(*at),
            _ => {}
        }
    }
    check.violations
}

impl SlotCheck<'_> {
    fn report(&mut self, at: Millis, message: String) {
        self.violations.push(violation("I5", at, message));
    }

    fn on_sent(&mut self, at: Millis, request: &SentRequest) {
        if request.is_about_orders
            && Some(request.candidate) == self.leader
            && !matches!(self.trigger_knowledge, TriggerKnowledge::AnsweredSince(_))
        {
            self.trigger_knowledge = TriggerKnowledge::Unanswered(at);
        }
        let Some(write) = &request.write else { return };
        let (term, newest) = self.last_written.entry(request.candidate).or_default();
        let before = if *term == write.term { *newest } else { 0 };
        (*term, *newest) = (write.term, before.max(write.slot));
        if request.step != Step::Claim {
            return;
        }
        // What it wrote before in its term, it found or claimed: a turn for a trigger leaves that slot, and
        // another attempt claims no other one. The record may be lost meanwhile, which it cannot know.
        // Work that lasts waits for no slot: where that one lies ahead, its own is the next millisecond.
        let is_lasting = self.history.lives[request.candidate].every == 0;
        if write.slot <= before + if is_lasting { MILLISECOND } else { 0 } {
            return;
        }
        let time = self.history.service_time(at);
        let reported = || dates::estimated_time(self.history, request.candidate, at).unwrap_or(0);
        if write.slot > time && write.slot > reported() {
            let early_by = (write.slot - time) / 1_000_000;
            self.report(at, format!("c{} claims a slot {early_by} ms before it", request.candidate));
        }
    }

    fn on_answer(&mut self, at: Millis, request: &SentRequest) {
        let first = !matches!(self.trigger_knowledge, TriggerKnowledge::AnsweredSince(_));
        if request.is_about_orders && Some(request.candidate) == self.leader && first {
            self.trigger_knowledge = TriggerKnowledge::AnsweredSince(at);
        }
    }

    fn on_write(&mut self, at: Millis, index: usize, request: &SentRequest) {
        let Some(write) = &request.write else { return };
        match request.step {
            Step::Claim => {
                let before = self.last_record.as_ref().map(|(_, before)| before);
                let same_slot = before.is_some_and(|before| {
                    (before.slot, before.attempt) == (write.slot, write.attempt)
                });
                let scheduled = Some((write.slot, write.attempt, None));
                let Triggered { number, requested_at: slot, attempt, .. } = write.trigger;
                let trigger_claim = Some((slot, attempt, Some(number)));
                let same_trigger = before.is_some_and(|before| {
                    (before.trigger.number, before.trigger.attempt) == (number, attempt)
                });
                let claims = match same_trigger {
                    false if before.is_some() => [None, trigger_claim],
                    false => [scheduled, trigger_claim],
                    // Where both are what they were, one that never began is taken up again.
                    true => [scheduled, trigger_claim.filter(|_| same_slot)],
                };
                self.waiting.remove(&number);
                for claim in claims.into_iter().flatten() {
                    self.claimed.insert((request.candidate, write.term, claim), index);
                }
            }
            Step::Raise => {
                (self.led_since, self.leader, self.trigger_knowledge) = (at, Some(request.candidate), TriggerKnowledge::NotPolled);
            }
            _ => {}
        }
        let mut since = at;
        if let Some((_, before)) = self.last_record.clone() {
            self.compare_triggers(at, &before.trigger, &write.trigger);
        }
        if let Some((then, before)) = self.last_record.clone() {
            self.compare_records(at, &before, write);
            if (before.slot, before.attempt) == (write.slot, write.attempt) {
                since = then;
            }
        }
        self.last_record = Some((since, write.clone()));
    }

    fn compare_records(&mut self, at: Millis, before: &Written, write: &Written) {
        let seconds = |slot: u64| slot / 1_000_000_000;
        // One turn a term has no slot that could come again. Each term begins it anew, at the slot that is on
        // record where that is later than the time that its leader knows: a second, in which two terms
        // were won, or dates that stand still. A slot of the future means nothing.
        let is_lasting = self.history.lives.iter().all(|life| life.every == 0);
        let is_new_term_turn = is_lasting && write.attempt == 0;
        let dates_stand = self.history.reported_time(at) < self.history.service_time(at);
        // Its leader may have heard the time just before the clock was set right again.
        let last_known = at.saturating_sub(4 * self.history.latency);
        let is_clock_behind = self.history.is_clock_behind(at) || self.history.is_clock_behind(last_known);
        let is_ahead = before.slot > write.slot && (dates_stand || is_clock_behind);
        if is_new_term_turn && (before.slot == write.slot || is_ahead) {
            return;
        }
        if (write.slot, write.attempt) < (before.slot, before.attempt) {
            let from = (seconds(before.slot), before.attempt);
            let to = (seconds(write.slot), write.attempt);
            return self.report(at, format!("the record goes back from slot {from:?} to {to:?}"));
        }
        let is_done = write.finished == before.slot && write.is_done;
        if write.attempt > write.max_attempts.max(1) {
            let (slot, most) = (seconds(write.slot), write.max_attempts.max(1));
            self.report(at, format!("attempt {} of {most} at slot {slot}", write.attempt));
        }
        if write.slot > before.slot && before.max_attempts > 0 && before.attempt > 0 && !is_done {
            let (slot, later) = (seconds(before.slot), seconds(write.slot));
            self.report(at, format!("slot {slot} is left for {later} without an end"));
        }
        let (gap, missed_rule) = (write.slot - before.slot, self.history.rules.missed);
        if matches!(missed_rule, Missed::All(_)) && before.slot > 0 && gap > self.history.every {
            let (from, to) = (seconds(before.slot), seconds(write.slot));
            self.report(at, format!("slots between {from} and {to} are missing"));
        }
    }

    fn compare_triggers(&mut self, at: Millis, before: &Triggered, write: &Triggered) {
        let claim = |trigger: &Triggered| (trigger.requested_at, trigger.attempt);
        if claim(write) != claim(before) {
            self.trigger_claimed_at = at;
        }
        let (number, later) = (before.number, write.number);
        if claim(write) < claim(before) {
            self.report(at, format!("the record goes back from trigger {number} to {later}"));
        } else if write.attempt > write.max_attempts.max(1) {
            let most = write.max_attempts.max(1);
            self.report(at, format!("attempt {} of {most} at trigger {later}", write.attempt));
        } else if number != later && before.max_attempts > 0 && !before.is_done && !write.is_previous_done {
            self.report(at, format!("trigger {number} is left for {later} without an end"));
        }
    }

    fn on_turn_start(&mut self, at: Millis, candidate: CandidateId, term: u64, claim: Claim) {
        let problem = match self.claimed.get(&(candidate, term, claim)).copied() {
            None => "it did not claim",
            Some(index) if index >= self.record_lost_at && !self.record_run(candidate, term, claim) => "ran before",
            Some(_) => return,
        };
        let (slot, attempt, trigger) = (claim.0 / 1_000_000_000, claim.1, claim.2);
        let purpose = trigger.map(|number| format!(" for trigger {number}")).unwrap_or_default();
        let message = format!("c{candidate} runs slot {slot}{purpose}, attempt {attempt}, which {problem}");
        self.report(at, message);
    }

    /// A trigger has one turn of each attempt, whatever its slot.
    ///
    /// Where each term has one turn, slots say nothing: two terms may begin at the same instant by a service's
    /// clock that went back.
    fn record_run(&mut self, candidate: CandidateId, term: u64, claim: Claim) -> bool {
        match claim {
            (_, attempt, Some(number)) => self.trigger_runs.insert((number, attempt)),
            (_, attempt, None) if self.history.lives[candidate].every == 0 => {
                self.runs.insert((term, attempt, None))
            }
            _ => self.runs.insert(claim),
        }
    }

    /// At the end there is one candidate, and no fault.
    fn on_end(&mut self, at: Millis) {
        let is_settled = at.saturating_sub(self.led_since) > COMPLETION_TIMEOUT;
        let Some((since, write)) = self.last_record.clone().filter(|_| is_settled) else { return };
        // Where a round trip takes longer than a leader has between two renewals, it may look for a minute in vain.
        let is_known = match self.trigger_knowledge {
            // Where a renewal and a claim take all the time between two renewals, there is none to look at all. Who beats
            // looks beside its steps.
            TriggerKnowledge::NotPolled => self.leader.is_none_or(|leader| {
                let Periods { renew, failover, .. } = self.history.lives[leader].periods;
                failover.is_some() || 4 * self.history.latency < renew
            }),
            // One that does not look any more has no excuse.
            TriggerKnowledge::Unanswered(sent) => at.saturating_sub(sent) > COMPLETION_TIMEOUT,
            TriggerKnowledge::AnsweredSince(since) => at.saturating_sub(since) > COMPLETION_TIMEOUT,
        };
        let is_trigger_settled = at.saturating_sub(self.trigger_claimed_at) > COMPLETION_TIMEOUT;
        for (number, since) in std::mem::take(&mut self.waiting) {
            // Triggers have their turns one after the other, and nobody promises how soon the last one has its own: with
            // round trips of 2.3 s, of which renewals, tokens and outcomes take most, a claim takes 8 s. So what counts is
            // that they go on.
            if since > self.overwritten_until && at.saturating_sub(since) > COMPLETION_TIMEOUT && is_trigger_settled && is_known {
                let message = format!("trigger {number} was never claimed");
                self.violations.push(violation("trigger", at, message));
            }
        }
        if write.trigger.max_attempts > 0 && is_trigger_settled && !write.trigger.is_done {
            let number = write.trigger.number;
            self.report(at, format!("trigger {number} is left neither completed nor abandoned"));
        }
        let is_done = write.finished == write.slot && write.is_done;
        // Triggers come before another attempt at a slot. Where round trips take seconds, eight that wait take longer
        // than all else: so the slot is left from when no other one of them was claimed.
        // No attempt is made at a slot that lies ahead of the service's time, where its clock went back.
        let last_step = self.history.clock_steps.iter().map(|(set, _)| *set).filter(|set| *set <= at).max();
        let slot_ahead_since = last_step.filter(|set| self.history.service_time(*set) < write.slot);
        let since = slot_ahead_since.map_or(since, |set| self.history.instant_of(write.slot, since.max(set)));
        let is_overdue = at.saturating_sub(since) > COMPLETION_TIMEOUT && is_trigger_settled;
        if write.max_attempts > 0 && is_overdue && write.attempt > 0 && !is_done {
            let slot = write.slot / 1_000_000_000;
            self.report(at, format!("slot {slot} is left neither completed nor abandoned"));
        }
    }
}
