//! Reasons to stop a turn, and the effects.

use super::*;
use crate::handler::from_fn;
use crate::runner::turn::RunningTurn;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Instant;
use tenure_clock::BootClock;

/// Returns a turn with this time limit in seconds.
fn limited(limit: u64) -> Turn {
    Turn { time_limit: Some(seconds(limit)), ..turn(7) }
}

#[test]
fn a_turn_may_end_by_itself_within_the_grace() {
    for grace in [3, u64::MAX] {
        let lines = play_with_grace(grace, 3, 2, [leading(7).with_turn(turn(7)), left(7)]);
        assert_eq!(
            lines[4..],
            [
                "3 work ends",
                "3 turn succeeded",
                "3 step: leave, succeeded",
                "3 stood down 7 left",
                "3 stopped",
            ],
            "{grace}"
        );
    }
}

#[test]
fn a_turn_that_outlasts_the_grace_is_stopped_before_anything_is_released() {
    let lines = play_with_grace(3, 100, 2, [leading(7).with_turn(turn(7)), leading(7), left(7)]);
    assert_eq!(
        lines[4..],
        [
            "4 step",
            "5 work ends",
            "5 turn cut-off",
            "5 step: leave, cut off",
            "5 stood down 7 left",
            "5 stopped",
        ]
    );
}

#[test]
fn the_grace_does_not_outlast_the_validity() {
    let lines =
        play_with_grace(60, 100, 11, [leading(7).with_turn(turn(7)).with_again_in(100), left(7)]);
    assert_eq!(
        lines[4..],
        [
            "12 work ends",
            "12 turn cut-off",
            "12 step: leave, cut off",
            "12 stood down 7 left",
            "12 stopped",
        ]
    );
}

#[test]
fn the_lease_is_renewed_during_the_grace_and_the_grace_is_not() {
    let renewals = (0..5).map(|_| leading(7));
    let replies = [leading(7).with_turn(turn(7))].into_iter().chain(renewals).chain([left(7)]);
    let lines = play_with_grace(20, 100, 2, replies);
    assert_eq!(
        lines[4..],
        [
            "4 step",
            "8 step",
            "12 step",
            "16 step",
            "20 step",
            "22 work ends",
            "22 turn cut-off",
            "22 step: leave, cut off",
            "22 stood down 7 left",
            "22 stopped",
        ]
    );
}

#[test]
fn a_lease_that_is_lost_during_the_grace_ends_the_turn() {
    let lost = lost(7, EndingReason::LeaseLost);
    let lines = play_with_grace(20, 100, 2, [leading(7).with_turn(turn(7)), lost]);
    assert_eq!(
        lines[4..],
        [
            "4 step",
            "4 stood down 7 lease-lost",
            "4 work ends",
            "4 turn cut-off",
            "4 step: leave, cut off",
            "4 stopped",
        ]
    );
}

#[test]
fn no_turn_begins_during_the_grace() {
    // The running step orders a turn when the last one has just ended.
    let next = leading(7).with_turn(turn(7)).with_duration(seconds(2));
    let lines = play_with_grace(20, 5, 2, [leading(7).with_turn(turn(7)), next]);
    assert_eq!(
        lines[4..],
        [
            "4 step",
            "5 work ends",
            "5 turn succeeded",
            "6 turn cut-off",
            "6 step: leave, not started",
            "6 stopped",
        ]
    );
}

#[test]
fn the_time_for_leaving_counts_from_the_end_of_the_turn() {
    let busy = || leading(7).with_again_in(4);
    let replies = [leading(7).with_turn(turn(7)), busy(), busy(), busy(), busy(), busy(), busy()];
    let lines = play_with_grace(9, 100, 1, replies);
    assert_eq!(
        lines[6..],
        [
            "10 work ends",
            "10 turn cut-off",
            "10 step: leave, cut off",
            "14 step: leave",
            "18 step: leave",
            "20 problem unreachable",
            "20 stopped",
        ]
    );
}

