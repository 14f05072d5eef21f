//! What a member does about its shares. protocol.md §15.3.

use crate::planner::Plan;

/// A share that runs in this process: its election has a candidate here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    /// Which.
    pub share: u32,
    /// This candidate leads, and so holds the share.
    pub leads: bool,
    /// The member that was named as its successor, and whom the candidate still waits for.
    pub gives_to: Option<String>,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Have a candidate contend for this share.
    Begin(u32),
    /// Have this candidate hand over to that member, once it has come to take over.
    HandOver(u32, String),
    /// Have this candidate leave: it stops its work, and gives up the share if it holds it.
    End(u32),
}

/// What the member of that name has to do so that it holds what the plan says.
#[must_use]
pub fn acts(name: &str, plan: &Plan, running: &[Running]) -> Vec<Act> {
    let planned = |share: u32| plan.shares.get(share as usize).and_then(Option::as_deref);
    let mut acts = Vec::new();
    for Running { share, leads, gives_to } in running {
        match planned(*share) {
            Some(member) if member == name => {}
            // It goes on until the other one has come: a share is not left alone meanwhile.
            Some(member) if *leads => {
                if gives_to.as_deref() != Some(member) {
                    acts.push(Act::HandOver(*share, member.to_owned()));
                }
            }
            _ => acts.push(Act::End(*share)),
        }
    }
    let shares = (0..).zip(&plan.shares).filter(|(_, member)| member.as_deref() == Some(name));
    let begun = |share: u32| running.iter().any(|running| running.share == share);
    acts.extend(shares.map(|(share, _)| share).filter(|share| !begun(*share)).map(Act::Begin));
    acts
}

#[cfg(test)]
mod tests;
