//! The rules of the loop, with a scripted elector and virtual time.

mod beside;
mod leaving;
mod orders;
mod stopping;
mod waiting;

use super::{Candidate, Elector, ElectorError, Event, Order, Runner, seen_stopped};
use crate::handler::{BoxFuture, Handler, TurnEnd};
use crate::lease::Lease;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tenure_clock::{Clock, virtual_time::VirtualClock};
use tenure_core::{
    Ending, EndingReason, Event as Word, Leadership, Outcome, Report, Role, State, Timestamp, Turn,
};
use tokio::sync::{Notify, mpsc, watch};

const SECOND: Duration = Duration::from_secs(1);

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// What happened, with the second in which it did.
#[derive(Clone)]
struct Log {
    clock: VirtualClock,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Log {
    fn add(&self, line: impl std::fmt::Display) {
        let line = format!("{} {line}", self.clock.now().as_secs_f32());
        self.lines.lock().unwrap().push(line);
    }

    fn event(&self, event: &Event) {
        match event {
            Event::TurnEnded { end, .. } => self.add(format!("turn {end}")),
            Event::TurnStarted { .. } => self.add("turn started"),
            Event::Elected { term, .. } => self.add(format!("elected {term}")),
            Event::Renewed { term, valid_for } => {
                self.add(format!("renewed {term} for {}", valid_for.as_millis()));
            }
            Event::StoodDown { term, reason } => self.add(format!("stood down {term} {reason}")),
            Event::Problem { class, .. } => self.add(format!("problem {class}")),
            Event::Ordered { order } => self.add(format!("ordered {order}")),
            Event::Note { detail } => self.add(format!("note {detail}")),
            Event::Stopped => self.add("stopped"),
            _ => {}
        }
    }

    fn read(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }
}

/// Plays the component: answers each step with the next reply, then with nothing to do.
struct Script {
    replies: Mutex<VecDeque<Reply>>,
    log: Log,
}

struct Reply {
    takes: Duration,
    report: Result<Report, ElectorError>,
}

impl Reply {
    fn takes(mut self, time: Duration) -> Self {
        self.takes = time;
        self
    }

    fn change(mut self, change: impl FnOnce(&mut Report)) -> Self {
        change(self.report.as_mut().unwrap());
        self
    }

    fn again_in(self, time: u64) -> Self {
        self.change(|report| report.again_in = seconds(time))
    }

