//! Placing an order, and finding its state, for a command of an operator.

use core::time::Duration;

use super::{MAX_TRIGGERS, Orders, Transfer};
use crate::mutants::mutant;
use crate::record::history::Incumbent;
use crate::record::metadata::{Record, Refusal, Trigger, TriggerState, ValidatedRecord};
use crate::record::text::{MAX_NAME, is_allowed_text, is_order_id};
use crate::schedule::slots::Schedule;
use crate::step::clocks::Timestamp;
use crate::step::problem::{Problem, ProblemClass};
use crate::step::settings::Settings;
use chrono::{DateTime, Utc};
use tenure_azure::answer::{Answer, Class, LeaseState};
use tenure_azure::blob::SideBlob;
use tenure_azure::operation::{ETag, Operation};
use tenure_base::prelude::*;

const MILLISECOND: Duration = Duration::from_millis(1);

/// The next step of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OrderStep<S> {
    /// No write is needed: the order is in this state.
    Known(S),
    /// Creates the election's blob or its container, because no candidate has led yet. Both blobs
    /// are read again afterwards.
    Create(Operation),
    /// Places the order, which is in this state after that. If the write fails, both blobs are read
    /// again.
    Write(Operation, S),
}

/// A transfer, as a command requests it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransferOrder {
    /// Random, 1 to 64 letters, digits, dots, hyphens and underscores.
    pub id: String,
    /// The name of the successor. None: any candidate may lead next.
    pub to: Option<String>,
    /// The term of the leader that is to obey. None: that of the record.
    pub term: Option<u64>,
}

/// The state of a transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransferState {
    /// The leader of this term has not read the transfer yet, or is obeying it.
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

/// The contents of an election's blob and its blob of orders.
struct ElectionBlobs {
    orders: Orders,
    /// The tag of the orders' blob. None if there is no such blob.
    orders_tag: Option<ETag>,
    record: Option<Record>,
    /// True if a candidate holds the lease.
    is_held: bool,
    /// The service's time, or this machine's if the answer has no date.
    now: Timestamp,
}

impl ElectionBlobs {
    /// Parses the answers to both reads. The orders were read first, so an order that was removed
    /// in between is on the record.
    ///
    /// # Errors
    /// A blob could not be read, or does not belong to an election.
    fn from_answers(
        (orders, election): (&Answer, &Answer),
        settings: &Settings,
        wall: DateTime<Utc>,
    ) -> Result<Self, Problem> {
        let (orders_tag, orders) = match (orders.class, &orders.properties) {
            (Class::MissingBlob | Class::MissingContainer, _) => (None, Orders::default()),
            (Class::Done, Some(properties)) => match Orders::from_properties(properties) {
                Some(parsed) => (orders.etag.clone(), parsed),
                None => return Err(Problem::foreign_side_blob(SideBlob::Orders, settings)),
            },
            _ => {
                let operation = Operation::ReadSideBlob(SideBlob::Orders);
                return Err(Problem::from_answer(orders, &operation, settings));
            }
        };
        let now = Timestamp::from_date(election.date.unwrap_or(wall));
        let (record, is_held) = match (election.class, &election.properties) {
            (Class::Done, Some(properties)) => {
                let ValidatedRecord { record, .. } =
                    Record::validate(&settings.election, properties, Some(now))
                        .map_err(Problem::from_unusable)?;
                (record, matches!(properties.lease, LeaseState::Leased | LeaseState::Breaking))
            }
            (Class::MissingBlob | Class::MissingContainer, _) => (None, false),
            _ => {
                let operation = Operation::Read { lease: None };
                return Err(Problem::from_answer(election, &operation, settings));
            }
        };
        Ok(Self { orders, orders_tag, record, is_held, now })
    }

    fn into_write(self, settings: &Settings) -> Operation {
        let (blob, metadata) = (SideBlob::Orders, self.orders.to_metadata(settings));
        Operation::WriteSideBlob { blob, replaces: self.orders_tag, metadata }
    }
}

