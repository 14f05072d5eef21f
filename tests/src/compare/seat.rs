//! A candidate with a sink and a proxy of its own.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Signal, kill_process, kill_process_group};
use tokio::sync::watch;
use tokio::time::timeout;

use super::contender::{Ready, Store};
use crate::{Beat, Candidate, Mode, Proxy, Sink};

/// What a candidate sent to its store.
#[derive(Clone, Copy, Debug, Default)]
struct Sent {
    pieces: usize,
    /// Of HTTP/1.1; other protocols have none.
    requests: usize,
}

/// It is killed, with all its processes, when it is dropped.
pub(super) struct Seat {
    candidate: Candidate,
    sink: Sink,
    proxy: Proxy,
    sent: watch::Sender<Sent>,
}

impl Seat {
    pub(super) async fn start(ready: &Ready, election: &str, name: &str) -> Result<Self> {
        let (sink, sent) = (Sink::start().await?, watch::Sender::new(Sent::default()));
        let counted = sent.clone();
        let witness = move |bytes: &[u8]| {
            let heads = bytes.windows(9).filter(|window| *window == b" HTTP/1.1").count();
            counted.send_modify(|sent| {
                sent.pieces += 1;
                sent.requests += heads;
            });
        };
        let (proxy, through) = match ready.store() {
            Store::Blob(account) => Proxy::of_store_with(account, witness).await?,
            Store::Server(server) => {
                let proxy = Proxy::start_with(server.address, witness).await?;
                let through = proxy.address().to_string();
                (proxy, through)
            }
        };
        let command = ready.command(name, election, &through, &sink.host())?;
        let candidate = Candidate::spawn(name, command)?;
        Ok(Self { candidate, sink, proxy, sent })
    }

    /// Waits until it has spoken to its store.
    pub(super) async fn speaks(&self, limit: Duration) -> Result<()> {
        let mut sent = self.sent.subscribe();
        let spoke = timeout(limit, sent.wait_for(|sent| sent.pieces > 0)).await;
        spoke.with_context(|| format!("it asks nothing of its store\n{}", self.told()))??;
        Ok(())
    }

    /// Requests of HTTP/1.1 so far.
    pub(super) fn requests(&self) -> usize {
        self.sent.borrow().requests
    }

    /// Its first beat after an instant. Waits for ever if need be.
    pub(super) async fn beat_after(&self, instant: Instant) -> Beat {
        self.sink.beat_where(|beat| beat.at > instant).await
    }

    /// When its beats since an instant arrived.
    pub(super) fn beats_since(&self, instant: Instant) -> Vec<Instant> {
        let beats = self.sink.beats().into_iter().map(|beat| beat.at);
        beats.filter(|at| *at > instant).collect()
    }

    /// Kills the process that leads, and no other.
    pub(super) fn kill(&self) -> Result<()> {
        Ok(kill_process(self.candidate.runner()?, Signal::KILL)?)
    }

    /// Asks it to stop: the process that was started, as an init system does.
    pub(super) fn terminate(&self) -> Result<()> {
        Ok(kill_process(self.candidate.id()?, Signal::TERM)?)
    }

    /// A signal for all its processes.
    pub(super) fn signal_all(&self, signal: Signal) -> Result<()> {
        Ok(kill_process_group(self.candidate.id()?, signal)?)
    }

    /// From now on nothing passes between it and its store. Connections stay.
    pub(super) fn cut_off(&self) {
        self.proxy.set(Mode::BlackHole);
    }

    /// The latest that it told, for whoever looks into a failure.
    pub(super) fn told(&self) -> String {
        let told = self.candidate.transcript();
        let lines: Vec<_> = told.lines().collect();
        let last = &lines[lines.len().saturating_sub(8)..];
        format!("{}: {}", self.candidate.name, last.join("\n  "))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        // The group is gone when it ended by itself.
        let _ = self.signal_all(Signal::KILL);
    }
}
