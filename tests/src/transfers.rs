//! Transfers leadership through the account, while the leading process is killed repeatedly.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Signal, kill_process};
use tenure::engine::{Election, Variables};
use tenure_clock::BootClock;
use tenure_core::{TransferOrder, TransferState, variable};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::operator::current_leader;
use crate::{Candidate, Group, Sink, Store, reserve_port};

/// Longer than any transfer takes.
const TIMEOUT: Duration = crate::PATIENCE;

/// Time in which a running leader obeys or rejects an order.
const OBEY_TIMEOUT: Duration = Duration::from_secs(30);

/// Interval between two polls for the outcome.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

const CANDIDATES: usize = 3;

/// Every how many orders a second operator gives one at the same time.
const TWO_OPERATORS_EVERY: u32 = 7;

/// Every how many orders the leader gets no hint, and every how many the candidate does not exist.
const WITHOUT_HINT_EVERY: u32 = 10;
const MISSING_CANDIDATE_EVERY: u32 = 25;

/// Results of the transfers.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Number of killed leaders.
    pub killed: u32,
    /// Number of orders by outcome.
    pub outcomes: BTreeMap<&'static str, u32>,
    /// Number of leaderships that ended by an order.
    pub resigned_terms: usize,
    /// Orders without effect and outcome, although the leader of their term survived.
    pub lost: Vec<String>,
    /// Terms that ended by resignation without an order for that term.
    pub unordered: Vec<u64>,
    /// Orders that a leader obeyed twice.
    pub repeated: Vec<String>,
    /// Time from an order to its effect, with and without a hint.
    pub durations: [Vec<Duration>; 2],
}

impl Tally {
    /// Returns true if a transfer violated a guarantee.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        !(self.lost.is_empty() && self.unordered.is_empty() && self.repeated.is_empty())
    }
}

/// Orders and kills of a round.
#[derive(Default)]
struct Log {
    terms: BTreeSet<u64>,
    /// Terms whose leader was killed.
    killed: BTreeSet<u64>,
    /// Addresses by seat.
    addresses: Vec<String>,
    tally: Tally,
}

/// Gives `count` orders in sequence, while a leader is killed every `kill_interval`.
///
/// # Errors
/// A process could not be started, or an order could not be placed in time.
pub async fn round(
    program: &str,
    store: &Store,
    count: u32,
    kill_interval: Duration,
) -> Result<Tally> {
    let sink = Sink::start().await?;
    let mut group = Group::new(program, store, &sink);
    group.timer = ["--every", "1s"];
    group.turn_ms = 200;
    group.warm_up().await?;
    let election = election(&group)?;
    let log = Arc::new(Mutex::new(Log::default()));
    let mut seats = Vec::new();
    for seat in 0..CANDIDATES {
        log.lock().unwrap().addresses.push(String::new());
        seats.push(start(&group, seat, 0, &log)?);
    }
    let is_elected = |line: &crate::Line| line.name() == "elected";
    let first: Vec<_> = seats.iter().map(|seat| Box::pin(seat.wait_for_line(is_elected))).collect();
    timeout(TIMEOUT, crate::candidate::first(first)).await.context("nobody leads")?;
    let operator_log = log.clone();
    let mut operators = tokio::spawn(async move {
        let mut number = 1;
        while number <= count {
            let first_order = place_order(&election, number, &operator_log);
            let both_orders = async {
                match number.is_multiple_of(TWO_OPERATORS_EVERY) && number < count {
                    true => tokio::try_join!(
                        first_order,
                        place_order(&election, number + 1, &operator_log)
                    )
                    .map(|_| 2),
                    false => first_order.await.map(|()| 1),
                }
            };
            number += timeout(TIMEOUT, both_orders)
                .await
                .with_context(|| format!("order {number} has no end"))??;
        }
        anyhow::Ok(())
    });
    let mut ended = Vec::new();
    let mut kill_count = 0;
    loop {
        if let Ok(result) = timeout(kill_interval, &mut operators).await {
            result??;
            break;
        }
        let Some(seat) = current_leader(&seats) else { continue };
        let Ok(runner) = seats[seat].runner() else { continue };
        let lines = seats[seat].lines();
        let term = lines.iter().rfind(|line| line.name() == "elected").map(crate::Line::term);
        log.lock().unwrap().killed.extend(term);
        kill_process(runner, Signal::KILL)?;
        kill_count += 1;
        let _ = seats[seat].end(TIMEOUT).await;
        let replacement = start(&group, seat, kill_count, &log)?;
        ended.push(std::mem::replace(&mut seats[seat], replacement));
    }
    let mut log = log.lock().unwrap();
    let terms = std::mem::take(&mut log.terms);
    let mut tally = std::mem::take(&mut log.tally);
    tally.killed = kill_count;
    let mut failures = BTreeMap::<String, u32>::new();
    for line in ended.iter().chain(&seats).flat_map(Candidate::lines) {
        let reason = line.event["reason"].as_str().unwrap_or_default();
        if line.name() == "stood-down" && ["resigned", "handed-over"].contains(&reason) {
            tally.resigned_terms += 1;
            tally.unordered.extend(Some(line.term()).filter(|term| !terms.contains(term)));
        }
        let detail = line.event["detail"].as_str().unwrap_or_default();
        let missing = detail.split(|c: char| !(c.is_alphanumeric() || c == '-'));
        if line.name() == "problem" {
            for name in missing.filter(|part| part.starts_with("nobody-")) {
                *failures.entry(name.to_owned()).or_default() += 1;
            }
        }
    }
    tally
        .repeated
        .extend(failures.into_iter().filter(|(_, occurrences)| *occurrences > 1).map(|(id, _)| id));
    Ok(tally)
}

