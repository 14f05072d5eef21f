//! Handler that runs a program for each turn, and stops it before leadership ends.
//!
//! Each run has a [command supervisor](tenure_supervisor), the parent process of the command. The
//! runner sends it each new deadline of the work. That is the earliest of the end of leadership,
//! the time limit with overtime, and the end of the grace period. The command supervisor sends
//! SIGTERM to the command's process group at the time limit, but at the latest one stop time before
//! the deadline. It sends SIGKILL shortly before the deadline. It kills the group at once when its
//! connection to the runner ends, because the turn or the runner has then ended. A runner that is
//! killed or frozen therefore takes its work with it, without relying on the margin of the lease.
//!
//! If the command supervisor is killed, the connection ends too: the runner kills the group, and
//! the turn counts as trapped. The runner cannot kill a group that was not reported to it yet. On
//! Linux, the runner's supervisor has adopted such a command, and the processes that left the
//! group. The runner asks it to end them, and the turn is over when they have exited. These
//! processes go on if the list of the supervisor's children is incomplete. They also go on if the
//! runner has no supervisor, as in programs that use the library.
//!
//! If the runner and the command supervisor are killed at the same moment but the command is not,
//! the runner's supervisor ends it, on Linux. Otherwise the command goes on. `PR_SET_PDEATHSIG`
//! could end it, but must be set between fork and exec, by unsafe code or another program. It would
//! also reach only the command, not its descendants. Tools that kill this way, like systemd and
//! container engines, kill a whole cgroup.
//!
//! Processes that the command leaves behind when it ends are killed too. The turn is over when all
//! its processes have exited.

mod attached;
mod run;

pub use attached::{AttachedCommand, CommandEnd};

use super::lines::{HandlerLines, LineSink, Lines, Stream};
use super::{BoxFuture, Handler, TurnEnd, is_withheld};
use crate::lease::{Lease, TraceParent};
use chrono::{DateTime, SecondsFormat, Utc};
use run::{Run, RunOutcome, turn_end};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tenure_clock::{BootClock, Clock as _, shared};
use tenure_core::{Share, Turn};
use tenure_supervisor::{
    KILL_SLACK, Link, MIN_STOP_TIME, Program, STOP_TIME, Visibility, has_supervisor_main,
    visibility,
};
use thiserror::Error;
use tokio::sync::{oneshot, watch};

/// Settings of a command for all its turns.
pub struct CommandSettings {
    /// Variables to set. The command also inherits the variables of this process, except the
    /// election's.
    pub env: Vec<(String, String)>,
    /// Time from SIGTERM to the end of leadership or of the grace period, and from the time limit
    /// to SIGKILL. In the first case, a shorter time than 550 ms counts as 550 ms.
    pub stop_time: Duration,
    /// Called with each line of output, within the same limits as for a component. An attached
    /// command writes to the streams of this process instead.
    pub output: LineSink,
    /// Attaches the command to the streams and signals of this process, for one run.
    pub attached: Option<Arc<AttachedCommand>>,
    /// Connection to the runner's supervisor, if this process has one. That supervisor adopts the
    /// processes that a command leaves behind when the command supervisor is killed.
    pub supervisor: Option<Arc<Link>>,
}

/// Uses a stop time of 3 s. Lines go to standard output and standard error of this process.
impl Default for CommandSettings {
    fn default() -> Self {
        let output: LineSink = Arc::new(|stream, line| {
            // Fails if the reader of the stream has closed it.
            let _ = match stream {
                Stream::Stdout => writeln!(io::stdout(), "{line}"),
                Stream::Stderr => writeln!(io::stderr(), "{line}"),
            };
        });
        let (env, stop_time) = (Vec::new(), STOP_TIME);
        Self { env, stop_time, output, attached: None, supervisor: None }
    }
}

/// Asks the runner's supervisor to kill the orphans that it adopted, and waits until none is left.
type EndOrphans = Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

/// Returns the function that ends orphans through `supervisor`, the runner's supervisor.
///
/// Returns `None` if there is none, or if its list of children is incomplete, so that it could
/// never respond.
fn end_orphans(supervisor: Option<Arc<Link>>, visibility: Visibility) -> Option<EndOrphans> {
    let link = supervisor.filter(|_| visibility == Visibility::All)?;
    Some(Arc::new(move || {
        let link = link.clone();
        Box::pin(async move { link.end_orphans().await })
    }))
}

