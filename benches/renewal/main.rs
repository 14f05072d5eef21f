//! Compares one renewal through the component with the same signed request sent natively. Both use
//! the same server and client settings, alternate in one run, and stay on chosen processors. The
//! ratio of the medians is the cost of the component.
//!
//! ```text
//! cargo bench -p tenure-tests --bench renewal [-- --json]
//! ```
//!
//! There are two servers: one that responds at once and shows the whole cost, and Azurite, which
//! does real work. Client and server run on one processor or on two.

mod floor;
mod hosted;
mod native;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hosted::Hosted;
use native::Native;
use serde_json::{Value, json};
use tenure_tests::Azurite;
use tenure_tests::measure::{Spread, Table, allowed, load, stay_on};
use tokio::runtime::{Builder, Runtime};

/// A server, and the bound for the cost of a renewal through the component.
struct Server {
    name: &'static str,
    connection_string: String,
    bound: f64,
    /// Renewals of each kind per round.
    renewals: usize,
}

/// Pairs before the first round; they warm up connections, caches and Azurite's compiler.
const WARM_UP: usize = 2_000;

/// The threads that serve the client.
#[derive(Clone, Copy)]
enum Workers {
    /// The threads of the program `tenure`: one for the loop, two for the connections.
    Program,
    /// One thread for everything, as in a program that embeds the runner.
    SingleThread,
}

