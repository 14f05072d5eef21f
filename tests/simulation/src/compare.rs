//! Comparison of both electors in the same world: steps, requests with all headers, reports, and
//! the times of both clocks.
//!
//! The component needs more polls than the pure core until it sends a request. To make that
//! irrelevant, actions in one instant take turns here.

use std::collections::BTreeSet;
use std::fmt::Arguments;

use tenure_store::Request;
use tokio::task::yield_now;

use super::history::CandidateId;
use super::world::World;
use super::{Fidelity, Options, run};

/// Record of one schedule, and the turns within an instant.
#[derive(Debug, Default)]
pub struct Comparison {
    /// One line for each input and output of an elector.
    pub record: Vec<String>,
    /// Waiting actions, in order.
    turns: BTreeSet<Turn>,
    /// Number of times that a turn was requested or ended.
    activity: u64,
}

/// The process, its action, and a number that distinguishes requests with the same action.
type Turn = (CandidateId, String, usize);

/// Runs the schedule of a seed with the pure core and with `component`, and returns the first lines
/// that differ.
#[must_use]
pub fn first_difference(seed: u64, component: &Fidelity) -> Option<[String; 2]> {
    let [native, component] = [&Fidelity::Native, component].map(|fidelity| {
        run(seed, &Options { records_comparison: true, ..fidelity.clone().into() }).record
    });
    let lines = native.len().max(component.len());
    let line = |record: &[String], at| record.get(at).cloned().unwrap_or_default();
    let mut pairs = (0..lines).map(|at| [line(&native, at), line(&component, at)]);
    pairs.find(|[native, component]| native != component)
}

impl World {
    /// Adds a line to the record.
    pub(super) fn record(&self, line: Arguments<'_>) {
        let now = self.now();
        if let Some(comparison) = &mut self.state().comparison {
            comparison.record.push(format!("{:>5}.{:03} {line}", now / 1_000, now % 1_000));
        }
    }

    /// Records a request with all its headers, sorted by name.
    pub(super) fn record_request(&self, candidate: CandidateId, request: &Request) {
        let Request { method, target, headers, body } = request;
        let to_line =
            |(name, value): &(String, String)| format!("{}: {value}", name.to_lowercase());
        let mut headers: Vec<_> = headers.iter().map(to_line).collect();
        headers.sort_unstable();
        self.record(format_args!("c{candidate} sends {method} {target} {headers:?} {body:?}"));
    }

    /// Waits until this action is the first that waits, and no other action runs in this instant.
    pub(super) async fn wait_for_turn(&self, candidate: CandidateId, action: &str, number: usize) {
        /// Number of polls that exceeds the need of any elector until it waits here.
        const QUIET: u32 = 64;
        if self.state().comparison.is_none() {
            return;
        }
        let waiting = Waiting::start(self, (candidate, action.to_owned(), number));
        let (mut activity, mut quiet) = (0, 0);
        while quiet < QUIET {
            yield_now().await;
            let state = self.state();
            let Some(comparison) = &state.comparison else { return };
            let is_next = comparison.turns.first() == Some(&waiting.turn);
            let is_active = comparison.activity != activity;
            quiet = if is_next && !is_active { quiet + 1 } else { 0 };
            activity = comparison.activity;
        }
    }

    fn update_turns(&self, update: impl FnOnce(&mut BTreeSet<Turn>)) {
        if let Some(comparison) = &mut self.state().comparison {
            comparison.activity += 1;
            update(&mut comparison.turns);
        }
    }
}

/// Wait for a turn, which may be dropped before it is over.
struct Waiting<'a> {
    world: &'a World,
    turn: Turn,
}

impl<'a> Waiting<'a> {
    fn start(world: &'a World, turn: Turn) -> Self {
        world.update_turns(|turns| {
            turns.insert(turn.clone());
        });
        Self { world, turn }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.world.update_turns(|turns| {
            turns.remove(&self.turn);
        });
    }
}