/// Returns the election as operators access it.
fn election(group: &Group) -> Result<Election> {
    let settings = Variables::new()
        .with(variable::ELECTION, &group.election)
        .with(variable::CONNECTION_STRING, &group.connection_string);
    let election = Election::new(settings, &BootClock::new());
    election.check()?;
    Ok(election)
}

/// Gives one order, and waits for its outcome.
async fn place_order(election: &Election, number: u32, log: &Mutex<Log>) -> Result<()> {
    let (with_hint, missing) = (
        !number.is_multiple_of(WITHOUT_HINT_EVERY),
        number.is_multiple_of(MISSING_CANDIDATE_EVERY),
    );
    let seat = usize::try_from(number)? % CANDIDATES;
    let successor = match number % 3 {
        _ if missing => Some(format!("nobody-{number}")),
        0 => None,
        _ => Some(format!("c{seat}")),
    };
    let mut order = TransferOrder { id: format!("t{number}"), to: successor, term: None };
    let (placed, term) = loop {
        let started_at = Instant::now();
        match election.transfer(&order, true).await {
            Ok(TransferState::Waiting(term)) => break (started_at, term),
            Ok(state) => bail!("a new order is {state:?}"),
            // No candidate leads, or the designated successor already does.
            Err(_) if order.to.is_none() || missing => sleep(POLL_INTERVAL).await,
            Err(_) => order.to = None,
        }
    };
    let addresses = {
        let mut log = log.lock().unwrap();
        log.terms.insert(term);
        log.addresses.clone()
    };
    order.term = Some(term);
    if with_hint {
        for address in addresses {
            let _ = timeout(Duration::from_secs(3), hint(&address)).await;
        }
    }
    let state = loop {
        match election.transfer(&order, false).await {
            Ok(TransferState::Waiting(_)) | Err(_) => sleep(POLL_INTERVAL).await,
            Ok(state) => break state,
        }
    };
    let elapsed = placed.elapsed();
    let mut log = log.lock().unwrap();
    let was_killed = log.killed.contains(&term);
    let outcome = match state {
        TransferState::Done(_) => "done",
        TransferState::Changed(_) => "changed",
        TransferState::Replaced => "replaced",
        TransferState::Refused(_) => "refused",
        TransferState::Failed(_) => "failed",
        TransferState::Waiting(_) => "waiting",
    };
    *log.tally.outcomes.entry(outcome).or_default() += 1;
    if outcome == "done" && !was_killed {
        log.tally.durations[usize::from(!with_hint)].push(elapsed);
    }
    // An obeyed order may wait for its successor and for the work.
    if elapsed > OBEY_TIMEOUT && !was_killed && outcome != "failed" {
        log.tally.lost.push(order.id);
    }
    Ok(())
}

/// Hints to a candidate that an order is pending.
async fn hint(address: &str) -> Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("POST /hint HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    stream.read_to_end(&mut Vec::new()).await?;
    Ok(())
}

/// Starts the candidate of a seat. Its name stays the same across restarts.
fn start(group: &Group, seat: usize, life: u32, log: &Mutex<Log>) -> Result<Candidate> {
    let (name, listen) = (format!("c{seat}"), reserve_port()?.to_string());
    let address = format!("http://{listen}");
    log.lock().unwrap().addresses[seat] = listen.clone();
    let options =
        ["--listen", &listen, "--address", &address, "--poll", "1s", "--max-failures", "0"];
    let command = group.component(&name, &group.access, crate::BEAT_HANDLER.as_ref(), &options);
    Candidate::spawn(&format!("{name}-{life}"), command)
}
