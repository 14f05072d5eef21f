//! A leader whose work cannot be recorded steps down: protocol.md §5.

use super::slow::World;
use super::*;

const SLOTS: &[(&str, &str)] = &[(variable::EVERY, "10s"), (variable::COOL_DOWN, "60s")];

fn is_write(operation: &Operation) -> bool {
    matches!(operation, Operation::WriteMetadata { .. })
}

/// Returns a world in which the first candidate leads and has had a turn.
fn at_work(others: &[(&'static str, &[(&str, &'static str)])]) -> World {
    let mut world = World::new(&[&[("first", SLOTS)], others].concat());
    world.runners[1..].iter_mut().for_each(|runner| runner.due += seconds(3));
    assert!(world.run_until(seconds(30), |world| world.turns.contains_key("first")));
    world
}

#[test]
fn a_leader_whose_writes_are_refused_makes_way_for_another_one() {
    let mut world = at_work(&[("second", SLOTS)]);
    world.refuses = Box::new(|name, operation| name == "first" && is_write(operation));
    // A slot is due within ten seconds. Two leases later, and after a few requests, the leadership
    // is over.
    let bound = seconds(10) + seconds(30) + seconds(1);
    assert!(world.run_until(bound, |world| !world.endings.is_empty()), "it leads for ever");
    let (_, ending, _) = &world.endings[0];
    assert_eq!(ending.reason, EndingReason::WorkFailed);
    let is_reported = world.problems.iter().any(|(_, t, _)| t.detail.contains("could be recorded"));
    assert!(is_reported, "{:?}", world.problems);
    assert!(world.run_until(seconds(5), |world| world.leader() == Some("second")));
    world.run(seconds(30));
    assert!(world.turns["second"] >= 3, "{:?}", world.turns);
}

#[test]
fn reading_the_previous_record_does_not_confirm_a_write() {
    let mut candidate = Candidate::new(SLOTS);
    candidate.lead();
    let on_record = written_record(&candidate.requests[2]).to_metadata();
    candidate.now += seconds(10);
    // A slot is due, until the service's clock turns out to have been set back. The remaining write
    // is on record already then.
    for _ in 0..20 {
        let report = candidate.step(None, |o, at| match o {
            Operation::WriteMetadata { .. } => error_answer(o, at, 403, "AuthorizationFailure"),
            Operation::Read { .. } => blob_answer(o, at - seconds(40), "leased", &on_record),
            _ => available(o, at - seconds(40)),
        });
        if let Some(ending) = report.ending {
            return assert_eq!(ending.reason, EndingReason::WorkFailed);
        }
        candidate.now += seconds(3);
    }
    panic!("it leads for ever");
}

#[test]
fn lone_candidate_backs_off_longer_each_time() {
    let mut world = at_work(&[]);
    world.refuses = Box::new(|_, operation| {
        // The term can be raised; that write has no claimed slot.
        let claims = |m: &Metadata| m.get("tenureattempt").is_some_and(|text| text != "0");
        matches!(operation, Operation::WriteMetadata { metadata, .. } if claims(metadata))
    });
    world.service.record = incumbent(9);
    world.run(seconds(3600));
    let ends: Vec<_> = world.endings.iter().map(|(.., at)| *at).collect();
    assert!((5..=12).contains(&ends.len()), "{ends:?}");
    let wins: Vec<_> = world.wins[1..].iter().map(|(_, at)| *at).collect();
    let away: Vec<_> = ends.iter().zip(&wins).map(|(end, win)| *win - *end).collect();
    for (n, away) in (0..).zip(&away) {
        let most = seconds(60) * 2_u32.pow(n).min(16);
        assert!((most / 2..=most + seconds(5)).contains(away), "{n}: {away:?}");
    }
    let writes = world.requests[&("first".into(), "write record")];
    assert!(writes < 1500, "{writes} writes");
}

#[test]
fn a_candidate_whose_term_is_always_refused_backs_off_more_each_time() {
    let mut world = World::new(&[("first", SLOTS)]);
    world.refuses = Box::new(|_, operation| is_write(operation));
    world.run(seconds(3600));
    let acquired = world.requests[&("first".into(), "acquire lease")];
    assert!((5..=20).contains(&acquired), "{acquired} times");
    // The service accepts writes again: the candidate leads at last, and the back-off is cleared.
    world.refuses = Box::new(|_, _| false);
    assert!(world.run_until(seconds(1000), |world| world.leader().is_some()));
}

#[test]
fn a_moment_without_writes_ends_nothing() {
    let mut world = at_work(&[]);
    for _ in 0..5 {
        world.refuses = Box::new(|_, operation| is_write(operation));
        world.run(seconds(25));
        world.refuses = Box::new(|_, _| false);
        world.run(seconds(15));
    }
    assert!(world.endings.is_empty(), "{:?}", world.endings);
    assert!(world.turns["first"] >= 6, "{:?}", world.turns);
}

