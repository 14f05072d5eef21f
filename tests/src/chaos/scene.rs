//! Election whose candidates each reach the store through a proxy.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use chrono::{DateTime, Utc};
use rustix::process::Signal;
use tenure_core::Failover;
use tokio::process::Command;
use tokio::time::timeout;

use super::evidence::SeatLog;
use super::plan::{Plan, Target};
use crate::candidate::{Line, first};
use crate::proxy::writes_metadata;
use crate::sink::Beat;
use crate::{Access, BEAT_HANDLER, Candidate, Group, Mode, Proxy, Sink, Store};

/// Longer than any step takes, including the retries of an SDK.
const TIMEOUT: Duration = crate::PATIENCE;

/// Time limit for a candidate to exit after SIGTERM.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(20);

/// Kind of candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// `tenure run` with the beat handler.
    Tenure,
    /// [`crate::baseline`].
    Baseline,
}

/// Environment of the rounds.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Program that acts as `tenure` if its first argument is `run`, and as a baseline candidate if
    /// it is `baseline`.
    pub program: PathBuf,
    /// Connection string of the store.
    pub connection_string: String,
}

impl Setting {
    /// Prepares a setting on `store`, with compiled components.
    ///
    /// # Errors
    /// The program cannot be started.
    pub async fn new(program: &str, store: &Store) -> Result<Self> {
        Group::new(program, store, &Sink::start().await?).warm_up().await?;
        let connection_string = store.connection_string();
        Ok(Self { program: program.into(), connection_string })
    }

    pub(super) async fn scene(&self, kind: Kind, plan: &Plan) -> Result<Scene> {
        let sink = Sink::start().await?;
        let unique = uuid::Uuid::new_v4().simple();
        let group = Group {
            program: self.program.clone(),
            connection_string: self.connection_string.clone(),
            access: Access::from_connection_string(&self.connection_string),
            election: format!("tenure-chaos-{unique}/leader"),
            sink: sink.host(),
            timer: ["--every", "1s"],
            turn_ms: if plan.endless_turns { 3_600_000 } else { 900 },
            patient_timings: false,
        };
        let mut seats = Vec::new();
        for (index, &failover) in plan.candidates.iter().enumerate() {
            let writes = Arc::new(Mutex::new(Vec::new()));
            let observed_writes = Arc::clone(&writes);
            let witness = move |bytes: &[u8]| {
                if writes_metadata(bytes) {
                    observed_writes.lock().unwrap().push(Utc::now());
                }
            };
            let (proxy, proxied_connection) =
                Proxy::for_store_with_witness(&self.connection_string, witness).await?;
            let candidate =
                start(kind, &group, &proxied_connection, &format!("c{index}"), failover)?;
            seats.push(Seat {
                proxy,
                proxied_connection,
                failover,
                writes,
                candidate,
                ended_candidates: Vec::new(),
            });
        }
        Ok(Scene { kind, group, sink, seats, replacement_count: 0 })
    }
}

fn start(
    kind: Kind,
    group: &Group,
    proxied_connection: &str,
    name: &str,
    failover: Option<Failover>,
) -> Result<Candidate> {
    if kind == Kind::Tenure {
        let failover = failover.map(|failover| format!("--failover={:?}", failover.within));
        let options: Vec<_> = failover.as_deref().into_iter().collect();
        return group.start_with(
            name,
            &Access::from_connection_string(proxied_connection),
            Path::new(BEAT_HANDLER),
            &options,
        );
    }
    let mut command = Command::new(&group.program);
    command
        .args(["baseline", "--name", name, "--election", &group.election, "--sink", &group.sink])
        .env("AZURE_STORAGE_CONNECTION_STRING", proxied_connection);
    Candidate::spawn(name, command)
}

/// Position of successive candidates behind one proxy.
struct Seat {
    proxy: Proxy,
    proxied_connection: String,
    failover: Option<Failover>,
    /// Times at which its candidates sent metadata writes.
    writes: Arc<Mutex<Vec<DateTime<Utc>>>>,
    candidate: Candidate,
    ended_candidates: Vec<Candidate>,
}

pub(super) struct Scene {
    kind: Kind,
    group: Group,
    sink: Sink,
    seats: Vec<Seat>,
    /// Number of replaced candidates.
    replacement_count: usize,
}

impl Scene {
    /// Waits for the first beat that `matches`.
    pub(super) async fn beat(
        &self,
        description: &str,
        matches: impl Fn(&Beat) -> bool,
    ) -> Result<Beat> {
        let beat = timeout(TIMEOUT, self.sink.wait_for_beat(matches)).await;
        beat.with_context(|| {
            format!("{description}: not within {TIMEOUT:?}\n{}", self.recent_logs())
        })
    }