/// Handler that runs a program for each turn.
///
/// ```no_run
/// use tenure::handler::{CommandHandler, CommandSettings};
/// use tenure::settings::{Credential, Schedule, Settings};
/// use tenure::{Elector, shutdown_signal, supervisor_main};
///
/// #[tokio::main]
/// async fn run() -> Result<(), Box<dyn std::error::Error>> {
///     let command = ["/usr/local/bin/backup".into(), "--all".into()];
///     let command = CommandHandler::new(&command, CommandSettings::default())?;
///     let settings = Settings::new("jobs/backup", Credential::Environment);
///     let daily = Schedule::Cron { expression: "0 3 * * *".into(), time_zone: None };
///     let membership = Elector::new(settings)?.start_with_handler(daily, command)?;
///     shutdown_signal().await;
///     membership.leave().await;
///     Ok(())
/// }
///
/// fn main() -> Result<(), Box<dyn std::error::Error>> {
///     // Must come first: commands are supervised by another process of this program.
///     supervisor_main();
///     run()
/// }
/// ```
pub struct CommandHandler {
    program: Program,
    variables: Variables,
    stop_time: Duration,
    lines: HandlerLines,
    /// True while processes of a turn may still run.
    is_running: watch::Sender<bool>,
    attached: Option<Arc<AttachedCommand>>,
    /// `None` if nothing can end the processes that a command leaves behind when the command
    /// supervisor is killed.
    end_orphans: Option<EndOrphans>,
}

impl CommandHandler {
    /// Creates a handler for the program that the first word of `command` names. A bare name is
    /// looked up on the command's `PATH`.
    ///
    /// # Errors
    ///
    /// Fails if no program is named, or it does not exist or is not executable. Also fails if
    /// `main` does not call [`supervisor_main`](crate::supervisor_main).
    pub fn new(command: &[OsString], settings: CommandSettings) -> Result<Self, NotRunnable> {
        let (name, arguments) = command.split_first().ok_or(NotRunnable::NoProgram)?;
        if !has_supervisor_main() {
            return Err(NotRunnable::NoSupervisor);
        }
        let variables = base_variables(std::env::vars_os(), settings.env.clone());
        // The last variable of a name wins.
        let path = variables.iter().rev().find(|(name, _)| name == "PATH").map(|(_, path)| path);
        let file = resolve_program(name, path.map(OsString::as_os_str))?;
        let program = Program { file, name: name.clone(), arguments: arguments.to_vec() };
        let lines = HandlerLines::new(Some(settings.output.clone()), BootClock::new().handle());
        let is_running = watch::Sender::new(false);
        let CommandSettings { stop_time, attached, supervisor, .. } = settings;
        let end_orphans = end_orphans(supervisor, visibility());
        Ok(Self { program, variables, stop_time, lines, is_running, attached, end_orphans })
    }

    /// Returns the absolute path of the program.
    pub fn file(&self) -> &Path {
        &self.program.file
    }

