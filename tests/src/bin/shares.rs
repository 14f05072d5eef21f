//! How soon all shares are worked for again when processes come, leave and die, and whether two ever work for one at a time.
//! Three processes of `tenure run --shares`, four, three, two, three, two and three again in each round.
//!
//! ```text
//! cargo run -p tenure-tests --release --bin shares -- --rounds 100 [--failover 10s] [--store embedded]
//! ```
//!
//! Ends with 1 when beats of one share overlapped, more shares moved than may, or any while nothing happened.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::{Parser, ValueEnum};
use tenure_tests::Store;
use tenure_tests::measure::{Spread, Table, load};
use tenure_tests::rounds::{Change, Changed, Rounds};

#[derive(Parser)]
#[command(about = "Measures how soon shares have their holders when processes come, leave and die")]
struct Arguments {
    /// Rounds, of six changes each
    #[arg(long, default_value_t = 100)]
    rounds: usize,
    /// Into how many shares the work is split
    #[arg(long, default_value_t = 32)]
    shares: u32,
    /// For how many seconds nothing happens at first
    #[arg(long, default_value_t = 600)]
    quiet: u64,
    /// The bound of failover; without it leases of 15 s have to end
    #[arg(long)]
    failover: Option<String>,
    /// The store
    #[arg(long, value_enum, default_value_t)]
    store: Kind,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Kind {
    #[default]
    Azurite,
    Embedded,
}

fn main() -> Result<ExitCode> {
    // The processes are this program too: it is the only one that is surely built.
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
        Kind::Azurite => Store::azurite().await?,
        Kind::Embedded => Store::embedded().await?,
    };
    let failover = arguments.failover.iter();
    let rounds = Rounds {
        program: std::env::current_exe()?,
        shares: arguments.shares,
        rounds: arguments.rounds,
        quiet: Duration::from_secs(arguments.quiet),
        options: failover.flat_map(|within| ["--failover".to_owned(), within.clone()]).collect(),
    };
    let before = load();
    let course = rounds.play(&store).await?;
    println!(
        "{:?}, {} shares, {} rounds, failover {}, load {before} before, {} after\n",
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
            let is_it = |one: &&Changed| one.change == change && one.leader_went == leader_went;
            let those = course.changes.iter().filter(is_it).collect::<Vec<_>>();
            let Some(most) = those.iter().max_by_key(|one| one.moves) else { continue };
            let spread = those.iter().map(|one| one.took).collect::<Spread>();
            let led = if leader_went { ", which coordinates" } else { "" };
            let times = [0.0, 0.5, 0.9, 0.99, 1.0]
                .map(|share| format!("{:.1} s", spread.quantile(share).as_secs_f64()));
            let row = [format!("{change}{led}"), spread.len().to_string()].into_iter().chain(times);
            table.row(row.chain([most.moves.to_string(), most.may_move.to_string()]));
        }
    }
    println!("{table}");
    let (longest, stale) = course.overlap;
    println!(
        "{} beats, {stale} of an earlier term of their share after the first of a later one (at most {longest:?} after \
         it); {} moves in {} s of rest",
        course.beats, course.moves_at_rest, arguments.quiet
    );
    let too_many = course.changes.iter().filter(|one| one.moves > one.may_move).collect::<Vec<_>>();
    for one in &too_many {
        println!("too many moves: {one:?}");
    }
    let is_well = stale == 0 && course.moves_at_rest == 0 && too_many.is_empty();
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
