//! What the leader of the whole decides: who counts as a member, and when a plan changes. protocol.md §15.2.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::assign::{Member, assign};

/// What a member leaves beside the election, again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sign {
    /// The member's name, its own among all members.
    pub member: String,
    /// Another one for each time that it is left: its ETag.
    pub mark: String,
    /// How much the member can do beside the others.
    pub weight: u32,
    /// The most shares that it takes.
    pub most: Option<u32>,
}

/// Who should hold what.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The term in which it was made.
    pub term: u64,
    /// It rises with each plan.
    pub version: u64,
    /// For each share the member that should hold it.
    pub shares: Vec<Option<String>>,
    /// Nobody is to hold anything any more: then there will be so many shares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u32>,
}

/// Periods of the planner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Between two looks at the signs.
    pub every: Duration,
    /// A member is gone when it left no new sign for so long.
    pub gone_after: Duration,
}

/// What the leader of the whole has seen, in its term.
#[derive(Clone, Debug)]
pub struct Planner {
    pace: Pace,
    /// Its own name: a leader whose own signs do not arrive cannot judge those of others.
    own: String,
    term: u64,
    plan: Plan,
    seen: BTreeMap<String, Seen>,
    looked: Option<Duration>,
}

#[derive(Clone, Debug)]
struct Seen {
    /// Of its newest sign. None: there is none.
    mark: Option<String>,
    member: Member,
    /// It was seen alive, and not only by something that may be left of a former life.
    counts: bool,
    /// For how long it left no new one, as far as was looked.
    silent: Duration,
}

impl Planner {
    /// Begins a term with the plan that was found. Its members count until they are silent for too long.
    #[must_use]
    pub fn begin(own: &str, term: u64, plan: Plan, pace: Pace) -> Self {
        let seen = plan.shares.iter().flatten().map(|member| (member.clone(), Seen::in_plan()));
        let (own, seen) = (own.to_owned(), seen.collect());
        Self { pace, own, term, plan, seen, looked: None }
    }

    /// The newest plan.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Who counts as a member.
    pub fn members(&self) -> impl Iterator<Item = &str> {
        self.seen.iter().filter(|(_, seen)| seen.counts).map(|(name, _)| name.as_str())
    }

    /// Takes all signs there are, as a look that was answered `now` found them. The plan to write, if it changes.
    ///
    /// Time in which nobody looked is not held against anybody: a store that was down, or a leader that was frozen,
    /// would have all members gone at once. Nor does anybody go while the leader's own signs do not arrive.
    pub fn looked(&mut self, signs: &[Sign], now: Duration) -> Option<Plan> {
        let since = self.looked.replace(now).map_or(Duration::ZERO, |at| now.saturating_sub(at));
        let passed = since.min(self.pace.every * 2);
        let by_name = signs.iter().map(|sign| (&sign.member, sign)).collect::<BTreeMap<_, _>>();
        for (name, seen) in &mut self.seen {
            seen.look(by_name.get(name).copied(), passed);
        }
        for sign in signs {
            self.seen.entry(sign.member.clone()).or_insert_with(|| Seen::first(sign));
        }
        let gone_after = self.pace.gone_after;
        let is_there = |seen: &Seen| seen.mark.is_some() && seen.silent < gone_after;
        if self.seen.get(&self.own).is_some_and(is_there) {
            self.seen.retain(|_, seen| is_there(seen));
        }
        self.changed()
    }

    /// All that was held was given up: there are as many shares now as was asked for.
    ///
    /// The plan to write. None: nothing was asked for.
    pub fn drained(&mut self) -> Option<Plan> {
        let shares = self.plan.next.take()?;
        self.plan.shares = vec![None; shares as usize];
        self.changed()
    }

    /// The plan for those who count now, if it is another one.
    fn changed(&mut self) -> Option<Plan> {
        if self.plan.next.is_some() {
            return None;
        }
        let counting = self.seen.iter().filter(|(_, seen)| seen.counts);
        let (names, members): (Vec<_>, Vec<_>) =
            counting.map(|(name, seen)| (name, seen.member)).unzip();
        let index = |name: &Option<String>| {
            let name = name.as_ref()?;
            names.binary_search(&name).ok()
        };
        let before = self.plan.shares.iter().map(index).collect::<Vec<_>>();
        let after = assign(&before, &members);
        let shares = after.into_iter().map(|m| Some(names[m?].clone())).collect::<Vec<_>>();
        if shares == self.plan.shares {
            return None;
        }
        let version = self.plan.version + 1;
        self.plan = Plan { term: self.term, version, shares, next: None };
        Some(self.plan.clone())
    }
}

impl Seen {
    fn in_plan() -> Self {
        let member = Member { weight: 1, most: None };
        Self { mark: None, member, counts: true, silent: Duration::ZERO }
    }

    /// One sign may be left of a process that is dead.
    fn first(sign: &Sign) -> Self {
        let mark = Some(sign.mark.clone());
        Self { mark, member: sign.member(), counts: false, silent: Duration::ZERO }
    }

    /// With its sign, if it left one and did not take it back.
    fn look(&mut self, sign: Option<&Sign>, passed: Duration) {
        let Some(sign) = sign else {
            self.mark = None;
            return;
        };
        let is_new = self.mark.as_ref() != Some(&sign.mark);
        if is_new {
            self.counts |= self.mark.is_some();
            self.silent = Duration::ZERO;
        } else {
            self.silent += passed;
        }
        (self.mark, self.member) = (Some(sign.mark.clone()), sign.member());
    }
}

impl Sign {
    fn member(&self) -> Member {
        Member { weight: self.weight, most: self.most }
    }
}

#[cfg(test)]
mod tests;
