//! Runs candidates in virtual time, with faults chosen by seeds, and checks the results.

#![allow(clippy::expect_used, reason = "a program of the tests")]

use std::num::NonZeroUsize;
use std::ops::Range;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;

use clap::Parser;
use tenure::engine::Variables;
use tenure_core::mutants::Mutant;
use tenure_simulation::campaign::{self, Totals};
use tenure_simulation::compare::first_difference;
use tenure_simulation::fault::Fault;
use tenure_simulation::plan::Rules;
use tenure_simulation::{Fidelity, Options, Outcome, Slots, Topic, hunt, last_run, trace};
use tenure_wasmtime::{ElectionComponent, Engine};

/// Runs candidates in virtual time, with faults chosen by seeds
#[derive(Parser)]
struct Arguments {
    /// Number of schedules
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    seeds: u64,

    /// Seed of the first schedule
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=1_000_000_000_000))]
    from: u64,

    /// Runs only this seed, and prints its trace
    #[arg(long, conflicts_with_all = ["seeds", "from", "threads"])]
    seed: Option<u64>,

    /// Uses the shipped component, in wasmtime, instead of the pure core
    #[arg(long)]
    component: bool,

    /// Compares the behaviour of the pure core and the component, without other checks
    #[arg(long, conflicts_with_all = ["component", "seed", "timetable", "invocations", "mutant", "json"])]
    compare: bool,

    /// Runs a thousand slots, one per second, on five candidates that are repeatedly killed: each
    /// slot at most once, or at least once
    #[arg(long, value_name = "DELIVERY", value_parser = parse_rules)]
    timetable: Option<Rules>,

    /// Runs the same slots on ten replicas that a platform calls every ten seconds, all at once,
    /// each call one whole turn
    #[arg(long, value_name = "DELIVERY", value_parser = parse_rules, conflicts_with_all = ["timetable", "component"])]
    invocations: Option<Rules>,

    /// Seeds this bug, by its name in the code, into the core
    #[arg(long, conflicts_with = "component", value_parser = hunt::parse_mutant)]
    mutant: Option<Mutant>,

    /// Number of threads (default: the number of processors)
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Option<u16>,

    /// Prints the result as JSON
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.compare {
        return compare(arguments.from..arguments.from + arguments.seeds);
    }
    let fidelity = if arguments.component { component() } else { Fidelity::Native };
    let topic = match (arguments.timetable, arguments.invocations) {
        (Some(rules), _) => Topic::Timetable(rules),
        (_, Some(rules)) => Topic::Invocations(rules),
        _ => Topic::Faults,
    };
    let options = Options { fidelity, mutant: arguments.mutant, topic, records_comparison: false };
    if let Some(seed) = arguments.seed {
        return report_one(&tenure_simulation::run(seed, &options));
    }
    let processors = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let threads = arguments.threads.map_or(processors, usize::from);
    let totals = campaign::run(arguments.from, arguments.seeds, threads, &options);
    match arguments.json {
        true => println!("{}", json(&totals, arguments.component)),
        false => print_totals(&totals, arguments.component, topic),
    }
    if arguments.timetable.is_some() && !arguments.json {
        let mut slots = Slots::default();
        for seed in arguments.from..arguments.from + arguments.seeds {
            slots += last_run::run(seed);
        }
        let Slots { run, repeated, .. } = slots;
        println!("a timer that writes \"last run\" after the run: {run} run, {repeated} repeated");
    }
    for seed in totals.failed_seeds.iter().take(1) {
        let outcome = tenure_simulation::run(*seed, &options);
        eprintln!("{}", trace::trace(&outcome.history));
        for violation in &outcome.violations {
            eprintln!("{violation}");
        }
    }
    for seed in &totals.failed_seeds {
        let component = if arguments.component { " --component" } else { "" };
        eprintln!(
            "seed {seed} failed: cargo run -p tenure-simulation --release --bin simulate -- \
             --seed {seed}{component}"
        );
    }
    ExitCode::from(u8::from(!totals.failed_seeds.is_empty()))
}

