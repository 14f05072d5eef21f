//! Look-ups that are never answered: they cost a few threads and their own turn's places, no more.

use super::super::lookup::{Directory, LOOKUPS};
use super::super::turn::AT_A_TIME;
use super::super::{Error, Limits};
use super::{
    Answers, Budget, Connections, Gate, Outlet, component_gate, for_ever, policy, send, server,
};
use crate::egress::{AllowList, Policy};
use http_body_util::{BodyExt, Empty};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use tokio::sync::watch;

/// A resolver that answers when it is told to, and at the end of the test.
struct Silence(Arc<Resolver>);

#[derive(Default)]
struct Resolver {
    begun: watch::Sender<Vec<String>>,
    answers: (Mutex<bool>, Condvar),
}

impl Drop for Silence {
    fn drop(&mut self) {
        self.answer();
    }
}

impl Silence {
    fn new() -> Self {
        Self(Arc::default())
    }

    fn begun(&self) -> Vec<String> {
        let mut begun = self.0.begun.borrow().clone();
        begun.sort();
        begun
    }

    /// Waits until so many look-ups have begun.
    async fn has_begun(&self, count: usize) {
        let mut begun = self.0.begun.subscribe();
        begun.wait_for(|begun| begun.len() >= count).await.unwrap();
    }

    fn answer(&self) {
        *self.0.answers.0.lock().unwrap() = true;
        self.0.answers.1.notify_all();
    }
}

impl Directory for Arc<Resolver> {
    fn addresses(&self, name: &str) -> io::Result<Vec<SocketAddr>> {
        self.begun.send_modify(|begun| begun.push(name.to_owned()));
        let answers = self.answers.0.lock().unwrap();
        let _answers = self.answers.1.wait_while(answers, |answers| !*answers).unwrap();
        Err(io::Error::other("nobody has this name"))
    }

    fn own(&self) -> io::Result<Vec<IpAddr>> {
        Ok(Vec::new())
    }
}

fn outlet(silence: &Silence) -> Outlet {
    Outlet::with_directory(crate::egress::names::Names::OfOthers, silence.0.clone())
}

fn turn(outlet: &Outlet, names: &[String]) -> (Gate, Connections) {
    let connections = outlet.open(7, "jobs/one", for_ever());
    let mut allow = AllowList::default();
    names.iter().for_each(|name| allow.allow(name).unwrap());
    let policy = policy("unused", Answers::Streamed(1000));
    let policy = Arc::into_inner(policy).unwrap();
    (
        Gate::of_turn(
            Arc::new(Policy { allow, ..policy }),
            &connections,
            Arc::new(|_| {}),
            Budget::unlimited(),
        ),
        connections,
    )
}

/// Asks, and gives up after a moment.
async fn ask(gate: &Gate, name: &str) -> Error {
    let body = Empty::new().map_err(|never| match never {}).boxed_unsync();
    let request = http::Request::get(format!("http://{name}/")).body(body).unwrap();
    let first_byte = Some(Duration::from_millis(1));
    let limits = Limits { first_byte, ..Limits::default() };
    gate.clone().send(request, limits).await.unwrap_err()
}

#[tokio::test]
async fn who_gives_up_keeps_a_place_until_the_lookup_has_ended() {
    let silence = Silence::new();
    let outlet = outlet(&silence);
    let name = "silent.test".to_owned();
    let (gate, _connections) = turn(&outlet, std::slice::from_ref(&name));
    for _ in 0..AT_A_TIME {
        let failed = ask(&gate, &name).await;
        assert!(matches!(failed, Error::AnswerTimeout), "{failed:?}");
    }
    for _ in 0..3 {
        let failed = ask(&gate, &name).await;
        assert!(matches!(failed, Error::Busy), "{failed:?}");
    }
    silence.has_begun(1).await;
    assert_eq!(silence.begun(), ["silent.test"]);
    silence.answer();
    // There is room again as soon as it has ended.
    while matches!(ask(&gate, &name).await, Error::Busy) {}
}

#[tokio::test]
async fn a_handler_has_few_lookups_at_a_time_in_all_its_turns() {
    let silence = Silence::new();
    let outlet = outlet(&silence);
    let names: Vec<_> = (0..3 * LOOKUPS).map(|number| format!("silent{number}.test")).collect();
    for _ in 0..3 {
        let (gate, _connections) = turn(&outlet, &names);
        for name in &names {
            let failed = ask(&gate, name).await;
            assert!(matches!(failed, Error::AnswerTimeout), "{failed:?}");
        }
    }
    silence.has_begun(LOOKUPS).await;
    assert_eq!(silence.begun(), names[..LOOKUPS]);
}

#[test]
fn the_election_does_not_wait_for_lookups_of_a_handler() {
    // One thread for all that blocks: it would be taken.
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().max_blocking_threads(1).build().unwrap().block_on(async {
        let silence = Silence::new();
        let outlet = outlet(&silence);
        let name = "silent.test".to_owned();
        let (gate, _connections) = turn(&outlet, std::slice::from_ref(&name));
        ask(&gate, &name).await;
        silence.has_begun(1).await;
        let server = server().await;
        let address = format!("localhost:{}", server.address.port());
        let (gate, url) = (component_gate(&address), format!("http://{address}/"));
        let sent = tokio::time::timeout(Duration::from_secs(30), send(&gate, &url, "")).await;
        assert!(matches!(sent, Ok(Ok(_))), "{sent:?}");
    });
}
