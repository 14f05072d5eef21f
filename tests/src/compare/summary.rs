//! Results of all rounds, as two tables: takeover times, and the stale work of old leaders.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use anyhow::{Error, Result};
use clap::ValueEnum as _;
use serde_json::{Value, json};

use super::{Contender, Fault, Outcome};
use crate::measure::{Spread, Table};

/// With fewer rounds the 99th percentile is the maximum.
const MIN_ROUNDS_FOR_P99: usize = 100;

/// Results of the rounds.
#[derive(Default)]
pub struct Summary {
    rounds: BTreeMap<(Contender, Fault), Vec<Outcome>>,
    rest_rates: BTreeMap<Contender, f64>,
    contenders: BTreeSet<Contender>,
    failures: Vec<String>,
}

impl Summary {
    /// Adds the result of a round, or the reason for its failure.
    pub fn add_round(&mut self, contender: Contender, fault: Fault, round: Result<Outcome>) {
        self.contenders.insert(contender);
        match round {
            Ok(outcome) => self.rounds.entry((contender, fault)).or_default().push(outcome),
            Err(error) => self.add_failure(contender, &format!("{fault:?}"), &error),
        }
    }

    /// Adds a rate of requests per minute, or the reason for its failure.
    pub fn add_rest_rate(&mut self, contender: Contender, rate: Result<f64>) {
        self.contenders.insert(contender);
        match rate {
            Ok(rate) => drop(self.rest_rates.insert(contender, rate)),
            Err(error) => self.add_failure(contender, "rest", &error),
        }
    }

    fn add_failure(&mut self, contender: Contender, subject: &str, error: &Error) {
        self.failures.push(format!("{}, {subject}: {error:#}", contender.label()));
    }

    /// Returns the failed rounds as messages.
    #[must_use]
    pub fn failures(&self) -> &[String] {
        &self.failures
    }

    /// Returns the number of stale beats in all rounds of a contender.
    #[must_use]
    pub fn stale_count(&self, contender: Contender) -> usize {
        let rounds = self.rounds.iter().filter(|((other, _), _)| *other == contender);
        rounds.flat_map(|(_, outcomes)| outcomes).map(|outcome| outcome.stale).sum()
    }

    /// Returns every round as JSON, in seconds.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let rounds = self.rounds.iter().map(|((contender, fault), outcomes)| {
            let outcomes = outcomes.iter().map(|outcome| {
                json!({
                    "takeover": outcome.takeover.as_secs_f64(), "stale": outcome.stale,
                    "stale_for": outcome.stale_for.as_secs_f64(), "ended": outcome.has_ended,
                })
            });
            let outcomes: Vec<_> = outcomes.collect();
            let fault = format!("{fault:?}").to_lowercase();
            json!({ "contender": contender.label(), "fault": fault, "rounds": outcomes })
        });
        let rests: BTreeMap<_, _> =
            self.rest_rates.iter().map(|(contender, rate)| (contender.label(), rate)).collect();
        let rounds: Vec<_> = rounds.collect();
        json!({ "rounds": rounds, "requests_a_minute": rests, "failed": self.failures })
    }

    fn outcomes(&self, contender: Contender, fault: Fault) -> &[Outcome] {
        self.rounds.get(&(contender, fault)).map_or(&[], Vec::as_slice)
    }

    fn takeover_cell(&self, contender: Contender, fault: Fault) -> String {
        let outcomes = self.outcomes(contender, fault);
        let spread: Spread = outcomes.iter().map(|outcome| outcome.takeover).collect();
        let shares: &[f64] =
            if outcomes.len() < MIN_ROUNDS_FOR_P99 { &[0.5, 1.0] } else { &[0.5, 0.99, 1.0] };
        let cells: Vec<_> = shares.iter().map(|&share| seconds(spread.quantile(share))).collect();
        if outcomes.is_empty() { "–".into() } else { cells.join(" / ") }
    }

    fn stale_cell(&self, contender: Contender, fault: Fault) -> String {
        let outcomes = self.outcomes(contender, fault);
        let stale: usize = outcomes.iter().map(|outcome| outcome.stale).sum();
        let longest = outcomes.iter().map(|outcome| outcome.stale_for).max().unwrap_or_default();
        // If the observation ended first, the actual time may be longer.
        let prefix = if outcomes.iter().all(|outcome| outcome.has_ended) { "" } else { "> " };
        match (outcomes.len(), stale) {
            (0, _) => "–".into(),
            (_, 0) => "0".into(),
            _ if longest < Duration::from_millis(100) => {
                format!("{stale}, {:.1} ms", 1e3 * longest.as_secs_f64())
            }
            _ => format!("{stale}, {prefix}{} s", seconds(longest)),
        }
    }
}

