//! The fields of the record: names and parsers.

use core::time::Duration;

use super::turns::{Outcome, Started};
use super::{Beat, FAILED, REFUSED, Refusal};
use crate::record::text::{MAX_NAME, MAX_REASON, decode, decode_allowed, is_order_id};
use crate::schedule::slots::Delivery;
use crate::step::clocks::Timestamp;
use crate::step::pace::Failover;
use tenure_azure::blob::Metadata;
use tenure_base::prelude::*;

pub(super) const FORMAT: &str = "tenureformat";
pub(super) const TERM: &str = "tenureterm";
pub(super) const LEADER: &str = "tenureleader";
pub(super) const NONCE: &str = "tenurenonce";
pub(super) const SINCE: &str = "tenuresince";
pub(super) const ADDRESS: &str = "tenureaddress";
pub(super) const SCHEDULE: &str = "tenureschedule";
pub(super) const SLOT: &str = "tenureslot";
pub(super) const ATTEMPT: &str = "tenureattempt";
pub(super) const MAX_ATTEMPTS: &str = "tenuremaxattempts";
pub(super) const FINISHED: &str = "tenureoutcomeslot";
pub(super) const OUTCOME: &str = "tenureoutcome";
pub(super) const SUCCESS: &str = "tenuresuccess";
pub(super) const FAILURE: &str = "tenurefailure";
pub(super) const FAILURE_DETAIL: &str = "tenurefailuredetail";
pub(super) const MISSED: &str = "tenuremissed";
pub(super) const DELAY: &str = "tenuredelay";
pub(super) const TRIGGER: &str = "tenuretrigger";
pub(super) const TRIGGER_SLOT: &str = "tenuretriggerslot";
pub(super) const TRIGGER_ATTEMPT: &str = "tenuretriggerattempt";
pub(super) const TRIGGER_MAX_ATTEMPTS: &str = "tenuretriggermaxattempts";
pub(super) const TRIGGER_OUTCOME: &str = "tenuretriggeroutcome";
pub(super) const TRIGGER_TERM: &str = "tenuretriggerterm";
pub(super) const TRIGGERS: &str = "tenuretriggerhistory";
pub(super) const SUCCESSOR: &str = "tenuresuccessor";
pub(super) const SUCCESSOR_TERM: &str = "tenuresuccessorterm";
pub(super) const TRANSFER: &str = "tenuretransfer";
pub(super) const TRANSFER_OUTCOME: &str = "tenuretransferoutcome";
pub(super) const TRANSFER_REASON: &str = "tenuretransferreason";
pub(super) const ORDERS_TERM: &str = "tenureordersterm";
pub(super) const BEAT: &str = "tenureheartbeat";
pub(super) const PROMISE: &str = "tenurefailoverwindow";
pub(super) const PROMISE_TERM: &str = "tenureheartbeatterm";
pub(super) const COORDINATOR_TERM: &str = "tenurecoordinatorterm";
pub(super) const CHANGES: &str = "tenuretransitions";
pub(super) const HISTORY: &str = "tenurehistory";

/// Fields that are being parsed into a record. A malformed field is noted, and the record is
/// rejected after the last field. An early return at each of so many fields would take a third more
/// code.
pub(super) struct Fields {
    /// Fields that are not parsed yet. At the end, those that this version does not know.
    pub remaining: Metadata,
    /// The first malformed field.
    pub malformed: Option<String>,
    /// Ignored fields: their values are not what candidates write.
    pub ignored: Vec<&'static str>,
}

impl Fields {
    pub(super) fn mark_malformed(&mut self, name: &str, suffix: &str) {
        self.malformed.get_or_insert_with(|| name.to_string() + suffix);
    }

    #[inline(never)]
    pub(super) fn text(&mut self, name: &str) -> Option<String> {
        let text = decode(&self.remaining.remove(name)?);
        if text.is_none() {
            self.mark_malformed(name, "");
        }
        text
    }

    /// Takes a text that settings allow, of at most `longest` bytes. Ignores any other text.
    #[inline(never)]
    pub(super) fn bounded_text(&mut self, name: &'static str, longest: usize) -> Option<String> {
        let value = self.remaining.get(name)?;
        let is_valid = decode_allowed(value, longest).is_some();
        let text = self.text(name);
        if !is_valid && text.is_some() {
            self.ignored.push(name);
        }
        text.filter(|_| is_valid)
    }

