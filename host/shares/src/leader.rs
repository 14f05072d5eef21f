//! The coordinator: reads signs of life and writes the plan. protocol.md §14.2.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::mutants::mutant;
use crate::plan::{Plan, Share};
use crate::planner::Planner;
use crate::sign::{SignTiming, StoreRequest, StoreResponse, Tag};

/// The coordinator in one term.
///
/// It works in rounds: it reads the plan, lists the signs, and writes a new plan if one follows.
/// Any failure ends the round, and the next round starts from the beginning. Call it only while the
/// term is valid.
#[derive(Clone, Debug)]
pub struct Leader {
    own_name: String,
    term: u64,
    /// Number of shares if there is no plan yet.
    shares: u32,
    timing: SignTiming,
    planner: Option<Planner>,
    /// The plan, and its tag. The tag is `None` if there is no plan yet.
    plan: Plan,
    tag: Option<Tag>,
    closing: Closing,
    /// Time after which the lease of a share is broken if its holder does not release it for
    /// another split.
    break_after: Duration,
    /// Signs of members that are gone, still to be removed.
    gone_signs: Vec<(String, Tag)>,
    /// True while a request has no response yet.
    is_waiting: bool,
    /// Instant of the last request for the signs.
    list_sent_at: Duration,
    /// Start of the current round and of the next one.
    round_started_at: Duration,
    next_round_at: Duration,
    /// Start and number of consecutive failed rounds.
    failing_since: Option<(Duration, u32)>,
    /// Start of the term.
    started_at: Duration,
    problem: Option<CoordinatorProblem>,
    is_leaving: bool,
    has_left: bool,
}

/// Reason why a coordinator fails. `S` is the interval between its signs of life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoordinatorProblem {
    /// Its signs of life have failed for `3 S`: it resigns.
    Signs,
    /// Its reads or writes of the plan, or its lists of the signs, have failed for `3 S`: it
    /// resigns.
    Rounds,
    /// The plan has this term, which no coordinator can have reached: the plan is left unchanged.
    Term(u64),
}

/// Progress of closing the shares of the plan's split.
#[derive(Clone, Debug, Default)]
struct Closing {
    closed: BTreeSet<Share>,
    /// Instant since which each other share could not be closed, or at which its lease was broken.
    held_since: BTreeMap<Share, Duration>,
    /// Shares whose leases are broken in this round.
    overdue: Vec<Share>,
}

/// Ten years in seconds. Terms are about the seconds since 1970, so plans of real coordinators are
/// never further ahead of another coordinator's term (protocol.md §9).
const MAX_TERM_LEAD: u64 = 10 * 366 * 24 * 3_600;

/// Minimum number of consecutive failures that count as a lasting failure. A single lost request
/// may take longer than `3 S`.
pub(crate) const MIN_FAILURES: u32 = 3;

/// Maximum number of leases that are broken in one round. The next round shows the effect.
const MAX_BREAKS_AT_ONCE: usize = 16;

/// Maximum number of elections that are closed in one round.
const CLOSE_BATCH: usize = 500;

impl Leader {
    /// Creates the coordinator with the member name `own_name`, starting at `now`. `shares` is the
    /// number of shares if there is no plan yet.
    #[must_use]
    pub fn new(
        own_name: &str,
        term: u64,
        shares: u32,
        timing: SignTiming,
        break_after: Duration,
        now: Duration,
    ) -> Self {
        Self {
            own_name: own_name.to_owned(),
            term,
            shares,
            timing,
            planner: None,
            plan: Plan::unassigned(shares),
            tag: None,
            closing: Closing::default(),
            break_after,
            gone_signs: Vec::new(),
            is_waiting: false,
            list_sent_at: now,
            round_started_at: now,
            next_round_at: now,
            failing_since: None,
            started_at: now,
            problem: None,
            is_leaving: false,
            has_left: false,
        }
    }

    /// Makes the coordinator leave. It first writes a plan without itself.
    pub fn leave(&mut self, now: Duration) {
        self.is_leaving = true;
        if !self.is_waiting {
            self.next_round_at = now;
        }
    }

    /// Returns true if a leaving coordinator can stop: its shares are assigned to other members, or
    /// it cannot change the plan.
    #[must_use]
    pub fn has_left(&self) -> bool {
        self.has_left
    }

    /// Returns the reason why it fails.
    ///
    /// After [`CoordinatorProblem::Signs`] or [`CoordinatorProblem::Rounds`] it must resign, so
    /// that another member can coordinate.
    #[must_use]
    pub fn problem(&self) -> Option<CoordinatorProblem> {
        self.problem
    }

