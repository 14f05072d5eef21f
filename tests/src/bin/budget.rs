//! Measures the cost of a candidate: requests counted at the store, processor time and memory. Each
//! election has a leader and a follower; elections differ in their timers and in failover before
//! the lease expires. For comparison, Azure's SDK for Rust runs a lease loop that renews every 5 s,
//! and one that polls every 3 s.
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
use tenure_store::{Account, Clock, Now, OperationKind, Service, serve_with_clock};
use tenure_tests::measure::{Table, load};
use tenure_tests::{Access, BEAT_HANDLER, Candidate, Group, Holder, HolderClient, Sink, Workload};
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};

const ROLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Timers, and the candidates' other options. Turns are short, so that every slot has one.
const ELECTIONS: [(&str, &[&str]); 5] = [
    ("5s", &[]),
    ("1m", &[]),
    ("24h", &[]),
    ("1m", &["--failover", "10s"]),
    ("1m", &["--failover", "3s"]),
];

/// Interval at which the SDK's loop is measured.
const RENEW_INTERVAL: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_secs(3);

#[derive(Parser)]
#[command(about = "Counts the requests and the processor time of a leader and of a follower")]
struct Arguments {
    /// Time to count in seconds: a multiple of five minutes, so that every timer fires equally
    /// often
    #[arg(long, default_value_t = 300)]
    seconds: u64,
    /// Prints one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

fn main() -> Result<std::process::ExitCode> {
    // Candidates run this same program: it is the only one certain to be built.
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
    let (load_before, sink) = (load(), Sink::start().await?);
    let mut store = CountingStore::new();
    let mut roles = Vec::new();
    for (number, (every, options)) in ELECTIONS.into_iter().enumerate() {
        let group = Group {
            program: std::env::current_exe()?,
            connection_string: String::new(),
            access: Access::default(),
            election: format!("budget-{number}/leader"),
            sink: sink.host(),
            timer: ["--every", every],
            turn_ms: 500,
            patient_timings: false,
        };
        let settings = [&["--every", every], options].concat().join(" ");
        let leader = store.start_candidate(&group, &format!("leader, {settings}"), options).await?;
        wait_for(&leader, "elected").await?;
        let follower =
            store.start_candidate(&group, &format!("follower, {settings}"), options).await?;
        wait_for(&follower, "following").await?;
        roles.extend([leader, follower]);
    }
    let mut sdk_holders = Vec::new();
    for (name, leases_held, leases_polled) in
        [("the SDK's loop, leader", 1, 0), ("the SDK's loop, follower", 0, 1)]
    {
        let origin = format!("http://{}", store.add_listener().await?);
        let workload = Workload {
            held_leases: leases_held,
            renew_interval: RENEW_INTERVAL,
            polled_leases: leases_polled,
            poll_interval: POLL_INTERVAL,
        };
        let container = format!("rival-{}", sdk_holders.len());
        sdk_holders
            .push((name, Holder::start(HolderClient::Sdk, &origin, &container, workload).await?));
    }
    let startup_requests = store.requests_since(Duration::ZERO)?;
    let measured_from = store.origin.elapsed();
    let read_processor_times = || {
        let sdk_holders = sdk_holders.iter().map(|(_, sdk_holder)| sdk_holder.processor_time());
        roles.iter().map(Candidate::processor_time).chain(sdk_holders).collect::<Result<Vec<_>>>()
    };
    let processor_times = read_processor_times()?;
    sleep(Duration::from_secs(arguments.seconds)).await;
    let processor_times: Vec<_> = read_processor_times()?
        .iter()
        .zip(processor_times)
        .map(|(now, before)| *now - before)
        .collect();
    let steady_requests = store.requests_since(measured_from)?;
    for candidate in &roles {
        let is_calm = candidate.count("stood-down") == 0 && candidate.count("problem") == 0;
        ensure!(is_calm, "it was no calm time:\n{}", candidate.transcript());
    }

    let memory = sdk_holders.iter().map(|(_, sdk_holder)| sdk_holder.peak_memory());
    let memory: Vec<u64> =
        roles.iter().map(Candidate::peak_memory).chain(memory).collect::<Result<_>>()?;
    let names = roles.iter().map(|role| role.name.as_str());
    let names: Vec<&str> = names.chain(sdk_holders.iter().map(|(name, _)| *name)).collect();

    let per_hour_factor = 3600.0 / arguments.seconds as f64;
    let per_hour = |operations: &BTreeMap<OperationKind, u64>| -> BTreeMap<&str, f64> {
        operations
            .iter()
            .map(|(operation, count)| (operation.name(), *count as f64 * per_hour_factor))
            .collect()
    };
    let per_minute =
        |processor_time: Duration| processor_time.mul_f64(60.0 / arguments.seconds as f64);
    if arguments.json {
        let roles = names
            .iter()
            .zip(&steady_requests)
            .zip(&startup_requests)
            .zip(&processor_times)
            .zip(&memory);
        let roles: BTreeMap<_, _> = roles
            .map(|((((name, steady_requests), startup_requests), processor_time), memory)| {
                let first: u64 = startup_requests.values().sum();
                let seconds = per_minute(*processor_time).as_secs_f64();
                let cost = json!({
                    "per_hour": per_hour(steady_requests), "first_seconds": first,
                    "processor_seconds_per_minute": seconds, "peak_memory": memory,
                });
                (name, cost)
            })
            .collect();
        println!("{}", json!({ "seconds": arguments.seconds, "candidates": roles }));
        return Ok(());
    }
    let operations: Vec<OperationKind> =
        steady_requests.iter().flat_map(BTreeMap::keys).copied().collect();
    let operations: std::collections::BTreeSet<OperationKind> = operations.into_iter().collect();
    let mut headings = vec!["requests per hour"];
    headings.extend(operations.iter().map(|operation| operation.name()));
    headings.extend(["all", "processor time per minute", "memory"]);
    let mut table = Table::new(&headings);
    for (((name, counts), processor_times), memory) in
        names.iter().zip(&steady_requests).zip(processor_times).zip(memory)
    {
        let hourly = per_hour(counts);
        let cells =
            operations.iter().map(|operation| hourly.get(operation.name()).copied().unwrap_or(0.0));
        let cells = cells.chain([hourly.values().sum()]).map(|count| format!("{count:.0}"));
        let used = format!("{:.1} ms", per_minute(processor_times).as_secs_f64() * 1e3);
        let memory = format!("{} MiB", memory / (1024 * 1024));
        table.row([(*name).to_owned()].into_iter().chain(cells).chain([used, memory]));
    }
    println!("Counted for {} s at the embedded store\n\n{table}", arguments.seconds);
    for (name, counts) in names.iter().zip(&startup_requests) {
        let summary = counts.iter().map(|(operation, count)| format!("{count} {operation}"));
        println!("{name} began with: {}", summary.collect::<Vec<_>>().join(", "));
    }
    println!("load of the machine: {load_before} before, {} after", load());
    Ok(())
}

async fn wait_for(candidate: &Candidate, event: &str) -> Result<()> {
    let result = timeout(ROLE_TIMEOUT, candidate.event(event, 2 * ROLE_TIMEOUT)).await;
    result.with_context(|| format!("{}: not {event}", candidate.name))?;
    Ok(())
}

/// One service with a listener for each candidate, which identifies the sender of a request.
struct CountingStore {
    service: Arc<Mutex<Service>>,
    /// Listener of each request in the service's log: the clock of a listener is called once for
    /// each request, in order.
    request_listeners: Arc<Mutex<Vec<usize>>>,
    origin: Instant,
    listener_count: usize,
}

impl CountingStore {
    fn new() -> Self {
        let service = Service::new(vec![Account::emulator()], 1);
        let service = Arc::new(Mutex::new(service));
        Self {
            service,
            request_listeners: Arc::default(),
            origin: Instant::now(),
            listener_count: 0,
        }
    }

