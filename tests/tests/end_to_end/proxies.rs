//! Real processes that can reach their account only through a proxy.

use crate::PROGRAM;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::{Signal, kill_process};
use tenure_tests::{Access, BEAT_HANDLER, Candidate, Group, Proxy, Sink, Store};
use tokio::process::Command;

/// Limit of waits without a specific bound, on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(180);

/// Origin whose host only the proxy can resolve.
const ORIGIN: &str = "http://account.test";

/// The supervisor releases a lease that was acquired and renewed, and `tenure check` names the
/// proxy.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_account_is_reached_through_the_proxy() {
    let (store, sink) = (Store::embedded().await.unwrap(), Sink::start().await.unwrap());
    let mut group = Group::new(PROGRAM, &store, &sink);
    group.warm_up().await.unwrap();
    let actions = Arc::<Mutex<BTreeSet<String>>>::default();
    let recorder = actions.clone();
    let record_action = move |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        let is_proxied = text.lines().next().is_some_and(|line| line.contains(ORIGIN));
        let action = text.lines().find_map(|line| line.strip_prefix("x-ms-lease-action: "));
        if let (true, Some(action)) = (is_proxied, action) {
            recorder.lock().unwrap().insert(action.to_owned());
        }
    };
    let connection_string = group.connection_string.clone();
    let (proxy, proxy_connection_string) =
        Proxy::for_store_with_witness(&connection_string, record_action).await.unwrap();
    let address = format!("http://{}", proxy.address());
    group.access =
        Access::from_connection_string(proxy_connection_string.replace(&address, ORIGIN));
    let proxied = |mut command: Command| {
        command.env("HTTP_PROXY", address.replace("//", "//user:S3CRET@")).env_remove("NO_PROXY");
        command
    };

    let command = group.component("ada", &group.access, BEAT_HANDLER.as_ref(), &[]);
    let mut ada = Candidate::spawn("ada", proxied(command)).unwrap();
    ada.event("renewed", TIMEOUT).await;
    kill_process(ada.runner().unwrap(), Signal::KILL).unwrap();
    ada.end(TIMEOUT).await.unwrap();
    let log = ada.transcript();
    assert!(log.contains("was released, so another candidate can lead"), "{log}");
    assert!(!log.contains("S3CRET"), "{log}");
    let actions = actions.lock().unwrap().clone();
    assert_eq!(actions.iter().collect::<Vec<_>>(), ["acquire", "release", "renew"]);

    let mut command = Command::new(PROGRAM);
    command.args(["check", &group.election]);
    group.access.apply(&mut command);
    let output = proxied(command).output().await.unwrap();
    let report = String::from_utf8(output.stdout).unwrap();
    let route = format!("{ORIGIN} through the proxy {address} of HTTP_PROXY: ");
    let report = report.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(report.contains(&route) && !report.contains("S3CRET"), "{report}");
}
