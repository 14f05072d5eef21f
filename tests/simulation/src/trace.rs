//! A history for people.

use std::fmt::Write;

use super::history::{Answer, Entry, History, What};
use super::world::Millis;

/// A date that is so many seconds old is none to speak of.
const ON_ITS_WAY: i64 = 4;

/// One line for each thing that happened.
#[must_use]
pub fn trace(history: &History) -> String {
    let mut text = String::new();
    for Entry { at, what } in &history.entries {
        let seconds = (at / 1_000, at % 1_000);
        let _ = writeln!(text, "{:>5}.{:03} {}", seconds.0, seconds.1, line(history, *at, *what));
    }
    text
}

fn line(history: &History, at: Millis, what: What) -> String {
    let asked = |number: usize| {
        let asked = &history.asked[number];
        let lease = asked.lease.map(|id| format!(" lease {}", short(id))).unwrap_or_default();
        let write = asked.write.as_ref().map_or(String::new(), |write| {
            let done = if write.done { ", done with" } else { ", after" };
            let [slot, finished] = [write.slot, write.finished].map(|slot| slot / 1_000_000_000);
            format!(" term {} slot {slot}.{}{done} {finished}", write.term, write.attempt)
        });
        format!("#{number} {}{lease}{write}", asked.step.name())
    };
    let answer = |answer: Answer| {
        let lease = answer.lease.map(|id| format!(" lease {}", short(id))).unwrap_or_default();
        format!("{} {}{lease}", answer.status, answer.code)
    };
    let by = |number: usize| history.asked[number].who;
    match what {
        What::Started(who) => {
            let life = &history.lives[who];
            let (machine, pace, lease) = (life.machine, life.rate.pace, life.periods.lease);
            format!("c{who} starts on machine {machine}, lease {lease} ms, clock at {pace} ppm")
        }
        What::Paused(who) => format!("c{who} stands still"),
        What::Resumed(who) => format!("c{who} goes on"),
        What::SetForward(machine) => format!("the clock of machine {machine} shows a later time"),
        What::Killed(who) => format!("c{who} is killed"),
        What::ToldToLeave(who) => format!("c{who} is asked to leave"),
        What::ToldToHandOver(who, _, successor) => {
            format!("c{who} is told to hand over to machine {successor:?}")
        }
        What::NotHandedOver(who) => format!("c{who} tells that it does not hand over"),
        What::Hinted(who) => format!("c{who} is given a hint"),
        What::Leads(who) => format!("c{who} leads"),
        What::Forgot(who) => format!("c{who} knows nothing any more"),
        What::Left(who) => format!("c{who} has left"),
        What::Sent(number) => format!("c{} sends {}", by(number), asked(number)),
        What::Handled(number, a) => {
            format!("   store: c{} {}: {}", by(number), asked(number), answer(a))
        }
        What::Answered(number, a) => {
            let wrong = history.asked[number].told.map_or(0, |told| off(told, history, at));
            let dated = if wrong == 0 { String::new() } else { format!(", dated {wrong:+} s") };
            format!("c{} hears of #{number}: {}{dated}", by(number), answer(a))
        }
        What::Failed(number) => format!("c{} hears that #{number} failed", by(number)),
        What::Triggered(number) => format!("somebody asks for a turn: trigger {number}"),
        What::Placed(number) => {
            let transfer = history.transfers[number];
            format!("an operator places transfer {number}: {transfer:?}")
        }
        What::ReadTransfer(who, number) => format!("c{who} reads transfer {number}"),
        What::TurnBegan { who, term, slot, attempt, trigger } => {
            let of = trigger.map(|number| format!(", for trigger {number}")).unwrap_or_default();
            let slot = slot / 1_000_000_000;
            format!("c{who} begins its turn for slot {slot}, attempt {attempt}, term {term}{of}")
        }
        What::Works(who, _) => format!("c{who} works"),
        What::Rests(who, _) => format!("c{who} works no longer"),
        What::Acted(who, term) => format!("c{who} sends something of its own, term {term}"),
        What::Trapped(who) => format!("c{who} turn traps"),
        What::Succeeded(who) => format!("c{who} turn succeeds"),
        What::WindsDown(who, true) => format!("c{who} is to end its turn for its successor"),
        What::WindsDown(who, false) => format!("c{who} need not end its turn for a successor"),
        What::CutShort(who) => format!("c{who} turn is stopped without a reason"),
        What::WorkFailed(who, _) => format!("c{who} gives up: its work failed"),
        What::Sick(who) => format!("c{who}'s turn fails, or took too long"),
        What::TurnOver(who, _) => format!("c{who}'s turn is over"),
        What::Returned(who, true) => format!("c{who} answers that its turn succeeded"),
        What::Returned(who, false) => format!("c{who} answers that its turn did not succeed"),
        What::Fetched(who) => format!("c{who} asks for a token"),
        What::Struck(fault, who, until) => {
            let whom = who.map(|who| format!(" on c{who}")).unwrap_or_default();
            format!("!!! {}{whom}, until {}.{:03}", fault.name(), until / 1_000, until % 1_000)
        }
        What::Over => "the end".into(),
    }
}

/// By how many seconds a date is wrong, where that is more than an answer takes.
fn off(told: u64, history: &History, at: Millis) -> i64 {
    let [told, time] =
        [told, history.service_time(at)].map(|t| i64::try_from(t / 1_000_000_000).unwrap_or(0));
    Some(told - time).filter(|off| off.abs() > ON_ITS_WAY).unwrap_or(0)
}

fn short(lease: u128) -> String {
    format!("{:08x}", lease >> 96)
}
