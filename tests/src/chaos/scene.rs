//! An election whose candidates each have a proxy between them and the store.

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

use super::evidence::Told;
use super::plan::{Plan, Whom};
use crate::candidate::{Line, first};
use crate::proxy::writes_metadata;
use crate::sink::Beat;
use crate::{Access, BEAT_HANDLER, Candidate, Group, Mode, Proxy, Sink, Store};

/// Longer than anything may take, also with the retries of an SDK.
const GIVE_UP: Duration = crate::PATIENCE;

/// A candidate that was asked to leave is gone by then.
const LEAVES_WITHIN: Duration = Duration::from_secs(20);

/// Who contends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// `tenure run` with the handler of the tests.
    Tenure,
    /// [`crate::baseline`].
    Baseline,
}

/// Where rounds take place.
#[derive(Clone, Debug)]
pub struct Setting {
    /// A program that is `tenure` when its first argument is `run`, and a candidate of the
    /// baseline when that is `baseline`.
    pub program: PathBuf,
    /// How to reach the store.
    pub connection_string: String,
}

impl Setting {
    /// On `store`, and ready: components are compiled.
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
            access: Access::with(&self.connection_string),
            election: format!("tenure-chaos-{unique}/leader"),
            sink: sink.host(),
            timer: ["--every", "1s"],
            turn_ms: if plan.endless_turns { 3_600_000 } else { 900 },
            patient: false,
        };
        let mut seats = Vec::new();
        for (index, &failover) in plan.candidates.iter().enumerate() {
            let writes = Arc::new(Mutex::new(Vec::new()));
            let seen = Arc::clone(&writes);
            let witness = move |bytes: &[u8]| {
                if writes_metadata(bytes) {
                    seen.lock().unwrap().push(Utc::now());
                }
            };
            let (proxy, through) = Proxy::of_store_with(&self.connection_string, witness).await?;
            let candidate = start(kind, &group, &through, &format!("c{index}"), failover)?;
            seats.push(Seat { proxy, through, failover, writes, candidate, gone: Vec::new() });
        }
        Ok(Scene { kind, group, sink, seats, gone: 0 })
    }
}

fn start(
    kind: Kind,
    group: &Group,
    through: &str,
    name: &str,
    failover: Option<Failover>,
) -> Result<Candidate> {
    if kind == Kind::Tenure {
        let failover = failover.map(|failover| format!("--failover={:?}", failover.within));
        let more: Vec<_> = failover.as_deref().into_iter().collect();
        return group.start_with(name, &Access::with(through), Path::new(BEAT_HANDLER), &more);
    }
    let mut command = Command::new(&group.program);
    command
        .args(["baseline", "--name", name, "--election", &group.election, "--sink", &group.sink])
        .env("AZURE_STORAGE_CONNECTION_STRING", through);
    Candidate::spawn(name, command)
}

/// A place for one candidate after the other, behind a proxy.
struct Seat {
    proxy: Proxy,
    through: String,
    failover: Option<Failover>,
    /// When it sent writes of metadata.
    writes: Arc<Mutex<Vec<DateTime<Utc>>>>,
    candidate: Candidate,
    gone: Vec<Candidate>,
}

pub(super) struct Scene {
    kind: Kind,
    group: Group,
    sink: Sink,
    seats: Vec<Seat>,
    /// How many candidates were replaced.
    gone: usize,
}

impl Scene {
    /// Waits for the first beat that is as wanted.
    pub(super) async fn beat(&self, what: &str, wanted: impl Fn(&Beat) -> bool) -> Result<Beat> {
        let beat = timeout(GIVE_UP, self.sink.beat_where(wanted)).await;
        beat.with_context(|| format!("{what}: not within {GIVE_UP:?}\n{}", self.told()))
    }

    /// Who works, and under which term. Waits until somebody does.
    pub(super) async fn leader(&self) -> Result<(usize, u64)> {
        self.beat("a leader works", |_| true).await?;
        let term = self.sink.beats().iter().map(|beat| beat.term).max().unwrap_or_default();
        let won = |line: &Line| line.name() == "elected" && line.term() == term;
        let holders = self.seats.iter().enumerate().map(|(index, seat)| {
            Box::pin(async move {
                seat.candidate.line_where(won).await;
                index
            })
        });
        let holder = timeout(GIVE_UP, first(holders.collect())).await;
        let holder = holder.with_context(|| format!("nobody won term {term}\n{}", self.told()))?;
        Ok((holder, term))
    }

