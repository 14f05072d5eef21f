//! Placing an order for a command, and finding its state.

use core::time::Duration;

use chrono::{DateTime, Utc};

use super::super::history::Incumbent;
use super::super::problem::{Problem, ProblemClass};
use super::super::record::{Judged, Record, Refusal, Trigger, TriggerState};
use super::super::service_clock::Timestamp;
use super::super::settings::Settings;
use super::super::slots::Schedule;
use super::super::text::{LONGEST_NAME, is_fit, is_order_id};
use super::{MOST, Orders, Transfer};
use crate::mutants::mutant;
use tenure_azure::answer::{Answer, Class, LeaseState};
use tenure_azure::name::SideBlob;
use tenure_azure::operation::{ETag, Operation};
use tenure_base::prelude::*;

const MILLISECOND: Duration = Duration::from_millis(1);

/// The next step of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placing<S> {
    /// Nothing is to be written: the order is in this state.
    Known(S),
    /// No candidate has led yet: this creates the election's blob, or its container. Both blobs are read again then.
    Create(Operation),
    /// This places the order, which is in that state then. If it is not done, both blobs are read again.
    Write(Operation, S),
}

/// A transfer, as a command gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransferOrder {
    /// Random, 1 to 64 letters, digits, dots, hyphens and underscores.
    pub id: String,
    /// The name of the successor. None: any candidate may lead next.
    pub to: Option<String>,
    /// The term of the order. None: that of the record.
    pub term: Option<u64>,
}

/// The state of a transfer. `wit/types.wit` defines each case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransferState {
    /// The leader of that term has not read it yet, or is obeying it.
    Waiting(u64),
    /// The transfer took effect: this candidate leads now.
    Done(Incumbent),
    /// Another candidate than the named one leads now.
    Changed(Incumbent),
    /// A newer transfer took its place.
    Replaced,
    /// The leader did not begin the transfer, for this reason.
    Refused(String),
    /// The leader began the transfer and stays, for this reason.
    Failed(String),
}

/// The content of the two blobs of an election.
struct Found {
    orders: Orders,
    /// The tag of the orders. None: there is no such blob.
    over: Option<ETag>,
    record: Option<Record>,
    is_held: bool,
    now: Timestamp,
}

impl Found {
    /// Reads both answers. The orders were requested first: what a command removed from them in between is on record.
    ///
    /// # Errors
    /// A blob could not be read, or does not belong to an election.
    fn read(
        (orders, election): (&Answer, &Answer),
        settings: &Settings,
        wall: DateTime<Utc>,
    ) -> Result<Self, Problem> {
        let (over, orders) = match (orders.class, &orders.properties) {
            (Class::MissingBlob | Class::MissingContainer, _) => (None, Orders::default()),
            (Class::Done, Some(seen)) => match Orders::read(seen) {
                Some(found) => (orders.etag.clone(), found),
                None => return Err(Problem::of_foreign(SideBlob::Orders, settings)),
            },
            _ => {
                let read = Operation::ReadSideBlob(SideBlob::Orders);
                return Err(Problem::of_answer(orders, &read, settings));
            }
        };
        let now = Timestamp::from_date(election.date.unwrap_or(wall));
        let (record, is_held) = match (election.class, &election.properties) {
            (Class::Done, Some(seen)) => {
                let Judged { record, .. } = Record::judge(&settings.election, seen, Some(now))
                    .map_err(Problem::of_unusable)?;
                (record, matches!(seen.lease, LeaseState::Leased | LeaseState::Breaking))
            }
            (Class::MissingBlob | Class::MissingContainer, _) => (None, false),
            _ => {
                let read = Operation::Read { lease: None };
                return Err(Problem::of_answer(election, &read, settings));
            }
        };
        Ok(Self { orders, over, record, is_held, now })
    }

    fn write(self, settings: &Settings) -> Operation {
        let (blob, metadata) = (SideBlob::Orders, self.orders.write(settings));
        Operation::WriteSideBlob { blob, over: self.over, metadata }
    }
}

fn refused<T>(class: ProblemClass, detail: impl Into<String>) -> Result<T, Problem> {
    Err(Problem { class, detail: detail.into() })
}

/// Refuses an order that no leader could read.
fn check_order(id: &str, settings: &Settings) -> Result<(), Problem> {
    if !is_order_id(id) {
        return refused(
            ProblemClass::Configuration,
            "the id of an order has 1 to 64 letters, digits, dots, hyphens and underscores",
        );
    }
    if !settings.election.may_have_side_blobs() {
        return refused(
            ProblemClass::Configuration,
            "the name of the election's blob is too long for a second blob beside it, so its leader takes no orders",
        );
    }
    Ok(())
}

/// Refuses to write without the service's date: by a wrong clock, the triggers of others would count as expired.
fn require_date(election: &Answer) -> Result<(), Problem> {
    match election.date {
        Some(_) => Ok(()),
        None => refused(
            ProblemClass::Nonsense,
            "the answer of the service has no date, so no order can be placed; find out what removes it on the way",
        ),
    }
}

/// Refuses an order for an election whose newest leader does not read orders.
fn require_reader(record: &Record, settings: &Settings) -> Result<(), Problem> {
    if record.reads_orders() {
        return Ok(());
    }
    refused(
        ProblemClass::Order,
        format!(
            "the newest leader of {} takes no orders: it is a lock or a single invocation, or may have no blob beside \
             the election's",
            settings.election
        ),
    )
}

