//! Checks that a leaving successor withdraws its announcement.

use super::super::fault::Step;
use super::super::history::{Answer, Entry, History, HistoryEvent};
use super::super::world::Millis;
use super::{Violation, violation};

/// Error code for a successor that uses its lease id while the blob has no lease.
const LEASE_NOT_PRESENT: &str = "LeaseNotPresentWithBlobOperation";

/// Time after an announcement in which the successor may be given the lease.
const ANNOUNCEMENT_LIFETIME: Millis = 60_000;

/// Announcement of a successor, while it may still bring it a lease.
#[derive(Clone, Copy, Default)]
struct Announcement {
    announced_at: Option<Millis>,
    is_leaving: bool,
    /// True if the response came during a step, which has not ended. The next step processes the
    /// response.
    is_unprocessed: bool,
    /// Newest request of a step, until it is answered.
    open_request: Option<usize>,
}

impl Announcement {
    /// Handles the end of a request: answered, or given up.
    fn on_answer(&mut self, number: usize) {
        if self.open_request == Some(number) {
            (self.open_request, self.is_unprocessed) = (None, false);
        }
    }
}

/// Checks each successor that leaves.
pub fn check_announcements(history: &History) -> Vec<Violation> {
    let mut announcements = vec![Announcement::default(); history.lives.len()];
    let mut term = None;
    let mut violations = Vec::new();
    for Entry { at, event } in &history.entries {
        match *event {
            // After any other response it does not know the tag, which withdrawal requires.
            HistoryEvent::Answered(number, Answer { status: 201, .. }) => {
                let request = &history.requests[number];
                // The leader ignores an announcement of an earlier term, whose end the successor
                // learned of late.
                let is_current = request.announced_term.is_some() && request.announced_term == term;
                let announcement = &mut announcements[request.candidate];
                if is_current && !announcement.is_leaving {
                    announcement.announced_at = Some(*at);
                    announcement.is_unprocessed = announcement.open_request.is_some();
                }
                announcement.on_answer(number);
            }
            HistoryEvent::Answered(number, answer) => {
                let request = &history.requests[number];
                let announcement = &mut announcements[request.candidate];
                let is_blob_missing =
                    answer.status == 404 && matches!(request.step, Step::Poll | Step::ReadBack);
                if is_blob_missing || (answer.status, answer.code) == (412, LEASE_NOT_PRESENT) {
                    // No leader is left that could give it the lease.
                    announcement.announced_at = None;
                }
                announcement.on_answer(number);
            }
            HistoryEvent::RequestFailed(number) => {
                announcements[history.requests[number].candidate].on_answer(number)
            }
            HistoryEvent::Sent(number) => {
                let request = &history.requests[number];
                let announcement = &mut announcements[request.candidate];
                announcement.is_unprocessed = false;
                if !matches!(request.step, Step::SideBlob | Step::List) {
                    announcement.open_request = Some(number);
                }
                if request.is_unconditional {
                    let message =
                        format!("c{} announces itself without a condition", request.candidate);
                    violations.push(violation("hand over", *at, message));
                }
                match request.step {
                    // The successor may not have learned the outcome of this request.
                    Step::SideBlob if request.is_announcement => {
                        announcements[request.candidate].announced_at = None
                    }
                    // The successor knows that no leader is left that could give it the lease.
                    Step::Acquire | Step::Raise => {
                        announcements[request.candidate].announced_at = None
                    }
                    _ => {}
                }
            }
            // An announcement counts for one term, until its leader's lease is released or broken.
            HistoryEvent::Handled(..) => {
                let Some(request) = history.accepted_request(*event) else { continue };
                let written = request.write.as_ref().map(|written| written.term);
                let raised_term = written.filter(|new_term| Some(*new_term) != term);
                term = raised_term.or(term);
                // The candidate that received the lease is no leader, and the one that gave it no
                // longer is.
                let is_change = request.step == Step::HandOver;
                let is_released = matches!(request.step, Step::Release | Step::Will | Step::Break);
                for (candidate, announcement) in announcements.iter_mut().enumerate() {
                    // A release by the successor itself does not excuse it.
                    if raised_term.is_some()
                        || is_change
                        || (is_released && candidate != request.candidate)
                    {
                        announcement.announced_at = None;
                    }
                }
            }
            // Leaving takes precedence over responses that it has not processed.
            HistoryEvent::LeaveRequested(candidate) => {
                let announcement = &mut announcements[candidate];
                announcement.is_leaving = true;
                announcement.announced_at =
                    announcement.announced_at.filter(|_| !announcement.is_unprocessed);
            }
            HistoryEvent::Paused(candidate)
            | HistoryEvent::Killed(candidate)
            | HistoryEvent::StepFailed(candidate) => {
                announcements[candidate].announced_at = None;
            }
            // On its own clock the announcement has expired.
            HistoryEvent::ClockSetForward(machine) => {
                for (announcement, life) in announcements.iter_mut().zip(&history.lives) {
                    announcement.announced_at =
                        announcement.announced_at.filter(|_| life.machine != machine);
                }
            }
            HistoryEvent::Left(candidate) => {
                let still_valid = announcements[candidate].announced_at.filter(|announced_at| {
                    at.saturating_sub(*announced_at) < ANNOUNCEMENT_LIFETIME / 2
                });
                if still_valid.is_some() {
                    let message =
                        format!("c{candidate} leaves, and does not take its announcement back");
                    violations.push(violation("hand over", *at, message));
                }
            }
            _ => {}
        }
    }
    violations
}
