//! `tenure reset-slot`: leads for a moment, to remove a slot in the future from the record.

use crate::complaint::{NO_ELECTION, printable};
use crate::configuration::Configuration;
use crate::output::times::described_zone;
use crate::output::{CommandResult, UNUSABLE, eprint, fail_with, print_wrapped};
use crate::settings::CommandLine;
use crate::settings::table::YES;
use crate::signals::Signals;
use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Duration;
use tenure::engine::Election;
use tenure::status::local_time;
use tenure_clock::{BootClock, Clock};
use tenure_core::{Event, LeaseState, Problem, Report, Role, Snapshot, State, Triggered};
use tokio::select;

/// Exit code: the slot was not removed.
const NOT_DONE: u8 = 1;

/// Exit code: a signal interrupted the command.
const INTERRUPTED: u8 = 130;

/// Time limit for winning a free lease, and for releasing it.
const PATIENCE: Duration = Duration::from_secs(8);

/// Pause between two tries to remove the slot.
const PAUSE: Duration = Duration::from_millis(200);

/// Maximum number of tries, if other candidates win the lease first.
const TRIES: usize = 8;

pub(crate) async fn reset_slot(line: &CommandLine) -> CommandResult {
    let clock = BootClock::new();
    let mut configuration = Configuration::for_reset_slot(line);
    let election = configuration.operator_election(&clock)?;
    let operator = Operator { election, clock };
    let result = operator.confirm_and_reset(configuration.resolved.is_on(&YES)).await;
    let message = result.map_err(|Failure { code, why }| fail_with(code, why))?;
    print_wrapped(&format!("{message}\n"));
    Ok(ExitCode::SUCCESS)
}

/// The reason why the slot was not reset, and the exit code.
struct Failure {
    code: u8,
    why: String,
}

struct Operator {
    election: Election,
    clock: BootClock,
}

impl Operator {
    async fn confirm_and_reset(&self, yes: bool) -> Result<String, Failure> {
        let snapshot = self.read().await?;
        if snapshot.lease == LeaseState::Absent {
            return Err(unusable(NO_ELECTION.to_owned()));
        }
        let Some(slot) = slot_ahead(&snapshot) else {
            return Ok("No slot lies in the future; nothing was changed.".to_owned());
        };
        if !yes {
            super::confirm(&consequences(&slot, &snapshot)).map_err(unusable)?;
        }
        // From here on there may be a lease to release.
        let mut signals = Signals::new().map_err(unusable)?;
        for _ in 0..TRIES {
            let remaining = self.election.break_lease(None).await.map_err(refused)?;
            self.lead_and_reset(remaining + PATIENCE, &mut signals).await?;
            if slot_ahead(&self.read().await?).is_none() {
                return Ok(format!("The slot {slot} is forgotten; turns go on with the next one."));
            }
        }
        Err(failed(format_args!(
            "the slot {slot} is still on record after {TRIES} tries: other candidates were faster, or the service \
             did not accept the write. Try again, or stop the candidates meanwhile"
        )))
    }

    async fn read(&self) -> Result<Snapshot, Failure> {
        self.election.inspect().await.map_err(refused)
    }

    /// Contends until it leads, removes the slot, and leaves in any case.
    async fn lead_and_reset(
        &self,
        patience: Duration,
        signals: &mut Signals,
    ) -> Result<(), Failure> {
        let mut state = None;
        let result = self.lead(&mut state, patience, signals).await;
        if let Some(state) = state {
            self.leave(state).await;
        }
        result
    }

    /// Stores the newest state in `state`, also after an error or a signal. A signal is handled
    /// between steps, because a dropped step leaves an unknown state.
    async fn lead(
        &self,
        state: &mut Option<State>,
        patience: Duration,
        signals: &mut Signals,
    ) -> Result<(), Failure> {
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
            let pause = if leads { PAUSE } else { report.again_in };
            select! {
                biased;
                _ = signals.next() => return Err(interrupted()),
                () = self.clock.sleep_until(began + pause) => {}
            }
        }
        Ok(())
    }

    async fn leave(&self, mut state: State) {
        let end = self.clock.now() + PATIENCE;
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
fn consequences(slot: &str, snapshot: &Snapshot) -> String {
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

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure { code: NOT_DONE, why: error.to_string() }
}

fn refused(problem: Problem) -> Failure {
    failed(printable(&problem.to_string()))
}

/// A failure before anything was changed: there is no such election, or no confirmation.
fn unusable(why: String) -> Failure {
    Failure { code: UNUSABLE, why }
}

fn interrupted() -> Failure {
    let why = "interrupted; the slot may still be on record".to_owned();
    Failure { code: INTERRUPTED, why }
}
