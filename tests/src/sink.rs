//! A sink that does not fence: it takes every beat of every leader and notes when it came.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::Result;
use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// One beat.
#[derive(Clone, Copy, Debug)]
pub struct Beat {
    /// When it arrived.
    pub at: Instant,
    /// The term of the leader that sent it.
    pub term: u64,
    /// The slot of its turn, in nanoseconds since 1970.
    pub slot: u64,
    /// Its number within the turn.
    pub beat: u64,
}

#[derive(Debug)]
struct Beats {
    all: Mutex<Vec<Beat>>,
    count: watch::Sender<usize>,
}

/// The sink.
#[derive(Debug)]
pub struct Sink {
    address: SocketAddr,
    beats: Arc<Beats>,
    server: JoinHandle<()>,
}

impl Sink {
    /// Listens on a port that the kernel picks.
    ///
    /// # Errors
    /// It cannot listen.
    pub async fn start() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let beats = Arc::new(Beats { all: Mutex::default(), count: watch::Sender::new(0) });
        let router = Router::new().route("/", post(take)).with_state(Arc::clone(&beats));
        let server = tokio::spawn(async move {
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self { address, beats, server })
    }

    /// Where it listens, as `127.0.0.1:PORT`.
    #[must_use]
    pub fn host(&self) -> String {
        self.address.to_string()
    }

    /// All beats so far, in the order of their arrival.
    #[must_use]
    pub fn beats(&self) -> Vec<Beat> {
        self.beats.all.lock().unwrap().clone()
    }

    /// Waits for a beat of this term or a later one.
    pub async fn beat_of(&self, term: u64, limit: Duration) -> Beat {
        let found = || self.beats().into_iter().find(|beat| beat.term >= term);
        let mut count = self.beats.count.subscribe();
        let waited = tokio::time::timeout(limit, async {
            loop {
                if let Some(beat) = found() {
                    return beat;
                }
                count.changed().await.expect("the sink lives");
            }
        });
        waited.await.unwrap_or_else(|_| panic!("no beat of term {term} within {limit:?}"))
    }

    /// How long beats of an earlier term went on arriving after the first of a later one:
    /// the longest such span, and how many beats arrived in it.
    #[must_use]
    pub fn overlap(&self) -> (Duration, usize) {
        overlap(&self.beats())
    }

    /// Slots that beat under more than one term: turns that ran twice.
    #[must_use]
    pub fn doubled_slots(&self) -> Vec<u64> {
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

async fn take(State(beats): State<Arc<Beats>>, Json(json): Json<Value>) {
    let number = |name: &str| json[name].as_u64().unwrap_or_default();
    let (term, slot, beat) = (number("term"), number("slot"), number("beat"));
    let mut all = beats.all.lock().unwrap();
    all.push(Beat { at: Instant::now(), term, slot, beat });
    beats.count.send_replace(all.len());
}

fn overlap(beats: &[Beat]) -> (Duration, usize) {
    let (mut longest, mut count) = (Duration::ZERO, 0);
    for (index, first) in beats.iter().enumerate() {
        let newest_before = beats[..index].iter().map(|beat| beat.term).max().unwrap_or(0);
        if first.term <= newest_before {
            continue;
        }
        // The first beat of a new term: whatever comes later of an older one is stale.
        for stale in beats[index..].iter().filter(|beat| beat.term < first.term) {
            longest = longest.max(stale.at - first.at);
            count += 1;
        }
    }
    (longest, count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beats(arrivals: &[(u64, u64)]) -> Vec<Beat> {
        let began = Instant::now();
        let at = |ms| began + Duration::from_millis(ms);
        arrivals.iter().map(|&(ms, term)| Beat { at: at(ms), term, slot: 0, beat: 0 }).collect()
    }

    #[test]
    fn terms_one_after_the_other_do_not_overlap() {
        assert_eq!(overlap(&beats(&[(0, 1), (20, 1), (40, 2), (60, 2)])), (Duration::ZERO, 0));
    }

    #[test]
    fn a_stale_beat_is_seen() {
        let stale = beats(&[(0, 1), (20, 2), (35, 1), (50, 2), (70, 1)]);
        assert_eq!(overlap(&stale), (Duration::from_millis(50), 2));
    }
}
