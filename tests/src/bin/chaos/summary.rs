//! Results of all rounds, and the bounds that Tenure must keep.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};
use tenure_tests::chaos::{Case, Evidence, Kind, Plan};
use tenure_tests::measure::{Spread, Table};

/// Longest time after the validity of its holder at which a request may arrive: the slack of the
/// runner.
const MAX_LATENESS: Duration = Duration::from_millis(20);

/// Longest takeover: the lease and 2 s, the longest poll, the next slot, and half a lease. That
/// half covers requests still in transit from a cut-off leader or a proxy.
const MAX_TAKEOVER: Duration = Duration::from_secs(30);

const CASES: [(Case, &str, &str); 5] = [
    (Case::Kill, "kill", "leader killed (SIGKILL)"),
    (Case::Freeze, "freeze", "leader frozen (SIGSTOP)"),
    (Case::CutOff, "cut-off", "leader cut off from the store"),
    (Case::Terminate, "stop", "leader and others stopped (SIGTERM)"),
    (Case::AfterAll, "after-all", "from the end of a fault of all or others"),
];

/// Result of a round, and the seed that reproduces it.
pub struct RoundResult {
    pub seed: u64,
    pub plan: Plan,
    pub outcome: Result<Evidence>,
}

/// Results of the rounds, by kind of candidate.
#[derive(Default)]
pub struct Summary(BTreeMap<Kind, Vec<RoundResult>>);

impl RoundResult {
    /// Returns a message for each violation.
    fn violations(&self) -> Vec<String> {
        let evidence = match &self.outcome {
            Ok(evidence) => evidence,
            Err(error) => return vec![format!("it failed: {error:#}")],
        };
        let mut violations = Vec::new();
        let mut check = |holds: bool, message: String| {
            if !holds {
                violations.push(message);
            }
        };
        let (stale, late) = (max(&evidence.stale), max(&evidence.late));
        check(
            evidence.stale.is_empty(),
            format!("{} stale requests, {stale:?}", evidence.stale.len()),
        );
        check(late <= MAX_LATENESS, format!("a request {late:?} after its holder's validity"));
        check(
            evidence.unexplained == 0,
            format!("{} requests of unknown terms", evidence.unexplained),
        );
        check(evidence.won_twice == 0, format!("{} terms won twice", evidence.won_twice));
        check(evidence.beats > 0, "no request arrived".to_owned());
        for (case, took) in &evidence.takeovers {
            check(*took <= MAX_TAKEOVER, format!("{case:?}: no leader for {took:?}"));
        }
        violations
    }

    /// Prints the violations of a round at once.
    pub fn print_violations(&self, kind: Kind) {
        let violations = self.violations();
        if kind == Kind::Tenure && !violations.is_empty() {
            println!("--seed {} --rounds 1 ({}): {}", self.seed, self.plan, violations.join("; "));
        }
    }
}

impl Summary {
    /// Adds the result of a round.
    pub fn add(&mut self, kind: Kind, round: RoundResult) {
        self.0.entry(kind).or_default().push(round);
    }

    /// Returns a message for each violation by Tenure.
    pub fn violations(&self) -> Vec<String> {
        let rounds = self.0.get(&Kind::Tenure).into_iter().flatten();
        let messages = rounds.flat_map(|round| {
            let violations = round.violations().into_iter();
            violations.map(|message| format!("--seed {} --rounds 1: {message}", round.seed))
        });
        messages.collect()
    }

    pub fn to_json(&self, store: &str) -> Value {
        let kinds = self.0.iter().map(|(kind, rounds)| {
            let totals = Totals::from_rounds(rounds);
            let takeovers = CASES.map(|(case, name, _)| (name, totals.takeovers(case).to_json()));
            let takeovers = BTreeMap::from(takeovers);
            let count_and_max = |durations: &[Duration]| json!({ "n": durations.len(), "max_s": max(durations).as_secs_f64() });
            let totals = json!({
                "rounds": totals.rounds, "failed": totals.failed, "terms": totals.terms,
                "beats": totals.beats, "stale": count_and_max(&totals.stale), "late": count_and_max(&totals.late),
                "late_more_than_20_ms": totals.too_late(), "takeovers_s": takeovers,
            });
            (format!("{kind:?}").to_lowercase(), totals)
        });
        let kinds: BTreeMap<_, _> = kinds.collect();
        json!({ "store": store, "candidates": kinds, "broken": self.violations() })
    }
}

