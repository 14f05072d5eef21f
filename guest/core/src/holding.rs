//! Leading, and ceasing to lead. protocol.md §5, §6, §7.1. What a leader puts on record is
//! in `recording`.

mod recording;

use core::time::Duration;

use super::Moment;
use super::agenda::{Due, Task};
use super::candidate::{Phase, Step, Wish};
use super::chance::Chance;
use super::damping::{self, ShortLeaderships};
use super::failure::Failure;
use super::notice::FIRST_READ;
use super::one_turn::Prospect;
use super::pace::Pace;
use super::problem::{Problem, ProblemClass};
use super::record::{Outcome, Record};
use super::report::{Ending, EndingReason, Turn};
use super::service_clock::{Timestamp, nanos};
use super::slots::Delivery;
use super::timings::BACK_OFF;
use super::write::Write;
use crate::mutants::{self, mutant};
use serde::{Deserialize, Serialize};
use tenure_azure::answer::{Answer, Class};
use tenure_azure::lease_id::LeaseId;
use tenure_azure::operation::{ETag, Operation};
use tenure_base::prelude::*;

/// How often to see to a schedule that cannot be followed now.
const STUCK: Duration = Duration::from_secs(30);

/// How long after a turn went wrong its slot is tried again, the first time; twice as long each
/// time, up to [`LONGEST_REST`].
const REST: Duration = Duration::from_secs(1);
const LONGEST_REST: Duration = Duration::from_secs(60);

/// So long after a renewal was answered no other one is due: where renewals take longer than the time
/// between them, a record write goes out in this gap.
const GAP: Duration = Duration::from_millis(250);

/// Leadership.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Hold {
    pub lease: LeaseId,
    pub valid_until: Moment,
    /// When the lease was acquired.
    pub won: Moment,
    /// The lease was given to this candidate by the leader before.
    handed: bool,
    /// No schedule notice is read before.
    pub read_notice_at: Moment,
    /// No announcement of a higher priority is read before.
    pub read_announcement_at: Moment,
    renew: Pace,
    /// What is on the blob, and the outcome of the last turn, which may not be there yet.
    record: Record,
    etag: ETag,
    outcome_unwritten: bool,
    /// What was to be written when that was decided last. It is decided anew before each try, unless a
    /// try is in doubt: a read tells first whether that one was applied.
    write: Option<Write>,
    /// This write claims a turn.
    claiming: Option<Claim>,
    /// When the first claim or outcome was sent that did not get on record, if none did since.
    stalled: Option<Moment>,
    /// An operator wants a claimed slot that lies in the future forgotten.
    resets_slot: bool,
    /// A slot that went wrong is not tried again before.
    rest_until: Moment,
}

/// What is not on record of a turn that is claimed.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Claim {
    for_value: bool,
    past_due: bool,
    missed: u32,
}

impl Hold {
    pub fn new(
        lease: LeaseId,
        valid_until: Moment,
        renew: Pace,
        record: Record,
        etag: ETag,
        won: Moment,
        handed: bool,
    ) -> Self {
        Self {
            lease,
            valid_until,
            won,
            handed,
            read_notice_at: won + FIRST_READ,
            read_announcement_at: won + FIRST_READ,
            renew,
            record,
            etag,
            outcome_unwritten: false,
            write: None,
            claiming: None,
            stalled: None,
            resets_slot: false,
            rest_until: Moment::ZERO,
        }
    }

    /// Whether the newest renewal was answered.
    pub fn is_renewed(&self) -> bool {
        self.renew.failures == 0
    }

    /// The short leaderships of another candidate up to the last one, unless that one handed over.
    pub fn short_leaderships(
        &self,
        of: &str,
        max_tenure: Option<Duration>,
    ) -> Option<ShortLeaderships> {
        let last = self.record.history.leaders().first();
        let handed = self.handed && last.is_some_and(|leader| leader.name == of);
        damping::short_leaderships(&self.record, of, max_tenure).filter(|_| !handed)
    }

    pub fn term(&self) -> u64 {
        self.record.term
    }

    /// Whether a turn of the schedule was claimed since the count began: in this term, where there is
    /// one for each.
    pub fn has_worked(&self) -> bool {
        self.record.last.is_some_and(|last| last.attempt > 0)
    }

    /// Whether the record on the blob names this successor, as far as is known.
    pub fn names(&self, successor: Option<&str>) -> bool {
        self.record.successor.as_deref() == successor
    }

    /// Takes the end of a turn that was claimed under this lease.
    pub fn turn_ended(&mut self, turn: &Turn, outcome: Outcome, now: Moment) {
        if mutant!(OutcomeNotRecorded) && self.record.delivery == Delivery::AtMostOnce {
            return;
        }
        self.record.put_outcome(turn.value.is_some(), outcome);
        // A successor may be named while a turn runs.
        if let Some(write) = &mut self.write {
            write.record.put_outcome(turn.value.is_some(), outcome);
        }
        self.outcome_unwritten = true;
        if outcome != Outcome::Succeeded {
            let times = 1_u32.checked_shl(turn.attempt.saturating_sub(1)).unwrap_or(u32::MAX);
            self.rest_until = now + REST.saturating_mul(times).min(LONGEST_REST);
        }
    }

