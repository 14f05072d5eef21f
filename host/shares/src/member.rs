//! A process that can hold shares. protocol.md §14.1, §14.3.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::leader::MIN_FAILURES;
use crate::mutants::mutant;
use crate::plan::{Plan, Share};
use crate::sign::{Sign, StoreRequest, StoreResponse, Tag};

/// A share whose election has a candidate in this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningShare {
    /// The share.
    pub share: Share,
    /// True if this candidate leads, and so holds the share.
    pub is_leading: bool,
    /// Named successor for which the candidate still waits.
    pub successor: Option<String>,
}

/// An action for a share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Start a candidate for the share.
    Begin(Share),
    /// Make its candidate hand over to that member, once that member is ready to take over.
    HandOver(Share, String),
    /// Make its candidate leave: it stops its work, and releases the share if it holds it.
    End(Share),
}

/// Request that a process that outlives this one sends, once this process and its work are dead. It
/// deletes the member's sign if that is unchanged (`If-Match`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastWill {
    /// Newest sign that is known to be written.
    pub sign: Tag,
    /// Instant from which the request is useless, because the member's silence shows that it is
    /// gone.
    pub until: Duration,
}

/// A process that can hold shares.
#[derive(Clone, Debug)]
pub struct Member {
    sign: Sign,
    /// Write of the sign, or its withdrawal when the member leaves.
    signing: PeriodicRequest,
    /// Read of the plan.
    reading: PeriodicRequest,
    /// Newest plan that was read. It is kept while reads fail.
    plan: Option<(Plan, Tag)>,
    /// Instant of the newest read of the plan that was answered, and the number of failures since.
    read_at: Duration,
    failed_reads: u32,
    /// True if reads of the plan have failed for so long that other members may have taken its
    /// shares.
    is_plan_unread: bool,
    /// End of a period of more frequent signs, because the member is new or no longer in the plan.
    quick_signs_until: Option<Duration>,
    last_will: Option<LastWill>,
    /// Newest acknowledged signs and their send times, the oldest first.
    signs: Vec<(Tag, Duration)>,
    is_leaving: bool,
}

/// A request that is sent periodically.
#[derive(Clone, Copy, Debug)]
struct PeriodicRequest {
    /// Instant of the next request. `None` if none is to be sent.
    due: Option<Duration>,
    /// Send time, until the response arrives.
    sent_at: Option<Duration>,
}

/// Maximum number of remembered signs, which cover more than a minute.
const MAX_SIGNS: usize = 128;

/// Pause after a failed request.
const RETRY_DELAY: Duration = Duration::from_secs(1);

impl Member {
    /// Creates a member that writes no signs and reads no plan until it [joins](Self::join).
    #[must_use]
    pub fn new(sign: Sign) -> Self {
        let request = PeriodicRequest { due: None, sent_at: None };
        Self {
            sign,
            signing: request,
            reading: request,
            plan: None,
            read_at: Duration::ZERO,
            failed_reads: 0,
            is_plan_unread: false,
            quick_signs_until: None,
            last_will: None,
            signs: Vec::new(),
            is_leaving: false,
        }
    }

    /// Creates a member that joins at `now`.
    #[must_use]
    pub fn new_joined(sign: Sign, now: Duration) -> Self {
        let mut member = Self::new(sign);
        member.join(now);
        member
    }

    /// Joins at `now`, unless the member is leaving.
    pub fn join(&mut self, now: Duration) {
        if !self.is_leaving {
            self.signing.due = Some(now);
            self.reading.due = Some(now);
            self.quick_signs_until = Some(now + self.sign.timing.member_timeout());
        }
    }

    /// Makes the member leave: it withdraws its sign and starts no more shares. It still hands its
    /// shares over as soon as the plan names their new holders.
    pub fn leave(&mut self, now: Duration) {
        self.is_leaving = true;
        if !mutant!(SignStays) {
            self.signing.due = Some(now);
        }
    }

    /// Returns true if reads of the plan have failed for so long that the member contends for no
    /// share.
    #[must_use]
    pub fn is_plan_unread(&self) -> bool {
        self.is_plan_unread
    }

