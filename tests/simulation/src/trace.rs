//! Readable form of a history.

use std::fmt::Write;

use super::history::{Answer, Entry, History, HistoryEvent};
use super::world::Millis;

/// Age of a date up to which the trace omits it, in seconds.
const MAX_TRANSIT_SECONDS: i64 = 4;

/// Returns one line for each event.
#[must_use]
pub fn trace(history: &History) -> String {
    let mut text = String::new();
    for Entry { at, event } in &history.entries {
        let seconds = (at / 1_000, at % 1_000);
        let _ = writeln!(text, "{:>5}.{:03} {}", seconds.0, seconds.1, line(history, *at, *event));
    }
    text
}

fn line(history: &History, at: Millis, event: HistoryEvent) -> String {
    let describe_request = |number: usize| {
        let sent_request = &history.requests[number];
        let lease =
            sent_request.lease.map(|id| format!(" lease {}", short_id(id))).unwrap_or_default();
        let write = sent_request.write.as_ref().map_or(String::new(), |write| {
            let done = if write.is_done { ", done with" } else { ", after" };
            let [slot, finished] = [write.slot, write.finished].map(|slot| slot / 1_000_000_000);
            format!(" term {} slot {slot}.{}{done} {finished}", write.term, write.attempt)
        });
        format!("#{number} {}{lease}{write}", sent_request.step.name())
    };
    let answer = |answer: Answer| {
        let lease = answer.lease.map(|id| format!(" lease {}", short_id(id))).unwrap_or_default();
        format!("{} {}{lease}", answer.status, answer.code)
    };
    let sender_of = |number: usize| history.requests[number].candidate;
    match event {
        HistoryEvent::Started(candidate) => {
            let life = &history.lives[candidate];
            let (machine, pace, lease) = (life.machine, life.rate.nanos_per_ms, life.periods.lease);
            format!(
                "c{candidate} starts on machine {machine}, lease {lease} ms, clock at {pace} ppm"
            )
        }
        HistoryEvent::Paused(candidate) => format!("c{candidate} is suspended"),
        HistoryEvent::Resumed(candidate) => format!("c{candidate} resumes"),
        HistoryEvent::ClockSetForward(machine) => {
            format!("the clock of machine {machine} shows a later time")
        }
        HistoryEvent::Killed(candidate) => format!("c{candidate} is killed"),
        HistoryEvent::LeaveRequested(candidate) => format!("c{candidate} is asked to leave"),
        HistoryEvent::HandoverOrdered(candidate, _, successor) => {
            format!("c{candidate} must hand over to machine {successor:?}")
        }
        HistoryEvent::HandoverFailed(candidate) => {
            format!("c{candidate} reports a failed handover")
        }
        HistoryEvent::Hinted(candidate) => format!("c{candidate} is given a hint"),
        HistoryEvent::BecameLeader(candidate) => format!("c{candidate} leads"),
        HistoryEvent::StepFailed(candidate) => format!("c{candidate} loses its state"),
        HistoryEvent::Left(candidate) => format!("c{candidate} has left"),
        HistoryEvent::Sent(number) => {
            format!("c{} sends {}", sender_of(number), describe_request(number))
        }
        HistoryEvent::Handled(number, a) => {
            format!("   store: c{} {}: {}", sender_of(number), describe_request(number), answer(a))
        }
        HistoryEvent::Answered(number, a) => {
            let error = history.requests[number]
                .reported_time
                .map_or(0, |reported| date_error(reported, history, at));
            let date_note = if error == 0 { String::new() } else { format!(", dated {error:+} s") };
            format!("c{} hears of #{number}: {}{date_note}", sender_of(number), answer(a))
        }
        HistoryEvent::RequestFailed(number) => {
            format!("c{} hears that #{number} failed", sender_of(number))
        }
        HistoryEvent::Triggered(number) => format!("an outsider places trigger {number}"),
        HistoryEvent::TransferPlaced(number) => {
            let transfer = history.transfers[number];
            format!("an operator places transfer {number}: {transfer:?}")
        }
        HistoryEvent::ReadTransfer(candidate, number) => {
            format!("c{candidate} reads transfer {number}")
        }
        HistoryEvent::TurnBegan { candidate, term, slot, attempt, trigger } => {
            let purpose =
                trigger.map(|number| format!(", for trigger {number}")).unwrap_or_default();
            let slot = slot / 1_000_000_000;
            format!(
                "c{candidate} begins its turn for slot {slot}, attempt {attempt}, term {term}{purpose}"
            )
        }
        HistoryEvent::WorkStarted(candidate, _) => format!("c{candidate} works"),
        HistoryEvent::WorkStopped(candidate, _) => format!("c{candidate} works no longer"),
        HistoryEvent::HandlerActed(candidate, term) => {
            format!("c{candidate} sends something of its own, term {term}")
        }
        HistoryEvent::TurnTrapped(candidate) => format!("c{candidate} turn traps"),
        HistoryEvent::TurnSucceeded(candidate) => format!("c{candidate} turn succeeds"),
        HistoryEvent::WindDown(candidate, true) => {
            format!("c{candidate} is to end its turn for its successor")
        }
        HistoryEvent::WindDown(candidate, false) => {
            format!("c{candidate} need not end its turn for a successor")
        }
        HistoryEvent::TurnCutShort(candidate) => {
            format!("c{candidate} turn is stopped without a reason")
        }
        HistoryEvent::WorkFailed(candidate, _) => format!("c{candidate} gives up: its work failed"),
        HistoryEvent::TurnFailed(candidate) => {
            format!("c{candidate}'s turn fails, or took too long")
        }
        HistoryEvent::TurnOver(candidate, _) => format!("c{candidate}'s turn is over"),
        HistoryEvent::InvocationReturned(candidate, true) => {
            format!("c{candidate} answers that its turn succeeded")
        }
        HistoryEvent::InvocationReturned(candidate, false) => {
            format!("c{candidate} answers that its turn did not succeed")
        }
        HistoryEvent::TokenRequested(candidate) => format!("c{candidate} asks for a token"),
        HistoryEvent::FaultInjected(fault, candidate, until) => {
            let victim = candidate.map(|candidate| format!(" on c{candidate}")).unwrap_or_default();
            format!("!!! {}{victim}, until {}.{:03}", fault.name(), until / 1_000, until % 1_000)
        }
        HistoryEvent::ScheduleEnded => "the end".into(),
    }
}

/// Returns the error of a date in seconds, if it exceeds the transit time of a response.
fn date_error(reported: u64, history: &History, at: Millis) -> i64 {
    let [reported, service_time] =
        [reported, history.service_time(at)].map(|t| i64::try_from(t / 1_000_000_000).unwrap_or(0));
    Some(reported - service_time).filter(|error| error.abs() > MAX_TRANSIT_SECONDS).unwrap_or(0)
}

fn short_id(lease: u128) -> String {
    format!("{:08x}", lease >> 96)
}
