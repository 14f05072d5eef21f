//! Releases of leases with an unknown outcome (protocol.md §4.2 and §7.1).
//!
//! A candidate that may have acquired a lease without a response releases it by its id. It does so
//! before any other work, and before it leaves.
//!
//! The check excuses a candidate in these cases:
//! - It was suspended, or its clock was set forward, meanwhile.
//! - It takes longer to leave than its runner allows.
//! - It lost its state.
//! - The lease expired. A candidate without a token waits for that.
//!
//! A candidate repeats a release whose response is lost or an error, until the lease has expired or
//! its time to leave is over.

use super::super::fault::{Fault, Step};
use super::super::history::{Answer, CandidateId, Entry, History, HistoryEvent};
use super::super::world::Millis;
use super::{Violation, violation};
use std::collections::BTreeMap;

/// Time that the runner allows for leaving, and that a follower allows for an uncertain release.
const LEAVE_TIMEOUT: Millis = 10_000;
const UNCERTAIN_RELEASE_TIMEOUT: Millis = 3_000;

/// Time for the last write of the record before a release.
const LAST_WRITE: Millis = 1_000;

/// A candidate's knowledge of the lease that it requested last.
#[derive(Clone, Copy, Default)]
struct Attempt {
    lease: Option<u128>,
    /// True if a request for the lease has no response yet.
    is_pending: bool,
    /// True if a response left the outcome open, or the lease was granted.
    must_release: bool,
    /// Time of the last request.
    sent_at: Millis,
}

/// Checks each attempt to win, and each release.
pub fn check_releases(history: &History) -> Vec<Violation> {
    let mut violations = check_attempts(history);
    violations.extend(check_sent_releases(history));
    violations
}

fn check_attempts(history: &History) -> Vec<Violation> {
    let mut attempts = vec![Attempt::default(); history.lives.len()];
    let mut leave_requested_at = vec![None; history.lives.len()];
    // The machine whose wall clock was set last, and when.
    let mut clock_set: Option<(usize, Millis)> = None;
    // When each candidate began its step, and when it last received a response. A step sends its
    // next request at the instant of the response.
    let mut step_began_at = vec![0; history.lives.len()];
    let mut received_at = vec![None; history.lives.len()];
    let mut violations = Vec::new();
    for Entry { at, event } in &history.entries {
        match *event {
            HistoryEvent::Sent(number) => {
                let request = &history.requests[number];
                let attempt = &mut attempts[request.candidate];
                if received_at[request.candidate] != Some(*at) {
                    step_began_at[request.candidate] = *at;
                }
                let same_lease = request.lease == attempt.lease;
                match request.step {
                    Step::Acquire if same_lease => {
                        attempt.is_pending = true;
                        attempt.sent_at = *at;
                    }
                    Step::Poll
                    | Step::CreateContainer
                    | Step::CreateBlob
                    | Step::Break
                    | Step::Acquire => {
                        violations.extend(check_kept_lease(
                            history,
                            request.candidate,
                            *attempt,
                            *at,
                            "goes on with",
                        ));
                        let lease = request.lease;
                        // The candidate counts the lease from the beginning of its step.
                        let machine = history.lives[request.candidate].machine;
                        let set_during_step = clock_set.is_some_and(|(set_machine, set_at)| {
                            set_machine == machine && set_at >= step_began_at[request.candidate]
                        });
                        let pending = request.step == Step::Acquire && !set_during_step;
                        *attempt = Attempt {
                            lease,
                            is_pending: pending,
                            must_release: false,
                            sent_at: *at,
                        };
                    }
                    // The candidate leads under that lease, or releases it.
                    Step::Renew
                    | Step::Claim
                    | Step::Outcome
                    | Step::Beat
                    | Step::Release
                    | Step::HandOver => {
                        *attempt = Attempt::default();
                    }
                    Step::Raise | Step::ReadBack | Step::SideBlob | Step::List | Step::Will => {}
                }
            }
            HistoryEvent::Answered(number, answer) => {
                let request = &history.requests[number];
                received_at[request.candidate] = Some(*at);
                let attempt = &mut attempts[request.candidate];
                match request.step {
                    Step::Acquire if request.lease == attempt.lease => attempt.on_answer(answer),
                    // The candidate leads, or the lease was ended and needs no release.
                    Step::Raise if matches!(answer.status, 200..=299) => {
                        *attempt = Attempt::default();
                    }
                    Step::Raise | Step::ReadBack if is_lease_gone(answer) => {
                        *attempt = Attempt::default();
                    }
                    _ => {}
                }
            }
            HistoryEvent::LeaveRequested(candidate) => leave_requested_at[candidate] = Some(*at),
            HistoryEvent::Left(candidate)
                if !has_broken_settings(history, candidate, *at)
                    && !timed_out(leave_requested_at[candidate], *at, LEAVE_TIMEOUT) =>
            {
                violations.extend(check_kept_lease(
                    history,
                    candidate,
                    attempts[candidate],
                    *at,
                    "has left with",
                ));
            }
            // The lease has expired on a clock that was set forward.
            HistoryEvent::ClockSetForward(machine) => {
                clock_set = Some((machine, *at));
                let paired = history.lives.iter().zip(&mut attempts);
                paired
                    .filter(|(life, _)| life.machine == machine)
                    .for_each(|(_, attempt)| *attempt = Attempt::default());
            }
            HistoryEvent::Paused(candidate)
            | HistoryEvent::Killed(candidate)
            | HistoryEvent::StepFailed(candidate) => {
                attempts[candidate] = Attempt::default();
            }
            _ => {}
        }
    }
    violations
}

