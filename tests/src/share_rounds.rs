//! Worker processes join, leave and die in rounds. Measures how soon each share has a worker again
//! and how many shares moved, and checks that no share ever had two workers.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::pin::pin;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Signal, kill_process};
use serde_json::Value;
use tokio::process::Command;
use tokio::time::{sleep, timeout};

use crate::candidate::first;
use crate::{Access, BEAT_HANDLER, Candidate, Sink, Store};

/// Longer than any change takes.
const TIMEOUT: Duration = crate::PATIENCE;

/// Changes of one round, which starts and ends with three processes.
const ROUND: [Change; 6] = [
    Change::Joins,
    Change::MachineDies,
    Change::Leaves,
    Change::Joins,
    Change::ProcessDies,
    Change::Joins,
];

/// Change of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// A process starts.
    Joins,
    /// A process receives SIGTERM.
    Leaves,
    /// The runner is killed; its supervisor survives.
    ProcessDies,
    /// Supervisor and runner are killed at once.
    MachineDies,
}

/// Settings of the rounds.
#[derive(Clone, Debug)]
pub struct Rounds {
    /// Path of the program.
    pub program: PathBuf,
    /// Number of shares.
    pub shares: u32,
    /// Number of rounds.
    pub rounds: usize,
    /// Duration of the initial quiet time.
    pub quiet: Duration,
    /// Additional options of each process.
    pub options: Vec<String>,
}

/// Result of one change.
#[derive(Clone, Copy, Debug)]
pub struct ChangeResult {
    /// The change.
    pub change: Change,
    /// True if the changed process was the coordinator.
    pub was_coordinator: bool,
    /// Time until each share had a worker and the shares were balanced.
    pub elapsed: Duration,
    /// Number of shares that moved to another process.
    pub moves: usize,
    /// Largest allowed number of moves: the shares of the leaving process, or the part of the
    /// joining one.
    pub max_moves: usize,
}

/// Results of all rounds.
#[derive(Debug, Default)]
pub struct Results {
    /// All changes.
    pub changes: Vec<ChangeResult>,
    /// Number of shares that moved during the quiet time.
    pub quiet_moves: usize,
    /// Longest overlap between beats of an earlier and a later term of a share, and the number of
    /// such beats.
    pub overlap: (Duration, usize),
    /// Number of beats.
    pub beats: usize,
}

/// Workers of the shares, according to the logs.
#[derive(Debug, Default)]
struct Ledger {
    coordinating: String,
    workers: BTreeMap<u32, String>,
    /// Latest worker of each share.
    last_workers: BTreeMap<u32, String>,
    moves: usize,
    leader: Option<String>,
}

struct Scene {
    rounds: Rounds,
    access: Access,
    sink: Sink,
    members: BTreeMap<String, (Candidate, usize)>,
    ledger: Ledger,
    started: usize,
}

impl Rounds {
    /// Runs all rounds.
    ///
    /// # Errors
    /// A process cannot be started, or the shares do not become balanced.
    pub async fn run(self, store: &Store) -> Result<Results> {
        let coordinating = format!("tenure-rounds-{}/jobs/orders", uuid::Uuid::new_v4().simple());
        let access =
            Access::from_connection_string(store.connection_string()).trusting(store.ca_file());
        let (sink, members) = (Sink::start().await?, BTreeMap::new());
        let ledger = Ledger { coordinating, ..Ledger::default() };
        let mut scene = Scene { rounds: self, access, sink, members, ledger, started: 0 };
        for _ in 0..3 {
            scene.start()?;
        }
        scene.wait_until_balanced().await?;
        let mut results = Results::default();
        scene.ledger.moves = 0;
        let quiet_time = sleep(scene.rounds.quiet);
        scene.read_logs_until(quiet_time).await;
        results.quiet_moves = std::mem::take(&mut scene.ledger.moves);
        for round in 0..scene.rounds.rounds {
            for (number, change) in ROUND.into_iter().enumerate() {
                // A change may happen at any time between two polls of the other processes.
                let random = u128::from_le_bytes(*uuid::Uuid::new_v4().as_bytes());
                scene
                    .read_logs_until(sleep(Duration::from_millis(u64::try_from(random % 2_000)?)))
                    .await;
                results.changes.push(scene.apply_change(change, round + number).await?);
            }
        }
        for (member, _) in scene.members.values_mut() {
            member.signal(Signal::TERM)?;
        }
        for (member, _) in scene.members.values_mut() {
            member.end(TIMEOUT).await?;
        }
        results.overlap = scene.sink.overlap();
        results.beats = scene.sink.beats().len();
        Ok(results)
    }
}

