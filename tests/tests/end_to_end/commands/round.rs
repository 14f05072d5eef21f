//! A round of faults: a leader at work behind a proxy, a standby, and what was seen of both.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use rustix::process::Pid;
use tenure_tests::{Access, Beat, Candidate, Proxy};
use tokio::task::JoinSet;

use super::processes::is_alive;
use super::stage::{BEATER, FAMILY_MODE, TIMEOUT, Stage};

/// Rounds that go on at a time, each in an election of its own.
const AT_A_TIME: usize = 3;

/// What the leader's command is started for.
#[derive(Clone, Copy, Debug)]
pub enum Work {
    /// For each slot. It never ends, so there is one turn only.
    Slots,
    /// Once, for as long as it leads.
    WhileLeading,
}

/// Processes of a leader's work, and how many of them lived whenever a release came by.
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

/// Has each round suffer `fault`: one for each kind of work, unless
/// `TENURE_TEST_COMMAND_ROUNDS` says how many in all.
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
    /// A leader, the standby, and all of the leader's family at work.
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
        let proxy_start = Proxy::for_store_with_witness(connection_string, move |bytes| observer.observe(bytes));
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

    /// Waits for the successor's work. Nothing of the leader's runs any more.
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

    /// The processes of the leader's work.
    pub fn family(&self) -> &[Pid] {
        self.witness.family.get().unwrap()
    }

    /// Those that still live.
    pub fn alive(&self) -> Vec<Pid> {
        self.family().iter().copied().filter(|pid| is_alive(*pid)).collect()
    }

    /// The last beat of the leader's work.
    pub fn last_beat(&self) -> Beat {
        self.stage.last_beat_of(self.term)
    }

    /// The last beat came before the leader's validity ended, as far as that has told of it.
    pub fn assert_ended_in_time(&self) {
        let remaining_ms = self.stage.assert_ended_in_time(&self.old, self.term);
        self.report(&format!("the last beat came {remaining_ms} ms before the end of the validity"));
    }

    /// Nothing of the leader's work lived when a release of its went out.
    fn assert_no_work_at_release(&self) {
        let alive = self.witness.releases.lock().unwrap();
        assert!(alive.iter().all(|count| *count == 0), "alive at each release: {alive:?}: {self}");
    }

    /// How many releases the leader has sent.
    pub fn releases(&self) -> usize {
        self.witness.releases.lock().unwrap().len()
    }

    /// For the figures of many rounds.
    pub fn report(&self, message: &str) {
        println!("{:?}, round {}: {message}", self.work, self.number);
    }

    /// How long after `instant` the last beat came, in milliseconds.
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
