//! Baseline for comparison with Tenure: a timer that writes "last run" after the run, without a
//! condition.
//!
//! Timer triggers of function platforms work like this. Its replicas also use a lease, and have the
//! same kills and freezes at the same times.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use tokio::task::{JoinHandle, LocalSet};
use tokio::time::{Instant, sleep, sleep_until};

use super::Slots;
use super::dice::Dice;
use super::fault::Fault;
use super::plan::{Plan, Rules};
use super::world::Millis;

/// Duration of the lock without a renewal.
const LEASE: Millis = 15_000;

/// Interval between two slots.
const INTERVAL: Millis = 1_000;

/// Longest downtime of a killed replica, and longest freeze.
const MAX_DOWNTIME: Millis = 20_000;

/// Contents of the storage account, and the end of each replica's freeze.
struct Account {
    started_at: Instant,
    holder: Option<(usize, Millis)>,
    last_run: Millis,
    frozen_until: Vec<Millis>,
    runs_by_slot: BTreeMap<Millis, u64>,
}

type Shared = Rc<RefCell<Account>>;

fn now(account: &Shared) -> Millis {
    u64::try_from(account.borrow().started_at.elapsed().as_millis()).unwrap_or(Millis::MAX)
}

/// Runs the timetable of a seed with this timer.
///
/// # Panics
/// If the machine cannot create a runtime.
#[must_use]
pub fn run(seed: u64) -> Slots {
    let plan = Plan::timetable(seed, Rules::default());
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().expect("a runtime");
    let account = LocalSet::new().block_on(&runtime, simulate(seed, plan));
    let runs = &account.borrow().runs_by_slot;
    let repeated = runs.values().filter(|runs| **runs > 1).count() as u64;
    let run = runs.len() as u64;
    Slots { claimed: run, run, turns: runs.values().sum(), repeated }
}

async fn simulate(seed: u64, plan: Plan) -> Shared {
    let replicas = plan.machines.len();
    let (holder, runs) = (None, BTreeMap::new());
    let frozen_until = vec![0; replicas];
    let account = Account {
        started_at: Instant::now(),
        holder,
        last_run: 0,
        frozen_until,
        runs_by_slot: runs,
    };
    let account = Rc::new(RefCell::new(account));
    let dice = &mut Dice::new(seed, 7);
    let start = |replica, start_delay| {
        let account = account.clone();
        let dice = Dice::new(seed, 100 + replica as u64 + 10 * now(&account));
        tokio::task::spawn_local(self::replica(account, replica, start_delay, dice))
    };
    let mut tasks: Vec<JoinHandle<()>> = (0..replicas).map(|replica| start(replica, 0)).collect();
    for timed_fault in &plan.timed {
        wait_until(&account, timed_fault.at).await;
        let Some((leader, _)) = account.borrow().holder else { continue };
        let downtime = dice.between(0, MAX_DOWNTIME);
        match timed_fault.fault {
            Fault::PauseBetween => {
                account.borrow_mut().frozen_until[leader] = timed_fault.at + LEASE + downtime
            }
            _ => {
                tasks[leader].abort();
                tasks[leader] = start(leader, downtime);
            }
        }
    }
    wait_until(&account, plan.calm).await;
    account
}

async fn wait_until(account: &Shared, at: Millis) {
    let started_at = account.borrow().started_at;
    sleep_until(started_at + Duration::from_millis(at)).await;
}

/// Sleeps for this time, and until the replica is no longer frozen.
async fn sleep_unless_frozen(account: &Shared, replica: usize, millis: Millis) {
    sleep(Duration::from_millis(millis)).await;
    let frozen_until = account.borrow().frozen_until[replica];
    if frozen_until > now(account) {
        wait_until(account, frozen_until).await;
    }
}

async fn replica(account: Shared, replica: usize, start_delay: Millis, mut dice: Dice) {
    sleep_unless_frozen(&account, replica, start_delay).await;
    loop {
        sleep_unless_frozen(&account, replica, dice.between(1, 20)).await;
        let at = now(&account);
        let is_holder = {
            let mut account = account.borrow_mut();
            let is_free =
                account.holder.is_none_or(|(holder, ends)| holder == replica || ends <= at);
            if is_free {
                account.holder = Some((replica, at + LEASE));
            }
            is_free
        };
        let slot = at - at % INTERVAL;
        if is_holder && slot > account.borrow().last_run {
            sleep_unless_frozen(&account, replica, dice.between(1, 20)).await;
            *account.borrow_mut().runs_by_slot.entry(slot).or_default() += 1;
            sleep_unless_frozen(&account, replica, dice.between(0, 300)).await;
            // This overwrites any newer value.
            account.borrow_mut().last_run = slot;
        }
        let wait = INTERVAL - now(&account) % INTERVAL;
        sleep_unless_frozen(&account, replica, wait).await;
    }
}
