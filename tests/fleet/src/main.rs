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

    /// Run them with that seeded bug in the code; `all`: look for each of them, from seed 0 on
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
    if flags.mutant.as_deref() == Some("all") {
        return hunt(flags.seeds);
    }
    let mutant = match flags.mutant.as_deref().map(named).transpose() {
        Ok(mutant) => mutant,
        Err(text) => {
            eprintln!("{text}");
            return ExitCode::from(2);
        }
    };
    let began = Instant::now();
    let totals = campaign::run(flags.from, flags.seeds, threads, mutant);
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

fn named(name: &str) -> Result<Mutant, String> {
    let named = Mutant::ALL.into_iter().find(|mutant| format!("{mutant:?}") == name);
    named.ok_or_else(|| {
        format!("There is no seeded bug {name}. There are {:?}, and `all`.", Mutant::ALL)
    })
}

fn hunt(seeds: u64) -> ExitCode {
    let found = Mutant::ALL.map(|mutant| campaign::hunt(mutant, seeds));
    for quarry in &found {
        println!("{quarry}");
    }
    let unbroken = campaign::unbroken(&found);
    if !unbroken.is_empty() {
        println!("broken by none: {}", unbroken.join(" "));
    }
    let all = unbroken.is_empty() && found.iter().all(|quarry| quarry.seeds.is_some());
    ExitCode::from(u8::from(!all))
}
