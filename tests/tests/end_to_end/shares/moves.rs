//! Shares move where members come and go, and nothing is ever done twice at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tenure_core::Problem;

use tenure::engine::Election;
use tenure::settings::{Credential, Schedule, Settings};
use tenure::{Elector, Event, handler};
use tenure_clock::BootClock;
use tenure_members::{Part, Shares, SharesStore};
use tenure_shares::{Answer, Ask};
use tenure_tests::Store;
use tenure_tests::needs;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use uuid::Uuid;

/// For what has no bound of its own, on a busy machine.
const SOON: Duration = tenure_tests::PATIENCE;

/// What runs, and what is wrong with that.
#[derive(Default)]
struct Seen {
    /// Who works for each share.
    works: BTreeMap<Part, &'static str>,
    /// The newest term of each.
    terms: BTreeMap<Part, u64>,
    /// Who worked for it last.
    last: BTreeMap<Part, &'static str>,
    /// So often it was somebody else than the time before.
    moves: usize,
    wrong: Vec<String>,
    problems: Vec<String>,
}

#[derive(Clone, Default)]
struct Judge {
    seen: Arc<Mutex<Seen>>,
    changed: Arc<Notify>,
}

/// Work that is under way; it has stopped when this is dropped.
struct Work {
    judge: Judge,
    part: Part,
}

impl Judge {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        // A judgement that failed must stay the one that is told.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begins(&self, part: Part, term: u64, member: &'static str) -> Work {
        let mut seen = self.seen();
        let other =
            seen.works.iter().find(|(other, _)| **other == part || other.count != part.count);
        let other = other
            .map(|(other, who)| format!("{member} begins {part:?} beside {who} with {other:?}"));
        seen.wrong.extend(other);
        let newest = seen.terms.insert(part, term).unwrap_or(0);
        if newest >= term {
            seen.wrong.push(format!("{member} begins {part:?} under {term} after {newest}"));
        }
        seen.works.insert(part, member);
        let before = seen.last.insert(part, member);
        seen.moves += usize::from(before.is_some_and(|before| before != member));
        drop(seen);
        self.changed.notify_one();
        Work { judge: self.clone(), part }
    }

    /// Until there are so many shares that are spread evenly over these members. How many moved since the last time.
    async fn balanced(&self, members: &[&'static str], shares: u32) -> usize {
        let is_even = || {
            let seen = self.seen();
            let parts = (0..shares).map(|index| Part { index, count: shares });
            let held = |member: &&str| seen.works.values().filter(|who| *who == member).count();
            let counts = members.iter().map(held).collect::<Vec<_>>();
            let (Some(most), Some(least)) = (counts.iter().max(), counts.iter().min()) else {
                return false;
            };
            let all = seen.works.keys().copied().collect::<BTreeSet<_>>() == parts.collect();
            all && most - least <= 1 && counts.iter().sum::<usize>() == shares as usize
        };
        let waited = async {
            while !is_even() {
                self.changed.notified().await;
            }
        };
        let is_balanced = timeout(SOON, waited).await.is_ok();
        let mut seen = self.seen();
        assert!(
            is_balanced,
            "{members:?}: {:?}, {:?}, {:?}",
            seen.works, seen.wrong, seen.problems
        );
        std::mem::take(&mut seen.moves)
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.judge.seen().works.remove(&self.part);
        self.judge.changed.notify_one();
    }
}

struct Scene {
    connection_string: String,
    coordinating: String,
    /// Azurite may stand still for a while, and is given leases that bear it.
    failover: Option<Duration>,
    judge: Judge,
}

struct Member {
    task: JoinHandle<()>,
    leave: oneshot::Sender<()>,
}

impl Scene {
    fn of(store: &Store) -> Self {
        Self {
            connection_string: store.connection_string(),
            coordinating: format!("tenure-test-{}/jobs/orders", Uuid::new_v4().simple()),
            failover: matches!(store, Store::Embedded(_)).then_some(Duration::from_secs(10)),
            judge: Judge::default(),
        }
    }

