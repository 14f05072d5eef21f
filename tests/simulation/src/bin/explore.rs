//! Checks every state that two or three candidates and the store can reach within given bounds.
//!
//! ```text
//! cargo run -p tenure-simulation --release --bin explore -- --candidates 2 --seconds 24 --record
//! cargo run -p tenure-simulation --release --bin explore -- --failover 9800 --tick 1 --seconds 16 --record
//! ```
//!
//! Exits with 1 if an invariant is violated, and prints the shortest path to the violation.

use std::process::ExitCode;

use clap::Parser;
use tenure_core::mutants::{self, Mutant};
use tenure_simulation::exploration::{Bounds, Scope, Start, explore};
use tenure_simulation::hunt;

#[derive(Parser)]
#[command(about = "Explores all states of a small election")]
struct Arguments {
    /// Number of candidates, which start together
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(2..=3))]
    candidates: u8,
    /// Maximum number of actions on a path; other bounds may be lower
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u16).range(1..=1000))]
    depth: u16,
    /// Maximum number of disturbances on a path: crashes, freezes, leaves, and network faults
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(0..=4))]
    disturbances: u8,
    /// Maximum number of handover orders on a path
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=2))]
    orders: u8,
    /// Virtual time of a path, in seconds
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=120))]
    seconds: u32,
    /// Time between two instants, in seconds
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=2))]
    tick: u32,
    /// Makes leaders beat, with this failover window in milliseconds; repeat it to give each
    /// candidate its own
    #[arg(long, value_parser = clap::value_parser!(u32).range(1_000..=10_000))]
    failover: Vec<u32>,
    /// Seeds this bug, by its name in the code, into the core
    #[arg(long, value_parser = hunt::parse_mutant)]
    mutant: Option<Mutant>,
    /// Starts with the record of a former leader instead of an empty account
    #[arg(long)]
    record: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let bounds = Bounds {
        candidates: arguments.candidates.into(),
        disturbances: arguments.disturbances,
        orders: arguments.orders,
        seconds: arguments.seconds,
        tick: arguments.tick,
        depth: arguments.depth.into(),
    };
    let start = if arguments.record { Start::Record } else { Start::Nothing };
    mutants::activate(arguments.mutant);
    let mut scope = Scope::new(bounds, start);
    if let Some(last) = arguments.failover.last() {
        let mut failovers = arguments.failover.clone();
        failovers.resize(bounds.candidates, *last);
        scope = scope.with_failover(&failovers);
    }
    let explored = explore(scope);
    println!("{explored}");
    ExitCode::from(u8::from(explored.violation.is_some()))
}
