//! `tenure reshare`: asks for another number of shares.

use crate::complaint::printable;
use crate::configuration::Configuration;
use crate::output::{CommandResult, fail, fail_with, say};
use crate::settings::CommandLine;
use crate::settings::table::{NEW_SHARES, YES};
use std::process::ExitCode;
use std::sync::Arc;
use tenure_clock::BootClock;
use tenure_members::SharesStore;
use tenure_shares::{Answer, Ask, Plan};

/// It was not asked for.
const NOT_DONE: u8 = 1;

/// So often it is tried, where the plan becomes another one meanwhile.
const TRIES: u32 = 5;

pub(crate) async fn reshare(line: &CommandLine) -> CommandResult {
    let mut configuration = Configuration::of_operator(line);
    // Without a number there is a complaint.
    let count = configuration.number(&NEW_SHARES).unwrap_or_default();
    let election = configuration.election();
    let reached = Arc::new(configuration.election_of_operator(&BootClock::new())?);
    let store = SharesStore::of(reached.clone(), String::new());
    let mut agreed = configuration.given.is_on(&YES);
    for _ in 0..TRIES {
        let read = store.ask(&Ask::ReadPlan(None)).await;
        let (plan, tag) = match (read.answer, read.problem) {
            (Answer::Plan(plan, tag), _) => (plan, tag),
            (_, Some(problem)) => return Err(fail(printable(&problem.to_string()))),
            _ => {
                return Err(fail(format_args!(
                    "{}: there is no plan, since no process with --shares has led it yet; the first one begins with \
                     the number that it is given",
                    printable(&election)
                )));
            }
        };
        if let Some(told) = needless(&plan, count) {
            say(&told);
            return Ok(ExitCode::SUCCESS);
        }
        if !agreed {
            super::ask(&consequences(&election, &plan, count)).map_err(fail)?;
        }
        agreed = true;
        let write = Ask::WritePlan(plan.reshare(count), Some(tag));
        let asked = store.ask(&write).await;
        match (asked.answer, asked.problem) {
            (Answer::Plan(..), _) => {
                let led = reached.inspect().await.ok();
                let led = led.is_some_and(|seen| seen.leader().is_some());
                say(&done(&election, count, led));
                return Ok(ExitCode::SUCCESS);
            }
            (_, Some(problem)) => {
                let problem = printable(&problem.to_string());
                let why = format_args!("{problem}; tenure status shows whether it was asked for");
                return Err(fail_with(NOT_DONE, why));
            }
            // Its leader wrote another plan meanwhile.
            _ => {}
        }
    }
    Err(fail_with(NOT_DONE, "nothing was changed: the plan kept changing; try again"))
}

/// Why there is nothing to ask for.
fn needless(plan: &Plan, count: u32) -> Option<String> {
    match plan.next {
        Some(next) if next == count => {
            Some(format!("{count} shares were asked for already; nothing was changed.\n"))
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

fn done(election: &str, count: u32, led: bool) -> String {
    let election = printable(election);
    let next = match led {
        true => "The coordinator closes the old shares, and then begins the new ones",
        false => {
            "There is no coordinator now: the next one closes the old shares, and then begins the new ones"
        }
    };
    format!(
        "{count} shares of {election} were asked for. {next}. To see the progress: tenure status {election}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_so_already_is_not_asked_for() {
        let plan = Plan::first(8);
        assert_eq!(needless(&plan, 5), None);
        assert!(needless(&plan, 8).unwrap().starts_with("There are 8 shares already"));
        let asked = plan.reshare(5);
        assert!(needless(&asked, 5).unwrap().starts_with("5 shares were asked for already"));
        // It is taken back by asking for the old number.
        assert_eq!(needless(&asked, 8), None);
    }

    #[test]
    fn what_follows_is_told_before_and_after() {
        let told = consequences("jobs/orders", &Plan::first(8), 5);
        assert!(told.starts_with("All work of jobs/orders stops"), "{told}");
        assert!(told.contains("each of its 8 shares") && told.contains("split into 5."), "{told}");
        let told = done("jobs/orders", 5, true);
        assert!(
            told.ends_with("tenure status jobs/orders\n")
                && told.contains("The coordinator closes")
        );
        assert!(done("jobs/orders", 5, false).contains("There is no coordinator now"));
    }
}
