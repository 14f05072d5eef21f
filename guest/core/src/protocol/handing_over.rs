//! Giving the leadership up: to any candidate, or to a named successor. protocol.md §7.2.
//!
//! A leader that resigns claims no further turn, and asks its host to end the running one. A leader
//! that hands over does so only once it has read the successor's announcement. A leader that
//! rotates resigns because `max-tenure` is over. It lets the running turn finish, unless that lasts
//! as long as the leadership.
//!
//! Each of them renews meanwhile. When the host reports that the work has stopped, the leader
//! releases the lease or gives it to the successor.
//!
//! For a handover, the leader names the successor in the record, and reads the successor's
//! announcement. The announcement holds the lease id by which the successor will lead. The leader
//! gives the lease to that id if it has just read a fresh announcement. The successor polls until
//! its id holds the lease, and acquires it again with the length of its own settings. Then it
//! raises the term as after any acquisition. The lease is never free in between, so no third
//! candidate can win it. `follower` and `watching` implement the successor.

use core::time::Duration;

use super::context::Context;
use crate::Moment;
use crate::side::announcement::{Announcement, naming_time, successor_time};

use super::phase::{Hold, Release};
use super::releasing::step_down;
use super::steering::{GivingUp, HandOver};
use crate::mutants::mutant;
use crate::record::text::{MAX_NAME, is_allowed_text};
use crate::step::problem::ProblemClass;
use crate::step::report::EndingReason;
use tenure_azure::answer::{Answer, Class};
use tenure_base::prelude::*;

/// Handles the order to hand over to the candidate with that name. `hold` is the leadership, if
/// this candidate leads. `id` is the id of the transfer, if it came from the account.
pub(crate) fn order(
    to: String,
    id: Option<String>,
    hold: Option<&Hold>,
    context: &mut Context<'_>,
) {
    if let Some((class, reason)) = refusal_reason(&to, hold, context) {
        context.state.steering.refuse(id, false, reason);
        return context.report_order(class, String::from("cannot hand over: ") + reason);
    }
    if mutant!(HandOverForgotten) {
        return;
    }
    // The record may name that candidate already.
    let is_named = hold.is_some_and(|hold| hold.names_successor(Some(&to)));
    let timings = &context.settings.timings;
    let time =
        if is_named { successor_time(timings, Duration::ZERO) } else { naming_time(timings) };
    let mut fails_at = context.now + time;
    let steering = &context.state.steering;
    match steering
        .hand_over()
        .map(|order| (order.successor_name.clone(), order.fails_at, order.id.clone()))
    {
        // A repeated order keeps the time that the first one has left, if that is longer.
        Some((name, deadline, _)) if name == to => fails_at = fails_at.max(deadline),
        Some((replaced_name, _, replaced_id)) => {
            context.state.steering.refuse(
                replaced_id,
                true,
                "another order to hand over took its place",
            );
            let detail = format!(
                "the order to hand over to \"{replaced_name}\" is cancelled: an order to hand over to \
                 \"{to}\" took its place"
            );
            context.report_order(ProblemClass::Order, detail);
        }
        None => {}
    }
    let order = HandOver {
        successor_name: to,
        id,
        successor_lease: None,
        announced_until: Moment::ZERO,
        is_named,
        was_read_answered: false,
        read_at: context.now,
        read_count: 0,
        first_seen: None,
        work_until: Moment::ZERO,
        fails_at,
    };
    context.state.steering.giving_up = Some(GivingUp::HandOver(order));
}

/// Returns the reason to refuse an order to hand over. None if the order is accepted.
fn refusal_reason(
    to: &str,
    hold: Option<&Hold>,
    context: &Context<'_>,
) -> Option<(ProblemClass, &'static str)> {
    let (settings, steering) = (context.settings, &context.state.steering);
    let (order_class, configuration_class) = (ProblemClass::Order, ProblemClass::Configuration);
    match hold {
        None => Some((order_class, "it does not lead")),
        // A leader that rotates (resigns because `max-tenure` is over) is in no hurry, and would
        // give its lease to any candidate.
        Some(_) if steering.forbids_new_turns() && !steering.rotates() => {
            Some((order_class, "it is already giving up its leadership"))
        }
        // Followers would ignore such a name on the record.
        Some(_) if !is_allowed_text(to, MAX_NAME) => {
            Some((order_class, "no candidate can have that name"))
        }
        Some(_) if to == settings.name => Some((order_class, "it is the leader already")),
        Some(_) if !settings.election.may_have_side_blobs() => Some((
            configuration_class,
            "the name of the election's blob is too long: no suffix for the announcement's blob \
             fits",
        )),
        Some(_) => None,
    }
}

