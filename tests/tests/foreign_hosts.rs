//! The components without our runner: on wasmtime from PyPI and on jco, against Azurite.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use tenure_tests::{Candidate, Reports, Store, examples, foreign};
use tokio::task::spawn_blocking;

const SOON: Duration = Duration::from_secs(60);

/// Three runners of a few lines of Python each, in one election.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_runner_in_python() {
    const TURNS: usize = 3;
    let component = examples::components().unwrap().join("election.wasm");
    let script = move || foreign::wasmtime("loop.py", &component);
    let store = Store::azurite().await.unwrap();
    let reports = Reports::start().await.unwrap();
    let mut runners = Vec::new();
    for name in ["ada", "ben", "cyd"] {
        let mut runner = spawn_blocking(script.clone()).await.unwrap().unwrap();
        runner
            .arg(TURNS.to_string())
            .env("TENURE_ELECTION", "tenure-test/loop")
            .env("TENURE_EVERY", "1s")
            .env("TENURE_NAME", name)
            .env("REPORT_URL", reports.url())
            .env("AZURE_STORAGE_CONNECTION_STRING", store.connection_string());
        runners.push(Candidate::spawn(name, runner).unwrap());
    }
    for runner in &mut runners {
        let status = runner.end(SOON).await.unwrap();
        assert!(status.success(), "{}", runner.transcript());
    }
    let all = reports.all();
    assert_eq!(all.len(), runners.len() * TURNS);
    assert!(reports.slots().values().all(|count| *count == 1), "{:?}", reports.slots());
    let terms: Vec<_> = all.iter().map(|report| report.json["term"].as_u64().unwrap()).collect();
    assert!(terms.is_sorted(), "{terms:?}");
    assert_eq!(terms.first() < terms.last(), true, "{terms:?}");
}
