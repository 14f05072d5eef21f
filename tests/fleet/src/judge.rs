//! What must not happen, judged by what the store applied and by when work went on, never by what a process believes.
//! protocol.md §14.4.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use tenure_shares::{Pace, Plan};

use crate::store::Key;
use crate::world::time_of;

/// Something that must not happen, and did.
#[derive(Clone, Debug)]
pub struct Violation {
    /// True time, in milliseconds.
    pub at: u64,
    /// Which rule.
    pub rule: &'static str,
    /// What happened.
    pub text: String,
}

/// Work for a share that goes on.
#[derive(Clone, Copy, Debug)]
struct Span {
    who: usize,
    life: u32,
    /// True for all of the work, false for that of a share.
    whole: bool,
    until: u64,
}

/// What a coordinator has looked at, in its term.
#[derive(Clone, Debug, Default)]
pub struct Looks {
    /// For each look which operation of the store it was, and when the leader took it.
    pub at: Vec<(u64, u64)>,
    /// Those whom the plan named when it began.
    pub found: BTreeSet<String>,
    /// The leader of that name leaves.
    pub leaves: bool,
}

/// Signs of a member, and their removals.
#[derive(Clone, Debug, Default)]
struct Heard(Vec<Change>);

#[derive(Clone, Copy, Debug)]
struct Change {
    /// Which operation of the store it was.
    done: u64,
    at: u64,
    is_there: bool,
}

/// What was seen so far.
#[derive(Debug)]
pub struct Judge {
    gone_after: u64,
    /// The same of members that sign at another pace.
    others: BTreeMap<String, u64>,
    /// All members weigh the same and have no limit.
    equal: bool,
    works: BTreeMap<Key, Vec<Span>>,
    heard: BTreeMap<String, Heard>,
    /// All plans, by their versions.
    plans: BTreeMap<u64, Rc<Plan>>,
    /// Nothing is to move.
    pub quiet: bool,
    /// Moves of shares from members that are there, by plans.
    pub moves: usize,
    /// All plans so far.
    pub written: usize,
    /// What must not happen, and did.
    pub violations: Vec<Violation>,
}

impl Judge {
    /// A member that signs at a pace of its own.
    pub fn signs(&mut self, member: &str, pace: Pace) {
        let gone_after = u64::try_from(pace.gone_after().as_millis()).unwrap_or(u64::MAX);
        self.others.insert(member.to_owned(), gone_after);
    }

    /// Of a fleet at that pace.
    #[must_use]
    pub fn new(pace: Pace, equal: bool) -> Self {
        let milliseconds =
            |period: std::time::Duration| u64::try_from(period.as_millis()).unwrap_or(u64::MAX);
        Self {
            gone_after: milliseconds(pace.gone_after()),
            others: BTreeMap::new(),
            equal,
            works: BTreeMap::new(),
            heard: BTreeMap::new(),
            plans: BTreeMap::new(),
            quiet: false,
            moves: 0,
            written: 0,
            violations: Vec::new(),
        }
    }

    /// Tells of a violation.
    pub fn broken(&mut self, at: u64, rule: &'static str, text: String) {
        self.violations.push(Violation { at, rule, text });
    }

