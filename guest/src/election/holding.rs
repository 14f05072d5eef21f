//! Leading, and ceasing to lead. `protocol.md`, Holding, Losing, Slots.

use core::time::Duration;

use super::Moment;
use super::candidate::{Phase, Step, Wish, trouble};
use super::chance::Chance;
use super::failure::Failure;
use super::notice::FIRST_LOOK;
use super::one_turn::Prospect;
use super::pace::Pace;
use super::record::{Finished, LastSlot, Outcome, Record, Started};
use super::report::{Ending, EndingReason, Turn};
use super::service_clock::{Timestamp, nanos};
use super::slots::{Agenda, Delivery, Due, Task};
use super::timings::BACK_OFF;
use super::trouble::{Trouble, TroubleClass};
use super::write::{Progress, Write};
use crate::azure::answer::{Answer, Class};
use crate::azure::lease_id::LeaseId;
use crate::azure::operation::{ETag, Operation};
use crate::memory::remember;
use crate::mutants::{self, mutant};
use crate::prelude::*;

/// A turn's outcome is written by itself when the next claim, on which it could ride,
/// is further away than this: people look at it.
const RIDE: Duration = Duration::from_secs(60);

/// How often to look at a schedule that cannot be followed now.
const STUCK: Duration = Duration::from_secs(30);

/// How long after a turn went wrong its slot is tried again, the first time; twice as long each
/// time, up to [`LONGEST_REST`].
const REST: Duration = Duration::from_secs(1);
const LONGEST_REST: Duration = Duration::from_secs(60);

/// A record write is given this long at least, also when a renewal is due before.
const LEAST_WRITE: Duration = Duration::from_secs(1);

/// Leadership.
#[derive(Clone, Debug)]
pub(super) struct Hold {
    pub lease: LeaseId,
    pub valid_until: Moment,
    /// When the lease was acquired.
    pub won: Moment,
    /// No notice is looked for before.
    pub look_for_notice: Moment,
    /// Nobody of a higher priority is looked for before.
    pub look_for_heir: Moment,
    renew: Pace,
    /// What is on the blob, and the outcome of the last turn, which may not be there yet.
    record: Record,
    etag: ETag,
    outcome_unwritten: bool,
    write: Option<Write>,
    /// This write claims a turn.
    claiming: Option<Claim>,
    /// A slot that went wrong is not tried again before.
    rest_until: Moment,
}

remember!(struct Hold {
    lease, valid_until, look_for_notice, renew, record, etag, outcome_unwritten, write, claiming, won, look_for_heir,
    rest_until
});

/// What is not on record of a turn that is claimed.
#[derive(Clone, Copy, Debug)]
struct Claim {
    for_value: bool,
    past_due: bool,
    missed: u32,
}

remember!(struct Claim { for_value, past_due, missed });

impl Hold {
    pub fn new(
        lease: LeaseId,
        valid_until: Moment,
        renew: Pace,
        record: Record,
        etag: ETag,
        won: Moment,
    ) -> Self {
        Self {
            lease,
            valid_until,
            won,
            look_for_notice: won + FIRST_LOOK,
            look_for_heir: won + FIRST_LOOK,
            renew,
            record,
            etag,
            outcome_unwritten: false,
            write: None,
            claiming: None,
            rest_until: Moment::ZERO,
        }
    }

    /// Whether the newest renewal was answered.
    pub fn is_renewed(&self) -> bool {
        self.renew.failures == 0
    }

    pub fn term(&self) -> u64 {
        self.record.term
    }

    /// Whether a turn of the schedule was claimed since the count began: in this term, where there is
    /// one for each.
    pub fn has_worked(&self) -> bool {
        self.record.last.is_some_and(|last| last.attempt > 0)
    }

    /// Whether a write of the record is under way that is worth waiting for: one that failed once may
    /// do so for ever.
    pub fn writes(&self) -> bool {
        self.write.as_ref().is_some_and(|write| write.pace.failures == 0)
    }

    /// Whether the record on the blob names this heir.
    pub fn names(&self, heir: Option<&str>) -> bool {
        self.write.is_none() && self.record.heir.as_deref() == heir
    }

