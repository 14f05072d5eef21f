//! What operators and rules ask of a candidate: to resign, to hand over, to stay out of the race.
//!
//! A leader that is to give up its leadership claims no further turn. It asks its host to end the turn
//! that runs, and renews meanwhile. Once the work was seen stopped it releases the lease, or gives it to
//! the successor.

use core::time::Duration;

use super::Moment;
use super::candidate::{Phase, Step};
use super::holding::Hold;
use super::problem::ProblemClass;
use super::report::EndingReason;
use super::successor::{LEADER_WAITS, QUICK, time_to_come};
use super::text::{LONGEST_NAME, is_fit};
use super::timings::Timings;
use crate::mutants::mutant;
use serde::{Deserialize, Serialize};
use tenure_azure::lease_id::LeaseId;
use tenure_base::prelude::*;

/// What was asked of a candidate.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Steering {
    /// Out of the race until it is resumed.
    paused: bool,
    /// Out of the race until then.
    out_until: Moment,
    giving_up: Option<GivingUp>,
}

/// How a leadership is to be given up.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum GivingUp {
    /// To whoever wins it.
    Resign,
    /// The same, between two turns: nobody is in a hurry.
    Rotate,
    /// To one of that name.
    HandOver(HandOver),
}

/// An order to hand over.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct HandOver {
    /// The name of the successor.
    pub to: String,
    /// The lease id that the successor announced, as far as is known.
    successor: Option<LeaseId>,
    /// Its announcement was read: the lease may be given to it until then.
    fresh_until: Moment,
    /// The record names it, so that it can know.
    named: bool,
    /// The last read was answered.
    asked: bool,
    /// The announcement is not read before.
    read_at: Moment,
    /// Then it has failed.
    until: Moment,
}

/// Why nothing came of an order to hand over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HandoverFailure {
    /// The record could not be written.
    NotNamed,
    /// The announcement could not be read.
    NotAsked,
    /// No candidate of that name announced itself.
    DidNotCome,
    /// It announced itself, and then no more.
    WentAway,
    /// It announced itself, but the work did not end.
    WorkWentOn,
}

/// How long ago the announcement may have been read, by a read that took so long, when the lease is given.
/// A renewal and the outcome of the last turn may go out in between, and each takes about as long.
pub(super) fn just_seen(took: Duration) -> Duration {
    (3 * took).clamp(SHORTEST_SEEN, LONGEST_SEEN)
}

const SHORTEST_SEEN: Duration = Duration::from_secs(2);
const LONGEST_SEEN: Duration = Duration::from_secs(8);

impl HandOver {
    /// When to read for the announcement. The successor has to learn first that it is named.
    pub fn reads_at(&self, hold: &Hold) -> Option<Moment> {
        hold.names(Some(&self.to)).then_some(self.read_at)
    }

    /// The record names this successor since the write that was `sent` was answered: its time to announce
    /// itself begins now.
    pub fn named(
        &mut self,
        on_record: Option<&str>,
        (sent, now): (Moment, Moment),
        timings: &Timings,
    ) {
        if !self.named && on_record == Some(&self.to) {
            self.named = true;
            self.until = self.until.max(now + time_to_come(timings, now.saturating_sub(sent)));
        }
    }

    /// Takes what a read has shown: the announced lease id, if there is one; none, when it was not
    /// answered.
    pub fn announcement_read(
        &mut self,
        here: Option<Option<LeaseId>>,
        (sent, now): (Moment, Moment),
    ) {
        self.read_at = now + QUICK;
        self.asked = here.is_some();
        let Some(successor) = here else { return };
        if successor.is_some() {
            if self.fresh_until == Moment::ZERO {
                self.until = now + LEADER_WAITS;
            }
            self.fresh_until = now + just_seen(now.saturating_sub(sent));
        }
        self.successor = successor;
    }

    /// Why it has failed, if it ends now.
    fn failure(&self, works: bool) -> HandoverFailure {
        match self.successor {
            _ if !self.named => HandoverFailure::NotNamed,
            _ if !self.asked => HandoverFailure::NotAsked,
            None if self.fresh_until == Moment::ZERO => HandoverFailure::DidNotCome,
            Some(_) if works => HandoverFailure::WorkWentOn,
            _ => HandoverFailure::WentAway,
        }
    }

    /// Whether the lease may be given to the successor.
    fn is_ready(&self, now: Moment) -> bool {
        self.successor.is_some() && now <= self.fresh_until
    }
}

impl Steering {
    pub fn new(out_until: Moment) -> Self {
        Self { out_until, ..Self::default() }
    }

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

    /// Whether it makes way because it led for long enough.
    fn rotates(&self) -> bool {
        matches!(self.giving_up, Some(GivingUp::Rotate))
    }

    /// The leadership is over.
    pub fn settle(&mut self) {
        self.giving_up = None;
    }

    /// Whether no turn may begin any more.
    fn is_final(&self) -> bool {
        match &self.giving_up {
            None => false,
            Some(GivingUp::Resign | GivingUp::Rotate) => true,
            Some(GivingUp::HandOver(order)) => order.successor.is_some(),
        }
    }

    /// Whether nothing more has to be known before the leadership is given up.
    fn is_ready(&self, now: Moment) -> bool {
        self.is_final() && self.hand_over().is_none_or(|order| order.is_ready(now))
    }
}

