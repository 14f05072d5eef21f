//! Shares move when members join and leave, and no share ever has two workers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tenure_core::Problem;

use tenure::engine::Election;
use tenure::settings::{Credential, Schedule, Settings};
use tenure::{Elector, Event, handler};
use tenure_clock::BootClock;
use tenure_members::{Part, Shares, SharesStore};
use tenure_shares::{StoreRequest, StoreResponse};
use tenure_tests::Store;
use tenure_tests::needs;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use uuid::Uuid;

/// Limit of waits without a specific bound, on a busy machine.
const TIMEOUT: Duration = tenure_tests::PATIENCE;

/// Running work, and its violations.
#[derive(Default)]
struct Observations {
    /// Worker of each share.
    workers: BTreeMap<Part, &'static str>,
    /// Newest term of each share.
    terms: BTreeMap<Part, u64>,
    /// Latest worker of each share.
    last_workers: BTreeMap<Part, &'static str>,
    /// Number of changes of worker.
    move_count: usize,
    violations: Vec<String>,
    problems: Vec<String>,
}

#[derive(Clone, Default)]
struct Checker {
    observations: Arc<Mutex<Observations>>,
    changed: Arc<Notify>,
}

/// Work in progress. Dropping it ends the work.
struct Work {
    checker: Checker,
    part: Part,
}

impl Checker {
    fn observations(&self) -> MutexGuard<'_, Observations> {
        // Ignores poisoning, so that the failed check stays the one that is reported.
        self.observations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start_work(&self, part: Part, term: u64, member: &'static str) -> Work {
        let mut observations = self.observations();
        let other = observations
            .workers
            .iter()
            .find(|(other, _)| **other == part || other.count != part.count);
        let other = other.map(|(other, other_member)| {
            format!("{member} begins {part:?} beside {other_member} with {other:?}")
        });
        observations.violations.extend(other);
        let newest = observations.terms.insert(part, term).unwrap_or(0);
        if newest >= term {
            observations
                .violations
                .push(format!("{member} begins {part:?} under {term} after {newest}"));
        }
        observations.workers.insert(part, member);
        let before = observations.last_workers.insert(part, member);
        observations.move_count += usize::from(before.is_some_and(|before| before != member));
        drop(observations);
        self.changed.notify_one();
        Work { checker: self.clone(), part }
    }

    /// Waits until the shares are balanced over these members. Returns the number of moves since
    /// the last call.
    async fn balanced(&self, members: &[&'static str], shares: u32) -> usize {
        let is_even = || {
            let observations = self.observations();
            let parts = (0..shares).map(|index| Part { index, count: shares });
            let share_count = |member: &&str| {
                observations.workers.values().filter(|worker| *worker == member).count()
            };
            let counts = members.iter().map(share_count).collect::<Vec<_>>();
            let (Some(most), Some(least)) = (counts.iter().max(), counts.iter().min()) else {
                return false;
            };
            let all =
                observations.workers.keys().copied().collect::<BTreeSet<_>>() == parts.collect();
            all && most - least <= 1 && counts.iter().sum::<usize>() == shares as usize
        };
        let balancing = async {
            while !is_even() {
                self.changed.notified().await;
            }
        };
        let is_balanced = timeout(TIMEOUT, balancing).await.is_ok();
        let mut observations = self.observations();
        assert!(
            is_balanced,
            "{members:?}: {:?}, {:?}, {:?}",
            observations.workers, observations.violations, observations.problems
        );
        std::mem::take(&mut observations.move_count)
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.checker.observations().workers.remove(&self.part);
        self.checker.changed.notify_one();
    }
}

struct Scene {
    connection_string: String,
    coordinating_election: String,
    /// Azurite may stall for a while, so its leases are longer.
    failover: Option<Duration>,
    checker: Checker,
}

struct Member {
    task: JoinHandle<()>,
    leave: oneshot::Sender<()>,
}

impl Scene {
    fn new(store: &Store) -> Self {
        Self {
            connection_string: store.connection_string(),
            coordinating_election: format!("tenure-test-{}/jobs/orders", Uuid::new_v4().simple()),
            failover: matches!(store, Store::Embedded(_)).then_some(Duration::from_secs(10)),
            checker: Checker::default(),
        }
    }

