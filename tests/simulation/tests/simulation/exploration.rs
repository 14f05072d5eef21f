//! Tests that explore every state of a small election within bounds, and that the oracle detects
//! flaws.

use tenure_core::mutants::{self, Mutant};
use tenure_simulation::exploration::{Bounds, Explored, Flaw, Invariant, Scope, Start, explore};

fn bounds(candidates: usize, disturbances: u8, seconds: u32) -> Bounds {
    Bounds { candidates, disturbances, orders: 0, seconds, tick: 2, depth: 1000 }
}

/// Failover window. Leaders beat every 2 s, act for 6 s after a beat, and are replaced 7 s after a
/// candidate saw it. These are periods of §13, each rounded up to the next second.
const FAILOVER: u32 = 9_800;

/// Returns the scope of two candidates that beat and replace each other, with a window for the
/// second one.
fn beating_scope(disturbances: u8, seconds: u32, second: u32) -> Scope {
    let bounds = Bounds { tick: 1, ..bounds(2, disturbances, seconds) };
    Scope::new(bounds, Start::Record).with_failover(&[FAILOVER, second])
}

/// Explores a scope and asserts that it has no violation.
fn check_without_violation(bounds: Bounds, start: Start) -> Explored {
    check_scope(Scope::new(bounds, start))
}

fn check_scope(scope: Scope) -> Explored {
    let explored = explore(scope);
    println!("{explored}");
    assert!(explored.violation.is_none() && explored.is_complete);
    assert!(explored.takeovers > 100, "without takeovers this proves little");
    explored
}

/// Returns the path to a violation that a flaw makes possible.
fn find_flaw(bounds: Bounds, flaw: Flaw, invariant: Invariant) -> String {
    expect_violation(
        explore(Scope::new(bounds, Start::Record).with_flaw(flaw, invariant)),
        invariant,
    )
}

/// Returns the path to a violation that a seeded bug makes possible.
fn find_mutant(scope: Scope, mutant: Mutant, invariant: Invariant) -> String {
    mutants::activate(Some(mutant));
    let explored = explore(scope.checking_only(invariant));
    mutants::activate(None);
    expect_violation(explored, invariant)
}

fn expect_violation(explored: Explored, invariant: Invariant) -> String {
    println!("{explored}");
    let violation = explored.violation.expect("the flaw is noticed");
    assert!(violation.starts_with(&format!("{invariant:?} is broken")), "{violation}");
    violation
}

#[test]
fn two_candidates_disturbed_twice_keep_every_invariant() {
    let explored = check_without_violation(bounds(2, 2, 16), Start::Record);
    assert_eq!(explored.transitions.len(), 13, "every kind of action but orders was seen");
}

#[test]
fn two_candidates_that_find_nothing_keep_every_invariant() {
    check_without_violation(bounds(2, 1, 30), Start::Nothing);
}

#[test]
fn three_candidates_keep_every_invariant() {
    check_without_violation(bounds(3, 1, 24), Start::Record);
}

#[test]
fn three_candidates_disturbed_twice_start_without_harm() {
    check_without_violation(bounds(3, 2, 4), Start::Record);
}

/// Covers the order, the announcement and the change.
#[test]
fn two_candidates_that_hand_over_keep_every_invariant() {
    let explored = check_without_violation(Bounds { orders: 1, ..bounds(2, 1, 20) }, Start::Record);
    assert!(explored.handed_over > 0, "a successor was given the lease");
}

/// The leader keeps leading if no successor comes, which takes 70 s: too long for two candidates.
#[test]
fn a_leader_whose_successor_is_missing_keeps_every_invariant() {
    let explored = explore(Scope::new(Bounds { orders: 1, ..bounds(1, 1, 80) }, Start::Record));
    println!("{explored}");
    assert!(explored.violation.is_none() && explored.is_complete);
    assert!(explored.failed_handovers > 0, "an order failed");
}

#[test]
fn a_host_that_does_not_stop_its_handler_breaks_the_first_and_the_third() {
    let path = find_flaw(bounds(2, 1, 20), Flaw::NoDeadline, Invariant::I1);
    let last = path.lines().last().unwrap();
    assert!(last.contains("ada: thaw [ben works under term"), "the shortest way: {path}");
    find_flaw(bounds(2, 1, 20), Flaw::NoDeadline, Invariant::I3);
}

#[test]
fn a_request_without_its_condition_breaks_the_second() {
    find_flaw(bounds(2, 2, 8), Flaw::NoCondition, Invariant::I2);
}

#[test]
fn a_state_that_outlives_its_process_breaks_the_eighth() {
    find_flaw(bounds(2, 1, 8), Flaw::OldState, Invariant::I8);
}

#[test]
fn two_candidates_that_beat_keep_every_invariant() {
    let explored = check_scope(beating_scope(1, 14, FAILOVER));
    assert!(explored.broken_leases > 100, "leases were broken for followers");
}

/// The second candidate promises less, and uses the recorded promise of the other.
#[test]
fn candidates_of_different_bounds_keep_every_invariant() {
    let explored = check_scope(beating_scope(1, 12, 5_000));
    assert!(explored.broken_leases > 100, "leases were broken for followers");
}

#[test]
fn bugs_in_breaking_leases_break_the_ninth() {
    for (mutant, scope) in [
        (Mutant::BreakWithoutCondition, beating_scope(1, 14, FAILOVER)),
        (Mutant::OwnPromise, beating_scope(1, 10, 5_000)),
        (Mutant::PromiseFromPoll, beating_scope(2, 8, FAILOVER)),
    ] {
        let violation = find_mutant(scope, mutant, Invariant::I9);
        assert!(violation.contains("breaks the lease by which"), "{mutant:?}: {violation}");
    }
}

#[test]
fn bugs_of_a_leader_that_beats_break_the_third() {
    for (mutant, scope) in [
        (Mutant::PromiseFromAnswer, beating_scope(1, 14, FAILOVER)),
        (Mutant::RenewalExtendsPromise, beating_scope(2, 8, FAILOVER)),
    ] {
        find_mutant(scope, mutant, Invariant::I3);
    }
}
