//! Assignment of shares: as even as weights allow, with the fewest moves. protocol.md §14.2.

use std::cmp::Reverse;

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
/// `previous` contains the planned holders until now, by index into the same members. It is `None`
/// for members that are gone and shares without a holder.
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
mod tests;
