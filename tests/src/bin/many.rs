//! Many elections in one process: no election may lose its leader. By default another process leads
//! half of the elections, and the measured process follows them.
//!
//! ```text
//! cargo run -p tenure-tests --release --bin many -- --elections 1000 [--followed 0] [--seconds 120] [--sdk] [--json]
//! ```
//!
//! With `--sdk` the loop of Azure's SDK for Rust then holds as many leases at the same rhythm. So
//! both processor times come from one run.
//!
//! Exits with 1 if a leadership was lost, the component failed, or an election had no leader.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use axum::Router;
use axum::http::StatusCode;
use axum::routing::post;
use clap::Parser;
use rustix::process::Pid;
use serde_json::json;
use tenure_store::{Entry, OperationKind, Store};
use tenure_tests::measure::{Spread, Table, load, watch_requests};
use tenure_tests::{Access, Candidate, Holder, HolderClient, Line, Workload};
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::time::sleep;

/// Longer than all elections need to start.
const TIMEOUT: Duration = Duration::from_secs(300);

/// Candidates' default intervals between renewals and between polls.
const RENEW_INTERVAL: Duration = Duration::from_secs(4);
const POLL_INTERVAL: Duration = Duration::from_secs(3);

const CONTAINER: &str = "many";

#[derive(Parser)]
#[command(about = "Holds many elections in one process, and counts what goes wrong")]
struct Arguments {
    /// Number of elections
    #[arg(long, default_value_t = 300)]
    elections: usize,
    /// Number of elections that another process leads; half of them by default
    #[arg(long)]
    followed: Option<usize>,
    /// Duration in seconds, once all elections have started
    #[arg(long, default_value_t = 120)]
    seconds: u64,
    /// Timer of each election
    #[arg(long, default_value = "30s")]
    every: String,
    /// Also runs Azure's SDK for Rust afterwards, for comparison
    #[arg(long)]
    sdk: bool,
    /// Prints one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

fn main() -> Result<ExitCode> {
    // Elections run in this same program: it is the only one certain to be built.
    if std::env::args().nth(1).is_some_and(|first| first == "run") {
        return Ok(tenure_cli::main());
    }
    let arguments = Arguments::parse();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(run_elections(&arguments))
}

async fn run_elections(arguments: &Arguments) -> Result<ExitCode> {
    let load_before = load();
    let store = tenure_store::run(([127, 0, 0, 1], 0).into(), Vec::new()).await?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let webhook = format!("http://{}/", listener.local_addr()?);
    let accept_webhook = post(async || StatusCode::NO_CONTENT);
    tokio::spawn(async { axum::serve(listener, Router::new().route("/", accept_webhook)).await });

    let followed = arguments.followed.unwrap_or(arguments.elections / 2);
    ensure!(followed < arguments.elections, "one election at least has to be led here");
    let process_config = ProcessConfig {
        folder: tempfile::tempdir()?,
        access: Access::from_connection_string(store.connection_string()),
        webhook,
        every: &arguments.every,
    };
    let mut other_process = None;
    if followed > 0 {
        let mut process = process_config.start("others", followed)?;
        wait_for_roles(&mut process, followed, 0).await?;
        other_process = Some(process);
    }
    let started_at = Instant::now();
    let mut process = process_config.start("many", arguments.elections)?;
    let led = arguments.elections - followed;
    wait_for_roles(&mut process, led, followed).await?;
    let time_to_start = started_at.elapsed();

    let (first_line, processor) = (process.lines().len(), process.processor_time()?);
    let renewals = Renewals::watch(&store, Duration::from_secs(arguments.seconds)).await;
    let processor = process.processor_time()?.saturating_sub(processor);
    let (lines, id) = (process.lines(), process.runner()?);
    let mut results = Results {
        led,
        followed,
        time_to_start,
        seconds: arguments.seconds,
        counts: counts(&lines[first_line..]),
        leaders_at_end: leader_count(&lines),
        lost_at_start: counts(&lines[..first_line]).lost,
        renewals: renewals.for_elections(followed..arguments.elections),
        processor,
        memory: process.peak_memory()?,
        descriptors: std::fs::read_dir(proc_path(id, "fd"))?.count(),
        threads: std::fs::read_dir(proc_path(id, "task"))?.count(),
        sdk: None,
    };
    let stop_started = Instant::now();
    for process in [Some(&mut process), other_process.as_mut()].into_iter().flatten() {
        let ended = process.terminate(TIMEOUT).await?;
        ensure!(ended.success(), "{} ended with {ended}: {}", process.name, process.errors());
    }
    let stopped = process.count("stopped");
    ensure!(stopped == arguments.elections, "{stopped} elections were left");
    let stop_duration = stop_started.elapsed();
    if arguments.sdk {
        results.sdk =
            Some(SdkMeasurement::measure(&store, led, followed, arguments.seconds).await?);
    }
    if arguments.json {
        println!("{}", results.to_json());
    } else {
        print!("{}", results.to_table());
        println!("all were left within {:.1} s", stop_duration.as_secs_f64());
        println!("load of the machine: {load_before} before, {} after", load());
    }
    Ok(if results.is_success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Configuration for starting processes.
struct ProcessConfig<'a> {
    folder: tempfile::TempDir,
    access: Access,
    webhook: String,
    every: &'a str,
}

impl ProcessConfig<'_> {
    /// Starts a process with the first `elections` elections.
    fn start(&self, name: &str, elections: usize) -> Result<Candidate> {
        let file = self.file(name, elections)?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("run").arg("--config").arg(file);
        self.access.apply(&mut command);
        Candidate::spawn(name, command)
    }

    fn file(&self, name: &str, elections: usize) -> Result<PathBuf> {
        let Self { every, webhook, .. } = self;
        let mut content = format!("log = \"json\"\nevery = \"{every}\"\nname = \"{name}\"\n");
        for number in 0..elections {
            let election = election(number);
            write!(content, "[[election]]\nelection = \"{election}\"\nwebhook = \"{webhook}\"\n")?;
        }
        let file = self.folder.path().join(format!("{name}.toml"));
        std::fs::write(&file, content)?;
        Ok(file)
    }
}

fn election(number: usize) -> String {
    format!("{CONTAINER}/{number}")
}

/// Waits until a process leads and follows the given numbers of elections.
async fn wait_for_roles(process: &mut Candidate, led: usize, followed: usize) -> Result<()> {
    let started_at = Instant::now();
    loop {
        ensure!(process.is_alive(), "it ended: {}", process.errors());
        let lines = process.lines();
        let roles = roles_by_election(&lines);
        let leads = roles.values().filter(|role| **role == "elected").count();
        let follows = roles.values().filter(|role| **role == "following").count();
        if leads >= led && follows >= followed {
            return Ok(());
        }
        if started_at.elapsed() > TIMEOUT {
            let Counts { lost, problems, .. } = counts(&lines);
            bail!(
                "{leads} are led and {follows} followed after {TIMEOUT:?}, with {lost} leaderships lost and these \
                 problems: {problems:?}"
            );
        }
        sleep(Duration::from_secs(1)).await;
    }
}

/// Returns the latest role event of each election in these lines.
fn roles_by_election(lines: &[Line]) -> BTreeMap<&str, &str> {
    let role_events =
        lines.iter().filter(|line| ["elected", "following", "stood-down"].contains(&line.name()));
    role_events
        .map(|line| (line.event["election"].as_str().unwrap_or_default(), line.name()))
        .collect()
}

fn leader_count(lines: &[Line]) -> usize {
    roles_by_election(lines).values().filter(|role| **role == "elected").count()
}

#[derive(Default)]
struct Counts {
    turns: usize,
    lost: usize,
    /// Number of problems by class.
    problems: BTreeMap<String, usize>,
}

fn counts(lines: &[Line]) -> Counts {
    let mut counts = Counts::default();
    for line in lines {
        match line.name() {
            "stood-down" => counts.lost += 1,
            "turn-ended" if line.event["outcome"] == "succeeded" => counts.turns += 1,
            "problem" => {
                let class = line.event["class"].as_str().unwrap_or_default();
                *counts.problems.entry(class.to_owned()).or_default() += 1;
            }
            _ => {}
        }
    }
    counts
}

/// Renewal requests that the store received, by blob.
#[derive(Default)]
struct Renewals {
    newest: BTreeMap<String, Duration>,
    count: BTreeMap<String, usize>,
    /// Delay of each renewal beyond its period. Jitter makes renewals due up to an eighth of the
    /// period early, so smaller delays stay invisible.
    late: Vec<(String, Duration)>,
}

impl Renewals {
    /// Watches the store for `duration`.
    async fn watch(store: &Store, time: Duration) -> Self {
        let mut renewals = Self::default();
        let record = |entry: &Entry| {
            if entry.operation == OperationKind::Renew {
                renewals.record(&entry.blob, entry.at);
            }
        };
        watch_requests(store, time, record).await;
        renewals
    }