    /// Returns the newest plan that was read.
    #[must_use]
    pub fn plan(&self) -> Option<&Plan> {
        self.plan.as_ref().map(|(plan, _)| plan)
    }

    /// Returns the last will, for a process that outlives this one. Returns `None` if there is no
    /// sign.
    #[must_use]
    pub fn last_will(&self) -> Option<&LastWill> {
        self.last_will.as_ref()
    }

    /// Returns the member's newest acknowledged signs and their send times, the oldest first.
    ///
    /// They prove that this process ran at these times, and that the account accepted signs.
    #[must_use]
    pub fn signs(&self) -> &[(Tag, Duration)] {
        &self.signs
    }

    /// Returns the instant of the next call of [`next_requests`](Self::next_requests), unless a
    /// response arrives before.
    #[must_use]
    pub fn wake_at(&self) -> Option<Duration> {
        let due = |request: PeriodicRequest| request.due.filter(|_| request.sent_at.is_none());
        [due(self.signing), due(self.reading)].into_iter().flatten().min()
    }

    /// Returns the requests to send now. The caller must pass the outcome of each to
    /// [`on_response`](Self::on_response), even if no response came.
    pub fn next_requests(&mut self, now: Duration) -> Vec<StoreRequest> {
        let mut requests = Vec::new();
        if self.signing.start_if_due(now) {
            requests.push(match self.is_leaving {
                true => StoreRequest::WithdrawSign,
                false => StoreRequest::WriteSign(self.sign.clone()),
            });
        }
        if self.reading.start_if_due(now) {
            requests.push(StoreRequest::ReadPlan(self.plan.as_ref().map(|(_, tag)| tag.clone())));
        }
        requests
    }

    /// Takes the response to a request.
    pub fn on_response(&mut self, request: &StoreRequest, response: StoreResponse, now: Duration) {
        match request {
            StoreRequest::WriteSign(_) | StoreRequest::WithdrawSign => {
                self.on_sign_response(request, &response, now)
            }
            _ => self.on_plan_response(response, now),
        }
    }

    fn on_sign_response(
        &mut self,
        request: &StoreRequest,
        response: &StoreResponse,
        now: Duration,
    ) {
        let withdraws = self.is_leaving && !mutant!(SignStays);
        if let (StoreResponse::Signed(tag), Some(sent_at)) = (response, self.signing.sent_at) {
            let surplus = (self.signs.len() + 1).saturating_sub(MAX_SIGNS);
            self.signs.drain(..surplus);
            self.signs.push((tag.clone(), sent_at));
        }
        match response {
            StoreResponse::Signed(_) if self.last_will.is_some() && mutant!(WillOfFirstSign) => {}
            StoreResponse::Signed(tag) => {
                let until = self.signing.sent_at.unwrap_or(now) + self.sign.timing.member_timeout();
                self.last_will = Some(LastWill { sign: tag.clone(), until });
            }
            StoreResponse::Done if *request == StoreRequest::WithdrawSign => self.last_will = None,
            // The newest known sign may still exist.
            _ => {}
        }
        let next_in = match response {
            StoreResponse::Done if *request == StoreRequest::WithdrawSign => None,
            // The newest sign must still be withdrawn.
            _ if withdraws && *request != StoreRequest::WithdrawSign => Some(Duration::ZERO),
            StoreResponse::Signed(_) => Some(self.sign_interval(now)),
            _ => Some(RETRY_DELAY.min(self.sign_interval(now))),
        };
        self.signing.finish(next_in);
    }

