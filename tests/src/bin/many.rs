//! Many elections in one process: none of them may lose its leader. Half of them are led by another process, and followed by
//! the one that is measured.
//!
//! ```text
//! cargo run -p tenure-tests --release --bin many -- --elections 1000 [--followed 0] [--seconds 120] [--sdk] [--json]
//! ```
//!
//! With `--sdk` the loop of Azure's SDK for Rust has as many leases afterwards, at the same rhythm, so that its processor time
//! and ours are those of one run.
//!
//! Ends with 1 when a leadership was lost, the component failed, or an election was without a leader.

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
use tenure_store::{Store, Verb};
use tenure_tests::measure::{Spread, Table, load};
use tenure_tests::{Access, Candidate, Holder, Line, Rhythm};
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::time::{interval, sleep};

/// Longer than it takes until all of them have begun.
const GIVE_UP: Duration = Duration::from_secs(300);

/// How often candidates renew and poll, by their defaults.
const RENEW: Duration = Duration::from_secs(4);
const POLL: Duration = Duration::from_secs(3);

/// The store remembers its newest ten thousand requests: it is asked before they are forgotten.
const LOOK: Duration = Duration::from_millis(200);

const CONTAINER: &str = "many";

#[derive(Parser)]
#[command(about = "Holds many elections in one process, and counts what goes wrong")]
struct Arguments {
    /// How many
    #[arg(long, default_value_t = 300)]
    elections: usize,
    /// How many of them another process leads; half of them unless it is said
    #[arg(long)]
    followed: Option<usize>,
    /// For how long, once all of them have begun
    #[arg(long, default_value_t = 120)]
    seconds: u64,
    /// The timer of each of them
    #[arg(long, default_value = "30s")]
    every: String,
    /// Has Azure's SDK for Rust do the same afterwards
    #[arg(long)]
    sdk: bool,
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
    let store = tenure_store::run(([127, 0, 0, 1], 0).into(), Vec::new()).await?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let webhook = format!("http://{}/", listener.local_addr()?);
    let take = post(async || StatusCode::NO_CONTENT);
    tokio::spawn(async { axum::serve(listener, Router::new().route("/", take)).await });

    let followed = arguments.followed.unwrap_or(arguments.elections / 2);
    ensure!(followed < arguments.elections, "one election at least has to be led here");
    let stage = Stage {
        folder: tempfile::tempdir()?,
        access: Access::with(store.connection_string()),
        webhook,
        every: &arguments.every,
    };
    let mut others = None;
    if followed > 0 {
        let mut process = stage.start("others", followed)?;
        begun(&mut process, followed, 0).await?;
        others = Some(process);
    }
    let began = Instant::now();
    let mut process = stage.start("many", arguments.elections)?;
    let led = arguments.elections - followed;
    begun(&mut process, led, followed).await?;
    let all_begun = began.elapsed();

