//! What a process does that is there for shares. protocol.md §14.1, §14.3.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::leader::MIN_FAILURES;
use crate::mutants::mutant;
use crate::plan::{Plan, Share};
use crate::sign::{StoreResponse, StoreRequest, Sign, Tag};

/// A share that runs in this process: its election has a candidate here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningShare {
    /// Which.
    pub share: Share,
    /// This candidate leads, and so holds the share.
    pub is_leading: bool,
    /// The member that was named as its successor, and whom the candidate still waits for.
    pub successor: Option<String>,
}

/// What to do about a share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Have a candidate contend for it.
    Begin(Share),
    /// Have its candidate hand over to that member, once that one has come to take over.
    HandOver(Share, String),
    /// Have its candidate leave: it stops its work, and gives up the share if it holds it.
    End(Share),
}

/// What is to be done once the process is dead and its work with it, by one that outlives it: delete its sign, if it is
/// still this one (`If-Match`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastWill {
    /// The newest sign that is known to be written.
    pub sign: Tag,
    /// It is of no use afterwards: the member is gone by its silence.
    pub until: Duration,
}

/// A process that is there for shares.
#[derive(Clone, Debug)]
pub struct Member {
    sign: Sign,
    signing: PeriodicRequest,
    reading: PeriodicRequest,
    /// The newest plan that was read. It stays while none can be read.
    plan: Option<(Plan, Tag)>,
    /// When the newest read of the plan was sent that was answered, and how many failed since.
    read_at: Duration,
    failed_reads: u32,
    /// True while no read of the plan has been answered for so long that others may have taken its shares away.
    is_plan_unread: bool,
    /// Until then its signs come quicker, since it is new, or the plan does not name it any more.
    quick_signs_until: Option<Duration>,
    last_will: Option<LastWill>,
    signs: Vec<(Tag, Duration)>,
    is_leaving: bool,
}

/// Something to send to the store again and again.
#[derive(Clone, Copy, Debug)]
struct PeriodicRequest {
    due: Option<Duration>,
    /// When it was sent, while it has no answer.
    sent_at: Option<Duration>,
}

/// So many of its signs a member remembers: those of a minute and more.
const MAX_SIGNS: usize = 128;

/// After a request that failed.
const RETRY_DELAY: Duration = Duration::from_secs(1);

impl Member {
    /// One that is not there yet: it leaves no sign and reads no plan until it [comes](Self::come).
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

    /// One that is there from `now` on.
    #[must_use]
    pub fn new_joined(sign: Sign, now: Duration) -> Self {
        let mut member = Self::new(sign);
        member.join(now);
        member
    }

    /// It is there from `now` on, unless it leaves.
    pub fn join(&mut self, now: Duration) {
        if !self.is_leaving {
            self.signing.due = Some(now);
            self.reading.due = Some(now);
            self.quick_signs_until = Some(now + self.sign.timing.member_timeout());
        }
    }

    /// It is to leave: it takes its sign back, and takes up no share any more. What it holds it hands over as ever, as
    /// soon as the plan says to whom.
    pub fn leave(&mut self, now: Duration) {
        self.is_leaving = true;
        if !mutant!(SignStays) {
            self.signing.due = Some(now);
        }
    }

    /// Returns true while the member has not read the plan for so long that it contends for no share.
    #[must_use]
    pub fn is_plan_unread(&self) -> bool {
        self.is_plan_unread
    }

    /// The newest plan that was read.
    #[must_use]
    pub fn plan(&self) -> Option<&Plan> {
        self.plan.as_ref().map(|(plan, _)| plan)
    }

    /// What to leave with a process that outlives this one. None: there is no sign, or it was taken back.
    #[must_use]
    pub fn last_will(&self) -> Option<&LastWill> {
        self.last_will.as_ref()
    }

    /// Its newest signs that were answered, and when they were sent, the oldest first: then the account took signs, and this
    /// process ran.
    #[must_use]
    pub fn signs(&self) -> &[(Tag, Duration)] {
        &self.signs
    }

    /// When to ask [`next`](Self::next) again, unless an answer comes before.
    #[must_use]
    pub fn wake_at(&self) -> Option<Duration> {
        let due = |request: PeriodicRequest| request.due.filter(|_| request.sent_at.is_none());
        [due(self.signing), due(self.reading)].into_iter().flatten().min()
    }