    fn on_plan_response(&mut self, response: StoreResponse, now: Duration) {
        let mut next_in =
            self.sign.timing.plan_read_interval(self.plan().map_or(0, |plan| plan.members.len()));
        if matches!(
            response,
            StoreResponse::Plan(..) | StoreResponse::PlanUnchanged | StoreResponse::NoPlan
        ) {
            (self.read_at, self.failed_reads) = (self.reading.sent_at.unwrap_or(now), 0);
        } else {
            self.failed_reads = self.failed_reads.saturating_add(1);
        }
        self.is_plan_unread = self.failed_reads >= MIN_FAILURES
            && now.saturating_sub(self.read_at) > self.sign.timing.member_timeout();
        match response {
            StoreResponse::Plan(plan, tag) => {
                let was_named =
                    self.plan().is_some_and(|previous| previous.has_member(&self.sign.member));
                if was_named && !plan.has_member(&self.sign.member) {
                    self.quick_signs_until = Some(now + self.sign.timing.member_timeout());
                    self.signing.due = self.signing.due.map(|due| due.min(now));
                }
                next_in = self.sign.timing.plan_read_interval(plan.members.len());
                self.plan = Some((plan, tag));
            }
            StoreResponse::Unknown if mutant!(LostWithoutPlan) => self.plan = None,
            // The last known plan remains valid.
            _ => {}
        }
        self.reading.finish(Some(next_in));
    }

    /// Returns the interval between two signs.
    fn sign_interval(&self, now: Duration) -> Duration {
        let plan = self.plan();
        let is_named = plan.is_some_and(|plan| plan.has_member(&self.sign.member));
        match self.quick_signs_until {
            Some(until) if !is_named && now < until => {
                self.sign.timing.first_sign_interval(plan.map_or(0, |plan| plan.members.len()))
            }
            _ => self.sign.timing.interval(),
        }
    }

    /// Returns the actions that make this process hold its shares according to the plan. Their
    /// effect is visible in `running` at the next call.
    ///
    /// `is_coordinated` is true if the newest known leader of the coordinating election coordinates
    /// shares. Otherwise that leader runs all of the work, or there was none yet, and this process
    /// contends for no share. It also contends for none while it cannot read the plan, so that it
    /// does not acquire a lease again that a coordinator broke.
    #[must_use]
    pub fn actions(&self, running: &[RunningShare], is_coordinated: bool) -> Vec<Action> {
        let is_plan_current = !self.is_plan_unread || mutant!(ContendsUnread);
        let may_contend =
            !self.is_leaving && is_plan_current && (is_coordinated || mutant!(ContendsBesideWhole));
        let Some(plan) = self.plan() else {
            let all = running.iter().filter(|_| mutant!(LostWithoutPlan));
            return all.map(|running| Action::End(running.share)).collect();
        };
        let own_name = self.sign.member.as_str();
        let mut actions = Vec::new();
        for RunningShare { share, is_leading, successor } in running {
            match plan.holder(*share) {
                Some(member) if member == own_name && (*is_leading || may_contend) => {}
                // The holder continues until the successor is ready, so that the share always has a
                // holder.
                Some(member) if *is_leading && !mutant!(EndsAtOnce) => {
                    if successor.as_deref() != Some(member) {
                        actions.push(Action::HandOver(*share, member.to_owned()));
                    }
                }
                None if plan.next.is_some() && mutant!(NotDrained) => {}
                _ => actions.push(Action::End(*share)),
            }
        }
        if !may_contend {
            return actions;
        }
        let running_shares = running.iter().map(|running| running.share).collect::<BTreeSet<_>>();
        let mut planned = plan.shares_of(own_name).collect::<Vec<_>>();
        if let Some(last) = planned.last().copied().filter(|_| mutant!(TakesUnplanned)) {
            planned.push(Share { index: last.index + 1, ..last });
        }
        actions.extend(
            planned.into_iter().filter(|share| !running_shares.contains(share)).map(Action::Begin),
        );
        actions
    }
}

impl PeriodicRequest {
    fn start_if_due(&mut self, now: Duration) -> bool {
        let is_due = self.sent_at.is_none() && self.due.is_some_and(|due| due <= now);
        if is_due {
            self.sent_at = Some(now);
        }
        is_due
    }

    /// Records the response. The request is due again `next_in` after it was sent.
    fn finish(&mut self, next_in: Option<Duration>) {
        let sent_at = self.sent_at.take().unwrap_or_default();
        self.due = next_in.map(|next| sent_at + next);
    }
}

#[cfg(test)]
mod tests;