/// Sums over several rounds.
#[derive(Default)]
struct Totals {
    rounds: usize,
    failed: usize,
    terms: usize,
    beats: usize,
    stale: Vec<Duration>,
    late: Vec<Duration>,
    takeovers: Vec<(Case, Duration)>,
}

impl Totals {
    fn from_rounds(rounds: &[RoundResult]) -> Self {
        let mut totals = Self { rounds: rounds.len(), ..Self::default() };
        for round in rounds {
            let Ok(evidence) = &round.outcome else {
                totals.failed += 1;
                continue;
            };
            totals.terms += evidence.terms;
            totals.beats += evidence.beats;
            totals.stale.extend(&evidence.stale);
            totals.late.extend(&evidence.late);
            totals.takeovers.extend(&evidence.takeovers);
        }
        totals
    }

    fn takeovers(&self, wanted: Case) -> Spread {
        let all = self.takeovers.iter().filter(|(case, _)| *case == wanted);
        all.map(|(_, took)| *took).collect()
    }

    fn too_late(&self) -> usize {
        self.late.iter().filter(|late| **late > MAX_LATENESS).count()
    }
}

fn max(durations: &[Duration]) -> Duration {
    durations.iter().max().copied().unwrap_or_default()
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

/// Formats the number of durations and the longest one.
fn count_and_worst(durations: &[Duration]) -> String {
    match max(durations) {
        Duration::ZERO => "0".to_owned(),
        brief if brief < Duration::from_secs(1) => {
            format!("{}, at most {} ms", durations.len(), brief.as_millis().max(1))
        }
        longest => format!("{}, at most {}", durations.len(), seconds(longest)),
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let totals_by_kind: Vec<_> =
            self.0.values().map(|rounds| Totals::from_rounds(rounds)).collect();
        let mut headings = vec!["what the sink saw"];
        headings.extend(self.0.keys().map(|kind| match kind {
            Kind::Tenure => "tenure",
            Kind::Baseline => "reference sample",
        }));
        let mut table = Table::new(&headings);
        let mut row = |label: &str, cell: &dyn Fn(&Totals) -> String| {
            table.row([label.to_owned()].into_iter().chain(totals_by_kind.iter().map(cell)));
        };
        row("rounds", &|totals| totals.rounds.to_string());
        row("terms won", &|totals| totals.terms.to_string());
        row("requests", &|totals| totals.beats.to_string());
        row("of a stale term, after a newer term's first", &|totals| {
            count_and_worst(&totals.stale)
        });
        row("after their holder's validity", &|totals| count_and_worst(&totals.late));
        row("more than 20 ms after it", &|totals| totals.too_late().to_string());
        for (case, _, name) in CASES {
            row(&format!("{name}: min / p50 / p99 / max"), &|totals| {
                let spread = totals.takeovers(case);
                let quantiles = [0.0, 0.5, 0.99, 1.0]
                    .map(|share| format!("{:.1}", spread.quantile(share).as_secs_f64()));
                if spread.is_empty() {
                    return "–".to_owned();
                }
                format!("{} s (n {})", quantiles.join(" / "), spread.len())
            });
        }
        writeln!(f, "{table}")?;
        for round in self.0.get(&Kind::Baseline).into_iter().flatten() {
            if let Err(error) = &round.outcome {
                writeln!(f, "a round of the reference sample failed: {error:#}")?;
            }
        }
        let violations = self.violations();
        violations.iter().try_for_each(|violation| writeln!(f, "BROKEN: {violation}"))?;
        if violations.is_empty() && self.0.contains_key(&Kind::Tenure) {
            writeln!(f, "tenure kept every bound")?;
        }
        Ok(())
    }
}
