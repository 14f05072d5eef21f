//! What the coordinator does: it looks for signs of life, and writes the plan. protocol.md §14.2.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::mutants::mutant;
use crate::pace::Pace;
use crate::plan::{Plan, Share};
use crate::planner::Planner;
use crate::sign::{Answer, Ask, Tag};

/// The coordinator, in one term.
///
/// It goes in rounds: it reads the plan, lists the signs, and writes another plan if one follows. Whatever fails ends
/// the round, and the next one begins anew. It is to be asked only while the term's validity lasts.
#[derive(Clone, Debug)]
pub struct Leader {
    own: String,
    term: u64,
    /// So many shares, where there is no plan yet.
    shares: u32,
    pace: Pace,
    planner: Option<Planner>,
    /// The plan, with its tag; none where there is none yet.
    plan: Plan,
    tag: Option<Tag>,
    closing: Closing,
    /// How long the holder of a share may take to give it up for another split.
    patience: Duration,
    /// Signs of members that are gone.
    gone: Vec<(String, Tag)>,
    /// A request has no answer yet.
    asks: bool,
    /// When it asked for the signs last.
    asked: Duration,
    /// When the round began, and when the next one is to.
    began: Duration,
    due: Duration,
    /// Since when each round has failed, and how many that are.
    fails: Option<(Duration, u32)>,
    /// When the term began.
    since: Duration,
    trouble: Option<Trouble>,
    leaves: bool,
    left: bool,
}

/// Why a coordinator does not coordinate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
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
    held: BTreeMap<Share, Duration>,
    /// Shares whose leases are broken in this round.
    late: Vec<Share>,
}

/// Seconds of ten years. A term is about the seconds since 1970, so no plan of a coordinator is further ahead of another
/// one's term (protocol.md §9).
const MOST_AHEAD: u64 = 10 * 366 * 24 * 3_600;

/// One lost request, which may take longer than `3 S`, is no failure that lasts.
pub(crate) const FAILURES: u32 = 3;

/// The most leases that are broken in one round: the next one finds out what that led to.
const BROKEN_AT_ONCE: usize = 16;

/// So many elections are closed at once.
const BATCH: usize = 500;

impl Leader {
    /// The member of that name coordinates, from `now` on. `shares`: how many there are to be, where there is no
    /// plan yet.
    #[must_use]
    pub fn begin(
        own: &str,
        term: u64,
        shares: u32,
        pace: Pace,
        patience: Duration,
        now: Duration,
    ) -> Self {
        Self {
            own: own.to_owned(),
            term,
            shares,
            pace,
            planner: None,
            plan: Plan::first(shares),
            tag: None,
            closing: Closing::default(),
            patience,
            gone: Vec::new(),
            asks: false,
            asked: now,
            began: now,
            due: now,
            fails: None,
            since: now,
            trouble: None,
            leaves: false,
            left: false,
        }
    }

    /// Its process is to leave. It writes a plan without itself first.
    pub fn leave(&mut self, now: Duration) {
        self.leaves = true;
        if !self.asks {
            self.due = now;
        }
    }

    /// It left its own shares to others, or need not: it can give the coordination up.
    #[must_use]
    pub fn left(&self) -> bool {
        self.left
    }

    /// Why it does not coordinate. After [`Trouble::Signs`] or [`Trouble::Rounds`] it is to resign, so that another member
    /// can coordinate.
    #[must_use]
    pub fn trouble(&self) -> Option<Trouble> {
        self.trouble
    }

    /// When to ask [`next`](Self::next) again. None: after an answer.
    #[must_use]
    pub fn wake(&self) -> Option<Duration> {
        (!self.asks).then_some(self.due)
    }

    /// The request that begins a round, if it is time for one. It is to be answered, also where no answer came.
    pub fn next(&mut self, now: Duration) -> Option<Ask> {
        if self.asks || now < self.due {
            return None;
        }
        (self.asks, self.began) = (true, now);
        if mutant!(PlanNotRead) && self.tag.is_some() {
            self.asked = now;
            return Some(Ask::List);
        }
        Some(Ask::ReadPlan(self.tag.clone()))
    }

    /// Takes the answer to the request before, and its [own signs](crate::Member::signs). Returns the request that
    /// follows; none: the round is over.
    pub fn answered(
        &mut self,
        ask: &Ask,
        answer: Answer,
        own: &[(Tag, Duration)],
        now: Duration,
    ) -> Option<Ask> {
        self.watch_own_signs(own, now);
        let is_failure = matches!(answer, Answer::Unknown | Answer::Refused)
            && matches!(ask, Ask::ReadPlan(_) | Ask::List | Ask::WritePlan(..));
        let next = match ask {
            Ask::ReadPlan(_) => self.read(answer, now),
            Ask::List => self.listed(answer, own, now),
            Ask::Close { shares, .. } => self.closed(shares, answer, now),
            Ask::Break { share, .. } => {
                // A failed one counts too: the next one follows after as long.
                self.closing.held.insert(*share, now);
                self.break_lease()
            }
            Ask::WritePlan(..) => self.written(answer),
            _ => self.gone.pop().map(|(name, tag)| Ask::Remove(name, tag)),
        };
        if next.is_none() {
            self.asks = false;
            self.round_ended(is_failure, now);
            // Who leaves does not wait as long as the others are many.
            let waits = !self.leaves || self.left;
            let members = if waits { self.plan.members.len() } else { 1 };
            self.due = self.began + self.pace.look(members);
        }
        next
    }

