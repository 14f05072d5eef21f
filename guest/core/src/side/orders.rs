//! Orders: a command writes them to a side blob, and the leader reads them. protocol.md §6.1, §7.5.
//!
//! The blob holds triggers and at most one transfer. Only commands write it. The record holds the
//! claimed triggers and the outcome of a transfer. A trigger waits until it is claimed or expires,
//! even if the command or the leader dies. It is claimed only once.

mod placing;

pub use placing::{OrderStep, TransferOrder, TransferState, transfer, trigger};

use core::time::Duration;

use super::announcement::{self, CANDIDATE};
use crate::Moment;
use crate::mutants::mutant;
use crate::protocol::context::Context;
use crate::protocol::handing_over;
use crate::protocol::phase::{Hold, LeaderOrders};
use crate::protocol::steering::GivingUp;
use crate::record::metadata::{self, Trigger};
use crate::record::text::{MAX_NAME, decode, decode_allowed, encode, is_order_id};
use crate::step::clocks::Timestamp;
use crate::step::limits;
use crate::step::problem::Problem;
use crate::step::settings::Settings;
use tenure_azure::answer::{Answer, Class, Properties};
use tenure_azure::blob::{Metadata, SideBlob};
use tenure_azure::operation::Operation;
use tenure_base::prelude::*;

/// Maximum number of waiting triggers.
const MAX_TRIGGERS: usize = 8;

/// Minimum time from the answer to a read to the next read, after a hint.
const HINT_DELAY: Duration = Duration::from_secs(1);

/// Minimum time until the next read, after a read with an unknown outcome.
const UNANSWERED_DELAY: Duration = Duration::from_secs(5);

/// Time until the next read after a refused one: permissions seldom change. The read comes sooner
/// if the credential changes.
const REFUSED_DELAY: Duration = Duration::from_secs(15 * 60);

/// Maximum number of obeyed transfers that a leader remembers. The blob has one transfer at a time,
/// and commands do not restore a replaced one.
const MAX_OBEYED_TRANSFERS: usize = 16;

/// Maximum age at which a leader obeys a transfer. It is two read intervals if that is longer.
const MAX_TRANSFER_AGE: Duration = Duration::from_secs(60);

const TRIGGERS: &str = "tenuretriggers";
const TRANSFER: &str = "tenuretransfer";
const TRANSFER_TERM: &str = "tenuretransferterm";
const TRANSFER_PLACED: &str = "tenuretransferplaced";
const TRANSFER_TO: &str = "tenuretransferto";

/// The orders on the side blob.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Orders {
    triggers: Vec<Trigger>,
    transfer: Option<Transfer>,
    /// Fields of other versions, kept as they are.
    unknown: Metadata,
}

/// An order to give up the leadership.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Transfer {
    /// Random id that the command chose.
    id: String,
    /// The term whose leader is to obey.
    term: u64,
    /// Time at which the command placed it, by the service's clock.
    placed: Timestamp,
    /// The name of the successor. None: any candidate may lead next.
    to: Option<String>,
}

/// Makes the next read come soon, since there may be new orders.
pub(crate) fn on_hint(hold: &mut Hold, now: Moment) {
    let orders = &mut hold.orders;
    (orders.read_at, orders.was_hinted) = (now.max(orders.answered_at + HINT_DELAY), true);
}

/// Ends the delay after a refused read, because the candidate's key or token changed.
pub(crate) fn on_credential_replaced(hold: &mut Hold, now: Moment) {
    let orders = &mut hold.orders;
    if orders.read_at == orders.answered_at + REFUSED_DELAY {
        orders.read_at = now;
    }
}

