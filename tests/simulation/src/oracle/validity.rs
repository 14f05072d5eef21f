//! I3 (protocol.md §12): a handler does nothing after its validity.
//!
//! A leader's validity is computed from the wire: a lease less its margin, on the leader's own
//! clock. It counts from the send time of the newest acquire or renewal with these properties:
//! - The store carried it out.
//! - The response had the leader's own lease id, and came while the validity before still lasted.
//!
//! The promise of a leader that beats counts too, from the send time of the newest record write
//! that the store accepted. A renewal response that reports a lost lease ends the validity.
//! Renewals of a lease that was never acquired give none: its length is another candidate's.

use super::super::fault::Step;
use super::super::history::{
    Answer, CandidateId, Entry, History, HistoryEvent, RequestIndex, promise_and_validity,
};
use super::super::world::Millis;
use super::{Violation, violation};

/// Resolution of timers: they end at whole milliseconds of true time; this value is in nanoseconds
/// of any clock.
const TIMER_RESOLUTION: u64 = 1_020_000;

/// Validity of one candidate, on its clock, and its lease.
#[derive(Clone, Copy, Default)]
struct Validity {
    lease: Option<u128>,
    lease_until: u64,
    /// End of the promise of a leader that beats.
    promised_until: Option<u64>,
}

impl Validity {
    fn valid_until(self) -> u64 {
        self.promised_until
            .map_or(self.lease_until, |promised_until| self.lease_until.min(promised_until))
    }
}

/// Checks every span, and every request of a handler.
pub fn check_i3(history: &History) -> Vec<Violation> {
    let mut validities = vec![Validity::default(); history.lives.len()];
    let mut sent_at: Vec<Millis> = vec![0; history.requests.len()];
    let mut is_applied = vec![false; history.requests.len()];
    let mut started_at: Vec<Millis> = vec![0; history.lives.len()];
    let mut won_terms = vec![0; history.lives.len()];
    let mut violations = Vec::new();
    for Entry { at, event } in &history.entries {
        let clock_reading =
            |candidate: CandidateId, at: Millis| history.lives[candidate].rate.reading_at(at);
        match *event {
            HistoryEvent::Sent(number) => sent_at[number] = *at,
            HistoryEvent::Handled(number, _) => {
                if let Some(request) = history.accepted_request(*event) {
                    is_applied[number] = true;
                    if let (Step::Raise, Some(write)) = (request.step, &request.write) {
                        won_terms[request.candidate] = write.term;
                        validities[request.candidate].promised_until = None;
                    }
                    let life = &history.lives[request.candidate];
                    if let (Some(failover), Some(_)) = (life.periods.failover, &request.write) {
                        let (_, validity_ms) = promise_and_validity(failover);
                        let until = life.rate.reading_at(sent_at[number]) + validity_ms * 1_000_000;
                        let promised_until = &mut validities[request.candidate].promised_until;
                        *promised_until = Some(promised_until.unwrap_or(0).max(until));
                    }
                }
            }
            HistoryEvent::Answered(number, answer) => {
                let candidate = history.requests[number].candidate;
                let answered = AnswerEvent { number, answer, sent_at: sent_at[number], at: *at };
                validities[candidate] =
                    validity_after(history, validities[candidate], &answered, is_applied[number]);
            }
            HistoryEvent::WorkStarted(candidate, term) => {
                started_at[candidate] = *at;
                if won_terms[candidate] != term {
                    let message =
                        format!("c{candidate} works under term {term}, which it did not win");
                    violations.push(violation("I3", *at, message));
                }
            }
            HistoryEvent::WorkStopped(candidate, term)
            | HistoryEvent::HandlerActed(candidate, term) => {
                let late_by = clock_reading(candidate, *at)
                    .saturating_sub(validities[candidate].valid_until());
                let was_working =
                    *at > started_at[candidate] || matches!(event, HistoryEvent::HandlerActed(..));
                if was_working && late_by > TIMER_RESOLUTION {
                    let late_by = late_by / 1_000_000;
                    let message =
                        format!("c{candidate} works {late_by} ms after its validity, term {term}");
                    violations.push(violation("I3", *at, message));
                }
            }
            _ => {}
        }
    }
    violations
}

struct AnswerEvent {
    number: RequestIndex,
    answer: Answer,
    sent_at: Millis,
    at: Millis,
}

fn validity_after(
    history: &History,
    validity: Validity,
    answered: &AnswerEvent,
    is_applied: bool,
) -> Validity {
    let AnswerEvent { number, answer, sent_at: sent, at } = *answered;
    let request = &history.requests[number];
    let life = &history.lives[request.candidate];
    let now = life.rate.reading_at(at);
    let validity_span = (life.periods.lease - life.periods.margin) * 1_000_000;
    let until = life.rate.reading_at(sent) + validity_span;
    let is_success =
        is_applied && matches!(answer.status, 200..=299) && answer.lease == request.lease;
    match request.step {
        Step::Acquire if is_success => {
            Validity { lease: request.lease, lease_until: until, ..validity }
        }
        Step::Renew if request.lease != validity.lease => validity,
        Step::Renew if is_success && now < validity.lease_until => {
            Validity { lease_until: until, ..validity }
        }
        Step::Renew if is_lease_lost(answer, request.lease) => {
            Validity { lease_until: validity.lease_until.min(now), ..validity }
        }
        _ => validity,
    }
}

/// Returns true if a response means that the lease is lost (protocol.md §5).
fn is_lease_lost(answer: Answer, own_lease: Option<u128>) -> bool {
    match answer.status {
        200 => answer.lease.is_some() && answer.lease != own_lease,
        404 | 409 => true,
        412 => answer.code != "ConditionNotMet",
        _ => false,
    }
}
