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
    /// Its own name: a leader whose own signs do not arrive cannot judge those of others.
    own: String,
    /// It is about to leave, and holds nothing.
    leaves: bool,
    seen: BTreeMap<String, Seen>,
    looked: Option<Duration>,
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
    /// For how long it left no new sign, as far as was looked.
    silent: Duration,
}

impl Planner {
    /// Begins a term with the plan that was found. Its members count until they are silent for too long.
    pub fn begin(own: &str, pace: Pace, plan: &Plan) -> Self {
        let mut seen = BTreeMap::new();
        if !mutant!(PlanForgotten) {
            seen.extend(plan.members.iter().map(|member| (member.clone(), Seen::in_plan(pace))));
        }
        Self { own: own.to_owned(), leaves: false, seen, looked: None }
    }

    /// This member is to hold nothing.
    pub fn leaves(&self) -> bool {
        self.leaves
    }

    /// It has seen who is there.
    pub fn has_looked(&self) -> bool {
        self.looked.is_some()
    }

    /// From now on this member is to hold nothing.
    pub fn leave(&mut self) {
        self.leaves = true;
    }

    /// Takes all signs there are, as a look that was answered `now` found them, where one is due each `period`. The
    /// leader's own signs have been [`steady`](crate::Member::steady) for so long. Those of members that are gone, to be
    /// removed.
    ///
    /// Time in which nobody looked is not held against anybody: a store that was down, or a leader that was frozen,
    /// would have all members gone at once. Nor is silence while the leader's own signs do not arrive either. Before the
    /// first look of a term others looked: a sign is as old then as the service says, as far as the leader's own signs
    /// arrived meanwhile.
    pub fn looked(
        &mut self,
        signs: Vec<Listed>,
        steady: Duration,
        period: Duration,
        now: Duration,
    ) -> Vec<(String, Tag)> {
        let before = if self.looked.is_none() { steady } else { Duration::ZERO };
        let since = self.looked.replace(now).map_or(Duration::ZERO, |at| now.saturating_sub(at));
        let passed = match mutant!(SilenceUnseen) {
            true => since,
            false => since.min(period * 2),
        };
        let by_name = signs.into_iter().map(|listed| (listed.sign.member.clone(), listed));
        let mut by_name = by_name.collect::<HashMap<_, _>>();
        for (name, seen) in &mut self.seen {
            seen.look(by_name.remove(name), passed, before);
        }
        let first = by_name.into_iter().map(|(name, listed)| (name, Seen::first(listed, before)));
        self.seen.extend(first);
        let own = self.seen.get(&self.own).filter(|own| own.tag.is_some() || self.leaves);
        let Some(own) = own.map(|own| own.silent) else { return Vec::new() };
        let own = if mutant!(OwnSignIgnored) { Duration::ZERO } else { own };
        self.seen.retain(|name, seen| seen.tag.is_some() || (self.leaves && *name == self.own));
        let mut gone = Vec::new();
        for (name, seen) in &mut self.seen {
            // Signs of all stop within one period when the account takes none any more.
            let most = seen.pace.gone_after().max(own + seen.pace.sign() * 2);
            if seen.silent > most && !mutant!(NeverGone) {
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
        Self { tag: None, worker, pace, counts: true, silent: Duration::ZERO }
    }

    /// One sign may be left of a process that is dead.
    fn first(Listed { sign, tag, age }: Listed, before: Duration) -> Self {
        let counts = mutant!(CountsAtOnce);
        let (worker, pace, silent) = (sign.worker(), sign.pace, silent(age).min(before));
        Self { tag: Some(tag), worker, pace, counts, silent }
    }

    /// With its sign, if it left one and did not take it back. Time has `passed` since the look before, or `before` the
    /// first one.
    fn look(&mut self, listed: Option<Listed>, passed: Duration, before: Duration) {
        let Some(Listed { sign, tag, age }) = listed else {
            self.tag = None;
            return;
        };
        if self.tag.as_ref() == Some(&tag) {
            self.silent += passed;
        } else {
            self.counts |= self.tag.is_some();
            self.silent = silent(age).min(before);
        }
        (self.tag, self.worker, self.pace) = (Some(tag), sign.worker(), sign.pace);
    }
}

/// For how long its member is known to be silent. The service's dates are in whole seconds.
fn silent(age: Duration) -> Duration {
    age.saturating_sub(Duration::from_secs(1))
}

impl Sign {
    fn worker(&self) -> Worker {
        Worker { weight: self.weight, most: self.most }
    }
}

#[cfg(test)]
mod tests;
