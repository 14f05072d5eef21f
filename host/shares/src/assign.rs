//! Who should hold what: as even as weights allow, with as few moves as that takes. protocol.md §14.2.

use std::cmp::Reverse;

/// One that can hold shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Worker {
    /// How much it can do beside the others. 0: it holds no share.
    pub weight: u32,
    /// The most shares that it may hold.
    pub max_shares: Option<u32>,
}

/// For each share the member that should hold it, by index.
///
/// `before` has who should have held it until now, by index into the same members; none for one that is gone, or a
/// share that nobody held. Workers of one weight get numbers of shares that differ by one at most, others the whole
/// numbers beside their exact part. A share moves only where its member has to have fewer, or is gone. A share has no
/// member only where all have the most that they may.
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

/// How many shares each one should hold.
fn targets(shares: usize, held_shares: &[usize], members: &[Worker]) -> Vec<usize> {
    let mut targets = vec![0; members.len()];
    let weight = |member: usize| u128::from(members[member].weight);
    let mut open = (0..members.len()).filter(|member| weight(*member) > 0).collect::<Vec<_>>();
    let mut unassigned = shares;
    // Those whose part is more than they may hold get that, and the others share what is left.
    loop {
        let weights = open.iter().map(|member| weight(*member)).sum::<u128>();
        let limit = |member: usize| {
            let max_shares = members[member].max_shares.map(|most| most as usize)?;
            (unassigned as u128 * weight(member) >= max_shares as u128 * weights).then_some(max_shares)
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
        // At most `left`, which is a usize.
        targets[*member] = (weighted(*member) / weights) as usize;
        remaining -= targets[*member];
    }
    // What does not divide goes to those whose part is no whole number: where it costs no move, and then to those who
    // miss the most of their part.
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
