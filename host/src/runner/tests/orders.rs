//! Orders, and the end of a turn before leadership is given up.

use super::*;

fn winding_down(term: u64) -> Reply {
    leading(term).change(|report| report.wind_down = true)
}

fn order_at(at: u64, order: Order) -> Vec<(u64, Order)> {
    vec![(at, order)]
}

#[test]
fn each_order_is_passed_at_once_in_its_own_step() {
    let orders = vec![(1, Order::HandOver("b".to_owned())), (1, Order::Ready(true))];
    let lines = play_with_orders(orders, 1, 100, 2, [leading(7), leading(7)]);
    assert_eq!(
        lines,
        [
            "0 step as new",
            "0 elected 7",
            "1 ordered hand over to b",
            "1 ordered contend",
            "1 step: hand over to b",
            "1 step: ready",
            "2 step: leave",
            "2 stopped",
        ]
    );
}

#[test]
fn a_turn_has_its_grace_before_the_leadership_ends() {
    let lines = play_with_orders(
        order_at(1, Order::Resign),
        3,
        100,
        20,
        [
            leading(7).with_turn(turn(7)),
            // Further reports repeat it, and do not restart the grace period.
            winding_down(7).with_again_in(1),
            winding_down(7).with_again_in(1),
            winding_down(7).with_again_in(100),
            lost(7, EndingReason::Resigned).with_again_in(100),
        ],
    );
    assert_eq!(
        lines[4..],
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
fn a_handover_ends_the_grace_within_its_time() {
    // Each report contains the remaining part of the 5 s.
    let until = |at, limit| {
        winding_down(7)
            .with_again_in(at)
            .change(|report| report.wind_down_limit = Some(seconds(limit)))
    };
    let replies = [
        leading(7).with_turn(turn(7)),
        until(3, 5),
        until(100, 2),
        lost(7, EndingReason::HandedOver).with_again_in(100),
    ];
    let orders = order_at(1, Order::HandOver("b".to_owned()));
    let log = play_with_orders(orders, 60, 100, 20, replies);
    assert_eq!(
        log[4..],
        [
            "1 ordered hand over to b",
            "1 step: hand over to b",
            "4 step",
            "6 work ends",
            "6 turn cut-off",
            "6 step: cut off",
            "6 stood down 7 handed-over",
            "20 step: leave",
            "20 stopped",
        ]
    );
}

#[test]
fn a_turn_that_ends_within_its_grace_succeeds() {
    let replies = [
        leading(7).with_turn(turn(7)),
        winding_down(7),
        lost(7, EndingReason::Resigned).with_again_in(100),
    ];
    let lines = play_with_orders(order_at(1, Order::Resign), 5, 2, 10, replies);
    assert!(lines.contains(&"2 turn succeeded".to_owned()), "{lines:?}");
    assert!(lines.contains(&"2 step: succeeded".to_owned()), "{lines:?}");
}

#[test]
fn an_order_not_to_contend_outlasts_a_failure_of_the_component() {
    let replies = [leading(7), leading(7), trap()];
    let lines = play_with_orders(order_at(1, Order::Ready(false)), 1, 100, 7, replies);
    let new_candidates: Vec<_> = lines.iter().filter(|line| line.contains("as new")).collect();
    assert_eq!(new_candidates, ["0 step as new", "6 step as new: not ready"], "{lines:?}");
}

#[test]
fn a_leaving_candidate_ignores_orders() {
    let lines =
        play_with_orders(order_at(2, Order::Resign), 3, 100, 1, [leading(7).with_turn(turn(7))]);
    assert!(!lines.iter().any(|line| line.contains("resign")), "{lines:?}");
}

#[test]
fn a_turn_continues_when_the_handover_is_abandoned() {
    let lines = play_with_orders(
        order_at(1, Order::HandOver("b".to_owned())),
        3,
        6,
        20,
        [
            leading(7).with_turn(turn(7)),
            winding_down(7).with_again_in(1),
            // No successor took over.
            leading(7).with_again_in(100),
        ],
    );
    assert!(lines.contains(&"6 turn succeeded".to_owned()), "{lines:?}");
}

/// Runs a candidate that becomes ready at each action without an order.
fn play_unready(
    acts: impl IntoIterator<Item = (u64, Option<Order>)>,
    replies: impl IntoIterator<Item = Reply>,
) -> Vec<String> {
    let replies = Mutex::new(replies.into_iter().collect());
    VirtualClock::run(async |clock| {
        let log = Log { clock: clock.clone(), lines: Arc::default() };
        let elector = Script { replies, log: log.clone() };
        let work = Work { duration: seconds(1), log: log.clone() };
        let (ready, event_log) = (watch::Sender::new(false), log.clone());
        let mut runner = Runner::new(elector, work, clock.clone())
            .when_ready(ready.subscribe())
            .on_event(move |event| event_log.event(&event));
        let (order_sender, mut order_receiver) = mpsc::channel(8);
        let acting = async {
            for (at, act) in acts {
                clock.sleep_until(seconds(at)).await;
                match act {
                    Some(next_order) => order_sender.send(next_order).await.unwrap(),
                    None => drop(ready.send_replace(true)),
                }
            }
            clock.sleep_until(seconds(9)).await;
        };
        runner.run_with(acting, &mut order_receiver).await;
        log.read()
    })
}

fn idle() -> Reply {
    reply(Role::Undecided).with_again_in(100)
}

#[test]
fn an_unready_candidate_does_not_contend_from_the_first_step() {
    let lines = play_unready([(2, None)], [idle(), idle()]);
    assert_eq!(
        lines,
        [
            "0 step as new: not ready",
            "2 note ready, so this candidate now contends",
            "2 step: ready",
            "9 step: leave",
            "9 stopped",
        ]
    );
}

#[test]
fn an_order_not_to_contend_outlasts_getting_ready() {
    let acts = [(1, Some(Order::Ready(false))), (2, None), (3, Some(Order::Ready(true)))];
    let lines = play_unready(acts, [idle(), idle(), idle(), idle()]);
    assert_eq!(
        lines[1..7],
        [
            "1 ordered do not contend",
            "1 step: not ready",
            "2 note ready, but ordered not to contend",
            "2 step: not ready",
            "3 ordered contend",
            "3 step: ready",
        ]
    );
}

#[test]
fn an_unready_candidate_never_contends_despite_orders_and_failures() {
    let acts = [(1, Some(Order::Ready(true))), (2, Some(Order::Resign))];
    let lines = play_unready(acts, [idle(), idle(), trap(), idle()]);
    assert_eq!(
        lines[1..],
        [
            "1 ordered contend",
            "1 step: not ready",
            "2 ordered resign",
            "2 step: resign",
            "2 problem component",
            "3 step as new: not ready",
            "9 step: leave",
            "9 stopped",
        ]
    );
}

#[test]
fn hints_are_merged_and_passed_after_all_orders() {
    let slow = |reply: Reply| Reply { duration: seconds(2), ..reply };
    let following = || reply(Role::Following(None)).with_again_in(100);
    let replies = Mutex::new([slow(following()), following(), following()].into());
    let lines = VirtualClock::run(async |clock| {
        let log = Log { clock: clock.clone(), lines: Arc::default() };
        let elector = Script { replies, log: log.clone() };
        let work = Work { duration: seconds(1), log: log.clone() };
        let hints = Arc::new(Notify::new());
        let mut runner = Runner::new(elector, work, clock.clone()).with_hints(hints.clone());
        let (order_sender, mut order_receiver) = mpsc::channel(8);
        let hinting = async {
            for at in [1, 1, 1] {
                clock.sleep_until(seconds(at)).await;
                hints.notify_one();
            }
            order_sender.send(Order::Ready(false)).await.unwrap();
            clock.sleep_until(seconds(5)).await;
            hints.notify_one();
        };
        let leave = clock.sleep_until(seconds(9));
        tokio::join!(runner.run_with(leave, &mut order_receiver), hinting);
        log.read()
    });
    let steps: Vec<_> = lines.iter().filter(|line| line.contains("step")).collect();
    assert_eq!(
        steps,
        ["0 step as new", "2 step: not ready", "2 step: hint", "5 step: hint", "9 step: leave"]
    );
}
