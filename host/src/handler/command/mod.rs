//! Any program as a handler: started for each turn, and stopped before the leadership ends.
//!
//! Each run has a [supervisor](tenure_supervisor), the parent of the command. The runner tells it each new end of the
//! leadership. The supervisor asks the command to end (SIGTERM to its process group) a stop time before that, and kills the
//! group (SIGKILL) shortly before it. It kills at once when the connection ends, because the turn or the runner is over. So
//! a runner that is killed, or stands still, takes its work with it. The margin of the lease is not needed.
//!
//! When the supervisor is killed, the connection ends too: the runner kills the group, and the turn has trapped. On Linux
//! the runner's own supervisor has adopted what left the group. The runner asks it to end that, and the turn is over when
//! it has. Without such a supervisor, or without a complete list of its children, these processes go on.
//!
//! When runner and supervisor are killed in the same moment, and the command is not, the runner's supervisor ends it, on
//! Linux. Where there is none, or it is killed too, nobody does. The kernel could (`PR_SET_PDEATHSIG`), but that is asked
//! for between fork and exec: by unsafe code, or by one more program in between. And it would reach the command alone, not
//! its descendants. Whoever kills so kills a whole cgroup, as systemd and container engines do.
//!
//! What the command leaves running when it ends is killed too: the turn is over when nothing of it
//! runs any more.

mod attached;
mod environment;
mod outcome;
mod resolve;
mod run;

pub use attached::{AttachedCommand, CommandEnd};
pub use resolve::NotRunnable;

use super::lines::{HandlerLines, LineSink, Stream};
use super::{BoxFuture, Handler, TurnEnd};
use crate::lease::Lease;
use crate::lines::Lines;
use crate::trace_parent::TraceParent;
use chrono::Utc;
use environment::Variables;
use outcome::{RunOutcome, turn_end};
use run::Run;
use std::ffi::OsString;
use std::fmt;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tenure_clock::{BootClock, Clock as _, shared};
use tenure_core::Turn;
use tenure_supervisor::{
    KILL_SLACK, Link, Program, STOP_TIME, Visibility, has_supervisor_main, visibility,
};
use tokio::sync::{oneshot, watch};

/// What a command is given, beside its turns.
pub struct CommandSettings {
    /// Variables of its own. It also sees those around, but none of the election's.
    pub env: Vec<(String, String)>,
    /// The time from SIGTERM to the end of the leadership, and from the time limit to SIGKILL.
    pub stop_time: Duration,
    /// Called with each line that it writes, up to the same number as those of a component. One that is attached
    /// writes no lines, but to where this process does.
    pub output: LineSink,
    /// Whoever attaches it to this process's streams and signals, for one run.
    pub attached: Option<Arc<AttachedCommand>>,
    /// The connection to this process's own supervisor, if it has one. That adopts what a command leaves behind when the
    /// command's supervisor is killed.
    pub supervisor: Option<Arc<Link>>,
}

/// A stop time of 3 s; lines go to standard output and standard error of this process.
impl Default for CommandSettings {
    fn default() -> Self {
        let output: LineSink = Arc::new(|stream, line| {
            // Nobody may read them.
            let _ = match stream {
                Stream::Stdout => writeln!(io::stdout(), "{line}"),
                Stream::Stderr => writeln!(io::stderr(), "{line}"),
            };
        });
        let (env, stop_time) = (Vec::new(), STOP_TIME);
        Self { env, stop_time, output, attached: None, supervisor: None }
    }
}

/// Asks the parent of this process to kill the orphans that it adopted, and completes when none is left.
type EndOrphans = Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

/// None where the supervisor could never answer: the list of its children is not complete there.
fn end_orphans(supervisor: Option<Arc<Link>>, visibility: Visibility) -> Option<EndOrphans> {
    let link = supervisor.filter(|_| visibility == Visibility::All)?;
    Some(Arc::new(move || {
        let link = link.clone();
        Box::pin(async move { link.end_orphans().await })
    }))
}

/// A program that is run for each turn.
///
/// ```no_run
/// use tenure::handler::{CommandHandler, CommandSettings};
/// use tenure::settings::{Credential, Schedule, Settings};
/// use tenure::{Elector, supervisor_main, terminated};
///
/// #[tokio::main]
/// async fn run() -> Result<(), Box<dyn std::error::Error>> {
///     let command = ["/usr/local/bin/backup".into(), "--all".into()];
///     let command = CommandHandler::new(&command, CommandSettings::default())?;
///     let settings = Settings::new("jobs/backup", Credential::Environment);
///     let daily = Schedule::Cron { expression: "0 3 * * *".into(), time_zone: None };
///     let membership = Elector::new(settings)?.start_with(daily, command)?;
///     terminated().await;
///     membership.leave().await;
///     Ok(())
/// }
///
/// fn main() -> Result<(), Box<dyn std::error::Error>> {
///     // First: a command is supervised by another process of this program.
///     supervisor_main();
///     run()
/// }
/// ```
pub struct CommandHandler {
    program: Program,
    variables: Variables,
    stop_time: Duration,
    lines: HandlerLines,
    /// Whether something of a turn may still run.
    is_running: watch::Sender<bool>,
    attached: Option<Arc<AttachedCommand>>,
    /// None where nobody ends what a command leaves behind when its supervisor is killed.
    end_orphans: Option<EndOrphans>,
}

