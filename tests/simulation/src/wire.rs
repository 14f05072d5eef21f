//! What a request is, read from nothing but the wire.

use std::collections::BTreeMap;

use tenure_azure::http_date;
use tenure_core::Timestamp;
use tenure_store::{Request, Response};
use uuid::Uuid;

use super::fault::Step;
use super::history::{Asked, Lists, Triggered, Who, Written, number};
use super::service::LATER;
use super::token;

/// Tells a claim from the raise before it by what was sent under the same lease.
#[derive(Debug, Default)]
pub struct Wire(BTreeMap<u128, Stage>);

/// The newest turns: of the timer, and for a trigger.
type Claim = ((u64, u32), (u64, u32));

/// How the newest turns ended, as far as that is on record: of the timer, and for a trigger.
type Ended = [String; 2];

#[derive(Debug)]
struct Stage {
    claim: Claim,
    ended: Ended,
    step: Step,
    /// The number of the first try to write that.
    first: u64,
    /// The number of the newest beat that the store took, since what was to be written changed.
    taken: Option<u64>,
}

impl Wire {
    /// Reads a request.
    pub fn read(&mut self, who: Who, request: &Request) -> Asked {
        let (token, told) = (token::read(request), None);
        let (mut lease, mut proposed, mut action, mut write) = (None, None, "", None);
        let (side_blob, mut successor) = (side_blob(&request.target), None);
        let is_side_blob = side_blob.is_some();
        let (mut puts_blob, mut finished, mut outcome) = (false, "", "");
        let mut of_trigger = "";
        let mut promised_in = 0;
        let (mut machines, mut is_first, mut if_match) = (None, false, "*");
        for (name, value) in &request.headers {
            match name.as_str() {
                "x-ms-lease-id" => lease = guid(value),
                "x-ms-proposed-lease-id" => proposed = guid(value),
                "x-ms-meta-tenureleaseid" if is_side_blob => successor = guid(value),
                "x-ms-meta-tenurecandidates" => machines = Some(listed(value)),
                "if-none-match" => is_first = true,
                "if-match" => if_match = value,
                "x-ms-lease-action" => action = value,
                "x-ms-blob-type" => puts_blob = true,
                _ => {
                    if let Some(name) = name.strip_prefix("x-ms-meta-") {
                        let write = write.get_or_insert(NOTHING);
                        match name {
                            "tenureterm" => write.term = value.parse().unwrap_or(0),
                            "tenurenonce" => {
                                write.nonce = u64::from_str_radix(value, 16).unwrap_or(0);
                            }
                            "tenureslot" => write.slot = nanoseconds(value),
                            "tenureattempt" => write.attempt = value.parse().unwrap_or(0),
                            "tenuremaxattempts" => write.most = value.parse().unwrap_or(0),
                            "tenuretrigger" => write.trigger.number = number(value),
                            "tenuretriggerslot" => write.trigger.asked = nanoseconds(value),
                            "tenuretriggerattempt" => {
                                write.trigger.attempt = value.parse().unwrap_or(0);
                            }
                            "tenuretriggermaxattempts" => {
                                write.trigger.most = value.parse().unwrap_or(0);
                            }
                            "tenuretriggeroutcome" => {
                                of_trigger = value;
                                write.trigger.ended = true;
                                write.trigger.done =
                                    matches!(of_trigger, "succeeded" | "abandoned");
                            }
                            "tenuretriggerhistory" if !is_side_blob => {
                                // The digits of what is final.
                                let newest = value.rsplit('.').next().unwrap_or_default();
                                let end = newest.get(16..).unwrap_or_default();
                                write.trigger.before_done = ["0", "5"].contains(&end);
                            }
                            "tenureoutcomeslot" => {
                                (finished, write.finished) = (value, nanoseconds(value));
                            }
                            "tenureoutcome" => {
                                outcome = value;
                                write.done = matches!(outcome, "succeeded" | "abandoned");
                            }
                            "tenurefailure" => {
                                let (slot, rest) = value.split_once('/').unwrap_or_default();
                                let at = rest.split('/').next().unwrap_or_default();
                                write.failed = (nanoseconds(slot), nanoseconds(at));
                            }
                            "tenuresuccessor" => {
                                let number = value.strip_prefix('m').map(str::parse);
                                write.successor =
                                    Some(number.and_then(Result::ok).unwrap_or(STRANGER));
                            }
                            "tenuretransfer" => {
                                write.refused =
                                    value.strip_prefix('x').and_then(|n| n.parse().ok());
                            }
                            "tenureheartbeat" => write.beat = value.parse().unwrap_or(0),
                            "tenureheartbeatterm" => promised_in = value.parse().unwrap_or(0),
                            "tenurefailoverwindow" => write.promise = value.parse().unwrap_or(0),
                            name => write.later |= (name, value.as_str()) == LATER,
                        }
                    }
                }
            }
        }
        if let Some(write) = &mut write
            && write.term != promised_in
        {
            // Of another leader, carried on by a version that does not know it.
            write.promise = 0;
        }
        if let Some(side_blob) = side_blob {
            let of_announcements = side_blob == SUCCESSOR;
            let step = if side_blob == CANDIDATES { Step::List } else { Step::SideBlob };
            let of_orders = side_blob == ORDERS;
            let announces = of_announcements && puts_blob;
            let unconditional = announces && !is_first && if_match == "*";
            let announced_in =
                write.filter(|_| announces && successor.is_some()).map(|write| write.term);
            let (lease, write, to) = (successor, None, None);
            let lists = machines.map(|machines| Lists { is_first, machines });
            return Asked {
                lists,
                who,
                step,
                lease,
                write,
                to,
                announces,
                unconditional,
                of_announcements,
                of_orders,
                announced_in,
                token,
                told,
            };
        }
        // A change names both: the one that holds the lease is the one that acts.
        let to = lease.and(proposed);
        let lease = lease.or(proposed);
        let step = match (request.method.as_str(), action, &write) {
            ("HEAD", ..) if lease.is_some() => Step::ReadBack,
            ("HEAD", ..) => Step::Look,
            (_, "acquire", _) => Step::Acquire,
            (_, "renew", _) => Step::Renew,
            (_, "release", _) => Step::Release,
            (_, "change", _) => Step::HandOver,
            (_, "break", _) => Step::Break,
            (_, _, Some(write)) => {
                let ended = [format!("{finished} {outcome}"), of_trigger.into()];
                let triggered = (write.trigger.asked, write.trigger.attempt);
                let claim = ((write.slot, write.attempt), triggered);
                let of_slot = write.finished == write.slot;
                self.writes(lease.unwrap_or(0), (claim, write.beat), ended, of_slot)
            }
            _ if puts_blob => Step::CreateBlob,
            _ => Step::CreateContainer,
        };
        let (announces, of_announcements, of_orders) = (false, false, false);
        let announced_in = None;
        Asked {
            lists: None,
            who,
            step,
            lease,
            write,
            to,
            announces,
            unconditional: false,
            of_announcements,
            of_orders,
            announced_in,
            token,
            told,
        }
    }

