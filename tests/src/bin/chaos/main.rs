//! Chaos test with real processes: candidates are killed, frozen, stopped and cut off from the
//! store, and a sink without fencing records all requests. On demand it runs the same faults
//! against candidates that work like the reference sample.
//!
//! ```text
//! cargo run -p tenure-tests --release --bin chaos -- --rounds 100 [--store embedded] \
//!     [--candidates 3..5] [--failover 3s|mixed] [--seed S] [--parallel N] [--baseline [ROUNDS]] [--json]
//! ```
//!
//! - With `--triggers N` it only places N triggers under each delivery rule, while leaders are
//!   killed.
//! - With `--transfers N` it only gives N orders to transfer leadership, while leaders are killed.
//! - With `--calls N` it only kills N leaders in sequence, each in the middle of a webhook call of
//!   64 KiB.
//!
//! Round N of seed S is round 1 of seed S + N - 1. Exits with 1 if Tenure broke a bound or a Tenure
//! round failed.

mod summary;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum, value_parser};
use tenure_core::Failover;
use tenure_tests::chaos::{Kind, Mix, Plan, Setting, round};
use tenure_tests::measure::Spread;
use tenure_tests::measure::load;
use tenure_tests::{Store, baseline, killed_calls, transfers, triggers};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use summary::{RoundResult, Summary};

