//! Selects the members that count, and assigns the shares to them: as even as weights allow, with
//! the fewest moves. protocol.md §14.1, §14.2.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use crate::mutants::mutant;
use crate::plan::Plan;
use crate::sign::{ListedSign, Sign, SignTiming, Tag};

/// The coordinator's observations of members in its term.
#[derive(Clone, Debug)]
pub(crate) struct Planner {
    own_name: String,
    timing: SignTiming,
    /// True if the coordinator is about to leave, and should hold nothing.
    pub is_leaving: bool,
    members: BTreeMap<String, ObservedMember>,
    /// True once a list of the signs was received.
    pub has_listed: bool,
}

#[derive(Clone, Debug)]
struct ObservedMember {
    /// Tag of its newest sign. `None` if there is none.
    tag: Option<Tag>,
    worker: Worker,
    /// Its interval between signs, or the leader's while it is unknown.
    timing: SignTiming,
    /// True if it was seen alive, by more than a sign that a former process may have left.
    is_counted: bool,
    /// Instant of its last new sign, on the leader's clock.
    changed_at: Duration,
}

impl Planner {
    /// Creates the planner for a term that starts with `plan`. The members of that plan count until
    /// they are silent for too long.
    pub fn new(own_name: &str, timing: SignTiming, plan: &Plan) -> Self {
        let mut members = BTreeMap::new();
        if !mutant!(PlanForgotten) {
            members.extend(
                plan.members
                    .iter()
                    .map(|member| (member.clone(), ObservedMember::from_plan(timing))),
            );
        }
        Self {
            own_name: own_name.to_owned(),
            timing,
            is_leaving: false,
            members,
            has_listed: false,
        }
    }

    /// Takes a list of signs, the instants of its request and response, and the leader's own signs
    /// with their send times, the oldest first. Returns the signs of members that are gone, which
    /// should be removed.
    pub fn on_list(
        &mut self,
        signs: Vec<ListedSign>,
        own_signs: &[(Tag, Duration)],
        list_sent_at: Duration,
        list_received_at: Duration,
    ) -> Vec<(String, Tag)> {
        let is_first = !std::mem::replace(&mut self.has_listed, true);
        let by_name = signs.into_iter().map(|listed| (listed.sign.member.clone(), listed));
        let mut by_name = by_name.collect::<HashMap<_, _>>();
        let own_listed = by_name.get(&self.own_name);
        let own_age = own_listed.map_or(Duration::ZERO, |shown| shown.age);
        // The list may show an earlier sign than the newest acknowledged one. A listed sign that is
        // not acknowledged yet counts as sent when the list arrived.
        let acknowledged =
            own_listed.and_then(|shown| own_signs.iter().rev().find(|(tag, _)| *tag == shown.tag));
        let sent_at = acknowledged.map_or(list_received_at, |(_, sent_at)| *sent_at);
        // The service's dates are whole seconds. If they make the leader's own sign older than it
        // is, they are wrong by that difference.
        let age_uncertainty = Duration::from_secs(1)
            .max(own_age.saturating_sub(list_received_at.saturating_sub(sent_at)));
        for listed in by_name.values_mut() {
            // Ages are needed only for the time before the first list.
            listed.age = match is_first && !mutant!(AgeIgnored) {
                true => listed.age.saturating_sub(age_uncertainty),
                false => Duration::ZERO,
            };
        }
        for (name, member) in &mut self.members {
            member.update(by_name.remove(name), list_received_at);
        }
        let new_members = by_name
            .into_iter()
            .map(|(name, listed)| (name, ObservedMember::from_listed(listed, list_received_at)));
        self.members.extend(new_members);
        // A list without the leader's own sign is not trusted.
        if self
            .members
            .get(&self.own_name)
            .is_none_or(|own_member| own_member.tag.is_none() && !self.is_leaving)
        {
            return Vec::new();
        }
        self.members.retain(|name, member| {
            member.tag.is_some() || (self.is_leaving && *name == self.own_name)
        });
        let mut gone = Vec::new();
        for (name, member) in &mut self.members {
            if member.is_silent(own_signs, self.timing, list_sent_at) && !mutant!(NeverGone) {
                // Its next sign, which has another tag, makes it count again.
                member.is_counted = false;
                gone.extend(member.tag.clone().map(|tag| (name.clone(), tag)));
            }
        }
        gone
    }

