//! Runs fleets of members and shares in virtual time.

use std::process::ExitCode;
use std::thread;
use std::time::Instant;

use clap::Parser;
use tenure_fleet::{campaign, large};
use tenure_shares::mutants::Mutant;

/// Members and shares in virtual time, with faults that a seed chooses.
#[derive(Parser)]
struct Arguments {
    /// Number of schedules
    #[arg(long, default_value_t = 1_000)]
    seeds: u64,

    /// Seed of the first schedule
    #[arg(long, default_value_t = 0)]
    from: u64,

    /// Number of threads (default: the number of processors)
    #[arg(long)]
    threads: Option<usize>,

    /// Seeds this bug into the code; `all` searches for each bug, from seed 0 on
    #[arg(long)]
    mutant: Option<String>,

    /// Runs one large fleet instead, with this many members
    #[arg(long, requires = "shares")]
    members: Option<usize>,

    /// Number of shares of that fleet
    #[arg(long, requires = "members")]
    shares: Option<u32>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let (Some(members), Some(shares)) = (arguments.members, arguments.shares) {
        return large::run(arguments.from, members, shares);
    }
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let threads = arguments.threads.unwrap_or(processors);
    if arguments.mutant.as_deref() == Some("all") {
        return hunt_mutants(arguments.seeds);
    }
    let mutant = match arguments.mutant.as_deref().map(parse_mutant).transpose() {
        Ok(mutant) => mutant,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::from(2);
        }
    };
    let started_at = Instant::now();
    let totals = campaign::run(arguments.from, arguments.seeds, threads, mutant);
    println!(
        "{} schedules, {} h of virtual time, {} plans, {} moves, in {:.1} s",
        totals.schedules,
        totals.virtual_ms / 3_600_000,
        totals.plan_count,
        totals.move_count,
        started_at.elapsed().as_secs_f64()
    );
    for outcome in &totals.failures {
        println!("seed {}", outcome.seed);
        for violation in outcome.violations.iter().take(5) {
            println!("  {:>8} ms  {}  {}", violation.at, violation.rule, violation.message);
        }
    }
    ExitCode::from(u8::from(!totals.failures.is_empty()))
}

fn parse_mutant(name: &str) -> Result<Mutant, String> {
    let found = Mutant::ALL.into_iter().find(|mutant| format!("{mutant:?}") == name);
    found.ok_or_else(|| {
        format!("There is no seeded bug {name}. There are {:?}, and `all`.", Mutant::ALL)
    })
}

fn hunt_mutants(seeds: u64) -> ExitCode {
    let results = Mutant::ALL.map(|mutant| campaign::find_mutant(mutant, seeds));
    for result in &results {
        println!("{result}");
    }
    let unbroken = campaign::unbroken_rules(&results);
    if !unbroken.is_empty() {
        println!("no bug breaks: {}", unbroken.join(" "));
    }
    let all_found =
        unbroken.is_empty() && results.iter().all(|result| result.schedules_needed.is_some());
    ExitCode::from(u8::from(!all_found))
}
