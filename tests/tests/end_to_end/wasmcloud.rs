//! The manifests of `deploy/wasmcloud` on a wasmCloud host.

use std::path::Path;

use serde_json::{Value, json};
use tenure_tests::wasmcloud::WasmCloud;
use tenure_tests::{Outsider, PATIENCE, Reports, SERVICE, Store, UNRULY_HANDLER, examples, needs};

/// Returns the settings of the component `tenure.wasm` with these variables and this store.
fn election(store: &Store, mut env: Value) -> Value {
    env["AZURE_STORAGE_CONNECTION_STRING"] = store.connection_string().into();
    json!({ "file": examples::components().unwrap().join("tenure.wasm"), "env": env })
}

/// Starts `workload.yaml` with these variables of the election, and this handler.
async fn start_service(store: &Store, env: Value, handler: &Path, handler_env: Value) -> WasmCloud {
    let settings = json!({
        "service": { "file": SERVICE },
        "election": election(store, env),
        "report": { "file": handler, "env": handler_env },
    });
    WasmCloud::start("workload.yaml", &settings).await.unwrap()
}

async fn service_runs_turns_of_one_term() {
    let store = Store::embedded().await.unwrap();
    let reports = Reports::start().await.unwrap();
    let handler = examples::components().unwrap().join("report.wasm");
    let handler_env = json!({ "REPORT_URL": reports.url() });
    let host = start_service(&store, json!({ "TENURE_EVERY": "1s" }), &handler, handler_env).await;
    let all = tokio::select! {
        all = reports.wait_for(3, PATIENCE) => all,
        line = host.logged("P3 service") => panic!("{line}\n{}", host.log()),
    };
    assert!(all.iter().all(|report| report.json["term"] == all[0].json["term"]), "{all:?}");
    assert!(reports.turns().values().all(|count| *count == 1), "{all:?}");
}

needs!(Python => async fn service_runs_turns_of_one_term);

/// Each restart is a new candidate, which waits for the lease of its predecessor to expire.
async fn service_leads_again_after_each_trap_of_the_handler() {
    let store = Store::embedded().await.unwrap();
    let (env, handler_env) = (json!({ "TENURE_EVERY": "1s" }), json!({ "UNRULY": "trap" }));
    let host = start_service(&store, env, Path::new(UNRULY_HANDLER), handler_env).await;
    let outsider = Outsider::new(&store.connection_string(), "jobs/report");
    let mut terms = Vec::new();
    for traps in 0..3 {
        host.logged(&format!("retries={}", i32::MAX - traps)).await;
        terms.push(outsider.term().await.unwrap());
    }
    assert!(terms.is_sorted_by(|former, later| former < later), "{terms:?}\n{}", host.log());
}

needs!(Python => async fn service_leads_again_after_each_trap_of_the_handler);

/// The host starts a service again only if it fails.
async fn service_fails_with_wrong_settings() {
    let store = Store::embedded().await.unwrap();
    let handler = examples::components().unwrap().join("report.wasm");
    let host = start_service(&store, json!({ "TENURE_FAILOVER": "3s" }), &handler, json!({})).await;
    let complaint =
        "TENURE_FAILOVER: failover before the lease ends needs requests between the steps";
    host.logged(complaint).await;
    let end = host.logged("service exited").await;
    assert!(end.contains("exited with error"), "{end}");
}

needs!(Python => async fn service_fails_with_wrong_settings);

async fn http_request_to_the_declared_host_runs_a_turn() {
    let store = Store::embedded().await.unwrap();
    let reports = Reports::start().await.unwrap();
    let env = json!({
        "TENURE_EVERY": "1s",
        "TENURE_TICK_TOKEN": "only-for-tests",
        "TENURE_HANDLER_URL": reports.url(),
    });
    let settings = json!({ "tenure": election(&store, env) });
    let host = WasmCloud::start("http.yaml", &settings).await.unwrap();
    let url = format!("http://{}/tick", host.http_address().await.unwrap());
    // reqwest is built without a default crypto provider. A second call has no effect.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().timeout(PATIENCE).no_proxy().build().unwrap();
    let post = async |name: &str| {
        let request = client.post(&url).header("host", name).bearer_auth("only-for-tests");
        request.send().await.unwrap()
    };
    assert_eq!(post("other").await.status(), 404);
    // The first slot of a new election is in the future.
    loop {
        let response = post("tenure").await;
        assert_eq!(response.status(), 200, "{}", host.log());
        let result: Value = serde_json::from_slice(&response.bytes().await.unwrap()).unwrap();
        if result["outcome"] == "succeeded" {
            break;
        }
        assert_eq!(result["outcome"], "nothing-due", "{result}");
    }
    assert_eq!(reports.all().len(), 1);
}

needs!(Python => async fn http_request_to_the_declared_host_runs_a_turn);
