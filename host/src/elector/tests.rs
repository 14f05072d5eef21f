use super::*;
use crate::handler::{BoxFuture, TurnEnd};
use crate::membership::Role;
use crate::runner::Event;
use crate::settings::{Credential, Token, TokenProvider};
use std::collections::BTreeSet;
use std::error::Error as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};
use tenure_core::{LeaseState, variable};
use tenure_store::{Account, Service, Store};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};

async fn store() -> Store {
    let service = Service::new(vec![Account::emulator()], 1);
    Store::start(([127, 0, 0, 1], 0).into(), service).await.unwrap()
}

fn settings(store: &Store, name: &str) -> Settings {
    let credential = Credential::ConnectionString(store.connection_string().into());
    Settings { name: Some("ada".into()), ..Settings::new(format!("tests/{name}"), credential) }
}

/// Returns the next role, or `None` if there is no further one.
async fn next_role(roles: &mut watch::Receiver<Role>) -> Option<Role> {
    roles.changed().await.ok()?;
    Some(roles.borrow_and_update().clone())
}

/// Waits until the candidate leads, and returns the lease.
async fn wait_until_leading(roles: &mut watch::Receiver<Role>) -> Lease {
    loop {
        if let Role::Leading(lease) = next_role(roles).await.expect("it has not left") {
            return lease;
        }
    }
}

async fn lease_state(elector: &Elector) -> LeaseState {
    elector.election.check().unwrap();
    elector.election.inspect().await.unwrap().lease
}

#[tokio::test]
async fn leaving_one_election_keeps_the_others() {
    let store = store().await;
    let elector = |name: &str| Elector::new(settings(&store, name)).unwrap();
    let mut memberships: Vec<_> = ["a", "b", "c"].map(|name| elector(name).start().unwrap()).into();
    let mut roles: Vec<_> = memberships.iter().map(Membership::watch_role).collect();
    let mut leases = Vec::new();
    for roles in &mut roles {
        leases.push(wait_until_leading(roles).await);
    }
    assert!(leases.iter().all(|lease| !lease.is_lost()));

    memberships.remove(0).leave().await;
    assert!(matches!(next_role(&mut roles[0]).await, Some(Role::Left)) && leases[0].is_lost());
    assert!(next_role(&mut roles[0]).await.is_none());
    assert_eq!(lease_state(&elector("a")).await, LeaseState::Available);
    for (n, membership) in memberships.iter().enumerate() {
        let (roles, lease) = (&roles[n + 1], &leases[n + 1]);
        assert!(!roles.has_changed().unwrap() && !lease.is_lost());
        assert_eq!(membership.role().leading_term(), membership.leading_term());
        assert!(membership.leading_term().is_some());
    }
    // The same election again, which no other candidate holds.
    let rejoined = elector("a").start().unwrap();
    wait_until_leading(&mut rejoined.watch_role()).await;
    // Dropping a membership leaves too.
    drop(memberships);
    for roles in &mut roles[1..] {
        roles.wait_for(|role| matches!(role, Role::Left)).await.unwrap();
    }
    assert!(leases.iter().all(Lease::is_lost) && rejoined.leading_term().is_some());
    assert_eq!(lease_state(&elector("b")).await, LeaseState::Available);
    rejoined.leave().await;
}

#[tokio::test]
async fn all_invalid_settings_are_reported_together() {
    let store = store().await;
    let mut invalid = Settings { lease: Some(Duration::from_secs(5)), ..settings(&store, "a") };
    invalid.election = "tests".into();
    let error = Elector::new(invalid).unwrap_err();
    assert!(error.source().is_some_and(|source| source.to_string().contains("lease: ")));
    let NewElectorError::Settings(InvalidSettings(complaints)) = error else { panic!("{error}") };
    let named_settings: BTreeSet<_> = complaints.iter().map(|c| c.setting.variable()).collect();
    assert_eq!(named_settings, BTreeSet::from([variable::ELECTION, variable::LEASE]));
    // Jitter requires a timer.
    let jitter = Settings { jitter: Duration::from_secs(1), ..settings(&store, "a") };
    let InvalidSettings(complaints) = Elector::new(jitter).unwrap().start().unwrap_err();
    assert_eq!(complaints[0].setting.variable(), variable::JITTER);
}

