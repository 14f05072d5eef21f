//! Leaving without a grace period for the work, and the limits of leaving.

use super::*;

#[test]
fn leaving_stops_the_work_and_then_leaves() {
    let lines = play(100, 2, [leading(7).with_turn(turn(7)), left(7)]);
    assert_eq!(
        lines[4..],
        [
            "2 work ends",
            "2 turn cut-off",
            // The end of the turn has no step of its own, which might order another turn.
            "2 step: leave, cut off",
            "2 stood down 7 left",
            "2 stopped",
        ]
    );
}

/// Without a setting of the runner, the handler decides.
#[test]
fn the_grace_of_a_handler_applies_by_default() {
    let replies = [leading(7).with_turn(turn(7)).with_again_in(9), left(7)];
    let lines = play_with(|runner| runner, Vec::new(), 5, 2, replies);
    assert_eq!(lines[4..6], ["5 work ends", "5 turn succeeded"], "{lines:?}");
    // The setting of the runner takes precedence.
    let usual = play_with_grace(1, 5, 2, [leading(7).with_turn(turn(7)), left(7)]);
    assert_eq!(usual[4..6], ["3 work ends", "3 turn cut-off"], "{usual:?}");
}

#[test]
fn a_handler_receives_the_remaining_validity() {
    let lines = play(
        100,
        9,
        [leading(7).with_turn(turn(7)).with_duration(seconds(3)), lost(7, EndingReason::LeaseLost)],
    );
    assert!(lines.contains(&"3 work begins, term 7, 9s left".to_owned()), "{lines:?}");
}

#[test]
fn a_candidate_that_leaves_at_once_never_contends() {
    assert_eq!(play(100, 0, []), ["0 step as new: leave", "0 stopped"]);
}

#[test]
fn leaving_waits_for_the_step_in_flight_and_runs_no_turn_that_it_brings() {
    let lines = play(100, 1, [leading(7).with_turn(turn(7)).with_duration(seconds(3))]);
    assert_eq!(
        lines,
        [
            "0 step as new",
            "3 elected 7",
            "3 turn cut-off",
            "3 step: leave, not started",
            "3 stopped"
        ]
    );
}

#[test]
fn leaving_is_retried_for_a_limited_time() {
    let busy = || leading(7).with_again_in(4);
    let lines = play(100, 1, [busy(), busy(), busy(), busy(), busy(), busy()]);
    assert_eq!(
        lines,
        [
            "0 step as new",
            "0 elected 7",
            "1 step: leave",
            "5 step: leave",
            "9 step: leave",
            "11 problem unreachable",
            "11 stopped",
        ]
    );
}

/// Handler whose work still runs at 20 s, despite all orders.
struct StopsSlowly(VirtualClock);

impl Handler for StopsSlowly {
    fn on_tick(&self, _turn: Turn, _lease: Lease) -> BoxFuture<'_, TurnEnd> {
        Box::pin(std::future::pending())
    }

    fn stopped(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.0.sleep_until(seconds(20)))
    }
}

#[test]
fn the_guard_is_held_until_the_turn_has_stopped() {
    VirtualClock::run(async |clock| {
        let log = Log { clock: clock.clone(), lines: Arc::default() };
        let replies = [leading(7).with_turn(turn(7)).with_again_in(9), leading(7).with_again_in(9)];
        let elector = Script { replies: Mutex::new(replies.into()), log };
        let guard: Arc<dyn Send + Sync> = Arc::new(());
        let weak_guard = Arc::downgrade(&guard);
        let mut runner = Runner::new(elector, StopsSlowly(clock.clone()), clock.clone())
            .grace(Duration::ZERO)
            .hold_until_stopped(guard);
        runner.run(clock.sleep_until(seconds(2))).await;
        drop(runner);
        assert_eq!(clock.now(), seconds(12));
        clock.sleep_until(seconds(19)).await;
        assert!(weak_guard.upgrade().is_some());
        clock.sleep_until(seconds(21)).await;
        assert!(weak_guard.upgrade().is_none());
    });
}