    async fn run_turn(&self, turn: Turn, lease: Lease) -> TurnEnd {
        let attached = self.attached.clone();
        let signals = match attached.as_ref().map(|attached| attached.start()) {
            // The command was cancelled, or has already run.
            Some(None) => return TurnEnd::CutOff,
            Some(signals) => signals,
            None => None,
        };
        let limit = turn.time_limit.map(|limit| shared::now() + limit);
        let mut variables = self.variables.clone();
        variables.extend(turn_variables(&turn, Utc::now(), lease.remaining()));
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
        // Dropping `_stop` together with this future orders the kill.
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

    /// Returns the sinks of standard output and standard error.
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
            // Cannot fail: the sender is a field of `self`.
            let _ = self.is_running.subscribe().wait_for(|is_running| !is_running).await;
        })
    }

    /// Returns the stop time. The end of the grace period becomes the deadline, so SIGTERM is due
    /// at once.
    fn grace(&self) -> Duration {
        self.stop_time.max(MIN_STOP_TIME)
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

/// Names and values.
type Variables = Vec<(OsString, OsString)>;

/// Returns the inherited variables that a command may see, and the configured ones.
fn base_variables(
    inherited: impl Iterator<Item = (OsString, OsString)>,
    configured: Vec<(String, String)>,
) -> Variables {
    let inherited = inherited.filter(|(name, _)| !is_withheld(name));
    inherited
        .chain(configured.into_iter().map(|(name, value)| (name.into(), value.into())))
        .collect()
}

/// Returns the variables that describe a turn. Leadership lasts for `time_left` from `now`.
fn turn_variables(turn: &Turn, now: DateTime<Utc>, time_left: Duration) -> Variables {
    let time_left = chrono::Duration::from_std(time_left.saturating_sub(KILL_SLACK));
    let deadline = time_left.ok().and_then(|left| now.checked_add_signed(left));
    let deadline =
        deadline.unwrap_or(DateTime::<Utc>::MAX_UTC).to_rfc3339_opts(SecondsFormat::Millis, true);
    let mut variables = vec![
        ("TENURE_ELECTION", turn.election.clone()),
        ("TENURE_IDEMPOTENCY_KEY", turn.key.clone()),
        ("TENURE_TERM", turn.term.to_string()),
        ("TENURE_SLOT", turn.slot.to_rfc3339()),
        ("TENURE_ATTEMPT", turn.attempt.to_string()),
        ("TENURE_PAST_DUE", turn.past_due.to_string()),
        ("TENURE_MISSED_SLOTS", turn.missed.to_string()),
        ("TENURE_DEADLINE", deadline),
    ];
    variables.extend(turn.trigger.clone().map(|id| ("TENURE_TRIGGER", id)));
    let share = turn.share.map(|Share { index, count }| {
        [("TENURE_SHARE_INDEX", index.to_string()), ("TENURE_SHARE_COUNT", count.to_string())]
    });
    variables.extend(share.into_iter().flatten());
    variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect()
}

/// Reason why a program cannot be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NotRunnable {
    /// The command has no words.
    #[error("the command is empty")]
    NoProgram,
    /// There is no file at that path.
    #[error("there is no such file")]
    Missing,
    /// No directory of `PATH` contains the program.
    #[error("no directory of PATH holds a program of this name")]
    NotOnPath,
    /// The path is not a file, or the file is not executable.
    #[error("the program is not an executable file")]
    NotExecutable,
    /// `main` does not begin with [`supervisor_main`](crate::supervisor_main).
    #[error("`tenure::supervisor_main()` is not the first statement of this program's `main`")]
    NoSupervisor,
}

/// Returns the path of `program`. A name without a slash is looked up in the folders of `path`, and
/// the first executable file wins.
///
/// # Errors
///
/// Fails if there is no such executable file.
fn resolve_program(program: &OsStr, path: Option<&OsStr>) -> Result<PathBuf, NotRunnable> {
    if program.as_encoded_bytes().contains(&b'/') {
        // The command has the same working directory, but an absolute path is clearer in a list of
        // processes.
        let file = std::path::absolute(program).map_err(|_| NotRunnable::Missing)?;
        return check_executable(&file).map(|()| file);
    }
    let mut problem = NotRunnable::NotOnPath;
    for folder in search_folders(path.unwrap_or_default()) {
        let file = folder.join(program);
        match check_executable(&file) {
            Ok(()) => return std::path::absolute(&file).map_err(|_| NotRunnable::Missing),
            Err(NotRunnable::NotExecutable) if file.is_file() => {
                problem = NotRunnable::NotExecutable;
            }
            Err(_) => {}
        }
    }
    Err(problem)
}

/// Returns the folders of a `PATH`.
///
/// To POSIX an empty entry is the working directory. It is skipped, because a missing value or an
/// extra colon must not make a handler run a file of that directory.
fn search_folders(path: &OsStr) -> impl Iterator<Item = PathBuf> {
    std::env::split_paths(path).filter(|folder| !folder.as_os_str().is_empty())
}

fn check_executable(file: &Path) -> Result<(), NotRunnable> {
    let Ok(metadata) = file.metadata() else { return Err(NotRunnable::Missing) };
    match metadata.is_file() && metadata.permissions().mode() & 0o111 != 0 {
        true => Ok(()),
        false => Err(NotRunnable::NotExecutable),
    }
}

#[cfg(test)]
mod environment_tests {
    use super::*;
    use tenure_core::Timestamp;

