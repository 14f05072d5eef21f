//! Who counts as a member, and what plan follows from that. protocol.md §14.1, §14.2.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use crate::assign::{Worker, assign};
use crate::mutants::mutant;
use crate::pace::Pace;
use crate::plan::Plan;
use crate::sign::{Listed, Sign, Tag};

/// What the coordinator has seen of members, in its term.
#[derive(Clone, Debug)]
pub(crate) struct Planner {
    own: String,
    pace: Pace,
    /// It is about to leave, and holds nothing.
    pub leaves: bool,
    seen: BTreeMap<String, Seen>,
    /// It has seen who is there.
    pub has_looked: bool,
}

#[derive(Clone, Debug)]
struct Seen {
    /// Of its newest sign. None: there is none.
    tag: Option<Tag>,
    worker: Worker,
    /// How often it leaves one, or the leader, as long as nothing is known of it.
    pace: Pace,
    /// It was seen alive, and not only by something that may be left of a former life.
    counts: bool,
    /// Since when it left no new sign, by the leader's clock.
    since: Duration,
}

impl Planner {
    /// Begins a term with the plan that was found. Its members count until they are silent for too long.
    pub fn begin(own: &str, pace: Pace, plan: &Plan) -> Self {
        let mut seen = BTreeMap::new();
        if !mutant!(PlanForgotten) {
            seen.extend(plan.members.iter().map(|member| (member.clone(), Seen::in_plan(pace))));
        }
        Self { own: own.to_owned(), pace, leaves: false, seen, has_looked: false }
    }

    /// Takes the signs that a list showed which was asked for and answered then, and the leader's own signs with the instants
    /// at which they were sent, the oldest first. Returns the signs of members that are gone, to be removed.
    pub fn looked(
        &mut self,
        signs: Vec<Listed>,
        own: &[(Tag, Duration)],
        asked: Duration,
        answered: Duration,
    ) -> Vec<(String, Tag)> {
        let is_first = !std::mem::replace(&mut self.has_looked, true);
        let by_name = signs.into_iter().map(|listed| (listed.sign.member.clone(), listed));
        let mut by_name = by_name.collect::<HashMap<_, _>>();
        let shown = by_name.get(&self.own);
        let own_age = shown.map_or(Duration::ZERO, |shown| shown.age);
        // The next one may have been answered before the list was. One that was not answered yet is as new as the list.
        let sent = shown.and_then(|shown| own.iter().rev().find(|(tag, _)| *tag == shown.tag));
        let sent = sent.map_or(answered, |(_, sent)| *sent);
        // The service's dates are in whole seconds. If they make the leader's own sign older than it is, they are wrong by as
        // much.
        let unknown =
            Duration::from_secs(1).max(own_age.saturating_sub(answered.saturating_sub(sent)));
        for listed in by_name.values_mut() {
            // Only what was before the first look is not known better.
            listed.age = match is_first && !mutant!(AgeIgnored) {
                true => listed.age.saturating_sub(unknown),
                false => Duration::ZERO,
            };
        }
        for (name, seen) in &mut self.seen {
            seen.look(by_name.remove(name), answered);
        }
        let first = by_name.into_iter().map(|(name, listed)| (name, Seen::first(listed, answered)));
        self.seen.extend(first);
        // A list without the leader's own sign is not to be trusted.
        if self.seen.get(&self.own).is_none_or(|own| own.tag.is_none() && !self.leaves) {
            return Vec::new();
        }
        self.seen.retain(|name, seen| seen.tag.is_some() || (self.leaves && *name == self.own));
        let mut gone = Vec::new();
        for (name, seen) in &mut self.seen {
            if seen.is_silent(own, self.pace, asked) && !mutant!(NeverGone) {
                // With its next sign it counts again: that is another one than this.
                seen.counts = false;
                gone.extend(seen.tag.clone().map(|tag| (name.clone(), tag)));
            }
        }
        gone
    }

    /// The plan for those who count now, after that one. None: it is the same one.
    pub fn plan(&self, before: &Plan, term: u64) -> Option<Plan> {
        let counts =
            |name: &String, seen: &Seen| seen.counts && !(self.leaves && *name == self.own);
        let counting = self.seen.iter().filter(|(name, seen)| counts(name, seen));
        let (names, workers): (Vec<_>, Vec<_>) =
            counting.map(|(name, seen)| (name, seen.worker)).unzip();
        let places =
            before.members.iter().map(|name| names.binary_search(&name).ok()).collect::<Vec<_>>();
        let place = |member: &Option<u32>| places.get((*member)? as usize).copied().flatten();
        let held = match mutant!(NotSticky) {
            true => vec![None; before.shares.len()],
            false => before.shares.iter().map(place).collect::<Vec<_>>(),
        };
        let place = |member: Option<usize>| member.and_then(|member| u32::try_from(member).ok());
        let shares = assign(&held, &workers).into_iter().map(place).collect::<Vec<_>>();
        // Those who hold nothing are named too, so that the next leader knows that they are there.
        let members = names.into_iter().cloned().collect::<Vec<_>>();
        let is_same = members == before.members && shares == before.shares;
        if is_same && !mutant!(PlanRewritten) {
            return None;
        }
        let (version, split) = (before.version + 1, before.split);
        Some(Plan { term, version, split, members, shares, next: None })
    }
}

impl Seen {
    fn in_plan(pace: Pace) -> Self {
        let worker = Worker { weight: 1, most: None };
        Self { tag: None, worker, pace, counts: true, since: Duration::ZERO }
    }

    /// One sign may be left of a process that is dead.
    fn first(Listed { sign, tag, age }: Listed, answered: Duration) -> Self {
        let counts = mutant!(CountsAtOnce);
        let since = answered.saturating_sub(age);
        Self { worker: sign.worker(), pace: sign.pace, tag: Some(tag), counts, since }
    }

    /// With its sign, if it left one and did not take it back.
    fn look(&mut self, listed: Option<Listed>, answered: Duration) {
        let Some(Listed { sign, tag, age }) = listed else {
            self.tag = None;
            return;
        };
        if self.tag.as_ref() != Some(&tag) {
            self.counts |= self.tag.is_some();
            self.since = answered.saturating_sub(age);
        }
        (self.tag, self.worker, self.pace) = (Some(tag), sign.worker(), sign.pace);
    }

    /// It has been silent for too long until `now`, and alone: most of that time the leader signed, at its pace. When signs of
    /// the leader were missing too, the store may have been down, or the leader was frozen.
    fn is_silent(&self, own: &[(Tag, Duration)], of_leader: Pace, now: Duration) -> bool {
        let pace = self.pace.slower(of_leader);
        let sent = own.iter().map(|(_, sent)| *sent);
        let alone = sent.clone().zip(sent.skip(1)).filter(|(_, next)| *next <= now);
        let alone = alone.filter(|(one, next)| *next - *one <= of_leader.steady());
        let alone: Duration =
            alone.map(|(one, next)| next.saturating_sub(one.max(self.since))).sum();
        let is_alone = alone > pace.sign() * 2 || mutant!(SilenceOfAll);
        is_alone && now.saturating_sub(self.since) > pace.gone_after()
    }
}

impl Sign {
    fn worker(&self) -> Worker {
        Worker { weight: self.weight, most: self.most }
    }
}

#[cfg(test)]
mod tests;
