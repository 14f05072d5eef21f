//! Checker of a fleet (protocol.md §14.4).
//!
//! It uses the operations that the store applied and the times of work, never what a process
//! believes.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use tenure_shares::{Plan, SignTiming};

use crate::store::Key;
use crate::world::operation_time;

/// Violation of a rule.
#[derive(Clone, Debug)]
pub struct Violation {
    /// True time, in milliseconds.
    pub at: u64,
    /// Violated rule.
    pub rule: &'static str,
    /// Description of the violation.
    pub message: String,
}

/// Running work for a share.
#[derive(Clone, Copy, Debug)]
struct Span {
    process: usize,
    life: u32,
    /// True for all of the work, false for the work of one share.
    unsharded: bool,
    until: u64,
}

/// Observations of a coordinator in its term.
#[derive(Clone, Debug, Default)]
pub struct Observations {
    /// Polls: the operation of the store, and when the leader received its reply.
    pub polls: Vec<(u64, u64)>,
    /// Members in the plan at the start of the term.
    pub initial_members: BTreeSet<String>,
    /// True if the leader of that name leaves.
    pub leaving: bool,
}

/// Signs of a member, and their removals.
#[derive(Clone, Debug, Default)]
struct SignHistory(Vec<Change>);

#[derive(Clone, Copy, Debug)]
struct Change {
    /// Number of the store's operation.
    operation: u64,
    at: u64,
    present: bool,
}

/// Checker with the state observed so far.
#[derive(Debug)]
pub struct Checker {
    gone_after: u64,
    /// Overrides of `gone_after` for members with another signing pace.
    gone_after_overrides: BTreeMap<String, u64>,
    /// True if all members weigh the same and have no limit.
    equal_weights: bool,
    work_spans: BTreeMap<Key, Vec<Span>>,
    sign_histories: BTreeMap<String, SignHistory>,
    /// All plans, by version.
    plans: BTreeMap<u64, Rc<Plan>>,
    /// True if no share may move.
    pub expect_no_change: bool,
    /// Number of moves of shares from present members, over all plans.
    pub move_count: usize,
    /// Number of plans so far.
    pub plan_count: usize,
    /// Violations found so far.
    pub violations: Vec<Violation>,
}

impl Checker {
    /// Sets the signing pace of a member.
    pub fn set_pace(&mut self, member: &str, pace: SignTiming) {
        let gone_after = u64::try_from(pace.member_timeout().as_millis()).unwrap_or(u64::MAX);
        self.gone_after_overrides.insert(member.to_owned(), gone_after);
    }

    /// Creates a checker for a fleet with this pace.
    #[must_use]
    pub fn new(pace: SignTiming, equal_weights: bool) -> Self {
        let milliseconds =
            |period: std::time::Duration| u64::try_from(period.as_millis()).unwrap_or(u64::MAX);
        Self {
            gone_after: milliseconds(pace.member_timeout()),
            gone_after_overrides: BTreeMap::new(),
            equal_weights,
            work_spans: BTreeMap::new(),
            sign_histories: BTreeMap::new(),
            plans: BTreeMap::new(),
            expect_no_change: false,
            move_count: 0,
            plan_count: 0,
            violations: Vec::new(),
        }
    }

    /// Adds a violation.
    pub fn add_violation(&mut self, at: u64, rule: &'static str, message: String) {
        self.violations.push(Violation { at, rule, message });
    }

    /// Records work.
    ///
    /// S1: a share has one holder that acts, and none while a share of another split has a holder.
    /// S4: no share is worked on while a leader without shares runs all of the work (`unsharded`).
    pub fn record_work(
        &mut self,
        key: Key,
        (process, life): (usize, u32),
        unsharded: bool,
        until: u64,
        now: u64,
    ) {
        let spans = self.work_spans.entry(key).or_default();
        spans.retain(|span| span.until > now);
        if let Some(span) =
            spans.iter_mut().find(|span| (span.process, span.life) == (process, life))
        {
            span.until = until;
            return;
        }
        let other_processes = spans.iter().map(|span| span.process).collect::<Vec<_>>();
        spans.push(Span { process, life, unsharded, until });
        if !other_processes.is_empty() {
            self.add_violation(
                now,
                "S1",
                format!("{key:?}: {process} works while {other_processes:?} does"),
            );
        }
        let conflicting_work = self.work_spans.iter().find(|(other, spans)| {
            let is_other = |span: &Span| match (key, other) {
                (Key::Coordination, Key::Share(_)) => unsharded,
                (Key::Share(_), Key::Coordination) => span.unsharded,
                _ => false,
            };
            spans.iter().any(|span| span.until > now && is_other(span))
        });
        if let Some(other) = conflicting_work.map(|(key, _)| *key) {
            let message =
                format!("{process} works for {key:?} while another process does for {other:?}");
            self.add_violation(now, "S4", message);
        }
        if let Key::Share(share) = key {
            let other = self.work_spans.iter().find(|(key, spans)| match key {
                Key::Share(other) if other.split != share.split => {
                    spans.iter().any(|span| span.until > now)
                }
                _ => false,
            });
            if let Some(other) = other.map(|(key, _)| *key) {
                self.add_violation(
                    now,
                    "S1",
                    format!("{process} works for {share:?}, another for {other:?}"),
                );
            }
            if self.expect_no_change {
                self.add_violation(
                    now,
                    "S3",
                    format!("{process} takes up {share:?} though nothing happened"),
                );
            }
        }
    }

