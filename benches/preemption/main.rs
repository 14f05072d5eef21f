//! Measures how late a non-terminating handler is stopped: its last instruction, the end of its
//! turn, and its last request. Runs under the real runner, on an idle machine and with one busy
//! thread per processor.
//!
//! ```text
//! cargo bench -p tenure-tests --bench preemption [-- --json]
//! ```

mod script;
mod sink;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use script::{Stage, Turn};
use serde_json::json;
use sink::Sink;
use tenure_clock::BootClock;
use tenure_tests::measure::{Spread, Table, load};
use tokio::runtime::Builder;

/// Bound for the 99th percentile on an idle machine.
const USUAL_BOUND: Duration = Duration::from_millis(5);

/// Bound for the maximum: the slack that the protocol gives to preemption.
const MAX_BOUND: Duration = Duration::from_millis(20);

/// The mode of the handler, the measured quantity, and its value in a turn.
type Case = (&'static str, &'static str, fn(&Turn) -> Duration);

const CASES: [Case; 4] = [
    ("spin-clock", "last instruction", |turn| turn.last_reading),
    ("spin", "end of a turn that computes", |turn| turn.end),
    ("wait", "end of a turn that waits", |turn| turn.end),
    ("requests", "last request", |turn| turn.last_request),
];

fn main() -> Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().collect();
    let has_flag = |name: &str| arguments.iter().any(|argument| argument == name);
    // `cargo test --benches` only checks that it runs.
    let deadlines = if has_flag("--bench") { 200 } else { 2 };

    let clock = BootClock::new();
    let sink = Sink::start(clock.clone())?;
    // Same as in the program.
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut rows = Vec::new();
    for busy in [false, true] {
        for (mode, case, lateness) in CASES {
            let stage = Stage::new(&clock, mode, &sink)?;
            let before = load();
            let _load = busy.then(Load::start);
            let turns = runtime.block_on(stage.turns(deadlines))?;
            rows.push(Row {
                case,
                busy,
                lateness: turns.iter().map(lateness).collect(),
                unchecked: turns.iter().map(|turn| turn.requests.saturating_sub(1)).sum(),
                load: before,
            });
            eprintln!("{}", rows.last().map(|row| row.to_json().to_string()).unwrap_or_default());
        }
    }
    let missed = rows.iter().any(Row::is_missed);
    if has_flag("--json") {
        let rows: Vec<_> = rows.iter().map(Row::to_json).collect();
        println!("{}", json!({ "load_after": load(), "rows": rows }));
    } else {
        print(&rows);
    }
    Ok(if missed && has_flag("--bench") { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The results for one kind of turn.
struct Row {
    case: &'static str,
    busy: bool,
    /// Time after the deadline; zero if it was before.
    lateness: Spread,
    /// Requests that arrived after the deadline although no earlier request was in flight.
    unchecked: usize,
    /// Load of the machine before the measurement.
    load: String,
}

impl Row {
    fn is_missed(&self) -> bool {
        let late = self.lateness.quantile(0.99) > USUAL_BOUND || self.lateness.max() > MAX_BOUND;
        self.unchecked > 0 || (late && !self.busy)
    }

    fn to_json(&self) -> serde_json::Value {
        json!({
            "what": self.case, "busy": self.busy, "s": self.lateness.to_json(),
            "unchecked": self.unchecked, "load_before": self.load,
        })
    }
}

fn print(rows: &[Row]) {
    let headings = ["after the deadline", "machine", "n", "p50", "p99", "max", "unchecked", "load"];
    let mut table = Table::new(&headings);
    for row in rows {
        let machine = if row.busy { "busy" } else { "idle" };
        let millis = |share| format!("{:.2} ms", row.lateness.quantile(share).as_secs_f64() * 1e3);
        let mut cells =
            vec![row.case.to_owned(), machine.to_owned(), row.lateness.len().to_string()];
        cells.extend([0.5, 0.99, 1.0].map(millis));
        cells.extend([row.unchecked.to_string(), row.load.clone()]);
        table.row(cells);
    }
    print!("{table}");
    println!(
        "bounds while idle: p99 {USUAL_BOUND:?}, max {MAX_BOUND:?}; always: no unchecked request"
    );
    let missed = rows.iter().filter(|row| row.is_missed());
    match missed.map(|row| row.case).collect::<Vec<_>>().as_slice() {
        [] => println!("all met; load of the machine after: {}", load()),
        missed => println!("MISSED: {}; load of the machine after: {}", missed.join(", "), load()),
    }
}

/// One busy thread per processor, until it is dropped.
struct Load {
    stopped: Arc<AtomicBool>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Load {
    fn start() -> Self {
        let stopped = Arc::new(AtomicBool::new(false));
        let count = thread::available_parallelism().map_or(1, usize::from);
        let spin = || {
            let stopped = stopped.clone();
            thread::spawn(move || {
                while !stopped.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
        };
        let threads = (0..count).map(|_| spin()).collect();
        Self { stopped, threads }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
