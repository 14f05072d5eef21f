//! Progress of an undisturbed leader.
//!
//! The check requires three conditions: no fault affects the leader or the service, no order ends
//! its leadership, and its settings leave enough time for a record write.
//!
//! - A due slot is claimed within a renewal period and four round trips, unless a turn runs or
//!   recent work failed.
//! - The outcome of a turn is recorded within the same time. If a slot has at most one turn, the
//!   limit is five seconds and four round trips. If slots are less than ten seconds apart, it is
//!   the next claim.
//! - The outcome is recorded before the lease is released.
//! - An outcome costs at most one request. It costs none if slots have at most one turn and are
//!   less than ten seconds apart.

use tenure_core::Missed;

use super::super::fault::Step;
use super::super::history::{
    CandidateId, Entry, History, HistoryEvent, Life, Periods, RequestIndex, Triggered, Written,
};
use super::super::token::LIFETIME_RANGE;
use super::super::world::Millis;
use super::fault_periods::{FaultPeriods, Leadership, between, four_round_trips, on_slow_clock};
use super::{Violation, service_time, violation};

/// Longest time that an outcome may wait for the next claim.
const OUTCOME_DELAY: Millis = 5_000;

/// Slot interval below which an outcome always waits for the next claim.
const CLOSE_SLOTS: Millis = 10_000;

/// Longest pause between two turns of failing work.
const MAX_COOL_DOWN: Millis = 60_000;

/// Longest time that an order to hand over keeps a leader from claiming.
const ORDER_DURATION: Millis = 80_000;

/// Time for the last write of the record before a release.
const LAST_WRITE: Millis = 1_000;

/// Minimum time for a write of the record.
const MIN_WRITE_TIME: Millis = 1_000;

/// Longest lifetime of a token.
pub(super) const MAX_TOKEN_LIFETIME: Millis = 1_000 * LIFETIME_RANGE.1;

/// A turn, with its time and its slot or trigger.
struct TurnRun {
    candidate: CandidateId,
    term: u64,
    from: Millis,
    to: Millis,
    slot: u64,
    attempt: u32,
    trigger: Option<u32>,
}

struct ProgressCheck<'h> {
    history: &'h History,
    calm: FaultPeriods,
    turns: Vec<TurnRun>,
    violations: Vec<Violation>,
}

/// Checks each leadership.
pub fn check_progress(history: &History) -> Vec<Violation> {
    let (calm, turns) = (FaultPeriods::from_history(history), turn_runs(history));
    let mut check = ProgressCheck { history, calm, turns, violations: Vec::new() };
    let has_time = |leadership: &Leadership| has_time_for_writes(history, leadership.candidate);
    for leadership in Leadership::from_history(history).into_iter().filter(has_time) {
        check.check_slots(&leadership);
        check.check_outcomes(&leadership);
        check.check_writes(&leadership);
    }
    check.violations
}

/// Returns true if a record write has time for a round trip, besides two attempts of a renewal,
/// before the next renewal or the minimum.
///
/// A leader whose settings leave less time makes way.
pub(super) fn has_time_for_writes(history: &History, candidate: CandidateId) -> bool {
    let Periods { lease, margin, renew, timeout, .. } = history.lives[candidate].periods;
    let round_trip = on_slow_clock(2 * history.latency);
    let spare_time = lease.saturating_sub(margin + round_trip + 2 * timeout);
    round_trip <= spare_time.max(renew.saturating_sub(round_trip)).max(MIN_WRITE_TIME)
}

