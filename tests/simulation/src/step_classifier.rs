//! Classification of requests, from the wire alone.

use std::collections::BTreeMap;

use tenure_azure::encoding;
use tenure_core::Timestamp;
use tenure_store::{Request, Response};
use uuid::Uuid;

use super::fault::Step;
use super::history::{CandidateId, CandidateList, SentRequest, Triggered, Written, trigger_number};
use super::service::LATER_FIELD;
use super::token;

/// Classifier that distinguishes a claim from the raise before it by the earlier requests under the
/// same lease.
#[derive(Debug, Default)]
pub struct StepClassifier(BTreeMap<u128, LeaseState>);

/// Newest turns: of the timer, and for a trigger.
type TurnIds = ((u64, u32), (u64, u32));

/// Recorded outcomes of the newest turns: of the timer, and for a trigger.
type Outcomes = [String; 2];

#[derive(Debug)]
struct LeaseState {
    claim: TurnIds,
    outcomes: Outcomes,
    step: Step,
    /// Number of the first attempt to write that.
    first_beat: u64,
    /// Number of the newest beat that the store accepted since the content to write changed.
    last_accepted_beat: Option<u64>,
}

impl StepClassifier {
    /// Classifies a request.
    pub fn classify(&mut self, candidate: CandidateId, request: &Request) -> SentRequest {
        let (token, reported_time) = (token::expiry_of(request), None);
        let (mut lease, mut proposed, mut action, mut write) = (None, None, "", None);
        let (side_blob, mut successor) = (side_blob_name(&request.target), None);
        let is_side_blob = side_blob.is_some();
        let (mut is_put_blob, mut finished, mut outcome) = (false, "", "");
        let mut trigger_outcome = "";
        let mut promise_term = 0;
        let (mut machines, mut is_first, mut if_match) = (None, false, "*");
        for (name, value) in &request.headers {
            match name.as_str() {
                "x-ms-lease-id" => lease = parse_lease_id(value),
                "x-ms-proposed-lease-id" => proposed = parse_lease_id(value),
                "x-ms-meta-tenureleaseid" if is_side_blob => successor = parse_lease_id(value),
                "x-ms-meta-tenurecandidates" => machines = Some(machines_on_list(value)),
                "if-none-match" => is_first = true,
                "if-match" => if_match = value,
                "x-ms-lease-action" => action = value,
                "x-ms-blob-type" => is_put_blob = true,
                _ => {
                    if let Some(name) = name.strip_prefix("x-ms-meta-") {
                        let write = write.get_or_insert(EMPTY_RECORD);
                        match name {
                            "tenureterm" => write.term = value.parse().unwrap_or(0),
                            "tenurenonce" => {
                                write.nonce = u64::from_str_radix(value, 16).unwrap_or(0);
                            }
                            "tenureslot" => write.slot = parse_timestamp(value),
                            "tenureattempt" => write.attempt = value.parse().unwrap_or(0),
                            "tenuremaxattempts" => write.max_attempts = value.parse().unwrap_or(0),
                            "tenuretrigger" => write.trigger.number = trigger_number(value),
                            "tenuretriggerslot" => {
                                write.trigger.requested_at = parse_timestamp(value)
                            }
                            "tenuretriggerattempt" => {
                                write.trigger.attempt = value.parse().unwrap_or(0);
                            }
                            "tenuretriggermaxattempts" => {
                                write.trigger.max_attempts = value.parse().unwrap_or(0);
                            }
                            "tenuretriggeroutcome" => {
                                trigger_outcome = value;
                                write.trigger.has_ended = true;
                                write.trigger.is_done =
                                    matches!(trigger_outcome, "succeeded" | "abandoned");
                            }
                            "tenuretriggerhistory" if !is_side_blob => {
                                // These digits mean a final outcome.
                                let newest = value.rsplit('.').next().unwrap_or_default();
                                let end = newest.get(16..).unwrap_or_default();
                                write.trigger.is_previous_done = ["0", "5"].contains(&end);
                            }
                            "tenureoutcomeslot" => {
                                (finished, write.finished) = (value, parse_timestamp(value));
                            }
                            "tenureoutcome" => {
                                outcome = value;
                                write.is_done = matches!(outcome, "succeeded" | "abandoned");
                            }
                            "tenurefailure" => {
                                let (slot, tail) = value.split_once('/').unwrap_or_default();
                                let at = tail.split('/').next().unwrap_or_default();
                                write.failed = (parse_timestamp(slot), parse_timestamp(at));
                            }
                            "tenuresuccessor" => {
                                let number = value.strip_prefix('m').map(str::parse);
                                write.successor =
                                    Some(number.and_then(Result::ok).unwrap_or(UNKNOWN_CANDIDATE));
                            }
                            "tenuretransfer" => {
                                write.failed_transfer =
                                    value.strip_prefix('x').and_then(|n| n.parse().ok());
                            }
                            "tenureheartbeat" => write.beat = value.parse().unwrap_or(0),
                            "tenureheartbeatterm" => promise_term = value.parse().unwrap_or(0),
                            "tenurefailoverwindow" => write.promise = value.parse().unwrap_or(0),
                            name => write.has_later_field |= (name, value.as_str()) == LATER_FIELD,
                        }
                    }
                }
            }
        }
        if let Some(write) = &mut write
            && write.term != promise_term
        {
            // A version that does not know the promise of another leader carries it on.
            write.promise = 0;
        }
        if let Some(side_blob) = side_blob {
            let is_about_announcements = side_blob == SUCCESSOR;
            let step = if side_blob == CANDIDATES { Step::List } else { Step::SideBlob };
            let is_about_orders = side_blob == ORDERS;
            let is_announcement = is_about_announcements && is_put_blob;
            let is_unconditional = is_announcement && !is_first && if_match == "*";
            let announced_term =
                write.filter(|_| is_announcement && successor.is_some()).map(|write| write.term);
            let (lease, write, successor_lease) = (successor, None, None);
            let candidate_list = machines.map(|machines| CandidateList { is_first, machines });
            return SentRequest {
                candidate_list,
                candidate,
                step,
                lease,
                write,
                successor_lease,
                is_announcement,
                is_unconditional,
                is_about_announcements,
                is_about_orders,
                announced_term,
                token,
                reported_time,
            };
        }
        // A change names both ids: the holder of the lease sends it.
        let successor_lease = lease.and(proposed);
        let lease = lease.or(proposed);
        let step = match (request.method.as_str(), action, &write) {
            ("HEAD", ..) if lease.is_some() => Step::ReadBack,
            ("HEAD", ..) => Step::Poll,
            (_, "acquire", _) => Step::Acquire,
            (_, "renew", _) => Step::Renew,
            (_, "release", _) => Step::Release,
            (_, "change", _) => Step::HandOver,
            (_, "break", _) => Step::Break,
            (_, _, Some(write)) => {
                let outcomes = [format!("{finished} {outcome}"), trigger_outcome.into()];
                let trigger_claim = (write.trigger.requested_at, write.trigger.attempt);
                let claim = ((write.slot, write.attempt), trigger_claim);
                let is_current_slot = write.finished == write.slot;
                self.classify_write(
                    lease.unwrap_or(0),
                    (claim, write.beat),
                    outcomes,
                    is_current_slot,
                )
            }
            _ if is_put_blob => Step::CreateBlob,
            _ => Step::CreateContainer,
        };
        let (is_announcement, is_about_announcements, is_about_orders) = (false, false, false);
        let announced_term = None;
        SentRequest {
            candidate_list: None,
            candidate,
            step,
            lease,
            write,
            successor_lease,
            is_announcement,
            is_unconditional: false,
            is_about_announcements,
            is_about_orders,
            announced_term,
            token,
            reported_time,
        }
    }