    fn settings(&self, name: &str) -> Settings {
        let credential = Credential::ConnectionString(self.connection_string.as_str().into());
        let mut settings = Settings::new(&self.coordinating, credential);
        settings.name = Some(name.to_owned());
        settings.failover = self.failover;
        settings.lease = Some(Duration::from_secs(60));
        settings.request_timeout = Some(Duration::from_secs(15));
        settings
    }

    async fn start(&self, name: &'static str, shares: u32) -> Member {
        let shares = Shares::new(&Elector::new(self.settings(name)).unwrap(), shares).unwrap();
        let judge = self.judge.clone();
        let told = move |part, event| {
            if let Event::Problem { .. } = event {
                judge.seen().problems.push(format!("{name} {part:?}: {event:?}"));
            }
        };
        let shares = shares.grace(Duration::ZERO).on_event(told);
        let judge = self.judge.clone();
        let work = move |part: Part| {
            let judge = judge.clone();
            handler::from_fn(move |turn, _| {
                let judge = judge.clone();
                async move {
                    let _work = judge.begins(part, turn.term, name);
                    std::future::pending().await
                }
            })
        };
        let (leave, asked) = oneshot::channel::<()>();
        let task = tokio::spawn(async move {
            let leave = async { drop(asked.await) };
            shares.run(Schedule::WhileLeading, work, leave).await.unwrap();
        });
        Member { task, leave }
    }

    /// What a command does.
    async fn reshare(&self, shares: u32) {
        let election = Election::new(self.settings("command"), &BootClock::new());
        election.check().unwrap();
        let store = SharesStore::of(Arc::new(election), "command");
        let Answer::Plan(plan, tag) = ask(&store, Ask::ReadPlan(None)).await else {
            panic!("no plan")
        };
        let asked = ask(&store, Ask::WritePlan(plan.reshare(shares), Some(tag))).await;
        assert!(matches!(asked, Answer::Plan(..)), "{asked:?}");
    }
}

async fn ask(store: &SharesStore, ask: Ask) -> Answer {
    let told = store.ask(&ask).await;
    assert_eq!(told.problem, None::<Problem>);
    told.answer
}

impl Member {
    /// Its work is stopped in the same instant, and its leases run out.
    async fn kill(self) {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
    }

    async fn leave(self) {
        self.leave.send(()).unwrap();
        timeout(SOON, self.task).await.unwrap().unwrap();
    }
}

/// 32 shares over three members, four, three and two, and then others.
async fn shares_follow_members(store: Store) {
    let scene = Scene::of(&store);
    let judge = &scene.judge;
    let ada = scene.start("ada", 32).await;
    let ben = scene.start("ben", 32).await;
    let cleo = scene.start("cleo", 32).await;
    judge.balanced(&["ada", "ben", "cleo"], 32).await;

    let dora = scene.start("dora", 32).await;
    assert_eq!(judge.balanced(&["ada", "ben", "cleo", "dora"], 32).await, 8, "a join");
    ben.kill().await;
    assert_eq!(judge.balanced(&["ada", "cleo", "dora"], 32).await, 8, "a death");
    let held = judge.seen().works.values().filter(|who| **who == "cleo").count();
    cleo.leave().await;
    assert_eq!(judge.balanced(&["ada", "dora"], 32).await, held, "a graceful leave");
    // Who coordinates may have changed, and nobody else.
    scene.reshare(5).await;
    judge.balanced(&["ada", "dora"], 5).await;
    dora.leave().await;
    judge.balanced(&["ada"], 5).await;
    ada.leave().await;
    assert!(judge.seen().works.is_empty());
    assert_eq!(judge.seen().wrong, [""; 0], "{:?}", judge.seen().problems);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shares_follow_members_in_the_embedded_store() {
    shares_follow_members(Store::embedded().await.unwrap()).await;
}

async fn shares_follow_members_in_azurite() {
    shares_follow_members(Store::shared_azurite(false).await.unwrap()).await;
}

needs!(Node => async fn shares_follow_members_in_azurite);
