//! Endurance test of leaderships with failover before the lease expires, on a busy machine and with
//! a slow store.
//!
//! ```text
//! cargo run -p tenure-tests --release --bin endure -- --minutes 60 [--failover 3s] [--busy 2]
//! ```
//!
//! Exits with 1 if a request of an old term arrived after a request of a newer term. Lost
//! leaderships are only counted and shown: a store that answers too late may end one.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::Path;
use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::{Parser, value_parser};
use fastrand::Rng;
use tenure_tests::measure::load;
use tenure_tests::{Access, BEAT_HANDLER, Candidate, Group, Mode, Proxy, Sink, Store};
use tokio::process::Command;
use tokio::time::{sleep, timeout};

/// Delay of answers, in milliseconds.
const LATENESS_MS: RangeInclusive<u64> = 100..=400;

/// Interval at which the delay changes.
const LATENESS_INTERVAL: Duration = Duration::from_millis(20);

#[derive(Parser)]
#[command(about = "Counts the leaderships that a late store and a busy machine end")]
struct Arguments {
    /// Duration in minutes
    #[arg(long, default_value_t = 60, value_parser = value_parser!(u64).range(1..=1440))]
    minutes: u64,
    /// Failover time of candidates
    #[arg(long, default_value = "3s")]
    failover: String,
    /// Number of parallel processes that load the CPU
    #[arg(long, default_value_t = 2, value_parser = value_parser!(u8).range(0..=16))]
    busy: u8,
    /// Seed of the random delays
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn main() -> Result<ExitCode> {
    // Candidates and load processes run this same program: it is the only one certain to be built.
    match std::env::args().nth(1).as_deref() {
        Some("run") => return Ok(tenure_cli::main()),
        Some("compute") => loop {
            std::hint::black_box(0);
        },
        _ => {}
    }
    let arguments = Arguments::parse();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(endure(&arguments))
}

async fn endure(arguments: &Arguments) -> Result<ExitCode> {
    let (store, sink) = (Store::azurite().await?, Sink::start().await?);
    let program = std::env::current_exe()?;
    let mut group = Group::new(program.to_str().context("a strange name")?, &store, &sink);
    // Turns fill the time up to the next slot, except for a short pause.
    group.turn_ms = 1_900;
    group.warm_up().await?;
    let mut seats = Vec::new();
    let mut seeds = Rng::with_seed(arguments.seed);
    for name in ["ada", "ben", "cyd"] {
        let (proxy, proxied_connection) = Proxy::for_store(&store.connection_string()).await?;
        let mut rng = seeds.fork();
        let lateness_task = tokio::spawn(async move {
            loop {
                let lateness = Duration::from_millis(rng.u64(LATENESS_MS));
                proxy.set_mode(Mode::LateAnswers(lateness));
                sleep(LATENESS_INTERVAL).await;
            }
        });
        let options = ["--failover", &arguments.failover];
        let access = Access::from_connection_string(&proxied_connection);
        seats.push((
            group.start_with(name, &access, Path::new(BEAT_HANDLER), &options)?,
            lateness_task,
        ));
    }
    timeout(Duration::from_secs(60), sink.wait_for_beat(|_| true)).await.context("nobody leads")?;

    let busy_processes: Vec<_> = (0..arguments.busy)
        .map(|_| {
            Command::new(&program).arg("compute").stdin(Stdio::null()).kill_on_drop(true).spawn()
        })
        .collect::<Result<_, _>>()?;
    let started_at = Instant::now();
    sleep(Duration::from_secs(60 * arguments.minutes)).await;
    let elapsed = started_at.elapsed();
    drop(busy_processes);

    let candidates: Vec<&Candidate> = seats.iter().map(|(candidate, _)| candidate).collect();
    let lines: Vec<_> = candidates.iter().flat_map(|candidate| candidate.lines()).collect();
    let events_named =
        |name: &str| lines.iter().filter(|line| line.name() == name).collect::<Vec<_>>();
    let mut problems = BTreeMap::<_, usize>::new();
    for problem in events_named("problem") {
        *problems.entry(problem.event["class"].to_string()).or_default() += 1;
    }
    let (stood_down, stale, beats) =
        (events_named("stood-down"), sink.overlap(), sink.beats().len());
    println!(
        "{:.0} minutes, failover within {}, answers {} to {} ms late, {} processes that compute",
        elapsed.as_secs_f64() / 60.0,
        arguments.failover,
        LATENESS_MS.start(),
        LATENESS_MS.end(),
        arguments.busy,
    );
    println!(
        "terms {}, leaderships lost {}, problems {problems:?}",
        events_named("elected").len(),
        stood_down.len()
    );
    println!("requests of the work {beats}, of an old term {} for {:?}", stale.1, stale.0);
    stood_down.iter().for_each(|line| println!("{}", line.event));
    println!("load of the machine: {}", load());
    Ok(if stale.1 == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
