//! `tenure reshare`, `break` and `reset-slot`: changes that cannot be undone, so they ask for
//! confirmation.

use crate::complaint::{NO_ELECTION, printable};
use crate::configuration::Configuration;
use crate::output::times::described_zone;
use crate::output::{CommandResult, eprint, fail, fail_with, print_wrapped};
use crate::settings::CommandLine;
use crate::settings::table::{NEW_SHARES, PERIOD, YES};
use crate::signals::Signals;
use std::fmt::Write as _;
use std::io::{IsTerminal, stdin};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tenure::engine::Election;
use tenure::status::local_time;
use tenure_base::duration::format_duration;
use tenure_clock::{BootClock, Clock};
use tenure_core::{Event, LeaseState, Problem, Report, Role, Snapshot, State, Triggered};
use tenure_members::SharesStore;
use tenure_shares::{Plan, StoreRequest, StoreResponse};
use tokio::select;

/// Exit code: the change was not made.
const NOT_DONE: u8 = 1;

/// Exit code: a signal interrupted the command.
const INTERRUPTED: u8 = 130;

/// Maximum number of tries to change the plan. Each fails if the coordinator has changed it
/// meanwhile.
const RESHARE_TRIES: u32 = 5;

/// Time limit for winning a lease once it is free. The same limit applies to its release.
const RESET_PATIENCE: Duration = Duration::from_secs(8);

/// Pause between two tries to remove the slot.
const RESET_PAUSE: Duration = Duration::from_millis(200);

/// Maximum number of tries to win the lease. Each fails if another candidate wins it first.
const RESET_TRIES: usize = 8;