    /// What to send now. Each request is to be answered, also where no answer came.
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

    /// Takes the answer to a request.
    pub fn on_response(&mut self, request: &StoreRequest, response: StoreResponse, now: Duration) {
        match request {
            StoreRequest::WriteSign(_) | StoreRequest::WithdrawSign => self.on_sign_response(request, &response, now),
            _ => self.on_plan_response(response, now),
        }
    }

    fn on_sign_response(&mut self, request: &StoreRequest, response: &StoreResponse, now: Duration) {
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
            // The newest one that is known to be there may still be.
            _ => {}
        }
        let next_in = match response {
            StoreResponse::Done if *request == StoreRequest::WithdrawSign => None,
            // Its newest sign is to be taken back.
            _ if withdraws && *request != StoreRequest::WithdrawSign => Some(Duration::ZERO),
            StoreResponse::Signed(_) => Some(self.sign_interval(now)),
            _ => Some(RETRY_DELAY.min(self.sign_interval(now))),
        };
        self.signing.finish(next_in);
    }

    fn on_plan_response(&mut self, response: StoreResponse, now: Duration) {
        let mut next_in = self.sign.timing.plan_read_interval(self.plan().map_or(0, |plan| plan.members.len()));
        if matches!(response, StoreResponse::Plan(..) | StoreResponse::PlanUnchanged | StoreResponse::NoPlan) {
            (self.read_at, self.failed_reads) = (self.reading.sent_at.unwrap_or(now), 0);
        } else {
            self.failed_reads = self.failed_reads.saturating_add(1);
        }
        self.is_plan_unread = self.failed_reads >= MIN_FAILURES
            && now.saturating_sub(self.read_at) > self.sign.timing.member_timeout();
        match response {
            StoreResponse::Plan(plan, tag) => {
                let was_named = self.plan().is_some_and(|previous| previous.has_member(&self.sign.member));
                if was_named && !plan.has_member(&self.sign.member) {
                    self.quick_signs_until = Some(now + self.sign.timing.member_timeout());
                    self.signing.due = self.signing.due.map(|due| due.min(now));
                }
                next_in = self.sign.timing.plan_read_interval(plan.members.len());
                self.plan = Some((plan, tag));
            }
            StoreResponse::Unknown if mutant!(LostWithoutPlan) => self.plan = None,
            // Nothing changes where no plan can be read.
            _ => {}
        }
        self.reading.finish(Some(next_in));
    }

    /// Between two signs.
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

    /// What to do so that this process holds what the plan says. Each one that is obeyed is seen in what runs the next
    /// time. `coordinated`: the newest known leader of the coordinating election coordinates. Otherwise it runs all of the
    /// work, or none has led yet, and this process contends for no share. It contends for none either while it cannot read the
    /// plan, so that a lease that a coordinator broke is not acquired again.
    #[must_use]
    pub fn actions(&self, running: &[RunningShare], is_coordinated: bool) -> Vec<Action> {
        let is_planned = !self.is_plan_unread || mutant!(ContendsUnread);
        let may_contend = !self.is_leaving && is_planned && (is_coordinated || mutant!(ContendsBesideWhole));
        let Some(plan) = self.plan() else {
            let all = running.iter().filter(|_| mutant!(LostWithoutPlan));
            return all.map(|running| Action::End(running.share)).collect();
        };
        let own_name = self.sign.member.as_str();
        let mut actions = Vec::new();
        for RunningShare { share, is_leading: leads, successor: gives_to } in running {
            match plan.holder(*share) {
                Some(member) if member == own_name && (*leads || may_contend) => {}
                // It goes on until the other one has come: a share is not left alone meanwhile.
                Some(member) if *leads && !mutant!(EndsAtOnce) => {
                    if gives_to.as_deref() != Some(member) {
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
        actions.extend(planned.into_iter().filter(|share| !running_shares.contains(share)).map(Action::Begin));
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

    /// It was answered, and is due again so long after it was sent.
    fn finish(&mut self, next_in: Option<Duration>) {
        let sent_at = self.sent_at.take().unwrap_or_default();
        self.due = next_in.map(|next| sent_at + next);
    }
}

#[cfg(test)]
mod tests;