/// A release that was sent, and whose response does not confirm yet that the lease is free.
#[derive(Clone, Copy)]
struct Release {
    lease: Option<u128>,
    /// When the release, or the change to a successor before it, was first sent.
    ///
    /// `None` if its sender was suspended, or its clock was set forward.
    sent_at: Option<Millis>,
}

fn check_sent_releases(history: &History) -> Vec<Violation> {
    let lives = history.lives.len();
    let mut open_releases: Vec<Option<Release>> = vec![None; lives];
    let mut leave_requested_at = vec![None; lives];
    // When the store last granted each lease to the candidate that requested it.
    let mut granted_at: BTreeMap<u128, Millis> = BTreeMap::new();
    // When each candidate was last suspended, or its clock set forward.
    let mut disturbed_at: Vec<Option<Millis>> = vec![None; lives];
    // The lease that each candidate last acquired or requested.
    let mut own_leases = vec![None; lives];
    let mut violations = Vec::new();
    for Entry { at, event } in &history.entries {
        if let Some(request) = history.accepted_request(*event)
            && let (Step::Acquire | Step::Renew, Some(lease)) = (request.step, request.lease)
        {
            granted_at.insert(lease, *at);
        }
        // An expired lease holds nothing.
        let has_lease = |candidate: CandidateId, release: Release| {
            let granted_at = release.lease.and_then(|lease| granted_at.get(&lease));
            let is_running = granted_at
                .is_none_or(|granted_at| *at < granted_at + history.lives[candidate].periods.lease);
            is_running && may_hold_lease(history, candidate, release, *at)
        };
        match *event {
            HistoryEvent::Sent(number) => {
                let request = &history.requests[number];
                let candidate = request.candidate;
                if matches!(request.step, Step::Release | Step::HandOver) {
                    let same_release =
                        open_releases[candidate].filter(|release| release.lease == request.lease);
                    // The candidate may have decided to release before that, and counts the lease
                    // from then.
                    let lease = history.lives[candidate].periods.lease;
                    let was_recently_disturbed =
                        disturbed_at[candidate].is_some_and(|since| *at < since + lease);
                    let sent = (!was_recently_disturbed).then_some(*at);
                    open_releases[candidate] =
                        same_release.or(Some(Release { lease: request.lease, sent_at: sent }));
                } else if matches!(request.step, Step::Poll | Step::Acquire | Step::Break)
                    && open_releases[candidate]
                        .take()
                        .is_some_and(|release| has_lease(candidate, release))
                {
                    let message = format!("c{candidate} goes on, and its release was not answered");
                    violations.push(violation("give back", *at, message));
                }
                if request.step == Step::Acquire {
                    own_leases[candidate] = request.lease;
                }
            }
            HistoryEvent::Answered(number, Answer { status: 200..=299 | 404 | 409 | 412, .. })
                if matches!(history.requests[number].step, Step::Release | Step::HandOver) =>
            {
                open_releases[history.requests[number].candidate] = None;
            }
            HistoryEvent::LeaveRequested(candidate) => leave_requested_at[candidate] = Some(*at),
            HistoryEvent::Left(candidate) => {
                let Some(release) = open_releases[candidate].take() else { continue };
                let timeout = if release.lease == own_leases[candidate] {
                    LEAVE_TIMEOUT
                } else {
                    UNCERTAIN_RELEASE_TIMEOUT
                };
                let is_excused = has_broken_settings(history, candidate, *at)
                    || timed_out(leave_requested_at[candidate], *at, timeout);
                if has_lease(candidate, release) && !is_excused {
                    let message =
                        format!("c{candidate} has left, and its release was not answered");
                    violations.push(violation("give back", *at, message));
                }
            }
            HistoryEvent::ClockSetForward(machine) => {
                let is_on_machine =
                    |candidate: &CandidateId| history.lives[*candidate].machine == machine;
                for candidate in (0..lives).filter(is_on_machine) {
                    clear_sent_time(&mut open_releases[candidate]);
                    disturbed_at[candidate] = Some(*at);
                }
            }
            HistoryEvent::Paused(candidate) => clear_sent_time(&mut open_releases[candidate]),
            HistoryEvent::Resumed(candidate) => disturbed_at[candidate] = Some(*at),
            HistoryEvent::Killed(candidate) | HistoryEvent::StepFailed(candidate) => {
                open_releases[candidate] = None
            }
            _ => {}
        }
    }
    violations
}