#[tokio::test]
async fn work_runs_while_the_process_leads() {
    let store = store().await;
    let elector = Elector::new(settings(&store, "a")).unwrap();
    let (observed_term, started) = (Arc::new(AtomicU64::new(0)), Arc::new(Notify::new()));
    let (term, on_start) = (observed_term.clone(), started.clone());
    let work = move |lease: Lease| {
        assert!(!lease.is_lost() && lease.deadline() > SystemTime::now());
        term.store(lease.term(), Ordering::SeqCst);
        on_start.notify_one();
        async move {
            lease.lost().await;
            Ok(())
        }
    };
    elector.run_while_leading(started.notified(), work).await.unwrap();
    let first_term = observed_term.swap(0, Ordering::SeqCst);
    assert!(first_term > 0);
    assert_eq!(lease_state(&elector).await, LeaseState::Available);

    let (term, on_start) = (observed_term.clone(), started.clone());
    let schedule = Schedule::Every(Duration::from_secs(1));
    let work = move |turn: Turn, lease: Lease| {
        assert_eq!(turn.term, lease.term());
        term.store(lease.term(), Ordering::SeqCst);
        on_start.notify_one();
        async { Ok(()) }
    };
    elector.run_on_schedule(schedule, started.notified(), work).await.unwrap();
    assert!(observed_term.load(Ordering::SeqCst) > first_term);
}

#[tokio::test]
async fn events_are_read_until_the_process_has_left() {
    let store = store().await;
    let membership = Elector::new(settings(&store, "a")).unwrap().start().unwrap();
    let mut events = membership.events();
    let elected = loop {
        if let Event::Elected { term, .. } = events.next().await.expect("it has not left") {
            break term;
        }
    };
    assert_eq!(membership.leading_term(), Some(elected));
    membership.leave().await;
    let mut last = None;
    while let Some(event) = events.next().await {
        last = Some(event);
    }
    assert!(matches!(last, Some(Event::Stopped)), "{last:?}");
}

/// Handler that makes its candidate panic when the first turn starts.
struct PanicInLoop;

impl Handler for PanicInLoop {
    fn on_tick(&self, _: Turn, _: Lease) -> BoxFuture<'_, TurnEnd> {
        Box::pin(pending())
    }

    fn overtime(&self) -> Duration {
        panic!("the candidate ends")
    }
}

#[tokio::test]
async fn events_end_with_a_candidate_that_panics() {
    let store = store().await;
    let elector = Elector::new(settings(&store, "a")).unwrap();
    let membership = elector.start_with_handler(Schedule::WhileLeading, PanicInLoop).unwrap();
    let mut events = membership.events();
    let mut is_elected = false;
    while let Some(event) = events.next().await {
        is_elected |= matches!(event, Event::Elected { .. });
    }
    assert!(is_elected);
    assert!(matches!(membership.role(), Role::Left));
    assert!(membership.events().next().await.is_none());
}

#[derive(Debug)]
struct OneToken;

impl TokenProvider for OneToken {
    fn token(&self) -> BoxFuture<'_, Result<Token, BoxError>> {
        let expires = SystemTime::now() + Duration::from_secs(3600);
        Box::pin(async move { Ok(Token::new("t0", expires)) })
    }
}

#[tokio::test]
async fn requests_carry_the_token_of_a_provider() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let account = format!("http://{}/acme", listener.local_addr().unwrap());
    let credential = Credential::tokens(account, OneToken);
    let elector = Elector::new(Settings::new("jobs/report", credential)).unwrap();
    let membership = elector.start().unwrap();
    let (stream, _) = listener.accept().await.unwrap();
    let mut lines = BufReader::new(stream).lines();
    let mut authorizations = Vec::new();
    while let Some(line) = lines.next_line().await.unwrap().filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once(": ").unwrap_or_default();
        if name.eq_ignore_ascii_case("authorization") {
            authorizations.push(value.to_owned());
        }
    }
    assert_eq!(authorizations, ["Bearer t0"]);
    drop(membership);
}