    /// Takes the end of a turn that was claimed under this lease.
    pub fn turn_ended(&mut self, turn: &Turn, outcome: Outcome, now: Moment) {
        if mutant!(OutcomeNotRecorded) && self.record.delivery == Delivery::AtMostOnce {
            return;
        }
        put_outcome(&mut self.record, turn.value.is_some(), outcome);
        // An heir may be named while a turn runs.
        if let Some(write) = &mut self.write {
            put_outcome(&mut write.record, turn.value.is_some(), outcome);
        }
        self.outcome_unwritten = true;
        if outcome != Outcome::Succeeded {
            let times = 1_u32.checked_shl(turn.attempt.saturating_sub(1)).unwrap_or(u32::MAX);
            self.rest_until = now + REST.saturating_mul(times).min(LONGEST_REST);
        }
    }

    /// The write of an outcome that is not on the blob yet, while the service answers and no other write
    /// is under way.
    pub fn last_write(&self, now: Moment) -> Option<Write> {
        let settled = self.write.is_none() && self.renew.failures == 0;
        (self.outcome_unwritten && settled)
            .then(|| Write::new(self.record.clone(), self.etag.clone(), Pace::at(now)))
    }
}

/// Puts the outcome of the newest turn, for a value or of the schedule, into the record.
pub(super) fn put_outcome(record: &mut Record, for_value: bool, outcome: Outcome) {
    match (&mut record.started, record.last) {
        (Some(started), _) if for_value => started.outcome = Some(outcome),
        (_, Some(last)) if !for_value => {
            record.finished = Some(Finished { slot: last.slot, outcome });
        }
        _ => {}
    }
}

/// Puts the claim of a turn into the record.
fn put_claim(record: &mut Record, task: Task, delivery: Delivery) -> Claim {
    let Task { slot, value, attempt, past_due, missed } = task;
    let claim = Claim { for_value: value.is_some(), past_due, missed };
    match value {
        Some(value) => {
            // Another attempt is made under the rule of the first one.
            let before = record.started.as_ref().filter(|_| attempt > 1);
            let delivery = before.map_or(delivery, |before| before.delivery);
            record.start(Started { value, slot, attempt, delivery, outcome: None });
        }
        None => {
            record.last = Some(LastSlot { slot, attempt });
            if attempt == 1 {
                record.delivery = delivery;
            }
        }
    }
    claim
}

type Reply = Result<Answer, Failure>;