/// Returns true if the host should end the running turn.
pub(crate) fn is_winding_down(hold: Option<&Hold>, context: &Context<'_>) -> bool {
    let steering = &context.state.steering;
    let is_working = hold.is_some() && context.state.turn.is_some();
    // A leader that rotates waits for a turn, but not for one that lasts as long as it leads.
    let waits_for_turn = steering.rotates() && !context.settings.agenda.is_one_turn_a_term();
    is_working && steering.forbids_new_turns() && !waits_for_turn
}

/// Returns the maximum time for which the turn may continue when it winds down for a successor.
pub(crate) fn wind_down_limit(context: &Context<'_>) -> Option<Duration> {
    if mutant!(WorkOutlastsHandover) {
        return None;
    }
    context.state.steering.hand_over()?.time_for_work(context.started)
}

/// Gives up the leadership if that is ordered and no work is running. Also orders the rotation when
/// `max-tenure` is over, and ends an order to hand over that failed.
pub(crate) fn give_up(hold: &mut Hold, context: &mut Context<'_>) -> Option<Release> {
    let (now, settings) = (context.now, context.settings);
    let is_idle = context.state.turn.is_none();
    let steering = &mut context.state.steering;
    if settings.max_tenure.is_some_and(|longest| now >= hold.acquired_at + longest) {
        steering.giving_up.get_or_insert(GivingUp::Rotate);
    }
    if let Some(order) = steering.hand_over()
        && now >= order.fails_at
    {
        // Work that is one turn for the whole leadership may have ended already.
        let has_worked = hold.record.last_slot.is_some_and(|last| last.attempt > 0);
        let is_finished = settings.agenda.is_one_turn_a_term() && has_worked && is_idle;
        let consequence = if is_finished { "resigns" } else { "stays" };
        let (to, reason) = (&order.successor_name, order.failure_reason(!is_idle));
        let other_names = context.state.listing.others_if_missing(to, &settings.name);
        let known_candidates =
            other_names.map(|names| format!(". The candidates seen lately are {names}"));
        let detail = format!(
            "the leadership was not handed over to \"{to}\"; the leader {consequence}: {reason}{}",
            known_candidates.unwrap_or_default()
        );
        let id = order.id.clone();
        steering.giving_up = is_finished.then_some(GivingUp::Resign);
        if !is_finished {
            steering.refuse(id, true, reason);
        }
        context.report_order(ProblemClass::Order, detail);
        return None;
    }
    let is_stopped = is_idle || mutant!(HandOverBeforeStop);
    if !steering.is_ready(now) || !is_stopped {
        return None;
    }
    Some(match steering.giving_up.take() {
        Some(GivingUp::HandOver(HandOver { successor_lease: Some(successor), .. })) => {
            let release = step_down(hold, EndingReason::HandedOver, context);
            Release { successor: Some(successor), ..release }
        }
        _ => {
            // The other candidates poll within that time, so one of them wins.
            steering.ineligible_until = now + 2 * settings.timings.poll;
            step_down(hold, EndingReason::Resigned, context)
        }
    })
}

/// Returns the time at which [`give_up`] next has something to do.
pub(crate) fn due_at(hold: &Hold, context: &Context<'_>) -> Option<Moment> {
    let steering = &context.state.steering;
    if steering.is_ready(context.now) && context.state.turn.is_none() {
        return Some(context.now);
    }
    let order_fails_at = steering.hand_over().map(|order| order.fails_at);
    let max_tenure = context.settings.max_tenure.filter(|_| steering.giving_up.is_none());
    let rotates_at = max_tenure.map(|longest| hold.acquired_at + longest);
    [order_fails_at, rotates_at].into_iter().flatten().min()
}

/// Returns the time of the leader's next read of its successor's announcement. None if it does not
/// hand over.
pub(crate) fn next_read_at(hold: &Hold, context: &Context<'_>) -> Option<Moment> {
    context.state.steering.hand_over()?.next_read_at(hold)
}

/// Handles the answer to a read of the successor's announcement, which took `took`.
pub(crate) fn on_announcement_read(
    answer: Option<&Answer>,
    took: Duration,
    hold: &Hold,
    context: &mut Context<'_>,
) {
    let (now, settings) = (context.now, context.settings);
    let known = answer.filter(|a| matches!(a.class, Class::Done | Class::MissingBlob));
    let announcement = known.and_then(|answer| Announcement::from_current(answer, took));
    let Some(order) = context.state.steering.hand_over_mut() else { return };
    let announced_lease = announcement.and_then(|announcement| {
        let (lease, term) = announcement.nomination?;
        let is_of_term = term == hold.record.term || mutant!(AnnouncementOfAnyTerm);
        (announcement.candidate == order.successor_name && is_of_term).then_some(lease)
    });
    order.on_announcement_read(known.map(|_| announced_lease), took, now, &settings.timings);
}
