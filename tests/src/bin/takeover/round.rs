//! One round: a fresh election, three candidates, and what happens to its leader.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::Signal;
use tenure_tests::candidate::Line;
use tenure_tests::{Candidate, Group, Sink};
use tokio::time::{sleep, timeout};

/// Longer than anything may take.
const GIVE_UP: Duration = Duration::from_secs(60);

/// The interval between renewals: leaders are hit at any time within it.
const RENEW: Duration = Duration::from_secs(4);

/// What was done to the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// SIGKILL.
    Crash,
    /// SIGTERM.
    Stop,
    /// Somebody broke the lease and deleted the blob: assumption A3 does not hold.
    Deletion,
}

/// What a round gave.
pub struct Round {
    /// From each fault to the next `elected`.
    pub takeovers: Vec<(Fault, Duration)>,
    /// The terms, in the order in which they were won.
    pub terms: Vec<u64>,
    /// Beats of a term that arrived after the first beat of a later one: for how long, and how
    /// many.
    pub overlap: (Duration, usize),
    /// Slots with two turns.
    pub doubled: usize,
    /// All beats that arrived.
    pub beats: usize,
    /// Whether A3 was broken on purpose.
    pub meddled: bool,
}

/// The leader is killed; the next one is stopped.
pub async fn crash_and_stop(group: Group, sink: Sink) -> Result<Round> {
    let mut scene = Scene::set(group, sink).await?;
    let crash = scene.fault(Fault::Crash).await?;
    scene.fill_up()?;
    scene.work().await?;
    let stop = scene.fault(Fault::Stop).await?;
    scene.work().await?;
    Ok(scene.end(vec![crash, stop], false))
}

/// The blob is deleted under the leader, which learns of it with its next renewal.
pub async fn deletion(group: Group, sink: Sink) -> Result<Round> {
    let mut scene = Scene::set(group, sink).await?;
    let deposed = scene.leader;
    let deletion = scene.fault(Fault::Deletion).await?;
    scene.work().await?;
    let stood_down = scene.candidates[deposed].event("stood-down", 2 * GIVE_UP);
    timeout(GIVE_UP, stood_down).await.context("the deposed leader does not stand down")?;
    Ok(scene.end(vec![deletion], true))
}

struct Scene {
    group: Group,
    sink: Sink,
    candidates: [Candidate; 3],
    /// The lines of those that are no more.
    gone: Vec<Line>,
    leader: usize,
    term: u64,
}

impl Scene {
    /// Three candidates, one of which leads and works.
    async fn set(group: Group, sink: Sink) -> Result<Self> {
        let start = |name: &str| group.start(name, &[]);
        let candidates = [start("ada")?, start("ben")?, start("cyd")?];
        let (gone, leader, term) = (Vec::new(), 0, 0);
        let mut scene = Self { group, sink, candidates, gone, leader, term };
        scene.elected().await?;
        scene.work().await?;
        Ok(scene)
    }

    /// Waits for the next leader.
    async fn elected(&mut self) -> Result<Instant> {
        let before = self.term;
        let won = |line: &Line| line.name() == "elected" && line.term() > before;
        // With a limit that is never met: meeting it would panic.
        let of = |index: usize| self.candidates[index].line("election", 0, 2 * GIVE_UP, won);
        let next = async {
            tokio::select! {
                line = of(0) => (0, line),
                line = of(1) => (1, line),
                line = of(2) => (2, line),
            }
        };
        let Ok((leader, line)) = timeout(GIVE_UP, next).await else {
            let transcripts: Vec<_> = self.candidates.iter().map(Candidate::transcript).collect();
            bail!("no leader within {GIVE_UP:?}\n{}", transcripts.join("\n"));
        };
        (self.leader, self.term) = (leader, line.term());
        Ok(line.at)
    }

    /// Lets the leader work until some time in its interval between renewals.
    async fn work(&self) -> Result<()> {
        let beat = self.sink.beat_of(self.term, 2 * GIVE_UP);
        timeout(GIVE_UP, beat).await.context("the leader does not work")?;
        let random = u128::from_le_bytes(*uuid::Uuid::new_v4().as_bytes());
        let part = u64::try_from(random % RENEW.as_millis())?;
        sleep(Duration::from_millis(part)).await;
        Ok(())
    }

    /// Does it to the leader, and measures until there is another.
    async fn fault(&mut self, fault: Fault) -> Result<(Fault, Duration)> {
        let began = Instant::now();
        match fault {
            Fault::Crash => self.candidates[self.leader].kill().await?,
            Fault::Stop => self.candidates[self.leader].signal(Signal::TERM)?,
            Fault::Deletion => {
                let outsider = self.group.outsider();
                let lease = outsider.seize().await?;
                outsider.delete_blob(&lease).await?;
            }
        }
        Ok((fault, self.elected().await? - began))
    }

    /// Puts new candidates in the places of those that are no more.
    fn fill_up(&mut self) -> Result<()> {
        for candidate in &mut self.candidates {
            if !candidate.is_alive() {
                let next = self.group.start(&format!("{}-again", candidate.name), &[])?;
                let gone = std::mem::replace(candidate, next);
                self.gone.extend(gone.lines());
            }
        }
        Ok(())
    }

    fn end(self, takeovers: Vec<(Fault, Duration)>, meddled: bool) -> Round {
        let mut elected = self.gone;
        elected.extend(self.candidates.iter().flat_map(Candidate::lines));
        elected.retain(|line| line.name() == "elected");
        elected.sort_by_key(|line| line.at);
        Round {
            takeovers,
            terms: elected.iter().map(Line::term).collect(),
            overlap: self.sink.overlap(),
            doubled: self.sink.doubled_slots().len(),
            beats: self.sink.beats().len(),
            meddled,
        }
    }
}