fn parse_rules(name: &str) -> Result<Rules, String> {
    match name {
        "at-most-once" => Ok(Rules::default()),
        "at-least-once" => Ok(Rules::at_least_once()),
        _ => Err("expected at-most-once or at-least-once".into()),
    }
}

fn compare(seeds: Range<u64>) -> ExitCode {
    let component = component();
    let mut difference_count = 0;
    for seed in seeds.clone() {
        if let Some([native, component]) = first_difference(seed, &component) {
            difference_count += 1;
            eprintln!("seed {seed}:\n  core:      {native}\n  component: {component}");
        }
    }
    println!("{difference_count} of {} schedules differ", seeds.end - seeds.start);
    ExitCode::from(u8::from(difference_count > 0))
}

fn component() -> Fidelity {
    let engine = Engine::new().expect("an engine").uninterrupted();
    let clock = tenure_clock::BootClock::new();
    let component = ElectionComponent::new(&engine, Variables::new(), &clock);
    Fidelity::Component(Arc::new(component.expect("the component that this was built with")))
}

fn report_one(outcome: &Outcome) -> ExitCode {
    print!("{}", trace::trace(&outcome.history));
    println!(
        "{:?}; {}; {} takeovers, {} turns, {} faults{}",
        outcome.class,
        outcome.traits.names().join(", "),
        outcome.takeovers,
        outcome.slots.turns,
        outcome.coverage.fault_count(),
        if outcome.is_meaningful() { "" } else { "; not counted" }
    );
    for violation in &outcome.violations {
        println!("{violation}");
    }
    ExitCode::from(u8::from(!outcome.violations.is_empty()))
}

fn print_totals(totals: &Totals, component: bool, topic: Topic) {
    let subject = if component { "the component" } else { "the pure core" };
    let hours = totals.virtual_time as f64 / 3_600_000.0;
    println!(
        "{} schedules of {subject} in {:.1} s ({:.0} per second): {} within A1 to A4, {} without A3, \
         {} not counted",
        totals.counted(),
        totals.elapsed.as_secs_f64(),
        totals.per_second(),
        totals.sound,
        totals.without_a3,
        totals.uncounted
    );
    println!(
        "{hours:.0} h of virtual time, {} takeovers, {} turns, {} faults",
        totals.takeovers,
        totals.slots.turns,
        totals.coverage.fault_count()
    );
    let Slots { claimed, run, repeated, .. } = totals.slots;
    println!("{claimed} slots were claimed, {run} of them run, {repeated} more than once");
    if topic != Topic::Faults {
        return;
    }
    println!("\n{}", totals.coverage);
    println!("* against A3: an outsider shortens the lease, or loses the record");
    for (fault, step) in totals.coverage.missing_pairs() {
        println!("never seen: {}, at {}", fault.name(), step.name());
    }
}

fn json(totals: &Totals, component: bool) -> serde_json::Value {
    let faults = Fault::ALL.map(|fault| (fault.name().to_owned(), totals.coverage.total(fault)));
    serde_json::json!({
        "component": component,
        "schedules": totals.counted(),
        "within_a1_to_a4": totals.sound,
        "without_a3": totals.without_a3,
        "not_counted": totals.uncounted,
        "seconds": totals.elapsed.as_secs_f64(),
        "per_second": totals.per_second(),
        "virtual_hours": totals.virtual_time as f64 / 3_600_000.0,
        "takeovers": totals.takeovers,
        "slots_claimed": totals.slots.claimed,
        "slots_run": totals.slots.run,
        "slots_run_again": totals.slots.repeated,
        "turns": totals.slots.turns,
        "faults": faults.into_iter().collect::<std::collections::BTreeMap<_, _>>(),
        "pairs_never_seen": totals.coverage.missing_pairs().len(),
        "failed_seeds": totals.failed_seeds,
    })
}
