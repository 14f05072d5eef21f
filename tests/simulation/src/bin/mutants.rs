//! Searches for every seeded bug with the simulation, and prints the first seed that shows each.

use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::thread;
use std::time::Instant;

use clap::Parser;
use tenure_simulation::hunt;

/// Seeded bugs, each of which breaks one rule of the protocol, and the schedules that detect them.
///
/// The schedules are those of `simulate`, from seed 0 on, or for rare bugs from a later one.
#[derive(Parser)]
struct Arguments {
    /// Maximum number of schedules for each bug
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    seeds: u64,

    /// Only bugs whose names contain this text
    #[arg(long, default_value = "")]
    only: String,

    /// Number of threads (default: the number of processors)
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Option<u16>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let processors = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let threads = arguments.threads.map_or(processors, usize::from);
    let started_at = Instant::now();
    let results = hunt::find_mutants(arguments.seeds, threads, &arguments.only);
    println!("{:<27} {:>7}  rules that it breaks there", "seeded bug", "seed");
    for result in &results {
        println!("{result}");
    }
    let unbroken =
        if arguments.only.is_empty() { hunt::unbroken_invariants(&results) } else { Vec::new() };
    if !unbroken.is_empty() {
        println!("no bug breaks: {}", unbroken.join(" "));
    }
    println!("in {:.1} s", started_at.elapsed().as_secs_f64());
    let all_found = unbroken.is_empty() && results.iter().all(|result| result.seed.is_some());
    ExitCode::from(u8::from(!all_found))
}
