//! Looks at every state that two or three candidates and the store can get into within some
//! bounds, and judges each.
//!
//! ```text
//! cargo run -p tenure-simulation --release --bin explore -- --candidates 2 --seconds 24 --record
//! cargo run -p tenure-simulation --release --bin explore -- --failover 9800 --tick 1 --seconds 16 --record
//! ```
//!
//! Ends with 1 when an invariant was broken; the shortest way there is printed.

use std::process::ExitCode;

use clap::Parser;
use tenure_core::mutants::{self, Mutant};
use tenure_simulation::exploration::{Bounds, Scope, Start, explore};
use tenure_simulation::hunt;

#[derive(Parser)]
#[command(about = "Explores all states of a small election")]
struct Arguments {
    /// Candidates, which start together
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(2..=3))]
    candidates: u8,
    /// Actions on a path: as many as the other bounds leave, unless this is fewer
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u16).range(1..=1000))]
    depth: u16,
    /// Disturbances on a path: crashes, freezes, leaves, and whatever the network does
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(0..=4))]
    disturbances: u8,
    /// Orders to hand over on a path
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=2))]
    orders: u8,
    /// Seconds of virtual time
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=120))]
    seconds: u32,
    /// Seconds between two instants
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=2))]
    tick: u32,
    /// Leaders beat, and are replaced within so many milliseconds. Twice or three times: each candidate has its own
    #[arg(long, value_parser = clap::value_parser!(u32).range(1_000..=10_000))]
    failover: Vec<u32>,
    /// With this bug seeded into the core, by its name in the code
    #[arg(long, value_parser = hunt::parse_mutant)]
    mutant: Option<Mutant>,
    /// Begin with the record of a former leader, not with an empty account
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
