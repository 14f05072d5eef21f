//! Runs fleets of members and shares in virtual time.

use std::process::ExitCode;
use std::thread;
use std::time::Instant;

use clap::Parser;
use tenure_fleet::{campaign, large};
use tenure_shares::mutants::Mutant;

/// Members and shares in virtual time, with faults that a seed chooses.
#[derive(Parser)]
struct Flags {
    /// Schedules to run
    #[arg(long, default_value_t = 1_000)]
    seeds: u64,

    /// The first seed
    #[arg(long, default_value_t = 0)]
    from: u64,

    /// Threads; as many as there are processors, unless said otherwise
    #[arg(long)]
    threads: Option<usize>,

    /// Look for one seeded bug, or for `all`, in the schedules from seed 0 on
    #[arg(long)]
    mutant: Option<String>,

    /// One large fleet instead, with so many members
    #[arg(long, requires = "shares")]
    members: Option<usize>,

    /// The shares of that fleet
    #[arg(long, requires = "members")]
    shares: Option<u32>,
}

fn main() -> ExitCode {
    let flags = Flags::parse();
    if let (Some(members), Some(shares)) = (flags.members, flags.shares) {
        return large::run(flags.from, members, shares);
    }
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let threads = flags.threads.unwrap_or(processors);
    if let Some(name) = &flags.mutant {
        return hunt(name, flags.seeds);
    }
    let began = Instant::now();
    let totals = campaign::run(flags.from, flags.seeds, threads, None);
    println!(
        "{} schedules, {} h of virtual time, {} plans, {} moves, in {:.1} s",
        totals.schedules,
        totals.lasted / 3_600_000,
        totals.plans,
        totals.moves,
        began.elapsed().as_secs_f64()
    );
    for outcome in &totals.failed {
        println!("seed {}", outcome.seed);
        for violation in outcome.violations.iter().take(5) {
            println!("  {:>8} ms  {}  {}", violation.at, violation.rule, violation.text);
        }
    }
    ExitCode::from(u8::from(!totals.failed.is_empty()))
}

fn hunt(name: &str, seeds: u64) -> ExitCode {
    let all = name == "all";
    let wanted = Mutant::ALL.into_iter().filter(|mutant| all || format!("{mutant:?}") == name);
    let mut missed = true;
    for (index, mutant) in wanted.enumerate() {
        let quarry = campaign::hunt(mutant, seeds);
        let broken = quarry.broken.iter().copied().collect::<Vec<_>>().join(" ");
        let took = quarry.seeds.map_or("NOT FOUND".to_owned(), |seeds| seeds.to_string());
        println!("{:<20} {took:>9}  {broken}", format!("{mutant:?}"));
        missed = (index > 0 && missed) || quarry.seeds.is_none();
    }
    ExitCode::from(u8::from(missed))
}
