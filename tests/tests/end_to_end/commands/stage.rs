//! Fixture for the tests of commands.

use crate::PROGRAM;
use std::time::Duration;

use rustix::process::Pid;
use tenure_tests::{Beat, Candidate, Group, Line, Sink, Store, chaos};

/// Program that beats at the sink and resists termination.
pub const BEATER: &str = env!("CARGO_BIN_EXE_beater");

/// Limit of waits without a specific bound, on a busy machine.
pub const TIMEOUT: Duration = tenure_tests::PATIENCE;

/// Only on Linux can the program find a process that left its process group.
pub const FAMILY_MODE: &str = if cfg!(target_os = "linux") { "stray" } else { "kin" };

pub struct Stage {
    _store: Store,
    pub sink: Sink,
    pub group: Group,
}

impl Stage {
    pub async fn new() -> Self {
        let store = Store::embedded().await.unwrap();
        let sink = Sink::start().await.unwrap();
        let mut group = Group::new(PROGRAM, &store, &sink);
        group.timer = ["--every", "1s"];
        group.warm_up().await.unwrap();
        Self { _store: store, sink, group }
    }

    pub fn start(&self, name: &str, extra_args: &[&str], work: &[&str]) -> Candidate {
        Candidate::spawn(name, self.group.command(name, extra_args, work)).unwrap()
    }

    pub async fn wait_for_beat(&self, term: u64, index: u64) -> Beat {
        let beat = self.sink.wait_for_beat(|beat| beat.term == term && beat.beat == index);
        tokio::time::timeout(TIMEOUT, beat).await.expect("it beats")
    }

    /// Waits until all processes of a beating family have beaten under this term, and returns their
    /// ids.
    pub async fn wait_for_family_beats(&self, term: u64) -> Vec<Pid> {
        let mut family = Vec::new();
        for index in 0..=if FAMILY_MODE == "stray" { 2 } else { 1 } {
            let pid = self.wait_for_beat(term, index).await.pid;
            family.push(Pid::from_raw(pid.try_into().unwrap()).unwrap());
        }
        family
    }

    /// Asserts that the last beat of a term came before the validity reported by its leader ended.
    /// Returns the margin in milliseconds.
    pub fn assert_ended_in_time(&self, leader: &Candidate, term: u64) -> i64 {
        let validity_end = chaos::validity(&leader.lines())[&term];
        let remaining_ms = (validity_end - self.last_beat_of(term).wall).num_milliseconds();
        assert!(remaining_ms > 0, "{remaining_ms} ms: {}", leader.transcript());
        remaining_ms
    }

    pub fn last_beat_of(&self, term: u64) -> Beat {
        self.sink.beats().into_iter().rfind(|beat| beat.term == term).expect("it has beaten")
    }
}

/// Waits for the first end of a turn after the first `after` lines.
pub async fn turn_ended(candidate: &Candidate, after: usize) -> Line {
    candidate.line("end of a turn", after, TIMEOUT, |line| line.name() == "turn-ended").await
}
