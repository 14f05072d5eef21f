//! The comparison with few rounds: it finds stale work of a lease loop without a deadline, and none
//! of Tenure.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use tenure_tests::compare::{Contender, Fault, Outcome, Setting, measure_rest_rate, round};
use tenure_tests::{Group, Sink, Store, needs};

/// Program that acts as `tenure` and as the comparison.
const PROGRAM: &str = env!("CARGO_BIN_EXE_compare");

async fn setting() -> Result<(Store, Setting)> {
    let store = Store::embedded().await?;
    Group::new(PROGRAM, &store, &Sink::start().await?).warm_up().await?;
    let connection_string = store.connection_string();
    Ok((store, Setting { program: PathBuf::from(PROGRAM), connection_string, failover: 3 }))
}

async fn run_fault(setting: &Setting, contender: Contender, fault: Fault) -> Result<Outcome> {
    round(&contender.prepare(setting).await?, fault, Duration::from_secs(2)).await
}

async fn contenders_with_deadline_send_nothing_stale() {
    let (_store, setting) = setting().await.unwrap();
    let (sdk_loop, partition, kill, graceful) = tokio::join!(
        run_fault(&setting, Contender::SdkPython, Fault::Partition),
        run_fault(&setting, Contender::Tenure, Fault::Partition),
        run_fault(&setting, Contender::TenureWatch, Fault::Kill),
        run_fault(&setting, Contender::SdkPython, Fault::Graceful),
    );
    let sdk_loop = sdk_loop.unwrap();
    assert!(sdk_loop.stale > 0, "{sdk_loop}");
    for outcome in [partition, kill, graceful] {
        let outcome = outcome.unwrap();
        assert!(outcome.stale == 0 && outcome.has_ended, "{outcome}");
    }
}

needs!(Python => async fn contenders_with_deadline_send_nothing_stale);

async fn idle_requests_are_counted() {
    let (_store, setting) = setting().await.unwrap();
    let ready = Contender::SdkPython.prepare(&setting).await.unwrap();
    // Two followers poll each second.
    assert!(measure_rest_rate(&ready, Duration::from_secs(4)).await.unwrap() > 0.0);
}

needs!(Python => async fn idle_requests_are_counted);