    fn settings(&self, name: &str) -> Settings {
        let credential = Credential::ConnectionString(self.connection_string.as_str().into());
        let mut settings = Settings::new(&self.coordinating_election, credential);
        settings.name = Some(name.to_owned());
        settings.failover = self.failover;
        settings.lease = Some(Duration::from_secs(60));
        settings.request_timeout = Some(Duration::from_secs(15));
        settings
    }

    async fn start(&self, name: &'static str, shares: u32) -> Member {
        let shares = Shares::new(&Elector::new(self.settings(name)).unwrap(), shares).unwrap();
        let checker = self.checker.clone();
        let record_problem = move |part, event| {
            if let Event::Problem { .. } = event {
                checker.observations().problems.push(format!("{name} {part:?}: {event:?}"));
            }
        };
        let shares = shares.grace(Duration::ZERO).on_event(record_problem);
        let checker = self.checker.clone();
        let work = move |part: Part| {
            let checker = checker.clone();
            handler::from_fn(move |turn, _| {
                let checker = checker.clone();
                async move {
                    let _work = checker.start_work(part, turn.term, name);
                    std::future::pending().await
                }
            })
        };
        let (leave, leave_requested) = oneshot::channel::<()>();
        let task = tokio::spawn(async move {
            let leave = async { drop(leave_requested.await) };
            shares.run(Schedule::WhileLeading, work, leave).await.unwrap();
        });
        Member { task, leave }
    }

    /// Does the work of the command `reshare`.
    async fn reshare(&self, shares: u32) {
        let election = Election::new(self.settings("command"), &BootClock::new());
        election.check().unwrap();
        let store = SharesStore::new(Arc::new(election), "command");
        let StoreResponse::Plan(plan, tag) = ask(&store, StoreRequest::ReadPlan(None)).await else {
            panic!("no plan")
        };
        let answer = ask(&store, StoreRequest::WritePlan(plan.reshare(shares), Some(tag))).await;
        assert!(matches!(answer, StoreResponse::Plan(..)), "{answer:?}");
    }
}

async fn ask(store: &SharesStore, ask: StoreRequest) -> StoreResponse {
    let response = store.send(&ask).await;
    assert_eq!(response.problem, None::<Problem>);
    response.response
}

impl Member {
    /// Stops its work at once, without a release, so that its leases expire.
    async fn kill(self) {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
    }

    async fn leave(self) {
        self.leave.send(()).unwrap();
        timeout(TIMEOUT, self.task).await.unwrap().unwrap();
    }
}

/// Runs 32 shares over three members, then four, three and two, and then another number of shares.
async fn shares_follow_members(store: Store) {
    let scene = Scene::new(&store);
    let checker = &scene.checker;
    let ada = scene.start("ada", 32).await;
    let ben = scene.start("ben", 32).await;
    let cleo = scene.start("cleo", 32).await;
    checker.balanced(&["ada", "ben", "cleo"], 32).await;

    let dora = scene.start("dora", 32).await;
    assert_eq!(checker.balanced(&["ada", "ben", "cleo", "dora"], 32).await, 8, "a join");
    ben.kill().await;
    assert_eq!(checker.balanced(&["ada", "cleo", "dora"], 32).await, 8, "a death");
    let cleo_shares =
        checker.observations().workers.values().filter(|worker| **worker == "cleo").count();
    cleo.leave().await;
    assert_eq!(checker.balanced(&["ada", "dora"], 32).await, cleo_shares, "a graceful leave");
    // Only the coordinator may have changed.
    scene.reshare(5).await;
    checker.balanced(&["ada", "dora"], 5).await;
    dora.leave().await;
    checker.balanced(&["ada"], 5).await;
    ada.leave().await;
    assert!(checker.observations().workers.is_empty());
    assert_eq!(checker.observations().violations, [""; 0], "{:?}", checker.observations().problems);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shares_follow_members_in_the_embedded_store() {
    shares_follow_members(Store::embedded().await.unwrap()).await;
}

async fn shares_follow_members_in_azurite() {
    shares_follow_members(Store::shared_azurite(false).await.unwrap()).await;
}

needs!(Node => async fn shares_follow_members_in_azurite);
