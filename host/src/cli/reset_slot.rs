//! `tenure reset-slot`: leads for a moment, to have a slot in the future forgotten.

use super::args::ResetSlotArguments;
use super::complaint::{self, printable};
use super::configuration::Configuration;
use super::{UNUSABLE, fail};
use crate::clock::{BootClock, Clock};
use crate::component::ElectionComponent;
use crate::contract::{Event, Memory, Report, Snapshot, Standing, Trouble};
use crate::runner::{class_name, rfc3339};
use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _, stderr, stdin};
use std::process::ExitCode;
use std::time::Duration;

/// It was not done.
const NOT_DONE: u8 = 1;

/// A slot so much in the future is no accident of two clocks. The component's own measure.
const AHEAD: u64 = 10_000_000_000;

/// The longest lease, and some looks at it.
const PATIENCE: Duration = Duration::from_secs(75);

/// How often the lease is broken for the sake of this, when others are faster.
const TRIES: usize = 4;

pub(super) async fn reset_slot(arguments: &ResetSlotArguments) -> ExitCode {
    let clock = BootClock::new();
    let mut configuration = Configuration::of_reset_slot(arguments);
    let component = match configuration.component(&clock).await {
        Ok(component) => component,
        Err(failure) => return fail(failure),
    };
    if !configuration.complaints.is_empty() {
        complaint::print(complaint::report(&configuration.complaints));
        return ExitCode::from(UNUSABLE);
    }
    let operator = Operator { component, clock };
    match operator.ask_and_reset(arguments.yes).await {
        Ok(done) => {
            println!("{done}");
            ExitCode::SUCCESS
        }
        Err(Stop::Disagreed(why)) => {
            complaint::print(format_args!("tenure: {why}\n"));
            ExitCode::from(UNUSABLE)
        }
        Err(Stop::Failed(why)) => {
            complaint::print(format_args!("tenure: {why}\n"));
            ExitCode::from(NOT_DONE)
        }
    }
}

/// Why the slot was not reset.
enum Stop {
    Disagreed(String),
    Failed(String),
}

struct Operator {
    component: ElectionComponent,
    clock: BootClock,
}

impl Operator {
    async fn ask_and_reset(&self, yes: bool) -> Result<String, Stop> {
        let Some(slot) = ahead(&self.look().await?) else {
            return Ok("No slot lies in the future; nothing was changed.".to_owned());
        };
        if !yes {
            agree(&slot)?;
        }
        for _ in 0..TRIES {
            let broken = self.component.break_lease(None).await.map_err(failed)?;
            broken.map_err(refused)?;
            if self.lead_and_reset().await? {
                break;
            }
        }
        match ahead(&self.look().await?) {
            None => Ok(format!("The slot {slot} is forgotten; turns go on with the next one.")),
            Some(_) => Err(Stop::Failed(
                "other candidates were faster each time; nothing was changed. Try again, or stop \
                 some of them meanwhile"
                    .to_owned(),
            )),
        }
    }

    async fn look(&self) -> Result<Snapshot, Stop> {
        self.component.inspect().await.map_err(failed)?.map_err(refused)
    }

    /// Contends until it leads, has the slot forgotten, and leaves. False: another one leads.
    async fn lead_and_reset(&self) -> Result<bool, Stop> {
        let end = self.clock.now() + PATIENCE;
        let (mut memory, mut led) = (None::<Memory>, false);
        loop {
            let began = self.clock.now();
            let event = match led {
                true => Some(Event::ResetSlot),
                false if began >= end => Some(Event::Leave(None)),
                false => None,
            };
            let Report { memory: newest, standing, again_in, .. } =
                self.step(memory, event).await?;
            memory = Some(newest);
            if led {
                self.leave(memory).await?;
                return Ok(true);
            }
            match standing {
                Standing::Left => return Ok(false),
                Standing::Leading(_) => led = true,
                Standing::Following(_) | Standing::Undecided => {
                    self.clock.sleep_until(began + again_in).await;
                }
            }
        }
    }

    async fn leave(&self, mut memory: Option<Memory>) -> Result<(), Stop> {
        let end = self.clock.now() + PATIENCE;
        while self.clock.now() < end {
            let began = self.clock.now();
            let report = self.step(memory, Some(Event::Leave(None))).await?;
            if report.standing == Standing::Left {
                break;
            }
            memory = Some(report.memory);
            self.clock.sleep_until(began + report.again_in).await;
        }
        Ok(())
    }

    async fn step(&self, memory: Option<Memory>, event: Option<Event>) -> Result<Report, Stop> {
        let report = self.component.step(memory.as_ref(), self.clock.now(), event).await;
        let report = report.map_err(failed)?;
        for trouble in &report.trouble {
            complaint::print(format_args!("tenure: {}\n", told(trouble)));
        }
        Ok(report)
    }
}

/// The last claimed slot, when it lies in the future.
fn ahead(snapshot: &Snapshot) -> Option<String> {
    let slot = snapshot.last_slot?.slot;
    (slot > snapshot.asked_at.saturating_add(AHEAD)).then(|| rfc3339(slot))
}

/// Asks on the terminal.
fn agree(slot: &str) -> Result<(), Stop> {
    if !stdin().is_terminal() {
        return Err(Stop::Disagreed(format!(
            "the slot {slot} is to be forgotten, and the leader to lose its lease; nobody is there \
             to agree. Say --yes"
        )));
    }
    let mut question = String::new();
    let _ = write!(
        question,
        "The slot {slot} is to be forgotten. The present leader loses its lease for that, within a \
         minute. Go on? [y/N] "
    );
    let _ = stderr().write_all(question.as_bytes());
    let mut answer = String::new();
    let _ = stdin().read_line(&mut answer);
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(Stop::Disagreed("nothing was changed".to_owned())),
    }
}

fn failed(error: impl std::fmt::Display) -> Stop {
    Stop::Failed(error.to_string())
}

fn refused(trouble: Trouble) -> Stop {
    Stop::Failed(told(&trouble))
}

fn told(trouble: &Trouble) -> String {
    format!("{}: {}", class_name(trouble.class), printable(&trouble.detail))
}