    /// The first write under a lease raises the term, one with another slot or attempt claims it, or one
    /// that takes up a turn that never began, and one that tells of another turn's end records an
    /// outcome. The same again is the same again. How the turn of an earlier slot ended goes with a claim:
    /// also with one that was tried before, when that turn was not known yet. What only has another number
    /// than what the store took is a beat.
    fn writes(
        &mut self,
        lease: u128,
        (claim, beat): (Claim, u64),
        ended: Ended,
        of_slot: bool,
    ) -> Step {
        let Some(stage) = self.0.get_mut(&lease) else {
            let (step, taken) = (Step::Raise, None);
            self.0.insert(lease, Stage { claim, ended, step, first: beat, taken });
            return Step::Raise;
        };
        // What never began may be claimed by the same number again.
        let is_unbegun = |end: &str| end.contains(NOT_STARTED);
        let mut ends = stage.ended.iter().zip(&ended);
        let taken_up = ends.any(|(before, end)| is_unbegun(before) && !is_unbegun(end));
        let of_earlier = stage.ended[0] != ended[0] && !of_slot;
        if stage.claim != claim || taken_up || of_earlier {
            (stage.claim, stage.step, stage.first) = (claim, Step::Claim, beat);
        } else if stage.ended != ended {
            (stage.step, stage.first) = (Step::Outcome, beat);
        } else if stage.taken.is_some_and(|taken| taken != beat) {
            stage.step = Step::Beat;
        }
        if stage.step != Step::Beat && stage.taken.is_some_and(|taken| taken != beat) {
            stage.taken = None;
        }
        stage.ended = ended;
        stage.step
    }

    /// The store took a write under that lease. One that comes late tells nothing of what is to be written by now.
    pub fn taken(&mut self, lease: u128, beat: u64) {
        if let Some(stage) = self.0.get_mut(&lease).filter(|stage| beat >= stage.first) {
            stage.taken = Some(beat);
        }
    }
}

/// How the record tells of a turn that was claimed and never began.
const NOT_STARTED: &str = "not-started";

const NOTHING: Written = Written {
    term: 0,
    nonce: 0,
    slot: 0,
    attempt: 0,
    most: 0,
    trigger: Triggered {
        number: 0,
        asked: 0,
        attempt: 0,
        most: 0,
        ended: false,
        done: false,
        before_done: false,
    },
    finished: 0,
    done: false,
    failed: (0, 0),
    later: false,
    successor: None,
    refused: None,
    beat: 0,
    promise: 0,
};

/// The successor that a leader names because a stranger announced one: no candidate has that name.
pub(super) const STRANGER: usize = usize::MAX;

/// Where announcements are left.
const SUCCESSOR: &str = "successor";
const CANDIDATES: &str = "candidates";
const ORDERS: &str = "orders";

/// The machines whose candidates are on a list, as bits.
fn listed(list: &str) -> u64 {
    let machine = |entry: &str| entry.split(',').next()?.strip_prefix('m')?.parse::<u32>().ok();
    let bits = list.split(' ').filter_map(machine).filter_map(|machine| 1_u64.checked_shl(machine));
    bits.fold(0, |all, bit| all | bit)
}

/// Which blob beside the election's a request is about.
fn side_blob(target: &str) -> Option<&str> {
    let (_, ending) = target.split('?').next()?.rsplit_once('.')?;
    [SUCCESSOR, ORDERS, CANDIDATES].contains(&ending).then_some(ending)
}

/// The service's time by an answer, in nanoseconds since 1970; none where another than the service
/// answered.
pub fn told(response: &Response) -> Option<u64> {
    let date = response.header("x-ms-request-id").and(response.header("date"))?;
    http_date::parse(date).map(|date| Timestamp::from_date(date).0)
}

/// Reads a lease id.
#[must_use]
pub fn guid(text: &str) -> Option<u128> {
    Uuid::try_parse(text).ok().map(|uuid| uuid.as_u128())
}

/// Reads a percent-encoded instant: digits, `-`, `:` and `.` stand for themselves.
fn nanoseconds(text: &str) -> u64 {
    Timestamp::parse(text).map_or(0, |timestamp| timestamp.0)
}