    /// Returns the instant of the next call of [`next_request`](Self::next_request). Returns `None`
    /// while it waits for a response.
    #[must_use]
    pub fn wake_at(&self) -> Option<Duration> {
        (!self.is_waiting).then_some(self.next_round_at)
    }

    /// Returns the request that begins a round, if one is due. The caller must pass its outcome to
    /// [`on_response`](Self::on_response), even if no response came.
    pub fn next_request(&mut self, now: Duration) -> Option<StoreRequest> {
        if self.is_waiting || now < self.next_round_at {
            return None;
        }
        (self.is_waiting, self.round_started_at) = (true, now);
        if mutant!(PlanNotRead) && self.tag.is_some() {
            self.list_sent_at = now;
            return Some(StoreRequest::ListSigns);
        }
        Some(StoreRequest::ReadPlan(self.tag.clone()))
    }

    /// Takes the response to the last request, and the [own signs](crate::Member::signs). Returns
    /// the next request, or `None` if the round is over.
    pub fn on_response(
        &mut self,
        request: &StoreRequest,
        response: StoreResponse,
        own_signs: &[(Tag, Duration)],
        now: Duration,
    ) -> Option<StoreRequest> {
        self.check_own_signs(own_signs, now);
        let is_failure = matches!(response, StoreResponse::Unknown | StoreResponse::Refused)
            && matches!(
                request,
                StoreRequest::ReadPlan(_) | StoreRequest::ListSigns | StoreRequest::WritePlan(..)
            );
        let next_request = match request {
            StoreRequest::ReadPlan(_) => self.on_plan_read(response, now),
            StoreRequest::ListSigns => self.on_list(response, own_signs, now),
            StoreRequest::CloseShares { shares, .. } => self.on_closed(shares, response, now),
            StoreRequest::BreakLease { share, .. } => {
                // Failed attempts count too: the next one follows after the same time.
                self.closing.held_since.insert(*share, now);
                self.next_break()
            }
            StoreRequest::WritePlan(..) => self.on_plan_written(response),
            _ => self.gone_signs.pop().map(|(name, tag)| StoreRequest::RemoveSign(name, tag)),
        };
        if next_request.is_none() {
            self.is_waiting = false;
            self.on_round_end(is_failure, now);
            // A leaving coordinator does not wait longer if there are many members.
            let keeps_interval = !self.is_leaving || self.has_left;
            let members = if keeps_interval { self.plan.members.len() } else { 1 };
            self.next_round_at = self.round_started_at + self.timing.plan_read_interval(members);
        }
        next_request
    }

    /// Sets the problem if the own signs fail. The coordinator then cannot tell which members are
    /// gone, so it must not stay.
    fn check_own_signs(&mut self, own_signs: &[(Tag, Duration)], now: Duration) {
        let last_sign_at =
            own_signs.last().map_or(self.started_at, |(_, sent)| self.started_at.max(*sent));
        let is_failing =
            !self.is_leaving && now.saturating_sub(last_sign_at) > self.timing.member_timeout();
        if is_failing && !mutant!(StaysWithoutSigns) {
            self.problem = Some(CoordinatorProblem::Signs);
        }
    }

    /// Counts failed rounds. Sets the problem if rounds keep failing, because another member may be
    /// able to coordinate.
    fn on_round_end(&mut self, is_failure: bool, now: Duration) {
        if !is_failure {
            self.failing_since = None;
            return;
        }
        let (since, rounds) = self.failing_since.unwrap_or((self.round_started_at, 0));
        self.failing_since = Some((since, rounds + 1));
        let is_long =
            now.saturating_sub(since) > self.timing.member_timeout() && rounds + 1 >= MIN_FAILURES;
        let is_failing = !self.is_leaving && is_long;
        if is_failing && !mutant!(StaysWithoutRounds) {
            self.problem = Some(CoordinatorProblem::Rounds);
        }
    }

    fn on_plan_read(&mut self, response: StoreResponse, now: Duration) -> Option<StoreRequest> {
        match response {
            StoreResponse::PlanUnchanged => {}
            StoreResponse::Plan(plan, tag) => {
                if plan.split != self.plan.split {
                    self.closing = Closing::default();
                }
                (self.plan, self.tag) = (plan, Some(tag));
            }
            StoreResponse::NoPlan => (self.plan, self.tag) = (Plan::unassigned(self.shares), None),
            _ => return None,
        }
        // The term of the plan may be higher than this one: after a record is deleted, terms may
        // start lower. `If-Match` and the lease, not the term, prevent a former coordinator from
        // overwriting a later plan.
        if self.plan.term > self.term.saturating_add(MAX_TERM_LEAD) {
            self.problem = Some(CoordinatorProblem::Term(self.plan.term));
            self.has_left = true;
            return None;
        }
        if matches!(self.problem, Some(CoordinatorProblem::Term(_))) {
            self.problem = None;
        }
        if self.plan.term > self.term && mutant!(HigherTermStops) {
            self.has_left = true;
            return None;
        }
        // Before the first list, the plan may be the last one of the previous leader.
        self.planner = self.planner.take().filter(|planner| planner.has_listed);
        let new_planner = || Planner::new(&self.own_name, self.timing, &self.plan);
        self.planner.get_or_insert_with(new_planner);
        self.list_sent_at = now;
        Some(StoreRequest::ListSigns)
    }

