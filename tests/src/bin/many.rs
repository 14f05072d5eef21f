//! Many elections in one process, with real turns: none of them may lose its leader.
//!
//! ```text
//! cargo run -p tenure-tests --release --bin many -- --elections 1000 [--seconds 120] [--json]
//! ```
//!
//! Ends with 1 when a leadership was lost, the component failed, or an election was without a leader.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use axum::Router;
use axum::http::StatusCode;
use axum::routing::post;
use clap::Parser;
use rustix::process::Pid;
use serde_json::json;
use tenure_tests::measure::{Table, load};
use tenure_tests::{Candidate, Group, Line, Sink, Store};
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::time::sleep;

/// Longer than it takes until all of them are led.
const GIVE_UP: Duration = Duration::from_secs(300);

#[derive(Parser)]
#[command(about = "Holds many elections in one process, and counts what goes wrong")]
struct Arguments {
    /// How many
    #[arg(long, default_value_t = 300)]
    elections: usize,
    /// For how long, once all of them are led
    #[arg(long, default_value_t = 120)]
    seconds: u64,
    /// The timer of each of them
    #[arg(long, default_value = "30s")]
    every: String,
    /// One JSON object instead of a table
    #[arg(long)]
    json: bool,
}

fn main() -> Result<ExitCode> {
    // The elections are held by this program too: it is the only one that is surely built.
    if std::env::args().nth(1).is_some_and(|first| first == "run") {
        return Ok(tenure_cli::main());
    }
    let arguments = Arguments::parse();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(hold(&arguments))
}

async fn hold(arguments: &Arguments) -> Result<ExitCode> {
    let before = load();
    let (store, unused) = (Store::embedded().await?, Sink::start().await?);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let webhook = format!("http://{}/", listener.local_addr()?);
    let take = post(async || StatusCode::NO_CONTENT);
    tokio::spawn(async { axum::serve(listener, Router::new().route("/", take)).await });

    let program = std::env::current_exe()?;
    let program = program.to_str().context("the program has a strange name")?;
    let group = Group::new(program, &store, &unused);
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("tenure.toml");
    std::fs::write(&file, content(arguments, &group, &webhook)?)?;
    let mut command = Command::new(program);
    command.arg("run").arg("--config").arg(&file);
    group.access.give(&mut command);
    let began = Instant::now();
    let mut process = Candidate::spawn("many", command)?;

    while led(&process.lines()).len() < arguments.elections {
        ensure!(process.is_alive(), "it ended: {}", process.errors());
        if began.elapsed() > GIVE_UP {
            let lines = process.lines();
            let Counts { renewals, lost, problems, .. } = counts(&lines);
            bail!(
                "{} are led after {GIVE_UP:?}, with {renewals} renewals, {lost} leaderships lost and \
                 these problems: {problems:?}",
                led(&lines).len()
            );
        }
        sleep(Duration::from_secs(1)).await;
    }
    let all_led = began.elapsed();
    let id = process.runner()?;
    let (from, processor) = (process.lines().len(), process.processor_time()?);
    sleep(Duration::from_secs(arguments.seconds)).await;
    let course = Course {
        elections: arguments.elections,
        all_led,
        counts: counts(&process.lines()[from..]),
        led: led(&process.lines()).len(),
        lost_at_the_start: counts(&process.lines()[..from]).lost,
        processor: (process.processor_time()? - processor).as_secs_f64() / arguments.seconds as f64,
        memory: process.peak_memory()?,
        descriptors: std::fs::read_dir(of_process(id, "fd"))?.count(),
        threads: std::fs::read_dir(of_process(id, "task"))?.count(),
    };
    let stopping = Instant::now();
    let ended = process.terminate(GIVE_UP).await?;
    if !ended.success() {
        bail!("it ended with {ended}: {}", process.errors());
    }
    let stopped = process.count("stopped");
    ensure!(stopped == arguments.elections, "{stopped} elections were left");
    if arguments.json {
        println!("{}", course.to_json());
    } else {
        print!("{}", course.to_table());
        println!("all were left within {:.1} s", stopping.elapsed().as_secs_f64());
        println!("load of the machine: {before} before, {} after", load());
    }
    Ok(if course.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn content(arguments: &Arguments, group: &Group, webhook: &str) -> Result<String> {
    let (container, _) = group.election.split_once('/').context("an election has a slash")?;
    let every = &arguments.every;
    let mut content =
        format!("log = \"json\"\nlog-level = \"debug\"\nevery = \"{every}\"\nname = \"one\"\n");
    for number in 0..arguments.elections {
        let election = format!("{container}/{number}");
        write!(content, "[[election]]\nelection = \"{election}\"\nwebhook = \"{webhook}\"\n")?;
    }
    Ok(content)
}

/// The elections that have a leader by the end of these lines.
fn led(lines: &[Line]) -> BTreeSet<String> {
    let mut led = BTreeSet::new();
    for line in lines {
        let election = line.event["election"].as_str().unwrap_or_default();
        match line.name() {
            "elected" => drop(led.insert(election.to_owned())),
            "stood-down" => drop(led.remove(election)),
            _ => {}
        }
    }
    led
}

#[derive(Default)]
struct Counts {
    renewals: usize,
    turns: usize,
    lost: usize,
    /// By class.
    problems: BTreeMap<String, usize>,
}

fn counts(lines: &[Line]) -> Counts {
    let mut counts = Counts::default();
    for line in lines {
        match line.name() {
            "renewed" => counts.renewals += 1,
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

struct Course {
    elections: usize,
    /// From the start of the process on.
    all_led: Duration,
    counts: Counts,
    led: usize,
    lost_at_the_start: usize,
    /// Processors that were busy for it, on average.
    processor: f64,
    memory: u64,
    descriptors: usize,
    threads: usize,
}

impl Course {
    fn is_good(&self) -> bool {
        let failures = self.counts.problems.get("component").copied().unwrap_or_default();
        self.counts.lost + self.lost_at_the_start + failures == 0 && self.led == self.elections
    }

    fn to_json(&self) -> serde_json::Value {
        json!({
            "elections": self.elections,
            "all_led_after_ms": u64::try_from(self.all_led.as_millis()).unwrap_or(u64::MAX),
            "leaderships_lost": self.counts.lost,
            "lost_at_the_start": self.lost_at_the_start,
            "problems": self.counts.problems,
            "renewals": self.counts.renewals,
            "turns": self.counts.turns,
            "processors": self.processor,
            "peak_memory": self.memory,
            "descriptors": self.descriptors,
            "threads": self.threads,
        })
    }

    fn to_table(&self) -> Table {
        let mut table = Table::new(&["elections in one process", &self.elections.to_string()]);
        let mut row = |what: &str, value: String| table.row([what.to_owned(), value]);
        row("all led after", format!("{:.1} s", self.all_led.as_secs_f64()));
        row("leaderships lost", self.counts.lost.to_string());
        row("lost before all were led", self.lost_at_the_start.to_string());
        for (class, count) in &self.counts.problems {
            row(&format!("problems: {class}"), count.to_string());
        }
        row("renewals", self.counts.renewals.to_string());
        row("turns", self.counts.turns.to_string());
        row("processors", format!("{:.2}", self.processor));
        row("memory at most", format!("{} MiB", self.memory / (1024 * 1024)));
        row("descriptors", self.descriptors.to_string());
        row("threads", self.threads.to_string());
        table
    }
}

fn of_process(id: Pid, what: &str) -> impl AsRef<Path> {
    format!("/proc/{}/{what}", id.as_raw_nonzero())
}
