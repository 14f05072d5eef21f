//! What operators and rules ask of a candidate: to resign, to hand over, to stay out of the race.
//!
//! A leader that is to give its leadership up claims no turn any more. It asks its host to bring the
//! one that runs to an end, renews meanwhile, and releases the lease, or gives it to the heir, once
//! the work was seen stopped.

use core::time::Duration;

use super::Moment;
use super::candidate::{Phase, Step};
use super::heir::{LEADER_WAITS, QUICK, TO_COME};
use super::holding::Hold;
use super::report::EndingReason;
use super::trouble::TroubleClass;
use crate::azure::lease_id::LeaseId;
use crate::memory::remember;
use crate::mutants::mutant;
use crate::prelude::*;

/// What was asked of a candidate.
#[derive(Clone, Debug, Default)]
pub(super) struct Steering {
    /// Out of the race until it is resumed.
    paused: bool,
    /// Out of the race until then.
    out_until: Moment,
    giving_up: Option<GivingUp>,
}

remember!(struct Steering { paused, out_until, giving_up });

/// How a leadership is to be given up.
#[derive(Clone, Debug)]
enum GivingUp {
    /// To whoever wins it.
    Resign,
    /// The same, between two turns: nobody is in a hurry.
    Rotate,
    /// To one of that name.
    HandOver(HandOver),
}

remember!(enum GivingUp { 0 = Resign, 1 = Rotate, 2 = HandOver(order) } else Resign);

/// An order to hand over.
#[derive(Clone, Debug)]
pub(super) struct HandOver {
    /// The name of the heir.
    pub to: String,
    /// The heir that came forward.
    heir: Option<LeaseId>,
    /// No look for it before.
    look: Moment,
    /// Then it is in vain.
    until: Moment,
}

remember!(struct HandOver { to, heir, look, until });

impl HandOver {
    /// When to look for the heir, which has to hear of it first.
    pub fn looks_at(&self, hold: &Hold) -> Option<Moment> {
        (self.heir.is_none() && hold.names(Some(&self.to))).then_some(self.look)
    }

    /// Takes what a look has shown.
    pub fn looked(&mut self, heir: Option<LeaseId>, now: Moment) {
        self.look = now + QUICK;
        if heir.is_some() {
            (self.heir, self.until) = (heir, now + LEADER_WAITS);
        }
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

    /// The leadership is over.
    pub fn settle(&mut self) {
        self.giving_up = None;
    }

    /// Whether no turn may begin any more.
    fn is_final(&self) -> bool {
        match &self.giving_up {
            None => false,
            Some(GivingUp::Resign | GivingUp::Rotate) => true,
            Some(GivingUp::HandOver(order)) => order.heir.is_some(),
        }
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
        let Phase::Holding(_) = self.state.phase else {
            let detail = "it was to hand over its leadership, but it does not lead";
            return self.tell(TroubleClass::Work, detail.into(), now);
        };
        if self.gives_up() {
            let detail = "it was to hand over its leadership, which it gives up already";
            return self.tell(TroubleClass::Work, detail.into(), now);
        }
        if to == self.settings.name {
            let detail = "it was to hand over its leadership to itself";
            return self.tell(TroubleClass::Work, detail.into(), now);
        }
        if !self.settings.election.may_have_asides() {
            let detail = "the leadership cannot be handed over: the name of the blob is too long for \
                          another one beside it, at which the heir could come forward";
            return self.tell(TroubleClass::Configuration, detail.into(), now);
        }
        let until = now + 2 * self.settings.timings.poll + TO_COME;
        let order = HandOver { to, heir: None, look: now, until };
        self.state.steering.giving_up = Some(GivingUp::HandOver(order));
    }

    /// Whether no turn is to be claimed any more.
    pub(super) fn gives_up(&self) -> bool {
        self.state.steering.is_final()
    }

    /// Whether the host is to bring the turn that runs to an end.
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
            let (to, came) = (order.to.clone(), order.heir.is_some());
            steering.giving_up = None;
            self.in_vain(&to, came, now);
            return false;
        }
        let stopped = self.state.turn.is_none() || mutant!(HandOverBeforeStop);
        if !steering.is_final() || !stopped || hold.writes() {
            return false;
        }
        match steering.giving_up.take() {
            Some(GivingUp::HandOver(HandOver { heir: Some(heir), .. })) => {
                self.step_down(EndingReason::HandedOver, now, now + timings.poll, Some(heir));
            }
            _ => {
                // So that the others, who look within a poll, come before this one.
                steering.out_until = now + 2 * timings.poll;
                self.step_down(EndingReason::Resigned, now, now + timings.poll / 2, None);
            }
        }
        true
    }

    /// When a leader has to be called for that at the latest.
    pub(super) fn next_in_steering(&self, hold: &Hold, now: Moment) -> Option<Moment> {
        if self.gives_up() && self.state.turn.is_none() && !hold.writes() {
            return Some(now);
        }
        let order = self.state.steering.hand_over().map(|order| order.until);
        let rotates = self.settings.max_tenure.filter(|_| !self.gives_up());
        let rotates = rotates.map(|most: Duration| hold.won + most);
        [order, rotates].into_iter().flatten().min()
    }
}