    fn on_list(
        &mut self,
        response: StoreResponse,
        own_signs: &[(Tag, Duration)],
        now: Duration,
    ) -> Option<StoreRequest> {
        let (StoreResponse::Signs(signs), Some(planner)) = (response, &mut self.planner) else {
            return None;
        };
        if self.is_leaving {
            planner.is_leaving = true;
        }
        self.gone_signs = planner.on_list(signs, own_signs, self.list_sent_at, now);
        self.gone_signs.retain(|(name, _)| *name != self.own_name);
        if self.plan.next.is_some() {
            return self.continue_split();
        }
        self.closing.held_since.clear();
        let term = self.plan.term.max(self.term);
        match planner.plan(&self.plan, term) {
            Some(plan) => Some(StoreRequest::WritePlan(plan, self.tag.clone())),
            None => self.finish_round(),
        }
    }

    /// Continues a change of the number of shares.
    ///
    /// All old shares are closed first, so that no member can acquire one any more, not even one
    /// that was frozen for long.
    fn continue_split(&mut self) -> Option<StoreRequest> {
        let open = self.plan.all_shares().filter(|share| !self.closing.closed.contains(share));
        let open = open.take(CLOSE_BATCH).collect::<Vec<_>>();
        if !open.is_empty() && !mutant!(NotDrained) {
            return Some(StoreRequest::CloseShares { shares: open, count: self.plan.count() });
        }
        let next = self.plan.next_split()?;
        let planner = self.planner.as_ref()?;
        let term = self.plan.term.max(self.term);
        let plan = planner.plan(&next, term);
        let plan = plan.unwrap_or(Plan { term, version: next.version + 1, ..next });
        Some(StoreRequest::WritePlan(plan, self.tag.clone()))
    }

    fn on_closed(
        &mut self,
        requested: &[Share],
        response: StoreResponse,
        now: Duration,
    ) -> Option<StoreRequest> {
        let StoreResponse::Closed(closed) = response else { return None };
        let Closing { closed: all_closed, held_since, .. } = &mut self.closing;
        all_closed.extend(closed);
        held_since.retain(|share, _| !all_closed.contains(share));
        for share in requested.iter().filter(|share| !all_closed.contains(share)) {
            held_since.entry(*share).or_insert(now);
        }
        // Shares that are still held, and those of the next batch, are closed in later rounds.
        if self.plan.all_shares().all(|share| all_closed.contains(&share)) {
            return self.continue_split();
        }
        let is_late = |since: &Duration| now.saturating_sub(*since) > self.break_after;
        let overdue = self.closing.held_since.iter().filter(|(_, since)| is_late(since));
        self.closing.overdue = overdue.map(|(share, _)| *share).take(MAX_BREAKS_AT_ONCE).collect();
        self.next_break()
    }

    /// Returns the next lease to break.
    ///
    /// A holder that has not stopped in time cannot read the plan, or does not follow it. It cannot
    /// renew a broken lease, and stops when that expires.
    fn next_break(&mut self) -> Option<StoreRequest> {
        let share = self.closing.overdue.pop().filter(|_| !mutant!(NeverBreaks))?;
        Some(StoreRequest::BreakLease { share, count: self.plan.count() })
    }

    fn on_plan_written(&mut self, response: StoreResponse) -> Option<StoreRequest> {
        let StoreResponse::Plan(plan, tag) = response else { return None };
        if plan.split != self.plan.split {
            self.closing = Closing::default();
        }
        (self.plan, self.tag) = (plan, Some(tag));
        self.finish_round()
    }

    /// Ends the planning of a round: the plan is up to date.
    fn finish_round(&mut self) -> Option<StoreRequest> {
        self.has_left |= self.planner.as_ref().is_some_and(|planner| planner.is_leaving);
        self.gone_signs.pop().map(|(name, tag)| StoreRequest::RemoveSign(name, tag))
    }
}

#[cfg(test)]
mod tests;