    /// A coordinator whose own signs fail makes no member gone, so it must not stay.
    fn watch_own_signs(&mut self, own: &[(Tag, Duration)], now: Duration) {
        let newest = own.last().map_or(self.since, |(_, sent)| self.since.max(*sent));
        let fails = !self.leaves && now.saturating_sub(newest) > self.pace.gone_after();
        if fails && !mutant!(StaysWithoutSigns) {
            self.trouble = Some(Trouble::Signs);
        }
    }

    /// Another member may be able to coordinate when no round succeeds here.
    fn round_ended(&mut self, is_failure: bool, now: Duration) {
        if !is_failure {
            self.fails = None;
            return;
        }
        let (since, rounds) = self.fails.unwrap_or((self.began, 0));
        self.fails = Some((since, rounds + 1));
        let is_long = now.saturating_sub(since) > self.pace.gone_after() && rounds + 1 >= FAILURES;
        let fails = !self.leaves && is_long;
        if fails && !mutant!(StaysWithoutRounds) {
            self.trouble = Some(Trouble::Rounds);
        }
    }

    fn read(&mut self, answer: Answer, now: Duration) -> Option<Ask> {
        match answer {
            Answer::SamePlan => {}
            Answer::Plan(plan, tag) => {
                if plan.split != self.plan.split {
                    self.closing = Closing::default();
                }
                (self.plan, self.tag) = (plan, Some(tag));
            }
            Answer::NoPlan => (self.plan, self.tag) = (Plan::first(self.shares), None),
            _ => return None,
        }
        // A record that was deleted begins with a lower term than its coordinators had. `If-Match` and the lease, not
        // the term, keep a former coordinator from writing over a plan of a later one.
        if self.plan.term > self.term.saturating_add(MOST_AHEAD) {
            self.trouble = Some(Trouble::Term(self.plan.term));
            self.left = true;
            return None;
        }
        if matches!(self.trouble, Some(Trouble::Term(_))) {
            self.trouble = None;
        }
        if self.plan.term > self.term && mutant!(HigherTermStops) {
            self.left = true;
            return None;
        }
        // Until it has looked, the plan may be one that the leader before wrote last.
        self.planner = self.planner.take().filter(|planner| planner.has_looked);
        let begin = || Planner::begin(&self.own, self.pace, &self.plan);
        self.planner.get_or_insert_with(begin);
        self.asked = now;
        Some(Ask::List)
    }

    fn listed(&mut self, answer: Answer, own: &[(Tag, Duration)], now: Duration) -> Option<Ask> {
        let (Answer::Signs(signs), Some(planner)) = (answer, &mut self.planner) else {
            return None;
        };
        if self.leaves {
            planner.leaves = true;
        }
        self.gone = planner.looked(signs, own, self.asked, now);
        self.gone.retain(|(name, _)| *name != self.own);
        if self.plan.next.is_some() {
            return self.split();
        }
        self.closing.held.clear();
        let term = self.plan.term.max(self.term);
        match planner.plan(&self.plan, term) {
            Some(plan) => Some(Ask::WritePlan(plan, self.tag.clone())),
            None => self.planned(),
        }
    }

    /// Another number of shares was asked for: all of the old ones are closed first, so that nobody can acquire one any
    /// more, not even a member that was frozen since long ago.
    fn split(&mut self) -> Option<Ask> {
        let open = self.plan.all().filter(|share| !self.closing.closed.contains(share));
        let open = open.take(BATCH).collect::<Vec<_>>();
        if !open.is_empty() && !mutant!(NotDrained) {
            return Some(Ask::Close { shares: open, of: self.plan.count() });
        }
        let next = self.plan.resplit()?;
        let planner = self.planner.as_ref()?;
        let term = self.plan.term.max(self.term);
        let plan = planner.plan(&next, term);
        let plan = plan.unwrap_or(Plan { term, version: next.version + 1, ..next });
        Some(Ask::WritePlan(plan, self.tag.clone()))
    }

    fn closed(&mut self, asked: &[Share], answer: Answer, now: Duration) -> Option<Ask> {
        let Answer::Closed(closed) = answer else { return None };
        let Closing { closed: all, held, .. } = &mut self.closing;
        all.extend(closed);
        held.retain(|share, _| !all.contains(share));
        for share in asked.iter().filter(|share| !all.contains(share)) {
            held.entry(*share).or_insert(now);
        }
        // Shares that are still held are closed in a later round.
        if self.plan.all().all(|share| all.contains(&share)) {
            return self.split();
        }
        let is_late = |since: &Duration| now.saturating_sub(*since) > self.patience;
        let late = self.closing.held.iter().filter(|(_, since)| is_late(since));
        self.closing.late = late.map(|(share, _)| *share).take(BROKEN_AT_ONCE).collect();
        self.break_lease()
    }

    /// A holder that has not stopped in time cannot read the plan, or does not follow it. It cannot renew a broken lease, and
    /// stops when that expires.
    fn break_lease(&mut self) -> Option<Ask> {
        let share = self.closing.late.pop().filter(|_| !mutant!(NeverBreaks))?;
        Some(Ask::Break { share, of: self.plan.count() })
    }

    fn written(&mut self, answer: Answer) -> Option<Ask> {
        let Answer::Plan(plan, tag) = answer else { return None };
        if plan.split != self.plan.split {
            self.closing = Closing::default();
        }
        (self.plan, self.tag) = (plan, Some(tag));
        self.planned()
    }

    /// The plan is what it should be.
    fn planned(&mut self) -> Option<Ask> {
        self.left |= self.planner.as_ref().is_some_and(|planner| planner.leaves);
        self.gone.pop().map(|(name, tag)| Ask::Remove(name, tag))
    }
}

#[cfg(test)]
mod tests;
