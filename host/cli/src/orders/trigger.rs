//! `tenure trigger`: requests a turn outside the schedule, and waits for its end if requested.

use super::{Failure, Operator, check_answer, poll, random_id};
use crate::configuration::Configuration;
use crate::output::{CommandResult, fail, fail_with, print_wrapped};
use crate::settings::CommandLine;
use crate::settings::table::{ID, TRIGGER_WAIT};
use std::mem::discriminant;
use std::process::ExitCode;
use tenure_base::duration::format_duration;
use tenure_core::{Outcome, TriggerState, is_order_id};

/// Exit code: the turn did not finish in time.
const NOT_FINISHED: u8 = 1;

/// Exit code: the turn did not succeed, or will not be run.
const NOT_SUCCEEDED: u8 = 3;

pub(crate) async fn trigger(line: &CommandLine) -> CommandResult {
    let mut configuration = Configuration::for_operator(line);
    let wait = configuration.duration(&TRIGGER_WAIT);
    let requested_id = configuration.resolved.text(&ID);
    if requested_id.as_ref().is_some_and(|id| !is_order_id(id)) {
        let problem = "is not 1 to 64 letters, digits, dots, hyphens and underscores";
        configuration.complain(&ID, problem, ID.advice);
    }
    let operator = Operator::new(&mut configuration)?;
    operator.check_account().await.map_err(fail)?;
    let is_new = requested_id.is_none();
    let id = requested_id.unwrap_or_else(random_id);
    let state = check_answer(operator.handle.trigger(&id, true).await);
    let state = state.map_err(|Failure { why, in_doubt }| match in_doubt && is_new {
        true => fail(format_args!(
            "{why}. The trigger may have been placed all the same; to repeat this without a second turn, add --id {id}"
        )),
        false => fail(why),
    })?;
    print_wrapped(&match &state {
        TriggerState::Waiting(until) => match operator.hint().await {
            Ok(leader) => format!("Trigger {id} waits for its turn: {leader}.\n"),
            Err(why) => {
                let until = until.to_rfc3339();
                format!(
                    "Trigger {id} waits for its turn, until {until}: {why}. The next leader runs it.\n"
                )
            }
        },
        state => format!("{}\n", describe_state(&id, state)),
    });
    let Some(wait) = wait else { return Ok(ExitCode::SUCCESS) };
    let mut reported = discriminant(&state);
    let is_final = |state: &TriggerState| {
        let is_changed =
            std::mem::replace(&mut reported, discriminant(state)) != discriminant(state);
        if is_changed {
            print_wrapped(&format!("{}\n", describe_state(&id, state)));
        }
        !matches!(state, TriggerState::Waiting(_) | TriggerState::Claimed(_))
    };
    let ask = async || check_answer(operator.handle.trigger(&id, false).await);
    match poll(state, wait, ask, is_final).await {
        Ok(TriggerState::Ended(Outcome::Succeeded)) => Ok(ExitCode::SUCCESS),
        Ok(_) => Ok(ExitCode::from(NOT_SUCCEEDED)),
        Err(last_error) => {
            let wait = format_duration(wait);
            let why = format_args!(
                "the turn for trigger {id} was not over within {wait}{last_error}; ask again with --id {id}"
            );
            Err(fail_with(NOT_FINISHED, why))
        }
    }
}

fn describe_state(id: &str, state: &TriggerState) -> String {
    match state {
        TriggerState::Waiting(until) => {
            format!("Trigger {id} waits for its turn, until {}.", until.to_rfc3339())
        }
        TriggerState::Claimed(term) => {
            format!("Trigger {id}: its turn was claimed under term {term}, and has not ended.")
        }
        TriggerState::Ended(outcome) => {
            format!("Trigger {id}: its turn has ended: {}.", outcome.name())
        }
        TriggerState::Unknown => format!(
            "Trigger {id}: its turn was claimed, but its outcome is not on record: its leader died or lost the \
             lease. It is not run again."
        ),
        TriggerState::Missing => format!(
            "Trigger {id} has no turn: it expired, or the record was lost, or too many others came after it. To \
             run the work now, trigger it with another --id."
        ),
    }
}
