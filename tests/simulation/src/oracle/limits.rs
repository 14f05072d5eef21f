//! Limits of turns and leaderships (protocol.md §5, §7.1).
//!
//! - A turn ends at its time limit and not before.
//! - A leader whose writes fail steps down.
//! - A candidate whose work failed does not contend for a while.

use super::super::fault::{Fault, Step};
use super::super::history::{CandidateId, Entry, History, HistoryEvent, Written};
use super::super::plan::{COOL_DOWN, MAX_COOL_DOWN};
use super::super::world::Millis;
use super::fault_periods::{ends_leadership, on_slow_clock};
use super::{Violation, violation};

/// Time that the host takes to stop a turn: a millisecond by its own clock, with a reserve.
const STOP_LATENCY: Millis = 20;

const SECOND: Millis = 1_000;

/// Longest back-off between two attempts.
const BACK_OFF: Millis = 500;

pub fn check_limits(history: &History) -> Vec<Violation> {
    let mut violations = check_turns(history);
    violations.extend(check_stalled(history));
    violations.extend(check_cut_short(history));
    violations.extend(check_wind_down(history));
    violations.extend(check_cool_downs(history));
    violations
}

fn check_turns(history: &History) -> Vec<Violation> {
    let Some(limit) = history.turn_timeout else { return Vec::new() };
    let mut started_at: Vec<Option<Millis>> = vec![None; history.lives.len()];
    let mut is_frozen = vec![false; history.lives.len()];
    let mut violations = Vec::new();
    for Entry { at, event } in &history.entries {
        match *event {
            HistoryEvent::TurnBegan { candidate, .. } => {
                started_at[candidate] = Some(*at).filter(|_| !is_frozen[candidate])
            }
            // A frozen turn is stopped when its process resumes; the supervisor stops a turn that
            // outlives its process.
            HistoryEvent::Paused(candidate) => {
                (started_at[candidate], is_frozen[candidate]) = (None, true)
            }
            HistoryEvent::Resumed(candidate) => {
                (started_at[candidate], is_frozen[candidate]) = (None, false)
            }
            HistoryEvent::Killed(candidate) => started_at[candidate] = None,
            HistoryEvent::ClockSetForward(machine) => {
                let is_on_machine =
                    |candidate: &CandidateId| history.lives[*candidate].machine == machine;
                (0..history.lives.len())
                    .filter(is_on_machine)
                    .for_each(|candidate| started_at[candidate] = None);
            }
            HistoryEvent::TurnOver(candidate, _) => {
                let is_late = |from: Millis| *at > from + on_slow_clock(limit) + STOP_LATENCY;
                if started_at[candidate].take().is_some_and(is_late) {
                    let message = format!("the turn of c{candidate} goes on beyond its time limit");
                    violations.push(violation("turn", *at, message));
                }
            }
            _ => {}
        }
    }
    violations
}

/// Checks leaders that renew while their claims and outcomes fail.
fn check_stalled(history: &History) -> Vec<Violation> {
    // When each leader sent its first claim or outcome since the store last accepted a write of it.
    let mut since: Vec<Option<Millis>> = vec![None; history.lives.len()];
    let mut recorded: Option<&Written> = None;
    let mut violations = Vec::new();
    for Entry { at, event } in &history.entries {
        if let Some(request) = history.accepted_request(*event)
            && let Some(write) = &request.write
        {
            since[request.candidate] = None;
            recorded = Some(write);
        }
        match *event {
            HistoryEvent::Sent(number) => {
                let request = &history.requests[number];
                let (candidate, periods) =
                    (request.candidate, &history.lives[request.candidate].periods);
                let most = on_slow_clock(2 * periods.lease) + 2 * periods.timeout + BACK_OFF;
                let is_overdue = since[candidate].is_some_and(|since| *at > since + most);
                match request.step {
                    // A write that only changes the successor or a refusal looks like a claim or an
                    // outcome, and is neither.
                    Step::Claim | Step::Outcome
                        if request.write.as_ref().map(turn_fields) != recorded.map(turn_fields) =>
                    {
                        _ = since[candidate].get_or_insert(*at);
                    }
                    Step::Renew if is_overdue => {
                        let message =
                            format!("c{candidate} leads on, though its writes do not get through");
                        violations.push(violation("stalled", *at, message));
                        since[candidate] = None;
                    }
                    _ if ends_leadership(history, candidate, *event) => since[candidate] = None,
                    _ => {}
                }
            }
            // The claim is recorded: an earlier attempt was carried out after all.
            HistoryEvent::TurnBegan { candidate, .. } => since[candidate] = None,
            // The candidate may have forgotten the write, or may no longer need it.
            HistoryEvent::Paused(candidate)
            | HistoryEvent::Killed(candidate)
            | HistoryEvent::StepFailed(candidate)
            | HistoryEvent::Left(candidate) => {
                since[candidate] = None;
            }
            HistoryEvent::FaultInjected(
                Fault::SettingsSpoilt | Fault::SecretSpoilt | Fault::TokensFail,
                ..,
            ) => {
                since.fill(None);
            }
            _ => {}
        }
    }
    violations
}

/// Returns the fields of a record that describe turns.
fn turn_fields(write: &Written) -> impl PartialEq + use<> {
    let Written { slot, attempt, trigger, finished, is_done: done, failed, .. } = *write;
    (slot, attempt, trigger, finished, done, failed)
}

