//! From the lease to leading: the term is raised. protocol.md §4.3, §4.4.

use core::time::Duration;

use super::super::Moment;
use super::super::candidate::{Phase, Step, Wish};
use super::super::chance::Chance;
use super::super::holding::Hold;
use super::super::next_record::next_record;
use super::super::pace::Pace;
use super::super::problem::ProblemClass;
use super::super::timings::BACK_OFF;
use super::super::write::{Progress, Write};
use super::{Attempt, MOST_ROUNDS, Reply, SECOND};
use crate::mutants::{self, mutant};
use serde::{Deserialize, Serialize};
use tenure_azure::lease_id::LeaseId;
use tenure_azure::operation::Operation;

/// The lease is ours; the term is not raised yet.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Raise {
    pub lease: LeaseId,
    acquired: Moment,
    valid_until: Moment,
    write: Write,
    /// How long the candidate stays out of the race when the term cannot be raised.
    stays_out: Duration,
    /// As in [`Attempt`].
    handed: bool,
}

impl Raise {
    /// When it is too late to lead by this lease.
    pub fn valid_until(&self) -> Moment {
        self.valid_until
    }

    /// When to go on at the latest.
    pub fn next(&self) -> Moment {
        self.write.pace.next.min(self.valid_until)
    }
}

impl Step<'_> {
    /// protocol.md §4.3. Raise the term.
    pub(crate) fn raise_term(
        &mut self,
        mut attempt: Attempt,
        (sent, now): (Moment, Moment),
        chance: &mut dyn Chance,
    ) -> Phase {
        let timings = &self.settings.timings;
        let Some(since) = self.state.service.now(now) else {
            if attempt.rounds < MOST_ROUNDS && self.state.service.estimate(now).is_some() {
                // No two dates agree so far, so no term can be raised. The same request again brings
                // another one.
                attempt.rounds += 1;
                (attempt.unsure, attempt.pace) = (true, Pace::at(now));
                return Phase::Acquiring(attempt);
            }
            self.report_no_date(now);
            return self.not_raised(attempt.lease, now, chance);
        };
        let election = &self.settings.election;
        let judged = attempt.record.as_ref().map_or(Ok(()), |r| r.judge_term(election, since));
        if let Err(problem) = judged {
            self.report_problem(ProblemClass::Configuration, problem.detail, now);
            return self.not_raised(attempt.lease, now, chance);
        }
        // Without a record the second is waited out, under the lease: see `next_record`.
        let waits = attempt.record.is_none() && !mutant!(SecondNotWaitedOut);
        let wait = if waits { SECOND } else { Duration::ZERO };
        let before = attempt.record.as_ref();
        let own = before.is_some_and(|record| record.nonce == self.state.nonce);
        self.state.handed.has_lease(own, since);
        let (nonce, began) = (self.state.nonce, &self.state.began);
        let record = next_record(self.settings, nonce, began, attempt.record, since);
        let write = Write::new(record, attempt.etag, Pace::at(now + wait));
        let since = if mutant!(ValidityFromAnswer) { now } else { sent };
        let valid_until = since + timings.lease - timings.margin;
        let (lease, handed, stays_out) = (attempt.lease, attempt.handed, Duration::ZERO);
        Phase::Raising(Raise { lease, acquired: sent, valid_until, write, stays_out, handed })
    }

    pub(crate) fn raise(&mut self, now: Moment) -> Option<Wish> {
        let Phase::Raising(raise) = &self.state.phase else { return None };
        let (lease, left) = (raise.lease, raise.valid_until.saturating_sub(now));
        if left.is_zero() {
            // protocol.md §4.4. One that cannot finish inside its validity releases.
            self.state.health.not_raised(now + raise.stays_out);
            self.state.phase = self.give_back(lease, now);
            return self.send_release(now);
        }
        (raise.write.pace.next <= now).then(|| Wish {
            operation: mutants::unconditional(
                mutant!(TermWithoutCondition),
                raise.write.operation(lease),
            ),
            timeout: self.settings.timings.request_timeout.min(left),
        })
    }

    pub(crate) fn raised(
        &mut self,
        mut raise: Raise,
        operation: &Operation,
        reply: &Reply,
        now: Moment,
        chance: &mut dyn Chance,
    ) -> Phase {
        match raise.write.answered(reply.as_ref().ok()) {
            Progress::Done(etag) => {
                let (lease, valid_until) = (raise.lease, raise.valid_until);
                if now >= valid_until {
                    return self.not_raised(lease, now, chance);
                }
                self.report_now = true;
                self.state.health.raised();
                let renew = Pace::at(raise.acquired + self.settings.timings.renew);
                let (record, won) = (raise.write.record, raise.acquired);
                let handed = raise.handed;
                Phase::Holding(Hold::new(lease, valid_until, renew, record, etag, won, handed))
            }
            Progress::NotApplied(found, etag) => {
                raise.write.begin_again(found, etag, now);
                Phase::Raising(raise)
            }
            Progress::Again => {
                if raise.write.pace.failures > 0 {
                    self.report_reply(operation, reply, now);
                }
                raise.write.pace.failed(now, BACK_OFF, chance);
                raise.stays_out = self.state.health.out_after_raise(self.settings, chance);
                Phase::Raising(raise)
            }
            // Released also when the service says that it is lost: that harms nobody.
            Progress::LeaseLost | Progress::Outdone => self.not_raised(raise.lease, now, chance),
        }
    }

    /// Gives back the lease of a term that cannot be raised: each time in a row the others come first for
    /// longer.
    fn not_raised(&mut self, lease: LeaseId, now: Moment, chance: &mut dyn Chance) -> Phase {
        let stays_out = self.state.health.out_after_raise(self.settings, chance);
        self.state.health.not_raised(now + stays_out);
        self.give_back(lease, now)
    }
}
