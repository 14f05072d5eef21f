//! I5 (protocol.md §12): turns of slots and triggers.
//!
//! - At-most-once: no slot has two turns.
//! - At-least-once: each attempt of a slot has at most one turn. Each slot is completed or
//!   abandoned before a later one, and at the end.
//! - Always: only claimed turns run, and a slot is only claimed after its instant, by the dates
//!   that its candidate received. The record never goes back. Each attempt of a trigger has at most
//!   one turn. If all missed slots have a turn, none is left out. A waiting trigger is eventually
//!   claimed (`trigger`).
//!
//! The slots are lost with the record: earlier claims no longer count, even if their turn begins
//! later.

use std::collections::{BTreeMap, BTreeSet};

use tenure_core::Missed;

use super::super::fault::Fault;
use super::super::fault::Step;
use super::super::history::{
    CandidateId, Entry, History, HistoryEvent, Periods, SentRequest, Triggered, Written,
};
use super::super::world::Millis;
use super::service_time;
use super::{Violation, violation};

/// A slot, its attempt, and its trigger, if the slot is not scheduled.
type Claim = (u64, u32, Option<u32>);

/// Time after which a claimed and unfinished slot counts as left: some attempts, and the longest
/// cool-down between them.
const COMPLETION_TIMEOUT: Millis = 45_000;

/// A millisecond in nanoseconds.
const MILLISECOND: u64 = 1_000_000;

/// A leader's knowledge of triggers.
#[derive(Clone, Copy)]
enum TriggerKnowledge {
    /// The leader has not polled.
    NotPolled,
    /// The leader last polled at this time, and its response did not come in time.
    Unanswered(Millis),
    /// The leader received its first response at this time.
    AnsweredSince(Millis),
}

struct SlotCheck<'h> {
    history: &'h History,
    /// Index in the history of the last record loss.
    record_lost_at: usize,
    runs: BTreeSet<Claim>,
    /// Triggers that had a turn, with the attempt.
    trigger_runs: BTreeSet<(u32, u32)>,
    /// Waiting triggers, with the time since when.
    waiting: BTreeMap<u32, Millis>,
    /// Time until which foreign writers may have overwritten triggers.
    overwritten_until: Millis,
    /// Time at which the newest claim of a trigger was recorded.
    trigger_claimed_at: Millis,
    claimed: BTreeMap<(CandidateId, u64, Claim), usize>,
    /// Newest slot that each candidate wrote in its last term, and that term.
    last_written: BTreeMap<CandidateId, (u64, u64)>,
    /// The last record, and when its newest claim was recorded.
    last_record: Option<(Millis, Written)>,
    /// When the leader last changed, and to whom.
    led_since: Millis,
    leader: Option<CandidateId>,
    /// That leader's knowledge of triggers.
    trigger_knowledge: TriggerKnowledge,
    violations: Vec<Violation>,
}