impl Step<'_> {
    /// Whether this candidate leaves the lease to the others.
    pub(super) fn stays_out(&self, now: Moment) -> bool {
        let Steering { paused, out_until, .. } = self.state.steering;
        paused || now < out_until || self.state.health.is_out(now)
    }

    /// Gives up a leadership, or one that is about to be won.
    pub(super) fn resign(&mut self) {
        if matches!(self.state.phase, Phase::Acquiring(_) | Phase::Raising(_) | Phase::Holding(_)) {
            self.state.steering.giving_up = Some(GivingUp::Resign);
        }
    }

    pub(super) fn pause(&mut self) {
        self.state.steering.paused = true;
        self.resign();
    }

    pub(super) fn resume(&mut self) {
        self.state.steering.paused = false;
    }

    /// Hands over to the candidate of that name.
    pub(super) fn hand_over(&mut self, to: String, now: Moment) {
        let (order, configured) = (ProblemClass::Order, ProblemClass::Configuration);
        let refusal = match self.state.phase {
            // One that rotates is in no hurry, and would give its lease to anybody.
            Phase::Holding(_) if self.gives_up() && !self.state.steering.rotates() => {
                Some((order, "it gives up its leadership already"))
            }
            // On the record it would be as if it were not there.
            Phase::Holding(_) if !is_fit(&to, LONGEST_NAME) => {
                Some((order, "no candidate can have that name"))
            }
            Phase::Holding(_) if to == self.settings.name => {
                Some((order, "it is the leader already"))
            }
            Phase::Holding(_) if !self.settings.election.may_have_side_blobs() => {
                Some((configured, "the blob's name is too long for that of another one beside it"))
            }
            Phase::Holding(_) => None,
            _ => Some((order, "it does not lead")),
        };
        if let Some((class, why)) = refusal {
            return self.answer_order(class, String::from("cannot hand over: ") + why);
        }
        if mutant!(HandOverForgotten) {
            return;
        }
        let mut until = now + time_to_come(&self.settings.timings, Duration::ZERO);
        let before = self.state.steering.hand_over().map(|order| (order.to.clone(), order.until));
        match before {
            // The same again has no less time than what is left.
            Some((before, left)) if before == to => until = until.max(left),
            Some((before, _)) => {
                let detail = format!(
                    "the order to hand over to \"{before}\" is off: one to hand over to \"{to}\" \
                     took its place"
                );
                self.answer_order(order, detail);
            }
            None => {}
        }
        // The record may name that one already.
        let named = matches!(&self.state.phase, Phase::Holding(hold) if hold.names(Some(&to)));
        let (successor, fresh_until, read_at) = (None, Moment::ZERO, now);
        let order = HandOver { to, successor, fresh_until, named, asked: false, read_at, until };
        self.state.steering.giving_up = Some(GivingUp::HandOver(order));
    }

    /// Whether no turn is to be claimed any more.
    pub(super) fn gives_up(&self) -> bool {
        self.state.steering.is_final()
    }

    /// Whether the host is to end the turn that runs.
    pub(super) fn winds_down(&self) -> bool {
        let patient = matches!(self.state.steering.giving_up, Some(GivingUp::Rotate));
        let works = matches!(self.state.phase, Phase::Holding(_)) && self.state.turn.is_some();
        works && self.gives_up() && (!patient || self.settings.agenda.is_one_turn_a_term())
    }

    /// Gives the leadership up, if that is wanted and nothing of it is under way. True: it is.
    pub(super) fn give_up(&mut self, now: Moment) -> bool {
        let Phase::Holding(hold) = &self.state.phase else { return false };
        let timings = &self.settings.timings;
        let steering = &mut self.state.steering;
        let rotates = self.settings.max_tenure.is_some_and(|most| now >= hold.won + most);
        if rotates && steering.giving_up.is_none() {
            steering.giving_up = Some(GivingUp::Rotate);
        }
        if let Some(order) = steering.hand_over()
            && now >= order.until
        {
            let (to, why) = (order.to.clone(), order.failure(self.state.turn.is_some()));
            // Work that is one turn for the whole leadership may have come to its end already.
            let worked = self.settings.agenda.is_one_turn_a_term() && hold.has_worked();
            let over = worked && self.state.turn.is_none();
            steering.giving_up = over.then_some(GivingUp::Resign);
            self.handover_failed(&to, why, now);
            return false;
        }
        let stopped = self.state.turn.is_none() || mutant!(HandOverBeforeStop);
        if !steering.is_ready(now) || !stopped {
            return false;
        }
        match steering.giving_up.take() {
            Some(GivingUp::HandOver(HandOver { successor: Some(successor), to, .. })) => {
                self.state.handed.offered(&to);
                self.step_down(EndingReason::HandedOver, now, now + timings.poll, Some(successor));
            }
            _ => {
                // So that the others, who poll by then, come before this one.
                steering.out_until = now + 2 * timings.poll;
                self.step_down(EndingReason::Resigned, now, now + timings.poll / 2, None);
            }
        }
        true
    }

    /// When a leader has to be called for that at the latest.
    pub(super) fn next_in_steering(&self, hold: &Hold, now: Moment) -> Option<Moment> {
        let steering = &self.state.steering;
        if steering.is_ready(now) && self.state.turn.is_none() {
            return Some(now);
        }
        let order = steering.hand_over().map(|order| order.until);
        let rotates = self.settings.max_tenure.filter(|_| steering.giving_up.is_none());
        let rotates = rotates.map(|most: Duration| hold.won + most);
        [order, rotates].into_iter().flatten().min()
    }
}
