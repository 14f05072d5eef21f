//! `tenure transfer`: moves the leadership to another candidate.

use super::{Failure, Operator, check_answer, poll, random_id};
use crate::complaint::printable;
use crate::configuration::Configuration;
use crate::output::{CommandResult, eprint, fail_with, print_wrapped};
use crate::settings::CommandLine;
use crate::settings::table::{DEFAULT_WAIT, TO, TRANSFER_WAIT};
use std::process::ExitCode;
use tenure_base::duration::format_duration;
use tenure_core::{Incumbent, TransferOrder, TransferState};

/// Exit code: the order was refused or failed.
const REFUSED: u8 = 1;

/// Exit code: the result is unknown.
const UNKNOWN: u8 = 2;

/// Exit code: the leader changed before it obeyed.
const CHANGED: u8 = 3;

pub(crate) async fn transfer(line: &CommandLine) -> CommandResult {
    let mut configuration = Configuration::for_operator(line);
    let wait = configuration.duration(&TRANSFER_WAIT).unwrap_or(DEFAULT_WAIT);
    let to = configuration.resolved.text(&TO);
    let operator = Operator::new(&mut configuration)?;
    operator.check_account().await.map_err(|why| fail_with(REFUSED, why))?;
    let mut order = TransferOrder { id: random_id(), to, term: None };
    let term = match check_answer(operator.handle.transfer(&order, true).await) {
        Ok(TransferState::Waiting(term)) => term,
        Ok(state) => return Ok(report_result(&order, state)),
        Err(Failure { why, in_doubt: true }) => {
            let why = format_args!(
                "{why}. The order may have been placed all the same: see tenure status before you repeat it"
            );
            return Err(fail_with(UNKNOWN, why));
        }
        Err(Failure { why, .. }) => return Err(fail_with(REFUSED, why)),
    };
    order.term = Some(term);
    if let Ok(leader) = operator.hint().await {
        eprint(format_args!("tenure: the order is placed; {leader}\n"));
    }
    let is_final = |state: &TransferState| !matches!(state, TransferState::Waiting(_));
    let ask = async || check_answer(operator.handle.transfer(&order, false).await);
    let state = poll(TransferState::Waiting(term), wait, ask, is_final).await;
    let state = state.map_err(|last_error| {
        let wait = format_duration(wait);
        let why = format_args!(
            "the leader has not changed within {wait}{last_error}. It obeys an order up to a minute after it was placed: \
             see tenure status"
        );
        fail_with(UNKNOWN, why)
    })?;
    Ok(report_result(&order, state))
}

/// Reports a final state, and returns its exit code.
fn report_result(order: &TransferOrder, state: TransferState) -> ExitCode {
    let leads = |Incumbent { name, term, .. }: &Incumbent| {
        format!("{} leads with term {term}", printable(name))
    };
    match state {
        TransferState::Done(incumbent) => {
            print_wrapped(&format!("A new term has begun: {}.\n", leads(&incumbent)));
            ExitCode::SUCCESS
        }
        TransferState::Changed(incumbent) => {
            let target = order.to.as_deref().map(printable).unwrap_or_default();
            let why = format_args!(
                "the leader changed before it obeyed: {}, not {target}. To move the leadership now, repeat the command",
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