    /// S1: a share has one holder that acts, and never while a share of another split has one.
    /// S4: no share is worked for while a leader without shares runs all of the work (`whole`).
    pub fn works(
        &mut self,
        key: Key,
        (who, life): (usize, u32),
        whole: bool,
        until: u64,
        now: u64,
    ) {
        let spans = self.works.entry(key).or_default();
        spans.retain(|span| span.until > now);
        if let Some(span) = spans.iter_mut().find(|span| (span.who, span.life) == (who, life)) {
            span.until = until;
            return;
        }
        let others = spans.iter().map(|span| span.who).collect::<Vec<_>>();
        spans.push(Span { who, life, whole, until });
        if !others.is_empty() {
            self.broken(now, "S1", format!("{key:?}: {who} works while {others:?} does"));
        }
        let rival = self.works.iter().find(|(other, spans)| {
            let is_other = |span: &Span| match (key, other) {
                (Key::Coordination, Key::Share(_)) => whole,
                (Key::Share(_), Key::Coordination) => span.whole,
                _ => false,
            };
            spans.iter().any(|span| span.until > now && is_other(span))
        });
        if let Some(other) = rival.map(|(key, _)| *key) {
            let text = format!("{who} works for {key:?} while another process does for {other:?}");
            self.broken(now, "S4", text);
        }
        if let Key::Share(share) = key {
            let other = self.works.iter().find(|(key, spans)| match key {
                Key::Share(other) if other.split != share.split => {
                    spans.iter().any(|span| span.until > now)
                }
                _ => false,
            });
            if let Some(other) = other.map(|(key, _)| *key) {
                self.broken(
                    now,
                    "S1",
                    format!("{who} works for {share:?}, and somebody for {other:?}"),
                );
            }
            if self.quiet {
                self.broken(now, "S3", format!("{who} takes up {share:?} though nothing happened"));
            }
        }
    }

    /// The work of that process for that share was seen stopped.
    pub fn stopped(&mut self, key: Key, who: usize, life: u32) {
        if let Some(spans) = self.works.get_mut(&key) {
            spans.retain(|span| (span.who, span.life) != (who, life));
        }
    }

    /// Who works for it.
    #[must_use]
    pub fn worker(&self, key: Key, now: u64) -> Option<usize> {
        let span = self.works.get(&key)?.iter().find(|span| span.until > now)?;
        Some(span.who)
    }

    /// A sign of that member was written, or removed.
    pub fn heard(&mut self, member: &str, is_there: bool, done: u64, at: u64) {
        let change = Change { done, at, is_there };
        self.heard.entry(member.to_owned()).or_default().0.push(change);
    }

    /// S3: a process does what the plan says that the store gave it last.
    pub fn obeys(
        &mut self,
        version: u64,
        does: impl FnOnce(&Plan) -> Result<(), String>,
        now: u64,
    ) {
        let plan = self.plans.get(&version).cloned();
        if let Some(Err(text)) = plan.map(|plan| does(&plan)) {
            self.broken(now, "S3", text);
        }
    }

    /// The newest plan is this one, by a fault.
    pub fn forged(&mut self, plan: &Plan) {
        self.plans.insert(plan.version, Rc::new(plan.clone()));
    }

    /// A plan was written, not by a leader.
    pub fn asked(&mut self, plan: &Plan) {
        self.plans.insert(plan.version, Rc::new(plan.clone()));
    }

    /// A coordinator has written that plan after these looks. `sound`: nothing was wrong with the process of that name, but
    /// with all of them at most.
    pub fn planned(
        &mut self,
        plan: &Plan,
        (own, looks): (&str, &Looks),
        sound: impl Fn(&str) -> bool,
        now: u64,
    ) {
        let before = self.plans.last_key_value().map(|(_, plan)| Rc::clone(plan));
        self.written += 1;
        let first = Rc::new(Plan::first(0));
        let last = before.unwrap_or(first);
        if plan.version != last.version + 1 || plan.term < last.term {
            let (is, was) = ((plan.term, plan.version), (last.term, last.version));
            self.broken(now, "S3", format!("plan {is:?} was written over {was:?}"));
        }
        if self.quiet {
            self.broken(
                now,
                "S3",
                format!("{own} wrote plan {} though nothing happened", plan.version),
            );
        }
        self.judge_causes(&last, plan, (own, looks), sound, now);
        if self.equal {
            self.judge_moves(&last, plan, now);
        }
        self.plans.insert(plan.version, Rc::new(plan.clone()));
    }

    fn gone_after(&self, member: &str) -> u64 {
        self.others.get(member).copied().unwrap_or(self.gone_after)
    }

