//! `tenure transfer`: moves the leadership to another candidate.

use super::{Failure, Operator, answered, poll, random_id};
use crate::complaint::printable;
use crate::configuration::Configuration;
use crate::output::{CommandResult, eprint, fail_with, say};
use crate::settings::CommandLine;
use crate::settings::table::{DEFAULT_WAIT, TO, TRANSFER_WAIT};
use std::process::ExitCode;
use tenure_base::duration::format_duration;
use tenure_core::{Incumbent, TransferOrder, TransferState};

/// Exit code: refused or failed.
const REFUSED: u8 = 1;

/// Exit code: the result is unknown.
const UNKNOWN: u8 = 2;

/// Exit code: the leader changed before.
const CHANGED: u8 = 3;

pub(crate) async fn transfer(line: &CommandLine) -> CommandResult {
    let mut configuration = Configuration::of_operator(line);
    let wait = configuration.duration(&TRANSFER_WAIT).unwrap_or(DEFAULT_WAIT);
    let to = configuration.given.text(&TO);
    let operator = Operator::new(&mut configuration)?;
    operator.reach_account().await.map_err(|why| fail_with(REFUSED, why))?;
    let mut order = TransferOrder { id: random_id(), to, term: None };
    let term = match answered(operator.reached.transfer(&order, true).await) {
        Ok(TransferState::Waiting(term)) => term,
        Ok(state) => return Ok(end(&order, state)),
        Err(Failure { why, in_doubt: true }) => {
            let why = format_args!(
                "{why}. The order may have been placed all the same: see tenure status before you repeat it"
            );
            return Err(fail_with(UNKNOWN, why));
        }
        Err(Failure { why, .. }) => return Err(fail_with(REFUSED, why)),
    };
    order.term = Some(term);
    if let Ok(who) = operator.hint().await {
        eprint(format_args!("tenure: the order is placed; {who}\n"));
    }
    let is_final = |state: &TransferState| !matches!(state, TransferState::Waiting(_));
    let ask = async || answered(operator.reached.transfer(&order, false).await);
    let state = poll(TransferState::Waiting(term), wait, ask, is_final).await;
    let state = state.map_err(|trouble| {
        let wait = format_duration(wait);
        let why = format_args!(
            "the leader has not changed within {wait}{trouble}. It obeys an order up to a minute after it was placed: \
             see tenure status"
        );
        fail_with(UNKNOWN, why)
    })?;
    Ok(end(&order, state))
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
