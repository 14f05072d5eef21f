//! Candidate with its own sink and proxy.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Signal, kill_process, kill_process_group};
use tokio::sync::watch;
use tokio::time::timeout;

use super::contender::{Ready, Store};
use crate::{Beat, Candidate, Mode, Proxy, Sink};

/// Traffic from a candidate to its store.
#[derive(Clone, Copy, Debug, Default)]
struct Traffic {
    chunks: usize,
    /// Number of HTTP/1.1 requests; 0 for other protocols.
    requests: usize,
}

/// Candidate with its sink and proxy. Dropping it kills all its processes.
pub(super) struct Seat {
    candidate: Candidate,
    sink: Sink,
    proxy: Proxy,
    traffic: watch::Sender<Traffic>,
}

impl Seat {
    pub(super) async fn start(ready: &Ready, election: &str, name: &str) -> Result<Self> {
        let (sink, traffic) = (Sink::start().await?, watch::Sender::new(Traffic::default()));
        let traffic_sender = traffic.clone();
        let witness = move |bytes: &[u8]| {
            let request_count = bytes.windows(9).filter(|window| *window == b" HTTP/1.1").count();
            traffic_sender.send_modify(|traffic| {
                traffic.chunks += 1;
                traffic.requests += request_count;
            });
        };
        let (proxy, store_address) = match ready.store() {
            Store::Blob(account) => Proxy::for_store_with_witness(account, witness).await?,
            Store::Server(server) => {
                let proxy = Proxy::start_with_witness(server.address, witness).await?;
                let store_address = proxy.address().to_string();
                (proxy, store_address)
            }
        };
        let command = ready.command(name, election, &store_address, &sink.host())?;
        let candidate = Candidate::spawn(name, command)?;
        Ok(Self { candidate, sink, proxy, traffic })
    }

    /// Waits until it has sent data to its store.
    pub(super) async fn wait_for_traffic(&self, limit: Duration) -> Result<()> {
        let mut traffic = self.traffic.subscribe();
        let result = timeout(limit, traffic.wait_for(|traffic| traffic.chunks > 0)).await;
        result
            .with_context(|| format!("it asks nothing of its store\n{}", self.recent_log()))??;
        Ok(())
    }

    /// Returns the number of HTTP/1.1 requests so far.
    pub(super) fn requests(&self) -> usize {
        self.traffic.borrow().requests
    }

    /// Waits for its first beat after an instant, without a time limit.
    pub(super) async fn beat_after(&self, instant: Instant) -> Beat {
        self.sink.wait_for_beat(|beat| beat.received_at > instant).await
    }

    /// Returns the arrival times of its beats since an instant.
    pub(super) fn beats_since(&self, instant: Instant) -> Vec<Instant> {
        let beats = self.sink.beats().into_iter().map(|beat| beat.received_at);
        beats.filter(|at| *at > instant).collect()
    }

    /// Kills the process that leads, and no other.
    pub(super) fn kill(&self) -> Result<()> {
        Ok(kill_process(self.candidate.runner()?, Signal::KILL)?)
    }

    /// Sends SIGTERM to the started process, like an init system.
    pub(super) fn terminate(&self) -> Result<()> {
        Ok(kill_process(self.candidate.id()?, Signal::TERM)?)
    }

    /// Sends a signal to all its processes.
    pub(super) fn signal_all(&self, signal: Signal) -> Result<()> {
        Ok(kill_process_group(self.candidate.id()?, signal)?)
    }

    /// Drops all data between it and its store from now on. Connections stay open.
    pub(super) fn cut_off(&self) {
        self.proxy.set_mode(Mode::BlackHole);
    }

    /// Returns its latest log lines, to debug a failure.
    pub(super) fn recent_log(&self) -> String {
        let transcript = self.candidate.transcript();
        let lines: Vec<_> = transcript.lines().collect();
        let last = &lines[lines.len().saturating_sub(8)..];
        format!("{}: {}", self.candidate.name, last.join("\n  "))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        // The group no longer exists if it ended on its own.
        let _ = self.signal_all(Signal::KILL);
    }
}
