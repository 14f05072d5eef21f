//! Measures the time from the start of `tenure run` to its first requests at the store, with and
//! without the compiled components in the cache.
//!
//! ```text
//! cargo bench -p tenure-tests --bench start [-- --json]
//! ```

use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use chrono::Utc;
use serde_json::json;
use tenure_store::{Account, Now, OperationKind, Service, Store};
use tenure_tests::BEAT_HANDLER;
use tenure_tests::measure::{Spread, Table, load};
use tokio::runtime::Builder;

const PROGRAM: &str = env!("CARGO_BIN_EXE_tenure-under-test");

/// Bound for the acquire, the first request about a lease, with a warm cache.
const BOUND: Duration = Duration::from_millis(50);

const TIMEOUT: Duration = Duration::from_secs(60);

/// The times of one start.
struct Start {
    /// When the store handled the first request, a lookup.
    first_request: Duration,
    /// When it handled the acquire. Container and blob were created in between.
    acquire: Duration,
}

fn main() -> Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().collect();
    let has_flag = |name: &str| arguments.iter().any(|argument| argument == name);
    // `cargo test --benches` only checks that it runs.
    let starts: usize = if has_flag("--bench") { 30 } else { 1 };

    let before = load();
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let (warm, cold) = runtime.block_on(async {
        let bench = Bench::new().await?;
        let cache = tempfile::tempdir()?;
        bench.start(cache.path()).await?;
        let (mut warm, mut cold) = (Vec::new(), Vec::new());
        for _ in 0..starts {
            warm.push(bench.start(cache.path()).await?);
        }
        for _ in 0..starts.div_ceil(3) {
            cold.push(bench.start(tempfile::tempdir()?.path()).await?);
        }
        anyhow::Ok((warm, cold))
    })?;

    let spread = |runs: &[Start], select: fn(&Start) -> Duration| {
        runs.iter().map(select).collect::<Spread>()
    };
    let rows = [
        ("warm cache, first request", spread(&warm, |start| start.first_request)),
        ("warm cache, acquire", spread(&warm, |start| start.acquire)),
        ("empty cache, first request", spread(&cold, |start| start.first_request)),
        ("empty cache, acquire", spread(&cold, |start| start.acquire)),
    ];
    let median = rows[1].1.median();
    let met = median <= BOUND;
    if has_flag("--json") {
        let rows: Vec<_> = rows
            .iter()
            .map(|(name, spread)| json!({ "what": name, "s": spread.to_json() }))
            .collect();
        println!("{}", json!({ "load_before": before, "load_after": load(), "rows": rows }));
    } else {
        let mut table = Table::new(&["from exec to", "n", "min", "p50", "p90", "max"]);
        let millis = |duration: Duration| format!("{:.1} ms", duration.as_secs_f64() * 1e3);
        for (name, spread) in &rows {
            let cells = [0.0, 0.5, 0.9, 1.0].map(|share| millis(spread.quantile(share)));
            let cells = [name.to_string(), spread.len().to_string()].into_iter().chain(cells);
            table.row(cells);
        }
        let verdict = if met { "met" } else { "MISSED" };
        print!("{table}\nbound for the acquire, warm, median: {BOUND:?}: {verdict}\n");
        println!("load of the machine: {before} before, {} after", load());
    }
    Ok(if met || starts == 1 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A store with a known clock, so its requests can be timed.
struct Bench {
    store: Store,
    origin: Instant,
}

impl Bench {
    async fn new() -> Result<Self> {
        let origin = Instant::now();
        let clock = Arc::new(move || Now { elapsed: origin.elapsed(), wall: Utc::now() });
        let service = Service::new(vec![Account::emulator()], 1);
        let store = Store::start_with_clock(clock, ([127, 0, 0, 1], 0).into(), service).await?;
        Ok(Self { store, origin })
    }

    async fn start(&self, cache: &Path) -> Result<Start> {
        let handled = self.store.with(|service| service.log().total()) as usize;
        let election = format!("bench-{}/leader", uuid::Uuid::new_v4().simple());
        let mut command = Command::new(PROGRAM);
        command
            .args(["run", "--log", "json", &election, "--name", "bench"])
            .args(["--every", "1h", "--handler", BEAT_HANDLER])
            .env("TENURE_CACHE_DIR", cache)
            .env("AZURE_STORAGE_CONNECTION_STRING", self.store.connection_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let started_at = self.origin.elapsed();
        let _child = ChildGuard(command.spawn().context("it cannot be started")?);
        let acquired = |service: &mut Service| {
            let mut entries = service.log().entries().skip(handled);
            let first_request = entries.next()?.at;
            let acquire = entries.find(|entry| entry.operation == OperationKind::Acquire)?.at;
            Some(Start { first_request: first_request - started_at, acquire: acquire - started_at })
        };
        while self.origin.elapsed() < started_at + TIMEOUT {
            if let Some(start) = self.store.with(acquired) {
                return Ok(start);
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        bail!("no acquire within {TIMEOUT:?}")
    }
}

/// A process that is killed when this is dropped.
struct ChildGuard(Child);

impl Drop for ChildGuard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
