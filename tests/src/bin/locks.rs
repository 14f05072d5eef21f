//! Many processes contend for one lock on Azurite: the lock never has two holders at once, and each
//! process exits with the documented code.
//!
//! ```text
//! cargo run -p tenure-tests --release --bin locks -- --contenders 200 --acquisitions 2000 [--wait 60s]
//! ```
//!
//! Exits with 1 on a violation.

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use tenure_tests::Store;
use tenure_tests::locks::Scenario;
use tenure_tests::measure::load;

#[derive(Parser)]
#[command(about = "Makes many processes contend for one lock, and kills some of its holders")]
struct Arguments {
    /// Number of concurrent contenders
    #[arg(long, default_value_t = 200)]
    contenders: usize,
    /// Number of acquisitions
    #[arg(long, default_value_t = 2000)]
    acquisitions: usize,
    /// Every how many holders one is killed, frozen or terminated
    #[arg(long, default_value_t = 25)]
    victims: usize,
    /// Maximum wait of each contender
    #[arg(long)]
    wait: Option<String>,
}

fn main() -> Result<ExitCode> {
    tenure::supervisor_main();
    // Contenders run this same program: it is the only one certain to be built.
    if std::env::args().nth(1).is_some_and(|first| first == "lock") {
        return Ok(tenure_cli::main());
    }
    let arguments = Arguments::parse();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(contend(&arguments))
}

async fn contend(arguments: &Arguments) -> Result<ExitCode> {
    let (store, load_before) = (Store::azurite().await?, load());
    let wait = arguments.wait.iter().flat_map(|wait| ["--wait".to_owned(), wait.clone()]);
    let scenario = Scenario {
        program: std::env::current_exe()?,
        connection_string: store.connection_string(),
        election: "locks/one".to_owned(),
        contenders: arguments.contenders,
        acquisitions: arguments.acquisitions,
        victims: arguments.victims,
        options: wait.collect(),
    };
    let result = scenario.run().await?;
    println!(
        "{} acquisitions by {} contenders in {:.0} s, {} of them harmed; load {load_before} before, {} after",
        result.acquisitions,
        arguments.contenders,
        result.elapsed.as_secs_f64(),
        result.harmed,
        load()
    );
    println!("exit codes: {:?}", result.codes);
    let gap_quantile = |share| result.gaps.quantile(share).as_secs_f64();
    println!(
        "from one command to the next: {:.2} s median, {:.2} s p99",
        gap_quantile(0.5),
        gap_quantile(0.99)
    );
    for breach in &result.breaches {
        println!("breach: {breach}");
    }
    Ok(if result.breaches.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
