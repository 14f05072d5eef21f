//! What the coordinator does: it looks for signs of life, and writes the plan. protocol.md §14.2.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::mutants::mutant;
use crate::pace::SignTiming;
use crate::plan::{Plan, Share};
use crate::planner::Planner;
use crate::sign::{StoreResponse, StoreRequest, Tag};

/// The coordinator, in one term.
///
/// It goes in rounds: it reads the plan, lists the signs, and writes another plan if one follows. Whatever fails ends
/// the round, and the next one begins anew. It is to be asked only while the term's validity lasts.
#[derive(Clone, Debug)]
pub struct Leader {
    own_name: String,
    term: u64,
    /// So many shares, where there is no plan yet.
    shares: u32,
    timing: SignTiming,
    planner: Option<Planner>,
    /// The plan, with its tag; none where there is none yet.
    plan: Plan,
    tag: Option<Tag>,
    closing: Closing,
    /// How long the holder of a share may take to give it up for another split.
    break_after: Duration,
    /// Signs of members that are gone.
    gone_signs: Vec<(String, Tag)>,
    /// A request has no answer yet.
    is_waiting: bool,
    /// When it asked for the signs last.
    list_sent_at: Duration,
    /// When the round began, and when the next one is to.
    round_started_at: Duration,
    next_round_at: Duration,
    /// Since when each round has failed, and how many that are.
    failing_since: Option<(Duration, u32)>,
    /// When the term began.
    started_at: Duration,
    problem: Option<CoordinatorProblem>,
    is_leaving: bool,
    has_left: bool,
}

/// Why a coordinator does not coordinate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoordinatorProblem {
    /// Its signs of life have failed for `3 S`: it resigns.
    Signs,
    /// It could not read the plan, list the signs or write a plan for `3 S`: it resigns.
    Rounds,
    /// The plan has this term, which no coordinator can have reached: the plan is left as it is.
    Term(u64),
}

/// How far the shares of the plan's split are closed.
#[derive(Clone, Debug, Default)]
struct Closing {
    closed: BTreeSet<Share>,
    /// Since when each of the others could not be closed, or when its lease was broken.
    held_since: BTreeMap<Share, Duration>,
    /// Shares whose leases are broken in this round.
    overdue: Vec<Share>,
}

/// Seconds of ten years. A term is about the seconds since 1970, so no plan of a coordinator is further ahead of another
/// one's term (protocol.md §9).
const MAX_TERM_LEAD: u64 = 10 * 366 * 24 * 3_600;

/// One lost request, which may take longer than `3 S`, is no failure that lasts.
pub(crate) const MIN_FAILURES: u32 = 3;

/// The most leases that are broken in one round: the next one finds out what that led to.
const MAX_BREAKS_AT_ONCE: usize = 16;

/// So many elections are closed at once.
const CLOSE_BATCH: usize = 500;

impl Leader {
    /// The member of that name coordinates, from `now` on. `shares`: how many there are to be, where there is no
    /// plan yet.
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

    /// Its process is to leave. It writes a plan without itself first.
    pub fn leave(&mut self, now: Duration) {
        self.is_leaving = true;
        if !self.is_waiting {
            self.next_round_at = now;
        }
    }

    /// It left its own shares to others, or need not: it can give the coordination up.
    #[must_use]
    pub fn has_left(&self) -> bool {
        self.has_left
    }

    /// Why it does not coordinate. After [`Trouble::Signs`] or [`Trouble::Rounds`] it is to resign, so that another member
    /// can coordinate.
    #[must_use]
    pub fn problem(&self) -> Option<CoordinatorProblem> {
        self.problem
    }

    /// When to ask [`next`](Self::next) again. None: after an answer.
    #[must_use]
    pub fn wake_at(&self) -> Option<Duration> {
        (!self.is_waiting).then_some(self.next_round_at)
    }

    /// The request that begins a round, if it is time for one. It is to be answered, also where no answer came.
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