    /// Returns the next plan for the members that count now. Returns `None` if it is unchanged.
    pub fn plan(&self, previous: &Plan, term: u64) -> Option<Plan> {
        let is_counted = |name: &String, member: &ObservedMember| {
            member.is_counted && !(self.is_leaving && *name == self.own_name)
        };
        let counted = self.members.iter().filter(|(name, member)| is_counted(name, member));
        let (names, workers): (Vec<_>, Vec<_>) =
            counted.map(|(name, member)| (name, member.worker)).unzip();
        let member_indices =
            previous.members.iter().map(|name| names.binary_search(&name).ok()).collect::<Vec<_>>();
        let index_of =
            |member: &Option<u32>| member_indices.get((*member)? as usize).copied().flatten();
        let current_holders = match mutant!(NotSticky) {
            true => vec![None; previous.shares.len()],
            false => previous.shares.iter().map(index_of).collect::<Vec<_>>(),
        };
        let to_plan_index =
            |member: Option<usize>| member.and_then(|member| u32::try_from(member).ok());
        let shares =
            assign(&current_holders, &workers).into_iter().map(to_plan_index).collect::<Vec<_>>();
        // Members without shares are included, so that the next leader knows them.
        let members = names.into_iter().cloned().collect::<Vec<_>>();
        let is_same = members == previous.members && shares == previous.shares;
        if is_same && !mutant!(PlanRewritten) {
            return None;
        }
        let (version, split) = (previous.version + 1, previous.split);
        Some(Plan { term, version, split, members, shares, next: None })
    }
}

impl ObservedMember {
    fn from_plan(timing: SignTiming) -> Self {
        let worker = Worker { weight: 1, max_shares: None };
        Self { tag: None, worker, timing, is_counted: true, changed_at: Duration::ZERO }
    }

    /// Creates the observation of a new member. One sign may come from a dead process, so the
    /// member does not count yet.
    fn from_listed(ListedSign { sign, tag, age }: ListedSign, received_at: Duration) -> Self {
        let is_counted = mutant!(CountsAtOnce);
        let changed_at = received_at.saturating_sub(age);
        Self { worker: sign.worker(), timing: sign.timing, tag: Some(tag), is_counted, changed_at }
    }

    /// Updates the observation with the listed sign, if there is one.
    fn update(&mut self, listed: Option<ListedSign>, received_at: Duration) {
        let Some(ListedSign { sign, tag, age }) = listed else {
            self.tag = None;
            return;
        };
        if self.tag.as_ref() != Some(&tag) {
            self.is_counted |= self.tag.is_some();
            self.changed_at = received_at.saturating_sub(age);
        }
        (self.tag, self.worker, self.timing) = (Some(tag), sign.worker(), sign.timing);
    }

    /// Returns true if the member alone has been silent for too long at `now`.
    ///
    /// The leader must have written its own signs regularly for most of that time. If signs of the
    /// leader were missing too, the store may have been down, or the leader frozen.
    fn is_silent(
        &self,
        own_signs: &[(Tag, Duration)],
        leader_timing: SignTiming,
        now: Duration,
    ) -> bool {
        let timing = self.timing.slower(leader_timing);
        let sent_times = own_signs.iter().map(|(_, sent)| *sent);
        let gaps = sent_times.clone().zip(sent_times.skip(1)).filter(|(_, next)| *next <= now);
        let steady_gaps =
            gaps.filter(|(one, next)| *next - *one <= leader_timing.longest_steady_gap());
        let observed_silence: Duration =
            steady_gaps.map(|(one, next)| next.saturating_sub(one.max(self.changed_at))).sum();
        let has_observed_enough = observed_silence > timing.interval() * 2 || mutant!(SilenceOfAll);
        has_observed_enough && now.saturating_sub(self.changed_at) > timing.member_timeout()
    }
}

