//! What a candidate costs: its requests, counted at the store, its processor time and its memory. A leader and a
//! follower each, with timers of different lengths, and with failover before the lease ends; and beside them the loop of
//! Azure's SDK for Rust, which renews a lease every 5 s, and one that polls every 3 s.
//!
//! ```text
//! cargo run -p tenure-tests --release --bin budget -- [--seconds 300] [--json]
//! ```

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use chrono::Utc;
use clap::Parser;
use serde_json::json;
use tenure_store::{Account, Clock, Now, Service, Verb, serve_by};
use tenure_tests::measure::{Table, load};
use tenure_tests::{Access, BEAT_HANDLER, Candidate, Group, Holder, Rhythm, Sink};
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};

const SOON: Duration = Duration::from_secs(30);

/// The timers, and what candidates are told beside them. Turns are short, so that every slot has one.
const ELECTIONS: [(&str, &[&str]); 5] = [
    ("5s", &[]),
    ("1m", &[]),
    ("24h", &[]),
    ("1m", &["--failover", "10s"]),
    ("1m", &["--failover", "3s"]),
];

/// As the SDK's loop is measured.
const RENEW: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_secs(3);

#[derive(Parser)]
#[command(about = "Counts the requests and the processor time of a leader and of a follower")]
struct Arguments {
    /// How long to count: a multiple of five minutes, so that every timer has its share
    #[arg(long, default_value_t = 300)]
    seconds: u64,
    /// One JSON object instead of a table
    #[arg(long)]
    json: bool,
}

fn main() -> Result<std::process::ExitCode> {
    // The candidates are this program too: it is the only one that is surely built.
    if std::env::args().nth(1).is_some_and(|first| first == "run") {
        return Ok(tenure_cli::main());
    }
    let arguments = Arguments::parse();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(count(&arguments))?;
    Ok(std::process::ExitCode::SUCCESS)
}

async fn count(arguments: &Arguments) -> Result<()> {
    let (before, sink) = (load(), Sink::start().await?);
    let mut store = CountingStore::new();
    let mut roles = Vec::new();
    for (number, (every, more)) in ELECTIONS.into_iter().enumerate() {
        let group = Group {
            program: std::env::current_exe()?,
            connection_string: String::new(),
            access: Access::default(),
            election: format!("budget-{number}/leader"),
            sink: sink.host(),
            timer: ["--every", every],
            turn_ms: 500,
            patient: false,
        };
        let settings = [&["--every", every], more].concat().join(" ");
        let leader = store.join(&group, &format!("leader, {settings}"), more).await?;
        wait_for(&leader, "elected").await?;
        let follower = store.join(&group, &format!("follower, {settings}"), more).await?;
        wait_for(&follower, "following").await?;
        roles.extend([leader, follower]);
    }
    let mut rivals = Vec::new();
    for (name, led, followed) in
        [("the SDK's loop, leader", 1, 0), ("the SDK's loop, follower", 0, 1)]
    {
        let origin = format!("http://{}", store.door().await?);
        let rhythm = Rhythm { led, renew: RENEW, followed, poll: POLL };
        let container = format!("rival-{}", rivals.len());
        rivals.push((name, Holder::start(&origin, &container, rhythm).await?));
    }
    let winning = store.requests(Duration::ZERO)?;
    let from = store.origin.elapsed();
    let times = || {
        let rivals = rivals.iter().map(|(_, rival)| rival.processor_time());
        roles.iter().map(Candidate::processor_time).chain(rivals).collect::<Result<Vec<_>>>()
    };
    let used = times()?;
    sleep(Duration::from_secs(arguments.seconds)).await;
    let used: Vec<_> = times()?.iter().zip(used).map(|(now, before)| *now - before).collect();
    let holding = store.requests(from)?;
    for candidate in &roles {
        let calm = candidate.count("stood-down") == 0 && candidate.count("problem") == 0;
        ensure!(calm, "it was no calm time:\n{}", candidate.transcript());
    }

    let memory = rivals.iter().map(|(_, rival)| rival.peak_memory());
    let memory: Vec<u64> =
        roles.iter().map(Candidate::peak_memory).chain(memory).collect::<Result<_>>()?;
    let names = roles.iter().map(|role| role.name.as_str());
    let names: Vec<&str> = names.chain(rivals.iter().map(|(name, _)| *name)).collect();

    let hour = 3600.0 / arguments.seconds as f64;
    let per_hour = |verbs: &BTreeMap<Verb, u64>| -> BTreeMap<&str, f64> {
        verbs.iter().map(|(verb, count)| (verb.name(), *count as f64 * hour)).collect()
    };
    let per_minute = |used: Duration| used.mul_f64(60.0 / arguments.seconds as f64);
    if arguments.json {
        let roles = names.iter().zip(&holding).zip(&winning).zip(&used).zip(&memory);
        let roles: BTreeMap<_, _> = roles
            .map(|((((name, holding), winning), used), memory)| {
                let first: u64 = winning.values().sum();
                let seconds = per_minute(*used).as_secs_f64();
                let cost = json!({
                    "per_hour": per_hour(holding), "first_seconds": first,
                    "processor_seconds_per_minute": seconds, "peak_memory": memory,
                });
                (name, cost)
            })
            .collect();
        println!("{}", json!({ "seconds": arguments.seconds, "candidates": roles }));
        return Ok(());
    }
    let verbs: Vec<Verb> = holding.iter().flat_map(BTreeMap::keys).copied().collect();
    let verbs: std::collections::BTreeSet<Verb> = verbs.into_iter().collect();
    let mut headings = vec!["requests per hour"];
    headings.extend(verbs.iter().map(|verb| verb.name()));
    headings.extend(["all", "processor time per minute", "memory"]);
    let mut table = Table::new(&headings);
    for (((name, counts), used), memory) in names.iter().zip(&holding).zip(used).zip(memory) {
        let hourly = per_hour(counts);
        let cells = verbs.iter().map(|verb| hourly.get(verb.name()).copied().unwrap_or(0.0));
        let cells = cells.chain([hourly.values().sum()]).map(|count| format!("{count:.0}"));
        let used = format!("{:.1} ms", per_minute(used).as_secs_f64() * 1e3);
        let memory = format!("{} MiB", memory / (1024 * 1024));
        table.row([(*name).to_owned()].into_iter().chain(cells).chain([used, memory]));
    }
    println!("Counted for {} s at the embedded store\n\n{table}", arguments.seconds);
    for (name, counts) in names.iter().zip(&winning) {
        let told = counts.iter().map(|(verb, count)| format!("{count} {verb}"));
        println!("{name} began with: {}", told.collect::<Vec<_>>().join(", "));
    }
    println!("load of the machine: {before} before, {} after", load());
    Ok(())
}

