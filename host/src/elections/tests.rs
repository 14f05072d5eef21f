use super::*;
use crate::contract::LeaseState;
use crate::handler::from_fn;
use crate::settings::names;
use futures_util::FutureExt as _;
use std::collections::BTreeSet;
use tenure_store::{Account, Service, Store};

fn settings(store: &Store, name: &str) -> Variables {
    Variables::new()
        .with(names::ELECTION, format!("tests/{name}"))
        .with(names::NAME, "ada")
        .with(names::WHILE_LEADING, "true")
        .with(names::CONNECTION_STRING, store.connection_string())
}

/// The term, once it leads, and how long it may act.
async fn leads(roles: &mut Roles) -> (u64, Deadline) {
    loop {
        if let Role::Leading { term, valid } = roles.next().await.expect("it has not left") {
            return (term, valid);
        }
    }
}

#[tokio::test]
async fn one_is_left_while_the_others_go_on() {
    let service = Service::new(vec![Account::emulator()], 1);
    let store = Store::start(([127, 0, 0, 1], 0).into(), service).await.unwrap();
    let tenure = Tenure::start().unwrap();
    let candidate = |name: &str| {
        let work = from_fn(|_, _| std::future::pending());
        tenure.candidate(settings(&store, name), work).grace(Duration::ZERO)
    };
    let (mut handles, mut roles) = (Vec::new(), Vec::new());
    for name in ["a", "b", "c"] {
        let handle = tenure.add(candidate(name)).await.unwrap();
        roles.push(handle.watch());
        handles.push(handle);
    }
    let mut valid = Vec::new();
    for role in &mut roles {
        let (term, until) = leads(role).await;
        assert!(term > 0 && !until.passed());
        valid.push(until);
    }

    handles.remove(0).leave().await;
    assert!(matches!(roles[0].next().await, Some(Role::Left)) && valid[0].passed());
    assert!(roles[0].next().await.is_none());
    let seen = candidate("a");
    seen.elector.check().unwrap();
    let seen = seen.elector.inspect().await.unwrap();
    assert_eq!(seen.lease, LeaseState::Available);
    for ((roles, handle), valid) in roles.iter_mut().skip(1).zip(&handles).zip(&valid[1..]) {
        assert!(roles.next().now_or_never().is_none() && !valid.passed());
        assert_eq!(handle.role().leads(), handle.leads());
        assert!(handle.leads().is_some());
    }
    // One that cannot begin harms nobody.
    let wrong = settings(&store, "a").with(names::LEASE, "5s").with(names::ELECTION, "tests");
    let wrong = tenure.add(tenure.candidate(wrong, from_fn(|_, _| async { Ok(()) })));
    let Err(InvalidSettings(complaints)) = wrong.await else { panic!("it is wrong") };
    let about: BTreeSet<_> = complaints.iter().map(|c| c.setting.as_str()).collect();
    assert_eq!(about, BTreeSet::from([names::ELECTION, names::LEASE]));
    // The same election again, and nobody who holds it.
    let mut again = tenure.add(candidate("a")).await.unwrap().watch();
    leads(&mut again).await;

    tenure.leave().await;
    for roles in roles[1..].iter_mut().chain([&mut again]) {
        assert!(matches!(roles.next().await, Some(Role::Left)));
    }
    assert!(valid.iter().all(Deadline::passed));
}

#[test]
fn a_renewal_is_no_change_and_the_end_of_a_leadership_is_one() {
    let clock = BootClock::new().reading();
    let (mut role, second) = (Role::default(), Duration::from_secs(1));
    let leading = |term| contract::Role::Leading(contract::Leadership { term, valid_for: second });
    let now = clock.now();
    assert!(!role.becomes(&contract::Role::Undecided, now, &clock));
    assert!(role.becomes(&leading(7), now, &clock));
    let Role::Leading { valid, .. } = &role else { panic!("it leads") };
    let valid = valid.clone();
    assert!(!role.becomes(&leading(7), now + second, &clock));
    assert_eq!(valid.at(), now + 2 * second);
    assert!(!role.ends(Some(6)), "that was over already");
    valid.set(Duration::MAX);
    assert_eq!(role.leads(), Some(7));
    // It is shown as the leader until a step has told otherwise.
    valid.set(now);
    assert_eq!((role.leads(), matches!(role, Role::Leading { .. })), (None, true));
    assert!(role.ends(Some(7)) && valid.passed() && matches!(role, Role::Undecided));
    assert!(!role.ends(Some(7)));
    assert!(role.becomes(&leading(8), now, &clock));
    let follows = contract::Role::Following(None);
    assert!(role.becomes(&follows, now, &clock) && !role.becomes(&follows, now, &clock));
    let mut ben = contract::Incumbent {
        name: "ben".to_owned(),
        term: 9,
        since: contract::Timestamp(0),
        address: None,
        coordinates: false,
    };
    for address in [None, Some("https://ben".to_owned())] {
        ben.address = address;
        let follows = contract::Role::Following(Some(ben.clone()));
        assert!(role.becomes(&follows, now, &clock) && !role.becomes(&follows, now, &clock));
        let Role::Following { leader: Some(leader) } = &role else { panic!("it follows") };
        assert_eq!((&leader.name, leader.term, &leader.address), (&ben.name, 9, &ben.address));
    }
    assert!(role.becomes(&contract::Role::Left, now, &clock));
}

#[test]
fn whoever_could_not_leave_in_time_has_left_too() {
    let clock = BootClock::new().reading();
    let (mut role, valid_for) = (Role::default(), Duration::from_secs(1));
    let leading = contract::Role::Leading(contract::Leadership { term: 7, valid_for });
    role.becomes(&leading, clock.now(), &clock);
    let Role::Leading { valid, .. } = &role else { panic!("it leads") };
    let valid = valid.clone();
    assert!(role.leaves() && valid.passed() && matches!(role, Role::Left));
    assert!(!role.leaves());
}
