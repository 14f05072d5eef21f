//! Limits of turns and of leaderships: a turn ends at its time limit and not before, a leader whose writes do not get
//! through steps down, and a candidate whose work failed leaves the lease to the others for a while (protocol.md §5, §7.1).

use super::super::fault::{Fault, Step};
use super::super::history::{Entry, History, HistoryEvent, CandidateId, Written};
use super::super::plan::{COOL_DOWN, LONGEST_COOL_DOWN};
use super::super::world::Millis;
use super::calm::{ends_leadership, on_slow_clock};
use super::{Violation, violation};

/// The host stops a turn within the millisecond, by its own clock.
const STOP_LATENCY: Millis = 20;

/// The milliseconds of a second.
const SECOND: Millis = 1_000;

/// A back-off between two tries.
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
            HistoryEvent::TurnBegan { candidate, .. } => started_at[candidate] = Some(*at).filter(|_| !is_frozen[candidate]),
            // A frozen turn is stopped when its process goes on; the supervisor stops one that outlives its process.
            HistoryEvent::Paused(candidate) => (started_at[candidate], is_frozen[candidate]) = (None, true),
            HistoryEvent::Resumed(candidate) => (started_at[candidate], is_frozen[candidate]) = (None, false),
            HistoryEvent::Killed(candidate) => started_at[candidate] = None,
            HistoryEvent::ClockSetForward(machine) => {
                let is_on_machine = |candidate: &CandidateId| history.lives[*candidate].machine == machine;
                (0..history.lives.len()).filter(is_on_machine).for_each(|candidate| started_at[candidate] = None);
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

/// A leader that renews, and whose claims and outcomes do not get through.
fn check_stalled(history: &History) -> Vec<Violation> {
    // When each leader sent the first claim or outcome that was not taken, and no write of it was taken since.
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
                let (candidate, periods) = (request.candidate, &history.lives[request.candidate].periods);
                let most = on_slow_clock(2 * periods.lease) + 2 * periods.timeout + BACK_OFF;
                let is_overdue = since[candidate].is_some_and(|since| *at > since + most);
                match request.step {
                    // A write of a successor or of a refusal alone looks like a claim or an outcome, and is none.
                    Step::Claim | Step::Outcome
                        if request.write.as_ref().map(turn_fields) != recorded.map(turn_fields) =>
                    {
                        _ = since[candidate].get_or_insert(*at);
                    }
                    Step::Renew if is_overdue => {
                        let message = format!("c{candidate} leads on, though its writes do not get through");
                        violations.push(violation("stalled", *at, message));
                        since[candidate] = None;
                    }
                    _ if ends_leadership(history, candidate, *event) => since[candidate] = None,
                    _ => {}
                }
            }
            // Its claim is on record: an earlier try of it was carried out after all.
            HistoryEvent::TurnBegan { candidate, .. } => since[candidate] = None,
            // The candidate may have forgotten the write, or may not want it any more.
            HistoryEvent::Paused(candidate) | HistoryEvent::Killed(candidate) | HistoryEvent::StepFailed(candidate) | HistoryEvent::Left(candidate) => {
                since[candidate] = None;
            }
            HistoryEvent::FaultInjected(Fault::SettingsSpoilt | Fault::SecretSpoilt | Fault::TokensFail, ..) => {
                since.fill(None);
            }
            _ => {}
        }
    }
    violations
}

/// What a record tells of turns.
fn turn_fields(write: &Written) -> impl PartialEq + use<> {
    let Written { slot, attempt, trigger, finished, is_done: done, failed, .. } = *write;
    (slot, attempt, trigger, finished, done, failed)
}

/// A turn goes on as long as its leader leads on: a handover that failed takes nothing from it.
fn check_cut_short(history: &History) -> Vec<Violation> {
    // By a clock that is set forward its time is over.
    let mut clock_set_at: Vec<Option<Millis>> = vec![None; history.lives.len()];
    let mut violations = Vec::new();
    for Entry { at, event } in &history.entries {
        match *event {
            HistoryEvent::ClockSetForward(machine) => {
                let is_on_machine = |candidate: &CandidateId| history.lives[*candidate].machine == machine;
                (0..history.lives.len()).filter(is_on_machine).for_each(|candidate| clock_set_at[candidate] = Some(*at));
            }
            HistoryEvent::TurnCutShort(candidate) if clock_set_at[candidate].is_none_or(|clock_set_at| *at > clock_set_at + STOP_LATENCY) => {
                let message = format!("the turn of c{candidate} is stopped, and nothing asked for its end");
                violations.push(violation("turn", *at, message));
            }
            _ => {}
        }
    }
    violations
}

