//! What the tests of commands are played on.

use crate::PROGRAM;
use std::time::Duration;

use rustix::process::Pid;
use tenure_tests::{Beat, Candidate, Group, Line, Sink, Store, chaos};

/// Beats at the sink, and does not want to end.
pub const BEATER: &str = env!("CARGO_BIN_EXE_beater");

/// For what has no bound of its own, on a busy machine.
pub const SOON: Duration = tenure_tests::PATIENCE;

/// Who leaves its process group is found on Linux only.
pub const KIN: &str = if cfg!(target_os = "linux") { "stray" } else { "kin" };

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

    pub fn start(&self, name: &str, more: &[&str], work: &[&str]) -> Candidate {
        Candidate::spawn(name, self.group.command(name, more, work)).unwrap()
    }

    pub async fn beat_of(&self, term: u64, whose: u64) -> Beat {
        let beat = self.sink.beat_where(|beat| beat.term == term && beat.beat == whose);
        tokio::time::timeout(SOON, beat).await.expect("it beats")
    }

    /// Waits until all of a beating family has beaten under this term, and tells who it is.
    pub async fn family_beats(&self, term: u64) -> Vec<Pid> {
        let mut family = Vec::new();
        for whose in 0..=if KIN == "stray" { 2 } else { 1 } {
            let pid = self.beat_of(term, whose).await.pid;
            family.push(Pid::from_raw(pid.try_into().unwrap()).unwrap());
        }
        family
    }

    /// The last beat of a term came before the validity that its leader told of ended: by how many milliseconds.
    pub fn ended_in_time(&self, leader: &Candidate, term: u64) -> i64 {
        let ends = chaos::validity(&leader.lines())[&term];
        let left = (ends - self.last_beat_of(term).wall).num_milliseconds();
        assert!(left > 0, "{left} ms: {}", leader.transcript());
        left
    }

    pub fn last_beat_of(&self, term: u64) -> Beat {
        self.sink.beats().into_iter().rfind(|beat| beat.term == term).expect("it has beaten")
    }
}

/// The end of the first turn after so many lines.
pub async fn turn_ended(candidate: &Candidate, after: usize) -> Line {
    candidate.line("end of a turn", after, SOON, |line| line.name() == "turn-ended").await
}