impl Scene {
    fn start(&mut self) -> Result<()> {
        self.started += 1;
        let name = format!("member-{:04}", self.started);
        let mut command = Command::new(&self.rounds.program);
        command
            .args(["run", "--log", "json", &self.ledger.coordinating, "--name", &name])
            .args(["--shares", &self.rounds.shares.to_string(), "--while-leading", "--grace", "0s"])
            .args(["--handler", BEAT_HANDLER, "--allow-host", &self.sink.host()])
            .args(["--env", &format!("BEAT_URL=http://{}/", self.sink.host())])
            .args(["--env", "BEAT_EVERY_MS=200", "--env", "BEAT_FOR_MS=1000000000"])
            .args(&self.rounds.options);
        self.access.apply(&mut command);
        let candidate = Candidate::spawn(&name, command)?;
        self.members.insert(name, (candidate, 0));
        Ok(())
    }

    /// Applies a change to the member at `member_index`, and waits until the shares are balanced.
    async fn apply_change(&mut self, change: Change, member_index: usize) -> Result<ChangeResult> {
        self.ledger.moves = 0;
        let started_at = Instant::now();
        if change == Change::Joins {
            self.start()?;
            let max_moves = (self.rounds.shares as usize).div_ceil(self.members.len());
            let elapsed = self.wait_until_balanced().await? - started_at;
            let moves = self.ledger.moves;
            return Ok(ChangeResult { change, was_coordinator: false, elapsed, moves, max_moves });
        }
        let name = self.members.keys().nth(member_index % self.members.len());
        let name = name.cloned().context("nobody is there")?;
        let was_coordinator = self.ledger.leader.as_ref() == Some(&name);
        let max_moves = self.ledger.workers.values().filter(|worker| **worker == name).count();
        let (mut member, _) = self.members.remove(&name).context("nobody is there")?;
        match change {
            Change::Leaves => {
                member.signal(Signal::TERM)?;
                member.end(TIMEOUT).await?;
            }
            Change::ProcessDies => {
                kill_process(member.runner()?, Signal::KILL)?;
                member.end(TIMEOUT).await?;
            }
            _ => member.kill().await?,
        }
        self.ledger.remove_process(&name);
        let elapsed = self.wait_until_balanced().await? - started_at;
        Ok(ChangeResult { change, was_coordinator, elapsed, moves: self.ledger.moves, max_moves })
    }

    /// Reads the new log lines.
    fn read(&mut self) {
        for (name, (member, lines_read)) in &mut self.members {
            for line in member.lines().iter().skip(*lines_read) {
                *lines_read += 1;
                self.ledger.record_event(name, &line.event);
            }
        }
    }

    /// Waits for a new log line.
    async fn wait_for_line(&self) {
        let lines = self.members.values().map(|(member, lines_read)| {
            Box::pin(async {
                // A member that has ended prints no more lines.
                if member.line_within(*lines_read, TIMEOUT, |_| true).await.is_none() {
                    std::future::pending::<()>().await;
                }
            })
        });
        first(lines.collect()).await;
    }

    async fn read_logs_until(&mut self, end: impl Future<Output = ()>) {
        let mut end = pin!(end);
        loop {
            self.read();
            tokio::select! {
                () = &mut end => return,
                () = self.wait_for_line() => {}
            }
        }
    }

    /// Waits until the shares are balanced, and returns the time at which they became so.
    async fn wait_until_balanced(&mut self) -> Result<Instant> {
        let balanced = async {
            loop {
                self.read();
                let members = self.members.keys().map(String::as_str).collect::<Vec<_>>();
                if self.ledger.is_balanced(&members, self.rounds.shares) {
                    return Instant::now();
                }
                self.wait_for_line().await;
            }
        };
        let balanced = timeout(TIMEOUT, balanced).await;
        match balanced {
            Ok(at) => Ok(at),
            Err(_) => {
                let logs = self.members.values().map(|(member, _)| member.transcript());
                bail!("not in {TIMEOUT:?}: {:?}\n{}", self.ledger, logs.collect::<String>())
            }
        }
    }
}