    /// Takes the successor that the leader of this term named. A successor of another term is
    /// ignored: a leader whose version does not know successors kept it.
    pub(super) fn successor(&mut self, term: u64) -> Option<String> {
        let successor_term = self.optional(SUCCESSOR_TERM, |text| text.parse::<u64>().ok());
        self.bounded_text(SUCCESSOR, MAX_NAME).filter(|_| successor_term == Some(term))
    }

    /// Takes the transfer that was refused or failed. No decision depends on it, so a malformed one
    /// is ignored.
    pub(super) fn refusal(&mut self) -> Option<Refusal> {
        let id = self.informational(TRANSFER, |id| is_order_id(id).then(|| id.into()));
        let has_begun = self.informational(TRANSFER_OUTCOME, |text| match text {
            REFUSED => Some(false),
            FAILED => Some(true),
            _ => None,
        });
        let reason = self.bounded_text(TRANSFER_REASON, MAX_REASON);
        Some(Refusal { id: id?, has_begun: has_begun?, reason: reason? })
    }

    /// Takes the newest beat of the leader of this term. A beat of another term is ignored: a
    /// leader whose version does not know beats kept it. A promise that no settings produce is
    /// ignored too.
    pub(super) fn beat(&mut self, term: u64) -> Option<Beat> {
        let number = self.optional(BEAT, |text| text.parse::<u64>().ok());
        let promise = self.optional(PROMISE, |text| text.parse::<u64>().ok());
        let promise_term = self.optional(PROMISE_TERM, |text| text.parse::<u64>().ok());
        let promise = promise.map(Duration::from_millis);
        let (number, promise) = number.zip(promise).filter(|_| promise_term == Some(term))?;
        if !Failover::is_possible_promise(promise) {
            self.ignored.push(PROMISE);
            return None;
        }
        Some(Beat { number, promise })
    }

    pub(super) fn optional<T>(
        &mut self,
        name: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        let value = parse(&self.text(name)?);
        if value.is_none() {
            self.mark_malformed(name, "");
        }
        value
    }

    #[inline(never)]
    pub(super) fn instant(&mut self, name: &str) -> Option<Timestamp> {
        self.optional(name, Timestamp::parse)
    }

    #[inline(never)]
    pub(super) fn number(&mut self, name: &str) -> Option<u32> {
        self.optional(name, |text| text.parse().ok())
    }

    /// Takes the outcome in the second of these fields. If only a newer version knows that outcome,
    /// both fields stay among the unknown ones.
    pub(super) fn outcome(
        &mut self,
        metadata: &Metadata,
        field_names: [&str; 2],
    ) -> Option<Outcome> {
        let outcome = self.optional(field_names[1], |text| Some(Outcome::parse(text)));
        if let Some(None) = outcome {
            for name in field_names {
                if let Some(value) = metadata.get(name) {
                    self.remaining.insert(name.into(), value.into());
                }
            }
        }
        outcome.flatten()
    }

    /// Takes a field on which no decision depends. A malformed one is ignored.
    pub(super) fn informational<T>(
        &mut self,
        name: &'static str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        let value = decode(&self.remaining.remove(name)?).as_deref().and_then(parse);
        if value.is_none() {
            self.ignored.push(name);
        }
        value
    }

    pub(super) fn delivery(&mut self, name: &str) -> Delivery {
        let at_least_once = |max_attempts| Delivery::AtLeastOnce { max_attempts };
        self.number(name).map_or(Delivery::AtMostOnce, at_least_once)
    }

    /// Takes the newest turn for a trigger.
    pub(super) fn started(&mut self, metadata: &Metadata) -> Option<Started> {
        let id = self.bounded_text(TRIGGER, MAX_NAME);
        let slot = self.instant(TRIGGER_SLOT);
        let attempt = self.number(TRIGGER_ATTEMPT).unwrap_or(1);
        let outcome = self.outcome(metadata, [TRIGGER_OUTCOME; 2]);
        let delivery = self.delivery(TRIGGER_MAX_ATTEMPTS);
        Some(Started { id: id?, slot: slot?, attempt, delivery, outcome })
    }

    pub(super) fn required<T: Default>(
        &mut self,
        name: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> T {
        self.optional(name, parse).unwrap_or_else(|| {
            self.mark_malformed(name, " (missing)");
            T::default()
        })
    }
}