#[test]
fn a_turn_is_stopped_at_its_time_limit_and_its_leader_stands_down() {
    let failed = lost(7, EndingReason::WorkFailed);
    let lines = play(100, 5, [leading(7).with_turn(limited(3)), failed]);
    assert_eq!(
        lines[4..],
        [
            "3 work ends",
            "3 turn timed-out",
            "3 step: timed out",
            "3 stood down 7 work-failed",
            "5 step: leave",
            "5 stopped",
        ]
    );
}

#[test]
fn renewals_do_not_move_the_time_limit() {
    let replies = [leading(7).with_turn(limited(14)), leading(7), leading(7), leading(7)];
    let lines = play(100, 15, replies);
    assert_eq!(lines[4..7], ["4 step", "8 step", "12 step"]);
    assert_eq!(lines[7..10], ["14 work ends", "14 turn timed-out", "14 step: timed out"]);
}

#[test]
fn a_turn_whose_leadership_is_over_was_cut_off_whatever_its_time_limit() {
    for limit in [12, 13] {
        let lines = play(100, 13, [leading(7).with_turn(limited(limit)).with_again_in(100)]);
        assert_eq!(lines[4..6], ["12 work ends", "12 turn cut-off"], "{limit}");
    }
}

#[test]
fn the_time_limit_holds_during_the_grace_and_the_grace_within_the_time_limit() {
    let lines = play_with_grace(9, 100, 2, [leading(7).with_turn(limited(3))]);
    assert_eq!(lines[4..7], ["3 work ends", "3 turn timed-out", "3 step: leave, timed out"]);
    let lines = play_with_grace(1, 100, 1, [leading(7).with_turn(limited(3))]);
    assert_eq!(lines[4..7], ["2 work ends", "2 turn cut-off", "2 step: leave, cut off"]);
}

#[test]
fn a_handler_that_ends_at_its_deadline_succeeded_or_was_stopped_but_did_not_fail() {
    let denied = || Err("denied".to_owned());
    for (limit, result, outcome) in [
        (3, denied(), "timed-out"),
        (60, denied(), "cut-off"),
        (3, Ok(()), "succeeded"),
        (60, Ok(()), "succeeded"),
    ] {
        let lines = VirtualClock::run(async |clock| {
            let log = Log { clock: clock.clone(), lines: Arc::default() };
            let replies =
                Mutex::new([leading(7).with_turn(limited(limit)).with_again_in(100)].into());
            let elector = Script { replies, log: log.clone() };
            let sleeper = clock.clone();
            // Its requests are denied after the deadline.
            let work = from_fn(move |_, lease: Lease| {
                let (clock, result) = (sleeper.clone(), result.clone());
                async move {
                    clock.sleep_until(clock.now() + lease.remaining()).await;
                    result.map_err(Into::into)
                }
            });
            let event_log = log.clone();
            let mut runner = Runner::new(elector, work, clock.clone())
                .on_event(move |event| event_log.event(&event));
            runner.run(clock.sleep_until(seconds(13))).await;
            log.read()
        });
        assert!(lines.iter().any(|line| line.ends_with(&format!("turn {outcome}"))), "{lines:?}");
    }
}

#[test]
fn the_lease_is_not_released_while_the_handler_blocks() {
    VirtualClock::run(async |clock| {
        let log = Log { clock: clock.clone(), lines: Arc::default() };
        let elector = Script { replies: Mutex::default(), log: log.clone() };
        let work = Work { duration: seconds(100), log: log.clone() };
        let event_log = log.clone();
        let runner = Runner::new(elector, work, clock.clone())
            .on_event(move |event| event_log.event(&event));
        let mut candidate = Box::new(Candidate::new(&runner));
        candidate.on_step_result(Duration::ZERO, leading(7).with_again_in(100).report);
        // Work in a thread, which no order reaches.
        let (on_start, started) = mpsc::channel();
        let (finish, finished) = mpsc::channel::<()>();
        let blocks = move || {
            on_start.send(()).unwrap();
            let _ = finished.recv();
            TurnEnd::Succeeded
        };
        let running =
            RunningTurn::with_task(turn(7), seconds(12), Duration::ZERO, clock.handle(), |_| {
                tokio::task::spawn_blocking(blocks)
            });
        started.recv().unwrap();
        candidate.turn = Some(running);
        let (leave, orders) =
            (clock.sleep_until(seconds(20)), &mut tokio::sync::mpsc::channel(1).1);
        runner.drive(candidate, std::pin::pin!(leave), orders).await;
        assert_eq!(log.read(), ["0 elected 7", "17 problem work", "30 problem work", "30 stopped"]);
        drop(finish);
    });
}

