//! Measures how soon every share has a worker again when processes join, leave and die, and checks
//! that no share ever has two workers. Starts with three processes of `tenure run --shares`; each
//! round goes through four, three, two, three, two and three.
//!
//! ```text
//! cargo run -p tenure-tests --release --bin shares -- --rounds 100 [--failover 10s] [--store embedded]
//! ```
//!
//! Exits with 1 if beats of one share overlapped, if too many shares moved, or if a share moved at
//! rest.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::{Parser, ValueEnum};
use tenure_tests::Store;
use tenure_tests::measure::{Spread, Table, load};
use tenure_tests::share_rounds::{Change, ChangeResult, Rounds};

#[derive(Parser)]
#[command(about = "Measures how soon shares have their holders when processes come, leave and die")]
struct Arguments {
    /// Rounds, of six changes each
    #[arg(long, default_value_t = 100)]
    rounds: usize,
    /// Number of shares
    #[arg(long, default_value_t = 32)]
    shares: u32,
    /// Quiet time at the start, in seconds
    #[arg(long, default_value_t = 600)]
    quiet: u64,
    /// Failover time; by default leases of 15 s must expire first
    #[arg(long)]
    failover: Option<String>,
    /// Store to test with
    #[arg(long, value_enum, default_value_t)]
    store: StoreKind,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum StoreKind {
    #[default]
    Azurite,
    Embedded,
}

fn main() -> Result<ExitCode> {
    // Processes run this same program: it is the only one certain to be built.
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
    let failover = arguments.failover.iter();
    let rounds = Rounds {
        program: std::env::current_exe()?,
        shares: arguments.shares,
        rounds: arguments.rounds,
        quiet: Duration::from_secs(arguments.quiet),
        options: failover.flat_map(|within| ["--failover".to_owned(), within.clone()]).collect(),
    };
    let load_before = load();
    let results = rounds.run(&store).await?;
    println!(
        "{:?}, {} shares, {} rounds, failover {}, load {load_before} before, {} after\n",
        arguments.store,
        arguments.shares,
        arguments.rounds,
        arguments.failover.as_deref().unwrap_or("by the end of the lease"),
        load()
    );
    let headings = ["", "n", "min", "p50", "p90", "p99", "max", "moves, at most", "of"];
    let mut table = Table::new(&headings);
    for change in [Change::Joins, Change::Leaves, Change::ProcessDies, Change::MachineDies] {
        for leader_went in [false, true] {
            let matches = |changed: &&ChangeResult| {
                changed.change == change && changed.was_coordinator == leader_went
            };
            let changes = results.changes.iter().filter(matches).collect::<Vec<_>>();
            let Some(largest) = changes.iter().max_by_key(|changed| changed.moves) else {
                continue;
            };
            let spread = changes.iter().map(|changed| changed.elapsed).collect::<Spread>();
            let coordinator_note = if leader_went { ", which coordinates" } else { "" };
            let times = [0.0, 0.5, 0.9, 0.99, 1.0]
                .map(|share| format!("{:.1} s", spread.quantile(share).as_secs_f64()));
            let cells = [format!("{change}{coordinator_note}"), spread.len().to_string()]
                .into_iter()
                .chain(times);
            table.row(cells.chain([largest.moves.to_string(), largest.max_moves.to_string()]));
        }
    }
    println!("{table}");
    let (longest, stale) = results.overlap;
    println!(
        "{} beats, {stale} of an earlier term of their share after the first of a later one (at most {longest:?} after \
         it); {} moves in {} s of rest",
        results.beats, results.quiet_moves, arguments.quiet
    );
    let too_many = results
        .changes
        .iter()
        .filter(|changed| changed.moves > changed.max_moves)
        .collect::<Vec<_>>();
    for changed in &too_many {
        println!("too many moves: {changed:?}");
    }
    let is_success = stale == 0 && results.quiet_moves == 0 && too_many.is_empty();
    Ok(if is_success { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
