//! All rounds together, and the bounds that tenure has to keep.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};
use tenure_tests::chaos::{Case, Evidence, Kind, Plan};
use tenure_tests::measure::{Spread, Table};

/// How long after the validity of its holder a request may arrive: the slack of the runner.
const LATE: Duration = Duration::from_millis(20);

/// The longest takeover: the lease and 2 s, the longest poll, the next slot, and again as much
/// as half a lease for requests that a cut off leader or a proxy still had on the way.
const TAKEOVER: Duration = Duration::from_secs(30);

const CASES: [(Case, &str, &str); 5] = [
    (Case::Kill, "kill", "leader killed (SIGKILL)"),
    (Case::Freeze, "freeze", "leader frozen (SIGSTOP)"),
    (Case::CutOff, "cut-off", "leader cut off from the store"),
    (Case::Stop, "stop", "leader and others stopped (SIGTERM)"),
    (Case::AfterAll, "after-all", "from the end of a fault of all or others"),
];

/// A round, and how to see it again.
pub struct Verdict {
    pub seed: u64,
    pub plan: Plan,
    pub happened: Result<Evidence>,
}

/// What the rounds gave, by who contended.
#[derive(Default)]
pub struct Judge(BTreeMap<Kind, Vec<Verdict>>);

impl Verdict {
    /// What must not be, in words. Empty: all is well.
    fn broken(&self) -> Vec<String> {
        let seen = match &self.happened {
            Ok(seen) => seen,
            Err(error) => return vec![format!("it failed: {error:#}")],
        };
        let mut broken = Vec::new();
        let mut check = |kept: bool, what: String| {
            if !kept {
                broken.push(what);
            }
        };
        let (stale, late) = (max(&seen.stale), max(&seen.late));
        check(seen.stale.is_empty(), format!("{} stale requests, {stale:?}", seen.stale.len()));
        check(late <= LATE, format!("a request {late:?} after its holder's validity"));
        check(seen.unexplained == 0, format!("{} requests of unknown terms", seen.unexplained));
        check(seen.won_twice == 0, format!("{} terms won twice", seen.won_twice));
        check(seen.beats > 0, "no request arrived".to_owned());
        for (case, took) in &seen.takeovers {
            check(*took <= TAKEOVER, format!("{case:?}: no leader for {took:?}"));
        }
        broken
    }

    /// Says at once what is wrong with a round.
    pub fn tell(&self, kind: Kind) {
        let broken = self.broken();
        if kind == Kind::Tenure && !broken.is_empty() {
            println!("--seed {} --rounds 1 ({}): {}", self.seed, self.plan, broken.join("; "));
        }
    }
}

impl Judge {
    /// Takes a round.
    pub fn add(&mut self, kind: Kind, verdict: Verdict) {
        self.0.entry(kind).or_default().push(verdict);
    }

    /// What must not be with tenure, in words. Empty: all is well.
    pub fn broken(&self) -> Vec<String> {
        let rounds = self.0.get(&Kind::Tenure).into_iter().flatten();
        let said = rounds.flat_map(|verdict| {
            let told = verdict.broken().into_iter();
            told.map(|what| format!("--seed {} --rounds 1: {what}", verdict.seed))
        });
        said.collect()
    }

    /// All of it.
    pub fn to_json(&self, store: &str) -> Value {
        let kinds = self.0.iter().map(|(kind, rounds)| {
            let sum = Sum::of(rounds);
            let takeovers = CASES.map(|(case, name, _)| (name, sum.takeovers(case).to_json()));
            let takeovers = BTreeMap::from(takeovers);
            let of = |all: &[Duration]| json!({ "n": all.len(), "max_s": max(all).as_secs_f64() });
            let sum = json!({
                "rounds": sum.rounds, "failed": sum.failed, "terms": sum.terms,
                "beats": sum.beats, "stale": of(&sum.stale), "late": of(&sum.late),
                "late_more_than_20_ms": sum.too_late(), "takeovers_s": takeovers,
            });
            (format!("{kind:?}").to_lowercase(), sum)
        });
        let kinds: BTreeMap<_, _> = kinds.collect();
        json!({ "store": store, "candidates": kinds, "broken": self.broken() })
    }
}