/// Returns the state of the trigger of that id, or the request that places it.
///
/// `orders` was read first, then `election`.
///
/// # Errors
/// It cannot be placed, or a blob could not be read.
pub fn trigger(
    (id, place): (&str, bool),
    (orders, election): (&Answer, &Answer),
    settings: &Settings,
    wall: DateTime<Utc>,
) -> Result<Placing<TriggerState>, Problem> {
    check_order(id, settings)?;
    let mut found = Found::read((orders, election), settings, wall)?;
    match election.class {
        Class::MissingBlob if place => return Ok(Placing::Create(Operation::CreateBlob)),
        Class::MissingContainer if place => {
            return Ok(Placing::Create(Operation::CreateContainer));
        }
        _ => {}
    }
    let (name, now) = (&settings.election, found.now);
    // Without a record no candidate has led yet. The first one runs what waits.
    let is_new = found.record.is_none();
    let record = found.record.take().unwrap_or_default();
    if let Some(state) = record.triggers.state(id, found.is_held.then_some(record.term)) {
        return Ok(Placing::Known(state));
    }
    let Orders { triggers, transfer, .. } = &mut found.orders;
    triggers.retain(|trigger| record.triggers.lets(trigger, now));
    let keeps = |transfer: &Transfer| transfer.term == record.term && !mutant!(PlacingDropsOthers);
    *transfer = transfer.take().filter(keeps);
    if let Some(trigger) = triggers.iter().find(|trigger| trigger.id == id) {
        return Ok(Placing::Known(TriggerState::Waiting(trigger.expires())));
    }
    if !place {
        return Ok(Placing::Known(TriggerState::Missing));
    }
    if !is_new {
        require_reader(&record, settings)?;
    }
    if record.schedule == Some(Schedule::WhileLeading.description()) {
        let detail = format!(
            "the work of {name} lasts as long as a leadership (--while-leading), so there are no turns to trigger. \
             tenure transfer restarts it, on another candidate"
        );
        return refused(ProblemClass::Order, detail);
    }
    if !is_new && record.schedule.is_none() {
        let why = match record.is_coordinated() {
            true => "its work is split into shares (trigger one: BLOB.share.SPLIT.INDEX-of-COUNT)",
            false => "it has no schedule",
        };
        let detail = format!("the leader of {name} runs no turns: {why}");
        return refused(ProblemClass::Order, detail);
    }
    if triggers.len() >= MOST {
        let detail = format!(
            "{MOST} triggers of {name} wait already, which is the limit; try again when one has run, or find out why \
             none runs (tenure status)"
        );
        return refused(ProblemClass::Order, detail);
    }
    require_date(election)?;
    let newest = triggers.iter().map(|trigger| trigger.asked).max();
    let after = newest.max(record.triggers.mark(now)).map(|newest| newest.plus(MILLISECOND));
    let asked = after.map_or(now, |after| after.max(now)).to_whole_millis();
    let trigger = Trigger { id: id.into(), asked };
    let state = TriggerState::Waiting(trigger.expires());
    triggers.push(trigger);
    Ok(Placing::Write(found.write(settings), state))
}

/// Returns the state of a transfer, or if `place` the request that places it.
///
/// `orders` was read first, then `election`.
///
/// # Errors
/// It cannot be placed, or a blob could not be read.
pub fn transfer(
    (order, place): (&TransferOrder, bool),
    answers: (&Answer, &Answer),
    settings: &Settings,
    wall: DateTime<Utc>,
) -> Result<Placing<TransferState>, Problem> {
    let (id, to, term) = (order.id.as_str(), order.to.as_deref(), order.term);
    check_order(id, settings)?;
    if to.is_some_and(|to| !is_fit(to, LONGEST_NAME)) {
        return refused(ProblemClass::Order, "no candidate can have the name of the successor");
    }
    let mut found = Found::read(answers, settings, wall)?;
    let name = &settings.election;
    let Some(record) = found.record.take() else {
        return refused(ProblemClass::Order, format!("no candidate of {name} has led yet"));
    };
    let term = term.unwrap_or(record.term);
    if record.term != term {
        let incumbent = record.incumbent();
        let done = to.is_none_or(|to| to == incumbent.name);
        return Ok(Placing::Known(match done {
            true => TransferState::Done(incumbent),
            false => TransferState::Changed(incumbent),
        }));
    }
    if let Some(refusal) = record.refusal.as_ref().filter(|refusal| refusal.id == id) {
        let Refusal { begun, reason, .. } = refusal.clone();
        return Ok(Placing::Known(match begun {
            true => TransferState::Failed(reason),
            false => TransferState::Refused(reason),
        }));
    }
    let is_placed = found.orders.transfer.as_ref().is_some_and(|placed| placed.id == id);
    let is_obeyed = to.is_some() && record.successor.as_deref() == to;
    if is_placed || (is_obeyed && !place) {
        return Ok(Placing::Known(TransferState::Waiting(term)));
    }
    if !place {
        // Without a name the record does not show whether the leader is obeying it.
        return Ok(Placing::Known(match to {
            Some(_) => TransferState::Replaced,
            None => TransferState::Waiting(term),
        }));
    }
    if !found.is_held {
        let detail =
            format!("{name} has no leader now; tenure status shows whether a candidate runs");
        return refused(ProblemClass::Order, detail);
    }
    require_reader(&record, settings)?;
    if to == Some(record.leader.as_str()) {
        return refused(ProblemClass::Order, format!("\"{}\" leads already", record.leader));
    }
    require_date(answers.1)?;
    let now = found.now;
    let Orders { triggers, transfer, .. } = &mut found.orders;
    triggers.retain(|trigger| record.triggers.lets(trigger, now) && !mutant!(PlacingDropsOthers));
    *transfer = Some(Transfer { id: id.into(), term, placed: now, to: to.map(Into::into) });
    Ok(Placing::Write(found.write(settings), TransferState::Waiting(term)))
}
