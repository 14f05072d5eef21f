//! Limits of turns and of leaderships: a turn ends at its time limit, and a leader whose writes do not get through steps
//! down (protocol.md §5, §7.1).

use super::super::fault::{Fault, Step};
use super::super::history::{Entry, History, What, Who};
use super::super::world::Millis;
use super::calm::{is_over, slowly};
use super::{Violation, violation};

/// The host stops a turn within the millisecond, by its own clock.
const STOPPING: Millis = 20;

/// A back-off between two tries.
const BACK_OFF: Millis = 500;

pub fn limits(history: &History) -> Vec<Violation> {
    let mut violations = turns(history);
    violations.extend(stalled(history));
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
    let mut violations = Vec::new();
    for Entry { at, what } in &history.entries {
        if let Some(asked) = history.carried_out(*what)
            && asked.write.is_some()
        {
            since[asked.who] = None;
        }
        match *what {
            What::Sent(number) => {
                let asked = &history.asked[number];
                let (who, periods) = (asked.who, &history.lives[asked.who].periods);
                let most = slowly(2 * periods.lease) + 2 * periods.timeout + BACK_OFF;
                let overdue = since[who].is_some_and(|since| *at > since + most);
                match asked.step {
                    Step::Claim | Step::Outcome => _ = since[who].get_or_insert(*at),
                    Step::Renew if overdue => {
                        let what = format!("c{who} leads on, though its writes do not get through");
                        violations.push(violation("stalled", *at, what));
                        since[who] = None;
                    }
                    _ if is_over(history, who, *what) => since[who] = None,
                    _ => {}
                }
            }
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