#[derive(Parser)]
#[command(about = "Kills, freezes, stops and cuts off leaders, and counts late requests")]
struct Arguments {
    /// Number of rounds; in each an election suffers a freeze, a partition and a third fault
    #[arg(long, default_value_t = 20, value_parser = value_parser!(u64).range(1..=10_000))]
    rounds: u64,
    /// Number of candidates in each round; drawn from 3 to 5 by default
    #[arg(long, value_parser = value_parser!(u8).range(3..=5))]
    candidates: Option<u8>,
    /// Failover time of candidates; "mixed": each draws the end of the lease, 2s, 3s or 10s
    #[arg(long, value_parser = parse_mix, default_value = "lease")]
    failover: Mix,
    /// Seed of all random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of concurrent elections; more elections load the machine
    #[arg(long, default_value_t = 6, value_parser = value_parser!(u8).range(1..=32))]
    parallel: u8,
    /// Store to test with
    #[arg(long, value_enum, default_value_t)]
    store: StoreKind,
    /// Also runs the baseline, in the same number of rounds or in this many
    #[arg(long, num_args = 0..=1, value_name = "ROUNDS")]
    #[arg(value_parser = value_parser!(u64).range(1..=10_000))]
    baseline: Option<Option<u64>>,
    /// Instead of rounds: places this many triggers under each delivery rule, while a leader is
    /// killed every 3 s
    #[arg(long, value_parser = value_parser!(u32).range(1..=100_000))]
    triggers: Option<u32>,
    /// Instead of rounds: gives this many transfer orders, while a leader is killed every 10 s
    #[arg(long, conflicts_with = "triggers", value_parser = value_parser!(u32).range(1..=100_000))]
    transfers: Option<u32>,
    /// Instead of rounds: kills this many leaders in the middle of a webhook call of 64 KiB
    #[arg(long, conflicts_with_all = ["triggers", "transfers"], value_parser = value_parser!(u32).range(1..=10_000))]
    calls: Option<u32>,
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

fn parse_mix(text: &str) -> Result<Mix, String> {
    match text {
        "lease" => Ok(Mix::ByLease),
        "mixed" => Ok(Mix::Mixed),
        _ => {
            let seconds = text.strip_suffix('s').and_then(|seconds| seconds.parse().ok());
            let seconds = seconds.filter(|seconds| (1..=10).contains(seconds));
            let failover = |seconds| Mix::Same(Failover { within: Duration::from_secs(seconds) });
            seconds.map(failover).ok_or_else(|| "write it like 3s, or lease, or mixed".into())
        }
    }
}

fn main() -> Result<ExitCode> {
    tenure::supervisor_main();
    // Candidates run this same program: it is the only one certain to be built.
    match std::env::args().nth(1).as_deref() {
        Some("run" | "trigger") => return Ok(tenure_cli::main()),
        Some("baseline") => return baseline::main(),
        _ => {}
    }
    let arguments = Arguments::parse();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(chaos(&arguments))
}

async fn triggers(program: &str, store: &Store, count: u32) -> Result<ExitCode> {
    let mut is_broken = false;
    for delivery in ["at-most-once", "at-least-once"] {
        let tally =
            triggers::round(program, store, count, delivery, Duration::from_secs(3)).await?;
        let turns: u32 = tally.turns.values().map(|(began, _)| began).sum();
        let (ran_twice, lost) = (tally.ran_twice(), tally.never_completed());
        println!(
            "{delivery}: {count} triggers, {} leaders killed, {turns} turns; {} ran twice, {} were never completed",
            tally.killed,
            ran_twice.len(),
            lost.len()
        );
        let violated =
            if delivery == "at-most-once" { !ran_twice.is_empty() } else { !lost.is_empty() };
        if violated {
            println!("BROKEN: twice {ran_twice:?}, lost {lost:?}");
        }
        is_broken |= violated;
    }
    Ok(if is_broken { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

async fn transfers(program: &str, store: &Store, count: u32) -> Result<ExitCode> {
    let tally = transfers::round(program, store, count, Duration::from_secs(10)).await?;
    println!(
        "{count} transfers, {} leaders killed, {} terms given up; outcomes {:?}",
        tally.killed, tally.resigned_terms, tally.outcomes
    );
    for (name, durations) in ["with a hint", "without a hint"].into_iter().zip(&tally.durations) {
        let spread: Spread = durations.iter().copied().collect();
        if !spread.is_empty() {
            let [p50, p99] = [0.5, 0.99].map(|share| spread.quantile(share));
            println!(
                "from order to effect, {name}: {} times, p50 {p50:.1?}, p99 {p99:.1?}",
                spread.len()
            );
        }
    }
    let is_broken = tally.is_broken();
    if is_broken {
        let transfers::Tally { lost, unordered, repeated, .. } = tally;
        println!(
            "BROKEN: lost {lost:?}, without an order {unordered:?}, obeyed twice {repeated:?}"
        );
    }
    Ok(if is_broken { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

async fn calls(program: &str, store: &Store, count: u32) -> Result<ExitCode> {
    let mut is_broken = false;
    let (mut unread, mut completed) = (0, 0);
    for number in 1..=count {
        let round = killed_calls::round(program, store).await?;
        println!(
            "call {number}: {} bytes had arrived at the end of the process, {} of them unread; {} bytes left later; the \
             last byte was read {:?} after the end, the call of the next leader {:?}",
            round.arrived_bytes,
            round.unread_bytes,
            round.late_bytes,
            round.read_duration,
            round.takeover
        );
        is_broken |= round.late_bytes > 0;
        unread += u32::from(round.unread_bytes > 0);
        completed += u32::from(round.completed);
    }
    println!(
        "{count} calls: the receiver's kernel held unread bytes of {unread}; {completed} were complete in the end"
    );
    if is_broken {
        println!("BROKEN: bytes left the machine of a leader after its process had ended");
    }
    Ok(if is_broken { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

async fn chaos(arguments: &Arguments) -> Result<ExitCode> {
    let store = match arguments.store {
        StoreKind::Azurite => Store::azurite().await?,
        StoreKind::Embedded => Store::embedded().await?,
    };
    let program = std::env::current_exe()?;
    let program = program.to_str().context("the program has a strange name")?;
    if let Some(count) = arguments.triggers {
        return triggers(program, &store, count).await;
    }
    if let Some(count) = arguments.transfers {
        return transfers(program, &store, count).await;
    }
    if let Some(count) = arguments.calls {
        return calls(program, &store, count).await;
    }
    let load_before = load();
    let setting = Setting::new(program, &store).await?;

    let tenure = (0..arguments.rounds).map(|number| (Kind::Tenure, number));
    let rounds = arguments.baseline.map_or(0, |rounds| rounds.unwrap_or(arguments.rounds));
    let baseline = (0..rounds).map(|number| (Kind::Baseline, number));
    let candidates = arguments.candidates.map_or(3..=5, |n| usize::from(n)..=usize::from(n));
    let permits = Arc::new(Semaphore::new(arguments.parallel.into()));
    let mut running = JoinSet::new();
    for (kind, number) in tenure.chain(baseline) {
        let seed = arguments.seed.wrapping_add(number);
        let plan = Plan::draw(seed, candidates.clone(), arguments.failover);
        let (setting, permits) = (setting.clone(), Arc::clone(&permits));
        running.spawn(async move {
            let _permit = permits.acquire().await;
            let outcome = round(&setting, kind, &plan).await;
            (kind, RoundResult { seed, plan, outcome })
        });
    }
    let mut summary = Summary::default();
    while let Some(joined) = running.join_next().await {
        let (kind, round_result) = joined.context("a round panicked")?;
        if !arguments.json {
            round_result.print_violations(kind);
        }
        summary.add(kind, round_result);
    }

    let violations = summary.violations();
    if arguments.json {
        println!("{}", summary.to_json(&format!("{:?}", arguments.store).to_lowercase()));
    } else {
        println!("\n{:?}, {} elections side by side\n", arguments.store, arguments.parallel);
        println!("{summary}");
        println!("load of the machine: {load_before} before, {} after", load());
    }
    Ok(if violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
