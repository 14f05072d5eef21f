//! Breadth first, so that the first violation found is one of the shortest.

use std::collections::{BTreeMap, HashMap, hash_map::Entry};
use std::fmt;
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::action::Action;
use super::known::digest;
use super::scope::{Bounds, Scope};
use super::state::State;

/// What an exploration found.
#[derive(Debug)]
pub struct Explored {
    /// How far it was to go.
    pub bounds: Bounds,
    /// Different states.
    pub states: usize,
    /// Actions that led from one to another, by kind.
    pub transitions: BTreeMap<&'static str, u64>,
    /// Of these, the ones by which a term was won after an earlier one.
    pub take_overs: u64,
    /// Of these, the ones by which a lease was given to a successor.
    pub handed_over: u64,
    /// And the ones by which a leader went on, since no successor came.
    pub in_vain: u64,
    /// And the ones by which a lease was broken for a follower.
    pub broken: u64,
    /// The length of the longest path.
    pub depth: usize,
    /// No state was left out for its depth.
    pub complete: bool,
    /// How long it took.
    pub took: Duration,
    /// The first violation and the shortest path there, for people.
    pub violation: Option<String>,
}

/// Where each state was come from first, by fingerprint: the state before, and the action.
type Ways = HashMap<u64, Option<(u64, Action)>>;

/// Looks at every state within the bounds, or as far as the first violation.
pub fn explore(scope: Scope) -> Explored {
    let scope = Rc::new(scope);
    let began = Instant::now();
    let mut explored = Explored {
        bounds: scope.bounds,
        states: 0,
        transitions: BTreeMap::new(),
        take_overs: 0,
        handed_over: 0,
        in_vain: 0,
        broken: 0,
        depth: 0,
        complete: true,
        took: Duration::ZERO,
        violation: None,
    };
    let first = State::first(&scope);
    let id = digest(&first);
    let mut ways = Ways::from([(id, None)]);
    let mut layer = vec![(id, first)];
    while explored.violation.is_none() {
        layer = explored.next_layer(&layer, &mut ways);
        if layer.is_empty() {
            break;
        }
        if explored.depth == scope.bounds.depth {
            explored.complete = false;
            break;
        }
        explored.depth += 1;
    }
    explored.states = ways.len();
    explored.took = began.elapsed();
    explored
}

impl Explored {
    fn next_layer(&mut self, layer: &[(u64, State)], ways: &mut Ways) -> Vec<(u64, State)> {
        let mut next = Vec::new();
        for (from, state) in layer {
            for action in state.actions() {
                let after = state.after(action);
                if after.is_mirrored() {
                    continue;
                }
                *self.transitions.entry(action.kind()).or_default() += 1;
                self.take_overs += u64::from(after.note.take_over);
                self.handed_over += u64::from(after.note.handed_over);
                self.in_vain += u64::from(after.note.in_vain);
                self.broken += u64::from(after.note.broken);
                if let Some(violation) = after.broken() {
                    let path = path(ways, State::first(&state.scope), *from, action);
                    self.violation = Some(format!("{violation}\n{path}"));
                    return Vec::new();
                }
                let id = digest(&after);
                if let Entry::Vacant(news) = ways.entry(id) {
                    news.insert(Some((*from, action)));
                    next.push((id, after));
                }
            }
        }
        next
    }
}

/// The way to a state and one action further, line by line.
fn path(ways: &Ways, first: State, to: u64, last: Action) -> String {
    let mut actions = vec![last];
    let mut at = to;
    while let Some(Some((before, action))) = ways.get(&at) {
        actions.push(*action);
        at = *before;
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
            self.states,
            self.take_overs,
            self.broken,
            self.handed_over,
            self.in_vain,
            self.took.as_secs_f64(),
        )?;
        let all = match (self.complete, &self.violation) {
            (_, Some(_)) => "as far as the first violation",
            (true, None) => "all states",
            (false, None) => "not all states: cut off",
        };
        writeln!(f, "{all}, with paths of up to {} actions", self.depth)?;
        for (kind, count) in &self.transitions {
            writeln!(f, "{count:>12} {kind}")?;
        }
        match &self.violation {
            Some(violation) => write!(f, "{violation}"),
            None => write!(f, "I1 to I5 and I7 to I9 hold in each of them"),
        }
    }
}