    /// The write of an outcome that is not on the blob yet, while the service answers and no other write
    /// is in doubt.
    pub fn last_write(&self, now: Moment) -> Option<Write> {
        let doubt = self.write.as_ref().is_some_and(|write| write.doubt);
        (self.outcome_unwritten && !doubt && self.renew.failures == 0)
            .then(|| Write::new(self.record.clone(), self.etag.clone(), Pace::at(now)))
    }
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
            // Where renewals take so long that one is always due, no write would ever be tried.
            let waits = self.state.turn.is_none() && self.wanted(hold, now).is_some();
            if let (true, Phase::Holding(hold)) = (waits, &mut self.state.phase) {
                hold.stalled.get_or_insert(now);
            }
            let Phase::Holding(hold) = &self.state.phase else { return None };
            return Some(Wish { operation: Operation::Renew { lease: hold.lease }, timeout });
        }
        if hold.renew.failures > 0 {
            return None; // Its next try comes soon, and a turn would soon be cut off.
        }
        self.decide_write(now);
        let Phase::Holding(hold) = &self.state.phase else { return None };
        let write = hold.write.as_ref().filter(|write| write.pace.next <= now)?;
        let timeout = self.settings.timings.for_a_write(now, hold.renew.next, hold.valid_until);
        let operation = write.operation(hold.lease);
        let operation = mutants::unconditional(mutant!(ClaimWithoutCondition), operation);
        Some(Wish { operation, timeout })
    }

    /// Reports a schedule that cannot be followed.
    pub(super) fn check_schedule(&mut self, now: Moment) {
        let (Some(Due::Ahead(_)), Phase::Holding(hold)) = (self.due(now), &self.state.phase) else {
            return;
        };
        let slot = hold.record.last.map(|last| last.slot).unwrap_or_default();
        let problem = Problem::of_slot_ahead(slot);
        self.report_problem(problem.class, problem.detail, now);
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
    pub(super) fn next_in_leadership(&self, hold: &Hold, now: Moment) -> Moment {
        let idle = self.state.turn.is_none();
        let due = self.due(now).filter(|_| idle && !self.gives_up());
        let work = match (&hold.write, due) {
            _ if hold.renew.failures > 0 => None,
            (Some(write), _) => Some(write.pace.next),
            (None, _) if self.wanted(hold, now).is_some() => Some(now),
            (None, Some(Due::In(wait))) => Some(now + wait),
            (None, Some(Due::Ahead(by))) => Some(now + by.min(STUCK)),
            (None, _) => None,
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
            _ => self.written(hold, operation, reply, (sent, now), chance),
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
                    // Too late: it does not resurrect the leadership.
                    return self.end(&hold, EndingReason::ValidityEnded);
                }
                let since = if mutant!(ValidityFromAnswer) { now } else { sent };
                hold.valid_until = since + timings.lease - timings.margin;
                // Up to an eighth early, so that the answers come at all phases of a second:
                // their dates have whole seconds, and the service's clock is read from them.
                let early = chance.bits() % nanos(timings.renew / 8);
                let next = sent + timings.renew - Duration::from_nanos(early);
                let gap = GAP.min(timings.beside_renewals(now, hold.valid_until));
                hold.renew = Pace::at(next.max(now + gap));
                (self.renewed, self.report_now) = (true, true);
                self.unless_stalled(hold, now, chance)
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
                    self.report_reply(operation, reply, now);
                }
                hold.renew.failed(now, BACK_OFF, chance);
                Phase::Holding(hold)
            }
        }
    }

    /// The service says that the lease is gone: there is nothing to release.
    fn lose(&mut self, hold: &Hold, operation: &Operation, reply: &Reply, now: Moment) -> Phase {
        if let Ok(answer) = reply {
            let detail = Problem::of_answer(answer, operation, self.settings).detail;
            self.report_problem(ProblemClass::LeaseLost, detail, now);
        }
        self.end(hold, EndingReason::LeaseLost);
        Phase::Stopping { lease: None }
    }

    /// Ends the leadership. The host stops the work; what follows waits until it was seen stopped.
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

/// For the seeded bug that takes a leadership up again: the newest ones that ended.
#[cfg(feature = "mutants")]
pub(super) mod given_up {
    use super::Hold;
    use crate::Moment;
    use core::cell::RefCell;
    use tenure_azure::lease_id::LeaseId;

    const KEPT: usize = 16;

    std::thread_local! {
        static LEADERSHIPS: RefCell<Vec<Hold>> = const { RefCell::new(Vec::new()) };
    }

    pub fn note(hold: &Hold) {
        LEADERSHIPS.with_borrow_mut(|kept| {
            kept.push(hold.clone());
            let excess = kept.len().saturating_sub(KEPT);
            kept.drain(..excess);
        });
    }

    /// The leadership of that lease, as a candidate has it that believes to hold it.
    pub fn resume(lease: LeaseId, until: Moment) -> Option<Hold> {
        let found = LEADERSHIPS
            .with_borrow(|kept| kept.iter().rev().find(|hold| hold.lease == lease).cloned());
        found.map(|hold| Hold { valid_until: until, write: None, claiming: None, ..hold })
    }
}
