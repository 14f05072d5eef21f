//! One election of `tenure run`, judged and ready to begin.

use super::args::RunArguments;
use super::configuration::Configuration;
use super::handler::{self, Work};
use super::log::Log;
use crate::clock::{BootClock, Clock as _};
use crate::component::{CheckError, ElectionComponent, Engine};
use crate::runner::{Event, Runner};
use crate::server::Board;
use crate::settings::names;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// A candidate that contends as soon as it is told to.
pub(super) struct Candidacy {
    elector: ElectionComponent,
    work: Work,
    grace: Option<Duration>,
    /// What people should know at the start.
    notes: Vec<String>,
    log: Log,
    pub board: Arc<Board>,
}

impl Candidacy {
    /// Judges the settings; none when there is something to complain about. Sends nothing.
    ///
    /// # Errors
    ///
    /// Why there can be no candidate, whatever the settings are.
    pub(super) async fn judge(
        engine: &Engine,
        clock: &BootClock,
        arguments: &RunArguments,
        configuration: &mut Configuration,
        log: Log,
    ) -> Result<Option<Self>, String> {
        let work = handler::of_run(engine, clock, arguments, configuration, &log);
        let grace = configuration.grace(arguments.grace.as_deref());
        let settings = configuration.settings.clone();
        let elector = ElectionComponent::new(engine, settings, clock).map_err(|e| e.to_string())?;
        let elector = elector.trusting(configuration.authorities.clone());
        let mut notes = Vec::new();
        match elector.check().await {
            Ok(needs) => notes = needs.notes,
            Err(CheckError::Settings(complaints)) => configuration.add(complaints),
            Err(CheckError::Component(error)) => return Err(error.to_string()),
        }
        let board = Arc::new(board(configuration, clock));
        Ok(work.map(|work| Self { elector, work, grace, notes, log, board }))
    }

    /// Tells of itself, and what concerns all.
    pub(super) fn begin(&self, also: Option<&str>) {
        for detail in self.notes.iter().map(String::as_str).chain(also) {
            self.log.event(&Event::Note { detail: detail.to_owned() });
        }
    }

    /// The loop. `changed` hears of everything that becomes different.
    pub(super) fn runner(
        self,
        clock: BootClock,
        changed: &Arc<Notify>,
    ) -> Runner<ElectionComponent, BootClock> {
        let (log, reading) = (self.log, clock.reading());
        let (stepped, happened) = (self.board.clone(), self.board);
        let (reported, told) = (changed.clone(), changed.clone());
        let runner = Runner::new(self.elector, self.work.handler, clock)
            .on_report(move |report, taken_at| {
                stepped.stepped(report, taken_at, reading.now());
                reported.notify_one();
            })
            .on_event(move |event| {
                happened.happened(&event);
                log.event(&event);
                told.notify_one();
            });
        match self.grace.or(self.work.grace) {
            Some(grace) => runner.grace(grace),
            None => runner,
        }
    }
}

/// What this candidate shows of itself.
fn board(configuration: &Configuration, clock: &BootClock) -> Board {
    let setting = |name| configuration.settings.get(name).unwrap_or_default();
    Board::new(setting(names::ELECTION), setting(names::NAME), clock.now())
}
