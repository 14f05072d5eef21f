//! Chaos with few rounds: on each store four concurrent elections. In each the leader is killed,
//! frozen for longer than its lease, or cut off, or SIGTERMs hit it and followers in waves. The
//! program `chaos` runs any number of random rounds.

use std::time::Duration;

use anyhow::{Result, ensure};
use tenure_core::Failover;
use tenure_tests::chaos::{Case, Fault, Kind, Plan, ProcessFault, Setting, Target, round};
use tenure_tests::{Mode, Store, needs};
use tokio::task::JoinSet;

/// Program that acts as `tenure` and as the baseline.
const PROGRAM: &str = env!("CARGO_BIN_EXE_chaos");

/// No other candidate can lead until this much time after the validity: the margin (3 s) minus the
/// 2 s by which the service may be early (A1). Requests of an old term must never follow those of a
/// new term. The program `chaos` measures the slack of the runner itself.
const MAX_LATENESS: Duration = Duration::from_secs(1);

/// Longer than the lease.
const FAULT_DURATION: Duration = Duration::from_secs(16);

fn plan(cut: Option<Mode>, blow: Option<ProcessFault>, endless_turns: bool) -> Plan {
    let cut = cut.map(|mode| (Target::Leader, mode));
    let lasts = match blow {
        Some(ProcessFault::Kill | ProcessFault::Storm(_)) => Duration::ZERO,
        _ => FAULT_DURATION,
    };
    let fault =
        Fault { partition: cut, process_fault: blow, delay: Duration::ZERO, min_duration: lasts };
    Plan { candidates: vec![None; 3], endless_turns, faults: vec![fault] }
}

/// Returns the same plan with two candidates that replace a leader within 3 s and 2 s.
fn preemption_plan(blow: Option<ProcessFault>, cut: Option<Mode>) -> Plan {
    let within = |seconds| Failover { within: Duration::from_secs(seconds) };
    Plan { candidates: vec![Some(within(3)), Some(within(2)), None], ..plan(cut, blow, true) }
}

async fn assert_no_stale_requests(store: Result<Store>) -> Result<()> {
    let store = store?;
    let setting = Setting::new(PROGRAM, &store).await?;
    let plans = [
        (plan(None, Some(ProcessFault::Kill), false), vec![Case::Kill]),
        (plan(None, Some(ProcessFault::Freeze(Target::Leader)), true), vec![Case::Freeze]),
        (plan(Some(Mode::BlackHole), None, true), vec![Case::CutOff]),
        (plan(None, Some(ProcessFault::Storm(vec![0, 2, 1])), true), vec![Case::Terminate; 3]),
        (preemption_plan(Some(ProcessFault::Freeze(Target::Leader)), None), vec![Case::Freeze]),
        (preemption_plan(None, Some(Mode::BlackHole)), vec![Case::CutOff]),
    ];
    let mut rounds = JoinSet::new();
    for (plan, cases) in plans {
        let setting = setting.clone();
        rounds.spawn(async move {
            let outcome = round(&setting, Kind::Tenure, &plan).await?;
            let takeover_cases: Vec<_> = outcome.takeovers.iter().map(|(case, _)| *case).collect();
            ensure!(takeover_cases == cases, "{plan}: {takeover_cases:?}");
            let (stale, after) = (outcome.stale.len(), outcome.stale.iter().max());
            ensure!(stale == 0, "{plan}: {stale} stale requests, up to {after:?} after a newer");
            let late = outcome.late.iter().max().copied().unwrap_or_default();
            ensure!(late <= MAX_LATENESS, "{plan}: a request {late:?} after its holder's validity");
            ensure!(outcome.unexplained == 0 && outcome.won_twice == 0, "{plan}: {outcome:?}");
            ensure!(outcome.terms > cases.len() && outcome.beats > 0, "{plan}: {outcome:?}");
            Ok(())
        });
    }
    while let Some(ended) = rounds.join_next().await {
        ended??;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn no_stale_requests_on_embedded_store() {
    assert_no_stale_requests(Store::embedded().await).await.unwrap();
}

async fn no_stale_requests_on_azurite() {
    assert_no_stale_requests(Store::azurite().await).await.unwrap();
}

needs!(Node => async fn no_stale_requests_on_azurite);

/// Shows that the tests above can fail.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn baseline_without_expiry_clock_is_detected() {
    let store = Store::embedded().await.unwrap();
    let setting = Setting::new(PROGRAM, &store).await.unwrap();
    let plan = plan(Some(Mode::BlackHole), None, false);
    let outcome = round(&setting, Kind::Baseline, &plan).await.unwrap();
    let late = outcome.late.iter().max().copied().unwrap_or_default();
    assert!(!outcome.stale.is_empty() && late > MAX_LATENESS, "{late:?} {:?}", outcome.stale);
    assert_eq!((outcome.unexplained, outcome.won_twice), (0, 0));
}