/// Handles the answer to a read that was sent at `sent`, and obeys the orders.
pub(crate) fn on_orders_answer(
    answer: Option<&Answer>,
    sent: Moment,
    hold: &mut Hold,
    context: &mut Context<'_>,
) {
    let (now, settings) = (context.now, context.settings);
    let interval = settings.orders.unwrap_or(limits::DEFAULT_ORDERS);
    let orders = &mut hold.orders;
    let class = answer.map(|answer| answer.class);
    let retry_in = match class {
        // A failing account gets at most twice as many reads as usual.
        None | Some(Class::Unavailable | Class::Nonsense) => UNANSWERED_DELAY.max(interval / 2),
        Some(Class::Refused) => REFUSED_DELAY,
        _ => interval,
    };
    let mut transfer = None;
    match class {
        Some(Class::Done) => {
            let properties = answer.and_then(|answer| answer.properties.as_ref());
            let found = properties.and_then(Orders::from_properties).unwrap_or_default();
            (orders.triggers, transfer) = (found.triggers, found.transfer);
        }
        Some(Class::MissingBlob) => orders.triggers.clear(),
        _ => {}
    }
    // A hint that came while the read was in flight may be about an order that the read missed.
    let was_hinted = orders.read_at > sent;
    let (is_first, follows_hint) = (orders.answered_at == Moment::ZERO, orders.was_hinted);
    orders.was_hinted = was_hinted;
    let next_read = if was_hinted { orders.read_at.max(now + HINT_DELAY) } else { now + retry_in };
    let is_mutated = mutant!(OrdersUnseen) && !was_hinted;
    (orders.read_at, orders.answered_at) = (if is_mutated { Moment::MAX } else { next_read }, now);
    // Missing permission to read orders is reported once in each leadership, and after each hint.
    let refused_answer = answer.filter(|answer| answer.class == Class::Refused);
    if let Some(answer) = refused_answer.filter(|_| is_first || follows_hint) {
        let operation = Operation::ReadSideBlob(SideBlob::Orders);
        let Problem { class, detail } = Problem::from_answer(answer, &operation, settings);
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

/// Starts a transfer, unless it is for the leader of another term, too old, or already obeyed.
fn obey(transfer: Transfer, hold: &mut Hold, context: &mut Context<'_>) {
    let Some(now) = context.service_time() else { return };
    let Transfer { id, term, placed, to } = transfer;
    let is_for_this_term = term == hold.record.term || mutant!(TransferOfAnyTerm);
    let age = now.since(placed).max(placed.since(now));
    let max_age =
        MAX_TRANSFER_AGE.max(2 * context.settings.orders.unwrap_or(limits::DEFAULT_ORDERS));
    let is_current = age <= max_age;
    let is_known = hold.orders.obeyed_transfers.contains(&id) && !mutant!(TransferObeyedAgain);
    if !is_for_this_term || !is_current || is_known {
        return;
    }
    hold.orders.obeyed_transfers.insert(0, id.clone());
    hold.orders.obeyed_transfers.truncate(MAX_OBEYED_TRANSFERS);
    match to {
        Some(to) => handing_over::order(to, Some(id), Some(hold), context),
        None => context.state.steering.giving_up = Some(GivingUp::Resign),
    }
}

/// Returns the empty orders of a leader that won at `won`. The first read is due at once: orders
/// may have been placed before.
pub(crate) fn new_leader_orders(won: Moment) -> LeaderOrders {
    let read_at = if mutant!(OrdersUnseen) { Moment::MAX } else { won };
    LeaderOrders {
        triggers: Vec::new(),
        read_at,
        answered_at: Moment::ZERO,
        was_hinted: false,
        obeyed_transfers: Vec::new(),
    }
}

/// Returns true if a command of this version could have written the blob.
pub(crate) fn is_valid(properties: &Properties) -> bool {
    Orders::from_properties(properties).is_some()
}

impl Orders {
    /// Parses the side blob. None if no command of this version could have written it.
    fn from_properties(properties: &Properties) -> Option<Self> {
        if !announcement::is_from_candidate(properties) {
            return None;
        }
        let mut unknown = properties.metadata.clone();
        decode_allowed(unknown.remove(CANDIDATE)?.as_str(), MAX_NAME)?;
        let parse_trigger = |entry: &str| {
            let (id, requested_at) = entry.split_once('@')?;
            let requested_at = Timestamp(requested_at.parse::<u64>().ok()?.checked_mul(1_000_000)?);
            is_order_id(id).then(|| Trigger { id: id.into(), requested_at })
        };
        let triggers = unknown.remove(TRIGGERS).unwrap_or_default();
        let triggers = triggers.split(',').filter(|entry| !entry.is_empty());
        let triggers = triggers.take(MAX_TRIGGERS).map(parse_trigger).collect::<Option<_>>()?;
        let id = unknown.remove(TRANSFER);
        let term = unknown.remove(TRANSFER_TERM);
        let placed = unknown.remove(TRANSFER_PLACED);
        let to = unknown.remove(TRANSFER_TO);
        let transfer = match id {
            None => None,
            Some(id) if is_order_id(&id) => Some(Transfer {
                id,
                term: term?.parse().ok()?,
                placed: Timestamp::parse(&decode(&placed?)?)?,
                to: match to {
                    Some(to) => Some(decode_allowed(&to, MAX_NAME)?),
                    None => None,
                },
            }),
            Some(_) => return None,
        };
        Some(Self { triggers, transfer, unknown: metadata::retain_printable(unknown) })
    }

    fn to_metadata(&self, settings: &Settings) -> Metadata {
        let format_trigger =
            |trigger: &Trigger| format!("{}@{}", trigger.id, trigger.requested_at.0 / 1_000_000);
        let mut metadata = self.unknown.clone();
        let mut put = |name: &str, value: String| {
            metadata.insert(name.into(), value);
        };
        put(CANDIDATE, encode(&settings.name));
        if !self.triggers.is_empty() {
            put(TRIGGERS, self.triggers.iter().map(format_trigger).collect::<Vec<_>>().join(","));
        }
        if let Some(transfer) = &self.transfer {
            put(TRANSFER, transfer.id.clone());
            put(TRANSFER_TERM, transfer.term.to_string());
            put(TRANSFER_PLACED, transfer.placed.to_rfc3339());
            if let Some(to) = &transfer.to {
                put(TRANSFER_TO, encode(to));
            }
        }
        metadata
    }
}