    /// Returns the step of a record write under a lease.
    ///
    /// - The first write under a lease raises the term.
    /// - A write with another slot or attempt, or one that resumes a turn that never started, is a
    ///   claim.
    /// - A write with another turn's end is an outcome. A claim may include the outcome of an
    ///   earlier slot, also in a repeated claim that lacked it before.
    /// - The same write again has the same step.
    /// - A write that only differs in its number from the accepted one is a beat.
    fn classify_write(
        &mut self,
        lease: u128,
        (claim, beat): (TurnIds, u64),
        outcomes: Outcomes,
        is_current_slot: bool,
    ) -> Step {
        let Some(lease_state) = self.0.get_mut(&lease) else {
            let (step, last_accepted_beat) = (Step::Raise, None);
            self.0.insert(
                lease,
                LeaseState { claim, outcomes, step, first_beat: beat, last_accepted_beat },
            );
            return Step::Raise;
        };
        // A turn that never started may be claimed under the same number again.
        let is_not_started = |end: &str| end.contains(NOT_STARTED);
        let mut pairs = lease_state.outcomes.iter().zip(&outcomes);
        let is_resumed = pairs.any(|(before, end)| is_not_started(before) && !is_not_started(end));
        let is_earlier_outcome = lease_state.outcomes[0] != outcomes[0] && !is_current_slot;
        if lease_state.claim != claim || is_resumed || is_earlier_outcome {
            (lease_state.claim, lease_state.step, lease_state.first_beat) =
                (claim, Step::Claim, beat);
        } else if lease_state.outcomes != outcomes {
            (lease_state.step, lease_state.first_beat) = (Step::Outcome, beat);
        } else if lease_state.last_accepted_beat.is_some_and(|accepted| accepted != beat) {
            lease_state.step = Step::Beat;
        }
        if lease_state.step != Step::Beat
            && lease_state.last_accepted_beat.is_some_and(|accepted| accepted != beat)
        {
            lease_state.last_accepted_beat = None;
        }
        lease_state.outcomes = outcomes;
        lease_state.step
    }