fn main() -> Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().collect();
    let has_flag = |name: &str| arguments.iter().any(|argument| argument == name);
    // `cargo test --benches` only checks that it runs.
    let rounds = if has_flag("--bench") { 9 } else { 1 };

    let processors = allowed();
    let first = *processors.first().context("this system does not keep threads on processors")?;
    stay_on(first)?;
    // Azurite stays on the processor of the thread that starts it.
    let starter = Builder::new_current_thread().enable_all().build()?;
    let azurite = starter.block_on(Azurite::start(0, None))?;
    let servers = [
        Server { name: "trivial", connection_string: floor::start()?, bound: 2.0, renewals: 1_000 },
        Server {
            name: "Azurite",
            connection_string: azurite.connection_string(),
            bound: 1.25,
            renewals: 300,
        },
    ];

    let before = load();
    let mut cases = Vec::new();
    for server in &servers {
        for workers in [Workers::Program, Workers::SingleThread] {
            for &processor in processors.iter().take(2) {
                stay_on(processor)?;
                let place = if processor == first { "same" } else { "other" };
                cases.push(Case::measure(server, workers, place, rounds)?);
            }
        }
    }
    let missed = cases.iter().any(Case::is_too_slow);
    if has_flag("--json") {
        let rows: Vec<Value> = cases.iter().map(Case::to_json).collect();
        println!("{}", json!({ "load_before": before, "load_after": load(), "cases": rows }));
    } else {
        print(&cases);
        println!("\nload of the machine: {before} before, {} after", load());
    }
    Ok(if missed && rounds > 1 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The results for one server, placement and runtime.
struct Case {
    server: &'static str,
    bound: f64,
    workers: Workers,
    place: &'static str,
    native: Spread,
    hosted: Spread,
    /// Steps that send nothing.
    idle: Spread,
    /// The ratio of the medians of each round, sorted.
    ratios: Vec<f64>,
}

impl Case {
    fn measure(
        server: &Server,
        workers: Workers,
        place: &'static str,
        rounds: usize,
    ) -> Result<Self> {
        runtime(workers)?.block_on(async {
            let (connection_string, unique) = (&server.connection_string, uuid::Uuid::new_v4());
            let blob = |name: &str| format!("bench-{}/{name}", unique.simple());
            let native = Native::acquire(connection_string, &blob("native")).await?;
            let mut hosted = Hosted::elect(connection_string, &blob("hosted")).await?;
            measure_pairs(&native, &mut hosted, if rounds > 1 { WARM_UP } else { 10 }).await?;
            let (mut natives, mut hosteds, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
            for _ in 0..rounds {
                let (native, hosted) = measure_pairs(&native, &mut hosted, server.renewals).await?;
                let median =
                    |durations: &[Duration]| durations.iter().copied().collect::<Spread>().median();
                ratios.push(median(&hosted).as_secs_f64() / median(&native).as_secs_f64());
                natives.extend(native);
                hosteds.extend(hosted);
            }
            ratios.sort_by(f64::total_cmp);
            let mut idle = Vec::new();
            for _ in 0..server.renewals {
                let started_at = Instant::now();
                hosted.idle().await?;
                idle.push(started_at.elapsed());
            }
            Ok(Self {
                server: server.name,
                bound: server.bound,
                workers,
                place,
                native: natives.into_iter().collect(),
                hosted: hosteds.into_iter().collect(),
                idle: idle.into_iter().collect(),
                ratios,
            })
        })
    }

    fn ratio(&self) -> f64 {
        self.hosted.median().as_secs_f64() / self.native.median().as_secs_f64()
    }

    /// The bound applies to the program's own threads, wherever client and server run.
    fn has_bound(&self) -> bool {
        matches!(self.workers, Workers::Program)
    }

    fn is_too_slow(&self) -> bool {
        self.has_bound() && self.ratio() > self.bound
    }

    fn to_json(&self) -> Value {
        json!({
            "server": self.server, "threads": self.workers.name(), "processors": self.place,
            "native": self.native.to_json(), "component": self.hosted.to_json(),
            "idle": self.idle.to_json(), "ratio": self.ratio(), "ratios": self.ratios,
            "bound": self.has_bound().then_some(self.bound),
        })
    }
}

/// Measures pairs. The two kinds alternate in going first, so neither always inherits the other's
/// processor state.
async fn measure_pairs(
    native: &Native,
    hosted: &mut Hosted,
    count: usize,
) -> Result<(Vec<Duration>, Vec<Duration>)> {
    let mut measured = (Vec::with_capacity(count), Vec::with_capacity(count));
    for number in 0..2 * count {
        let started_at = Instant::now();
        if matches!(number % 4, 0 | 3) {
            native.renew().await?;
            measured.0.push(started_at.elapsed());
        } else {
            hosted.renew().await?;
            measured.1.push(started_at.elapsed());
        }
    }
    Ok(measured)
}

fn runtime(workers: Workers) -> Result<Runtime> {
    let mut builder = match workers {
        Workers::Program => Builder::new_multi_thread(),
        Workers::SingleThread => Builder::new_current_thread(),
    };
    if matches!(workers, Workers::Program) {
        builder.worker_threads(2);
    }
    Ok(builder.enable_all().build()?)
}

impl Workers {
    fn name(self) -> &'static str {
        match self {
            Self::Program => "1 + 2",
            Self::SingleThread => "1",
        }
    }
}

fn print(cases: &[Case]) {
    let headings = [
        "server",
        "threads",
        "processor",
        "native p50",
        "p99",
        "component p50",
        "p99",
        "idle step",
        "ratio",
        "of rounds",
        "bound",
    ];
    let micros = |duration: Duration| format!("{:.1}", duration.as_secs_f64() * 1e6);
    let mut table = Table::new(&headings);
    for case in cases {
        let bound = match case.has_bound() {
            true if case.is_too_slow() => format!("{} MISSED", case.bound),
            true => format!("{} met", case.bound),
            false => String::new(),
        };
        let extremes = (case.ratios.first(), case.ratios.last());
        let extremes = extremes.0.zip(extremes.1).map(|(min, max)| format!("{min:.2}–{max:.2}"));
        table.row([
            case.server.to_owned(),
            case.workers.name().to_owned(),
            case.place.to_owned(),
            micros(case.native.median()),
            micros(case.native.quantile(0.99)),
            micros(case.hosted.median()),
            micros(case.hosted.quantile(0.99)),
            micros(case.idle.median()),
            format!("{:.2}", case.ratio()),
            extremes.unwrap_or_default(),
            bound,
        ]);
    }
    println!("One renewal, in µs. Threads: of the client; 1 + 2 is what the program has.\n");
    print!("{table}");
}
