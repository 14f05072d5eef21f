//! `tenure transfer`: moves the leadership to another candidate.

use super::{Failure, Operator, poll, random_id};
use crate::complaint::printable;
use crate::configuration::Configuration;
use crate::output::{eprint, fail_with, refuse, say};
use crate::settings::CommandLine;
use crate::settings::table::{TO, TRANSFER_WAIT};
use std::process::ExitCode;
use std::time::Duration;
use tenure::contract::{Incumbent, TransferOrder, TransferState};
use tenure_base::duration::format_duration;

/// Exit code: refused or failed.
const REFUSED: u8 = 1;

/// Exit code: the result is unknown.
const UNKNOWN: u8 = 2;

/// Exit code: the leader changed before.
const CHANGED: u8 = 3;

/// Default of `--wait`.
const WAIT: Duration = Duration::from_secs(120);

pub(crate) async fn transfer(line: &CommandLine) -> ExitCode {
    let mut configuration = Configuration::of_operator(line);
    let wait = configuration.duration(&TRANSFER_WAIT).unwrap_or(WAIT);
    let to = configuration.given.text(&TO);
    let operator = match Operator::new(&mut configuration).await {
        Ok(operator) => operator,
        Err(failure) => return fail_with(UNKNOWN, failure),
    };
    if !configuration.complaints.is_empty() {
        return refuse(&configuration.complaints);
    }
    let mut order = TransferOrder { id: random_id(), to, term: None };
    let term = match ask(&operator, &order, true).await {
        Ok(TransferState::Waiting(term)) => term,
        Ok(state) => return end(&order, state),
        Err(Failure { why, in_doubt: true }) => {
            let why = format_args!(
                "{why}. The order may have been placed all the same: see tenure status before you repeat it"
            );
            return fail_with(UNKNOWN, why);
        }
        Err(Failure { why, .. }) => return fail_with(REFUSED, why),
    };
    order.term = Some(term);
    if let Ok(who) = operator.hint().await {
        eprint(format_args!("tenure: the order is placed; {who}\n"));
    }
    let is_final = |state: &TransferState| !matches!(state, TransferState::Waiting(_));
    let ask = async || ask(&operator, &order, false).await;
    match poll(TransferState::Waiting(term), wait, ask, is_final).await {
        Ok(state) => end(&order, state),
        Err(trouble) => {
            let trouble = trouble.map(|why| format!(" ({why})")).unwrap_or_default();
            let wait = format_duration(wait);
            fail_with(
                UNKNOWN,
                format_args!(
                    "the leader has not changed within {wait}{trouble}. It obeys an order up to a minute after it was \
                     placed: see tenure status"
                ),
            )
        }
    }
}

async fn ask(
    operator: &Operator,
    order: &TransferOrder,
    place: bool,
) -> Result<TransferState, Failure> {
    match operator.component.transfer(order, place).await {
        Ok(answer) => answer.map_err(Failure::of),
        Err(error) => Err(Failure { why: error.to_string(), in_doubt: place }),
    }
}

/// Reports a final state, and returns its exit code.
fn end(order: &TransferOrder, state: TransferState) -> ExitCode {
    let leads = |Incumbent { name, term, .. }: &Incumbent| {
        format!("{} leads with term {term}", printable(name))
    };
    match state {
        TransferState::Done(incumbent) => {
            say(&format!("A new term has begun: {}.\n", leads(&incumbent)));
            ExitCode::SUCCESS
        }
        TransferState::Changed(incumbent) => {
            let wanted = order.to.as_deref().map(printable).unwrap_or_default();
            let why = format_args!(
                "the leader changed before it obeyed: {}, not {wanted}. To move the leadership now, repeat the command",
                leads(&incumbent)
            );
            fail_with(CHANGED, why)
        }
        TransferState::Replaced => fail_with(
            REFUSED,
            "a newer transfer replaced this one before the leader read it; nothing came of this one",
        ),
        TransferState::Refused(why) => {
            fail_with(REFUSED, format_args!("the leader refused: {}", printable(&why)))
        }
        TransferState::Failed(why) => {
            fail_with(REFUSED, format_args!("the leader still leads: {}", printable(&why)))
        }
        TransferState::Waiting(_) => ExitCode::from(UNKNOWN),
    }
}
