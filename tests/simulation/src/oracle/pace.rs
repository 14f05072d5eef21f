//! I7 (protocol.md §12): no response, error or timing makes a candidate stop contending or send
//! without pause.
//!
//! - A running candidate sends a request in every poll or renewal interval plus request timeout,
//!   until it leaves. It leaves within the time that the runner allows.
//! - A candidate with invalid settings sends nothing, and tries again after a minute.
//! - A candidate without a token waits for one, and for 10 s between two attempts.
//! - A successor that announces itself makes two requests for that, and polls again at most half a
//!   poll interval after the second one.

use super::super::fault::{Fault, Step};
use super::super::history::{CandidateId, Entry, History, HistoryEvent};
use super::super::world::Millis;
use super::{Violation, violation};

/// Maximum requests of one candidate in a second: many, but fewer than a loop without a pause would
/// send.
const MAX_REQUESTS_PER_SECOND: u32 = 60;

/// Time that the runner allows for leaving when no turn runs any more, with a reserve.
const LEAVE_TIMEOUT: Millis = 10_300;

/// The longest request for a token, and the longest pause between two.
pub(super) const TOKEN_FETCH_TIMEOUT: Millis = 20_000;

#[derive(Clone, Copy, Default)]
struct Activity {
    /// Time of the last request; `None` while the candidate can send nothing.
    silent_since: Option<Millis>,
    /// Time until which the candidate may wait for a token.
    token_wait_until: Millis,
    /// True if the candidate is suspended, and waited for a token before.
    was_fetching: bool,
    /// Number of requests about successors since the last other request, and the deadline of the
    /// next poll.
    background: (u8, Millis),
    leaving_since: Option<Millis>,
    second: Millis,
    sent_count: u32,
}

/// Checks the intervals between the requests of each candidate.
pub fn check_i7(history: &History) -> Vec<Violation> {
    let mut activities = vec![Activity::default(); history.lives.len()];
    // The time until which the settings of each candidate are invalid.
    let mut broken_settings_until = vec![0; history.lives.len()];
    let mut violations = Vec::new();
    for Entry { at, event } in &history.entries {
        let candidate: CandidateId = match *event {
            // A last will does not show that its candidate is alive.
            HistoryEvent::Sent(number) if history.requests[number].step == Step::Will => continue,
            HistoryEvent::Sent(number) => history.requests[number].candidate,
            HistoryEvent::Started(candidate)
            | HistoryEvent::Paused(candidate)
            | HistoryEvent::Resumed(candidate)
            | HistoryEvent::Killed(candidate)
            | HistoryEvent::Left(candidate)
            | HistoryEvent::TokenRequested(candidate)
            | HistoryEvent::StepFailed(candidate)
            | HistoryEvent::FaultInjected(
                Fault::SettingsSpoilt | Fault::SecretSpoilt,
                Some(candidate),
                _,
            )
            | HistoryEvent::LeaveRequested(candidate) => candidate,
            HistoryEvent::ScheduleEnded => {
                for (candidate, activity) in activities.iter().enumerate() {
                    violations.extend(check_silence(
                        history,
                        &broken_settings_until,
                        candidate,
                        *activity,
                        *at,
                    ));
                }
                continue;
            }
            _ => continue,
        };
        violations.extend(check_silence(
            history,
            &broken_settings_until,
            candidate,
            activities[candidate],
            *at,
        ));
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
                // The request to leave may have come during the suspension.
                activity.leaving_since = activity.leaving_since.map(|_| *at);
            }
            HistoryEvent::LeaveRequested(_) => activity.leaving_since = Some(*at),
            HistoryEvent::FaultInjected(_, _, until) => {
                broken_settings_until[candidate] = broken_settings_until[candidate].max(until)
            }
            HistoryEvent::TokenRequested(_) => {
                activity.token_wait_until = *at + TOKEN_FETCH_TIMEOUT
            }
            // These requests do not show activity: due requests are sent in time in addition to
            // them.
            HistoryEvent::Sent(number)
                if matches!(history.requests[number].step, Step::SideBlob | Step::List) =>
            {
                let periods = &history.lives[candidate].periods;
                if history.requests[number].is_about_announcements && activity.background.0 < 2 {
                    let due = at + periods.timeout + periods.poll / 2;
                    activity.background = (activity.background.0 + 1, due);
                }
            }
            // The candidate starts again, unless it is suspended.
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
            activity.sent_count =
                if activity.second == second { activity.sent_count + 1 } else { 1 };
            activity.second = second;
            if activity.sent_count == MAX_REQUESTS_PER_SECOND {
                let message =
                    format!("c{candidate} sends {MAX_REQUESTS_PER_SECOND} requests in one second");
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
    let silence = now.saturating_sub(
        activity.silent_since?.max(broken_settings_until[candidate]).max(activity.token_wait_until),
    );
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
