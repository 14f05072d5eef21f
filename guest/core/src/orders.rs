//! Orders: a command leaves them in a side blob, and the leader reads it. protocol.md §6.1, §7.5.
//!
//! The blob holds triggers and at most one transfer. Only commands write it. The record says which triggers were
//! claimed, and what a transfer came to. Whatever happens to a command or to a leader, a trigger waits until it is
//! claimed or expires, and is claimed once.

mod placing;

pub use placing::{Placing, TransferOrder, TransferState, transfer, trigger};

use core::time::Duration;

use super::Moment;
use super::context::Context;
use super::handing_over;
use super::limits;
use super::phase::{Hold, SeenOrders};
use super::problem::Problem;
use super::record::{self, Trigger};
use super::service_clock::Timestamp;
use super::settings::Settings;
use super::side_blob_rules::{self, CANDIDATE};
use super::steering::GivingUp;
use super::text::{LONGEST_NAME, decoded, encoded, fit, is_order_id};
use crate::mutants::mutant;
use tenure_azure::answer::{Answer, Class, Properties};
use tenure_azure::metadata::Metadata;
use tenure_azure::name::SideBlob;
use tenure_azure::operation::Operation;
use tenure_base::prelude::*;

/// The most triggers that may wait.
const MOST: usize = 8;

/// The time until the next read after a hint.
const HINTED: Duration = Duration::from_secs(1);

/// The time until the next read after one without an answer.
const UNANSWERED: Duration = Duration::from_secs(5);

/// The time until the next read after one that was refused, unless the credential changes: permissions seldom change.
const FORBIDDEN: Duration = Duration::from_secs(15 * 60);

/// The number of transfers that a leader knows again. A command replaces the one on the blob, and never restores it.
const MOST_OBEYED: usize = 16;

/// A leader obeys a transfer up to this age, or two times between two reads if that is longer.
const TRANSFER_EXPIRES: Duration = Duration::from_secs(60);

const TRIGGERS: &str = "tenuretriggers";
const TRANSFER: &str = "tenuretransfer";
const TRANSFER_TERM: &str = "tenuretransferterm";
const TRANSFER_PLACED: &str = "tenuretransferplaced";
const TRANSFER_TO: &str = "tenuretransferto";

/// The orders on the side blob.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Orders {
    triggers: Vec<Trigger>,
    transfer: Option<Transfer>,
    /// Fields of other versions, kept as they are.
    unknown: Metadata,
}

/// An order to give the leadership up.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Transfer {
    /// Random.
    id: String,
    /// The term whose leader is to obey.
    term: u64,
    /// When it was placed, in the service's time.
    placed: Timestamp,
    /// The name of the successor. None: any candidate may lead next.
    to: Option<String>,
}

/// Reads soon, since there may be new orders.
pub(super) fn hinted(hold: &mut Hold, now: Moment) {
    let orders = &mut hold.orders;
    (orders.read_at, orders.hinted) = (now.max(orders.answered + HINTED), true);
}

/// The candidate has another key or token: a read that was refused is not put off any longer.
pub(super) fn credential_changed(hold: &mut Hold, now: Moment) {
    let orders = &mut hold.orders;
    if orders.read_at == orders.answered + FORBIDDEN {
        orders.read_at = now;
    }
}

/// Takes the answer to a read that was `sent` then, and obeys.
pub(super) fn read(
    answer: Option<&Answer>,
    sent: Moment,
    hold: &mut Hold,
    context: &mut Context<'_>,
) {
    let (now, settings) = (context.now, context.settings);
    let every = settings.orders.unwrap_or(limits::DEFAULT_ORDERS);
    let orders = &mut hold.orders;
    let class = answer.map(|answer| answer.class);
    let again = match class {
        // A failing account gets at most twice as many reads.
        None | Some(Class::Unavailable | Class::Nonsense) => UNANSWERED.max(every / 2),
        Some(Class::Refused) => FORBIDDEN,
        _ => every,
    };
    let mut transfer = None;
    match class {
        Some(Class::Done) => {
            let found = answer.and_then(|answer| answer.properties.as_ref());
            let read = found.and_then(Orders::read).unwrap_or_default();
            (orders.triggers, transfer) = (read.triggers, read.transfer);
        }
        Some(Class::MissingBlob) => orders.triggers.clear(),
        _ => {}
    }
    // A hint came meanwhile, about an order that this read may have missed.
    let hinted = orders.read_at > sent;
    let (first, expected) = (orders.answered == Moment::ZERO, orders.hinted);
    orders.hinted = hinted;
    let again = if hinted { orders.read_at.max(now + HINTED) } else { now + again };
    let deaf = mutant!(OrdersUnseen) && !hinted;
    (orders.read_at, orders.answered) = (if deaf { Moment::MAX } else { again }, now);
    // An election without orders has one report in each leadership.
    let refused = answer.filter(|answer| answer.class == Class::Refused);
    if let Some(answer) = refused.filter(|_| first || expected) {
        let read = Operation::ReadSideBlob(SideBlob::Orders);
        let Problem { class, detail } = Problem::of_answer(answer, &read, settings);
        let blob = settings.election.side_blob_name(SideBlob::Orders);
        let detail = format!(
            "{detail}. So this leader takes no orders (tenure trigger, tenure transfer) from the blob {blob}; everything \
             else works"
        );
        context.report(Some(Problem { class, detail }));
    }
    if let Some(transfer) = transfer {
        obey(transfer, hold, context);
    }
}

