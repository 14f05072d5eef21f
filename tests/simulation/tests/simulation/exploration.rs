//! Every state of a small election, within bounds; and that the judge would notice.

use tenure_core::mutants::{self, Mutant};
use tenure_simulation::exploration::{Bounds, Explored, Flaw, Invariant, Scope, Start, explore};

fn bounds(candidates: usize, disturbances: u8, seconds: u32) -> Bounds {
    Bounds { candidates, disturbances, orders: 0, seconds, tick: 2, depth: 1000 }
}

/// Leaders beat every 2 s, act for 6 s after a beat, and are replaced 7 s after it was seen. These are periods
/// of §13, each up to the next second.
const FAILOVER: u32 = 9_800;

/// Two candidates that beat and replace each other, the second one perhaps sooner.
fn beating(disturbances: u8, seconds: u32, second: u32) -> Scope {
    let bounds = Bounds { tick: 1, ..bounds(2, disturbances, seconds) };
    Scope::new(bounds, Start::Record).with_failover(&[FAILOVER, second])
}

/// All of it, and nothing wrong in it.
fn sound(bounds: Bounds, start: Start) -> Explored {
    all_sound(Scope::new(bounds, start))
}

fn all_sound(scope: Scope) -> Explored {
    let explored = explore(scope);
    println!("{explored}");
    assert!(explored.violation.is_none() && explored.complete);
    assert!(explored.take_overs > 100, "without takeovers this proves little");
    explored
}

/// The way to a violation that a flaw makes possible.
fn flawed(bounds: Bounds, flaw: Flaw, judged: Invariant) -> String {
    violation(explore(Scope::new(bounds, Start::Record).with(flaw, judged)), judged)
}

/// The same of a bug that is seeded into the core.
fn buggy(scope: Scope, mutant: Mutant, judged: Invariant) -> String {
    mutants::activate(Some(mutant));
    let explored = explore(scope.judged_by(judged));
    mutants::activate(None);
    violation(explored, judged)
}

fn violation(explored: Explored, judged: Invariant) -> String {
    println!("{explored}");
    let violation = explored.violation.expect("the flaw is noticed");
    assert!(violation.starts_with(&format!("{judged:?} is broken")), "{violation}");
    violation
}

#[test]
fn two_candidates_disturbed_twice_keep_every_invariant() {
    let explored = sound(bounds(2, 2, 16), Start::Record);
    assert_eq!(explored.transitions.len(), 13, "every kind of action but orders was seen");
}

#[test]
fn two_candidates_that_find_nothing_keep_every_invariant() {
    sound(bounds(2, 1, 30), Start::Nothing);
}

#[test]
fn three_candidates_keep_every_invariant() {
    sound(bounds(3, 1, 24), Start::Record);
}

#[test]
fn three_candidates_disturbed_twice_start_without_harm() {
    sound(bounds(3, 2, 4), Start::Record);
}

/// The order, the announcement and the change.
#[test]
fn two_candidates_that_hand_over_keep_every_invariant() {
    let explored = sound(Bounds { orders: 1, ..bounds(2, 1, 20) }, Start::Record);
    assert!(explored.handed_over > 0, "a successor was given the lease");
}

/// The leader goes on when no successor comes, which takes 70 s: too long for two candidates.
#[test]
fn a_leader_whose_successor_is_not_there_keeps_every_invariant() {
    let explored = explore(Scope::new(Bounds { orders: 1, ..bounds(1, 1, 80) }, Start::Record));
    println!("{explored}");
    assert!(explored.violation.is_none() && explored.complete);
    assert!(explored.in_vain > 0, "an order failed");
}

#[test]
fn a_host_that_does_not_stop_its_handler_breaks_the_first_and_the_third() {
    let both = flawed(bounds(2, 1, 20), Flaw::NoDeadline, Invariant::I1);
    let last = both.lines().last().unwrap();
    assert!(last.contains("ada: thaw [ben works under term"), "the shortest way: {both}");
    flawed(bounds(2, 1, 20), Flaw::NoDeadline, Invariant::I3);
}

#[test]
fn a_request_without_its_condition_breaks_the_second() {
    flawed(bounds(2, 2, 8), Flaw::NoCondition, Invariant::I2);
}

#[test]
fn a_state_that_outlives_its_process_breaks_the_eighth() {
    flawed(bounds(2, 1, 8), Flaw::OldState, Invariant::I8);
}

#[test]
fn two_candidates_that_beat_keep_every_invariant() {
    let explored = all_sound(beating(1, 14, FAILOVER));
    assert!(explored.broken > 100, "leases were broken for followers");
}

/// The second one promises less, and goes by the promise on record all the same.
#[test]
fn candidates_of_different_bounds_keep_every_invariant() {
    let explored = all_sound(beating(1, 12, 5_000));
    assert!(explored.broken > 100, "leases were broken for followers");
}

#[test]
fn bugs_of_those_who_break_leases_break_the_ninth() {
    for (mutant, scope) in [
        (Mutant::BreakWithoutCondition, beating(1, 14, FAILOVER)),
        (Mutant::OwnPromise, beating(1, 10, 5_000)),
        (Mutant::PromiseFromLook, beating(2, 8, FAILOVER)),
    ] {
        let violation = buggy(scope, mutant, Invariant::I9);
        assert!(violation.contains("breaks the lease by which"), "{mutant:?}: {violation}");
    }
}

#[test]
fn bugs_of_a_leader_that_beats_break_the_third() {
    for (mutant, scope) in [
        (Mutant::PromiseFromAnswer, beating(1, 14, FAILOVER)),
        (Mutant::RenewalExtendsPromise, beating(2, 8, FAILOVER)),
    ] {
        buggy(scope, mutant, Invariant::I3);
    }
}