    /// With a turn for slot 0 that may last as long as the leadership.
    fn run(self, turn: Turn) -> Self {
        self.change(|report| report.run = Some(turn))
    }
}

fn reply(role: Role) -> Reply {
    let report = Report { state: State::from(vec![1]), ..Report::of(role, seconds(4)) };
    Reply { takes: Duration::ZERO, report: Ok(report) }
}

fn leading(term: u64) -> Reply {
    reply(Role::Leading(Leadership { term, valid_for: 12 * SECOND }))
}

fn lost(term: u64, reason: EndingReason) -> Reply {
    reply(Role::Undecided).change(|report| report.ending = Some(Ending { term, reason }))
}

fn left(term: u64) -> Reply {
    lost(term, EndingReason::Left).change(|report| report.role = Role::Left)
}

fn turn(term: u64) -> Turn {
    let (valid_for, time_limit) = (12 * SECOND, None);
    Turn {
        election: String::new(),
        key: String::new(),
        term,
        slot: Timestamp(0),
        trigger: None,
        attempt: 1,
        past_due: false,
        missed: 0,
        valid_for,
        time_limit,
        share: None,
    }
}

fn trap() -> Reply {
    Reply { takes: Duration::ZERO, report: Err(ElectorError::new("trap")) }
}

impl Elector for Script {
    async fn step(
        &self,
        state: Option<State>,
        elapsed: Duration,
        word: Option<Word>,
    ) -> Result<Report, ElectorError> {
        assert_eq!(elapsed, self.log.clock.now());
        let known = if state.is_some() { "" } else { " as new" };
        self.log.add(match &word {
            None => format!("step{known}"),
            Some(Word::Leave(None)) => format!("step{known}: leave"),
            Some(Word::Leave(Some(result))) => {
                format!("step{known}: leave, {}", said(result.outcome))
            }
            Some(Word::LeaveLate(_)) => unreachable!("no host says this"),
            Some(Word::TurnEnded(result)) => format!("step{known}: {}", said(result.outcome)),
            Some(Word::ResetSlot) => format!("step{known}: reset slot"),
            Some(Word::Resign) => format!("step{known}: resign"),
            Some(Word::HandOver(to)) => format!("step{known}: hand over to {to}"),
            Some(Word::Ready(false)) => format!("step{known}: not ready"),
            Some(Word::Ready(true)) => format!("step{known}: ready"),
            Some(Word::Answered(answer)) => {
                format!("step{known}: answered {}", answer.reply.is_ok())
            }
            Some(Word::Hint) => format!("step{known}: hint"),
        });
        let next = self.replies.lock().unwrap().pop_front();
        let next = next.unwrap_or_else(|| {
            reply(if matches!(word, Some(Word::Leave(_))) { Role::Left } else { Role::Undecided })
        });
        self.log.clock.sleep_until(elapsed + next.takes).await;
        next.report
    }
}

fn said(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Succeeded => "succeeded",
        Outcome::Failed => "failed",
        Outcome::Trapped => "trapped",
        Outcome::TimedOut => "timed out",
        Outcome::CutOff => "cut off",
        Outcome::Abandoned => "abandoned",
        Outcome::NotStarted => "not started",
    }
}

/// A handler whose turns last for a time, and that tells when it is dropped.
struct Work {
    lasts: Duration,
    log: Log,
}

struct Guard(Log);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.add("work ends");
    }
}

impl Handler for Work {
    fn on_tick(&self, turn: Turn, _lease: Lease) -> BoxFuture<'_, TurnEnd> {
        let log = self.log.clone();
        Box::pin(async move {
            let left = turn.valid_for;
            let left = if left < seconds(12) { format!(", {left:?} left") } else { String::new() };
            log.add(format!("work begins, term {}{left}", turn.term));
            let clock = log.clock.clone();
            let _guard = Guard(log);
            clock.sleep_until(clock.now() + self.lasts).await;
            TurnEnd::Succeeded
        })
    }

    fn grace(&self) -> Duration {
        seconds(10)
    }
}

/// Runs a candidate that is told to leave after `leave` seconds, and returns what happened.
fn play(lasts: u64, leave: u64, replies: impl IntoIterator<Item = Reply>) -> Vec<String> {
    play_with_grace(0, lasts, leave, replies)
}

fn play_with_grace(
    grace: u64,
    lasts: u64,
    leave: u64,
    replies: impl IntoIterator<Item = Reply>,
) -> Vec<String> {
    play_with_orders(Vec::new(), grace, lasts, leave, replies)
}

/// The same with orders, each at a second.
fn play_with_orders(
    ordered: Vec<(u64, Order)>,
    grace: u64,
    lasts: u64,
    leave: u64,
    replies: impl IntoIterator<Item = Reply>,
) -> Vec<String> {
    play_with(|runner| runner.grace(seconds(grace)), ordered, lasts, leave, replies)
}

fn play_with(
    changed: impl FnOnce(Runner<Script, VirtualClock>) -> Runner<Script, VirtualClock>,
    ordered: Vec<(u64, Order)>,
    lasts: u64,
    leave: u64,
    replies: impl IntoIterator<Item = Reply>,
) -> Vec<String> {
    let replies = Mutex::new(replies.into_iter().collect());
    VirtualClock::run(async |clock| {
        let log = Log { clock: clock.clone(), lines: Arc::default() };
        let elector = Script { replies, log: log.clone() };
        let work = Work { lasts: seconds(lasts), log: log.clone() };
        let told = log.clone();
        let mut runner = changed(Runner::new(elector, work, clock.clone()))
            .on_event(move |event| told.event(&event));
        let (order, mut orders) = mpsc::channel(8);
        let ordering = async {
            for (at, what) in ordered {
                clock.sleep_until(seconds(at)).await;
                order.send(what).await.unwrap();
            }
        };
        let leave = clock.sleep_until(seconds(leave));
        tokio::join!(runner.run_with(leave, &mut orders), ordering);
        log.read()
    })
}

