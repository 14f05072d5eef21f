//! Breadth-first search, which finds a shortest path to the first violation.

use std::collections::{BTreeMap, HashMap, hash_map::Entry};
use std::fmt;
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::action::Action;
use super::hashed::digest;
use super::scope::{Bounds, Scope};
use super::state::State;

/// Result of an exploration.
#[derive(Debug)]
pub struct Explored {
    /// Bounds of the exploration.
    pub bounds: Bounds,
    /// Number of distinct states.
    pub state_count: usize,
    /// Number of actions between states, by kind.
    pub transitions: BTreeMap<&'static str, u64>,
    /// Number of actions by which a term was won after an earlier one.
    pub takeovers: u64,
    /// Number of actions by which a lease was given to a successor.
    pub handed_over: u64,
    /// Number of actions by which a leader kept leading because no successor came.
    pub failed_handovers: u64,
    /// Number of actions by which a lease was broken for a follower.
    pub broken_leases: u64,
    /// Length of the longest path.
    pub depth: usize,
    /// True if no state exceeded the depth limit.
    pub is_complete: bool,
    /// Duration of the exploration.
    pub elapsed: Duration,
    /// First violation and a shortest path to it, as text.
    pub violation: Option<String>,
}

/// First predecessor of each state, by fingerprint: the state before, and the action.
type Predecessors = HashMap<u64, Option<(u64, Action)>>;

/// Explores every state within the bounds, or up to the first violation.
pub fn explore(scope: Scope) -> Explored {
    let scope = Rc::new(scope);
    let started_at = Instant::now();
    let mut explored = Explored {
        bounds: scope.bounds,
        state_count: 0,
        transitions: BTreeMap::new(),
        takeovers: 0,
        handed_over: 0,
        failed_handovers: 0,
        broken_leases: 0,
        depth: 0,
        is_complete: true,
        elapsed: Duration::ZERO,
        violation: None,
    };
    let first = State::initial(&scope);
    let id = digest(&first);
    let mut predecessors = Predecessors::from([(id, None)]);
    let mut layer = vec![(id, first)];
    while explored.violation.is_none() {
        layer = explored.next_layer(&layer, &mut predecessors);
        if layer.is_empty() {
            break;
        }
        if explored.depth == scope.bounds.depth {
            explored.is_complete = false;
            break;
        }
        explored.depth += 1;
    }
    explored.state_count = predecessors.len();
    explored.elapsed = started_at.elapsed();
    explored
}

impl Explored {
    fn next_layer(
        &mut self,
        layer: &[(u64, State)],
        predecessors: &mut Predecessors,
    ) -> Vec<(u64, State)> {
        let mut next = Vec::new();
        for (from_id, state) in layer {
            for action in state.actions() {
                let next_state = state.after(action);
                if next_state.is_symmetric_duplicate() {
                    continue;
                }
                *self.transitions.entry(action.kind()).or_default() += 1;
                self.takeovers += u64::from(next_state.note.is_takeover);
                self.handed_over += u64::from(next_state.note.is_handover);
                self.failed_handovers += u64::from(next_state.note.is_failed_handover);
                self.broken_leases += u64::from(next_state.note.is_break);
                if let Some(violation) = next_state.violation() {
                    let path = path(predecessors, State::initial(&state.scope), *from_id, action);
                    self.violation = Some(format!("{violation}\n{path}"));
                    return Vec::new();
                }
                let id = digest(&next_state);
                if let Entry::Vacant(vacant) = predecessors.entry(id) {
                    vacant.insert(Some((*from_id, action)));
                    next.push((id, next_state));
                }
            }
        }
        next
    }
}

/// Formats the path to a state plus one more action, line by line.
fn path(predecessors: &Predecessors, first: State, last_id: u64, last: Action) -> String {
    let mut actions = vec![last];
    let mut id = last_id;
    while let Some(Some((previous, action))) = predecessors.get(&id) {
        actions.push(*action);
        id = *previous;
    }
    let mut state = first;
    let mut lines = Vec::new();
    for action in actions.into_iter().rev() {
        state = state.after(action);
        if action != Action::Wait {
            lines.push(state.to_string());
        }
    }
    lines.join("\n")
}

impl fmt::Display for Explored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Bounds { candidates, disturbances, seconds, .. } = self.bounds;
        let transitions: u64 = self.transitions.values().sum();
        writeln!(
            f,
            "{candidates} candidates, up to {disturbances} disturbances, {seconds} s of virtual \
             time: {} states, {transitions} transitions, {} takeovers, {} leases broken, {} given to \
             successors and {} in vain, in {:.1} s",
            self.state_count,
            self.takeovers,
            self.broken_leases,
            self.handed_over,
            self.failed_handovers,
            self.elapsed.as_secs_f64(),
        )?;
        let extent = match (self.is_complete, &self.violation) {
            (_, Some(_)) => "as far as the first violation",
            (true, None) => "all states",
            (false, None) => "not all states: cut off",
        };
        writeln!(f, "{extent}, with paths of up to {} actions", self.depth)?;
        for (kind, count) in &self.transitions {
            writeln!(f, "{count:>12} {kind}")?;
        }
        match &self.violation {
            Some(violation) => write!(f, "{violation}"),
            None => write!(f, "I1 to I5 and I7 to I9 hold in each of them"),
        }
    }
}