/// Begins what a transfer asks for, unless it is for the leader of another term, too old, or known.
fn obey(transfer: Transfer, hold: &mut Hold, context: &mut Context<'_>) {
    let Some(now) = context.service_time() else { return };
    let Transfer { id, term, placed, to } = transfer;
    let is_of_term = term == hold.record.term || mutant!(TransferOfAnyTerm);
    let age = now.since(placed).max(placed.since(now));
    let expires =
        TRANSFER_EXPIRES.max(2 * context.settings.orders.unwrap_or(limits::DEFAULT_ORDERS));
    let current = age <= expires;
    let known = hold.orders.obeyed.contains(&id) && !mutant!(TransferObeyedAgain);
    if !is_of_term || !current || known {
        return;
    }
    hold.orders.obeyed.insert(0, id.clone());
    hold.orders.obeyed.truncate(MOST_OBEYED);
    match to {
        Some(to) => handing_over::order(to, Some(id), Some(hold), context),
        None => context.state.steering.giving_up = Some(GivingUp::Resign),
    }
}

/// Returns the state of a new leader. It reads at once: orders may have been placed before it won.
pub(super) fn unread(won: Moment) -> SeenOrders {
    let read_at = if mutant!(OrdersUnseen) { Moment::MAX } else { won };
    SeenOrders {
        triggers: Vec::new(),
        read_at,
        answered: Moment::ZERO,
        hinted: false,
        obeyed: Vec::new(),
    }
}

/// Returns true if a command of this version could have written the blob.
pub(super) fn is_fit(properties: &Properties) -> bool {
    Orders::read(properties).is_some()
}

impl Orders {
    /// Reads the side blob. None: no command of this version writes that.
    fn read(properties: &Properties) -> Option<Self> {
        if !side_blob_rules::is_from_candidate(properties) {
            return None;
        }
        let mut unknown = properties.metadata.clone();
        fit(unknown.remove(CANDIDATE)?.as_str(), LONGEST_NAME)?;
        let trigger = |word: &str| {
            let (id, asked) = word.split_once('@')?;
            let asked = Timestamp(asked.parse::<u64>().ok()?.checked_mul(1_000_000)?);
            is_order_id(id).then(|| Trigger { id: id.into(), asked })
        };
        let triggers = unknown.remove(TRIGGERS).unwrap_or_default();
        let triggers = triggers.split(',').filter(|word| !word.is_empty());
        let triggers = triggers.take(MOST).map(trigger).collect::<Option<_>>()?;
        let id = unknown.remove(TRANSFER);
        let term = unknown.remove(TRANSFER_TERM);
        let placed = unknown.remove(TRANSFER_PLACED);
        let to = unknown.remove(TRANSFER_TO);
        let transfer = match id {
            None => None,
            Some(id) if is_order_id(&id) => Some(Transfer {
                id,
                term: term?.parse().ok()?,
                placed: Timestamp::parse(&decoded(&placed?)?)?,
                to: match to {
                    Some(to) => Some(fit(&to, LONGEST_NAME)?),
                    None => None,
                },
            }),
            Some(_) => return None,
        };
        Some(Self { triggers, transfer, unknown: record::printable(unknown) })
    }

    fn write(&self, settings: &Settings) -> Metadata {
        let trigger = |trigger: &Trigger| format!("{}@{}", trigger.id, trigger.asked.0 / 1_000_000);
        let mut metadata = self.unknown.clone();
        let mut put = |name: &str, value: String| {
            metadata.insert(name.into(), value);
        };
        put(CANDIDATE, encoded(&settings.name));
        if !self.triggers.is_empty() {
            put(TRIGGERS, self.triggers.iter().map(trigger).collect::<Vec<_>>().join(","));
        }
        if let Some(transfer) = &self.transfer {
            put(TRANSFER, transfer.id.clone());
            put(TRANSFER_TERM, transfer.term.to_string());
            put(TRANSFER_PLACED, transfer.placed.to_rfc3339());
            if let Some(to) = &transfer.to {
                put(TRANSFER_TO, encoded(to));
            }
        }
        metadata
    }
}
