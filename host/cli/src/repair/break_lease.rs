//! `tenure break`: ends the lease of an unreachable leader.

use crate::complaint::{NO_ELECTION, printable};
use crate::configuration::Configuration;
use crate::output::{CommandResult, fail, fail_with, print_wrapped};
use crate::settings::CommandLine;
use crate::settings::table::{PERIOD, YES};
use std::process::ExitCode;
use std::time::Duration;
use tenure_base::duration::format_duration;
use tenure_clock::BootClock;
use tenure_core::{LeaseState, Problem, Snapshot};

/// Exit code: the lease was not broken.
const NOT_DONE: u8 = 1;

pub(crate) async fn break_lease(line: &CommandLine) -> CommandResult {
    let mut configuration = Configuration::for_operator(line);
    let period = configuration.duration(&PERIOD);
    let election = configuration.election();
    let handle = configuration.operator_election(&BootClock::new())?;
    let snapshot = handle.inspect().await.map_err(not_done)?;
    match snapshot.lease {
        LeaseState::Absent => {
            return Err(fail(format_args!("{}: {NO_ELECTION}", printable(&election))));
        }
        LeaseState::Leased | LeaseState::Infinite | LeaseState::Breaking => {}
        LeaseState::Available | LeaseState::Expired | LeaseState::Broken => {
            print_wrapped("Nobody holds the lease; nothing was changed.\n");
            return Ok(ExitCode::SUCCESS);
        }
    }
    if !configuration.resolved.is_on(&YES) {
        super::confirm(&consequences(&election, &snapshot, period)).map_err(fail)?;
    }
    // Another candidate may lead by the time of the confirmation, which did not mention it.
    let current = handle.inspect().await.map_err(not_done)?;
    if leader_term(&current) != leader_term(&snapshot) {
        let leader = current
            .incumbent
            .map(|incumbent| format!("{}, term {},", printable(&incumbent.name), incumbent.term));
        let leader = leader.as_deref().unwrap_or("another one");
        let why = format_args!("{leader} leads now; nothing was changed");
        return Err(fail_with(NOT_DONE, why));
    }
    let remaining = handle.break_lease(period).await.map_err(not_done)?;
    match remaining.is_zero() {
        true => print_wrapped("The lease is broken; any candidate can win it now.\n"),
        false => print_wrapped(&format!(
            "The lease is breaking; its holder keeps it for {} more, then any candidate can win it.\n",
            format_duration(remaining)
        )),
    }
    Ok(ExitCode::SUCCESS)
}

fn leader_term(snapshot: &Snapshot) -> Option<u64> {
    snapshot.incumbent.as_ref().map(|leader| leader.term)
}

fn consequences(election: &str, snapshot: &Snapshot, period: Option<Duration>) -> String {
    let leader = match snapshot.leader() {
        Some(leader) => format!("{}, term {},", printable(&leader.name), leader.term),
        None => "its holder".to_owned(),
    };
    let election = printable(election);
    match period {
        _ if snapshot.lease == LeaseState::Infinite => format!(
            "The lease of {election} will end{}: something other than a candidate holds it, and gets no notice.",
            period.map(|period| format!(" in {}", format_duration(period))).unwrap_or_default()
        ),
        None => format!(
            "The lease of {election} will not be renewed any more: {leader} loses it when it expires."
        ),
        Some(period) => format!(
            "The lease of {election} is to end within {}: {leader} goes on until its next renewal fails, and may \
             overlap with the next leader.",
            format_duration(period)
        ),
    }
}

fn not_done(problem: Problem) -> ExitCode {
    fail_with(NOT_DONE, printable(&problem.to_string()))
}
