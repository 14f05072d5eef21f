//! A round of faults: a working leader behind a proxy, a standby, and observations of both.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use rustix::process::Pid;
use tenure_tests::{Access, Beat, Candidate, Proxy};
use tokio::task::JoinSet;

use super::processes::is_alive;
use super::stage::{BEATER, FAMILY_MODE, Stage, TIMEOUT};

/// Number of concurrent rounds, each in its own election.
const AT_A_TIME: usize = 3;

/// Purpose for which the leader's command starts.
#[derive(Clone, Copy, Debug)]
pub enum Work {
    /// Each slot. The command never ends, so there is only one turn.
    Slots,
    /// The whole leadership, once.
    WhileLeading,
}

/// Processes of a leader's work, and the number alive at each release.
#[derive(Default)]
struct Witness {
    family: OnceLock<Vec<Pid>>,
    releases: Mutex<Vec<usize>>,
}

pub struct Round {
    number: usize,
    work: Work,
    pub stage: Stage,
    pub proxy: Proxy,
    pub old: Candidate,
    pub new: Candidate,
    pub term: u64,
    witness: Arc<Witness>,
}

/// Runs `fault` in each round: one for each kind of work, or as many as
/// `TENURE_TEST_COMMAND_ROUNDS` sets.
pub async fn rounds<F>(fault: impl Fn(Round) -> F + Copy + Send + Sync + 'static)
where
    F: Future<Output = Round> + Send,
{
    let count = std::env::var("TENURE_TEST_COMMAND_ROUNDS");
    let count = count.map_or(2, |count| count.parse().unwrap());
    let mut running = JoinSet::new();
    for number in 0..count {
        if running.len() == AT_A_TIME {
            resume_panic(running.join_next().await.unwrap());
        }
        let work = if number % 2 == 0 { Work::WhileLeading } else { Work::Slots };
        running.spawn(async move {
            let mut round = fault(Round::start(number, work).await).await;
            round.assert_no_work_at_release();
            let status = round.new.terminate(TIMEOUT).await.unwrap();
            assert!(status.success(), "{round}");
        });
    }
    while let Some(round) = running.join_next().await {
        resume_panic(round);
    }
}

fn resume_panic(round: Result<(), tokio::task::JoinError>) {
    if let Err(error) = round {
        std::panic::resume_unwind(error.into_panic());
    }
}

impl Round {
    /// Starts a leader and the standby, and waits until all processes of the leader's work beat.
    async fn start(number: usize, work: Work) -> Self {
        let mut stage = Stage::new().await;
        let extra_args: &[&str] = match work {
            Work::Slots => &[],
            Work::WhileLeading => {
                stage.group.timer = ["--poll", "4s"];
                &["--while-leading"]
            }
        };
        let witness = Arc::<Witness>::default();
        let observer = witness.clone();
        let connection_string = &stage.group.connection_string;
        let proxy_start =
            Proxy::for_store_with_witness(connection_string, move |bytes| observer.observe(bytes));
        let (proxy, proxy_connection_string) = proxy_start.await.unwrap();
        let mut proxied_group = stage.group.clone();
        proxied_group.access = Access::from_connection_string(proxy_connection_string);
        let command = proxied_group.command("old", extra_args, &[BEATER, FAMILY_MODE]);
        let old = Candidate::spawn("old", command).unwrap();
        let term = old.event("turn-started", TIMEOUT).await.term();
        let new = stage.start("new", extra_args, &[BEATER, FAMILY_MODE]);
        new.event("following", TIMEOUT).await;
        witness.family.set(stage.wait_for_family_beats(term).await).unwrap();
        Self { number, work, stage, proxy, old, new, term, witness }
    }

    /// Waits for the successor's work, and asserts that all processes of the leader's work are
    /// dead.
    pub async fn assert_succeeded(&mut self) {
        self.wait_for_later_term().await;
        self.assert_no_work_at_release();
        assert_eq!(self.alive(), [], "{self}");
        let (overlap, stale) = self.stage.sink.overlap();
        assert_eq!(stale, 0, "stale beats arrived for {overlap:?}: {self}");
    }

    /// Waits for the successor's work.
    pub async fn wait_for_later_term(&mut self) {
        let later = self.new.event("turn-started", TIMEOUT).await.term();
        assert!(later > self.term, "{self}");
        self.stage.wait_for_family_beats(later).await;
    }

    /// Returns the processes of the leader's work.
    pub fn family(&self) -> &[Pid] {
        self.witness.family.get().unwrap()
    }

    /// Returns the processes that are still alive.
    pub fn alive(&self) -> Vec<Pid> {
        self.family().iter().copied().filter(|pid| is_alive(*pid)).collect()
    }

    /// Returns the last beat of the leader's work.
    pub fn last_beat(&self) -> Beat {
        self.stage.last_beat_of(self.term)
    }

    /// Asserts that the last beat came before the end of the leader's last reported validity.
    pub fn assert_ended_in_time(&self) {
        let remaining_ms = self.stage.assert_ended_in_time(&self.old, self.term);
        self.report(&format!(
            "the last beat came {remaining_ms} ms before the end of the validity"
        ));
    }

    /// Asserts that no process of the leader's work was alive at any of its releases.
    fn assert_no_work_at_release(&self) {
        let alive = self.witness.releases.lock().unwrap();
        assert!(alive.iter().all(|count| *count == 0), "alive at each release: {alive:?}: {self}");
    }

    /// Returns the number of releases that the leader has sent.
    pub fn releases(&self) -> usize {
        self.witness.releases.lock().unwrap().len()
    }

    /// Prints a message for statistics over many rounds.
    pub fn report(&self, message: &str) {
        println!("{:?}, round {}: {message}", self.work, self.number);
    }

    /// Returns the time from `instant` to the last beat, in milliseconds.
    pub fn last_beat_after(&self, instant: Instant) -> u128 {
        self.last_beat().received_at.saturating_duration_since(instant).as_millis()
    }
}

impl Witness {
    fn observe(&self, bytes: &[u8]) {
        if String::from_utf8_lossy(bytes).contains("x-ms-lease-action: release") {
            let family = self.family.get().map_or(&[][..], Vec::as_slice);
            let alive = family.iter().filter(|pid| is_alive(**pid)).count();
            self.releases.lock().unwrap().push(alive);
        }
    }
}

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (old, new) = (self.old.transcript(), self.new.transcript());
        write!(f, "{:?}, round {}\nold:\n{old}\nnew:\n{new}", self.work, self.number)
    }
}
