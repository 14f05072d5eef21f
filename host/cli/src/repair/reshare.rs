//! `tenure reshare`: requests another number of shares.

use crate::complaint::printable;
use crate::configuration::Configuration;
use crate::output::{CommandResult, fail, fail_with, print_wrapped};
use crate::settings::CommandLine;
use crate::settings::table::{NEW_SHARES, YES};
use std::process::ExitCode;
use std::sync::Arc;
use tenure_clock::BootClock;
use tenure_members::SharesStore;
use tenure_shares::{Plan, StoreRequest, StoreResponse};

/// Exit code: the change was not requested.
const NOT_DONE: u8 = 1;

/// Maximum number of tries, if the plan changes meanwhile.
const TRIES: u32 = 5;

pub(crate) async fn reshare(line: &CommandLine) -> CommandResult {
    let mut configuration = Configuration::for_operator(line);
    // A missing number has a complaint.
    let count = configuration.number(&NEW_SHARES).unwrap_or_default();
    let election = configuration.election();
    let handle = Arc::new(configuration.operator_election(&BootClock::new())?);
    let store = SharesStore::new(handle.clone(), String::new());
    let mut is_confirmed = configuration.resolved.is_on(&YES);
    for _ in 0..TRIES {
        let response = store.send(&StoreRequest::ReadPlan(None)).await;
        let (plan, tag) = match (response.response, response.problem) {
            (StoreResponse::Plan(plan, tag), _) => (plan, tag),
            (_, Some(problem)) => return Err(fail(printable(&problem.to_string()))),
            _ => {
                return Err(fail(format_args!(
                    "{}: there is no plan, since no process with --shares has led it yet; the first one begins with \
                     the number that it is given",
                    printable(&election)
                )));
            }
        };
        if let Some(message) = already_done(&plan, count) {
            print_wrapped(&message);
            return Ok(ExitCode::SUCCESS);
        }
        if !is_confirmed {
            super::confirm(&consequences(&election, &plan, count)).map_err(fail)?;
        }
        is_confirmed = true;
        let write = StoreRequest::WritePlan(plan.reshare(count), Some(tag));
        let write_response = store.send(&write).await;
        match (write_response.response, write_response.problem) {
            (StoreResponse::Plan(..), _) => {
                let snapshot = handle.inspect().await.ok();
                let has_leader = snapshot.is_some_and(|current| current.leader().is_some());
                print_wrapped(&result_message(&election, count, has_leader));
                return Ok(ExitCode::SUCCESS);
            }
            (_, Some(problem)) => {
                let problem = printable(&problem.to_string());
                let why = format_args!("{problem}; tenure status shows whether it was requested");
                return Err(fail_with(NOT_DONE, why));
            }
            // The coordinator wrote another plan meanwhile.
            _ => {}
        }
    }
    Err(fail_with(NOT_DONE, "nothing was changed: the plan kept changing; try again"))
}

/// Returns a message if the number needs no change.
fn already_done(plan: &Plan, count: u32) -> Option<String> {
    match plan.next {
        Some(next) if next == count => {
            Some(format!("{count} shares were requested already; nothing was changed.\n"))
        }
        None if plan.count() == count => {
            Some(format!("There are {count} shares already; nothing was changed.\n"))
        }
        _ => None,
    }
}

fn consequences(election: &str, plan: &Plan, count: u32) -> String {
    format!(
        "All work of {} stops, in all processes, until each of its {} shares is closed; then it is split into \
         {count}. Each of these is a new election: its slots and outcomes start again.",
        printable(election),
        plan.count()
    )
}

fn result_message(election: &str, count: u32, has_leader: bool) -> String {
    let election = printable(election);
    let next = match has_leader {
        true => "The coordinator closes the old shares, and then begins the new ones",
        false => {
            "There is no coordinator now: the next one closes the old shares, and then begins the new ones"
        }
    };
    format!(
        "{count} shares of {election} were requested. {next}. To see the progress: tenure status {election}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn current_number_is_not_requested_again() {
        let plan = Plan::unassigned(8);
        assert_eq!(already_done(&plan, 5), None);
        assert!(already_done(&plan, 8).unwrap().starts_with("There are 8 shares already"));
        let reshared = plan.reshare(5);
        assert!(already_done(&reshared, 5).unwrap().starts_with("5 shares were requested already"));
        // A request can be withdrawn by requesting the old number.
        assert_eq!(already_done(&reshared, 8), None);
    }

    #[test]
    fn consequences_are_shown_before_and_after() {
        let text = consequences("jobs/orders", &Plan::unassigned(8), 5);
        assert!(text.starts_with("All work of jobs/orders stops"), "{text}");
        assert!(text.contains("each of its 8 shares") && text.contains("split into 5."), "{text}");
        let text = result_message("jobs/orders", 5, true);
        assert!(
            text.ends_with("tenure status jobs/orders\n")
                && text.contains("The coordinator closes")
        );
        assert!(result_message("jobs/orders", 5, false).contains("There is no coordinator now"));
    }
}