    /// Starts a candidate with its own listener.
    async fn start_candidate(
        &mut self,
        group: &Group,
        name: &str,
        options: &[&str],
    ) -> Result<Candidate> {
        let access = Access::from_connection_string(
            Account::emulator().connection_string(self.add_listener().await?),
        );
        group.start_with(name, &access, Path::new(BEAT_HANDLER), options)
    }

    /// Opens another listener.
    async fn add_listener(&mut self) -> Result<SocketAddr> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (listener_index, request_listeners, origin) =
            (self.listener_count, Arc::clone(&self.request_listeners), self.origin);
        self.listener_count += 1;
        let clock: Clock = Arc::new(move || {
            request_listeners.lock().unwrap_or_else(PoisonError::into_inner).push(listener_index);
            Now { elapsed: origin.elapsed(), wall: Utc::now() }
        });
        let service = Arc::clone(&self.service);
        tokio::spawn(serve_with_clock(clock, listener, service, std::future::pending()));
        Ok(address)
    }

    /// Counts the requests since `measured_from`, by listener.
    fn requests_since(&self, measured_from: Duration) -> Result<Vec<BTreeMap<OperationKind, u64>>> {
        let service = self.service.lock().unwrap_or_else(PoisonError::into_inner);
        let request_listeners =
            self.request_listeners.lock().unwrap_or_else(PoisonError::into_inner);
        let log = service.log();
        ensure!(
            log.entries().count() == request_listeners.len(),
            "the store forgot its oldest requests"
        );
        let mut counts = vec![BTreeMap::new(); self.listener_count];
        for (entry, &listener_index) in log
            .entries()
            .zip(request_listeners.iter())
            .filter(|(entry, _)| entry.at >= measured_from)
        {
            *counts[listener_index].entry(entry.operation).or_default() += 1;
        }
        Ok(counts)
    }
}
