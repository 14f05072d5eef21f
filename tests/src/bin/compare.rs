//! Applies the same faults to Tenure, lease loops on Azure's SDKs, Microsoft's sample, etcd and
//! ZooKeeper in one run. Measures the time until another leader works, the old leader's stale work,
//! and the requests at rest.
//!
//! ```text
//! apt-get install etcd-server etcd-client zookeeper default-jre-headless
//! cargo run -p tenure-tests --release --bin compare -- --rounds 10
//! ```
//!
//! The tables go to standard output, progress to standard error. A contender that is not installed
//! is skipped, with instructions to install it. Exits with 1 if a round failed.

use std::collections::VecDeque;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use chrono::Utc;
use clap::{Parser, ValueEnum, value_parser};
use tenure_tests::compare::{
    Contender, Fault, Outcome, Ready, Setting, Summary, measure_rest_rate, round,
};
use tenure_tests::measure::load;
use tenure_tests::{Group, Sink, Store, baseline};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;

/// In each round three candidates contend. A leader beats every 20 ms at a sink that accepts
/// everything. A takeover is measured from the fault to the first beat of another candidate.
///
/// Beats of the old leader after that are stale work. A partition cuts the leader off from its
/// store only, so that its work stays visible.
#[derive(Parser)]
#[command(
    about = "Compares how leaders are replaced, and what stale ones do",
    verbatim_doc_comment
)]
struct Arguments {
    /// Rounds of each fault for each contender
    #[arg(long, default_value_t = 5, value_parser = value_parser!(u16).range(1..=1_000))]
    rounds: u16,
    /// Contenders to compare; all by default
    #[arg(long, value_enum, value_delimiter = ',', value_name = "NAME,…")]
    only: Vec<Contender>,
    /// Faults to inject; all by default
    #[arg(long, value_enum, value_delimiter = ',', value_name = "FAULT,…")]
    faults: Vec<Fault>,
    /// Number of concurrent elections; more elections load the machine and distort the results
    #[arg(long, default_value_t = 4, value_parser = value_parser!(u8).range(1..=32))]
    parallel: u8,
    /// Longest time to watch an old leader, in seconds
    #[arg(long, default_value_t = 60, value_parser = value_parser!(u64).range(1..=1_000))]
    watch: u64,
    /// Time to count the requests at rest, in seconds; 0 disables the count
    #[arg(long, default_value_t = 60, value_parser = value_parser!(u64).range(0..=3_600))]
    rest: u64,
    /// Failover time for `tenure run --failover`, in seconds
    #[arg(long, default_value_t = 3, value_parser = value_parser!(u8).range(1..=10))]
    failover: u8,
    /// Store of the contenders that use a blob
    #[arg(long, value_enum, default_value_t)]
    store: StoreKind,
    /// Prints one JSON object with every round instead of tables
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum StoreKind {
    #[default]
    Azurite,
    Embedded,
}

fn main() -> Result<ExitCode> {
    // Candidates run this same program: it is the only one certain to be built.
    match std::env::args().nth(1).as_deref() {
        Some("run") => return Ok(tenure_cli::main()),
        Some("baseline") => return baseline::main(),
        _ => {}
    }
    let arguments = Arguments::parse();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    // When it ends, even by a signal, the runtime drops every round and thereby ends its processes.
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        tokio::select! {
            judged = compare(&arguments) => judged,
            _ = terminate.recv() => bail!("ended by SIGTERM"),
            _ = tokio::signal::ctrl_c() => bail!("ended by Ctrl-C"),
        }
    })
}

/// One measurement.
type Job = Pin<Box<dyn Future<Output = (Contender, Measured)> + Send>>;

/// Result of one measurement.
enum Measured {
    Round(Fault, Result<Outcome>),
    RestRate(Result<f64>),
}

