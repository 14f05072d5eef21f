//! The comparison, with few rounds: what it says of a lease loop without a deadline it does not say of Tenure.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use tenure_tests::compare::{Contender, Fault, Outcome, Setting, rest, round};
use tenure_tests::{Group, Sink, Store, needs};

/// `tenure` and the comparison both.
const PROGRAM: &str = env!("CARGO_BIN_EXE_compare");

async fn setting() -> Result<(Store, Setting)> {
    let store = Store::embedded().await?;
    Group::new(PROGRAM, &store, &Sink::start().await?).warm_up().await?;
    let connection_string = store.connection_string();
    Ok((store, Setting { program: PathBuf::from(PROGRAM), connection_string, failover: 3 }))
}

async fn suffers(setting: &Setting, contender: Contender, fault: Fault) -> Result<Outcome> {
    round(&contender.prepare(setting).await?, fault, Duration::from_secs(2)).await
}

async fn who_has_a_deadline_does_nothing_stale() {
    let (_store, setting) = setting().await.unwrap();
    let (loops, partition, kill, graceful) = tokio::join!(
        suffers(&setting, Contender::SdkPython, Fault::Partition),
        suffers(&setting, Contender::Tenure, Fault::Partition),
        suffers(&setting, Contender::TenureWatch, Fault::Kill),
        suffers(&setting, Contender::SdkPython, Fault::Graceful),
    );
    let loops = loops.unwrap();
    assert!(loops.stale > 0, "{loops}");
    for outcome in [partition, kill, graceful] {
        let outcome = outcome.unwrap();
        assert!(outcome.stale == 0 && outcome.ended, "{outcome}");
    }
}

needs!(Python => async fn who_has_a_deadline_does_nothing_stale);

async fn requests_in_rest_are_counted() {
    let (_store, setting) = setting().await.unwrap();
    let ready = Contender::SdkPython.prepare(&setting).await.unwrap();
    // Two followers that ask each second.
    assert!(rest(&ready, Duration::from_secs(4)).await.unwrap() > 0.0);
}

needs!(Python => async fn requests_in_rest_are_counted);
