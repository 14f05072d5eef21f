//! Rules of the main loop, with a scripted elector and virtual time.

mod background;
mod leaving;
mod orders;
mod stopping;
mod waiting;

use super::{Candidate, Elector, ElectorError, Event, Order, Runner, wait_until_stopped};
use crate::handler::{BoxFuture, Handler, TurnEnd};
use crate::lease::Lease;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tenure_clock::{Clock, virtual_time::VirtualClock};
use tenure_core::{
    Ending, EndingReason, Event as StepInput, Leadership, Outcome, Report, Role, State, Timestamp,
    Turn,
};
use tokio::sync::{Notify, mpsc, watch};

const SECOND: Duration = Duration::from_secs(1);

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Log of events, with the second of each.
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

/// Scripted elector: answers each step with the next reply, and then with nothing to do.
struct Script {
    replies: Mutex<VecDeque<Reply>>,
    log: Log,
}

struct Reply {
    duration: Duration,
    report: Result<Report, ElectorError>,
}

impl Reply {
    fn with_duration(mut self, time: Duration) -> Self {
        self.duration = time;
        self
    }

    fn change(mut self, change: impl FnOnce(&mut Report)) -> Self {
        change(self.report.as_mut().unwrap());
        self
    }

    fn with_again_in(self, time: u64) -> Self {
        self.change(|report| report.again_in = seconds(time))
    }

    /// Adds a turn for slot 0 that may last as long as leadership.
    fn with_turn(self, turn: Turn) -> Self {
        self.change(|report| report.run = Some(turn))
    }
}

fn reply(role: Role) -> Reply {
    let report = Report { state: State::from(vec![1]), ..Report::new(role, seconds(4)) };
    Reply { duration: Duration::ZERO, report: Ok(report) }
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
    Reply { duration: Duration::ZERO, report: Err(ElectorError::new("trap")) }
}

impl Elector for Script {
    async fn step(
        &self,
        state: Option<State>,
        elapsed: Duration,
        input: Option<StepInput>,
    ) -> Result<Report, ElectorError> {
        assert_eq!(elapsed, self.log.clock.now());
        let suffix = if state.is_some() { "" } else { " as new" };
        self.log.add(match &input {
            None => format!("step{suffix}"),
            Some(StepInput::Leave(None)) => format!("step{suffix}: leave"),
            Some(StepInput::Leave(Some(result))) => {
                format!("step{suffix}: leave, {}", outcome_text(result.outcome))
            }
            Some(StepInput::LeaveLate(_)) => unreachable!("no host says this"),
            Some(StepInput::TurnEnded(result)) => {
                format!("step{suffix}: {}", outcome_text(result.outcome))
            }
            Some(StepInput::ResetSlot) => format!("step{suffix}: reset slot"),
            Some(StepInput::Resign) => format!("step{suffix}: resign"),
            Some(StepInput::HandOver(to)) => format!("step{suffix}: hand over to {to}"),
            Some(StepInput::Ready(false)) => format!("step{suffix}: not ready"),
            Some(StepInput::Ready(true)) => format!("step{suffix}: ready"),
            Some(StepInput::BackgroundReply(answer)) => {
                format!("step{suffix}: answered {}", answer.result.is_ok())
            }
            Some(StepInput::Hint) => format!("step{suffix}: hint"),
        });
        let next = self.replies.lock().unwrap().pop_front();
        let next = next.unwrap_or_else(|| {
            reply(if matches!(input, Some(StepInput::Leave(_))) {
                Role::Left
            } else {
                Role::Undecided
            })
        });
        self.log.clock.sleep_until(elapsed + next.duration).await;
        next.report
    }
}

fn outcome_text(outcome: Outcome) -> &'static str {
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