    fn record(&mut self, blob: &str, at: Duration) {
        *self.count.entry(blob.to_owned()).or_default() += 1;
        if let Some(previous) = self.newest.insert(blob.to_owned(), at) {
            let late = at.saturating_sub(previous).saturating_sub(RENEW_INTERVAL);
            self.late.push((blob.to_owned(), late));
        }
    }

    /// Returns the number of renewals for these elections, and their delays.
    fn for_elections(&self, elections: std::ops::Range<usize>) -> (usize, Spread) {
        let is_selected = |blob: &str| blob.parse().is_ok_and(|number| elections.contains(&number));
        let count =
            self.count.iter().filter(|(blob, _)| is_selected(blob)).map(|(_, count)| count).sum();
        let late = self.late.iter().filter(|(blob, _)| is_selected(blob)).map(|(_, late)| *late);
        (count, late.collect())
    }
}

/// Loop of Azure's SDK for Rust with the same number of leases.
struct SdkMeasurement {
    processor: Duration,
    memory: u64,
}

impl SdkMeasurement {
    async fn measure(store: &Store, led: usize, followed: usize, seconds: u64) -> Result<Self> {
        let origin = format!("http://{}", store.address());
        let workload = Workload {
            held_leases: led,
            renew_interval: RENEW_INTERVAL,
            polled_leases: followed,
            poll_interval: POLL_INTERVAL,
        };
        let sdk_holder = Holder::start(HolderClient::Sdk, &origin, "rival", workload).await?;
        let processor_before = sdk_holder.processor_time()?;
        sleep(Duration::from_secs(seconds)).await;
        let processor = sdk_holder.processor_time()?.saturating_sub(processor_before);
        Ok(Self { processor, memory: sdk_holder.peak_memory()? })
    }
}

struct Results {
    led: usize,
    followed: usize,
    /// Time from the start of the process.
    time_to_start: Duration,
    seconds: u64,
    counts: Counts,
    leaders_at_end: usize,
    lost_at_start: usize,
    renewals: (usize, Spread),
    processor: Duration,
    memory: u64,
    descriptors: usize,
    threads: usize,
    sdk: Option<SdkMeasurement>,
}

impl Results {
    fn is_success(&self) -> bool {
        let failures = self.counts.problems.get("component").copied().unwrap_or_default();
        let lost = self.counts.lost + self.lost_at_start;
        lost + failures == 0 && self.leaders_at_end == self.led
    }