#[test]
fn dropping_the_runner_ends_the_work() {
    let lines = VirtualClock::run(async |clock| {
        let log = Log { clock: clock.clone(), lines: Arc::default() };
        let replies = Mutex::new([leading(7).with_turn(turn(7)).with_again_in(100)].into());
        let elector = Script { replies, log: log.clone() };
        let work = Work { duration: seconds(100), log: log.clone() };
        let mut runner = Runner::new(elector, work, clock.clone());
        tokio::select! {
            () = runner.run(std::future::pending()) => {}
            () = clock.sleep_until(seconds(2)) => {}
        }
        clock.sleep_until(seconds(3)).await;
        log.read()
    });
    assert_eq!(lines, ["0 step as new", "0 work begins, term 7", "2 work ends"]);
}

/// Leads, and renews in every step, a thousand times a second.
struct Renewing(AtomicUsize);

impl Elector for Arc<Renewing> {
    async fn step(
        &self,
        _: Option<State>,
        _: Duration,
        input: Option<StepInput>,
    ) -> Result<Report, ElectorError> {
        let step = self.0.fetch_add(1, Ordering::SeqCst);
        let reply = match (step, input) {
            (0, _) => leading(7).with_turn(turn(7)),
            (_, Some(StepInput::Leave(_))) => left(7),
            _ => leading(7),
        };
        let renewed = |report: &mut Report| {
            (report.renewed, report.again_in) = (true, Duration::from_millis(1));
        };
        reply.change(renewed).report
    }
}

#[test]
fn the_election_continues_while_a_handler_never_yields() {
    // One thread for the handler, one for the clock.
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
    assert_renewals_while_a_handler_never_yields(&runtime, |runner| runner);
}

#[test]
fn one_thread_suffices_for_the_election_if_turns_have_their_own() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut turns = tokio::runtime::Builder::new_multi_thread();
    let turns = turns.worker_threads(1).enable_all().build().unwrap();
    let handle = turns.handle().clone();
    assert_renewals_while_a_handler_never_yields(&runtime, |runner| runner.run_turns_on(handle));
}

fn assert_renewals_while_a_handler_never_yields(
    runtime: &tokio::runtime::Runtime,
    configure: impl FnOnce(Runner<Arc<Renewing>, BootClock>) -> Runner<Arc<Renewing>, BootClock>,
) {
    let elector = Arc::new(Renewing(AtomicUsize::new(0)));
    let has_ended = Arc::new(AtomicBool::new(false));
    let (steps, handler_ended) = (elector.clone(), has_ended.clone());
    let spins = from_fn(move |_, _| {
        let (steps, has_ended) = (steps.clone(), has_ended.clone());
        async move {
            let before = steps.0.load(Ordering::SeqCst);
            let started_at = Instant::now();
            while steps.0.load(Ordering::SeqCst) < before + 20 && started_at.elapsed() < seconds(30)
            {
                std::hint::spin_loop();
            }
            has_ended.store(true, Ordering::SeqCst);
            Ok(())
        }
    });
    let log = Arc::new(Mutex::new(Vec::new()));
    let events = log.clone();
    let mut runner = configure(Runner::new(elector, spins, BootClock::new()))
        .on_event(move |event| events.lock().unwrap().push(event));
    runtime.block_on(async {
        let finished = async {
            while !handler_ended.load(Ordering::SeqCst) {
                tokio::task::yield_now().await;
            }
        };
        runner.run(finished).await;
    });
    let log = log.lock().unwrap();
    let renewals = log
        .iter()
        .skip_while(|event| !matches!(event, Event::TurnStarted { .. }))
        .take_while(|event| !matches!(event, Event::TurnEnded { .. }))
        .filter(|event| matches!(event, Event::Renewed { .. }));
    assert!(renewals.count() >= 18, "{log:?}");
}