/// Handler whose turns last for a fixed time, and which logs its drops.
struct Work {
    duration: Duration,
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
            let remaining = turn.valid_for;
            let suffix = if remaining < seconds(12) {
                format!(", {remaining:?} left")
            } else {
                String::new()
            };
            log.add(format!("work begins, term {}{suffix}", turn.term));
            let clock = log.clock.clone();
            let _guard = Guard(log);
            clock.sleep_until(clock.now() + self.duration).await;
            TurnEnd::Succeeded
        })
    }

    fn grace(&self) -> Duration {
        seconds(10)
    }
}

/// Runs a candidate that is asked to leave after `leave` seconds, and returns the log.
fn play(duration: u64, leave: u64, replies: impl IntoIterator<Item = Reply>) -> Vec<String> {
    play_with_grace(0, duration, leave, replies)
}

fn play_with_grace(
    grace: u64,
    duration: u64,
    leave: u64,
    replies: impl IntoIterator<Item = Reply>,
) -> Vec<String> {
    play_with_orders(Vec::new(), grace, duration, leave, replies)
}

/// Runs a candidate with orders, each at a given second.
fn play_with_orders(
    orders: Vec<(u64, Order)>,
    grace: u64,
    duration: u64,
    leave: u64,
    replies: impl IntoIterator<Item = Reply>,
) -> Vec<String> {
    play_with(|runner| runner.grace(seconds(grace)), orders, duration, leave, replies)
}

fn play_with(
    configure: impl FnOnce(Runner<Script, VirtualClock>) -> Runner<Script, VirtualClock>,
    orders_at: Vec<(u64, Order)>,
    duration: u64,
    leave: u64,
    replies: impl IntoIterator<Item = Reply>,
) -> Vec<String> {
    let replies = Mutex::new(replies.into_iter().collect());
    VirtualClock::run(async |clock| {
        let log = Log { clock: clock.clone(), lines: Arc::default() };
        let elector = Script { replies, log: log.clone() };
        let work = Work { duration: seconds(duration), log: log.clone() };
        let event_log = log.clone();
        let mut runner = configure(Runner::new(elector, work, clock.clone()))
            .on_event(move |event| event_log.event(&event));
        let (order_sender, mut order_receiver) = mpsc::channel(8);
        let ordering = async {
            for (at, next_order) in orders_at {
                clock.sleep_until(seconds(at)).await;
                order_sender.send(next_order).await.unwrap();
            }
        };
        let leave = clock.sleep_until(seconds(leave));
        tokio::join!(runner.run_with(leave, &mut order_receiver), ordering);
        log.read()
    })
}