    /// Takes the answer to the request before, and its [own signs](crate::Member::signs). Returns the request that
    /// follows; none: the round is over.
    pub fn on_response(
        &mut self,
        request: &StoreRequest,
        response: StoreResponse,
        own_signs: &[(Tag, Duration)],
        now: Duration,
    ) -> Option<StoreRequest> {
        self.check_own_signs(own_signs, now);
        let is_failure = matches!(response, StoreResponse::Unknown | StoreResponse::Refused)
            && matches!(request, StoreRequest::ReadPlan(_) | StoreRequest::ListSigns | StoreRequest::WritePlan(..));
        let next_request = match request {
            StoreRequest::ReadPlan(_) => self.on_plan_read(response, now),
            StoreRequest::ListSigns => self.on_list(response, own_signs, now),
            StoreRequest::CloseShares { shares, .. } => self.on_closed(shares, response, now),
            StoreRequest::BreakLease { share, .. } => {
                // A failed one counts too: the next one follows after as long.
                self.closing.held_since.insert(*share, now);
                self.next_break()
            }
            StoreRequest::WritePlan(..) => self.on_plan_written(response),
            _ => self.gone_signs.pop().map(|(name, tag)| StoreRequest::RemoveSign(name, tag)),
        };
        if next_request.is_none() {
            self.is_waiting = false;
            self.on_round_end(is_failure, now);
            // Who leaves does not wait as long as the others are many.
            let keeps_interval = !self.is_leaving || self.has_left;
            let members = if keeps_interval { self.plan.members.len() } else { 1 };
            self.next_round_at = self.round_started_at + self.timing.plan_read_interval(members);
        }
        next_request
    }

    /// A coordinator whose own signs fail makes no member gone, so it must not stay.
    fn check_own_signs(&mut self, own_signs: &[(Tag, Duration)], now: Duration) {
        let last_sign_at = own_signs.last().map_or(self.started_at, |(_, sent)| self.started_at.max(*sent));
        let is_failing = !self.is_leaving && now.saturating_sub(last_sign_at) > self.timing.member_timeout();
        if is_failing && !mutant!(StaysWithoutSigns) {
            self.problem = Some(CoordinatorProblem::Signs);
        }
    }

    /// Another member may be able to coordinate when no round succeeds here.
    fn on_round_end(&mut self, is_failure: bool, now: Duration) {
        if !is_failure {
            self.failing_since = None;
            return;
        }
        let (since, rounds) = self.failing_since.unwrap_or((self.round_started_at, 0));
        self.failing_since = Some((since, rounds + 1));
        let is_long = now.saturating_sub(since) > self.timing.member_timeout() && rounds + 1 >= MIN_FAILURES;
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
        // A record that was deleted begins with a lower term than its coordinators had. `If-Match` and the lease, not
        // the term, keep a former coordinator from writing over a plan of a later one.
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
        // Until it has looked, the plan may be one that the leader before wrote last.
        self.planner = self.planner.take().filter(|planner| planner.has_listed);
        let new_planner = || Planner::new(&self.own_name, self.timing, &self.plan);
        self.planner.get_or_insert_with(new_planner);
        self.list_sent_at = now;
        Some(StoreRequest::ListSigns)
    }

    fn on_list(&mut self, response: StoreResponse, own_signs: &[(Tag, Duration)], now: Duration) -> Option<StoreRequest> {
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

    /// Another number of shares was asked for: all of the old ones are closed first, so that nobody can acquire one any
    /// more, not even a member that was frozen since long ago.
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

    fn on_closed(&mut self, requested: &[Share], response: StoreResponse, now: Duration) -> Option<StoreRequest> {
        let StoreResponse::Closed(closed) = response else { return None };
        let Closing { closed: all_closed, held_since: held, .. } = &mut self.closing;
        all_closed.extend(closed);
        held.retain(|share, _| !all_closed.contains(share));
        for share in requested.iter().filter(|share| !all_closed.contains(share)) {
            held.entry(*share).or_insert(now);
        }
        // Shares that are still held are closed in a later round.
        if self.plan.all_shares().all(|share| all_closed.contains(&share)) {
            return self.continue_split();
        }
        let is_late = |since: &Duration| now.saturating_sub(*since) > self.break_after;
        let overdue = self.closing.held_since.iter().filter(|(_, since)| is_late(since));
        self.closing.overdue = overdue.map(|(share, _)| *share).take(MAX_BREAKS_AT_ONCE).collect();
        self.next_break()
    }

    /// A holder that has not stopped in time cannot read the plan, or does not follow it. It cannot renew a broken lease, and
    /// stops when that expires.
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

    /// The plan is what it should be.
    fn finish_round(&mut self) -> Option<StoreRequest> {
        self.has_left |= self.planner.as_ref().is_some_and(|planner| planner.is_leaving);
        self.gone_signs.pop().map(|(name, tag)| StoreRequest::RemoveSign(name, tag))
    }
}

#[cfg(test)]
mod tests;
