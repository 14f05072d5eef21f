//! Measures the time without a leader, and checks that an election never has two: the distribution
//! over many rounds with real processes and the default timings. The program `compare` measures
//! `--failover`.
//!
//! ```text
//! cargo run -p tenure-tests --release --bin takeover -- --rounds 20 [--store azurite] [--json]
//! ```
//!
//! Exits with 1 if a bound was broken or a round failed.

mod round;
mod summary;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};
use tenure_tests::measure::load;
use tenure_tests::{Group, Sink, Store};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use summary::Summary;

#[derive(Parser)]
#[command(about = "Measures takeover times and overlaps with real processes")]
struct Arguments {
    /// Rounds of crash and graceful stop, and the same number of deletions
    #[arg(long, default_value_t = 20)]
    rounds: usize,
    /// Number of concurrent elections, of three candidates each
    #[arg(long, default_value_t = 5)]
    parallel: usize,
    /// Store to test with
    #[arg(long, value_enum, default_value_t)]
    store: StoreKind,
    /// Prints one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum StoreKind {
    #[default]
    Azurite,
    Embedded,
}

fn main() -> Result<ExitCode> {
    // Candidates run this same program: it is the only one certain to be built.
    if std::env::args().nth(1).is_some_and(|first| first == "run") {
        return Ok(tenure_cli::main());
    }
    let arguments = Arguments::parse();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(measure(&arguments))
}

async fn measure(arguments: &Arguments) -> Result<ExitCode> {
    let store = match arguments.store {
        StoreKind::Azurite => Store::azurite().await?,
        StoreKind::Embedded => Store::embedded().await?,
    };
    let program = std::env::current_exe()?;
    let program = program.to_str().context("the program has a strange name")?;
    let load_before = load();
    Group::new(program, &store, &Sink::start().await?).warm_up().await?;

    let permits = Arc::new(Semaphore::new(arguments.parallel.max(1)));
    let mut rounds = JoinSet::new();
    for number in 0..2 * arguments.rounds {
        let sink = Sink::start().await?;
        let group = Group::new(program, &store, &sink);
        let permits = Arc::clone(&permits);
        let is_first_half = number < arguments.rounds;
        rounds.spawn(async move {
            let _permit = permits.acquire().await?;
            match is_first_half {
                true => round::crash_and_stop(group, sink).await,
                false => round::deletion(group, sink).await,
            }
        });
    }
    let mut summary = Summary::default();
    while let Some(joined) = rounds.join_next().await {
        summary.add(joined.context("a round panicked").flatten());
    }

    if arguments.json {
        println!("{}", summary.to_json(&format!("{:?}", arguments.store).to_lowercase()));
    } else {
        println!("{:?}, {} elections of 3 side by side\n", arguments.store, arguments.parallel);
        print!("{summary}");
        println!("load of the machine: {load_before} before, {} after", load());
    }
    Ok(if summary.violations().is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