#[test]
fn a_turn_that_runs_is_not_ended_because_a_successor_cannot_be_named() {
    let mut world = at_work(&[]);
    world.endless = true;
    let turns = world.turns["first"];
    assert!(world.run_until(seconds(30), |world| world.turns["first"] > turns));
    world.refuses = Box::new(|_, operation| is_write(operation));
    world.order(0, Event::HandOver("second".into()));
    world.run(seconds(120));
    assert!(world.endings.is_empty(), "{:?}", world.endings);
    let report = world.problems.iter().find(|(_, t, _)| t.detail.contains("not handed over"));
    let (_, problem, _) = report.expect("it is told");
    assert!(problem.detail.contains("could not be written to the record"), "{problem:?}");
}

#[test]
fn a_leader_without_a_turn_goes_on_when_a_successor_cannot_be_named() {
    let mut world = World::new(&[("first", &[(variable::EVERY, "24h")])]);
    assert!(world.run_until(seconds(30), |world| world.leader() == Some("first")));
    // Not even a read can show that the record is complete.
    world.refuses = Box::new(|_, o| is_write(o) || matches!(o, Operation::Read { .. }));
    world.order(0, Event::HandOver("second".into()));
    world.run(seconds(120));
    assert!(world.endings.is_empty(), "{:?}", world.endings);
    let is_reported = world.problems.iter().any(|(_, t, _)| t.detail.contains("not handed over"));
    assert!(is_reported, "{:?}", world.problems);
}

#[test]
fn a_write_that_is_refused_is_given_up_with_the_order_that_wanted_it() {
    let mut world = at_work(&[]);
    let names = |m: &Metadata| m.get("tenuresuccessor").is_some();
    world.refuses = Box::new(
        move |_, o| matches!(o, Operation::WriteMetadata { metadata, .. } if names(metadata)),
    );
    world.order(0, Event::HandOver("nobody".into()));
    world.run(seconds(25));
    let turns = world.turns["first"];
    world.run(seconds(60));
    assert!(world.turns["first"] >= turns + 5, "{:?}", world.turns);
    assert!(world.endings.is_empty(), "{:?}", world.endings);
}

#[test]
fn a_slot_that_passes_while_its_claim_is_refused_makes_way_for_the_next() {
    let more: &[_] = &[(variable::EVERY, "10s"), (variable::MISSED, "skip")];
    let mut world = World::new(&[("first", more)]);
    assert!(world.run_until(seconds(30), |world| world.turns.contains_key("first")));
    world.refuses = Box::new(|_, operation| is_write(operation));
    world.run(seconds(22));
    world.refuses = Box::new(|_, _| false);
    world.slots.clear();
    world.run(seconds(30));
    // The newest slot is claimed, and not the one whose claim was refused.
    let begun = Timestamp::parse(ORIGIN).unwrap().plus(world.now - seconds(30 + 10));
    assert!(world.slots.iter().all(|slot| *slot > begun), "{:?}", world.slots);
    assert!(world.slots.len() >= 2, "{:?}", world.slots);
}

#[test]
fn a_claim_that_was_applied_unseen_is_found_and_run() {
    let mut candidate = Candidate::new(&[(variable::EVERY, "5s")]);
    candidate.lead();
    let mut on_blob = Metadata::default();
    candidate.now += seconds(6);
    candidate.step(None, available); // renews
    let report = candidate.step(None, |o, at| match o {
        Operation::WriteMetadata { metadata, .. } => {
            on_blob = metadata.clone();
            failure(FailureKind::Timeout)
        }
        Operation::Read { .. } => failure(FailureKind::Timeout),
        _ => available(o, at),
    });
    assert_eq!(report.run, None);
    // Later the schedule is past that slot, but its claim was applied.
    candidate.now += millis(500);
    let report = candidate.step(None, |o, at| match o {
        Operation::Read { .. } => blob_answer(o, at, "leased", &on_blob),
        _ => available(o, at),
    });
    let claimed = Record::from_metadata(&on_blob).unwrap().unwrap().last_slot.unwrap();
    let report = match report.run {
        Some(_) => report,
        None => candidate.step(None, |o, at| match o {
            Operation::Read { .. } => blob_answer(o, at, "leased", &on_blob),
            _ => available(o, at),
        }),
    };
    assert_eq!(report.run.map(|turn| turn.slot), Some(claimed.slot));
    assert!(!candidate.verbs().contains(&"write record"), "{:?}", candidate.verbs());
}

/// With a long time-out and a short interval a renewal is always due first.
#[test]
fn a_leader_that_does_nothing_but_renew_makes_way() {
    let settings: &[(&str, &str)] = &[
        (variable::EVERY, "10s"),
        (variable::RENEW, "1s"),
        (variable::REQUEST_TIMEOUT, "5s"),
        (variable::COOL_DOWN, "60s"),
    ];
    let mut world = World::new(&[("first", settings)]);
    world.round_trip = millis(2_500);
    assert!(world.run_until(seconds(60), |world| world.leader().is_some()));
    assert!(world.run_until(seconds(60), |world| !world.endings.is_empty()), "it leads for ever");
    assert_eq!(world.endings[0].1.reason, EndingReason::WorkFailed);
}