#[test]
fn a_turn_runs_to_its_end_and_its_outcome_is_told_at_once() {
    let seen = play(1, 2, [leading(7).run(turn(7)), leading(7)]);
    assert_eq!(
        seen,
        [
            "0 step as new",
            "0 elected 7",
            "0 turn started",
            "0 work begins, term 7",
            "1 work ends",
            "1 turn succeeded",
            "1 step: succeeded",
            "2 step: leave",
            "2 stopped",
        ]
    );
}

#[test]
fn the_validity_is_told_as_what_is_left_of_it() {
    let renewed = |term| leading(term).change(|report| report.renewed = true);
    let seen = play(
        100,
        21,
        [
            leading(7),
            renewed(7).takes(seconds(3)).again_in(8),
            renewed(7).takes(seconds(14)).again_in(100),
        ],
    );
    let told: Vec<_> = seen.iter().filter(|line| line.contains("renewed")).collect();
    assert_eq!(told, ["7 renewed 7 for 9000", "26 renewed 7 for 0"], "{seen:?}");
}

#[test]
fn the_deadline_stops_the_work_while_a_step_hangs() {
    let seen = play(
        100,
        20,
        [
            leading(7).run(turn(7)),
            leading(7).takes(seconds(11)),
            lost(7, EndingReason::ValidityEnded),
        ],
    );
    assert_eq!(
        seen,
        [
            "0 step as new",
            "0 elected 7",
            "0 turn started",
            "0 work begins, term 7",
            "4 step",
            "12 work ends",
            "12 turn cut-off",
            // The step in flight was not dropped; its end comes first.
            "15 step: cut off",
            "15 stood down 7 validity-ended",
            "19 step",
            "20 step: leave",
            "20 stopped",
        ]
    );
}

#[test]
fn a_later_leadership_moves_the_deadline_of_a_running_turn() {
    let seen =
        play(100, 40, [leading(7).run(turn(7)), leading(7), leading(7), leading(7).again_in(100)]);
    // The last step was at 12 s, and its leadership lasts 12 s more.
    assert_eq!(
        seen[4..],
        [
            "4 step",
            "8 step",
            "12 step",
            "24 work ends",
            "24 turn cut-off",
            "24 step: cut off",
            "28 step",
            "32 step",
            "36 step",
            "40 step: leave",
            "40 stopped",
        ]
    );
}

#[test]
fn an_answer_after_the_deadline_does_not_save_the_turn() {
    // The step takes exactly as long as the leadership lasts.
    let seen = play(100, 13, [leading(7).run(turn(7)), leading(7).takes(seconds(8)).again_in(100)]);
    assert_eq!(
        seen[4..],
        [
            "4 step",
            "12 work ends",
            "12 turn cut-off",
            "12 step: cut off",
            "13 step: leave",
            "13 stopped"
        ]
    );
}

#[test]
fn a_lost_lease_stops_the_work_before_anything_is_told() {
    let seen = play(100, 5, [leading(7).run(turn(7)), lost(7, EndingReason::LeaseLost)]);
    assert_eq!(
        seen[4..],
        [
            "4 step",
            "4 stood down 7 lease-lost",
            "4 work ends",
            "4 turn cut-off",
            "4 step: cut off",
            "5 step: leave",
            "5 stopped",
        ]
    );
}