    fn judge_causes(
        &mut self,
        last: &Plan,
        plan: &Plan,
        (own, looks): (&str, &Looks),
        sound: impl Fn(&str) -> bool,
        now: u64,
    ) {
        let Some((listed, _)) = looks.at.last().copied() else { return };
        for name in plan.members.iter().filter(|name| !last.names(name)) {
            let heard = self.heard.get(name);
            let alive = heard.is_some_and(|heard| heard.was_seen_alive(looks));
            if !alive && !looks.found.contains(name) {
                self.broken(now, "S3", format!("{name} is planned, and was not seen alive"));
            }
        }
        for name in last.members.iter().filter(|name| !plan.names(name)) {
            let Some(heard) = self.heard.get(name) else { continue };
            let was_found = looks.found.contains(name) && heard.was_never_missed(looks);
            let counts = heard.was_seen_alive(looks) || was_found;
            if heard.last(listed).is_none() || !counts || (looks.leaves && name == own) {
                continue;
            }
            // It may have been gone for some looks, if the plan could not be written.
            let silences = looks.at.iter().map(|(look, _)| heard.silence(looks, *look));
            let (silence, least) = (silences.max().unwrap_or(0), self.gone_after(name));
            let text = if sound(name) {
                format!("{name} is dropped, though nothing is wrong with it")
            } else if silence * 100 < least * 98 {
                format!("{name} is dropped, silent for {silence} ms as far as is known")
            } else {
                continue;
            };
            self.broken(now, "S3", text);
        }
    }

    /// S3: as even as can be, with no more moves than that takes.
    fn judge_moves(&mut self, last: &Plan, plan: &Plan, now: u64) {
        let count = |of: &Plan, name: &String| of.of(name).count();
        let has = plan.members.iter().map(|name| count(plan, name)).collect::<Vec<_>>();
        let (least, most) = (has.iter().min().copied(), has.iter().max().copied());
        if most > least.map(|least| least + 1) {
            self.broken(now, "S2", format!("a plan is uneven: {has:?}"));
        }
        if last.split != plan.split || last.next.is_some() || plan.members.is_empty() {
            return;
        }
        let (shares, members) = (plan.shares.len(), plan.members.len());
        let (low, high) = (shares / members, shares.div_ceil(members));
        let had = plan.members.iter().map(|name| count(last, name)).collect::<Vec<_>>();
        let above = |limit: usize| had.iter().map(|had| had.saturating_sub(limit)).sum::<usize>();
        let fuller = had.iter().filter(|had| **had > low).count();
        let least = above(low) - if high > low { fuller.min(shares % members) } else { 0 };
        let moved = last.all().filter(|share| {
            let was = last.holder(*share);
            was.is_some_and(|was| plan.names(was)) && was != plan.holder(*share)
        });
        let moves = moved.count();
        self.moves += moves;
        if moves > least {
            self.broken(now, "S3", format!("{moves} shares move where {least} have to"));
        }
    }
}

impl Heard {
    /// Which one wrote the newest sign before that one, if it was there then.
    fn last(&self, at: u64) -> Option<u64> {
        let last = self.before(at).next()?;
        last.is_there.then_some(last.done)
    }

    /// What happened until that operation, the newest first.
    fn before(&self, done: u64) -> impl Iterator<Item = &Change> {
        self.0.iter().rev().filter(move |change| change.done <= done)
    }

    /// Two looks of that leader found two signs that were not the same, and none found no sign since.
    fn was_seen_alive(&self, looks: &Looks) -> bool {
        let (mut alive, mut before) = (false, None);
        for (look, _) in &looks.at {
            let found = self.last(*look);
            alive = found.is_some() && (alive || (before.is_some() && found != before));
            before = found;
        }
        alive
    }

    /// Each look of that leader found a sign.
    fn was_never_missed(&self, looks: &Looks) -> bool {
        looks.at.iter().all(|(look, _)| self.last(*look).is_some())
    }

    /// For how long the sign that there was at the last look was the newest, at that look. The service's clocks are up to a
    /// second apart, and so may have said a second too much in the first one.
    fn silence(&self, looks: &Looks, look: u64) -> u64 {
        let (Some((first, _)), Some((listed, _))) = (looks.at.first(), looks.at.last()) else {
            return 0;
        };
        let last = self.before(*listed).next().filter(|last| last.is_there && last.done <= look);
        let more = |last: &Change| if last.done <= *first { 1_000 } else { 0 };
        last.map_or(0, |last| time_of(look) - last.at + more(last))
    }
}
