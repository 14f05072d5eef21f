//! Measures the library `tenure` beside the lease loop of Azure's SDK for Rust and a raw client.
//! Each is a process that holds leases of 15 s. All run at the same time against one store.
//!
//! ```text
//! cargo run -p tenure-tests --release --bin library -- [--elections 1,1000] [--seconds 300]
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use tenure_store::{Entry, OperationKind, Store};
use tenure_tests::measure::{Table, load, watch_requests};
use tenure_tests::{Holder, HolderClient, Workload};
use tokio::process::Command;

/// Default interval of a candidate.
const RENEW_INTERVAL: Duration = Duration::from_secs(4);

#[derive(Parser)]
#[command(about = "Measures the library beside Azure's SDK and a raw client")]
struct Arguments {
    /// Numbers of elections of a process
    #[arg(long, value_delimiter = ',', default_values_t = [1, 1000])]
    elections: Vec<usize>,
    /// Time to measure in seconds, for each number of elections
    #[arg(long, default_value_t = 300)]
    seconds: u64,
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let program = build_library_program()?;
    let mut table = Table::new(&[
        "elections",
        "client",
        "renewals",
        "processor time a minute",
        "per renewal",
        "to the SDK's",
        "memory at most",
    ]);
    let load_before = load();
    for count in arguments.elections {
        measure(count, Duration::from_secs(arguments.seconds), &program, &mut table).await?;
    }
    print!("{table}");
    println!("load of the machine: {load_before} before, {} after", load());
    Ok(())
}

/// Builds a program with the library alone, optimised.
fn build_library_program() -> Result<PathBuf> {
    let target =
        std::env::current_exe()?.ancestors().nth(2).context("not built by cargo")?.to_owned();
    let mut cargo = std::process::Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--locked", "--release", "--package=tenure"]);
    cargo.args(["--example=elections", "--target-dir"]).arg(&target);
    let status = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status()?;
    ensure!(status.success(), "the example does not build");
    Ok(target.join("release/examples/elections"))
}

async fn measure(count: usize, time: Duration, program: &Path, table: &mut Table) -> Result<()> {
    let store = tenure_store::run(([127, 0, 0, 1], 0).into(), Vec::new()).await?;
    let origin = format!("http://{}", store.address());
    let workload = Workload {
        held_leases: count,
        renew_interval: RENEW_INTERVAL,
        polled_leases: 0,
        poll_interval: RENEW_INTERVAL,
    };
    let mut library = Command::new(program);
    library.args(["library", &count.to_string()]);
    library.env("AZURE_STORAGE_CONNECTION_STRING", store.connection_string());
    let holders = [
        ("library", Holder::spawn(library).await?),
        ("sdk", Holder::start(HolderClient::Sdk, &origin, "sdk", workload).await?),
        ("raw", Holder::start(HolderClient::Raw, &origin, "raw", workload).await?),
    ];
    let mut before = Vec::new();
    for (_, holder) in &holders {
        before.push(holder.processor_time()?);
    }
    let renewals = count_renewals(&store, time).await;
    let mut rows = Vec::new();
    for ((name, holder), before) in holders.iter().zip(before) {
        let renewals = renewals.get(*name).copied().unwrap_or_default();
        let used = holder.processor_time()?.saturating_sub(before);
        ensure!(renewals > 0, "{name} renewed no lease");
        rows.push((name, renewals, used.as_secs_f64(), holder.peak_memory()?));
    }
    let per_renewal = |(_, renewals, used, _): &(_, u32, f64, _)| used / f64::from(*renewals);
    let reference = per_renewal(&rows[1]);
    for row in &rows {
        let (name, renewals, used, memory) = row;
        table.row([
            count.to_string(),
            (**name).to_owned(),
            renewals.to_string(),
            format!("{:.1} ms", used * 1e3 * 60.0 / time.as_secs_f64()),
            format!("{:.0} µs", per_renewal(row) * 1e6),
            format!("{:.2}", per_renewal(row) / reference),
            format!("{:.1} MiB", *memory as f64 / f64::from(1 << 20)),
        ]);
    }
    Ok(())
}

/// Counts the renewals that the store receives in this time, by container.
async fn count_renewals(store: &Store, time: Duration) -> BTreeMap<String, u32> {
    let mut renewals = BTreeMap::new();
    let count = |entry: &Entry| {
        if entry.operation == OperationKind::Renew {
            *renewals.entry(entry.container.clone()).or_default() += 1;
        }
    };
    watch_requests(store, time, count).await;
    renewals
}