impl Step<'_> {
    /// Renews before anything else; then writes what is to be written; then claims.
    pub(super) fn hold(&mut self, now: Moment) -> Option<Wish> {
        let Phase::Holding(hold) = &self.state.phase else { return None };
        let left = hold.valid_until.saturating_sub(now);
        if left.is_zero() {
            let hold = hold.clone();
            self.state.phase = self.end(&hold, EndingReason::ValidityEnded);
            return None;
        }
        if self.give_up(now) {
            return self.send_release(now);
        }
        let Phase::Holding(hold) = &self.state.phase else { return None };
        let timeout = self.settings.timings.request_timeout.min(left);
        if hold.renew.next <= now {
            return Some(Wish { operation: Operation::Renew { lease: hold.lease }, timeout });
        }
        if hold.write.is_none() {
            self.decide_write(now);
        }
        let Phase::Holding(hold) = &self.state.phase else { return None };
        let write = hold.write.as_ref().filter(|write| write.pace.next <= now)?;
        let timeout = timeout.min(LEAST_WRITE.max(hold.renew.next.saturating_sub(now)));
        let operation = write.operation(hold.lease);
        let operation = mutants::unconditional(mutant!(ClaimWithoutCondition), operation);
        Some(Wish { operation, timeout })
    }

    /// Claims a slot that is due, or records how a turn ended. Never while a turn runs, and
    /// never while a renewal is in trouble: the turn would soon be cut off.
    fn decide_write(&mut self, now: Moment) {
        let turn_runs = self.state.turn.is_some();
        // What is named to the others may be so at any time.
        let heir = self.state.steering.hand_over().map(|order| order.to.clone());
        let due = self.due(now).filter(|_| !turn_runs && !self.gives_up());
        let complete = !turn_runs && self.outcome_is_to_be_written(due.as_ref());
        let Phase::Holding(hold) = &mut self.state.phase else { return };
        if hold.renew.failures > 0 {
            return;
        }
        let names = hold.names(heir.as_deref());
        let mut record = Record { heir, ..hold.record.clone() };
        let mut abandoned = None;
        match due {
            Some(Due::Now(task)) => {
                let delivery = self.settings.agenda.delivery;
                hold.claiming = Some(put_claim(&mut record, task, delivery));
            }
            Some(Due::Abandon(task)) => {
                put_outcome(&mut record, task.value.is_some(), Outcome::Abandoned);
                abandoned = Some(task);
            }
            _ if complete || !names => {}
            _ => return,
        }
        if let (true, Some(claim)) = (mutant!(ClaimNotAwaited), hold.claiming) {
            hold.record = record;
            let hold = hold.clone();
            return self.start_turn(&hold, claim);
        }
        hold.write = Some(Write::new(record, hold.etag.clone(), Pace::at(now)));
        if let Some(Task { slot, value, attempt, .. }) = abandoned {
            let what = match value {
                Some(value) => format!("the turn for the value \"{value}\""),
                None => format!("the slot {}", slot.to_rfc3339()),
            };
            let detail = format!(
                "{what} is abandoned after {attempt} attempts; see to why they went wrong. \
                 TENURE_MAX_ATTEMPTS sets the number"
            );
            self.tell(TroubleClass::Work, detail, now);
        }
    }

    /// Whether an outcome is to be written by itself: people look at it, and at-least-once
    /// delivery is done with the slot only then.
    fn outcome_is_to_be_written(&self, due: Option<&Due>) -> bool {
        let Phase::Holding(hold) = &self.state.phase else { return false };
        let rules = [Some(hold.record.delivery), hold.record.started.as_ref().map(|s| s.delivery)];
        let may_wait = rules.into_iter().flatten().all(|rule| rule == Delivery::AtMostOnce);
        let soon = matches!(due, Some(Due::In(wait)) if may_wait && *wait <= RIDE);
        hold.outcome_unwritten && !soon
    }

    /// Has the host run the turn that was claimed last.
    fn start_turn(&mut self, hold: &Hold, claim: Claim) {
        let record = &hold.record;
        let (slot, value, attempt) = match (&record.started, record.last) {
            (Some(Started { value, slot, attempt, .. }), _) if claim.for_value => {
                (*slot, Some(value.clone()), *attempt)
            }
            (_, Some(LastSlot { slot, attempt })) => (slot, None, attempt),
            _ => return,
        };
        let turn = Turn {
            term: record.term,
            slot,
            value,
            attempt,
            past_due: claim.past_due,
            missed: claim.missed,
            valid_for: hold.valid_until.saturating_sub(self.started),
            time_limit: self.settings.watchdog.turn_timeout,
        };
        self.state.turn = Some(turn.clone());
        self.run = Some(turn);
    }

    /// Forgets a claimed slot that lies in the future, on an operator's word.
    pub(super) fn reset_slot(&mut self, now: Moment) {
        let Some(time) = self.slot_time(now) else { return };
        let Phase::Holding(hold) = &mut self.state.phase else { return };
        // A write under way is the turn of a value, or its outcome: the operator asks again.
        if hold.write.is_some() || Agenda::ahead(time, &hold.record).is_none() {
            return;
        }
        let last = Some(self.settings.agenda.begin(time));
        let record = Record { last, ..hold.record.clone() };
        hold.write = Some(Write::new(record, hold.etag.clone(), Pace::at(now)));
    }

    /// Tells of a schedule that cannot be followed.
    pub(super) fn check_schedule(&mut self, now: Moment) {
        let (Some(Due::Ahead(_)), Phase::Holding(hold)) = (self.due(now), &self.state.phase) else {
            return;
        };
        let slot = hold.record.last.map(|last| last.slot).unwrap_or_default();
        let trouble = Trouble::of_slot_ahead(slot);
        self.tell(trouble.class, trouble.detail, now);
    }

    fn due(&self, now: Moment) -> Option<Due> {
        let Phase::Holding(hold) = &self.state.phase else { return None };
        if mutant!(NothingClaimed) {
            return Some(Due::Nothing);
        }
        let due = self.settings.agenda.due(self.slot_time(now)?, &hold.record);
        let rest = hold.rest_until.saturating_sub(now);
        Some(match due {
            Due::Now(Task { attempt: 2.., .. }) if !rest.is_zero() => Due::In(rest),
            due => due,
        })
    }

    /// A leader's part of [`Step::prospect`].
    pub(super) fn prospect_of_leader(&self, hold: &Hold, now: Moment) -> Prospect {
        let due = matches!(self.due(now), Some(Due::Now(_) | Due::Abandon(_)));
        let to_claim = due && self.state.turn.is_none();
        match self.slot_time(now) {
            Some(time) if hold.write.is_none() && !to_claim => {
                Prospect::Leading { record: Box::new(hold.record.clone()), time }
            }
            _ => Prospect::UnderWay,
        }
    }

    /// The time by which slots are counted: the service's.
    fn slot_time(&self, now: Moment) -> Option<Timestamp> {
        #[cfg(feature = "mutants")]
        if mutant!(SlotsInLocalTime) {
            return crate::mutants::local::time(self.state.nonce, now);
        }
        self.state.service.now(now)
    }

    /// When a leader has to be called again at the latest.
    pub(super) fn next_in_tenancy(&self, hold: &Hold, now: Moment) -> Moment {
        let due = self.due(now).filter(|_| !self.gives_up());
        let heir = self.state.steering.hand_over().map(|order| order.to.as_str());
        let work = match (&hold.write, &due) {
            (Some(write), _) => Some(write.pace.next),
            (None, _) if hold.renew.failures > 0 => None,
            (None, _) if !hold.names(heir) => Some(now),
            (None, _) if self.state.turn.is_some() => None,
            (None, Some(Due::Now(_) | Due::Abandon(_))) => Some(now),
            (None, due) if self.outcome_is_to_be_written(due.as_ref()) => Some(now),
            (None, Some(Due::In(wait))) => Some(now + *wait),
            (None, Some(Due::Ahead(by))) => Some(now + (*by).min(STUCK)),
            (None, Some(Due::Nothing) | None) => None,
        };
        let next = hold.renew.next.min(hold.valid_until);
        let steered = self.next_in_steering(hold, now);
        [work, steered].into_iter().flatten().fold(next, Moment::min)
    }

    pub(super) fn held(
        &mut self,
        hold: Hold,
        operation: &Operation,
        reply: &Reply,
        (sent, now): (Moment, Moment),
        chance: &mut dyn Chance,
    ) -> Phase {
        match operation {
            Operation::Renew { .. } => self.renewal(hold, operation, reply, (sent, now), chance),
            _ => self.written(hold, operation, reply, now, chance),
        }
    }

    fn renewal(
        &mut self,
        mut hold: Hold,
        operation: &Operation,
        reply: &Reply,
        (sent, now): (Moment, Moment),
        chance: &mut dyn Chance,
    ) -> Phase {
        let timings = &self.settings.timings;
        match reply.as_ref().map(|answer| (answer.class, answer.lease)) {
            Ok((Class::Done, lease))
                if lease == Some(hold.lease)
                    || mutant!(LeaseIdNotCompared)
                    || mutant!(LeaseIdAdopted) =>
            {
                if let (true, Some(lease)) = (mutant!(LeaseIdAdopted), lease) {
                    hold.lease = lease;
                }
                if now >= hold.valid_until && !mutant!(LateRenewalAdopted) {
                    // Too late: it does not resurrect the tenancy.
                    return self.end(&hold, EndingReason::ValidityEnded);
                }
                let since = if mutant!(ValidityFromAnswer) { now } else { sent };
                hold.valid_until = since + timings.lease - timings.margin;
                // Up to an eighth early, so that the answers come at all phases of a second:
                // their dates have whole seconds, and the service's clock is read from them.
                let early = chance.bits() % nanos(timings.renew / 8);
                hold.renew = Pace::at(sent + timings.renew - Duration::from_nanos(early));
                (self.renewed, self.tell_now) = (true, true);
                Phase::Holding(hold)
            }
            // Azurite renews whoever holds the lease, whatever the id that was sent.
            Ok((Class::Done | Class::Conflict | Class::LeaseMismatch, _))
            | Ok((Class::MissingBlob | Class::MissingContainer, _)) => {
                self.lose(&hold, operation, reply, now)
            }
            Ok((
                Class::Refused | Class::Unavailable | Class::Nonsense | Class::ConditionNotMet,
                _,
            ))
            | Err(_) => {
                let refused = reply.as_ref().is_ok_and(|answer| answer.class == Class::Refused);
                if refused || hold.renew.failures > 0 {
                    self.tell_reply(operation, reply, now);
                }
                hold.renew.failed(now, BACK_OFF, chance);
                Phase::Holding(hold)
            }
        }
    }

    fn written(
        &mut self,
        mut hold: Hold,
        operation: &Operation,
        reply: &Reply,
        now: Moment,
        chance: &mut dyn Chance,
    ) -> Phase {
        let Some(mut write) = hold.write.take() else { return Phase::Holding(hold) };
        match write.answered(reply.as_ref().ok()) {
            Progress::Done(etag) => {
                hold.etag = etag;
                hold.record = write.record;
                hold.outcome_unwritten = false;
                if let Some(claim) = hold.claiming.take() {
                    self.start_turn(&hold, claim);
                }
                return Phase::Holding(hold);
            }
            Progress::Onward => write.pace.next = now,
            Progress::Again => {
                if write.pace.failures > 0 {
                    self.tell_reply(operation, reply, now);
                }
                write.pace.failed(now, BACK_OFF, chance);
            }
            Progress::LeaseLost => return self.lose(&hold, operation, reply, now),
            Progress::Outdone => {
                let detail = "the record was written over while this candidate held the lease; \
                              somebody broke the lease or restored the blob";
                self.tell(TroubleClass::LeaseLost, detail.into(), now);
                return self.end(&hold, EndingReason::LeaseLost);
            }
        }
        hold.write = Some(write);
        Phase::Holding(hold)
    }

    /// The service says that the lease is gone: there is nothing to release.
    fn lose(&mut self, hold: &Hold, operation: &Operation, reply: &Reply, now: Moment) -> Phase {
        if let Ok(answer) = reply {
            let detail = trouble(answer, operation, self.settings).detail;
            self.tell(TroubleClass::LeaseLost, detail, now);
        }
        self.end(hold, EndingReason::LeaseLost);
        Phase::Stopping { lease: None }
    }

    /// Ends the tenancy. The host stops the work; what follows waits until it was seen stopped.
    fn end(&mut self, hold: &Hold, reason: EndingReason) -> Phase {
        #[cfg(feature = "mutants")]
        given_up::note(hold);
        self.state.steering.settle();
        self.ending = Some(Ending { term: hold.term(), reason });
        if self.run.take().is_some() {
            self.state.turn = None; // Claimed in this very step, and never to be started.
        }
        Phase::Stopping { lease: Some(hold.lease) }
    }
}

/// For the seeded bug that takes a tenancy up again: the newest ones that ended.
#[cfg(feature = "mutants")]
pub(super) mod given_up {
    use super::Hold;
    use crate::azure::lease_id::LeaseId;
    use crate::election::Moment;
    use core::cell::RefCell;

    const KEPT: usize = 16;

    std::thread_local! {
        static TENANCIES: RefCell<Vec<Hold>> = const { RefCell::new(Vec::new()) };
    }

    pub fn note(hold: &Hold) {
        TENANCIES.with_borrow_mut(|kept| {
            kept.push(hold.clone());
            let excess = kept.len().saturating_sub(KEPT);
            kept.drain(..excess);
        });
    }

    /// The tenancy of that lease, as one that takes itself for the holder has it.
    pub fn resume(lease: LeaseId, until: Moment) -> Option<Hold> {
        let found = TENANCIES
            .with_borrow(|kept| kept.iter().rev().find(|hold| hold.lease == lease).cloned());
        found.map(|hold| Hold { valid_until: until, write: None, claiming: None, ..hold })
    }
}