    /// Records that the work of a process for a share has stopped.
    pub fn record_work_stopped(&mut self, key: Key, process: usize, life: u32) {
        if let Some(spans) = self.work_spans.get_mut(&key) {
            spans.retain(|span| (span.process, span.life) != (process, life));
        }
    }

    /// Returns the process that works on a share.
    #[must_use]
    pub fn worker(&self, key: Key, now: u64) -> Option<usize> {
        let span = self.work_spans.get(&key)?.iter().find(|span| span.until > now)?;
        Some(span.process)
    }

    /// Records that a member's sign was written or removed.
    pub fn record_sign(&mut self, member: &str, present: bool, operation: u64, at: u64) {
        let change = Change { operation, at, present };
        self.sign_histories.entry(member.to_owned()).or_default().0.push(change);
    }

    /// Checks that a process follows the plan that it last read from the store (S3).
    pub fn check_against_plan(
        &mut self,
        version: u64,
        check: impl FnOnce(&Plan) -> Result<(), String>,
        now: u64,
    ) {
        let plan = self.plans.get(&version).cloned();
        if let Some(Err(message)) = plan.map(|plan| check(&plan)) {
            self.add_violation(now, "S3", message);
        }
    }

    /// Records a plan that a fault made the newest.
    pub fn set_forged_plan(&mut self, plan: &Plan) {
        self.plans.insert(plan.version, Rc::new(plan.clone()));
    }

    /// Records a plan that was not written by a leader.
    pub fn set_requested_plan(&mut self, plan: &Plan) {
        self.plans.insert(plan.version, Rc::new(plan.clone()));
    }

    /// Records a plan that a coordinator wrote after these observations. `sound` returns true if
    /// the process of that name had no fault of its own, except faults that affect all.
    pub fn record_plan(
        &mut self,
        plan: &Plan,
        (coordinator, observations): (&str, &Observations),
        sound: impl Fn(&str) -> bool,
        now: u64,
    ) {
        let previous = self.plans.last_key_value().map(|(_, plan)| Rc::clone(plan));
        self.plan_count += 1;
        let first = Rc::new(Plan::unassigned(0));
        let last = previous.unwrap_or(first);
        if plan.version != last.version + 1 || plan.term < last.term {
            let (new, old) = ((plan.term, plan.version), (last.term, last.version));
            self.add_violation(now, "S3", format!("plan {new:?} was written over {old:?}"));
        }
        if self.expect_no_change {
            self.add_violation(
                now,
                "S3",
                format!("{coordinator} wrote plan {} though nothing happened", plan.version),
            );
        }
        self.check_causes(&last, plan, (coordinator, observations), sound, now);
        if self.equal_weights {
            self.check_moves(&last, plan, now);
        }
        self.plans.insert(plan.version, Rc::new(plan.clone()));
    }

    fn gone_after(&self, member: &str) -> u64 {
        self.gone_after_overrides.get(member).copied().unwrap_or(self.gone_after)
    }

