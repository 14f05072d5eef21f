//! Measures the time without a leader when only a process ends: at SIGTERM, at a transfer order,
//! and at SIGKILL of the leading process, whose supervisor survives. Two candidates with addresses
//! watch each other; all timings are the defaults.
//!
//! ```text
//! cargo run -p tenure-tests --release --bin handover -- --rounds 100 [--store embedded]
//! ```
//!
//! At rest it counts the requests of both candidates for `--rest` seconds.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::{Parser, ValueEnum};
use rustix::process::{Signal, kill_process};
use tenure_tests::measure::{Spread, Table, load};
use tenure_tests::{Access, BEAT_HANDLER, Candidate, Group, Line, Proxy, Sink, Store, operator};
use tokio::time::sleep;

const TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Parser)]
#[command(about = "Measures how long a handover leaves an election without a leader")]
struct Arguments {
    /// Rounds of each kind
    #[arg(long, default_value_t = 100)]
    rounds: usize,
    /// Time to count the requests at rest, in seconds
    #[arg(long, default_value_t = 60)]
    rest: u64,
    /// Store to test with
    #[arg(long, value_enum, default_value_t)]
    store: StoreKind,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum StoreKind {
    #[default]
    Azurite,
    Embedded,
}

fn main() -> Result<ExitCode> {
    // Candidates run this same program: it is the only one certain to be built.
    if std::env::args().nth(1).is_some_and(|first| ["run", "transfer"].contains(&first.as_str())) {
        return Ok(tenure_cli::main());
    }
    let arguments = Arguments::parse();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(measure(&arguments))?;
    Ok(ExitCode::SUCCESS)
}

async fn measure(arguments: &Arguments) -> Result<()> {
    let store = match arguments.store {
        StoreKind::Azurite => Store::azurite().await?,
        StoreKind::Embedded => Store::embedded().await?,
    };
    let program = std::env::current_exe()?;
    let program = program.to_str().context("the program has a strange name")?;
    let (load_before, sink) = (load(), Sink::start().await?);
    let mut group = Group::new(program, &store, &sink);
    // This program does not measure turns.
    group.timer = ["--every", "1h"];
    group.turn_ms = 1;
    group.warm_up().await?;
    let mut pair = LeaderAndFollower::start(group).await?;
    let requests_before = pair.requests();
    sleep(Duration::from_secs(arguments.rest)).await;
    let rest_counts = [0, 1].map(|n| pair.requests()[n] - requests_before[n]);
    let (mut stops, mut transfers, mut kills) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..arguments.rounds {
        stops.push(pair.terminate_leader().await?);
        transfers.push(pair.transfer_leadership().await?);
        kills.push(pair.kill_leader().await?);
    }
    println!(
        "{:?}, {} rounds, load {load_before} before, {} after\n",
        arguments.store,
        arguments.rounds,
        load()
    );
    let mut table = Table::new(&["", "n", "min", "p50", "p90", "p99", "max"]);
    let mut row = |name: String, times: &mut dyn Iterator<Item = Duration>| {
        let spread: Spread = times.collect();
        let cells = [0.0, 0.5, 0.9, 0.99, 1.0]
            .map(|share| format!("{:.1} ms", 1e3 * spread.quantile(share).as_secs_f64()));
        table.row([name, spread.len().to_string()].into_iter().chain(cells));
    };
    for (name, rounds) in [("SIGTERM", &stops), ("transfer", &transfers)] {
        for (label, index) in [("without a leader", 0), ("from the order on", 1)] {
            let mut times = rounds.iter().map(|round: &[Duration; 2]| round[index]);
            row(format!("{name}, {label}"), &mut times);
        }
    }
    row("SIGKILL, from then on".to_owned(), &mut kills.into_iter());
    println!("{table}");
    let minutes = arguments.rest as f64 / 60.0;
    let [leader, follower] = rest_counts.map(|count| count as f64 / minutes);
    println!("at rest: leader {leader:.1}, follower {follower:.1} requests a minute");
    Ok(())
}

/// One leader and one follower.
struct LeaderAndFollower {
    group: Group,
    seats: [Seat; 2],
    leader: usize,
    term: u64,
}

/// Position that successive candidates occupy.
struct Seat {
    name: &'static str,
    listen: String,
    access: Access,
    requests: Arc<AtomicUsize>,
    _proxy: Proxy,
    candidate: Candidate,
    /// Number of log lines that were already read.
    lines_read: usize,
}

impl Seat {
    async fn start(name: &'static str, group: &Group) -> Result<Self> {
        let listen = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
        let requests = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&requests);
        let witness = move |bytes: &[u8]| {
            let count = bytes.windows(9).filter(|window| *window == b" HTTP/1.1").count();
            counter.fetch_add(count, Ordering::Relaxed);
        };
        let (proxy, proxied_connection) =
            Proxy::for_store_with_witness(&group.connection_string, witness).await?;
        let access = Access::from_connection_string(proxied_connection);
        let candidate = start_candidate(name, &listen, group, &access)?;
        Ok(Self { name, listen, access, requests, _proxy: proxy, candidate, lines_read: 0 })
    }