fn turn_runs(history: &History) -> Vec<TurnRun> {
    let mut turns: Vec<TurnRun> = Vec::new();
    for Entry { at, event } in &history.entries {
        match *event {
            HistoryEvent::TurnBegan { candidate, term, slot, attempt, trigger } => {
                turns.push(TurnRun {
                    candidate,
                    term,
                    from: *at,
                    to: Millis::MAX,
                    slot,
                    attempt,
                    trigger,
                });
            }
            HistoryEvent::TurnOver(candidate, term) => {
                let open_turn = turns
                    .iter_mut()
                    .rev()
                    .find(|turn| (turn.candidate, turn.term) == (candidate, term));
                if let Some(turn) = open_turn {
                    turn.to = *at;
                }
            }
            _ => {}
        }
    }
    turns
}

impl ProgressCheck<'_> {
    /// Returns a renewal period, since a renewal has priority, and four round trips.
    fn prompt_bound(&self, candidate: CandidateId) -> Millis {
        on_slow_clock(self.history.lives[candidate].periods.renew) + four_round_trips(self.history)
    }

    fn check_slots(&mut self, leadership: &Leadership) {
        let (history, candidate) = (self.history, leadership.candidate);
        let Life { every, delay, .. } = history.lives[candidate];
        let time = history.service_time(leadership.from).saturating_sub(delay);
        let Some(first) = time.checked_div(every) else { return };
        for slot in (first + 1..).map(|n| n * every) {
            let due =
                self.due_with_token(candidate, history.instant_of(slot + delay, leadership.from));
            let end = due + self.prompt_bound(candidate);
            if end >= leadership.to {
                return;
            }
            let claims = |event: &HistoryEvent| match *event {
                HistoryEvent::Sent(number) => {
                    let request = &history.requests[number];
                    (request.candidate, request.step) == (candidate, Step::Claim)
                }
                _ => false,
            };
            // A clock that went back shows slots that already had their turn.
            let earlier = between(history, 0, due).iter().rev();
            let mut writes =
                earlier.filter_map(|e| history.accepted_request(e.event)?.write.as_ref());
            if writes.next().is_some_and(|write| write.slot >= slot) {
                continue;
            }
            if history.rules.missed == Missed::Skip
                && self.is_slot_missed(candidate, slot + delay, end)
            {
                continue;
            }
            // A date with a large difference counts when the next one agrees.
            if service_time::estimated_time(history, candidate, end)
                .is_none_or(|time| time < slot + delay)
            {
                continue;
            }
            let claimed = between(history, due, end).iter().any(|entry| claims(&entry.event));
            if !claimed && self.is_undisturbed(candidate, due, end) {
                let seconds = slot / 1_000_000_000;
                let message =
                    format!("c{candidate} leads undisturbed and does not claim slot {seconds}");
                self.violations.push(violation("claim", end, message));
            }
        }
    }

    /// Returns true if a slot that was due then counts as missed: the service's clock was set
    /// forward over it.
    fn is_slot_missed(&self, candidate: CandidateId, due: u64, by: Millis) -> bool {
        let missed_after = (2 * self.history.lives[candidate].periods.lease).max(60_000);
        self.history.service_time(by) > due + missed_after * 1_000_000
    }

    /// Returns when due work is due for a candidate that waits for tokens.
    ///
    /// Without a token it sends only requests for one, and each may take as long as validity lasts.
    fn due_with_token(&self, candidate: CandidateId, due: Millis) -> Millis {
        let token_event = |Entry { at, event }: &Entry| match *event {
            HistoryEvent::TokenRequested(lacks_token) if lacks_token == candidate => {
                Some((*at, self.lacks_token(candidate, *at)))
            }
            HistoryEvent::Sent(number) if self.history.requests[number].candidate == candidate => {
                Some((*at, false))
            }
            _ => None,
        };
        let earlier =
            between(self.history, 0, due.saturating_sub(1)).iter().rev().find_map(token_event);
        let (mut from, mut lacks_token) =
            (due, earlier.is_some_and(|(_, lacks_token)| lacks_token));
        for (at, is_lacking) in
            between(self.history, due, Millis::MAX).iter().filter_map(token_event)
        {
            if lacks_token {
                from = at;
            } else if at > from + self.prompt_bound(candidate) {
                break;
            }
            lacks_token = is_lacking;
        }
        if lacks_token { Millis::MAX / 2 } else { from }
    }

    /// Returns true if the last token that it sent has expired, counted from its request and by its
    /// own clock.
    fn lacks_token(&self, candidate: CandidateId, at: Millis) -> bool {
        let earlier = 2 * self.history.latency + MAX_TOKEN_LIFETIME / 100;
        let sent = between(self.history, 0, at).iter().rev().find_map(|entry| match entry.event {
            HistoryEvent::Sent(number) => Some(&self.history.requests[number])
                .filter(|request| request.candidate == candidate),
            _ => None,
        });
        sent.and_then(|request| request.token).is_none_or(|until| until <= at + earlier)
    }

    /// Returns true if a leader has no other work, and no fault or order prevents a claim.
    fn is_undisturbed(&self, candidate: CandidateId, from: Millis, to: Millis) -> bool {
        let is_running =
            |turn: &TurnRun| turn.candidate == candidate && turn.from <= to && turn.to >= from;
        let is_hindered = |Entry { at, event }: &Entry| match *event {
            HistoryEvent::TurnFailed(failed) => failed == candidate && at + MAX_COOL_DOWN >= from,
            HistoryEvent::HandoverOrdered(target, ..) => target == candidate,
            _ => false,
        };
        let recent = between(self.history, from.saturating_sub(ORDER_DURATION), to);
        self.calm.is_calm(&[candidate], from, to)
            && !self.turns.iter().any(is_running)
            && !recent.iter().any(is_hindered)
    }

    fn check_outcomes(&mut self, leadership: &Leadership) {
        let candidate = leadership.candidate;
        let ended = |turn: &&TurnRun| (turn.candidate, turn.term) == (candidate, leadership.term);
        let mut missing = Vec::new();
        // A leader that does not know that its lease was broken writes in vain once another
        // candidate leads.
        let wins = self.history.wins();
        let next =
            wins.iter().find(|win| win.at > leadership.from).map_or(Millis::MAX, |win| win.at);
        for turn in self.turns.iter().filter(ended).filter(|turn| turn.to < next) {
            let (delay, allowed) = match self.may_delay_outcome(turn) {
                // The claim that carries the outcome is further away.
                true if self.has_close_slots(candidate)
                    && self.history.is_clock_behind(turn.to) =>
                {
                    continue;
                }
                true if self.has_close_slots(candidate) || self.next_slot_is_close(turn) => {
                    (on_slow_clock(CLOSE_SLOTS), self.prompt_bound(candidate))
                }
                true => (on_slow_clock(OUTCOME_DELAY), four_round_trips(self.history)),
                false => (0, self.prompt_bound(candidate)),
            };
            let soon = self.due_with_token(candidate, turn.to + delay) + allowed;
            let end = match soon < leadership.to {
                true => Some(soon),
                false => self.release(leadership, turn),
            };
            let Some(end) = end else { continue };
            if self.calm.is_calm(&[candidate], turn.to, end) && !self.is_recorded(turn, end) {
                let slot = turn.slot / 1_000_000_000;
                let message =
                    format!("how c{candidate}'s turn for slot {slot} ended is not on record");
                missing.push(violation("outcome", end, message));
            }
        }
        self.violations.append(&mut missing);
    }

    /// Returns true if slots are so close that outcomes always wait for the next claim.
    fn has_close_slots(&self, candidate: CandidateId) -> bool {
        let every = self.history.lives[candidate].every / 1_000_000;
        (1..CLOSE_SLOTS).contains(&every)
    }

    /// Returns true if the next slot of its own schedule soon follows the recorded slot of another
    /// schedule.
    fn next_slot_is_close(&self, turn: &TurnRun) -> bool {
        let earlier = between(self.history, 0, turn.to).iter().rev();
        let mut writes =
            earlier.filter_map(|e| self.history.accepted_request(e.event)?.write.as_ref());
        let Life { every, delay, .. } = self.history.lives[turn.candidate];
        let Some(slot) = writes.next().map(|write| write.slot) else { return false };
        let Some(since) = slot.checked_rem(every).filter(|since| *since > 0) else { return false };
        let next = slot - since + every;
        let is_upcoming = next + delay > self.history.service_time(turn.to);
        is_upcoming && next - slot < CLOSE_SLOTS * 1_000_000
    }

    /// Checks the number of writes for an outcome alone.
    fn check_writes(&mut self, leadership: &Leadership) {
        let (history, candidate) = (self.history, leadership.candidate);
        let turns: Vec<_> = self
            .turns
            .iter()
            .filter(|turn| (turn.candidate, turn.term) == (candidate, leadership.term))
            .collect();
        let ends = turns.iter().skip(1).map(|next| next.from).chain([leadership.to]);
        let mut excess = Vec::new();
        for (turn, end) in turns.iter().zip(ends).filter(|(turn, end)| turn.to < *end) {
            let entries = between(history, turn.to, end - 1);
            let outcome_request = |entry: &Entry| match entry.event {
                HistoryEvent::Sent(number) => {
                    let request = &history.requests[number];
                    let key = (request.candidate, request.step, request.lease);
                    (key == (candidate, Step::Outcome, leadership.lease)).then_some(number)
                }
                _ => None,
            };
            let sent: Vec<_> = entries.iter().filter_map(outcome_request).collect();
            let writes = sent.len();
            // A candidate of an older version does not recognise its outcome when it reads it, and
            // writes it again.
            let is_unanswered = |number: &&RequestIndex| {
                let answers =
                    |e: &Entry| matches!(e.event, HistoryEvent::Answered(of, _) if of == **number);
                history.lives[candidate].is_older_version && !entries.iter().any(answers)
            };
            let repeat_count = sent.iter().filter(is_unanswered).count();
            // A beat comes in any case, and no claim follows before the lease is released.
            let has_failover = history.lives[candidate].periods.failover.is_some();
            let waits_for_claim = self.has_close_slots(candidate)
                && turn.trigger.is_none()
                && self.may_delay_outcome(turn);
            // After the service's clock was set back, its time is briefly unknown.
            let is_ahead = turn.slot > history.service_time(turn.to);
            let waits_for_claim =
                waits_for_claim && !has_failover && !is_ahead && end < leadership.to;
            let allowed = usize::from(!waits_for_claim || self.has_trigger_outcome(turn))
                + usize::from(self.is_slot_abandoned(turn))
                + repeat_count;
            if writes > allowed && self.is_undisturbed_after(candidate, turn, end) {
                let slot = turn.slot / 1_000_000_000;
                let message = format!(
                    "c{candidate} writes {writes} times how its turn for slot {slot} ended"
                );
                excess.push(violation("outcomes", end, message));
            }
        }
        self.violations.append(&mut excess);
    }

    /// Returns true if the record has a turn for a trigger, whose rule counts too.
    fn has_trigger_outcome(&self, turn: &TurnRun) -> bool {
        let earlier = between(self.history, 0, turn.to).iter().rev();
        let mut newest =
            earlier.filter_map(|entry| self.history.accepted_request(entry.event)?.write.as_ref());
        newest.next().is_some_and(|write| write.trigger.number != 0)
    }

    /// Returns true if a slot must be abandoned after the turn of a trigger. The trigger has
    /// priority, and the slot's end is the end of another turn.
    fn is_slot_abandoned(&self, turn: &TurnRun) -> bool {
        let earlier = between(self.history, 0, turn.to).iter().rev();
        let mut newest =
            earlier.filter_map(|entry| self.history.accepted_request(entry.event)?.write.as_ref());
        let is_done = |write: &Written| write.is_done && write.finished == write.slot;
        let is_exhausted = |write: &Written| write.attempt >= write.max_attempts && !is_done(write);
        turn.trigger.is_some()
            && newest.next().is_some_and(|write| write.max_attempts > 0 && is_exhausted(write))
    }

    /// Returns true if neither a fault nor an order affected a leader from its turn on.
    fn is_undisturbed_after(&self, candidate: CandidateId, turn: &TurnRun, end: Millis) -> bool {
        let is_order = |Entry { event, .. }: &Entry| match *event {
            HistoryEvent::HandoverOrdered(target, ..) | HistoryEvent::LeaveRequested(target) => {
                target == candidate
            }
            // A handover of its own, or its cancellation, is a write too.
            HistoryEvent::Sent(number) => {
                let request = &self.history.requests[number];
                let names_successor =
                    request.write.as_ref().is_some_and(|write| write.successor.is_some());
                request.candidate == candidate && names_successor
            }
            _ => false,
        };
        let recent = between(self.history, turn.from.saturating_sub(ORDER_DURATION), end);
        self.calm.is_calm(&[candidate], turn.from, end) && !recent.iter().any(is_order)
    }

    /// Returns true if the recorded slot has at most one turn.
    fn may_delay_outcome(&self, turn: &TurnRun) -> bool {
        let earlier = between(self.history, 0, turn.to).iter().rev();
        let newest =
            earlier.filter_map(|entry| self.history.accepted_request(entry.event)?.write.as_ref());
        // The record has the rule of this turn only.
        turn.trigger.is_some() || newest.take(1).all(|write| write.max_attempts == 0)
    }

    /// Returns true if the record has the outcome of a turn.
    ///
    /// If its leader could not write for a while, the claim of the next attempt may already be due.
    /// It omits the attempt before, but includes the newest failure.
    fn is_recorded(&self, turn: &TurnRun, end: Millis) -> bool {
        let earlier = between(self.history, 0, turn.to).iter().rev();
        let earlier =
            earlier.filter_map(|entry| self.history.accepted_request(entry.event)?.write.as_ref());
        let failed = earlier.map(|write| write.failed).next();
        let is_new_failure =
            |write: &Written| write.failed.0 == turn.slot && Some(write.failed) != failed;
        let retried = |write: &Written, attempt| attempt > turn.attempt && is_new_failure(write);
        let records_outcome = |write: &Written| match turn.trigger {
            Some(number) => {
                let Triggered { number: newest, attempt, has_ended: ended, .. } = write.trigger;
                newest != number || ended || retried(write, attempt)
            }
            None => {
                write.finished >= turn.slot
                    || (write.slot == turn.slot && retried(write, write.attempt))
            }
        };
        between(self.history, turn.to, end).iter().any(|entry| {
            let request = self
                .history
                .accepted_request(entry.event)
                .filter(|a| a.candidate == turn.candidate);
            request.and_then(|request| request.write.as_ref()).is_some_and(records_outcome)
        })
    }

    /// Returns when the lease was released after a turn, if the last record write can be answered
    /// before then.
    ///
    /// A leader without a token until then could not write it.
    fn release(&self, leadership: &Leadership, turn: &TurnRun) -> Option<Millis> {
        let history = self.history;
        let gives_lease_up = |event: HistoryEvent| match event {
            HistoryEvent::Sent(number) => {
                let request = &history.requests[number];
                let is_release = matches!(request.step, Step::Release | Step::HandOver);
                is_release && request.lease == leadership.lease
            }
            _ => false,
        };
        let later = between(history, turn.to, Millis::MAX);
        let release = later.iter().find(|entry| gives_lease_up(entry.event)).map(|entry| entry.at);
        let since = self.due_with_token(leadership.candidate, turn.to);
        let had_token = |at: &Millis| since == turn.to || since < *at;
        release.filter(had_token).filter(|_| 2 * history.latency < LAST_WRITE)
    }
}