async fn compare(arguments: &Arguments) -> Result<ExitCode> {
    let store = match arguments.store {
        StoreKind::Azurite => Store::azurite().await?,
        StoreKind::Embedded => Store::embedded().await?,
    };
    let program = std::env::current_exe()?;
    let program_name = program.to_str().context("the program has a strange name")?;
    Group::new(program_name, &store, &Sink::start().await?).warm_up().await?;
    let failover = arguments.failover;
    let setting = Setting { program, connection_string: store.connection_string(), failover };
    let ready = prepare_all(&named_or_all(&arguments.only), &setting).await;
    let (load_before, started_at) = (load(), Utc::now());

    let mut jobs = VecDeque::<Job>::new();
    let watch_limit = Duration::from_secs(arguments.watch);
    for _ in 0..arguments.rounds {
        for &fault in &named_or_all(&arguments.faults) {
            for ready in &ready {
                let (contender, ready) = (ready.contender, Arc::clone(ready));
                if fault == Fault::KillAll && !contender.is_supervised() {
                    continue; // This contender has one process.
                }
                jobs.push_back(Box::pin(async move {
                    (contender, Measured::Round(fault, round(&ready, fault, watch_limit).await))
                }));
            }
        }
    }
    for ready in ready.iter().filter(|_| arguments.rest > 0) {
        let (contender, setting) = (ready.contender, setting.clone());
        let duration = Duration::from_secs(arguments.rest);
        jobs.push_back(Box::pin(async move {
            let counted = async {
                // Uses a separate server, whose counts include nothing else.
                measure_rest_rate(&contender.prepare(&setting).await?, duration).await
            };
            (contender, Measured::RestRate(counted.await))
        }));
    }
    let summary = run_jobs(jobs, arguments.parallel.into()).await?;

    if arguments.json {
        println!("{}", summary.to_json());
    } else {
        println!("{summary}");
        let build_profile =
            if cfg!(debug_assertions) { "without optimisation" } else { "optimised" };
        let versions: Vec<_> = ready.iter().map(|ready| ready.version.as_str()).collect();
        println!(
            "{}, {:?}, {} elections of three candidates side by side, old leaders watched for {} s, \
             failover within {failover} s, built {build_profile}. Load of the machine: {load_before} before, {} after.\n{}",
            started_at.format("%-d %B %Y"),
            arguments.store,
            arguments.parallel,
            arguments.watch,
            load(),
            deduplicated(versions).join(" · "),
        );
    }
    Ok(if summary.failures().is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the selected values, or all values if none is selected.
fn named_or_all<T: ValueEnum + Clone>(selected: &[T]) -> Vec<T> {
    if selected.is_empty() { T::value_variants().to_vec() } else { selected.to_vec() }
}

fn deduplicated(mut versions: Vec<&str>) -> Vec<&str> {
    versions.dedup();
    versions
}

/// Prepares the contenders that can run here, and prints why the others cannot.
async fn prepare_all(contenders: &[Contender], setting: &Setting) -> Vec<Arc<Ready>> {
    let mut ready = Vec::new();
    for contender in contenders {
        eprintln!("prepares {}", contender.label());
        match contender.prepare(setting).await {
            Ok(prepared) => ready.push(Arc::new(prepared)),
            Err(error) => eprintln!("LEFT OUT: {}: {error:#}", contender.label()),
        }
    }
    ready
}

/// Runs the jobs in order, at most `concurrency` at a time.
async fn run_jobs(mut jobs: VecDeque<Job>, concurrency: usize) -> Result<Summary> {
    let (mut summary, job_count) = (Summary::default(), jobs.len());
    let mut running = JoinSet::new();
    loop {
        while running.len() < concurrency
            && let Some(job) = jobs.pop_front()
        {
            running.spawn(job);
        }
        let Some(joined) = running.join_next().await else { return Ok(summary) };
        let (contender, measured) = joined.context("a round panicked")?;
        let description = match &measured {
            Measured::Round(fault, Ok(outcome)) => format!("{fault:?}: {outcome}"),
            Measured::RestRate(Ok(rate)) => format!("in rest {rate:.1} requests a minute"),
            Measured::Round(_, Err(error)) | Measured::RestRate(Err(error)) => {
                format!("FAILED: {error:#}")
            }
        };
        let now = Utc::now().format("%H:%M:%S");
        let number = job_count - jobs.len() - running.len();
        eprintln!("{now} {number}/{job_count} {}, {description}", contender.label());
        match measured {
            Measured::Round(fault, round) => summary.add_round(contender, fault, round),
            Measured::RestRate(rate) => summary.add_rest_rate(contender, rate),
        }
    }
}
