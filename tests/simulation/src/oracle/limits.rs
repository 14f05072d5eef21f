//! Limits of turns and of leaderships: a turn ends at its time limit and not before, a leader whose writes do not get
//! through steps down, and a candidate whose work failed leaves the lease to the others for a while (protocol.md §5, §7.1).

use super::super::fault::{Fault, Step};
use super::super::history::{Entry, History, What, Who, Written};
use super::super::plan::{COOL_DOWN, LONGEST_COOL_DOWN};
use super::super::world::Millis;
use super::calm::{is_over, slowly};
use super::{Violation, violation};

/// The host stops a turn within the millisecond, by its own clock.
const STOPPING: Millis = 20;

/// The milliseconds of a second.
const SECOND: Millis = 1_000;

/// A back-off between two tries.
const BACK_OFF: Millis = 500;

pub fn limits(history: &History) -> Vec<Violation> {
    let mut violations = turns(history);
    violations.extend(stalled(history));
    violations.extend(cut_short(history));
    violations.extend(giving_way(history));
    violations.extend(cool_downs(history));
    violations
}

fn turns(history: &History) -> Vec<Violation> {
    let Some(limit) = history.turn_timeout else { return Vec::new() };
    let mut began: Vec<Option<Millis>> = vec![None; history.lives.len()];
    let mut frozen = vec![false; history.lives.len()];
    let mut violations = Vec::new();
    for Entry { at, what } in &history.entries {
        match *what {
            What::TurnBegan { who, .. } => began[who] = Some(*at).filter(|_| !frozen[who]),
            // A frozen turn is stopped when its process goes on; the supervisor stops one that outlives its process.
            What::Paused(who) => (began[who], frozen[who]) = (None, true),
            What::Resumed(who) => (began[who], frozen[who]) = (None, false),
            What::Killed(who) => began[who] = None,
            What::SetForward(machine) => {
                let there = |who: &Who| history.lives[*who].machine == machine;
                (0..history.lives.len()).filter(there).for_each(|who| began[who] = None);
            }
            What::TurnOver(who, _) => {
                let late = |from: Millis| *at > from + slowly(limit) + STOPPING;
                if began[who].take().is_some_and(late) {
                    let what = format!("the turn of c{who} goes on beyond its time limit");
                    violations.push(violation("turn", *at, what));
                }
            }
            _ => {}
        }
    }
    violations
}

/// A leader that renews, and whose claims and outcomes do not get through.
fn stalled(history: &History) -> Vec<Violation> {
    // When each leader sent the first claim or outcome that was not taken, and no write of it was taken since.
    let mut since: Vec<Option<Millis>> = vec![None; history.lives.len()];
    let mut on_record: Option<&Written> = None;
    let mut violations = Vec::new();
    for Entry { at, what } in &history.entries {
        if let Some(asked) = history.carried_out(*what)
            && let Some(write) = &asked.write
        {
            since[asked.who] = None;
            on_record = Some(write);
        }
        match *what {
            What::Sent(number) => {
                let asked = &history.asked[number];
                let (who, periods) = (asked.who, &history.lives[asked.who].periods);
                let most = slowly(2 * periods.lease) + 2 * periods.timeout + BACK_OFF;
                let overdue = since[who].is_some_and(|since| *at > since + most);
                match asked.step {
                    // A write of a successor or of a refusal alone looks like a claim or an outcome, and is none.
                    Step::Claim | Step::Outcome
                        if asked.write.as_ref().map(of_turns) != on_record.map(of_turns) =>
                    {
                        _ = since[who].get_or_insert(*at);
                    }
                    Step::Renew if overdue => {
                        let what = format!("c{who} leads on, though its writes do not get through");
                        violations.push(violation("stalled", *at, what));
                        since[who] = None;
                    }
                    _ if is_over(history, who, *what) => since[who] = None,
                    _ => {}
                }
            }
            // Its claim is on record: an earlier try of it was carried out after all.
            What::TurnBegan { who, .. } => since[who] = None,
            // The candidate may have forgotten the write, or may not want it any more.
            What::Paused(who) | What::Killed(who) | What::Forgot(who) | What::Left(who) => {
                since[who] = None;
            }
            What::Struck(Fault::SettingsSpoilt | Fault::SecretSpoilt | Fault::TokensFail, ..) => {
                since.fill(None);
            }
            _ => {}
        }
    }
    violations
}

