//! Orders of operators, and the end of a turn before its leadership is given up.

use super::*;

fn winding_down(term: u64) -> Reply {
    leading(term).change(|report| report.wind_down = true)
}

fn ordered(at: u64, order: Order) -> Vec<(u64, Order)> {
    vec![(at, order)]
}

#[test]
fn an_order_is_told_at_once_in_a_step_of_its_own() {
    let orders = vec![(1, Order::HandOver("b".to_owned())), (1, Order::Resume)];
    let seen = play_with_orders(orders, 1, 100, 2, [leading(7), leading(7)]);
    assert_eq!(
        seen,
        [
            "0 step as new",
            "0 elected 7",
            "1 ordered hand over to b",
            "1 ordered resume",
            "1 step: hand over to b",
            "1 step: resume",
            "2 step: leave",
            "2 stopped",
        ]
    );
}

#[test]
fn a_turn_has_its_grace_before_the_leadership_is_given_up() {
    let seen = play_with_orders(
        ordered(1, Order::Resign),
        3,
        100,
        20,
        [
            leading(7).run(turn(7)),
            // Each further report says so, and does not begin the grace anew.
            winding_down(7).again_in(1),
            winding_down(7).again_in(1),
            winding_down(7).again_in(100),
            lost(7, EndingReason::Resigned).again_in(100),
        ],
    );
    assert_eq!(
        seen[4..],
        [
            "1 ordered resign",
            "1 step: resign",
            "2 step",
            "3 step",
            "4 work ends",
            "4 turn cut-off",
            "4 step: cut off",
            "4 stood down 7 resigned",
            "20 step: leave",
            "20 stopped",
        ]
    );
}

#[test]
fn a_turn_that_ends_within_its_grace_ended_well() {
    let replies =
        [leading(7).run(turn(7)), winding_down(7), lost(7, EndingReason::Resigned).again_in(100)];
    let seen = play_with_orders(ordered(1, Order::Resign), 5, 2, 10, replies);
    assert!(seen.contains(&"2 turn succeeded".to_owned()), "{seen:?}");
    assert!(seen.contains(&"2 step: succeeded".to_owned()), "{seen:?}");
}

#[test]
fn a_pause_outlasts_a_failure_of_the_component() {
    let replies = [leading(7), leading(7), trap()];
    let seen = play_with_orders(ordered(1, Order::Pause), 1, 100, 7, replies);
    let new: Vec<_> = seen.iter().filter(|line| line.contains("as new")).collect();
    assert_eq!(new, ["0 step as new", "6 step as new: pause"], "{seen:?}");
}

#[test]
fn who_leaves_takes_no_orders() {
    let seen = play_with_orders(ordered(2, Order::Resign), 3, 100, 1, [leading(7).run(turn(7))]);
    assert!(!seen.iter().any(|line| line.contains("resign")), "{seen:?}");
}
