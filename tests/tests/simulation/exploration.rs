//! Every state of a small election, within bounds; and that the judge would notice.

use tenure_tests::exploration::{Bounds, Explored, Flaw, Invariant, Scope, Start, explore};

fn bounds(candidates: usize, disturbances: u8, seconds: u32) -> Bounds {
    Bounds { candidates, disturbances, orders: 0, seconds, tick: 2, depth: 1000 }
}

/// All of it, and nothing wrong in it.
fn sound(bounds: Bounds, start: Start) -> Explored {
    let explored = explore(Scope::new(bounds, start));
    println!("{explored}");
    assert!(explored.violation.is_none() && explored.complete);
    assert!(explored.take_overs > 100, "without take-overs this proves little");
    explored
}

/// The way to a violation that a flaw makes possible.
fn flawed(bounds: Bounds, flaw: Flaw, judged: Invariant) -> String {
    let explored = explore(Scope::new(bounds, Start::Record).with(flaw, judged));
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

/// The order, the announcement, the change, and the leader that goes on when nobody comes.
#[test]
fn two_candidates_that_hand_over_keep_every_invariant() {
    let explored = sound(Bounds { orders: 1, ..bounds(2, 1, 20) }, Start::Record);
    assert!(explored.handed_over > 0 && explored.in_vain > 0, "both ends were seen");
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