    /// Waits until a leader works, and returns its index and term.
    pub(super) async fn leader(&self) -> Result<(usize, u64)> {
        self.beat("a leader works", |_| true).await?;
        let term = self.sink.beats().iter().map(|beat| beat.term).max().unwrap_or_default();
        let is_winner = |line: &Line| line.name() == "elected" && line.term() == term;
        let holders = self.seats.iter().enumerate().map(|(index, seat)| {
            Box::pin(async move {
                seat.candidate.wait_for_line(is_winner).await;
                index
            })
        });
        let holder = timeout(TIMEOUT, first(holders.collect())).await;
        let holder =
            holder.with_context(|| format!("nobody won term {term}\n{}", self.recent_logs()))?;
        Ok((holder, term))
    }

    /// Waits until the candidate at `index` no longer believes that it leads.
    pub(super) async fn wait_for_stand_down(&self, index: usize, term: u64) -> Result<()> {
        let candidate = &self.seats[index].candidate;
        let stood_down = candidate
            .wait_for_line(|line: &Line| line.name() == "stood-down" && line.term() == term);
        let result = timeout(TIMEOUT, stood_down).await;
        result.with_context(|| format!("{term} does not end\n{}", self.recent_logs()))?;
        Ok(())
    }

    /// Returns the indexes of these candidates.
    pub(super) fn indexes(&self, target: Target, leader: usize) -> Vec<usize> {
        let count = self.seats.len();
        match target {
            Target::Leader => vec![leader],
            Target::Follower => vec![(leader + 1) % count],
            Target::All => (0..count).collect(),
        }
    }

    pub(super) fn cut_off(&self, index: usize, mode: Mode) {
        self.seats[index].proxy.set_mode(mode);
    }

    /// Signals a running candidate.
    pub(super) fn signal(&self, index: usize, signal: Signal) -> Result<()> {
        self.seats[index].candidate.signal(signal)
    }

    pub(super) async fn kill(&mut self, index: usize) -> Result<()> {
        self.seats[index].candidate.kill().await
    }

    /// Starts a new process in the place of one that ends or has ended.
    pub(super) fn replace(&mut self, index: usize) -> Result<()> {
        let seat = &mut self.seats[index];
        let name = format!("c{index}-{}", self.replacement_count);
        let next = start(self.kind, &self.group, &seat.proxied_connection, &name, seat.failover)?;
        seat.ended_candidates.push(std::mem::replace(&mut seat.candidate, next));
        self.replacement_count += 1;
        Ok(())
    }

    /// Restores the connection of every candidate to the store.
    pub(super) fn reconnect_all(&self) {
        self.seats.iter().for_each(|seat| seat.proxy.set_mode(Mode::Pass));
    }

    /// Waits until the candidates that received SIGTERM have exited.
    pub(super) async fn wait_for_leaving(&mut self) -> Result<()> {
        for candidate in self.seats.iter_mut().flat_map(|seat| &mut seat.ended_candidates) {
            let ended = candidate.end(LEAVE_TIMEOUT).await;
            if self.kind == Kind::Baseline && ended.is_err() {
                candidate.kill().await?;
                continue;
            }
            let status = ended.with_context(|| format!("{} does not leave", candidate.name))?;
            // A signal may arrive before the process has installed its handlers.
            let by_signal = match status.signal().and_then(Signal::from_named_raw) {
                Some(Signal::KILL) => true,
                Some(Signal::TERM) => candidate.lines().is_empty(),
                _ => false,
            };
            ensure!(by_signal || status.success(), "{}\n{status}", candidate.transcript());
        }
        Ok(())
    }

    /// Ends all processes. Returns all beats, and the events of each seat.
    pub(super) async fn end(mut self) -> Result<(Vec<Beat>, Vec<SeatLog>)> {
        for seat in &mut self.seats {
            let candidate = &mut seat.candidate;
            ensure!(candidate.is_alive(), "it ended by itself\n{}", candidate.transcript());
            candidate.kill().await?;
        }
        let mut logs = Vec::new();
        for seat in &self.seats {
            let mut lines = Vec::new();
            for candidate in seat.ended_candidates.iter().chain([&seat.candidate]) {
                lines.extend(timeout(TIMEOUT, candidate.all_lines()).await?);
            }
            let writes = seat.writes.lock().unwrap().clone();
            logs.push(SeatLog { lines, failover: seat.failover, writes });
        }
        Ok((self.sink.beats(), logs))
    }

    /// Returns the time of the first beat of a term above `term`.
    pub(super) fn first_beat_after(&self, term: u64) -> Option<Instant> {
        self.sink.beats().iter().find(|beat| beat.term > term).map(|beat| beat.received_at)
    }

    /// Returns the latest log lines of all candidates, to debug a failure.
    fn recent_logs(&self) -> String {
        let last = |seat: &Seat| {
            let lines = seat.candidate.lines();
            let lines = lines.iter().rev().take(6).rev().map(|line| line.event.to_string());
            lines.collect::<Vec<_>>().join("\n")
        };
        self.seats.iter().map(last).collect::<Vec<_>>().join("\n")
    }
}