/// The candidate may believe from now on that the lease has expired.
fn clear_sent_time(release: &mut Option<Release>) {
    if let Some(release) = release {
        release.sent_at = None;
    }
}

/// Returns true if the lease of a release may still be held, on its sender's clock, which may be 1
/// % fast.
fn may_hold_lease(history: &History, candidate: CandidateId, release: Release, at: Millis) -> bool {
    let lease = history.lives[candidate].periods.lease;
    release.sent_at.is_some_and(|sent| at + lease / 100 + LAST_WRITE < sent + lease)
}

/// Returns true if a candidate sends nothing because its settings are invalid.
fn has_broken_settings(history: &History, candidate: CandidateId, at: Millis) -> bool {
    let settings_faults = [Fault::SettingsSpoilt, Fault::SecretSpoilt];
    settings_faults.into_iter().any(|fault| history.has_fault(fault, candidate, at))
}

/// Returns true if a leaving candidate has tried for the timeout; a clock that is 1 % fast ends it
/// earlier.
fn timed_out(leave_requested_at: Option<Millis>, at: Millis, timeout: Millis) -> bool {
    leave_requested_at
        .is_some_and(|leave_requested_at| at + timeout / 100 >= leave_requested_at + timeout)
}

impl Attempt {
    fn on_answer(&mut self, answer: Answer) {
        self.is_pending = false;
        self.must_release = match answer.status {
            200..=299 => answer.lease == self.lease,
            404 | 409 | 412 => false,
            408 | 429 | 500..=599 => true,
            _ => self.must_release,
        };
    }
}

/// Returns true if a response says that another candidate or none has the lease, or that the blob
/// is missing.
fn is_lease_gone(answer: Answer) -> bool {
    answer.status == 404 || answer.status == 412 && answer.code.starts_with("Lease")
}

fn check_kept_lease(
    history: &History,
    candidate: usize,
    attempt: Attempt,
    at: Millis,
    action: &str,
) -> Option<Violation> {
    let lease = history.lives[candidate].periods.lease;
    // The lease expires earlier on a clock that is 1 % fast.
    let may_be_running = at + lease / 100 < attempt.sent_at + lease;
    let message =
        format!("c{candidate} {action} a lease that it may have, and does not release it");
    let is_kept = may_be_running && (attempt.is_pending || attempt.must_release);
    is_kept.then(|| violation("give back", at, message))
}