/// `tenure break`: ends the lease of an unreachable leader.
pub(super) async fn break_lease(line: &CommandLine) -> CommandResult {
    let mut configuration = Configuration::for_operator(line);
    let period = configuration.duration(&PERIOD);
    let election = configuration.election();
    let handle = configuration.operator_election(&BootClock::new())?;
    let snapshot = handle.inspect().await.map_err(refused)?;
    match snapshot.lease {
        LeaseState::Absent => {
            return Err(fail(format_args!("{}: {NO_ELECTION}", printable(&election))));
        }
        LeaseState::Leased | LeaseState::Infinite | LeaseState::Breaking => {}
        LeaseState::Available | LeaseState::Expired | LeaseState::Broken => {
            print_wrapped("The lease is free; nothing was changed.\n");
            return Ok(ExitCode::SUCCESS);
        }
    }
    if !configuration.resolved.is_on(&YES) {
        confirm(&break_consequences(&election, &snapshot, period)).map_err(fail)?;
    }
    // Another candidate may have won meanwhile. The operator has not confirmed that its lease ends.
    let current = handle.inspect().await.map_err(refused)?;
    if leader_term(&current) != leader_term(&snapshot) {
        let leader = current
            .incumbent
            .map(|incumbent| format!("{}, term {},", printable(&incumbent.name), incumbent.term));
        let leader = leader.as_deref().unwrap_or("another one");
        let why = format_args!("{leader} leads now; nothing was changed");
        return Err(fail_with(NOT_DONE, why));
    }
    let remaining = handle.break_lease(period).await.map_err(refused)?;
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

fn break_consequences(election: &str, snapshot: &Snapshot, period: Option<Duration>) -> String {
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

fn refused(problem: Problem) -> ExitCode {
    fail_with(NOT_DONE, printable(&problem.to_string()))
}

/// `tenure reshare`: requests another number of shares.
pub(super) async fn reshare(line: &CommandLine) -> CommandResult {
    let mut configuration = Configuration::for_operator(line);
    // The command line requires a number. A wrong one has a complaint, which is reported below.
    let count = configuration.number(&NEW_SHARES).unwrap_or_default();
    let election = configuration.election();
    let handle = Arc::new(configuration.operator_election(&BootClock::new())?);
    let store = SharesStore::new(handle.clone(), String::new());
    let mut is_confirmed = configuration.resolved.is_on(&YES);
    for _ in 0..RESHARE_TRIES {
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
        if let Some(message) = already_reshared(&plan, count) {
            print_wrapped(&message);
            return Ok(ExitCode::SUCCESS);
        }
        if !is_confirmed {
            confirm(&reshare_consequences(&election, &plan, count)).map_err(fail)?;
        }
        is_confirmed = true;
        let write = StoreRequest::WritePlan(plan.reshare(count), Some(tag));
        let write_response = store.send(&write).await;
        match (write_response.response, write_response.problem) {
            (StoreResponse::Plan(..), _) => {
                let snapshot = handle.inspect().await.ok();
                let has_leader = snapshot.is_some_and(|current| current.leader().is_some());
                print_wrapped(&reshare_message(&election, count, has_leader));
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

/// Returns a message if the plan has `count` shares already, or they were already requested.
fn already_reshared(plan: &Plan, count: u32) -> Option<String> {
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

fn reshare_consequences(election: &str, plan: &Plan, count: u32) -> String {
    format!(
        "All work of {} stops, in all processes, until each of its {} shares is closed; then it is split into \
         {count}. Each of these is a new election: its slots and outcomes start again.",
        printable(election),
        plan.count()
    )
}

fn reshare_message(election: &str, count: u32, has_leader: bool) -> String {
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

/// `tenure reset-slot`: leads for a moment, to remove a slot in the future from the record.
pub(super) async fn reset_slot(line: &CommandLine) -> CommandResult {
    let clock = BootClock::new();
    let mut configuration = Configuration::for_reset_slot(line);
    let election = configuration.operator_election(&clock)?;
    let reset = SlotReset { election, clock };
    let message = reset.confirm_and_reset(configuration.resolved.is_on(&YES)).await?;
    print_wrapped(&format!("{message}\n"));
    Ok(ExitCode::SUCCESS)
}

/// A candidate that leads for a moment, to remove the slot.
struct SlotReset {
    election: Election,
    clock: BootClock,
}

impl SlotReset {
    /// Returns a message, or the exit code after printing why the slot was not reset.
    async fn confirm_and_reset(&self, yes: bool) -> Result<String, ExitCode> {
        let snapshot = self.read().await?;
        if snapshot.lease == LeaseState::Absent {
            return Err(fail(NO_ELECTION));
        }
        let Some(slot) = slot_ahead(&snapshot) else {
            return Ok("No slot lies in the future; nothing was changed.".to_owned());
        };
        if !yes {
            confirm(&reset_consequences(&slot, &snapshot)).map_err(fail)?;
        }
        // From here on there may be a lease to release, so a signal must not end the process at
        // once.
        let mut signals = Signals::new().map_err(fail)?;
        for _ in 0..RESET_TRIES {
            let remaining = self.election.break_lease(None).await.map_err(refused)?;
            self.lead_and_reset(remaining + RESET_PATIENCE, &mut signals).await?;
            if slot_ahead(&self.read().await?).is_none() {
                return Ok(format!("The slot {slot} is forgotten; turns go on with the next one."));
            }
        }
        let why = format_args!(
            "the slot {slot} is still on record after {RESET_TRIES} tries: other candidates were faster, or the service \
             did not accept the write. Try again, or stop the candidates meanwhile"
        );
        Err(fail_with(NOT_DONE, why))
    }

    async fn read(&self) -> Result<Snapshot, ExitCode> {
        self.election.inspect().await.map_err(refused)
    }

    /// Contends until this process leads, and removes the slot. Leaves the election in any case.
    async fn lead_and_reset(
        &self,
        patience: Duration,
        signals: &mut Signals,
    ) -> Result<(), ExitCode> {
        let mut state = None;
        let result = self.lead(&mut state, patience, signals).await;
        if let Some(state) = state {
            self.leave(state).await;
        }
        result
    }

    /// Contends for at most `patience`, and removes the slot. Stores the newest state in `state`,
    /// also after an error or a signal. A signal is handled between steps, because a dropped step
    /// leaves an unknown state.
    async fn lead(
        &self,
        state: &mut Option<State>,
        patience: Duration,
        signals: &mut Signals,
    ) -> Result<(), ExitCode> {
        let end = self.clock.now() + patience;
        let mut leads = false;
        while self.clock.now() < end {
            let began = self.clock.now();
            let requested = leads;
            let report = self.step(state.as_ref(), requested.then_some(Event::ResetSlot)).await;
            leads = matches!(report.role, Role::Leading(_));
            *state = Some(report.state);
            // A step that renews, or whose write failed, has not removed the slot yet.
            if requested && slot_ahead(&self.read().await?).is_none() {
                break;
            }
            let pause = if leads { RESET_PAUSE } else { report.again_in };
            select! {
                biased;
                _ = signals.next() => {
                    let why = "interrupted; the slot may still be on record";
                    return Err(fail_with(INTERRUPTED, why));
                }
                () = self.clock.sleep_until(began + pause) => {}
            }
        }
        Ok(())
    }

    async fn leave(&self, mut state: State) {
        let end = self.clock.now() + RESET_PATIENCE;
        while self.clock.now() < end {
            let began = self.clock.now();
            let report = self.step(Some(&state), Some(Event::Leave(None))).await;
            if report.role == Role::Left {
                break;
            }
            state = report.state;
            self.clock.sleep_until(began + report.again_in).await;
        }
    }

    async fn step(&self, state: Option<&State>, event: Option<Event>) -> Report {
        let report = self.election.step(state, self.clock.now(), event).await;
        for problem in &report.problems {
            eprint(format_args!("tenure: {}\n", printable(&problem.to_string())));
        }
        report
    }
}

/// Returns the last claimed slot if it lies in the future.
fn slot_ahead(snapshot: &Snapshot) -> Option<String> {
    let distance = snapshot.ahead?;
    let zone = described_zone(snapshot.turns.schedule.as_deref());
    Some(local_time(snapshot.answered_at.plus(distance), zone))
}

/// Describes the consequences, for the confirmation.
fn reset_consequences(slot: &str, snapshot: &Snapshot) -> String {
    let mut text = format!(
        "The slot {slot} will be forgotten. To do that, this command takes the lease from the present leader within \
         a minute."
    );
    if let Some(Triggered { id, outcome: None, .. }) = &snapshot.turns.triggered {
        let id = printable(id);
        let _ = write!(text, " Its turn for the trigger {id} is not over, and would be cut off.");
    }
    text
}

/// Asks for confirmation on the terminal. `prompt` describes the consequences, in sentences.
///
/// # Errors
///
/// Fails if standard input is not a terminal, or the answer was not yes.
fn confirm(prompt: &str) -> Result<(), String> {
    if !stdin().is_terminal() {
        return Err(format!(
            "{prompt} This needs confirmation, and standard input is not a terminal: add --yes"
        ));
    }
    eprint(format_args!("{prompt}\nContinue? [y/N] "));
    let mut answer = String::new();
    let _ = stdin().read_line(&mut answer);
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err("nothing was changed".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn current_number_is_not_requested_again() {
        let plan = Plan::unassigned(8);
        assert_eq!(already_reshared(&plan, 5), None);
        assert!(already_reshared(&plan, 8).unwrap().starts_with("There are 8 shares already"));
        let reshared = plan.reshare(5);
        assert!(
            already_reshared(&reshared, 5).unwrap().starts_with("5 shares were requested already")
        );
        // A request can be withdrawn by requesting the old number.
        assert_eq!(already_reshared(&reshared, 8), None);
    }

    #[test]
    fn consequences_are_shown_before_and_after() {
        let text = reshare_consequences("jobs/orders", &Plan::unassigned(8), 5);
        assert!(text.starts_with("All work of jobs/orders stops"), "{text}");
        assert!(text.contains("each of its 8 shares") && text.contains("split into 5."), "{text}");
        let text = reshare_message("jobs/orders", 5, true);
        assert!(
            text.ends_with("tenure status jobs/orders\n")
                && text.contains("The coordinator closes")
        );
        assert!(reshare_message("jobs/orders", 5, false).contains("There is no coordinator now"));
    }
}
