//! Leaving without grace for the work, and for how long.

use super::*;

#[test]
fn leaving_stops_the_work_and_then_leaves() {
    let seen = play(100, 2, [leading(7).run(turn(7)), left(7)]);
    assert_eq!(
        seen[4..],
        [
            "2 work ends",
            "2 turn cut-off",
            // Not with a word of its own about the turn, to which another turn might be the answer.
            "2 step: leave, cut off",
            "2 stood down 7 left",
            "2 stopped",
        ]
    );
}

/// Nothing is set at the runner: the handler says how long.
#[test]
fn a_handler_may_ask_for_more_time_to_end() {
    let replies = [leading(7).run(turn(7)).again_in(9), left(7)];
    let seen = play_with(|runner| runner, Vec::new(), 5, 2, replies);
    assert_eq!(seen[4..6], ["5 work ends", "5 turn succeeded"], "{seen:?}");
    // What the runner is told counts more.
    let usual = play_with_grace(1, 5, 2, [leading(7).run(turn(7)), left(7)]);
    assert_eq!(usual[4..6], ["3 work ends", "3 turn cut-off"], "{usual:?}");
}

#[test]
fn a_handler_is_told_what_is_left_of_its_leadership() {
    let seen =
        play(100, 9, [leading(7).run(turn(7)).takes(seconds(3)), lost(7, EndingReason::LeaseLost)]);
    assert!(seen.contains(&"3 work begins, term 7, 9s left".to_owned()), "{seen:?}");
}

#[test]
fn whoever_is_to_leave_before_it_began_contends_for_nothing() {
    assert_eq!(play(100, 0, []), ["0 step as new: leave", "0 stopped"]);
}

#[test]
fn leaving_waits_for_the_step_in_flight_and_runs_no_turn_that_it_brings() {
    let seen = play(100, 1, [leading(7).run(turn(7)).takes(seconds(3))]);
    assert_eq!(
        seen,
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
fn leaving_is_repeated_until_it_is_done_but_not_for_ever() {
    let busy = || leading(7).again_in(4);
    let seen = play(100, 1, [busy(), busy(), busy(), busy(), busy(), busy()]);
    assert_eq!(
        seen,
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

/// A handler of which something is still there at 20 s, whatever it is told.
struct Lingers(VirtualClock);

impl Handler for Lingers {
    fn on_tick(&self, _turn: Turn, _lease: Lease) -> BoxFuture<'_, TurnEnd> {
        Box::pin(std::future::pending())
    }

    fn stopped(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.0.sleep_until(seconds(20)))
    }
}

#[test]
fn a_turn_that_does_not_stop_keeps_what_the_runner_was_given_for_it() {
    VirtualClock::run(async |clock| {
        let log = Log { clock: clock.clone(), lines: Arc::default() };
        let replies = [leading(7).run(turn(7)).again_in(9), leading(7).again_in(9)];
        let elector = Script { replies: Mutex::new(replies.into()), log };
        let kept: Arc<dyn Send + Sync> = Arc::new(());
        let left = Arc::downgrade(&kept);
        let mut runner = Runner::new(elector, Lingers(clock.clone()), clock.clone())
            .grace(Duration::ZERO)
            .keeping(kept);
        runner.run(clock.sleep_until(seconds(2))).await;
        drop(runner);
        assert_eq!(clock.now(), seconds(12));
        clock.sleep_until(seconds(19)).await;
        assert!(left.upgrade().is_some());
        clock.sleep_until(seconds(21)).await;
        assert!(left.upgrade().is_none());
    });
}
