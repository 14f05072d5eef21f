//! `tenure status --watch`: reads elections repeatedly, and prints their changes.

use super::changes::{Change, ChangeDetector};
use super::subjects::Subjects;
use crate::complaint::Complaint;
use crate::output::event_lines::Layout;
use crate::output::log::{LogContext, json};
use crate::output::{CommandResult, columns, complain, fail, report_write_error, wants_colour};
use crate::settings::CommandLine;
use crate::settings::table::{DEFAULT_INTERVAL, FOR_EACH_FILE};
use crate::signals::Signals;

use chrono::Utc;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tenure::engine::Election;
use tenure_clock::{BootClock, Clock};
use tenure_core::Zone;
use tokio::select;
use tokio::task::JoinSet;

/// Delay between the first reads of two elections.
const SPREAD: Duration = Duration::from_millis(20);

pub(super) async fn watch(line: &CommandLine) -> CommandResult {
    let mut signals = Signals::new().map_err(fail)?;
    let clock = BootClock::new();
    let Subjects { subjects: each, json, interval, .. } =
        Subjects::from_command_line(line, &clock)?;
    if each.is_empty() {
        // An empty list would never change while it is watched.
        let problem = "the list has no names, so there is no election to watch";
        let advice = "write a name into it, and start again";
        return Err(complain(&[Complaint::new(FOR_EACH_FILE.name, problem, advice)], json));
    }
    let interval = interval.unwrap_or(DEFAULT_INTERVAL);
    let width = each.iter().map(|subject| subject.election.chars().count()).max().unwrap_or(0);
    let width = (each.len() > 1).then_some(width);
    let colour = io::stdout().is_terminal() && wants_colour();
    let mut watchers = JoinSet::new();
    for (number, subject) in each.into_iter().enumerate() {
        let context = LogContext { election: subject.election, candidate: String::new() };
        let writer = ChangeWriter { context, width, json, colour };
        // Spreads the reads over the interval.
        let start_at = clock.now() + SPREAD * u32::try_from(number).unwrap_or(u32::MAX);
        let start_at = start_at.min(clock.now() + interval);
        watchers.spawn(watch_election(subject.handle, clock.clone(), start_at, interval, writer));
    }
    select! {
        // Standard output was closed.
        _ = watchers.join_next() => {}
        _ = signals.next() => {}
    }
    Ok(ExitCode::SUCCESS)
}

/// Watches an election until standard output is closed or cannot be written.
async fn watch_election(
    election: Arc<Election>,
    clock: BootClock,
    start_at: Duration,
    interval: Duration,
    writer: ChangeWriter,
) {
    let mut detector = ChangeDetector::default();
    clock.sleep_until(start_at).await;
    loop {
        let began = clock.now();
        for change in detector.update(election.inspect().await) {
            if let Err(error) = writer.write(&change, detector.zone()) {
                report_write_error(&error);
                return;
            }
        }
        clock.sleep_until(began + interval).await;
    }
}

/// Writer of the changes of an election.
struct ChangeWriter {
    /// The context of the lines. It names the election only.
    context: LogContext,
    /// Length of the longest name, for several elections.
    width: Option<usize>,
    json: bool,
    colour: bool,
}

impl ChangeWriter {
    fn write(&self, change: &Change, zone: Zone) -> io::Result<()> {
        let now = Utc::now();
        let line = match self.json {
            true => json(now, None, &self.context, change).unwrap_or_default(),
            false => {
                let election = self.width.map(|width| (self.context.election.as_str(), width));
                let width = columns(io::stdout());
                change.line(now, Layout { election, zone, colour: self.colour, width })
            }
        };
        let mut out = io::stdout();
        writeln!(out, "{line}").and_then(|()| out.flush())
    }
}