    /// Handles a write under that lease that the store accepted. A late write does not change the
    /// content to write.
    pub fn on_write_accepted(&mut self, lease: u128, beat: u64) {
        if let Some(lease_state) =
            self.0.get_mut(&lease).filter(|lease_state| beat >= lease_state.first_beat)
        {
            lease_state.last_accepted_beat = Some(beat);
        }
    }
}

/// Recorded outcome of a turn that was claimed and never started.
const NOT_STARTED: &str = "not-started";

const EMPTY_RECORD: Written = Written {
    term: 0,
    nonce: 0,
    slot: 0,
    attempt: 0,
    max_attempts: 0,
    trigger: Triggered {
        number: 0,
        requested_at: 0,
        attempt: 0,
        max_attempts: 0,
        has_ended: false,
        is_done: false,
        is_previous_done: false,
    },
    finished: 0,
    is_done: false,
    failed: (0, 0),
    has_later_field: false,
    successor: None,
    failed_transfer: None,
    beat: 0,
    promise: 0,
};

/// Successor that a leader names after a foreign announcement: no candidate has that name.
pub(super) const UNKNOWN_CANDIDATE: usize = usize::MAX;

/// Name extensions of the side blobs.
const SUCCESSOR: &str = "successor";
const CANDIDATES: &str = "candidates";
const ORDERS: &str = "orders";

/// Returns the machines whose candidates are on a list, as a bit set.
fn machines_on_list(list: &str) -> u64 {
    let machine = |entry: &str| entry.split(',').next()?.strip_prefix('m')?.parse::<u32>().ok();
    let bits = list.split(' ').filter_map(machine).filter_map(|machine| 1_u64.checked_shl(machine));
    bits.fold(0, |all, bit| all | bit)
}

/// Returns the name extension of the side blob of a request.
fn side_blob_name(target: &str) -> Option<&str> {
    let (_, extension) = target.split('?').next()?.rsplit_once('.')?;
    [SUCCESSOR, ORDERS, CANDIDATES].contains(&extension).then_some(extension)
}

/// Returns the service's time in a response, in nanoseconds since 1970, or `None` if the response
/// is not from the service.
pub fn reported_time(response: &Response) -> Option<u64> {
    let date = response.header("x-ms-request-id").and(response.header("date"))?;
    encoding::parse_http_date(date).map(|date| Timestamp::from_date(date).0)
}

/// Parses a lease id.
#[must_use]
pub fn parse_lease_id(text: &str) -> Option<u128> {
    Uuid::try_parse(text).ok().map(|uuid| uuid.as_u128())
}

/// Parses a percent-encoded instant, in which digits, `-`, `:` and `.` are literal.
fn parse_timestamp(text: &str) -> u64 {
    Timestamp::parse(text).map_or(0, |timestamp| timestamp.0)
}