fn refuse<T>(class: ProblemClass, detail: impl Into<String>) -> Result<T, Problem> {
    Err(Problem { class, detail: detail.into() })
}

/// Refuses an order that no leader could read, because of its id or the name of the election's
/// blob.
fn check_order(id: &str, settings: &Settings) -> Result<(), Problem> {
    if !is_order_id(id) {
        return refuse(
            ProblemClass::Configuration,
            "the id of an order has 1 to 64 letters, digits, dots, hyphens and underscores",
        );
    }
    if !settings.election.may_have_side_blobs() {
        return refuse(
            ProblemClass::Configuration,
            "the name of the election's blob is too long: no suffix for the blob of orders fits, so \
             its leader takes no orders",
        );
    }
    Ok(())
}

/// Refuses to write without the service's date: with a wrong clock, existing triggers would count
/// as expired.
fn check_date(election: &Answer) -> Result<(), Problem> {
    match election.date {
        Some(_) => Ok(()),
        None => refuse(
            ProblemClass::Nonsense,
            "the answer of the service has no date, so no order can be placed; find out what removes it on the way",
        ),
    }
}

/// Refuses an order for an election whose newest leader does not read orders.
fn check_reads_orders(record: &Record, settings: &Settings) -> Result<(), Problem> {
    if record.reads_orders() {
        return Ok(());
    }
    refuse(
        ProblemClass::Order,
        format!(
            "the newest leader of {} takes no orders: it is a lock or a single invocation, or may have no blob beside \
             the election's",
            settings.election
        ),
    )
}

/// Returns the state of the trigger with that id, or the request that places it if `place` is true.
///
/// `orders` was read first, then `election`.
///
/// # Errors
/// The trigger cannot be placed, or a blob could not be read.
pub fn trigger(
    (id, place): (&str, bool),
    (orders, election): (&Answer, &Answer),
    settings: &Settings,
    wall: DateTime<Utc>,
) -> Result<OrderStep<TriggerState>, Problem> {
    check_order(id, settings)?;
    let mut blobs = ElectionBlobs::from_answers((orders, election), settings, wall)?;
    match election.class {
        Class::MissingBlob if place => return Ok(OrderStep::Create(Operation::CreateBlob)),
        Class::MissingContainer if place => {
            return Ok(OrderStep::Create(Operation::CreateContainer));
        }
        _ => {}
    }
    let (name, now) = (&settings.election, blobs.now);
    // Without a record no candidate has led yet. The first leader runs waiting triggers.
    let is_new = blobs.record.is_none();
    let record = blobs.record.take().unwrap_or_default();
    if let Some(state) = record.triggers.state(id, blobs.is_held.then_some(record.term)) {
        return Ok(OrderStep::Known(state));
    }
    let Orders { triggers, transfer, .. } = &mut blobs.orders;
    triggers.retain(|trigger| record.triggers.may_claim(trigger, now));
    let is_kept =
        |transfer: &Transfer| transfer.term == record.term && !mutant!(PlacingDropsOthers);
    *transfer = transfer.take().filter(is_kept);
    if let Some(trigger) = triggers.iter().find(|trigger| trigger.id == id) {
        return Ok(OrderStep::Known(TriggerState::Waiting(trigger.expires_at())));
    }
    if !place {
        return Ok(OrderStep::Known(TriggerState::Missing));
    }
    if !is_new {
        check_reads_orders(&record, settings)?;
    }
    if record.schedule == Some(Schedule::WhileLeading.description()) {
        let detail = format!(
            "the work of {name} lasts as long as a leadership (--while-leading), so there are no turns to trigger. \
             tenure transfer restarts it, on another candidate"
        );
        return refuse(ProblemClass::Order, detail);
    }
    if !is_new && record.schedule.is_none() {
        let reason = match record.is_coordinated() {
            true => "its work is split into shares (trigger one: BLOB.share.SPLIT.INDEX-of-COUNT)",
            false => "it has no schedule",
        };
        let detail = format!("the leader of {name} runs no turns: {reason}");
        return refuse(ProblemClass::Order, detail);
    }
    if triggers.len() >= MAX_TRIGGERS {
        let detail = format!(
            "{MAX_TRIGGERS} triggers of {name} wait already, which is the limit; try again when one has run, or find out why \
             none runs (tenure status)"
        );
        return refuse(ProblemClass::Order, detail);
    }
    check_date(election)?;
    // A leader claims only triggers that are later than the newest claimed one, so times differ.
    let newest_request = triggers.iter().map(|trigger| trigger.requested_at).max();
    let earliest = newest_request
        .max(record.triggers.newest_request(now))
        .map(|newest| newest.plus(MILLISECOND));
    let requested_at = earliest.map_or(now, |earliest| earliest.max(now)).to_whole_millis();
    let trigger = Trigger { id: id.into(), requested_at };
    let state = TriggerState::Waiting(trigger.expires_at());
    triggers.push(trigger);
    Ok(OrderStep::Write(blobs.into_write(settings), state))
}

