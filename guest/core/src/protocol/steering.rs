//! Pending orders to a candidate, from its operators, its host and its settings.

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

/// First pause before a missing announcement is read again. It doubles after each read, up to
/// [`QUICK_POLL`].
const FIRST_READ_PAUSE: Duration = Duration::from_millis(25);

/// The pending orders to a candidate.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Steering {
    /// True if the process is not ready, so that the candidate does not contend.
    pub is_unready: bool,
    /// Time until which the candidate does not contend after a resignation.
    pub ineligible_until: Moment,
    /// The order to give up the leadership, if there is one.
    pub giving_up: Option<GivingUp>,
    /// The newest transfer that was refused or failed, to be recorded.
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
    /// True if the record names the successor.
    pub is_named: bool,
    /// True if the last read of the announcement was answered.
    pub was_read_answered: bool,
    /// Earliest time of the next read.
    pub read_at: Moment,
    /// Number of reads. The first reads come soon, since a hint may tell the successor at once that
    /// it is named.
    pub read_count: u32,
    /// Time at which the successor was first seen.
    pub first_seen: Option<Moment>,
    /// Deadline for the end of the work.
    pub work_until: Moment,
    /// Time at which the order fails.
    pub fails_at: Moment,
}

impl HandOver {
    /// Returns the time of the next read of the announcement. None until the record names the
    /// successor.
    pub fn next_read_at(&self, hold: &Hold) -> Option<Moment> {
        hold.names_successor(Some(&self.successor_name)).then_some(self.read_at)
    }

    /// Starts the successor's time to announce itself, if the record names the successor after a
    /// write that took `took`.
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

    /// Handles the result of a read: the announced lease id, `Some(None)` without an announcement,
    /// or `None` if the read had no answer.
    pub fn on_announcement_read(
        &mut self,
        announced: Option<Option<LeaseId>>,
        took: Duration,
        now: Moment,
        timings: &Timings,
    ) {
        self.read_at =
            now + QUICK_POLL.min(FIRST_READ_PAUSE.saturating_mul(1 << self.read_count.min(8)));
        self.was_read_answered = announced.is_some();
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

    /// Sets the deadlines when the successor appears, or appears again. While it was missing, an
    /// application may have received an answer that lets it act for up to a lease. So each return
    /// of the successor gives the work at least another lease.
    fn on_successor_seen(&mut self, took: Duration, now: Moment, timings: &Timings) {
        let first_seen = *self.first_seen.get_or_insert(now);
        let work_deadline = first_seen + work_end_time(timings);
        self.work_until = self.work_until.max(work_deadline).max(now + timings.lease);
        let latest = first_seen + 2 * work_end_time(timings);
        self.fails_at = self.work_until.min(latest) + lease_change_time(took);
    }

    /// Returns the time for which the work may still continue. None while no successor is present,
    /// since the work then goes on.
    pub fn time_for_work(&self, now: Moment) -> Option<Duration> {
        self.successor_lease.map(|_| self.work_until.saturating_sub(now))
    }

    /// Returns the reason of failure of a handover that ends now.
    pub fn failure_reason(&self, is_working: bool) -> &'static str {
        match self.successor_lease {
            _ if !self.is_named => {
                "the successor's name could not be written to the record; find out why record writes fail"
            }
            _ if !self.was_read_answered => {
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

    /// Returns true if the announcement is fresh, so that the lease may be given to the successor.
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

    /// Notes for the record that a transfer was refused, or failed after it had begun.
    pub fn refuse(&mut self, id: Option<String>, has_begun: bool, reason: &str) {
        if let Some(id) = id.filter(|_| !mutant!(TransferWithoutOutcome)) {
            self.refusal = Some(Refusal { id, has_begun, reason: reason.into() });
        }
    }

    /// Returns true if the leader resigns because its `max-tenure` is over.
    pub fn rotates(&self) -> bool {
        matches!(self.giving_up, Some(GivingUp::Rotate))
    }

    /// Clears the orders when the leadership is over.
    pub fn clear(&mut self) {
        (self.giving_up, self.refusal) = (None, None);
    }

    /// Returns true if no further turn may start.
    pub fn forbids_new_turns(&self) -> bool {
        match &self.giving_up {
            None => false,
            Some(GivingUp::Resign | GivingUp::Rotate) => true,
            Some(GivingUp::HandOver(order)) => order.successor_lease.is_some(),
        }
    }

    /// Returns true if the leadership can be given up now.
    pub fn is_ready(&self, now: Moment) -> bool {
        self.forbids_new_turns() && self.hand_over().is_none_or(|order| order.is_ready(now))
    }
}