impl Sign {
    fn worker(&self) -> Worker {
        Worker { weight: self.weight, max_shares: self.max_shares }
    }
}

/// A member that can hold shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Worker {
    /// Relative capacity. A member of weight 0 holds no share.
    pub weight: u32,
    /// Maximum number of shares.
    pub max_shares: Option<u32>,
}

/// Returns, for each share, the index of the member that should hold it.
///
/// `previous` contains the planned holders until now, by index into the same members. The entry is
/// `None` for members that are gone and shares without a holder.
///
/// Members of equal weight get numbers of shares that differ by at most one. Others get their exact
/// part, rounded up or down. A share moves only if its member must have fewer shares, or is gone. A
/// share has no member only if all members have their maximum.
#[must_use]
pub fn assign(previous: &[Option<usize>], members: &[Worker]) -> Vec<Option<usize>> {
    let mut held_shares = vec![0; members.len()];
    for member in previous.iter().flatten() {
        held_shares[*member] += 1;
    }
    let mut capacity = targets(previous.len(), &held_shares, members);
    let mut plan = vec![None; previous.len()];
    for (share, member) in previous.iter().enumerate() {
        if let Some(member) = member.filter(|member| capacity[*member] > 0) {
            capacity[member] -= 1;
            plan[share] = Some(member);
        }
    }
    let mut free = (0..members.len()).filter(|member| capacity[*member] > 0).collect::<Vec<_>>();
    for share in plan.iter_mut().filter(|share| share.is_none()) {
        let Some(member) = free.last().copied() else { break };
        *share = Some(member);
        capacity[member] -= 1;
        if capacity[member] == 0 {
            free.pop();
        }
    }
    plan
}

/// Returns the number of shares that each member should hold.
fn targets(shares: usize, held_shares: &[usize], members: &[Worker]) -> Vec<usize> {
    let mut targets = vec![0; members.len()];
    let weight = |member: usize| u128::from(members[member].weight);
    let mut open = (0..members.len()).filter(|member| weight(*member) > 0).collect::<Vec<_>>();
    let mut unassigned = shares;
    // Members whose part exceeds their maximum get the maximum. The others share the remaining
    // shares.
    loop {
        let weights = open.iter().map(|member| weight(*member)).sum::<u128>();
        let limit = |member: usize| {
            let max_shares = members[member].max_shares.map(|most| most as usize)?;
            (unassigned as u128 * weight(member) >= max_shares as u128 * weights)
                .then_some(max_shares)
        };
        let limited = open.iter().filter_map(|m| Some((*m, limit(*m)?))).collect::<Vec<_>>();
        if limited.is_empty() {
            break;
        }
        for (member, max_shares) in limited {
            targets[member] = max_shares;
            unassigned -= max_shares;
            open.retain(|other| *other != member);
        }
    }
    let weights = open.iter().map(|member| weight(*member)).sum::<u128>();
    let weighted = |member: usize| unassigned as u128 * weight(member);
    let mut remaining = unassigned;
    for member in &open {
        // At most `unassigned`, which is a usize.
        targets[*member] = (weighted(*member) / weights) as usize;
        remaining -= targets[*member];
    }
    // The remainder goes to members with a fractional part: first where it costs no move, then
    // where the missing fraction is largest.
    open.sort_by_key(|member| {
        let missing = weighted(*member) % weights;
        (missing == 0, Reverse(held_shares[*member] > targets[*member]), Reverse(missing), *member)
    });
    for member in open.into_iter().take(remaining) {
        targets[member] += 1;
    }
    targets
}

#[cfg(test)]
mod assign_tests;
#[cfg(test)]
mod tests;