#[test]
fn a_turn_runs_to_its_end_and_its_outcome_is_reported_at_once() {
    let lines = play(1, 2, [leading(7).with_turn(turn(7)), leading(7)]);
    assert_eq!(
        lines,
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
fn the_reported_validity_is_the_remaining_one() {
    let renewed = |term| leading(term).change(|report| report.renewed = true);
    let lines = play(
        100,
        21,
        [
            leading(7),
            renewed(7).with_duration(seconds(3)).with_again_in(8),
            renewed(7).with_duration(seconds(14)).with_again_in(100),
        ],
    );
    let renewals: Vec<_> = lines.iter().filter(|line| line.contains("renewed")).collect();
    assert_eq!(renewals, ["7 renewed 7 for 9000", "26 renewed 7 for 0"], "{lines:?}");
}

#[test]
fn the_deadline_stops_the_work_while_a_step_hangs() {
    let lines = play(
        100,
        20,
        [
            leading(7).with_turn(turn(7)),
            leading(7).with_duration(seconds(11)),
            lost(7, EndingReason::ValidityEnded),
        ],
    );
    assert_eq!(
        lines,
        [
            "0 step as new",
            "0 elected 7",
            "0 turn started",
            "0 work begins, term 7",
            "4 step",
            "12 work ends",
            "12 turn cut-off",
            // The running step was not dropped; its end comes first.
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
    let lines = play(
        100,
        40,
        [leading(7).with_turn(turn(7)), leading(7), leading(7), leading(7).with_again_in(100)],
    );
    // The last step was at 12 s, and leadership lasts 12 s more.
    assert_eq!(
        lines[4..],
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
fn a_renewal_after_the_deadline_does_not_save_the_turn() {
    // The step takes exactly as long as leadership lasts.
    let lines = play(
        100,
        13,
        [leading(7).with_turn(turn(7)), leading(7).with_duration(seconds(8)).with_again_in(100)],
    );
    assert_eq!(
        lines[4..],
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
fn a_lost_lease_stops_the_work_before_the_next_step() {
    let lines = play(100, 5, [leading(7).with_turn(turn(7)), lost(7, EndingReason::LeaseLost)]);
    assert_eq!(
        lines[4..],
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
fn an_expired_turn_is_not_started() {
    let lines = play(100, 13, [leading(7).with_turn(turn(7)).with_duration(seconds(12))]);
    assert_eq!(
        lines,
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
    let lines = play(6, 7, [leading(7).with_turn(turn(7)), leading(7).with_turn(turn(7))]);
    assert_eq!(
        lines[4..],
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
    let lines = play(100, 6, [leading(7).with_turn(turn(7)), trap(), leading(8)]);
    assert_eq!(
        lines[4..],
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
    let lines = play(100, 122, [leading(7).with_duration(seconds(1000))]);
    assert_eq!(
        lines,
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
    let lines = VirtualClock::run(async |clock| {
        let log = Log { clock: clock.clone(), lines: Arc::default() };
        let replies = Mutex::new([leading(7).with_turn(turn(7))].into());
        let elector = Script { replies, log: log.clone() };
        let panics = crate::handler::from_fn(|_, _| async { panic!("no") });
        let event_log = log.clone();
        let mut runner = Runner::new(elector, panics, clock.clone()).on_event(move |event| {
            if let Event::TurnEnded { end, .. } = event {
                event_log.add(format!("{end}: {:?}", end.detail()));
            }
        });
        runner.run(clock.sleep_until(seconds(1))).await;
        let lines = log.lines.lock().unwrap();
        lines.clone()
    });
    assert_eq!(
        lines,
        [
            "0 step as new",
            r#"0 trapped: Some("the handler panicked: no")"#,
            "0 step: trapped",
            "1 step: leave",
        ]
    );
}

/// Runs `test` with a candidate that has a running turn, between two steps.
fn with_candidate(test: impl AsyncFnOnce(&mut Candidate<'_, Script, VirtualClock>)) {
    VirtualClock::run(async |clock| {
        let log = Log { clock: clock.clone(), lines: Arc::default() };
        let elector = Script { replies: Mutex::default(), log: log.clone() };
        let work = Work { duration: seconds(100), log };
        let runner = Runner::new(elector, work, clock.clone()).grace(Duration::ZERO);
        let mut candidate = Candidate::new(&runner);
        candidate.on_step_result(Duration::ZERO, leading(7).with_turn(turn(7)).report);
        assert!(candidate.turn.is_some());
        test(&mut candidate).await;
    });
}

#[test]
fn no_new_lease_is_won_until_the_work_has_stopped() {
    with_candidate(async |candidate| {
        candidate.on_step_result(Duration::ZERO, trap().report);
        candidate.runner.clock.sleep_until(seconds(5)).await;
        assert!(candidate.next_step().is_none());
        let end = wait_until_stopped(&mut candidate.turn).await;
        candidate.on_turn_ended(end);
        assert!(candidate.next_step().is_some());
    });
}

#[test]
fn the_lease_is_not_released_until_the_work_has_stopped() {
    with_candidate(async |candidate| {
        candidate.leave();
        assert!(candidate.next_step().is_none());
        let end = wait_until_stopped(&mut candidate.turn).await;
        candidate.on_turn_ended(end);
        assert!(candidate.next_step().is_some() && candidate.leave_sent);
    });
}