/// Checks that a turn runs as long as its leader leads: a failed handover does not end it.
fn check_cut_short(history: &History) -> Vec<Violation> {
    // The time of a turn is over on a clock that was set forward.
    let mut clock_set_at: Vec<Option<Millis>> = vec![None; history.lives.len()];
    let mut violations = Vec::new();
    for Entry { at, event } in &history.entries {
        match *event {
            HistoryEvent::ClockSetForward(machine) => {
                let is_on_machine =
                    |candidate: &CandidateId| history.lives[*candidate].machine == machine;
                (0..history.lives.len())
                    .filter(is_on_machine)
                    .for_each(|candidate| clock_set_at[candidate] = Some(*at));
            }
            HistoryEvent::TurnCutShort(candidate)
                if clock_set_at[candidate]
                    .is_none_or(|clock_set_at| *at > clock_set_at + STOP_LATENCY) =>
            {
                let message =
                    format!("the turn of c{candidate} is stopped, and nothing asked for its end");
                violations.push(violation("turn", *at, message));
            }
            _ => {}
        }
    }
    violations
}

/// Time for the work to end once its leader has seen a successor, or a lease, whatever its grace
/// (protocol.md §7.2).
const WORK_END_TIMEOUT: Millis = 40_000;

/// Checks that a turn runs no longer than a handover allows.
fn check_wind_down(history: &History) -> Vec<Violation> {
    let mut since: Vec<Option<Millis>> = vec![None; history.lives.len()];
    let mut violations = Vec::new();
    for Entry { at, event } in &history.entries {
        match *event {
            HistoryEvent::WindDown(candidate, winds_down) => {
                since[candidate] = winds_down.then_some(*at)
            }
            HistoryEvent::Paused(candidate) | HistoryEvent::Killed(candidate) => {
                since[candidate] = None
            }
            HistoryEvent::ClockSetForward(machine) => {
                let is_on_machine =
                    |candidate: &CandidateId| history.lives[*candidate].machine == machine;
                (0..history.lives.len())
                    .filter(is_on_machine)
                    .for_each(|candidate| since[candidate] = None);
            }
            HistoryEvent::TurnOver(candidate, _) => {
                let most =
                    on_slow_clock(WORK_END_TIMEOUT.max(history.lives[candidate].periods.lease))
                        + STOP_LATENCY;
                if since[candidate].take().is_some_and(|since| *at > since + most) {
                    let message =
                        format!("the turn of c{candidate} goes on, and a successor waits for it");
                    violations.push(violation("turn", *at, message));
                }
            }
            _ => {}
        }
    }
    violations
}

/// Checks that a trapped turn ends the leadership, and that a candidate does not contend
/// immediately after failed work.
fn check_cool_downs(history: &History) -> Vec<Violation> {
    let lives = history.lives.len();
    // The term of each candidate's newest turn, and of its newest turn that trapped.
    let (mut term, mut trapped_term) = (vec![0; lives], vec![None; lives]);
    // The number of consecutive failures of each candidate, and the end of its cool-down.
    let (mut failure_count, mut cool_down_until) = (vec![0; lives], vec![0; lives]);
    // When the clock of each candidate was last set forward.
    let mut clock_set_at = vec![0; lives];
    let mut violations = Vec::new();
    for Entry { at, event } in &history.entries {
        match *event {
            HistoryEvent::TurnBegan { candidate, term: turn_term, .. } => {
                if trapped_term[candidate] == Some(turn_term) {
                    let message =
                        format!("c{candidate} runs another turn in the term in which one trapped");
                    violations.push(violation("cool-down", *at, message));
                }
                term[candidate] = turn_term;
            }
            HistoryEvent::BecameLeader(candidate) => trapped_term[candidate] = None,
            HistoryEvent::TurnTrapped(candidate) => trapped_term[candidate] = Some(term[candidate]),
            HistoryEvent::WorkFailed(candidate, failed_step_at) => {
                // The cool-down is drawn between half and all of a period that doubles each time.
                // The clock may be 1 % fast.
                let least =
                    ((COOL_DOWN * SECOND) << failure_count[candidate]).min(MAX_COOL_DOWN) / 2;
                cool_down_until[candidate] = if clock_set_at[candidate] < failed_step_at {
                    failed_step_at + least - least / 50
                } else {
                    0
                };
                failure_count[candidate] = (failure_count[candidate] + 1).min(8);
            }
            HistoryEvent::TurnSucceeded(candidate) | HistoryEvent::StepFailed(candidate) => {
                (cool_down_until[candidate], failure_count[candidate]) = (0, 0)
            }
            HistoryEvent::ClockSetForward(machine) => {
                let is_on_machine =
                    |candidate: &CandidateId| history.lives[*candidate].machine == machine;
                (0..lives).filter(is_on_machine).for_each(|candidate| {
                    (cool_down_until[candidate], clock_set_at[candidate]) = (0, *at)
                });
            }
            HistoryEvent::Sent(number) => {
                let request = &history.requests[number];
                if request.step == Step::Acquire && *at < cool_down_until[request.candidate] {
                    let message =
                        format!("c{} contends soon after its work failed", request.candidate);
                    violations.push(violation("cool-down", *at, message));
                }
            }
            _ => {}
        }
    }
    violations
}