    async fn event(&mut self, name: &str, min_term: u64) -> Result<Line> {
        let matches = |line: &Line| line.name() == name && line.term() > min_term;
        let line = self.candidate.line_within(self.lines_read, TIMEOUT, matches).await;
        line.with_context(|| format!("no {name}:\n{}", self.candidate.transcript()))
    }
}

fn start_candidate(name: &str, listen: &str, group: &Group, access: &Access) -> Result<Candidate> {
    let address = format!("http://{listen}");
    let options = ["--listen", listen, "--address", &address];
    group.start_with(name, access, BEAT_HANDLER.as_ref(), &options)
}

impl LeaderAndFollower {
    async fn start(group: Group) -> Result<Self> {
        let mut leader = Seat::start("ada", &group).await?;
        let term = leader.event("elected", 0).await?.term();
        let mut follower = Seat::start("ben", &group).await?;
        follower.event("following", term - 1).await?;
        let pair = Self { group, seats: [leader, follower], leader: 0, term };
        sleep(Duration::from_secs(1)).await;
        Ok(pair)
    }

    fn requests(&self) -> [usize; 2] {
        [0, 1].map(|n| self.seats[n].requests.load(Ordering::Relaxed))
    }

    /// Sends SIGTERM. Returns the time without a leader and the time until the next leader.
    async fn terminate_leader(&mut self) -> Result<[Duration; 2]> {
        let old_leader = self.leader;
        let started_at = Instant::now();
        self.seats[old_leader].candidate.signal(Signal::TERM)?;
        let times = self.measure_succession(started_at).await?;
        self.replace(old_leader).await?;
        Ok(times)
    }

    /// Sends SIGKILL to the leading process. Returns the time until the next leader.
    async fn kill_leader(&mut self) -> Result<Duration> {
        let old_leader = self.leader;
        let runner = self.seats[old_leader].candidate.runner()?;
        let started_at = Instant::now();
        kill_process(runner, Signal::KILL)?;
        let elected = self.next_leader().await?;
        self.replace(old_leader).await?;
        Ok(elected.at - started_at)
    }

    /// Waits until a leaving candidate has exited, and starts another in its place.
    async fn replace(&mut self, seat: usize) -> Result<()> {
        let Seat { name, listen, access, candidate, lines_read: read, .. } = &mut self.seats[seat];
        candidate.end(TIMEOUT).await?;
        *candidate = start_candidate(name, listen, &self.group, access)?;
        *read = 0;
        self.wait_until_settled().await
    }

    /// Runs `tenure transfer`. Returns the same durations as `terminate_leader`, from the start of
    /// the command.
    async fn transfer_leadership(&mut self) -> Result<[Duration; 2]> {
        let successor = self.seats[1 - self.leader].name;
        let started_at = Instant::now();
        let arguments = ["transfer", &self.group.election, "--to", successor];
        let (code, output) = operator::run_command(&self.group, &arguments).await?;
        ensure!(code == Some(0), "{output}");
        let times = self.measure_succession(started_at).await?;
        self.wait_until_settled().await?;
        Ok(times)
    }

    async fn measure_succession(&mut self, started_at: Instant) -> Result<[Duration; 2]> {
        let (old_leader, term) = (self.leader, self.term);
        let elected = self.next_leader().await?;
        let stood_down = self.seats[old_leader].event("stood-down", term - 1).await?;
        Ok([elected.at.saturating_duration_since(stood_down.at), elected.at - started_at])
    }

    /// Waits until the other candidate leads.
    async fn next_leader(&mut self) -> Result<Line> {
        let new_leader = 1 - self.leader;
        let elected = self.seats[new_leader].event("elected", self.term).await?;
        (self.leader, self.term) = (new_leader, elected.term());
        Ok(elected)
    }

    /// Waits until the other candidate follows and watches the leader. The wait ends at a random
    /// time between two polls.
    async fn wait_until_settled(&mut self) -> Result<()> {
        let (follower, term) = (1 - self.leader, self.term);
        self.seats[follower].event("following", term - 1).await?;
        for seat in &mut self.seats {
            seat.lines_read = seat.candidate.lines().len();
        }
        let random = u128::from_le_bytes(*uuid::Uuid::new_v4().as_bytes());
        sleep(Duration::from_millis(500 + u64::try_from(random % 1_500)?)).await;
        Ok(())
    }
}