/// The work has so long to end once its leader has seen a successor, or a lease, whatever its grace (protocol.md §7.2).
const WORK_END_TIMEOUT: Millis = 40_000;

/// A turn does not go on for longer than a handover leaves it.
fn check_wind_down(history: &History) -> Vec<Violation> {
    let mut since: Vec<Option<Millis>> = vec![None; history.lives.len()];
    let mut violations = Vec::new();
    for Entry { at, event } in &history.entries {
        match *event {
            HistoryEvent::WindDown(candidate, winds_down) => since[candidate] = winds_down.then_some(*at),
            HistoryEvent::Paused(candidate) | HistoryEvent::Killed(candidate) => since[candidate] = None,
            HistoryEvent::ClockSetForward(machine) => {
                let is_on_machine = |candidate: &CandidateId| history.lives[*candidate].machine == machine;
                (0..history.lives.len()).filter(is_on_machine).for_each(|candidate| since[candidate] = None);
            }
            HistoryEvent::TurnOver(candidate, _) => {
                let most = on_slow_clock(WORK_END_TIMEOUT.max(history.lives[candidate].periods.lease)) + STOP_LATENCY;
                if since[candidate].take().is_some_and(|since| *at > since + most) {
                    let message = format!("the turn of c{candidate} goes on, and a successor waits for it");
                    violations.push(violation("turn", *at, message));
                }
            }
            _ => {}
        }
    }
    violations
}

/// A turn that trapped ends the leadership, and whoever gave up because its work failed does not contend at once.
fn check_cool_downs(history: &History) -> Vec<Violation> {
    let lives = history.lives.len();
    // The term of the newest turn of each candidate, and of the newest one that trapped.
    let (mut term, mut trapped_term) = (vec![0; lives], vec![None; lives]);
    // How often in a row the work of each failed, and until when it stays out for that.
    let (mut failure_count, mut cool_down_until) = (vec![0; lives], vec![0; lives]);
    // When the clock of each was set forward last.
    let mut clock_set_at = vec![0; lives];
    let mut violations = Vec::new();
    for Entry { at, event } in &history.entries {
        match *event {
            HistoryEvent::TurnBegan { candidate, term: turn_term, .. } => {
                if trapped_term[candidate] == Some(turn_term) {
                    let message = format!("c{candidate} runs another turn in the term in which one trapped");
                    violations.push(violation("cool-down", *at, message));
                }
                term[candidate] = turn_term;
            }
            HistoryEvent::BecameLeader(candidate) => trapped_term[candidate] = None,
            HistoryEvent::TurnTrapped(candidate) => trapped_term[candidate] = Some(term[candidate]),
            HistoryEvent::WorkFailed(candidate, failed_step_at) => {
                // It is drawn between half of it and all, and twice as long each time; its clock may be 1 % fast.
                let least = ((COOL_DOWN * SECOND) << failure_count[candidate]).min(LONGEST_COOL_DOWN) / 2;
                cool_down_until[candidate] = if clock_set_at[candidate] < failed_step_at { failed_step_at + least - least / 50 } else { 0 };
                failure_count[candidate] = (failure_count[candidate] + 1).min(8);
            }
            HistoryEvent::TurnSucceeded(candidate) | HistoryEvent::StepFailed(candidate) => (cool_down_until[candidate], failure_count[candidate]) = (0, 0),
            HistoryEvent::ClockSetForward(machine) => {
                let is_on_machine = |candidate: &CandidateId| history.lives[*candidate].machine == machine;
                (0..lives).filter(is_on_machine).for_each(|candidate| (cool_down_until[candidate], clock_set_at[candidate]) = (0, *at));
            }
            HistoryEvent::Sent(number) => {
                let request = &history.requests[number];
                if request.step == Step::Acquire && *at < cool_down_until[request.candidate] {
                    let message = format!("c{} contends soon after its work failed", request.candidate);
                    violations.push(violation("cool-down", *at, message));
                }
            }
            _ => {}
        }
    }
    violations
}
