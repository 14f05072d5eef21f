//! Pending requests of operators and rules to a candidate.

use core::time::Duration;

use super::phase::Hold;
use crate::Moment;
use crate::mutants::mutant;
use crate::record::metadata::Refusal;
use crate::side::announcement::{
    QUICK_POLL, freshness, lease_change_time, successor_time, work_end_time,
};
use crate::step::settings::timings::Timings;
use serde::{Deserialize, Serialize};
use tenure_azure::blob::LeaseId;
use tenure_base::prelude::*;

/// Delay before a missing announcement is read again, the first time. It doubles each time, up to
/// [`QUICK_POLL`].
const FIRST_READ: Duration = Duration::from_millis(25);

/// The pending requests to a candidate.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Steering {
    /// True if its host is not ready, so that it does not contend.
    pub not_ready: bool,
    /// Time until which it does not contend.
    pub out_until: Moment,
    pub giving_up: Option<GivingUp>,
    /// The newest failed transfer, to be recorded.
    pub refusal: Option<Refusal>,
}

/// The way in which to give up a leadership.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum GivingUp {
    /// Release the lease to any candidate.
    Resign,
    /// Like `Resign`, but between two turns: there is no hurry.
    Rotate,
    /// Hand over to a named candidate.
    HandOver(HandOver),
}

/// An order to hand over.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct HandOver {
    /// The name of the successor.
    pub successor_name: String,
    /// The id of the transfer, if it came from the account.
    pub id: Option<String>,
    /// The lease id that the successor announced, if known.
    pub successor_lease: Option<LeaseId>,
    /// Time until which the lease may be given to the announced successor.
    pub announced_until: Moment,
    /// True if the record names the successor, so that it can know.
    pub is_named: bool,
    /// True if the last read was answered.
    pub read_answered: bool,
    /// Earliest time of the next read.
    pub read_at: Moment,
    /// Number of reads. The first ones come soon, since the successor may learn at once that it is
    /// named.
    pub read_count: u32,
    /// Time at which the successor was first seen.
    pub first_seen: Option<Moment>,
    /// Deadline for the end of the work.
    pub work_until: Moment,
    /// Time at which the order fails.
    pub fails_at: Moment,
}

impl HandOver {
    /// Returns the time of the next read for the announcement. The successor first has to learn
    /// that it is named.
    pub fn next_read_at(&self, hold: &Hold) -> Option<Moment> {
        hold.names_successor(Some(&self.successor_name)).then_some(self.read_at)
    }

    /// Starts the successor's time to announce itself, if the record names it since a write that
    /// took `took`.
    pub fn on_record_written(
        &mut self,
        recorded_name: Option<&str>,
        took: Duration,
        now: Moment,
        timings: &Timings,
    ) {
        if !self.is_named && recorded_name == Some(&self.successor_name) {
            self.is_named = true;
            self.fails_at = self.fails_at.max(now + successor_time(timings, took));
        }
    }

    /// Handles the result of a read: the announced lease id, if there is one. The outer none means
    /// that the read had no answer.
    pub fn on_announcement_read(
        &mut self,
        announced: Option<Option<LeaseId>>,
        took: Duration,
        now: Moment,
        timings: &Timings,
    ) {
        self.read_at = now + QUICK_POLL.min(FIRST_READ.saturating_mul(1 << self.read_count.min(8)));
        self.read_answered = announced.is_some();
        self.read_count = self.read_count.saturating_add(1);
        let Some(announced_lease) = announced else { return };
        if announced_lease.is_some() {
            self.read_at = now + QUICK_POLL;
            if self.successor_lease.is_none() {
                self.on_successor_seen(took, now, timings);
            }
            self.announced_until = now + freshness(took);
        }
        self.successor_lease = announced_lease;
    }

    /// Sets the limits when the successor appears. While it was missing, an application may have
    /// received an answer that lets it act for up to a lease. So each return of the successor gives
    /// the work that time again.
    fn on_successor_seen(&mut self, took: Duration, now: Moment, timings: &Timings) {
        let first_seen = *self.first_seen.get_or_insert(now);
        let work_deadline = first_seen + work_end_time(timings);
        self.work_until = self.work_until.max(work_deadline).max(now + timings.lease);
        let latest = first_seen + 2 * work_end_time(timings);
        self.fails_at = self.work_until.min(latest) + lease_change_time(took);
    }

    /// Returns the time for which the work may still continue.
    pub fn time_for_work(&self, now: Moment) -> Option<Duration> {
        self.successor_lease.map(|_| self.work_until.saturating_sub(now))
    }

    /// Returns the reason of the failure, if the handover ends now.
    pub fn failure(&self, is_working: bool) -> &'static str {
        match self.successor_lease {
            _ if !self.is_named => {
                "the successor's name could not be written to the record; find out why record writes fail"
            }
            _ if !self.read_answered => {
                "the successor's announcement could not be read in time; try again when the service answers faster"
            }
            None if self.first_seen.is_none() => {
                "no candidate of that name announced itself: it is not running, is not ready, or may not write beside \
                 the blob"
            }
            Some(_) if is_working => "the work did not end in time",
            _ => "the candidate of that name announced itself, but has left since",
        }
    }

    /// Returns true if the lease may be given to the successor.
    fn is_ready(&self, now: Moment) -> bool {
        self.successor_lease.is_some() && now <= self.announced_until
    }
}

impl Steering {
    pub fn hand_over(&self) -> Option<&HandOver> {
        match &self.giving_up {
            Some(GivingUp::HandOver(order)) => Some(order),
            _ => None,
        }
    }

    pub fn hand_over_mut(&mut self) -> Option<&mut HandOver> {
        match &mut self.giving_up {
            Some(GivingUp::HandOver(order)) => Some(order),
            _ => None,
        }
    }

    /// Notes the failure of a transfer for the record.
    pub fn refuse(&mut self, id: Option<String>, has_begun: bool, reason: &str) {
        if let Some(id) = id.filter(|_| !mutant!(TransferWithoutOutcome)) {
            self.refusal = Some(Refusal { id, has_begun, reason: reason.into() });
        }
    }

    /// Returns true if it resigns because it led for long enough.
    pub fn rotates(&self) -> bool {
        matches!(self.giving_up, Some(GivingUp::Rotate))
    }

    /// Clears the requests when the leadership is over.
    pub fn clear(&mut self) {
        (self.giving_up, self.refusal) = (None, None);
    }

    /// Returns true if no further turn may start.
    pub fn is_final(&self) -> bool {
        match &self.giving_up {
            None => false,
            Some(GivingUp::Resign | GivingUp::Rotate) => true,
            Some(GivingUp::HandOver(order)) => order.successor_lease.is_some(),
        }
    }

    /// Returns true if the leadership can be given up now.
    pub fn is_ready(&self, now: Moment) -> bool {
        self.is_final() && self.hand_over().is_none_or(|order| order.is_ready(now))
    }
}
