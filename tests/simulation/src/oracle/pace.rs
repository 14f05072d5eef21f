//! I7 (protocol.md §12): no answer, error or timing makes a candidate stop contending. And none
//! makes it run hot.
//!
//! Whoever lives and does not stand still sends something in every poll or renewal interval and
//! request time-out, until it leaves; and it leaves within the time that the runner gives it. Whose
//! settings cannot be used sends nothing, and asks again after a minute; whoever has no token waits
//! for one, and for 10 s between two tries. A successor that announces itself makes two
//! requests about that, and looks again half a poll after the second one at the latest.

use super::super::fault::{Fault, Step};
use super::super::history::{Entry, History, What, Who};
use super::super::world::Millis;
use super::{Violation, violation};

/// Many requests of one candidate in a second, but not what a loop without a pause would send.
const MOST: u32 = 60;

/// How long the runner tries to leave when no turn runs any more, and a little.
const LEAVING: Millis = 10_300;

/// The longest request for a token, and the longest pause between two.
pub(super) const FETCHING: Millis = 20_000;

#[derive(Clone, Copy, Default)]
struct Pulse {
    /// Since when nothing was sent; none while nothing can be.
    silent: Option<Millis>,
    /// A token may be waited for until then.
    fetched: Millis,
    /// It stands still, and waited for a token before.
    fetching: bool,
    /// Requests about successors since it was not silent, and when the look after them is due.
    beside: (u8, Millis),
    leaving: Option<Millis>,
    second: Millis,
    sent: u32,
}

/// Judges the intervals between the requests of each candidate.
pub fn i7(history: &History) -> Vec<Violation> {
    let mut pulses = vec![Pulse::default(); history.lives.len()];
    // Until when the settings of each cannot be used.
    let mut spoilt = vec![0; history.lives.len()];
    let mut violations = Vec::new();
    for Entry { at, what } in &history.entries {
        let who: Who = match *what {
            // It is no sign of life.
            What::Sent(number) if history.asked[number].step == Step::Will => continue,
            What::Sent(number) => history.asked[number].who,
            What::Started(who)
            | What::Paused(who)
            | What::Resumed(who)
            | What::Killed(who)
            | What::Left(who)
            | What::Fetched(who)
            | What::Forgot(who)
            | What::Struck(Fault::SettingsSpoilt | Fault::SecretSpoilt, Some(who), _)
            | What::ToldToLeave(who) => who,
            What::Over => {
                for (who, pulse) in pulses.iter().enumerate() {
                    violations.extend(too_long(history, &spoilt, who, *pulse, *at));
                }
                continue;
            }
            _ => continue,
        };
        violations.extend(too_long(history, &spoilt, who, pulses[who], *at));
        let pulse = &mut pulses[who];
        match *what {
            What::Paused(_) => {
                pulse.silent = None;
                pulse.fetching = pulse.fetched > *at;
            }
            What::Killed(_) | What::Left(_) => *pulse = Pulse::default(),
            What::Resumed(_) => {
                pulse.silent = Some(*at);
                pulse.beside = (0, 0);
                if std::mem::take(&mut pulse.fetching) {
                    pulse.fetched = *at + FETCHING;
                }
                // It may have been asked while it stood still.
                pulse.leaving = pulse.leaving.map(|_| *at);
            }
            What::ToldToLeave(_) => pulse.leaving = Some(*at),
            What::Struck(_, _, until) => spoilt[who] = spoilt[who].max(until),
            What::Fetched(_) => pulse.fetched = *at + FETCHING,
            // No sign of life: whatever is due comes beside it, and in time.
            What::Sent(number)
                if matches!(history.asked[number].step, Step::SideBlob | Step::List) =>
            {
                let periods = &history.lives[who].periods;
                if history.asked[number].of_announcements && pulse.beside.0 < 2 {
                    let due = at + periods.timeout + periods.poll / 2;
                    pulse.beside = (pulse.beside.0 + 1, due);
                }
            }
            // It begins anew, unless it stands still.
            What::Forgot(_) => {
                pulse.silent = pulse.silent.map(|_| *at);
                pulse.beside = (0, 0);
            }
            _ => {
                pulse.silent = Some(*at);
                pulse.beside = (0, 0);
            }
        }
        if matches!(what, What::Sent(_)) {
            let second = at / 1_000;
            pulse.sent = if pulse.second == second { pulse.sent + 1 } else { 1 };
            pulse.second = second;
            if pulse.sent == MOST {
                let what = format!("c{who} sends {MOST} requests in one second");
                violations.push(violation("hot", *at, what));
            }
        }
    }
    violations
}

fn too_long(
    history: &History,
    spoilt: &[Millis],
    who: Who,
    pulse: Pulse,
    now: Millis,
) -> Option<Violation> {
    let periods = &history.lives[who].periods;
    let silence = now.saturating_sub(pulse.silent?.max(spoilt[who]).max(pulse.fetched));
    let interval = periods.renew.max(periods.poll);
    let most = interval + interval / 50 + periods.timeout + 1_000;
    if let Some(since) = pulse.leaving
        && now.saturating_sub(since) > history.grace + LEAVING
    {
        return Some(violation("I7", now, format!("c{who} does not leave")));
    }
    let forward = now <= pulse.beside.1 + periods.poll / 50;
    (silence > most && !forward)
        .then(|| violation("I7", now, format!("c{who} sent nothing for {silence} ms")))
}