/// Returns the state of a transfer, or the request that places it if `place` is true.
///
/// `answers` has the orders, which were read first, and the election.
///
/// # Errors
/// The transfer cannot be placed, or a blob could not be read.
pub fn transfer(
    (order, place): (&TransferOrder, bool),
    answers: (&Answer, &Answer),
    settings: &Settings,
    wall: DateTime<Utc>,
) -> Result<OrderStep<TransferState>, Problem> {
    let (id, to, term) = (order.id.as_str(), order.to.as_deref(), order.term);
    check_order(id, settings)?;
    if to.is_some_and(|successor| !is_allowed_text(successor, MAX_NAME)) {
        return refuse(ProblemClass::Order, "no candidate can have the name of the successor");
    }
    let mut blobs = ElectionBlobs::from_answers(answers, settings, wall)?;
    let name = &settings.election;
    let Some(record) = blobs.record.take() else {
        return refuse(ProblemClass::Order, format!("no candidate of {name} has led yet"));
    };
    let term = term.unwrap_or(record.term);
    if record.term != term {
        let incumbent = record.incumbent();
        let is_done = to.is_none_or(|successor| successor == incumbent.name);
        return Ok(OrderStep::Known(match is_done {
            true => TransferState::Done(incumbent),
            false => TransferState::Changed(incumbent),
        }));
    }
    if let Some(refusal) = record.refusal.as_ref().filter(|refusal| refusal.id == id) {
        let Refusal { has_begun, reason, .. } = refusal.clone();
        return Ok(OrderStep::Known(match has_begun {
            true => TransferState::Failed(reason),
            false => TransferState::Refused(reason),
        }));
    }
    let is_placed = blobs.orders.transfer.as_ref().is_some_and(|placed| placed.id == id);
    let is_obeyed = to.is_some() && record.successor.as_deref() == to;
    if is_placed || (is_obeyed && !place) {
        return Ok(OrderStep::Known(TransferState::Waiting(term)));
    }
    if !place {
        // Without a name the record does not show whether the leader is obeying the transfer.
        return Ok(OrderStep::Known(match to {
            Some(_) => TransferState::Replaced,
            None => TransferState::Waiting(term),
        }));
    }
    if !blobs.is_held {
        let detail =
            format!("{name} has no leader now; tenure status shows whether a candidate runs");
        return refuse(ProblemClass::Order, detail);
    }
    check_reads_orders(&record, settings)?;
    if to == Some(record.leader.as_str()) {
        return refuse(ProblemClass::Order, format!("\"{}\" leads already", record.leader));
    }
    check_date(answers.1)?;
    let now = blobs.now;
    let Orders { triggers, transfer, .. } = &mut blobs.orders;
    triggers
        .retain(|trigger| record.triggers.may_claim(trigger, now) && !mutant!(PlacingDropsOthers));
    *transfer = Some(Transfer { id: id.into(), term, placed: now, to: to.map(Into::into) });
    Ok(OrderStep::Write(blobs.into_write(settings), TransferState::Waiting(term)))
}