    /// Waits until the candidate at `index` no longer believes that it leads.
    pub(super) async fn stands_down(&self, index: usize, term: u64) -> Result<()> {
        let candidate = &self.seats[index].candidate;
        let stood_down =
            candidate.line_where(|line: &Line| line.name() == "stood-down" && line.term() == term);
        let waited = timeout(GIVE_UP, stood_down).await;
        waited.with_context(|| format!("{term} does not end\n{}", self.told()))?;
        Ok(())
    }

    /// The places of these candidates.
    pub(super) fn of(&self, whom: Whom, leader: usize) -> Vec<usize> {
        let count = self.seats.len();
        match whom {
            Whom::Leader => vec![leader],
            Whom::Follower => vec![(leader + 1) % count],
            Whom::All => (0..count).collect(),
        }
    }

    pub(super) fn cut_off(&self, index: usize, mode: Mode) {
        self.seats[index].proxy.set(mode);
    }

    /// Signals one that runs.
    pub(super) fn signal(&self, index: usize, signal: Signal) -> Result<()> {
        self.seats[index].candidate.signal(signal)
    }

    pub(super) async fn kill(&mut self, index: usize) -> Result<()> {
        self.seats[index].candidate.kill().await
    }

    /// Puts a new process in the place of one that ends or has ended.
    pub(super) fn replace(&mut self, index: usize) -> Result<()> {
        let seat = &mut self.seats[index];
        let name = format!("c{index}-{}", self.gone);
        let next = start(self.kind, &self.group, &seat.through, &name, seat.failover)?;
        seat.gone.push(std::mem::replace(&mut seat.candidate, next));
        self.gone += 1;
        Ok(())
    }

    /// Everybody reaches the store again.
    pub(super) fn heal(&self) {
        self.seats.iter().for_each(|seat| seat.proxy.set(Mode::Pass));
    }

    /// Waits for the end of those that were asked to leave.
    pub(super) async fn wait_for_leavers(&mut self) -> Result<()> {
        for candidate in self.seats.iter_mut().flat_map(|seat| &mut seat.gone) {
            let ended = candidate.end(LEAVES_WITHIN).await;
            if self.kind == Kind::Baseline && ended.is_err() {
                candidate.kill().await?;
                continue;
            }
            let status = ended.with_context(|| format!("{} does not leave", candidate.name))?;
            // Before it said anything, a signal may have found it unprepared.
            let by_signal = match status.signal().and_then(Signal::from_named_raw) {
                Some(Signal::KILL) => true,
                Some(Signal::TERM) => candidate.lines().is_empty(),
                _ => false,
            };
            ensure!(by_signal || status.success(), "{}\n{status}", candidate.transcript());
        }
        Ok(())
    }

    /// Ends everything. All beats, and all that each seat ever told.
    pub(super) async fn end(mut self) -> Result<(Vec<Beat>, Vec<Told>)> {
        for seat in &mut self.seats {
            let candidate = &mut seat.candidate;
            ensure!(candidate.is_alive(), "it ended by itself\n{}", candidate.transcript());
            candidate.kill().await?;
        }
        let mut told = Vec::new();
        for seat in &self.seats {
            let mut lines = Vec::new();
            for candidate in seat.gone.iter().chain([&seat.candidate]) {
                lines.extend(timeout(GIVE_UP, candidate.all_lines()).await?);
            }
            let writes = seat.writes.lock().unwrap().clone();
            told.push(Told { lines, failover: seat.failover, writes });
        }
        Ok((self.sink.beats(), told))
    }

    /// When the first beat of a term above `term` came.
    pub(super) fn first_after(&self, term: u64) -> Option<Instant> {
        self.sink.beats().iter().find(|beat| beat.term > term).map(|beat| beat.at)
    }

    /// The latest that everybody told, for whoever looks into a failure.
    fn told(&self) -> String {
        let last = |seat: &Seat| {
            let lines = seat.candidate.lines();
            let lines = lines.iter().rev().take(6).rev().map(|line| line.event.to_string());
            lines.collect::<Vec<_>>().join("\n")
        };
        self.seats.iter().map(last).collect::<Vec<_>>().join("\n")
    }
}
