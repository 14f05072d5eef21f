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
struct Traffic {
    chunks: usize,
    /// Of HTTP/1.1; other protocols have none.
    requests: usize,
}

/// It is killed, with all its processes, when it is dropped.
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

    /// Waits until it has spoken to its store.
    pub(super) async fn wait_for_traffic(&self, limit: Duration) -> Result<()> {
        let mut traffic = self.traffic.subscribe();
        let result = timeout(limit, traffic.wait_for(|traffic| traffic.chunks > 0)).await;
        result.with_context(|| format!("it asks nothing of its store\n{}", self.recent_log()))??;
        Ok(())
    }

    /// Requests of HTTP/1.1 so far.
    pub(super) fn requests(&self) -> usize {
        self.traffic.borrow().requests
    }

    /// Its first beat after an instant. Waits for ever if need be.
    pub(super) async fn beat_after(&self, instant: Instant) -> Beat {
        self.sink.wait_for_beat(|beat| beat.received_at > instant).await
    }

    /// When its beats since an instant arrived.
    pub(super) fn beats_since(&self, instant: Instant) -> Vec<Instant> {
        let beats = self.sink.beats().into_iter().map(|beat| beat.received_at);
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
        self.proxy.set_mode(Mode::BlackHole);
    }

    /// The latest that it told, for whoever looks into a failure.
    pub(super) fn recent_log(&self) -> String {
        let transcript = self.candidate.transcript();
        let lines: Vec<_> = transcript.lines().collect();
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