    let (from, processor) = (process.lines().len(), process.processor_time()?);
    let renewals = Renewals::watch(&store, Duration::from_secs(arguments.seconds)).await;
    let processor = process.processor_time()?.saturating_sub(processor);
    let (lines, id) = (process.lines(), process.runner()?);
    let mut course = Course {
        led,
        followed,
        all_begun,
        seconds: arguments.seconds,
        counts: counts(&lines[from..]),
        led_at_the_end: leaders(&lines),
        lost_at_the_start: counts(&lines[..from]).lost,
        renewals: renewals.of(followed..arguments.elections),
        processor,
        memory: process.peak_memory()?,
        descriptors: std::fs::read_dir(of_process(id, "fd"))?.count(),
        threads: std::fs::read_dir(of_process(id, "task"))?.count(),
        sdk: None,
    };
    let stopping = Instant::now();
    for process in [Some(&mut process), others.as_mut()].into_iter().flatten() {
        let ended = process.terminate(GIVE_UP).await?;
        ensure!(ended.success(), "{} ended with {ended}: {}", process.name, process.errors());
    }
    let stopped = process.count("stopped");
    ensure!(stopped == arguments.elections, "{stopped} elections were left");
    let stopping = stopping.elapsed();
    if arguments.sdk {
        course.sdk = Some(Rival::measure(&store, led, followed, arguments.seconds).await?);
    }
    if arguments.json {
        println!("{}", course.to_json());
    } else {
        print!("{}", course.to_table());
        println!("all were left within {:.1} s", stopping.as_secs_f64());
        println!("load of the machine: {before} before, {} after", load());
    }
    Ok(if course.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What processes are started with.
struct Stage<'a> {
    folder: tempfile::TempDir,
    access: Access,
    webhook: String,
    every: &'a str,
}

impl Stage<'_> {
    /// Starts a process with the first so many elections.
    fn start(&self, name: &str, elections: usize) -> Result<Candidate> {
        let file = self.file(name, elections)?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("run").arg("--config").arg(file);
        self.access.give(&mut command);
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

/// Waits until a process leads and follows so many.
async fn begun(process: &mut Candidate, led: usize, followed: usize) -> Result<()> {
    let began = Instant::now();
    loop {
        ensure!(process.is_alive(), "it ended: {}", process.errors());
        let lines = process.lines();
        let roles = roles(&lines);
        let leads = roles.values().filter(|role| **role == "elected").count();
        let follows = roles.values().filter(|role| **role == "following").count();
        if leads >= led && follows >= followed {
            return Ok(());
        }
        if began.elapsed() > GIVE_UP {
            let Counts { lost, problems, .. } = counts(&lines);
            bail!(
                "{leads} are led and {follows} followed after {GIVE_UP:?}, with {lost} leaderships lost and these \
                 problems: {problems:?}"
            );
        }
        sleep(Duration::from_secs(1)).await;
    }
}

/// What the candidate of each election is by the end of these lines: the event that told it.
fn roles(lines: &[Line]) -> BTreeMap<&str, &str> {
    let told =
        lines.iter().filter(|line| ["elected", "following", "stood-down"].contains(&line.name()));
    told.map(|line| (line.event["election"].as_str().unwrap_or_default(), line.name())).collect()
}

fn leaders(lines: &[Line]) -> usize {
    roles(lines).values().filter(|role| **role == "elected").count()
}

#[derive(Default)]
struct Counts {
    turns: usize,
    lost: usize,
    /// By class.
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

/// The renewals that the store was asked for, by the blob.
#[derive(Default)]
struct Renewals {
    newest: BTreeMap<String, Duration>,
    count: BTreeMap<String, usize>,
    /// How much later than its period each came. By chance they are due up to an eighth of it sooner, so that less than that
    /// is not seen of how late they are.
    late: Vec<(String, Duration)>,
}

impl Renewals {
    /// Watches the store for so long.
    async fn watch(store: &Store, time: Duration) -> Self {
        let (mut this, until) = (Self::default(), Instant::now() + time);
        let mut seen = store.with(|service| service.log().total());
        let mut look = interval(LOOK);
        while Instant::now() < until {
            look.tick().await;
            store.with(|service| {
                let total = service.log().total();
                let new = usize::try_from(total - seen).unwrap_or(usize::MAX);
                let entries: Vec<_> = service.log().entries().rev().take(new).collect();
                for entry in entries.into_iter().rev().filter(|entry| entry.verb == Verb::Renew) {
                    this.take(&entry.blob, entry.at);
                }
                seen = total;
            });
        }
        this
    }

    fn take(&mut self, blob: &str, at: Duration) {
        *self.count.entry(blob.to_owned()).or_default() += 1;
        if let Some(before) = self.newest.insert(blob.to_owned(), at) {
            let late = at.saturating_sub(before).saturating_sub(RENEW);
            self.late.push((blob.to_owned(), late));
        }
    }

    /// How many there were for these elections, and how late they came.
    fn of(&self, elections: std::ops::Range<usize>) -> (usize, Spread) {
        let ours = |blob: &str| blob.parse().is_ok_and(|number| elections.contains(&number));
        let count = self.count.iter().filter(|(blob, _)| ours(blob)).map(|(_, count)| count).sum();
        let late = self.late.iter().filter(|(blob, _)| ours(blob)).map(|(_, late)| *late);
        (count, late.collect())
    }
}

/// The loop of Azure's SDK for Rust with as many leases.
struct Rival {
    processor: Duration,
    memory: u64,
}

impl Rival {
    async fn measure(store: &Store, led: usize, followed: usize, seconds: u64) -> Result<Self> {
        let origin = format!("http://{}", store.address());
        let rhythm = Rhythm { led, renew: RENEW, followed, poll: POLL };
        let rival = Holder::start(&origin, "rival", rhythm).await?;
        let before = rival.processor_time()?;
        sleep(Duration::from_secs(seconds)).await;
        let processor = rival.processor_time()?.saturating_sub(before);
        Ok(Self { processor, memory: rival.peak_memory()? })
    }
}

struct Course {
    led: usize,
    followed: usize,
    /// From the start of the process on.
    all_begun: Duration,
    seconds: u64,
    counts: Counts,
    led_at_the_end: usize,
    lost_at_the_start: usize,
    renewals: (usize, Spread),
    processor: Duration,
    memory: u64,
    descriptors: usize,
    threads: usize,
    sdk: Option<Rival>,
}

impl Course {
    fn is_good(&self) -> bool {
        let failures = self.counts.problems.get("component").copied().unwrap_or_default();
        let lost = self.counts.lost + self.lost_at_the_start;
        lost + failures == 0 && self.led_at_the_end == self.led
    }

    /// Processor time for each renewal, with all that goes on beside it.
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
            "all_begun_after_ms": u64::try_from(self.all_begun.as_millis()).unwrap_or(u64::MAX),
            "leaderships_lost": self.counts.lost,
            "lost_at_the_start": self.lost_at_the_start,
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
        let all = (self.led + self.followed).to_string();
        let mut table = Table::new(&["elections in one process", &all]);
        let mut row = |what: &str, value: String| table.row([what.to_owned(), value]);
        let milliseconds = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1e3);
        let mebibytes = |bytes: u64| format!("{} MiB", bytes / (1024 * 1024));
        let processors =
            |time: Duration| format!("{:.3}", time.as_secs_f64() / self.seconds as f64);
        let (renewals, late) = &self.renewals;
        row("led, followed", format!("{}, {}", self.led, self.followed));
        row("all begun after", format!("{:.1} s", self.all_begun.as_secs_f64()));
        row("leaderships lost", self.counts.lost.to_string());
        row("lost before all had begun", self.lost_at_the_start.to_string());
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
        if let Some(rival) = &self.sdk {
            let ratio = self.processor.as_secs_f64() / rival.processor.as_secs_f64();
            row("the SDK's loop: processors", processors(rival.processor));
            row("per renewal", milliseconds(self.per_renewal(rival.processor)));
            row("memory at most", mebibytes(rival.memory));
            row("processor time, ours to the SDK's", format!("{ratio:.2}"));
        }
        table
    }
}

fn of_process(id: Pid, what: &str) -> impl AsRef<Path> {
    format!("/proc/{}/{what}", id.as_raw_nonzero())
}