    fn pairs(variables: &[(&str, &str)]) -> Variables {
        variables.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    #[test]
    fn election_variables_are_withheld_unless_configured() {
        let inherited = pairs(&[
            ("PATH", "/bin"),
            ("AZURE_STORAGE_KEY", "secret"),
            ("TENURE_HANDLER_SECRET", "secret"),
            ("NOTIFY_SOCKET", "/run/notify"),
            ("WATCHDOG_USEC", "1"),
            ("AZURE_CLIENT_ID", "me"),
        ]);
        let configured = vec![("AZURE_STORAGE_KEY".to_owned(), "other".to_owned())];
        let visible = base_variables(inherited.into_iter(), configured);
        assert_eq!(
            visible,
            pairs(&[("PATH", "/bin"), ("AZURE_CLIENT_ID", "me"), ("AZURE_STORAGE_KEY", "other")])
        );
    }

    #[test]
    fn the_variables_of_a_turn_include_its_kill_time() {
        let mut turn = Turn {
            election: "jobs/report".to_owned(),
            key: "acme/jobs/report/1970-01-01T00:00:01.500Z".to_owned(),
            term: 7,
            slot: Timestamp(1_500_000_000),
            trigger: None,
            attempt: 2,
            past_due: true,
            missed: 3,
            valid_for: Duration::from_nanos(1),
            time_limit: None,
            share: None,
        };
        let now = DateTime::from_timestamp_millis(1_000).unwrap();
        let mut expected = pairs(&[
            ("TENURE_ELECTION", "jobs/report"),
            ("TENURE_IDEMPOTENCY_KEY", "acme/jobs/report/1970-01-01T00:00:01.500Z"),
            ("TENURE_TERM", "7"),
            ("TENURE_SLOT", "1970-01-01T00:00:01.500Z"),
            ("TENURE_ATTEMPT", "2"),
            ("TENURE_PAST_DUE", "true"),
            ("TENURE_MISSED_SLOTS", "3"),
            ("TENURE_DEADLINE", "1970-01-01T00:00:12.500Z"),
        ]);
        assert_eq!(turn_variables(&turn, now, Duration::from_secs(12)), expected);
        turn.trigger = Some("release-3".to_owned());
        turn.share = Some(Share { index: 3, count: 8 });
        expected.extend(pairs(&[
            ("TENURE_TRIGGER", "release-3"),
            ("TENURE_SHARE_INDEX", "3"),
            ("TENURE_SHARE_COUNT", "8"),
        ]));
        assert_eq!(turn_variables(&turn, now, Duration::from_secs(12)), expected);
        // Years ahead must not panic.
        turn_variables(&turn, now, Duration::MAX);
    }
}

#[cfg(test)]
mod program_lookup_tests {
    use super::*;
    use std::fs::{self, Permissions};

    #[test]
    fn a_program_is_looked_up_as_a_shell_does() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for (file, mode) in [("first/run", 0o644), ("second/run", 0o755), ("first/data", 0o644)] {
            fs::create_dir_all(at(file).parent().unwrap()).unwrap();
            fs::write(at(file), "").unwrap();
            fs::set_permissions(at(file), Permissions::from_mode(mode)).unwrap();
        }
        let path = std::env::join_paths([at("nowhere"), at("first"), at("second")]).unwrap();
        let found = |name: &str| resolve_program(OsStr::new(name), Some(&path));
        assert_eq!(found("run"), Ok(at("second/run")));
        assert_eq!(found("data"), Err(NotRunnable::NotExecutable));
        assert_eq!(found("other"), Err(NotRunnable::NotOnPath));
        assert_eq!(resolve_program(OsStr::new("run"), None), Err(NotRunnable::NotOnPath));
        let direct = |name: &str| resolve_program(at(name).as_os_str(), None);
        assert_eq!(direct("second/run"), Ok(at("second/run")));
        assert_eq!(direct("first/run"), Err(NotRunnable::NotExecutable));
        assert_eq!(direct("first"), Err(NotRunnable::NotExecutable));
        assert_eq!(direct("third"), Err(NotRunnable::Missing));
    }

    #[test]
    fn an_empty_entry_of_path_is_skipped() {
        let folders = |path: &str| search_folders(OsStr::new(path)).collect::<Vec<_>>();
        assert_eq!(folders(":/bin::.:"), [Path::new("/bin"), Path::new(".")]);
        assert_eq!(folders(""), [] as [PathBuf; 0]);
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
    fn an_empty_command_names_no_program() {
        let handler = CommandHandler::new(&[], CommandSettings::default());
        assert_eq!(handler.unwrap_err(), NotRunnable::NoProgram);
    }

    #[test]
    fn the_grace_period_is_the_stop_time() {
        let grace = |stop_time| {
            let program =
                Program { file: "/bin/true".into(), name: "true".into(), arguments: vec![] };
            let lines = HandlerLines::new(None, BootClock::new().handle());
            let handler = CommandHandler {
                program,
                variables: Vec::new(),
                stop_time,
                lines,
                is_running: watch::Sender::new(false),
                attached: None,
                end_orphans: None,
            };
            handler.grace()
        };
        assert_eq!(grace(STOP_TIME), STOP_TIME);
        assert_eq!(grace(Duration::ZERO), MIN_STOP_TIME);
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