async fn wait_for(candidate: &Candidate, event: &str) -> Result<()> {
    let waited = timeout(SOON, candidate.event(event, 2 * SOON)).await;
    waited.with_context(|| format!("{}: not {event}", candidate.name))?;
    Ok(())
}

/// One service with a door for each candidate, so that it knows who asks.
struct CountingStore {
    service: Arc<Mutex<Service>>,
    /// The door through which each request of the service's log came: the clock of a door is
    /// called once for each request, in their order.
    doors: Arc<Mutex<Vec<usize>>>,
    origin: Instant,
    count: usize,
}

impl CountingStore {
    fn new() -> Self {
        let service = Service::new(vec![Account::emulator()], 1);
        let service = Arc::new(Mutex::new(service));
        Self { service, doors: Arc::default(), origin: Instant::now(), count: 0 }
    }

    /// Starts a candidate behind a door of its own.
    async fn join(&mut self, group: &Group, name: &str, more: &[&str]) -> Result<Candidate> {
        let access = Access::with(Account::emulator().connection_string(self.door().await?));
        group.start_with(name, &access, Path::new(BEAT_HANDLER), more)
    }

    /// Opens another door.
    async fn door(&mut self) -> Result<SocketAddr> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (door, doors, origin) = (self.count, Arc::clone(&self.doors), self.origin);
        self.count += 1;
        let clock: Clock = Arc::new(move || {
            doors.lock().unwrap_or_else(PoisonError::into_inner).push(door);
            Now { elapsed: origin.elapsed(), wall: Utc::now() }
        });
        let service = Arc::clone(&self.service);
        tokio::spawn(serve_by(clock, listener, service, std::future::pending()));
        Ok(address)
    }

    /// Counts by door what came since `from`.
    fn requests(&self, from: Duration) -> Result<Vec<BTreeMap<Verb, u64>>> {
        let service = self.service.lock().unwrap_or_else(PoisonError::into_inner);
        let doors = self.doors.lock().unwrap_or_else(PoisonError::into_inner);
        let log = service.log();
        ensure!(log.entries().count() == doors.len(), "the store forgot its oldest requests");
        let mut counts = vec![BTreeMap::new(); self.count];
        for (entry, &door) in log.entries().zip(doors.iter()).filter(|(entry, _)| entry.at >= from)
        {
            *counts[door].entry(entry.verb).or_default() += 1;
        }
        Ok(counts)
    }
}
