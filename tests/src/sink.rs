//! Sink without fencing: it accepts every beat of every leader and records its arrival time.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::Result;
use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};
use chrono::{DateTime, Utc};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// One beat.
#[derive(Clone, Copy, Debug)]
pub struct Beat {
    /// Time at which the beat had arrived completely.
    pub received_at: Instant,
    /// The same time on the clock of event timestamps.
    pub wall: DateTime<Utc>,
    /// Term of the sender.
    pub term: u64,
    /// Slot of its turn, in nanoseconds since 1970.
    pub slot: u64,
    /// Number of the beat within the turn.
    pub beat: u64,
    /// Id of the sending process, or 0 if the beat has none.
    pub pid: u64,
    /// Share of the work, and the number of shares, if the work is split. Each share has its own
    /// terms.
    pub share: Option<(u64, u64)>,
}

#[derive(Debug)]
struct Beats {
    all: Mutex<Vec<Beat>>,
    count: watch::Sender<usize>,
}

/// Sink for beats.
#[derive(Debug)]
pub struct Sink {
    address: SocketAddr,
    beats: Arc<Beats>,
    server: JoinHandle<()>,
}

impl Sink {
    /// Listens on a free port.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub async fn start() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let beats = Arc::new(Beats { all: Mutex::default(), count: watch::Sender::new(0) });
        let router = Router::new().route("/", post(receive_beat)).with_state(Arc::clone(&beats));
        let server = tokio::spawn(async move {
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self { address, beats, server })
    }

    /// Returns its address as `127.0.0.1:PORT`.
    #[must_use]
    pub fn host(&self) -> String {
        self.address.to_string()
    }

    /// Returns all beats so far, in order of arrival.
    #[must_use]
    pub fn beats(&self) -> Vec<Beat> {
        self.beats.all.lock().unwrap().clone()
    }

    /// Waits for the first beat that `matches`, without a time limit.
    pub async fn wait_for_beat(&self, matches: impl Fn(&Beat) -> bool) -> Beat {
        let mut count = self.beats.count.subscribe();
        let mut beats_seen = 0;
        loop {
            // Releases the lock before the wait.
            let found_beat = {
                let all = self.beats.all.lock().unwrap();
                let from = std::mem::replace(&mut beats_seen, all.len());
                all[from..].iter().copied().find(&matches)
            };
            if let Some(beat) = found_beat {
                return beat;
            }
            count.changed().await.expect("the sink lives");
        }
    }

    /// Waits for a beat of this term or a later one.
    pub async fn wait_for_term(&self, term: u64, limit: Duration) -> Beat {
        let beat = self.wait_for_beat(|beat| beat.term >= term);
        let result = tokio::time::timeout(limit, beat).await;
        result.unwrap_or_else(|_| panic!("no beat of term {term} within {limit:?}"))
    }

    /// Returns the longest time span in which beats of an earlier term arrived after the first of a
    /// later one, and the number of these beats.
    #[must_use]
    pub fn overlap(&self) -> (Duration, usize) {
        let stale_delays = stale_beats(&self.beats());
        (stale_delays.iter().max().copied().unwrap_or_default(), stale_delays.len())
    }

    /// Returns the slots that have beats of more than one term: their turns ran twice.
    #[must_use]
    pub fn repeated_slots(&self) -> Vec<u64> {
        let mut turns: Vec<_> = self.beats().iter().map(|beat| (beat.slot, beat.term)).collect();
        turns.sort_unstable();
        turns.dedup();
        turns.windows(2).filter(|pair| pair[0].0 == pair[1].0).map(|pair| pair[0].0).collect()
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn receive_beat(State(beats): State<Arc<Beats>>, Json(json): Json<Value>) {
    let number = |name: &str| json[name].as_u64().unwrap_or_default();
    let (term, slot, beat) = (number("term"), number("slot"), number("beat"));
    let pid = number("pid");
    let share = json["share"].as_u64().zip(json["shares"].as_u64());
    let mut all = beats.all.lock().unwrap();
    all.push(Beat { received_at: Instant::now(), wall: Utc::now(), term, slot, beat, pid, share });
    beats.count.send_replace(all.len());
}

/// Returns the delay of each stale beat since the first beat of a later term of the same share, in
/// order of arrival.
#[must_use]
pub fn stale_beats(beats: &[Beat]) -> Vec<Duration> {
    let mut shares: BTreeMap<_, BTreeMap<u64, Instant>> = BTreeMap::new();
    let mut stale_delays = Vec::new();
    for beat in beats {
        let first_beats = shares.entry(beat.share).or_default();
        first_beats.entry(beat.term).or_insert(beat.received_at);
        let first_of_later_term = first_beats.range(beat.term + 1..).map(|(_, first)| *first).min();
        stale_delays.extend(first_of_later_term.map(|first| beat.received_at - first));
    }
    stale_delays
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beats(arrivals: &[(u64, u64)]) -> Vec<Beat> {
        let (started_at, wall) = (Instant::now(), Utc::now());
        let beat = |&(ms, term): &(u64, u64)| {
            let after = Duration::from_millis(ms);
            Beat {
                received_at: started_at + after,
                wall: wall + after,
                term,
                slot: 0,
                beat: 0,
                pid: 0,
                share: None,
            }
        };
        arrivals.iter().map(beat).collect()
    }

    #[test]
    fn terms_one_after_the_other_do_not_overlap() {
        assert!(stale_beats(&beats(&[(0, 1), (20, 1), (40, 2), (60, 2)])).is_empty());
    }

    #[test]
    fn a_stale_beat_is_counted_once() {
        let beats = beats(&[(0, 1), (20, 2), (35, 1), (50, 2), (60, 3), (65, 2), (70, 1)]);
        assert_eq!(stale_beats(&beats), [15, 5, 50].map(Duration::from_millis));
    }

    #[test]
    fn a_share_has_terms_of_its_own() {
        let mut beats = beats(&[(0, 2), (20, 1), (30, 2), (50, 1)]);
        for (beat, share) in beats.iter_mut().zip([0, 1, 1, 1]) {
            beat.share = Some((share, 8));
        }
        assert_eq!(stale_beats(&beats), [Duration::from_millis(20)]);
    }
}
