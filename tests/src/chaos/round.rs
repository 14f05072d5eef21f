//! Runs the plan of a round in its own election.

use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::process::Signal;
use tokio::time::{sleep, sleep_until, timeout};

use super::evidence::{Case, Evidence};
use super::plan::{Fault, Plan, ProcessFault, Target};
use super::scene::{Kind, Scene, Setting};

/// Longer than any round takes.
const ROUND_TIMEOUT: Duration = Duration::from_secs(15 * 60);

/// Runs a plan, and returns the evidence.
///
/// # Errors
/// No candidate became leader, a candidate ended unexpectedly, or a process could not be started.
pub async fn round(setting: &Setting, kind: Kind, plan: &Plan) -> Result<Evidence> {
    let round = async {
        let mut round = Round { scene: setting.scene(kind, plan).await?, takeovers: Vec::new() };
        for fault in &plan.faults {
            round.inject(fault).await?;
        }
        let Round { scene, takeovers } = round;
        let (beats, logs) = scene.end().await?;
        Ok(Evidence::from_logs(takeovers, &beats, &logs))
    };
    timeout(ROUND_TIMEOUT, round).await?
}

struct Round {
    scene: Scene,
    takeovers: Vec<(Case, Duration)>,
}

impl Round {
    /// Injects a fault, from one working leader to the next.
    async fn inject(&mut self, fault: &Fault) -> Result<()> {
        self.scene.leader().await?;
        sleep(fault.delay).await;
        let (leader, term) = self.scene.leader().await?;
        let started_at = Instant::now();
        if let Some((target, mode)) = fault.partition {
            self.scene.indexes(target, leader).into_iter().for_each(|index| {
                self.scene.cut_off(index, mode);
            });
        }
        match &fault.process_fault {
            Some(ProcessFault::Storm(waves)) => {
                self.storm(fault, waves).await?;
                self.scene.reconnect_all();
                return self.scene.wait_for_leaving().await;
            }
            Some(ProcessFault::Kill) => self.scene.kill(leader).await?,
            Some(ProcessFault::Freeze(target)) => self.signal(*target, leader, Signal::STOP)?,
            None => {}
        }
        if fault.deposes_leader() {
            let newer_beat = self.wait_for_newer_leader(started_at, term).await?;
            let case = match fault.process_fault {
                Some(ProcessFault::Kill) => Case::Kill,
                Some(ProcessFault::Freeze(_)) => Case::Freeze,
                _ => Case::CutOff,
            };
            self.takeovers.push((case, newer_beat - started_at));
        }
        sleep_until((started_at + fault.min_duration).into()).await;
        self.recover(fault, leader, term).await
    }

    /// Ends the fault. Waits until a candidate leads and the old leader has stood down.
    async fn recover(&mut self, fault: &Fault, leader: usize, term: u64) -> Result<()> {
        let fault_ended_at = Instant::now();
        let was_killed = fault.process_fault == Some(ProcessFault::Kill);
        self.scene.reconnect_all();
        if was_killed {
            self.scene.replace(leader)?;
        }
        if let Some(ProcessFault::Freeze(target)) = fault.process_fault {
            self.signal(target, leader, Signal::CONT)?;
        }
        let min_term = if was_killed { term + 1 } else { term };
        let is_leading_after_fault =
            |beat: &crate::Beat| beat.received_at >= fault_ended_at && beat.term >= min_term;
        self.scene.beat("somebody leads after the fault", is_leading_after_fault).await?;
        let next_beat_at = self.scene.first_beat_after(term);
        if let Some(next_beat_at) =
            next_beat_at.filter(|next_beat_at| *next_beat_at >= fault_ended_at)
        {
            self.takeovers.push((Case::AfterAll, next_beat_at - fault_ended_at));
        }
        // Otherwise the next fault could mistake the old leader for its own.
        if next_beat_at.is_some() && !was_killed {
            self.scene.wait_for_stand_down(leader, term).await?;
        }
        Ok(())
    }

    async fn storm(&mut self, fault: &Fault, waves: &[usize]) -> Result<()> {
        // A leader that is cut off cannot release the lease, and its replacement cannot lead.
        let case = if fault.partition.is_some() { Case::CutOff } else { Case::Terminate };
        for &followers in waves {
            let (leader, term) = self.scene.leader().await?;
            let mut indexes = self.scene.indexes(Target::All, leader);
            indexes.rotate_left(leader);
            indexes.truncate(1 + followers);
            let started_at = Instant::now();
            for index in indexes {
                self.scene.signal(index, Signal::TERM)?;
                self.scene.replace(index)?;
            }
            let newer_beat = self.wait_for_newer_leader(started_at, term).await?;
            self.takeovers.push((case, newer_beat - started_at));
        }
        Ok(())
    }

    async fn wait_for_newer_leader(&self, started_at: Instant, term: u64) -> Result<Instant> {
        let is_newer = |beat: &crate::Beat| beat.received_at >= started_at && beat.term > term;
        Ok(self.scene.beat("another leader works", is_newer).await?.received_at)
    }

    fn signal(&self, target: Target, leader: usize, signal: Signal) -> Result<()> {
        let indexes = self.scene.indexes(target, leader);
        indexes.into_iter().try_for_each(|index| self.scene.signal(index, signal))
    }
}
