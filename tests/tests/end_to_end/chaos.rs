//! Chaos, bounded: on each store one election whose leader is killed, one whose leader is frozen
//! for longer than its lease, one whose leader is cut off, and one that suffers a storm of
//! SIGTERMs, side by side. The program `chaos` draws any number of rounds.

use std::time::Duration;

use anyhow::{Result, ensure};
use tenure_core::Failover;
use tenure_tests::chaos::{Blow, Case, Fault, Kind, Plan, Setting, Whom, round};
use tenure_tests::{Mode, Store, needs};
use tokio::task::JoinSet;

/// `tenure` and the baseline both.
const PROGRAM: &str = env!("CARGO_BIN_EXE_chaos");

/// No other candidate can lead before this much time has passed after the validity: the margin (3 s) less the 2 s that
/// the service may be early (A1). That no request of an old term comes after one of a new term must
/// hold in any case. The slack of the runner itself is measured by the program `chaos`.
const LATE: Duration = Duration::from_secs(1);

/// Longer than the lease.
const LASTS: Duration = Duration::from_secs(16);

fn plan(cut: Option<Mode>, blow: Option<Blow>, endless_turns: bool) -> Plan {
    let cut = cut.map(|mode| (Whom::Leader, mode));
    let lasts = match blow {
        Some(Blow::Kill | Blow::Storm(_)) => Duration::ZERO,
        _ => LASTS,
    };
    let fault = Fault { cut, blow, after: Duration::ZERO, lasts };
    Plan { candidates: vec![None; 3], endless_turns, faults: vec![fault] }
}

/// The same with candidates of which two replace a leader within 3 s and 2 s.
fn before_the_lease_ends(blow: Option<Blow>, cut: Option<Mode>) -> Plan {
    let within = |seconds| Failover { within: Duration::from_secs(seconds) };
    Plan { candidates: vec![Some(within(3)), Some(within(2)), None], ..plan(cut, blow, true) }
}

async fn nothing_arrives_that_should_not(store: Result<Store>) -> Result<()> {
    let store = store?;
    let setting = Setting::new(PROGRAM, &store).await?;
    let plans = [
        (plan(None, Some(Blow::Kill), false), vec![Case::Kill]),
        (plan(None, Some(Blow::Freeze(Whom::Leader)), true), vec![Case::Freeze]),
        (plan(Some(Mode::BlackHole), None, true), vec![Case::CutOff]),
        (plan(None, Some(Blow::Storm(vec![0, 2, 1])), true), vec![Case::Stop; 3]),
        (before_the_lease_ends(Some(Blow::Freeze(Whom::Leader)), None), vec![Case::Freeze]),
        (before_the_lease_ends(None, Some(Mode::BlackHole)), vec![Case::CutOff]),
    ];
    let mut rounds = JoinSet::new();
    for (plan, cases) in plans {
        let setting = setting.clone();
        rounds.spawn(async move {
            let seen = round(&setting, Kind::Tenure, &plan).await?;
            let took: Vec<_> = seen.takeovers.iter().map(|(case, _)| *case).collect();
            ensure!(took == cases, "{plan}: {took:?}");
            let (stale, after) = (seen.stale.len(), seen.stale.iter().max());
            ensure!(stale == 0, "{plan}: {stale} stale requests, up to {after:?} after a newer");
            let late = seen.late.iter().max().copied().unwrap_or_default();
            ensure!(late <= LATE, "{plan}: a request {late:?} after its holder's validity");
            ensure!(seen.unexplained == 0 && seen.won_twice == 0, "{plan}: {seen:?}");
            ensure!(seen.terms > cases.len() && seen.beats > 0, "{plan}: {seen:?}");
            Ok(())
        });
    }
    while let Some(ended) = rounds.join_next().await {
        ended??;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn nothing_arrives_that_should_not_on_the_embedded_store() {
    nothing_arrives_that_should_not(Store::embedded().await).await.unwrap();
}

async fn nothing_arrives_that_should_not_on_azurite() {
    nothing_arrives_that_should_not(Store::azurite().await).await.unwrap();
}

needs!(Node => async fn nothing_arrives_that_should_not_on_azurite);

/// Else the tests above could be blind.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_leader_without_an_expiry_clock_is_seen() {
    let store = Store::embedded().await.unwrap();
    let setting = Setting::new(PROGRAM, &store).await.unwrap();
    let plan = plan(Some(Mode::BlackHole), None, false);
    let seen = round(&setting, Kind::Baseline, &plan).await.unwrap();
    let late = seen.late.iter().max().copied().unwrap_or_default();
    assert!(!seen.stale.is_empty() && late > LATE, "{late:?} {:?}", seen.stale);
    assert_eq!((seen.unexplained, seen.won_twice), (0, 0));
}
