//! A round: everything that its plan holds happens to an election of its own.

use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::process::Signal;
use tokio::time::{sleep, sleep_until, timeout};

use super::evidence::{Case, Evidence};
use super::plan::{Blow, Fault, Plan, Whom};
use super::scene::{Kind, Scene, Setting};

/// No round takes as long.
const ROUND: Duration = Duration::from_secs(15 * 60);

/// Makes a plan happen, and returns what the sink saw.
///
/// # Errors
/// No leader came, a candidate ended by itself, or a process could not be started.
pub async fn round(setting: &Setting, kind: Kind, plan: &Plan) -> Result<Evidence> {
    let round = async {
        let mut round = Round { scene: setting.scene(kind, plan).await?, takeovers: Vec::new() };
        for fault in &plan.faults {
            round.suffer(fault).await?;
        }
        let Round { scene, takeovers } = round;
        let (beats, told) = scene.end().await?;
        Ok(Evidence::of(takeovers, &beats, &told))
    };
    timeout(ROUND, round).await?
}

struct Round {
    scene: Scene,
    takeovers: Vec<(Case, Duration)>,
}

impl Round {
    /// From one leader that works to the next, or to the same one again.
    async fn suffer(&mut self, fault: &Fault) -> Result<()> {
        self.scene.leader().await?;
        sleep(fault.after).await;
        let (leader, term) = self.scene.leader().await?;
        let began = Instant::now();
        if let Some((whom, mode)) = fault.cut {
            self.scene.of(whom, leader).into_iter().for_each(|index| {
                self.scene.cut_off(index, mode);
            });
        }
        match &fault.blow {
            Some(Blow::Storm(waves)) => {
                self.storm(fault, waves).await?;
                self.scene.heal();
                return self.scene.wait_for_leavers().await;
            }
            Some(Blow::Kill) => self.scene.kill(leader).await?,
            Some(Blow::Freeze(whom)) => self.signal(*whom, leader, Signal::STOP)?,
            None => {}
        }
        if fault.deposes() {
            let newer = self.newer(began, term).await?;
            let case = match fault.blow {
                Some(Blow::Kill) => Case::Kill,
                Some(Blow::Freeze(_)) => Case::Freeze,
                _ => Case::CutOff,
            };
            self.takeovers.push((case, newer - began));
        }
        sleep_until((began + fault.lasts).into()).await;
        self.recover(fault, leader, term).await
    }

    /// The fault ends; waits until somebody leads, and until the old leader has seen it.
    async fn recover(&mut self, fault: &Fault, leader: usize, term: u64) -> Result<()> {
        let ended = Instant::now();
        let killed = fault.blow == Some(Blow::Kill);
        self.scene.heal();
        if killed {
            self.scene.replace(leader)?;
        }
        if let Some(Blow::Freeze(whom)) = fault.blow {
            self.signal(whom, leader, Signal::CONT)?;
        }
        let least = if killed { term + 1 } else { term };
        let leads = |beat: &crate::Beat| beat.at >= ended && beat.term >= least;
        self.scene.beat("somebody leads after the fault", leads).await?;
        let next = self.scene.first_after(term);
        if let Some(next) = next.filter(|next| *next >= ended) {
            self.takeovers.push((Case::AfterAll, next - ended));
        }
        // Else a leader of before would be taken for the next fault's.
        if next.is_some() && !killed {
            self.scene.stands_down(leader, term).await?;
        }
        Ok(())
    }

    async fn storm(&mut self, fault: &Fault, waves: &[usize]) -> Result<()> {
        // One that is cut off cannot release, nor can the one in its place lead.
        let case = if fault.cut.is_some() { Case::CutOff } else { Case::Stop };
        for &followers in waves {
            let (leader, term) = self.scene.leader().await?;
            let mut all = self.scene.of(Whom::All, leader);
            all.rotate_left(leader);
            all.truncate(1 + followers);
            let began = Instant::now();
            for index in all {
                self.scene.signal(index, Signal::TERM)?;
                self.scene.replace(index)?;
            }
            let newer = self.newer(began, term).await?;
            self.takeovers.push((case, newer - began));
        }
        Ok(())
    }

    async fn newer(&self, began: Instant, term: u64) -> Result<Instant> {
        let newer = |beat: &crate::Beat| beat.at >= began && beat.term > term;
        Ok(self.scene.beat("another leader works", newer).await?.at)
    }

    fn signal(&self, whom: Whom, leader: usize, signal: Signal) -> Result<()> {
        let all = self.scene.of(whom, leader);
        all.into_iter().try_for_each(|index| self.scene.signal(index, signal))
    }
}
