//! One election on all platforms from registries: wasmtime in Python, wasmtime's own program, jco
//! and workerd.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;
use tenure_tests::cloudflare::Worker;
use tenure_tests::foreign::WarmHost;
use tenure_tests::{PATIENCE, Reports, needs};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::foreign_hosts::{Scene, TOKEN, component, instant, post};

const SLOTS: i64 = 60;

/// Caller of a host.
enum Caller {
    Process(Box<WarmHost>),
    Url(String),
}

impl Caller {
    async fn call(&mut self) -> Value {
        match self {
            Self::Process(host) => host.turn().await.unwrap(),
            Self::Url(url) => {
                let (status, response) = post(url.clone(), Some(TOKEN)).await;
                assert_eq!(status, 200, "{response}");
                response
            }
        }
    }
}

/// Ten callers call in each second: of three processes in Python, of three servers twice, and of
/// the cron trigger of a worker.
async fn ten_callers_on_mixed_platforms_take_one_turn_per_slot() {
    let scene = Scene::new("1s").await;
    let tenure = component("tenure.wasm");
    let worker = spawn_blocking(Worker::bundle).await.unwrap().unwrap();
    // The query names the host that ran a turn.
    let url = |host: &str| format!("{}?{host}", scene.reports.url());
    let servers = [
        scene.serve_by_wasmtime(&tenure, &url("program")).await,
        scene.serve_by_jco(&tenure, &url("jco")).await,
        scene.serve_by_workerd(&worker, &url("workerd")).await,
    ];
    let cron = scene.serve_by_workerd(&worker, &url("cron")).await;
    let urls = servers.iter().chain(&servers).map(|server| server.url("/tick"));
    let mut callers: Vec<_> = urls.chain([cron.url("/scheduled")]).map(Caller::Url).collect();
    for _ in 0..3 {
        let mut python = scene.wasmtime(&tenure).await;
        python.env("TENURE_HANDLER_URL", url("python"));
        let host = WarmHost::start(python).await.unwrap();
        callers.push(Caller::Process(Box::new(host)));
    }
    assert_eq!(callers.len(), 10);

    let (done, start) = (Arc::new(AtomicBool::new(false)), Instant::now());
    let mut calls = JoinSet::new();
    for mut caller in callers {
        let done = Arc::clone(&done);
        let mut beat = interval_at(start, Duration::from_secs(1));
        beat.set_missed_tick_behavior(MissedTickBehavior::Skip);
        calls.spawn(async move {
            let mut responses = Vec::new();
            while !done.load(Ordering::Relaxed) {
                beat.tick().await;
                responses.push(caller.call().await);
            }
            if let Caller::Process(host) = caller {
                assert!(host.end().await.unwrap());
            }
            responses
        });
    }
    tokio::select! {
        result = tokio::time::timeout(PATIENCE, enough_turns(&scene.reports)) => result.unwrap(),
        Some(ended) = calls.join_next() => panic!("a caller ended: {ended:?}"),
    }
    done.store(true, Ordering::Relaxed);
    let responses = calls.join_all().await.concat();

    let outcomes: Vec<_> = responses.iter().map(|response| response["outcome"].as_str()).collect();
    let known = ["succeeded", "followed", "nothing-due", "ok"].map(Some);
    assert!(outcomes.iter().all(|outcome| known.contains(outcome)), "{responses:#?}");
    let turn_count = scene.assert_reported_once();
    let reports = scene.reports.all();
    // The cron trigger has no response.
    let by_cron = reports.iter().filter(|report| report.query.as_deref() == Some("cron")).count();
    let succeeded = outcomes.iter().filter(|outcome| **outcome == Some("succeeded")).count();
    assert_eq!(turn_count, succeeded + by_cron);
    // Each slot had its turn, or the next turn counts it as missed.
    let mut turns: Vec<_> = reports.iter().map(|report| &report.json).collect();
    turns.sort_by_key(|turn| second(turn));
    for pair in turns.windows(2) {
        let missed = pair[1]["missed"].as_i64().unwrap();
        assert_eq!(second(pair[1]), second(pair[0]) + 1 + missed, "{pair:#?}");
    }
}

needs!(Node, Python => async fn ten_callers_on_mixed_platforms_take_one_turn_per_slot);

/// Waits until the turns span [`SLOTS`], and each server, the trigger and a process had one.
async fn enough_turns(reports: &Reports) {
    let mut all = Vec::new();
    loop {
        all = reports.wait_for(all.len() + 1, PATIENCE).await;
        let senders: BTreeSet<_> = all.iter().map(|report| &report.query).collect();
        let slots: BTreeSet<_> = all.iter().map(|report| second(&report.json)).collect();
        let (Some(first), Some(last)) = (slots.first(), slots.last()) else { continue };
        if senders.len() == 5 && last - first >= SLOTS - 1 {
            break;
        }
    }
}

/// Returns the Unix time of a turn's slot.
fn second(turn: &Value) -> i64 {
    instant(&turn["slot"]).timestamp()
}
