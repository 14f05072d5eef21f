//! Results of all rounds, and the bounds that they must keep.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use anyhow::{Error, Result};
use serde_json::{Value, json};
use tenure_tests::measure::{Spread, Table};

use crate::round::{Fault, Round};

/// Longest time that the old leader may continue where assumption A3 does not hold: the interval
/// between renewals plus the longest duration of a request.
const MAX_OVERLAP_WITHOUT_A3: Duration = Duration::from_secs(7);

/// Longest takeover after each fault.
const BOUNDS: [(Fault, &str, Option<Duration>); 3] = [
    (Fault::Crash, "crash (SIGKILL)", Some(Duration::from_secs(20))),
    (Fault::Terminate, "graceful (SIGTERM)", Some(Duration::from_secs(5))),
    (Fault::Deletion, "blob deleted", None),
];

/// Results of the rounds.
#[derive(Default)]
pub struct Summary {
    rounds: Vec<Round>,
    failed: Vec<Error>,
}

impl Summary {
    /// Adds the result of a round, or the reason for its failure.
    pub fn add(&mut self, round: Result<Round>) {
        match round {
            Ok(round) => self.rounds.push(round),
            Err(error) => self.failed.push(error),
        }
    }

    /// Returns a message for each violation.
    pub fn violations(&self) -> Vec<String> {
        let mut violations: Vec<_> =
            self.failed.iter().map(|error| format!("a round failed: {error:#}")).collect();
        for (fault, name, bound) in BOUNDS {
            let max = self.takeovers(fault).max();
            if let Some(bound) = bound.filter(|&bound| max > bound) {
                violations.push(format!("{name}: {max:?}, more than {bound:?}"));
            }
        }
        for round in &self.rounds {
            if !round.terms.is_sorted_by(|earlier, later| earlier < later) {
                violations.push(format!("terms that do not rise: {:?}", round.terms));
            }
            let max_overlap =
                if round.without_a3 { MAX_OVERLAP_WITHOUT_A3 } else { Duration::ZERO };
            let (overlap, beats) = round.overlap;
            if overlap > max_overlap || (beats > 0 && !round.without_a3) {
                violations.push(format!("{beats} beats of an old term, for {overlap:?}"));
            }
            if round.repeated_slots > 0 {
                violations.push(format!("{} slots ran twice", round.repeated_slots));
            }
        }
        violations
    }

    pub fn to_json(&self, store: &str) -> Value {
        let takeovers: BTreeMap<_, _> = BOUNDS
            .iter()
            .map(|&(fault, name, bound)| {
                let spread = self.takeovers(fault).to_json();
                (name, json!({ "s": spread, "bound": bound.map(|bound| bound.as_secs()) }))
            })
            .collect();
        json!({
            "store": store, "takeovers": takeovers, "terms": self.terms(), "beats": self.beats(),
            "stale_beats": self.stale_beats(false), "stale_beats_after_deletion": self.stale_beats(true),
            "longest_overlap_after_deletion_s": self.overlap_without_a3().as_secs_f64(),
            "broken": self.violations(),
        })
    }

    fn takeovers(&self, wanted: Fault) -> Spread {
        let all = self.rounds.iter().flat_map(|round| &round.takeovers);
        all.filter(|(fault, _)| *fault == wanted).map(|(_, took)| *took).collect()
    }

    fn terms(&self) -> usize {
        self.rounds.iter().map(|round| round.terms.len()).sum()
    }

    fn beats(&self) -> usize {
        self.rounds.iter().map(|round| round.beats).sum()
    }

    fn stale_beats(&self, without_a3: bool) -> usize {
        let rounds = self.rounds.iter().filter(|round| round.without_a3 == without_a3);
        rounds.map(|round| round.overlap.1).sum()
    }

    fn overlap_without_a3(&self) -> Duration {
        let rounds = self.rounds.iter().filter(|round| round.without_a3);
        rounds.map(|round| round.overlap.0).max().unwrap_or_default()
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |duration: Duration| format!("{:.2} s", duration.as_secs_f64());
        let mut table =
            Table::new(&["fault to next elected", "n", "min", "p50", "p90", "p99", "max", "bound"]);
        for (fault, name, bound) in BOUNDS {
            let spread = self.takeovers(fault);
            let cells = [0.0, 0.5, 0.9, 0.99, 1.0].map(|share| seconds(spread.quantile(share)));
            let bound = bound.map_or_else(|| "–".to_owned(), seconds);
            let outer_cells = ([name.to_owned(), spread.len().to_string()], [bound]);
            table.row(outer_cells.0.into_iter().chain(cells).chain(outer_cells.1));
        }
        writeln!(f, "{table}")?;
        writeln!(f, "terms won: {}", self.terms())?;
        writeln!(
            f,
            "beats: {}, of an old term: {}; after a deletion: {}, for {} at most (bound {})",
            self.beats(),
            self.stale_beats(false),
            self.stale_beats(true),
            seconds(self.overlap_without_a3()),
            seconds(MAX_OVERLAP_WITHOUT_A3),
        )?;
        let violations = self.violations();
        if violations.is_empty() {
            writeln!(f, "every bound was kept, and the terms of every election rose")?;
        }
        violations.iter().try_for_each(|violation| writeln!(f, "BROKEN: {violation}"))
    }
}