    /// Returns the processor time per renewal, including all other work of the process.
    fn per_renewal(&self, processor: Duration) -> Duration {
        processor / u32::try_from(self.renewals.0.max(1)).unwrap_or(u32::MAX)
    }

    fn to_json(&self) -> serde_json::Value {
        let (renewals, late) = &self.renewals;
        let microseconds = |time: Duration| self.per_renewal(time).as_secs_f64() * 1e6;
        json!({
            "led": self.led,
            "followed": self.followed,
            "seconds": self.seconds,
            "all_begun_after_ms": u64::try_from(self.time_to_start.as_millis()).unwrap_or(u64::MAX),
            "leaderships_lost": self.counts.lost,
            "lost_at_the_start": self.lost_at_start,
            "problems": self.counts.problems,
            "renewals": renewals,
            "renewals_past_their_period": late.to_json(),
            "turns": self.counts.turns,
            "processors": self.processor.as_secs_f64() / self.seconds as f64,
            "microseconds_per_renewal": microseconds(self.processor),
            "peak_memory": self.memory,
            "descriptors": self.descriptors,
            "threads": self.threads,
            "sdk": self.sdk.as_ref().map(|rival| json!({
                "processors": rival.processor.as_secs_f64() / self.seconds as f64,
                "microseconds_per_renewal": microseconds(rival.processor),
                "peak_memory": rival.memory,
            })),
        })
    }

    fn to_table(&self) -> Table {
        let election_count = (self.led + self.followed).to_string();
        let mut table = Table::new(&["elections in one process", &election_count]);
        let mut row = |label: &str, value: String| table.row([label.to_owned(), value]);
        let milliseconds = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1e3);
        let mebibytes = |bytes: u64| format!("{} MiB", bytes / (1024 * 1024));
        let processors =
            |time: Duration| format!("{:.3}", time.as_secs_f64() / self.seconds as f64);
        let (renewals, late) = &self.renewals;
        row("led, followed", format!("{}, {}", self.led, self.followed));
        row("all begun after", format!("{:.1} s", self.time_to_start.as_secs_f64()));
        row("leaderships lost", self.counts.lost.to_string());
        row("lost before all had begun", self.lost_at_start.to_string());
        for (class, count) in &self.counts.problems {
            row(&format!("problems: {class}"), count.to_string());
        }
        row("renewals", renewals.to_string());
        row("more than 4 s after the last, by, p99", milliseconds(late.quantile(0.99)));
        row("at most", milliseconds(late.max()));
        row("turns", self.counts.turns.to_string());
        row("processors", processors(self.processor));
        row("processor time per renewal", milliseconds(self.per_renewal(self.processor)));
        row("memory at most", mebibytes(self.memory));
        row("descriptors", self.descriptors.to_string());
        row("threads", self.threads.to_string());
        if let Some(sdk) = &self.sdk {
            let ratio = self.processor.as_secs_f64() / sdk.processor.as_secs_f64();
            row("the SDK's loop: processors", processors(sdk.processor));
            row("per renewal", milliseconds(self.per_renewal(sdk.processor)));
            row("memory at most", mebibytes(sdk.memory));
            row("processor time, ours to the SDK's", format!("{ratio:.2}"));
        }
        table
    }
}

fn proc_path(id: Pid, entry: &str) -> impl AsRef<Path> {
    format!("/proc/{}/{entry}", id.as_raw_nonzero())
}