/// Rounds added up.
#[derive(Default)]
struct Sum {
    rounds: usize,
    failed: usize,
    terms: usize,
    beats: usize,
    stale: Vec<Duration>,
    late: Vec<Duration>,
    takeovers: Vec<(Case, Duration)>,
}

impl Sum {
    fn of(rounds: &[Verdict]) -> Self {
        let mut sum = Self { rounds: rounds.len(), ..Self::default() };
        for verdict in rounds {
            let Ok(seen) = &verdict.happened else {
                sum.failed += 1;
                continue;
            };
            sum.terms += seen.terms;
            sum.beats += seen.beats;
            sum.stale.extend(&seen.stale);
            sum.late.extend(&seen.late);
            sum.takeovers.extend(&seen.takeovers);
        }
        sum
    }

    fn takeovers(&self, wanted: Case) -> Spread {
        let all = self.takeovers.iter().filter(|(case, _)| *case == wanted);
        all.map(|(_, took)| *took).collect()
    }

    fn too_late(&self) -> usize {
        self.late.iter().filter(|late| **late > LATE).count()
    }
}

fn max(durations: &[Duration]) -> Duration {
    durations.iter().max().copied().unwrap_or_default()
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

/// How many, and the longest.
fn worst(all: &[Duration]) -> String {
    match max(all) {
        Duration::ZERO => "0".to_owned(),
        short if short < Duration::from_secs(1) => {
            format!("{}, at most {} ms", all.len(), short.as_millis().max(1))
        }
        long => format!("{}, at most {}", all.len(), seconds(long)),
    }
}

impl fmt::Display for Judge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sums: Vec<_> = self.0.values().map(|rounds| Sum::of(rounds)).collect();
        let mut headings = vec!["what the sink saw"];
        headings.extend(self.0.keys().map(|kind| match kind {
            Kind::Tenure => "tenure",
            Kind::Baseline => "reference sample",
        }));
        let mut table = Table::new(&headings);
        let mut row = |what: &str, cell: &dyn Fn(&Sum) -> String| {
            table.row([what.to_owned()].into_iter().chain(sums.iter().map(cell)));
        };
        row("rounds", &|sum| sum.rounds.to_string());
        row("terms won", &|sum| sum.terms.to_string());
        row("requests", &|sum| sum.beats.to_string());
        row("of a stale term, after a newer term's first", &|sum| worst(&sum.stale));
        row("after their holder's validity", &|sum| worst(&sum.late));
        row("more than 20 ms after it", &|sum| sum.too_late().to_string());
        for (case, _, name) in CASES {
            row(&format!("{name}: min / p50 / p99 / max"), &|sum| {
                let spread = sum.takeovers(case);
                let four = [0.0, 0.5, 0.99, 1.0]
                    .map(|share| format!("{:.1}", spread.quantile(share).as_secs_f64()));
                if spread.is_empty() {
                    return "–".to_owned();
                }
                format!("{} s (n {})", four.join(" / "), spread.len())
            });
        }
        writeln!(f, "{table}")?;
        for verdict in self.0.get(&Kind::Baseline).into_iter().flatten() {
            if let Err(error) = &verdict.happened {
                writeln!(f, "a round of the reference sample failed: {error:#}")?;
            }
        }
        let broken = self.broken();
        broken.iter().try_for_each(|what| writeln!(f, "BROKEN: {what}"))?;
        if broken.is_empty() && self.0.contains_key(&Kind::Tenure) {
            writeln!(f, "tenure kept every bound")?;
        }
        Ok(())
    }
}
