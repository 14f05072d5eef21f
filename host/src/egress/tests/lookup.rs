//! Lookups that are never answered use a few threads and slots of their own turn only.

use super::super::lookup::{Directory, MAX_LOOKUPS, NamePolicy};
use super::super::turn::MAX_REQUESTS;
use super::super::{Error, Limits};
use super::{
    Budget, Connections, Gate, Outlet, ResponseMode, component_gate, policy, send, server,
    unlimited_lease,
};
use crate::egress::{AllowList, Policy};
use http_body_util::{BodyExt, Empty};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use tokio::sync::watch;

/// A resolver that answers on request, and at the end of the test.
struct SilentResolver(Arc<Resolver>);

#[derive(Default)]
struct Resolver {
    started: watch::Sender<Vec<String>>,
    answers: (Mutex<bool>, Condvar),
}

impl Drop for SilentResolver {
    fn drop(&mut self) {
        self.answer();
    }
}

impl SilentResolver {
    fn new() -> Self {
        Self(Arc::default())
    }

    fn started(&self) -> Vec<String> {
        let mut names = self.0.started.borrow().clone();
        names.sort();
        names
    }

    /// Waits until this number of lookups has started.
    async fn wait_for_lookups(&self, count: usize) {
        let mut receiver = self.0.started.subscribe();
        receiver.wait_for(|begun| begun.len() >= count).await.unwrap();
    }

    fn answer(&self) {
        *self.0.answers.0.lock().unwrap() = true;
        self.0.answers.1.notify_all();
    }
}

impl Directory for Arc<Resolver> {
    fn addresses(&self, name: &str) -> io::Result<Vec<SocketAddr>> {
        self.started.send_modify(|begun| begun.push(name.to_owned()));
        let answers = self.answers.0.lock().unwrap();
        let _answers = self.answers.1.wait_while(answers, |answers| !*answers).unwrap();
        Err(io::Error::other("nobody has this name"))
    }

    fn local_addresses(&self) -> io::Result<Vec<IpAddr>> {
        Ok(Vec::new())
    }
}

fn outlet(resolver: &SilentResolver) -> Outlet {
    Outlet::with_directory(NamePolicy::RemoteOnly, resolver.0.clone())
}

fn turn(outlet: &Outlet, names: &[String]) -> (Gate, Connections) {
    let connections = outlet.open(7, "jobs/one", unlimited_lease());
    let mut allow = AllowList::default();
    names.iter().for_each(|name| allow.allow(name).unwrap());
    let policy = policy("unused", ResponseMode::Streamed(1000));
    let policy = Arc::into_inner(policy).unwrap();
    (
        Gate::for_turn(
            Arc::new(Policy { allow, ..policy }),
            &connections,
            Arc::new(|_| {}),
            Budget::unlimited(),
        ),
        connections,
    )
}

/// Sends a request, and gives up after a moment.
async fn request_error(gate: &Gate, name: &str) -> Error {
    let body = Empty::new().map_err(|never| match never {}).boxed_unsync();
    let request = http::Request::get(format!("http://{name}/")).body(body).unwrap();
    let first_byte = Some(Duration::from_millis(1));
    let limits = Limits { first_byte, ..Limits::default() };
    gate.clone().send(request, limits).await.unwrap_err()
}

#[tokio::test]
async fn a_timed_out_request_keeps_its_slot_until_the_lookup_ends() {
    let resolver = SilentResolver::new();
    let outlet = outlet(&resolver);
    let name = "silent.test".to_owned();
    let (gate, _connections) = turn(&outlet, std::slice::from_ref(&name));
    for _ in 0..MAX_REQUESTS {
        let failed = request_error(&gate, &name).await;
        assert!(matches!(failed, Error::ResponseTimeout), "{failed:?}");
    }
    for _ in 0..3 {
        let failed = request_error(&gate, &name).await;
        assert!(matches!(failed, Error::TooManyRequests), "{failed:?}");
    }
    resolver.wait_for_lookups(1).await;
    assert_eq!(resolver.started(), ["silent.test"]);
    resolver.answer();
    // The slot is free as soon as the lookup has ended.
    while matches!(request_error(&gate, &name).await, Error::TooManyRequests) {}
}

#[tokio::test]
async fn lookups_of_a_handler_are_limited_over_all_turns() {
    let resolver = SilentResolver::new();
    let outlet = outlet(&resolver);
    let names: Vec<_> = (0..3 * MAX_LOOKUPS).map(|number| format!("silent{number}.test")).collect();
    for _ in 0..3 {
        let (gate, _connections) = turn(&outlet, &names);
        for name in &names {
            let failed = request_error(&gate, name).await;
            assert!(matches!(failed, Error::ResponseTimeout), "{failed:?}");
        }
    }
    resolver.wait_for_lookups(MAX_LOOKUPS).await;
    assert_eq!(resolver.started(), names[..MAX_LOOKUPS]);
}

#[test]
fn the_election_does_not_wait_for_lookups_of_a_handler() {
    // A single blocking thread, which the lookup would occupy.
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().max_blocking_threads(1).build().unwrap().block_on(async {
        let resolver = SilentResolver::new();
        let outlet = outlet(&resolver);
        let name = "silent.test".to_owned();
        let (gate, _connections) = turn(&outlet, std::slice::from_ref(&name));
        request_error(&gate, &name).await;
        resolver.wait_for_lookups(1).await;
        let server = server().await;
        let address = format!("localhost:{}", server.address.port());
        let (gate, url) = (component_gate(&address), format!("http://{address}/"));
        let sent = tokio::time::timeout(Duration::from_secs(30), send(&gate, &url, "")).await;
        assert!(matches!(sent, Ok(Ok(_))), "{sent:?}");
    });
}