/// Checks claims and turns.
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
        // The leader found or claimed its earlier writes of this term. A turn for a trigger leaves
        // that slot, and another attempt claims no other slot. The leader cannot know of a record
        // loss meanwhile. Lasting work waits for no slot: if the recorded slot lies ahead, its own
        // slot is the next millisecond.
        let is_lasting = self.history.lives[request.candidate].every == 0;
        if write.slot <= before + if is_lasting { MILLISECOND } else { 0 } {
            return;
        }
        let time = self.history.service_time(at);
        let reported =
            || service_time::estimated_time(self.history, request.candidate, at).unwrap_or(0);
        if write.slot > time && write.slot > reported() {
            let early_by = (write.slot - time) / 1_000_000;
            self.report(
                at,
                format!("c{} claims a slot {early_by} ms before it", request.candidate),
            );
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
                    // If both are unchanged, a turn that never started is resumed.
                    true => [scheduled, trigger_claim.filter(|_| same_slot)],
                };
                self.waiting.remove(&number);
                for claim in claims.into_iter().flatten() {
                    self.claimed.insert((request.candidate, write.term, claim), index);
                }
            }
            Step::Raise => {
                (self.led_since, self.leader, self.trigger_knowledge) =
                    (at, Some(request.candidate), TriggerKnowledge::NotPolled);
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
        // With one turn a term, no slot can repeat. Each term starts a new turn, at the recorded
        // slot if that is later than the time that its leader knows. Causes are two terms in one
        // second, or frozen dates. A future slot has no meaning.
        let is_lasting = self.history.lives.iter().all(|life| life.every == 0);
        let is_new_term_turn = is_lasting && write.attempt == 0;
        let dates_stand = self.history.reported_time(at) < self.history.service_time(at);
        // Its leader may have received the time just before the clock was corrected.
        let last_known = at.saturating_sub(4 * self.history.latency);
        let is_clock_behind =
            self.history.is_clock_behind(at) || self.history.is_clock_behind(last_known);
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
        } else if number != later
            && before.max_attempts > 0
            && !before.is_done
            && !write.is_previous_done
        {
            self.report(at, format!("trigger {number} is left for {later} without an end"));
        }
    }

    fn on_turn_start(&mut self, at: Millis, candidate: CandidateId, term: u64, claim: Claim) {
        let problem = match self.claimed.get(&(candidate, term, claim)).copied() {
            None => "it did not claim",
            Some(index)
                if index >= self.record_lost_at && !self.record_run(candidate, term, claim) =>
            {
                "ran before"
            }
            Some(_) => return,
        };
        let (slot, attempt, trigger) = (claim.0 / 1_000_000_000, claim.1, claim.2);
        let purpose = trigger.map(|number| format!(" for trigger {number}")).unwrap_or_default();
        let message =
            format!("c{candidate} runs slot {slot}{purpose}, attempt {attempt}, which {problem}");
        self.report(at, message);
    }

    /// Records a turn and returns true if it is new.
    ///
    /// A trigger has one turn of each attempt, whatever its slot.
    ///
    /// With one turn a term, slots do not matter: two terms may begin at the same instant if the
    /// service's clock went back.
    fn record_run(&mut self, candidate: CandidateId, term: u64, claim: Claim) -> bool {
        match claim {
            (_, attempt, Some(number)) => self.trigger_runs.insert((number, attempt)),
            (_, attempt, None) if self.history.lives[candidate].every == 0 => {
                self.runs.insert((term, attempt, None))
            }
            _ => self.runs.insert(claim),
        }
    }

    /// Checks the end, with one candidate and no fault.
    fn on_end(&mut self, at: Millis) {
        let is_settled = at.saturating_sub(self.led_since) > COMPLETION_TIMEOUT;
        let Some((since, write)) = self.last_record.clone().filter(|_| is_settled) else { return };
        // If a round trip takes longer than a leader has between two renewals, its polls may fail
        // for a minute.
        let is_known = match self.trigger_knowledge {
            // If a renewal and a claim take all the time between two renewals, the leader cannot
            // poll. A leader that beats polls in parallel to its steps.
            TriggerKnowledge::NotPolled => self.leader.is_none_or(|leader| {
                let Periods { renew, failover, .. } = self.history.lives[leader].periods;
                failover.is_some() || 4 * self.history.latency < renew
            }),
            // A leader that no longer polls has no excuse.
            TriggerKnowledge::Unanswered(sent) => at.saturating_sub(sent) > COMPLETION_TIMEOUT,
            TriggerKnowledge::AnsweredSince(since) => at.saturating_sub(since) > COMPLETION_TIMEOUT,
        };
        let is_trigger_settled = at.saturating_sub(self.trigger_claimed_at) > COMPLETION_TIMEOUT;
        for (number, since) in std::mem::take(&mut self.waiting) {
            // Triggers have their turns one after the other, with no time limit for the last one.
            // With round trips of 2.3 s, mostly for renewals, tokens and outcomes, a claim takes 8
            // s. So the check only requires that they progress.
            if since > self.overwritten_until
                && at.saturating_sub(since) > COMPLETION_TIMEOUT
                && is_trigger_settled
                && is_known
            {
                let message = format!("trigger {number} was never claimed");
                self.violations.push(violation("trigger", at, message));
            }
        }
        if write.trigger.max_attempts > 0 && is_trigger_settled && !write.trigger.is_done {
            let number = write.trigger.number;
            self.report(at, format!("trigger {number} is left neither completed nor abandoned"));
        }
        let is_done = write.finished == write.slot && write.is_done;
        // Triggers come before another attempt at a slot. If round trips take seconds, eight
        // waiting triggers take longer than all else. So the slot counts as left only from the last
        // claim of a trigger. A slot that lies ahead of the service's time, after its clock went
        // back, gets no attempt.
        let last_step =
            self.history.clock_steps.iter().map(|(set, _)| *set).filter(|set| *set <= at).max();
        let slot_ahead_since = last_step.filter(|set| self.history.service_time(*set) < write.slot);
        let since = slot_ahead_since
            .map_or(since, |set| self.history.instant_of(write.slot, since.max(set)));
        let is_overdue = at.saturating_sub(since) > COMPLETION_TIMEOUT && is_trigger_settled;
        if write.max_attempts > 0 && is_overdue && write.attempt > 0 && !is_done {
            let slot = write.slot / 1_000_000_000;
            self.report(at, format!("slot {slot} is left neither completed nor abandoned"));
        }
    }
}