fn seconds(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    let digits = match seconds {
        ..0.1 => 3,
        ..9.95 => 2,
        _ => 1,
    };
    format!("{seconds:.digits$}")
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shares = if self.rounds.values().any(|outcomes| outcomes.len() >= MIN_ROUNDS_FOR_P99) {
            "p50 / p99 / max; p50 / max of fewer than 100 rounds"
        } else {
            "p50 / max"
        };
        writeln!(
            f,
            "From the fault to the first work of another leader, in seconds ({shares}):\n"
        )?;
        let mut table = Table::new(&[
            "",
            "rounds",
            "process killed",
            "all its processes killed",
            "machine frozen",
            "partition",
            "graceful stop",
            "requests a minute",
        ]);
        for &contender in &self.contenders {
            let faults = Fault::value_variants();
            let counts: BTreeSet<_> =
                faults.iter().map(|&fault| self.outcomes(contender, fault).len()).collect();
            let counts: Vec<_> =
                counts.into_iter().filter(|n| *n > 0).map(|n| n.to_string()).collect();
            let rate = self.rest_rates.get(&contender);
            let mut cells = vec![contender.label().to_owned(), counts.join(" to ")];
            cells.extend(faults.iter().map(|&fault| self.takeover_cell(contender, fault)));
            cells.push(rate.map_or_else(|| "–".into(), |rate| format!("{rate:.0}")));
            table.row(cells);
        }
        writeln!(f, "{table}")?;
        writeln!(f, "Requests of the old leader after that, and for how long at most:\n")?;
        let mut table = Table::new(&["", "machine frozen", "partition", "graceful stop"]);
        for &contender in &self.contenders {
            let faults = [Fault::Freeze, Fault::Partition, Fault::Graceful];
            let cells = faults.map(|fault| self.stale_cell(contender, fault));
            table.row([contender.label().to_owned()].into_iter().chain(cells));
        }
        writeln!(f, "{table}")?;
        self.failures.iter().try_for_each(|failure| writeln!(f, "FAILED: {failure}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(takeover: u64, stale: usize, stale_for: u64, ended: bool) -> Outcome {
        let ms = Duration::from_millis;
        Outcome { takeover: ms(takeover), stale, stale_for: ms(stale_for), has_ended: ended }
    }

    #[test]
    fn few_rounds_have_no_99th_percentile() {
        let mut summary = Summary::default();
        let add = |summary: &mut Summary, ms| {
            summary.add_round(Contender::Tenure, Fault::Kill, Ok(outcome(ms, 0, 0, true)));
        };
        (1..=99).for_each(|number| add(&mut summary, number * 100));
        assert_eq!(summary.takeover_cell(Contender::Tenure, Fault::Kill), "5.00 / 9.90");
        add(&mut summary, 10_000);
        assert_eq!(summary.takeover_cell(Contender::Tenure, Fault::Kill), "5.00 / 9.90 / 10.0");
        assert_eq!(summary.takeover_cell(Contender::Tenure, Fault::Freeze), "–");
    }

    #[test]
    fn stale_work_is_summed_and_marked_when_observation_ended_first() {
        let mut summary = Summary::default();
        let cell = |summary: &Summary| summary.stale_cell(Contender::Sample, Fault::Partition);
        let add = |summary: &mut Summary, outcome| {
            summary.add_round(Contender::Sample, Fault::Partition, Ok(outcome));
        };
        assert_eq!(cell(&summary), "–");
        add(&mut summary, outcome(9_000, 0, 0, true));
        assert_eq!(cell(&summary), "0");
        add(&mut summary, outcome(9_000, 40, 800, true));
        assert_eq!(cell(&summary), "40, 0.80 s");
        add(&mut summary, outcome(9_000, 3_000, 60_000, false));
        assert_eq!(cell(&summary), "3040, > 60.0 s");
        assert_eq!(summary.stale_count(Contender::Sample), 3_040);
    }

    #[test]
    fn a_failed_round_is_reported() {
        let mut summary = Summary::default();
        summary.add_round(Contender::Tenure, Fault::Kill, Err(anyhow::anyhow!("no other leads")));
        assert_eq!(summary.failures(), ["Tenure (15 s lease), Kill: no other leads"]);
        assert!(summary.to_string().contains("FAILED: Tenure"), "{summary}");
    }
}
