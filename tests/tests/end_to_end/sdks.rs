//! Azure's current SDKs against the embedded store, each with its defaults. One program exercises
//! containers, blobs, ranges, listings, metadata, conditions and leases, as a user's own tests
//! would.

use std::process::Command;

use anyhow::Result;
use chrono::{TimeDelta, Utc};
use tenure_store::sas::{SasParameters, Scope};
use tenure_store::{Account, KeyName, Store, run};
use tenure_tests::{needs, sdk, tools};
use tokio::task::spawn_blocking;

/// Runs a program with `argument`, and expects its final line.
async fn assert_sdk_works(
    make: impl FnOnce() -> Result<Command> + Send + 'static,
    argument: impl FnOnce(&Store) -> String,
) {
    let store = run(([127, 0, 0, 1], 0).into(), Vec::new()).await.unwrap();
    let argument = argument(&store);
    let output =
        spawn_blocking(move || tools::run_command(make().unwrap().arg(argument))).await.unwrap();
    assert_eq!(output.unwrap(), "all is well\n");
    // Also catches problems that the program missed: requests with a parameter unknown to the
    // store.
    let unknown_parameters = store.with(|service| {
        let codes = service.log().entries().filter_map(|entry| entry.code);
        codes.filter(|code| *code == "InvalidQueryParameterValue").count()
    });
    assert_eq!(unknown_parameters, 0);
}

async fn python_sdk_works_with_embedded_store() {
    assert_sdk_works(|| sdk::python("tests/sdk/python/use.py"), Store::connection_string).await;
}

needs!(Python => async fn python_sdk_works_with_embedded_store);

async fn javascript_sdk_works_with_embedded_store() {
    assert_sdk_works(|| sdk::javascript("tests/sdk/javascript/use.mjs"), Store::connection_string)
        .await;
}

needs!(Node => async fn javascript_sdk_works_with_embedded_store);

/// This SDK supports tokens and signatures, but no keys.
#[tokio::test(flavor = "multi_thread")]
async fn rust_sdk_works_with_embedded_store() {
    let make = || sdk::rust("tenure-sdk");
    assert_sdk_works(make, |store| {
        let scope = Scope::Account { services: "b".to_owned(), types: "sco".to_owned() };
        let terms = SasParameters::new(scope, "rwdlc", Utc::now() + TimeDelta::hours(1));
        let account = Account::emulator();
        let token = account.sas(KeyName::Key1, &terms).unwrap();
        format!("http://{}/{}?{}", store.address(), account.name(), token.query())
    })
    .await;
}