/// What a record tells of turns.
fn of_turns(write: &Written) -> impl PartialEq + use<> {
    let Written { slot, attempt, trigger, finished, done, failed, .. } = *write;
    (slot, attempt, trigger, finished, done, failed)
}

/// A turn goes on as long as its leader leads on: a handover that failed takes nothing from it.
fn cut_short(history: &History) -> Vec<Violation> {
    // By a clock that is set forward its time is over.
    let mut set: Vec<Option<Millis>> = vec![None; history.lives.len()];
    let mut violations = Vec::new();
    for Entry { at, what } in &history.entries {
        match *what {
            What::SetForward(machine) => {
                let there = |who: &Who| history.lives[*who].machine == machine;
                (0..history.lives.len()).filter(there).for_each(|who| set[who] = Some(*at));
            }
            What::CutShort(who) if set[who].is_none_or(|set| *at > set + STOPPING) => {
                let what = format!("the turn of c{who} is stopped, and nothing asked for its end");
                violations.push(violation("turn", *at, what));
            }
            _ => {}
        }
    }
    violations
}

/// The work has so long to end once its leader has seen a successor, or a lease, whatever its grace (protocol.md §7.2).
const WORK_ENDS: Millis = 40_000;

/// A turn does not go on for longer than a handover leaves it.
fn giving_way(history: &History) -> Vec<Violation> {
    let mut since: Vec<Option<Millis>> = vec![None; history.lives.len()];
    let mut violations = Vec::new();
    for Entry { at, what } in &history.entries {
        match *what {
            What::WindsDown(who, winds_down) => since[who] = winds_down.then_some(*at),
            What::Paused(who) | What::Killed(who) => since[who] = None,
            What::SetForward(machine) => {
                let there = |who: &Who| history.lives[*who].machine == machine;
                (0..history.lives.len()).filter(there).for_each(|who| since[who] = None);
            }
            What::TurnOver(who, _) => {
                let most = slowly(WORK_ENDS.max(history.lives[who].periods.lease)) + STOPPING;
                if since[who].take().is_some_and(|since| *at > since + most) {
                    let what = format!("the turn of c{who} goes on, and a successor waits for it");
                    violations.push(violation("turn", *at, what));
                }
            }
            _ => {}
        }
    }
    violations
}

/// A turn that trapped ends the leadership, and whoever gave up because its work failed does not contend at once.
fn cool_downs(history: &History) -> Vec<Violation> {
    let lives = history.lives.len();
    // The term of the newest turn of each candidate, and of the newest one that trapped.
    let (mut term, mut trapped) = (vec![0; lives], vec![None; lives]);
    // How often in a row the work of each failed, and until when it stays out for that.
    let (mut in_a_row, mut out) = (vec![0; lives], vec![0; lives]);
    // When the clock of each was set forward last.
    let mut set = vec![0; lives];
    let mut violations = Vec::new();
    for Entry { at, what } in &history.entries {
        match *what {
            What::TurnBegan { who, term: of, .. } => {
                if trapped[who] == Some(of) {
                    let what = format!("c{who} runs another turn in the term in which one trapped");
                    violations.push(violation("cool-down", *at, what));
                }
                term[who] = of;
            }
            What::Leads(who) => trapped[who] = None,
            What::Trapped(who) => trapped[who] = Some(term[who]),
            What::WorkFailed(who, began) => {
                // It is drawn between half of it and all, and twice as long each time; its clock may be 1 % fast.
                let least = ((COOL_DOWN * SECOND) << in_a_row[who]).min(LONGEST_COOL_DOWN) / 2;
                out[who] = if set[who] < began { began + least - least / 50 } else { 0 };
                in_a_row[who] = (in_a_row[who] + 1).min(8);
            }
            What::Succeeded(who) | What::Forgot(who) => (out[who], in_a_row[who]) = (0, 0),
            What::SetForward(machine) => {
                let there = |who: &Who| history.lives[*who].machine == machine;
                (0..lives).filter(there).for_each(|who| (out[who], set[who]) = (0, *at));
            }
            What::Sent(number) => {
                let asked = &history.asked[number];
                if asked.step == Step::Acquire && *at < out[asked.who] {
                    let what = format!("c{} contends soon after its work failed", asked.who);
                    violations.push(violation("cool-down", *at, what));
                }
            }
            _ => {}
        }
    }
    violations
}
