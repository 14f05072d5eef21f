//! The same faults for Tenure, for lease loops on Azure's SDKs, for Microsoft's sample, and for etcd and ZooKeeper, in
//! one run: how long until another leader works, what the old one does meanwhile, and what it costs in rest.
//!
//! ```text
//! apt-get install etcd-server etcd-client zookeeper default-jre-headless
//! cargo run -p tenure-tests --release --bin compare -- --rounds 10
//! ```
//!
//! The tables go to standard output, progress to standard error. Whoever is not installed is left out, and it is said how
//! to get it. Ends with 1 when a round failed.

use std::collections::VecDeque;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use chrono::Utc;
use clap::{Parser, ValueEnum, value_parser};
use tenure_tests::compare::{Contender, Fault, Summary, Outcome, Ready, Setting, measure_rest_rate, round};
use tenure_tests::measure::load;
use tenure_tests::{Group, Sink, Store, baseline};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;

/// In each round three candidates contend. A leader beats every 20 ms at a sink that takes everything; a takeover is
/// measured from the fault to the first beat of another candidate.
///
/// What the old leader sends afterwards is stale work. In a partition it is cut off from its store alone, so that its
/// work is still seen.
#[derive(Parser)]
#[command(
    about = "Compares how leaders are replaced, and what stale ones do",
    verbatim_doc_comment
)]
struct Arguments {
    /// Rounds of each fault for each contender
    #[arg(long, default_value_t = 5, value_parser = value_parser!(u16).range(1..=1_000))]
    rounds: u16,
    /// Who is compared; everybody when it is not given
    #[arg(long, value_enum, value_delimiter = ',', value_name = "NAME,…")]
    only: Vec<Contender>,
    /// What happens to leaders; everything when it is not given
    #[arg(long, value_enum, value_delimiter = ',', value_name = "FAULT,…")]
    faults: Vec<Fault>,
    /// Elections side by side: more of them load the machine, and what is measured with it
    #[arg(long, default_value_t = 4, value_parser = value_parser!(u8).range(1..=32))]
    beside: u8,
    /// For how many seconds an old leader is watched at most
    #[arg(long, default_value_t = 60, value_parser = value_parser!(u64).range(1..=1_000))]
    watch: u64,
    /// For how many seconds the requests in rest are counted; 0: not at all
    #[arg(long, default_value_t = 60, value_parser = value_parser!(u64).range(0..=3_600))]
    rest: u64,
    /// Within how many seconds `tenure run --failover` replaces a leader
    #[arg(long, default_value_t = 3, value_parser = value_parser!(u8).range(1..=10))]
    failover: u8,
    /// The store of those that use a blob
    #[arg(long, value_enum, default_value_t)]
    store: StoreKind,
    /// One JSON object with every round instead of tables
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
    // The candidates are this program too: it is the only one that is surely built.
    match std::env::args().nth(1).as_deref() {
        Some("run") => return Ok(tenure_cli::main()),
        Some("baseline") => return baseline::main(),
        _ => {}
    }
    let arguments = Arguments::parse();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    // When it ends, also by a signal, the runtime drops every round, and these their processes.
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        tokio::select! {
            judged = compare(&arguments) => judged,
            _ = terminate.recv() => bail!("ended by SIGTERM"),
            _ = tokio::signal::ctrl_c() => bail!("ended by Ctrl-C"),
        }
    })
}

/// One thing to be measured.
type Job = Pin<Box<dyn Future<Output = (Contender, Measured)> + Send>>;

/// What came of one thing that was to be measured.
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
                    continue; // It has one process.
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
                // With a server of its own, which counts nothing else.
                measure_rest_rate(&contender.prepare(&setting).await?, duration).await
            };
            (contender, Measured::RestRate(counted.await))
        }));
    }
    let summary = run_jobs(jobs, arguments.beside.into()).await?;

    if arguments.json {
        println!("{}", summary.to_json());
    } else {
        println!("{summary}");
        let build_profile = if cfg!(debug_assertions) { "without optimisation" } else { "optimised" };
        let versions: Vec<_> = ready.iter().map(|ready| ready.version.as_str()).collect();
        println!(
            "{}, {:?}, {} elections of three candidates side by side, old leaders watched for {} s, \
             failover within {failover} s, built {build_profile}. Load of the machine: {load_before} before, {} after.\n{}",
            started_at.format("%-d %B %Y"),
            arguments.store,
            arguments.beside,
            arguments.watch,
            load(),
            deduplicated(versions).join(" · "),
        );
    }
    Ok(if summary.failures().is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Those that were named, or all.
fn named_or_all<T: ValueEnum + Clone>(selected: &[T]) -> Vec<T> {
    if selected.is_empty() { T::value_variants().to_vec() } else { selected.to_vec() }
}

fn deduplicated(mut versions: Vec<&str>) -> Vec<&str> {
    versions.dedup();
    versions
}

/// Those that can be started here. The others are told.
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

/// Does all of it in this order, so much at a time.
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
