//! I7 (protocol.md §12): no answer, error or timing makes a candidate stop contending. And none
//! makes it run hot.
//!
//! Whoever lives and does not stand still sends something in every poll or renewal interval and
//! request time-out, until it leaves; and it leaves within the time that the runner gives it. Whose
//! settings cannot be used sends nothing, and asks again after a minute; whoever has no token waits
//! for one, and for 10 s between two tries. A successor that announces itself makes two
//! requests about that, and looks again half a poll after the second one at the latest.

use super::super::fault::{Fault, Step};
use super::super::history::{Entry, History, HistoryEvent, CandidateId};
use super::super::world::Millis;
use super::{Violation, violation};

/// Many requests of one candidate in a second, but not what a loop without a pause would send.
const MAX_REQUESTS_PER_SECOND: u32 = 60;

/// How long the runner tries to leave when no turn runs any more, and a little.
const LEAVE_TIMEOUT: Millis = 10_300;

/// The longest request for a token, and the longest pause between two.
pub(super) const TOKEN_FETCH_TIMEOUT: Millis = 20_000;

#[derive(Clone, Copy, Default)]
struct Activity {
    /// Since when nothing was sent; none while nothing can be.
    silent_since: Option<Millis>,
    /// A token may be waited for until then.
    token_wait_until: Millis,
    /// It stands still, and waited for a token before.
    was_fetching: bool,
    /// Requests about successors since it was not silent, and when the look after them is due.
    background: (u8, Millis),
    leaving_since: Option<Millis>,
    second: Millis,
    sent_count: u32,
}

/// Judges the intervals between the requests of each candidate.
pub fn check_i7(history: &History) -> Vec<Violation> {
    let mut activities = vec![Activity::default(); history.lives.len()];
    // Until when the settings of each cannot be used.
    let mut broken_settings_until = vec![0; history.lives.len()];
    let mut violations = Vec::new();
    for Entry { at, event } in &history.entries {
        let candidate: CandidateId = match *event {
            // It is no sign of life.
            HistoryEvent::Sent(number) if history.requests[number].step == Step::Will => continue,
            HistoryEvent::Sent(number) => history.requests[number].candidate,
            HistoryEvent::Started(candidate)
            | HistoryEvent::Paused(candidate)
            | HistoryEvent::Resumed(candidate)
            | HistoryEvent::Killed(candidate)
            | HistoryEvent::Left(candidate)
            | HistoryEvent::TokenRequested(candidate)
            | HistoryEvent::StepFailed(candidate)
            | HistoryEvent::FaultInjected(Fault::SettingsSpoilt | Fault::SecretSpoilt, Some(candidate), _)
            | HistoryEvent::LeaveRequested(candidate) => candidate,
            HistoryEvent::ScheduleEnded => {
                for (candidate, activity) in activities.iter().enumerate() {
                    violations.extend(check_silence(history, &broken_settings_until, candidate, *activity, *at));
                }
                continue;
            }
            _ => continue,
        };
        violations.extend(check_silence(history, &broken_settings_until, candidate, activities[candidate], *at));
        let activity = &mut activities[candidate];
        match *event {
            HistoryEvent::Paused(_) => {
                activity.silent_since = None;
                activity.was_fetching = activity.token_wait_until > *at;
            }
            HistoryEvent::Killed(_) | HistoryEvent::Left(_) => *activity = Activity::default(),
            HistoryEvent::Resumed(_) => {
                activity.silent_since = Some(*at);
                activity.background = (0, 0);
                if std::mem::take(&mut activity.was_fetching) {
                    activity.token_wait_until = *at + TOKEN_FETCH_TIMEOUT;
                }
                // It may have been asked while it stood still.
                activity.leaving_since = activity.leaving_since.map(|_| *at);
            }
            HistoryEvent::LeaveRequested(_) => activity.leaving_since = Some(*at),
            HistoryEvent::FaultInjected(_, _, until) => broken_settings_until[candidate] = broken_settings_until[candidate].max(until),
            HistoryEvent::TokenRequested(_) => activity.token_wait_until = *at + TOKEN_FETCH_TIMEOUT,
            // No sign of life: whatever is due comes beside it, and in time.
            HistoryEvent::Sent(number)
                if matches!(history.requests[number].step, Step::SideBlob | Step::List) =>
            {
                let periods = &history.lives[candidate].periods;
                if history.requests[number].is_about_announcements && activity.background.0 < 2 {
                    let due = at + periods.timeout + periods.poll / 2;
                    activity.background = (activity.background.0 + 1, due);
                }
            }
            // It begins anew, unless it stands still.
            HistoryEvent::StepFailed(_) => {
                activity.silent_since = activity.silent_since.map(|_| *at);
                activity.background = (0, 0);
            }
            _ => {
                activity.silent_since = Some(*at);
                activity.background = (0, 0);
            }
        }
        if matches!(event, HistoryEvent::Sent(_)) {
            let second = at / 1_000;
            activity.sent_count = if activity.second == second { activity.sent_count + 1 } else { 1 };
            activity.second = second;
            if activity.sent_count == MAX_REQUESTS_PER_SECOND {
                let message = format!("c{candidate} sends {MAX_REQUESTS_PER_SECOND} requests in one second");
                violations.push(violation("hot", *at, message));
            }
        }
    }
    violations
}

fn check_silence(
    history: &History,
    broken_settings_until: &[Millis],
    candidate: CandidateId,
    activity: Activity,
    now: Millis,
) -> Option<Violation> {
    let periods = &history.lives[candidate].periods;
    let silence = now.saturating_sub(activity.silent_since?.max(broken_settings_until[candidate]).max(activity.token_wait_until));
    let interval = periods.renew.max(periods.poll);
    let most = interval + interval / 50 + periods.timeout + 1_000;
    if let Some(since) = activity.leaving_since
        && now.saturating_sub(since) > history.grace + LEAVE_TIMEOUT
    {
        return Some(violation("I7", now, format!("c{candidate} does not leave")));
    }
    let is_background_due = now <= activity.background.1 + periods.poll / 50;
    (silence > most && !is_background_due)
        .then(|| violation("I7", now, format!("c{candidate} sent nothing for {silence} ms")))
}
