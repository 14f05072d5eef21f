//! The manifests of `deploy/wasmcloud` on a wasmCloud host.

use std::path::Path;
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::post;
use serde_json::{Value, json};
use tenure_tests::wasmcloud::WasmCloud;
use tenure_tests::{Outsider, PATIENCE, Reports, SERVICE, Store, UNRULY_HANDLER, examples, needs};
use tokio::net::TcpListener;
use tokio::time::sleep;

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

/// The service cannot stop the handler. It reports the turn as failed, so that it cools down.
async fn service_reports_a_turn_that_outlasts_its_validity() {
    const VALIDITY: Duration = Duration::from_secs(4);
    let store = Store::embedded().await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let answer_late = post(async || {
        sleep(VALIDITY + Duration::from_secs(1)).await;
        StatusCode::NO_CONTENT
    });
    tokio::spawn(async { axum::serve(listener, Router::new().route("/", answer_late)).await });
    let handler = examples::components().unwrap().join("report.wasm");
    let env = json!({
        "TENURE_EVERY": "1s",
        "TENURE_MARGIN": "11s",
        "TENURE_RENEW": "1s",
        "TENURE_REQUEST_TIMEOUT": "1s",
    });
    let host = start_service(&store, env, &handler, json!({ "REPORT_URL": url })).await;
    host.logged("leading, term").await;
    let line = host.logged("failed: it took ").await;
    assert!(line.contains("turn of term"), "{line}");
    host.logged("no longer leading").await;
}

needs!(Python => async fn service_reports_a_turn_that_outlasts_its_validity);

async fn the_handler_sees_only_its_own_variables() {
    let store = Store::embedded().await.unwrap();
    let handler_env = json!({ "UNRULY": "environment" });
    let env = json!({ "TENURE_EVERY": "1s" });
    let host = start_service(&store, env, Path::new(UNRULY_HANDLER), handler_env).await;
    let line = host.logged("failed: ").await;
    assert!(line.ends_with("failed: REPORT_URL UNRULY"), "{line}");
}

needs!(Python => async fn the_handler_sees_only_its_own_variables);

async fn the_handler_reaches_allowed_hosts_only() {
    let store = Store::embedded().await.unwrap();
    let reports = Reports::start().await.unwrap();
    let settings = json!({
        "service": { "file": SERVICE },
        "election": election(&store, json!({ "TENURE_EVERY": "1s" })),
        "report": {
            "file": examples::components().unwrap().join("report.wasm"),
            "env": { "REPORT_URL": reports.url() },
            "allowed": ["http://127.0.0.1:9"],
        },
    });
    let host = WasmCloud::start("workload.yaml", &settings).await.unwrap();
    let line = host.logged("failed: ").await;
    assert!(line.contains("HttpRequestDenied"), "{line}");
    assert!(reports.all().is_empty());
}

needs!(Python => async fn the_handler_reaches_allowed_hosts_only);

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
    let send = async |name: &str| {
        let request = client.post(&url).header("host", name).bearer_auth("only-for-tests");
        request.send().await.unwrap()
    };
    assert_eq!(send("other").await.status(), 404);
    // The first slot of a new election is in the future.
    loop {
        let response = send("tenure").await;
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