#[test]
fn a_turn_whose_time_is_over_is_not_started() {
    let seen = play(100, 13, [leading(7).run(turn(7)).takes(seconds(12))]);
    assert_eq!(
        seen,
        [
            "0 step as new",
            "12 elected 7",
            "12 turn cut-off",
            "12 step: not started",
            "13 step: leave",
            "13 stopped",
        ]
    );
}

#[test]
fn two_turns_never_run_at_a_time() {
    let seen = play(6, 7, [leading(7).run(turn(7)), leading(7).run(turn(7))]);
    assert_eq!(
        seen[4..],
        [
            "4 step",
            "4 problem component",
            "6 work ends",
            "6 turn succeeded",
            "6 step: succeeded",
            "7 step: leave",
            "7 stopped",
        ]
    );
}

#[test]
fn a_component_that_fails_is_a_new_candidate_once_the_work_has_stopped() {
    let seen = play(100, 6, [leading(7).run(turn(7)), trap(), leading(8)]);
    assert_eq!(
        seen[4..],
        [
            "4 step",
            "4 problem component",
            "4 stood down 7 component-failed",
            "4 work ends",
            "4 turn cut-off",
            "5 step as new",
            "5 elected 8",
            "6 step: leave",
            "6 stopped",
        ]
    );
}

#[test]
fn a_step_without_an_end_is_a_failure() {
    let seen = play(100, 122, [leading(7).takes(seconds(1000))]);
    assert_eq!(
        seen,
        [
            "0 step as new",
            "120 problem component",
            "121 step as new",
            "122 step: leave",
            "122 stopped",
        ]
    );
}

#[test]
fn a_panicking_handler_is_a_failed_turn() {
    let seen = VirtualClock::run(async |clock| {
        let log = Log { clock: clock.clone(), lines: Arc::default() };
        let replies = Mutex::new([leading(7).run(turn(7))].into());
        let elector = Script { replies, log: log.clone() };
        let panics = crate::handler::from_fn(|_, _| async { panic!("no") });
        let told = log.clone();
        let mut runner = Runner::new(elector, panics, clock.clone()).on_event(move |event| {
            if let Event::TurnEnded { end, .. } = event {
                told.add(format!("{end}: {:?}", end.detail()));
            }
        });
        runner.run(clock.sleep_until(seconds(1))).await;
        let lines = log.lines.lock().unwrap();
        lines.clone()
    });
    assert_eq!(
        seen,
        [
            "0 step as new",
            r#"0 trapped: Some("the handler panicked: no")"#,
            "0 step: trapped",
            "1 step: leave",
        ]
    );
}

/// A candidate whose turn runs, between two steps.
fn with_candidate(test: impl AsyncFnOnce(&mut Candidate<'_, Script, VirtualClock>)) {
    VirtualClock::run(async |clock| {
        let log = Log { clock: clock.clone(), lines: Arc::default() };
        let elector = Script { replies: Mutex::default(), log: log.clone() };
        let work = Work { lasts: seconds(100), log };
        let runner = Runner::new(elector, work, clock.clone()).grace(Duration::ZERO);
        let mut candidate = Candidate::new(&runner);
        candidate.stepped(Duration::ZERO, leading(7).run(turn(7)).report);
        assert!(candidate.turn.is_some());
        test(&mut candidate).await;
    });
}

#[test]
fn nothing_is_won_anew_until_the_work_was_seen_stopped() {
    with_candidate(async |candidate| {
        candidate.stepped(Duration::ZERO, trap().report);
        candidate.runner.clock.sleep_until(seconds(5)).await;
        assert!(candidate.next_step().is_none());
        let end = seen_stopped(&mut candidate.turn).await;
        candidate.turn_ended(end);
        assert!(candidate.next_step().is_some());
    });
}

#[test]
fn nothing_is_released_until_the_work_was_seen_stopped() {
    with_candidate(async |candidate| {
        candidate.leave();
        assert!(candidate.next_step().is_none());
        let end = seen_stopped(&mut candidate.turn).await;
        candidate.turn_ended(end);
        assert!(candidate.next_step().is_some() && candidate.said_goodbye);
    });
}
