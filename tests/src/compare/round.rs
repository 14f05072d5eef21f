//! One round: its own election, and a fault of its leader.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use rustix::process::Signal;
use tokio::time::{sleep, timeout};

use super::contender::{Ready, Store};
use super::seat::Seat;
use crate::candidate::first;

/// Longer than any step takes.
const TIMEOUT: Duration = crate::PATIENCE;

/// Time in which followers find the leader, and watch it where they can.
const SETTLE_TIME: Duration = Duration::from_secs(3);

/// A leader that does not beat for this long no longer believes that it leads.
const QUIET_PERIOD: Duration = Duration::from_secs(2);

/// Fault of the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Fault {
    /// SIGKILL of the process that leads
    Kill,
    /// SIGKILL of all its processes, where there are several
    KillAll,
    /// SIGSTOP of all its processes, until another candidate leads
    Freeze,
    /// Its connection to the store drops all data; its sink stays reachable
    Partition,
    /// SIGTERM
    Graceful,
}

/// Result of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Time from the fault to the first beat of another candidate.
    pub takeover: Duration,
    /// Number of stale beats of the old leader, including beats after SIGCONT.
    pub stale: usize,
    /// Time span of the stale beats.
    pub stale_for: Duration,
    /// True if the stale beats ended before the observation did.
    pub has_ended: bool,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { takeover, stale, stale_for, has_ended } = self;
        write!(f, "{takeover:.2?}, {stale} stale")?;
        match (stale, has_ended) {
            (0, _) => Ok(()),
            (_, true) => write!(f, " for {stale_for:.2?}"),
            (_, false) => write!(f, " for {stale_for:.2?} and longer"),
        }
    }
}

/// Injects the fault into the leader, and watches its stale work for at most `watch_limit`.
///
/// # Errors
/// No candidate leads, or none takes over, within two minutes.
pub async fn round(ready: &Ready, fault: Fault, watch_limit: Duration) -> Result<Outcome> {
    let scene = Scene::start(ready).await?;
    sleep(SETTLE_TIME + ready.contender.renewal_interval().mul_f64(random())).await;
    let old_leader = scene.leader().await?;
    let started_at = Instant::now();
    match fault {
        Fault::Kill if ready.contender.is_supervised() => old_leader.kill()?,
        Fault::Kill | Fault::KillAll => old_leader.signal_all(Signal::KILL)?,
        Fault::Freeze => old_leader.signal_all(Signal::STOP)?,
        Fault::Partition => old_leader.cut_off(),
        Fault::Graceful => old_leader.terminate()?,
    }
    let others = scene.seats.iter().filter(|seat| !std::ptr::eq(*seat, old_leader));
    let beats = others.map(|seat| Box::pin(seat.beat_after(started_at))).collect();
    let next_beat_at = timeout(TIMEOUT, first(beats)).await;
    let next_beat_at = next_beat_at
        .with_context(|| format!("no other leads\n{}", scene.recent_logs()))?
        .received_at;
    let since = if fault == Fault::Freeze { Instant::now() } else { next_beat_at };
    if fault == Fault::Freeze {
        old_leader.signal_all(Signal::CONT)?;
    }
    let has_ended = becomes_quiet(old_leader, since, watch_limit).await;
    let stale = old_leader.beats_since(next_beat_at);
    let last = stale.last().copied().unwrap_or(since);
    let stale_for = last.saturating_duration_since(since);
    Ok(Outcome { takeover: next_beat_at - started_at, stale: stale.len(), stale_for, has_ended })
}

/// Returns true if the beats of the old leader end before the observation does.
async fn becomes_quiet(old_leader: &Seat, since: Instant, watch_limit: Duration) -> bool {
    let mut last = since;
    while last < since + watch_limit {
        match timeout(QUIET_PERIOD, old_leader.beat_after(last)).await {
            Err(_) => return true,
            Ok(beat) => {
                last = old_leader.beats_since(last).last().copied().unwrap_or(beat.received_at)
            }
        }
    }
    false
}

/// Returns the requests per minute of all three candidates at rest, counted for `duration`. Servers
/// without HTTP provide their own counters.
///
/// # Errors
/// No candidate leads, or the store provides no count.
pub async fn measure_rest_rate(ready: &Ready, duration: Duration) -> Result<f64> {
    let scene = Scene::start(ready).await?;
    sleep(2 * SETTLE_TIME).await;
    let count = async || match ready.store() {
        Store::Blob(_) => anyhow::Ok(scene.seats.iter().map(Seat::requests).sum::<usize>() as u64),
        Store::Server(server) => server.received_count().await,
    };
    let count_before = count().await?;
    sleep(duration).await;
    let own_requests =
        if let Store::Server(server) = ready.store() { server.requests_per_count() } else { 0 };
    let sent = count().await? - count_before - own_requests;
    scene.leader().await?;
    Ok(sent as f64 * 60.0 / duration.as_secs_f64())
}

struct Scene {
    seats: [Seat; 3],
}

impl Scene {
    /// Starts three candidates, and waits until one leads.
    async fn start(ready: &Ready) -> Result<Self> {
        let election = ready.election().await?;
        let ada = Seat::start(ready, &election, "ada").await?;
        let beat = timeout(TIMEOUT, ada.beat_after(Instant::now())).await;
        beat.with_context(|| format!("nobody leads\n{}", ada.recent_log()))?;
        let start_follower = async |name| {
            sleep(ready.contender.poll_interval().mul_f64(random())).await;
            let seat = Seat::start(ready, &election, name).await?;
            seat.wait_for_traffic(TIMEOUT).await?;
            anyhow::Ok(seat)
        };
        let (ben, cyd) = tokio::try_join!(start_follower("ben"), start_follower("cyd"))?;
        Ok(Self { seats: [ada, ben, cyd] })
    }

    /// Waits until exactly one candidate beats, and returns it.
    async fn leader(&self) -> Result<&Seat> {
        let now = Instant::now();
        let [ada, ben, cyd] = &self.seats;
        let beats = async {
            tokio::select! {
                _ = ada.beat_after(now) => ada,
                _ = ben.beat_after(now) => ben,
                _ = cyd.beat_after(now) => cyd,
            }
        };
        let leader = timeout(TIMEOUT, beats).await;
        let leader = leader.with_context(|| format!("nobody beats\n{}", self.recent_logs()))?;
        let recent = now - Duration::from_secs(1);
        let beating = self.seats.iter().filter(|seat| !seat.beats_since(recent).is_empty());
        ensure!(beating.count() == 1, "two beat before the fault\n{}", self.recent_logs());
        Ok(leader)
    }

    fn recent_logs(&self) -> String {
        self.seats.iter().map(Seat::recent_log).collect::<Vec<_>>().join("\n")
    }
}

/// Returns a random number from 0 to 1.
fn random() -> f64 {
    let [.., a, b, c, d] = *uuid::Uuid::new_v4().as_bytes();
    f64::from(u32::from_le_bytes([a, b, c, d])) / f64::from(u32::MAX)
}
