//! From the first poll to holding the lease. protocol.md §4.1, §4.2. How the term is
//! raised is in `raising`.

mod raising;

pub(super) use raising::Raise;

use core::time::Duration;

use super::Moment;
use super::candidate::{Phase, Step, Wish, patience};
use super::chance::{Chance, lease_id};
use super::failure::Failure;
use super::next_record::next_record;
use super::pace::Pace;
use super::problem::{Problem, ProblemClass};
use super::record::{Judged, Record, Unusable};
use super::side_request::SideRequest;
use super::timings::BACK_OFF;
use crate::mutants::mutant;
use serde::{Deserialize, Serialize};
use tenure_azure::answer::{Answer, Class, LeaseState};
use tenure_azure::lease_id::LeaseId;
use tenure_azure::operation::{ETag, Operation};

/// How often a candidate polls again at once, because the blob changed under it,
/// before it waits like any follower.
const MOST_ROUNDS: u32 = 3;

/// A candidate that polls.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Watch {
    pub pace: Pace,
    /// Polls repeated at once so far.
    rounds: u32,
}

impl Watch {
    pub fn at(next: Moment) -> Self {
        Self { pace: Pace::at(next), rounds: 0 }
    }
}

/// Codes with which another candidate's lease answers an acquire.
const RACE_LOST: [&str; 2] = ["LeaseAlreadyPresent", "LeaseIsBreakingAndCannotBeAcquired"];

/// Codes with which a blob that another candidate made answers a creation.
const IT_EXISTS: [&str; 2] = ["BlobAlreadyExists", "LeaseIdMissing"];

/// The resolution of the service's dates.
pub(super) const SECOND: Duration = Duration::from_secs(1);

/// One attempt to win a term, with a lease id of its own.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Attempt {
    pub lease: LeaseId,
    /// The tag of the blob as it was read; lease operations do not change it.
    etag: ETag,
    record: Option<Record>,
    /// A request of this attempt may have been carried out unseen.
    pub unsure: bool,
    pub pace: Pace,
    /// Requests repeated at once so far.
    rounds: u32,
    /// The leader gave its lease to that id.
    handed: bool,
}

impl Attempt {
    /// The lease is given to `lease` by the leader. It is acquired anew by its holder, which gives it
    /// the length that this candidate configures; a renewal would leave it the leader's.
    pub fn inherited(lease: LeaseId, etag: ETag, record: Option<Record>, now: Moment) -> Self {
        // One round more tells the attempt apart for a seeded bug.
        let rounds = MOST_ROUNDS + u32::from(mutant!(SuccessorOnlyRenews));
        Self { lease, etag, record, unsure: true, pace: Pace::at(now), rounds, handed: true }
    }
}

type Reply = Result<Answer, Failure>;