    fn check_causes(
        &mut self,
        last: &Plan,
        plan: &Plan,
        (coordinator, observations): (&str, &Observations),
        sound: impl Fn(&str) -> bool,
        now: u64,
    ) {
        let Some((last_poll, _)) = observations.polls.last().copied() else { return };
        for name in plan.members.iter().filter(|name| !last.has_member(name)) {
            let history = self.sign_histories.get(name);
            let was_alive = history.is_some_and(|history| history.was_seen_alive(observations));
            if !was_alive && !observations.initial_members.contains(name) {
                self.add_violation(now, "S3", format!("{name} is planned, and was not seen alive"));
            }
        }
        for name in last.members.iter().filter(|name| !plan.has_member(name)) {
            let Some(history) = self.sign_histories.get(name) else { continue };
            let was_found = observations.initial_members.contains(name)
                && history.was_in_every_poll(observations);
            let was_reliable = history.was_seen_alive(observations) || was_found;
            if history.last_sign(last_poll).is_none()
                || !was_reliable
                || (observations.leaving && name == coordinator)
            {
                continue;
            }
            // The member may have been gone for several polls, if the plan could not be written.
            let silences =
                observations.polls.iter().map(|(poll, _)| history.silence(observations, *poll));
            let (silence, minimum) = (silences.max().unwrap_or(0), self.gone_after(name));
            let message = if sound(name) {
                format!("{name} is dropped, though nothing is wrong with it")
            } else if silence * 100 < minimum * 98 {
                format!("{name} is dropped, silent for {silence} ms as far as is known")
            } else {
                continue;
            };
            self.add_violation(now, "S3", message);
        }
    }

    /// Checks that shares are as even as possible, with no more moves than necessary (S3).
    fn check_moves(&mut self, last: &Plan, plan: &Plan, now: u64) {
        let count = |plan: &Plan, name: &String| plan.shares_of(name).count();
        let share_counts = plan.members.iter().map(|name| count(plan, name)).collect::<Vec<_>>();
        let (least, most) =
            (share_counts.iter().min().copied(), share_counts.iter().max().copied());
        if most > least.map(|least| least + 1) {
            self.add_violation(now, "S2", format!("a plan is uneven: {share_counts:?}"));
        }
        if last.split != plan.split || last.next.is_some() || plan.members.is_empty() {
            return;
        }
        let (shares, members) = (plan.shares.len(), plan.members.len());
        let (floor, ceiling) = (shares / members, shares.div_ceil(members));
        let previous_counts = plan.members.iter().map(|name| count(last, name)).collect::<Vec<_>>();
        let excess_over = |limit: usize| {
            previous_counts.iter().map(|previous| previous.saturating_sub(limit)).sum::<usize>()
        };
        let above_floor = previous_counts.iter().filter(|previous| **previous > floor).count();
        let required_moves = excess_over(floor)
            - if ceiling > floor { above_floor.min(shares % members) } else { 0 };
        let moved = last.all_shares().filter(|share| {
            let previous_holder = last.holder(*share);
            previous_holder.is_some_and(|previous_holder| plan.has_member(previous_holder))
                && previous_holder != plan.holder(*share)
        });
        let moves = moved.count();
        self.move_count += moves;
        if moves > required_moves {
            self.add_violation(
                now,
                "S3",
                format!("{moves} shares move where {required_moves} have to"),
            );
        }
    }
}

impl SignHistory {
    /// Returns the operation that wrote the newest sign before `at`, if the sign existed then.
    fn last_sign(&self, at: u64) -> Option<u64> {
        let last = self.changes_until(at).next()?;
        last.present.then_some(last.operation)
    }

    /// Returns the changes up to that operation, newest first.
    fn changes_until(&self, operation: u64) -> impl Iterator<Item = &Change> {
        self.0.iter().rev().filter(move |change| change.operation <= operation)
    }

    /// Returns true if two polls found different signs, and no poll since then missed the sign.
    fn was_seen_alive(&self, observations: &Observations) -> bool {
        let (mut was_alive, mut previous) = (false, None);
        for (poll, _) in &observations.polls {
            let found = self.last_sign(*poll);
            was_alive = found.is_some() && (was_alive || (previous.is_some() && found != previous));
            previous = found;
        }
        was_alive
    }

    /// Returns true if each poll of that leader found a sign.
    fn was_in_every_poll(&self, observations: &Observations) -> bool {
        observations.polls.iter().all(|(poll, _)| self.last_sign(*poll).is_some())
    }

    /// Returns the age, at poll `poll`, of the sign that the last poll found.
    ///
    /// The service's clocks differ by up to a second, so the first poll may add up to a second.
    fn silence(&self, observations: &Observations, poll: u64) -> u64 {
        let (Some((first, _)), Some((last_poll, _))) =
            (observations.polls.first(), observations.polls.last())
        else {
            return 0;
        };
        let last = self
            .changes_until(*last_poll)
            .next()
            .filter(|last| last.present && last.operation <= poll);
        let clock_slack = |last: &Change| if last.operation <= *first { 1_000 } else { 0 };
        last.map_or(0, |last| operation_time(poll) - last.at + clock_slack(last))
    }
}