impl CommandHandler {
    /// The program that the first word of `command` names, here or on the PATH that it will see.
    ///
    /// # Errors
    ///
    /// It could not be started: none is named, it is not there, or may not be executed; or `main` does not call
    /// [`supervisor_main`](crate::supervisor_main).
    pub fn new(command: &[OsString], settings: CommandSettings) -> Result<Self, NotRunnable> {
        if !has_supervisor_main() {
            return Err(NotRunnable::NoSupervisor);
        }
        let Some((name, arguments)) = command.split_first() else {
            return Err(NotRunnable::Missing);
        };
        let variables = environment::base_variables(std::env::vars_os(), settings.env.clone());
        // The last one of a name counts.
        let path = variables.iter().rev().find(|(name, _)| name == "PATH").map(|(_, path)| path);
        let file = resolve::resolve(name, path.map(OsString::as_os_str))?;
        let program = Program { file, name: name.clone(), arguments: arguments.to_vec() };
        let lines = HandlerLines::new(Some(settings.output.clone()), BootClock::new().handle());
        let is_running = watch::Sender::new(false);
        let CommandSettings { stop_time, attached, supervisor, .. } = settings;
        let end_orphans = end_orphans(supervisor, visibility());
        Ok(Self { program, variables, stop_time, lines, is_running, attached, end_orphans })
    }

    /// The file that is run, by its whole path.
    pub fn file(&self) -> &Path {
        &self.program.file
    }

    async fn run_turn(&self, turn: Turn, lease: Lease) -> TurnEnd {
        let attached = self.attached.clone();
        let signals = match attached.as_ref().map(|attached| attached.start()) {
            // It was called off, or has had its run.
            Some(None) => return TurnEnd::CutOff,
            Some(signals) => signals,
            None => None,
        };
        let limit = turn.time_limit.map(|limit| shared::now() + limit);
        let mut variables = self.variables.clone();
        variables.extend(environment::turn_variables(&turn, Utc::now(), lease.remaining()));
        let parent = TraceParent::current();
        variables.extend(parent.map(|parent| ("TRACEPARENT".into(), parent.to_string().into())));
        let last_line = Arc::new(Mutex::new(String::new()));
        let execution = Run {
            program: self.program.clone(),
            variables,
            stop_time: self.stop_time,
            lease,
            limit,
            lines: self.output_lines(&last_line),
            signals,
            end_orphans: self.end_orphans.clone(),
        };
        // Dropped with this future: that is the order to kill.
        let (_stop, stopped) = oneshot::channel();
        let is_running = self.is_running.clone();
        is_running.send_replace(true);
        let execution_task = tokio::spawn(async move {
            let outcome = execution.supervise(stopped).await;
            if let Some(attached) = attached {
                attached.on_end(&outcome);
            }
            is_running.send_replace(false);
            outcome
        });
        let outcome = execution_task.await.unwrap_or(RunOutcome::SupervisorKilled);
        let last_line = last_line.lock().unwrap_or_else(PoisonError::into_inner);
        turn_end(outcome, &last_line)
    }

    /// Where standard output and standard error go.
    fn output_lines(&self, last_line: &Arc<Mutex<String>>) -> [Lines; 2] {
        let lines = self.lines.turn();
        let (on_stderr, last_line) = (lines.writer(Stream::Stderr), last_line.clone());
        let on_stderr = move |line: String| {
            if !line.trim().is_empty() {
                last_line.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&line);
            }
            on_stderr(line);
        };
        [Lines::new(lines.writer(Stream::Stdout)), Lines::new(on_stderr)]
    }
}

impl Handler for CommandHandler {
    fn on_tick(&self, turn: Turn, lease: Lease) -> BoxFuture<'_, TurnEnd> {
        Box::pin(self.run_turn(turn, lease))
    }

    fn stopped(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            // Cannot fail: the sender is here.
            let _ = self.is_running.subscribe().wait_for(|is_running| !is_running).await;
        })
    }

    fn overtime(&self) -> Duration {
        self.stop_time + KILL_SLACK
    }
}

impl fmt::Debug for CommandHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommandHandler").field("file", &self.program.file).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_without_supervisor_main_runs_no_commands() {
        let handler = CommandHandler::new(&["true".into()], CommandSettings::default());
        assert_eq!(handler.unwrap_err(), NotRunnable::NoSupervisor);
    }

    #[test]
    fn orphans_are_ended_only_if_all_are_visible() {
        use Visibility::{All, ForeignProc, NoProc, ScannedOnly, Unlisted};
        let link = || Some(Arc::new(Link::default()));
        for visibility in [ScannedOnly, ForeignProc, NoProc, Unlisted] {
            assert!(end_orphans(link(), visibility).is_none(), "{visibility:?}");
        }
        assert!(end_orphans(link(), All).is_some());
        assert!(end_orphans(None, All).is_none());
    }
}
