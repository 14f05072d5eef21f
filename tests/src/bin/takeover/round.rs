//! One round: a fresh election, three candidates, and a fault of its leader.

use std::future::pending;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::Signal;
use tenure_tests::candidate::Line;
use tenure_tests::{Candidate, Group, Sink};
use tokio::time::{sleep, timeout};

/// Longer than any step takes.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Interval between renewals: faults hit leaders at any time within it.
const RENEW_INTERVAL: Duration = Duration::from_secs(4);

/// Fault of the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// SIGKILL.
    Crash,
    /// SIGTERM.
    Terminate,
    /// Another client broke the lease and deleted the blob: assumption A3 does not hold.
    Deletion,
}

/// Result of a round.
pub struct Round {
    /// Time from each fault to the next `elected`.
    pub takeovers: Vec<(Fault, Duration)>,
    /// Terms in the order of their elections.
    pub terms: Vec<u64>,
    /// Beats of a term that arrived after the first beat of a later term: the time span, and the
    /// number.
    pub overlap: (Duration, usize),
    /// Number of slots with two turns.
    pub repeated_slots: usize,
    /// Number of beats that arrived.
    pub beats: usize,
    /// True if A3 was broken on purpose.
    pub without_a3: bool,
}

/// Kills the leader, then terminates the next one.
pub async fn crash_and_stop(group: Group, sink: Sink) -> Result<Round> {
    let mut scene = Scene::start(group, sink).await?;
    let crash = scene.inject(Fault::Crash).await?;
    scene.replace_ended()?;
    scene.run_leader().await?;
    let termination = scene.inject(Fault::Terminate).await?;
    scene.run_leader().await?;
    Ok(scene.end(vec![crash, termination], false))
}

/// Deletes the blob under the leader, which notices with its next renewal.
pub async fn deletion(group: Group, sink: Sink) -> Result<Round> {
    let mut scene = Scene::start(group, sink).await?;
    let deposed_leader = scene.leader;
    let deletion = scene.inject(Fault::Deletion).await?;
    scene.run_leader().await?;
    let stood_down = scene.candidates[deposed_leader].event("stood-down", 2 * TIMEOUT);
    timeout(TIMEOUT, stood_down).await.context("the deposed leader does not stand down")?;
    Ok(scene.end(vec![deletion], true))
}

struct Scene {
    group: Group,
    sink: Sink,
    candidates: [Candidate; 3],
    /// Log lines of candidates that have exited.
    ended_lines: Vec<Line>,
    leader: usize,
    term: u64,
}

impl Scene {
    /// Starts three candidates, and waits until a leader works.
    async fn start(group: Group, sink: Sink) -> Result<Self> {
        let start = |name: &str| group.start(name, &[]);
        let candidates = [start("ada")?, start("ben")?, start("cyd")?];
        let (ended_lines, leader, term) = (Vec::new(), 0, 0);
        let mut scene = Self { group, sink, candidates, ended_lines, leader, term };
        scene.wait_for_leader().await?;
        scene.run_leader().await?;
        Ok(scene)
    }

    /// Waits for the next leader.
    async fn wait_for_leader(&mut self) -> Result<Instant> {
        let previous_term = self.term;
        let is_new_leader = |line: &Line| line.name() == "elected" && line.term() > previous_term;
        let next_election = async |index: usize| {
            let election = self.candidates[index].line_within(0, 2 * TIMEOUT, is_new_leader);
            // A candidate that has ended wins no election.
            match election.await {
                Some(line) => line,
                None => pending().await,
            }
        };
        let next_leader = async {
            tokio::select! {
                line = next_election(0) => (0, line),
                line = next_election(1) => (1, line),
                line = next_election(2) => (2, line),
            }
        };
        let Ok((leader, line)) = timeout(TIMEOUT, next_leader).await else {
            let transcripts: Vec<_> = self.candidates.iter().map(Candidate::transcript).collect();
            bail!("no leader within {TIMEOUT:?}\n{}", transcripts.join("\n"));
        };
        (self.leader, self.term) = (leader, line.term());
        Ok(line.at)
    }

    /// Lets the leader work until a random time between two renewals.
    async fn run_leader(&self) -> Result<()> {
        let beat = self.sink.wait_for_term(self.term, 2 * TIMEOUT);
        timeout(TIMEOUT, beat).await.context("the leader does not work")?;
        let random = u128::from_le_bytes(*uuid::Uuid::new_v4().as_bytes());
        let renewal_offset = u64::try_from(random % RENEW_INTERVAL.as_millis())?;
        sleep(Duration::from_millis(renewal_offset)).await;
        Ok(())
    }

    /// Injects the fault, and measures the time until the next leader.
    async fn inject(&mut self, fault: Fault) -> Result<(Fault, Duration)> {
        let started_at = Instant::now();
        match fault {
            Fault::Crash => self.candidates[self.leader].kill().await?,
            Fault::Terminate => self.candidates[self.leader].signal(Signal::TERM)?,
            Fault::Deletion => {
                let outsider = self.group.outsider();
                let lease = outsider.break_and_acquire().await?;
                outsider.delete_blob(&lease).await?;
            }
        }
        Ok((fault, self.wait_for_leader().await? - started_at))
    }

    /// Replaces the candidates that have exited.
    fn replace_ended(&mut self) -> Result<()> {
        for candidate in &mut self.candidates {
            if !candidate.is_alive() {
                let next_leader = self.group.start(&format!("{}-again", candidate.name), &[])?;
                let ended_candidate = std::mem::replace(candidate, next_leader);
                self.ended_lines.extend(ended_candidate.lines());
            }
        }
        Ok(())
    }

    fn end(self, takeovers: Vec<(Fault, Duration)>, without_a3: bool) -> Round {
        let mut elected = self.ended_lines;
        elected.extend(self.candidates.iter().flat_map(Candidate::lines));
        elected.retain(|line| line.name() == "elected");
        elected.sort_by_key(|line| line.at);
        Round {
            takeovers,
            terms: elected.iter().map(Line::term).collect(),
            overlap: self.sink.overlap(),
            repeated_slots: self.sink.repeated_slots().len(),
            beats: self.sink.beats().len(),
            without_a3,
        }
    }
}