impl Ledger {
    /// Records an event of a process.
    fn record_event(&mut self, name: &str, event: &Value) {
        let election = event["election"].as_str().unwrap_or_default();
        let event_name = event["event"].as_str().unwrap_or_default();
        if election == self.coordinating {
            match event_name {
                "elected" => self.leader = Some(name.to_owned()),
                "stood-down" if self.leader.as_deref() == Some(name) => self.leader = None,
                _ => {}
            }
            return;
        }
        let Some(share) = share_number(election) else { return };
        match event_name {
            "turn-started" => {
                self.workers.insert(share, name.to_owned());
                let previous_worker = self.last_workers.insert(share, name.to_owned());
                self.moves += usize::from(
                    previous_worker.is_some_and(|previous_worker| previous_worker != name),
                );
            }
            "stood-down" if self.workers.get(&share).is_some_and(|worker| worker == name) => {
                self.workers.remove(&share);
            }
            _ => {}
        }
    }

    /// Removes a process that has ended.
    fn remove_process(&mut self, name: &str) {
        self.workers.retain(|_, worker| worker != name);
        if self.leader.as_deref() == Some(name) {
            self.leader = None;
        }
    }

    /// Returns true if each share has a worker, and the members' numbers of shares differ by at
    /// most one.
    fn is_balanced(&self, members: &[&str], shares: u32) -> bool {
        let share_count =
            |member: &&str| self.workers.values().filter(|worker| worker == member).count();
        let counts = members.iter().map(share_count).collect::<Vec<_>>();
        let (most, least) = (counts.iter().max(), counts.iter().min());
        counts.iter().sum::<usize>() == shares as usize
            && most.zip(least).is_some_and(|(most, least)| most - least <= 1)
    }
}

/// Returns the share of an election, counted from 0.
fn share_number(election: &str) -> Option<u32> {
    let (_, share) = election.rsplit_once(".share.")?;
    let (_, share) = share.split_once('.')?;
    share.split_once("-of-")?.0.parse().ok()
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Joins => "a process joins",
            Self::Leaves => "one is told to end",
            Self::ProcessDies => "a process dies",
            Self::MachineDies => "a machine dies",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn ledger(events: &[(&str, u32, &str)]) -> Ledger {
        let mut ledger = Ledger { coordinating: "jobs/orders".into(), ..Ledger::default() };
        for (name, share, event) in events {
            let election = format!("jobs/orders.share.1.{share}-of-4");
            ledger.record_event(name, &json!({ "election": election, "event": event }));
        }
        ledger
    }

    #[test]
    fn shares_are_balanced_when_each_has_a_worker() {
        let started = [("a", 0), ("b", 1), ("a", 2), ("b", 3)];
        let mut events = started.map(|(name, share)| (name, share, "turn-started")).to_vec();
        let balanced_ledger = ledger(&events);
        assert!(
            balanced_ledger.is_balanced(&["a", "b"], 4)
                && !balanced_ledger.is_balanced(&["a", "b", "c"], 4)
        );
        assert!(!balanced_ledger.is_balanced(&["a"], 4), "somebody else works");
        assert_eq!(balanced_ledger.moves, 0);
        events.push(("a", 0, "stood-down"));
        assert!(!ledger(&events).is_balanced(&["a", "b"], 4));
        events.push(("c", 0, "turn-started"));
        // A late event of the worker that lost the share.
        events.push(("a", 0, "stood-down"));
        let moved_ledger = ledger(&events);
        assert!(moved_ledger.is_balanced(&["a", "b", "c"], 4));
        assert_eq!(moved_ledger.moves, 1);
        let mut without_c = moved_ledger;
        without_c.remove_process("c");
        assert!(!without_c.is_balanced(&["a", "b"], 4));
    }

    #[test]
    fn the_coordinator_is_tracked() {
        let mut ledger = ledger(&[]);
        let event = |event| json!({ "election": "jobs/orders", "event": event });
        ledger.record_event("a", &event("elected"));
        ledger.record_event("b", &event("stood-down"));
        assert_eq!(ledger.leader.as_deref(), Some("a"));
        ledger.remove_process("a");
        assert_eq!(ledger.leader, None);
    }
}