impl Step<'_> {
    /// protocol.md §4.1. Polls, or creates what is not there.
    pub(super) fn poll(&mut self, now: Moment) -> Option<Wish> {
        let (operation, watch) = match &self.state.phase {
            Phase::Watching(watch) => (Operation::Read { lease: self.poll_as(now) }, watch),
            Phase::Creating { container: false, watch } => (Operation::CreateBlob, watch),
            Phase::Creating { container: true, watch } => (Operation::CreateContainer, watch),
            _ => return None,
        };
        (watch.pace.next <= now)
            .then_some(Wish { operation, timeout: self.settings.timings.request_timeout })
    }

    pub(super) fn polled(
        &mut self,
        watch: Watch,
        operation: &Operation,
        reply: &Reply,
        now: Moment,
        chance: &mut dyn Chance,
    ) -> Phase {
        if let Operation::Read { lease: Some(lease) } = operation {
            return self.polled_as_successor(*lease, reply, now, chance);
        }
        self.state.side_request = SideRequest::None;
        let Ok(answer) = reply else {
            return self.poll_later(watch, operation, reply, now, chance);
        };
        match (answer.class, &answer.properties, &answer.etag) {
            (Class::Done, Some(properties), Some(etag)) => {
                let time = self.state.service.estimate(now);
                let record = match Record::judge(&self.settings.election, properties, time) {
                    Ok(judged) => self.tell_ignored(judged, now),
                    // Of two dates that differ, the next one shows which is wrong.
                    Err(Unusable { by_time: true, .. })
                        if self.state.service.now(now).is_none() && watch.rounds < MOST_ROUNDS =>
                    {
                        return self.poll_again(watch.rounds, now, chance);
                    }
                    Err(problem) => return self.refuse(problem, now, chance),
                };
                let other = self.is_other_schedule(record.as_ref(), now);
                match properties.lease {
                    LeaseState::Leased | LeaseState::Breaking => {
                        if other {
                            self.leave_notice(now);
                        }
                        // A lease of our own that could not be released is nobody's.
                        let own = record.as_ref().is_some_and(|r| r.nonce == self.state.nonce);
                        let leader = record.filter(|_| !own);
                        if let Some(record) = &leader {
                            self.announce(record, now, chance);
                        }
                        let leader = leader.as_ref().map(Record::incumbent);
                        self.state.following = (!own).then_some(leader);
                        Phase::Watching(Watch::at(self.next_poll(now, chance)))
                    }
                    _ if time.is_none() => {
                        self.report_no_date(now);
                        Phase::Watching(Watch::at(self.next_try(now, chance)))
                    }
                    LeaseState::Available | LeaseState::Expired | LeaseState::Broken => {
                        self.attempt(etag.clone(), record, watch.rounds, now, chance)
                    }
                }
            }
            (Class::MissingBlob | Class::MissingContainer, ..) if self.stays_out(now) => {
                self.stay_out(now, chance)
            }
            (Class::MissingBlob, ..) => Phase::Creating { container: false, watch },
            (Class::MissingContainer, ..) => Phase::Creating { container: true, watch },
            _ => self.poll_later(watch, operation, reply, now, chance),
        }
    }

    /// The record without what no candidate writes. That is reported.
    pub(super) fn tell_ignored(&mut self, judged: Judged, now: Moment) -> Option<Record> {
        if let Some(detail) = judged.ignored {
            self.report_problem(ProblemClass::Configuration, detail, now);
        }
        judged.record
    }

    /// The blob cannot be led with as it is.
    fn refuse(&mut self, problem: Unusable, now: Moment, chance: &mut dyn Chance) -> Phase {
        self.state.following = None;
        self.report_problem(ProblemClass::Configuration, problem.detail, now);
        Phase::Watching(Watch::at(self.next_try(now, chance)))
    }

    /// Without the service's time there is no term.
    #[inline(never)]
    fn report_no_date(&mut self, now: Moment) {
        let (class, detail) = match self.state.service.estimate(now) {
            None => (
                ProblemClass::Nonsense,
                "the service's answers carry no date, so no term can be raised; see whether a proxy \
                 removes the headers Date or x-ms-request-id",
            ),
            Some(_) => (
                ProblemClass::Clock,
                "the dates of the service's answers differ by more than ten seconds from one to the \
                 next, so no term can be raised; see whether a proxy or a cache writes the header Date",
            ),
        };
        self.report_problem(class, detail.into(), now);
    }

    /// Nobody leads, but this candidate leaves the lease to the others for now.
    fn stay_out(&mut self, now: Moment, chance: &mut dyn Chance) -> Phase {
        self.state.following = None;
        Phase::Watching(Watch::at(self.next_try(now, chance)))
    }

    pub(super) fn created(
        &mut self,
        container: bool,
        mut watch: Watch,
        operation: &Operation,
        reply: &Reply,
        now: Moment,
        chance: &mut dyn Chance,
    ) -> Phase {
        self.state.following = None;
        let Ok(answer) = reply else {
            return self.poll_later(watch, operation, reply, now, chance);
        };
        let deleting = answer.code.as_deref() == Some("ContainerBeingDeleted");
        match (answer.class, container, &answer.etag) {
            (Class::Done, false, Some(etag)) => {
                self.attempt(etag.clone(), None, watch.rounds, now, chance)
            }
            (Class::Done, true, _) => Phase::Creating { container: false, watch },
            (Class::Conflict, ..) if deleting => {
                self.poll_later(watch, operation, reply, now, chance)
            }
            // Somebody else made the container.
            (Class::Conflict, true, _) => Phase::Creating { container: false, watch },
            (Class::MissingContainer, false, _) if watch.rounds < MOST_ROUNDS => {
                watch.rounds += 1;
                Phase::Creating { container: true, watch }
            }
            // Somebody else made the blob, and may lead already.
            (Class::Conflict | Class::LeaseMismatch | Class::ConditionNotMet, false, _) => {
                self.tell_unless(&IT_EXISTS, operation, reply, now);
                self.poll_again(watch.rounds, now, chance)
            }
            _ => self.poll_later(watch, operation, reply, now, chance),
        }
    }

    /// Reports an answer whose code is none of those that are part of the protocol.
    fn tell_unless(
        &mut self,
        expected: &[&str],
        operation: &Operation,
        reply: &Reply,
        now: Moment,
    ) {
        let code = reply.as_ref().ok().and_then(|answer| answer.code.as_deref());
        if code.is_some_and(|code| !expected.contains(&code)) {
            self.report_reply(operation, reply, now);
        }
    }

    /// Gives back the lease of an attempt that failed.
    pub(super) fn give_back(&self, lease: LeaseId, now: Moment) -> Phase {
        self.release(Some(lease), now, now + self.settings.timings.poll / 2)
    }

    /// The blob changed since it was read.
    fn poll_again(&self, rounds: u32, now: Moment, chance: &mut dyn Chance) -> Phase {
        if rounds < MOST_ROUNDS {
            return Phase::Watching(Watch { pace: Pace::at(now), rounds: rounds + 1 });
        }
        Phase::Watching(Watch::at(self.next_try(now, chance)))
    }

    /// It could not be read, or not created.
    fn poll_later(
        &mut self,
        watch: Watch,
        operation: &Operation,
        reply: &Reply,
        now: Moment,
        chance: &mut dyn Chance,
    ) -> Phase {
        let unknown = match reply {
            Err(_) => true,
            Ok(answer) => matches!(answer.class, Class::Unavailable | Class::Nonsense),
        };
        if unknown && watch.pace.failures == 0 {
            let mut pace = watch.pace;
            pace.failed(now, BACK_OFF, chance);
            return Phase::Watching(Watch { pace, ..watch });
        }
        self.report_reply(operation, reply, now);
        let failures = watch.pace.failures.saturating_add(1);
        let mut pace = Pace { next: self.next_poll(now, chance), failures };
        let refused = reply.as_ref().is_ok_and(|answer| answer.class == Class::Refused);
        if mutant!(StopsWhenRefused) && refused {
            pace.next = Moment::MAX;
        }
        Phase::Watching(Watch { pace, rounds: 0 })
    }

    /// Reports two different schedules on one blob: most likely two jobs that share it by mistake.
    fn is_other_schedule(&mut self, record: Option<&Record>, now: Moment) -> bool {
        let theirs = record.and_then(|record| record.schedule.as_deref());
        let problem = Problem::of_schedules(theirs, self.settings);
        let other = problem.is_some();
        if let Some(problem) = problem {
            self.report_problem(problem.class, problem.detail, now);
        }
        other
    }

    /// A blob is not acquired when this candidate could not begin to lead with its record.
    pub(super) fn judge_next(&self, record: Option<Record>, now: Moment) -> Result<(), Unusable> {
        let since = self.state.service.estimate(now).unwrap_or_default();
        let (nonce, began) = (self.state.nonce, &self.state.began);
        next_record(self.settings, nonce, began, record, since).judge_next(&self.settings.election)
    }

    fn attempt(
        &mut self,
        etag: ETag,
        record: Option<Record>,
        rounds: u32,
        now: Moment,
        chance: &mut dyn Chance,
    ) -> Phase {
        if self.stays_out(now) {
            return self.stay_out(now, chance);
        }
        if let Err(problem) = self.judge_next(record.clone(), now) {
            return self.refuse(problem, now, chance);
        }
        self.state.following = None;
        // Orders to an attempt that failed are void, and so is the id that was announced.
        self.state.steering.settle();
        self.state.successor = None;
        let (lease, pace) = (lease_id(chance), Pace::at(now));
        let (unsure, handed) = (false, false);
        Phase::Acquiring(Attempt { lease, etag, record, unsure, pace, rounds, handed })
    }

    /// protocol.md §4.2. Acquire with the attempt's lease id.
    ///
    /// One that is applied late, after another candidate raised a term, meets a changed tag
    /// instead of leaving a ghost lease.
    pub(super) fn acquire(&mut self, now: Moment) -> Option<Wish> {
        let Phase::Acquiring(attempt) = &self.state.phase else { return None };
        let timings = &self.settings.timings;
        let operation = match mutant!(SuccessorOnlyRenews) && attempt.rounds > MOST_ROUNDS {
            true => Operation::Renew { lease: attempt.lease },
            false => Operation::Acquire {
                lease: attempt.lease,
                seconds: u32::try_from(timings.lease.as_secs()).unwrap_or(u32::MAX),
                if_match: (!mutant!(AcquireWithoutCondition)).then(|| attempt.etag.clone()),
            },
        };
        (attempt.pace.next <= now).then_some(Wish { operation, timeout: timings.request_timeout })
    }

    pub(super) fn acquired(
        &mut self,
        mut attempt: Attempt,
        operation: &Operation,
        reply: &Reply,
        (sent, now): (Moment, Moment),
        chance: &mut dyn Chance,
    ) -> Phase {
        let class = reply.as_ref().map(|answer| answer.class);
        match class {
            Ok(Class::Done) => {
                let ours = reply.as_ref().is_ok_and(|answer| answer.lease == Some(attempt.lease));
                if ours || mutant!(LeaseIdNotCompared) {
                    return self.raise_term(attempt, (sent, now), chance);
                }
                self.report_reply(operation, reply, now);
                Phase::Watching(Watch::at(self.next_try(now, chance)))
            }
            // Somebody else was faster.
            Ok(Class::Conflict | Class::LeaseMismatch) => {
                self.tell_unless(&RACE_LOST, operation, reply, now);
                Phase::Watching(Watch::at(self.next_try(now, chance)))
            }
            Ok(Class::ConditionNotMet | Class::MissingBlob | Class::MissingContainer) => {
                self.poll_again(attempt.rounds, now, chance)
            }
            Ok(Class::Refused) => {
                self.report_reply(operation, reply, now);
                let next = self.next_try(now, chance);
                if !attempt.unsure {
                    return Phase::Watching(Watch::at(next));
                }
                // An earlier request may have been carried out: ask until that is known.
                attempt.pace.next = next;
                Phase::Acquiring(attempt)
            }
            Ok(Class::Unavailable | Class::Nonsense) | Err(_) => {
                if attempt.pace.failures > 0 {
                    self.report_reply(operation, reply, now);
                }
                attempt.unsure = true;
                attempt.pace.failed(now, patience(self.settings), chance);
                Phase::Acquiring(attempt)
            }
        }
    }
}
