//! Supervisor of one command: starts the command, and stops it in time even if the runner is dead
//! or frozen.
//!
//! The supervisor is the parent of the command, so no command runs without it. If the runner is
//! killed during the start, the connection ends, and the supervisor kills the command or does not
//! start it. It sees the end of the command and of processes that lost their parent. Only the
//! supervisor knows for sure that a process id still denotes them.
//!
//! It has its own process group. Signals of a terminal to the runner's group therefore do not reach
//! it, nor do signals of the command to its group. Signals to all processes of a service reach it,
//! and are ignored.

use super::connection::{self, this_program, to_line};
use super::ignored::is_ignored;
use super::messages::{CommandExit, Order, Report};
use super::plan::{Action, Bounds, next_action};
use super::terminal::Foreground;
use super::tree::{ProcessTree, adopt_orphans};
use std::ffi::OsString;
use std::io::{self, IsTerminal as _};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tenure_clock::shared;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::{Child, Command as TokioCommand};
use tokio::runtime::Builder;
use tokio::select;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// First argument of a command's supervisor. The others are the stop time in milliseconds, the
/// attachment, the command's own name, its file, and its arguments.
const SUPERVISE: &str = "--tenure-supervise";
const ATTACHED: &str = "attached";
const DETACHED: &str = "detached";

/// True once [`supervisor_main`] was called.
static SUPERVISES: AtomicBool = AtomicBool::new(false);

/// A program with its arguments.
#[derive(Clone, Debug)]
pub struct Program {
    /// The file.
    pub file: PathBuf,
    /// Its argument 0, the name under which it was called.
    pub name: OsString,
    /// Its further arguments.
    pub arguments: Vec<OsString>,
}

/// Supervises a command and does not return, if this process was started for that.
///
/// Call this in the first statement of `main`, in each program that runs commands in its turns
/// (`tenure::handler::CommandHandler`). The supervisor of a command is another process of the same
/// program.
pub fn supervisor_main() {
    SUPERVISES.store(true, Ordering::Relaxed);
    let mut args = std::env::args_os().skip(1);
    if args.next().is_none_or(|first| first != SUPERVISE) {
        return;
    }
    // Otherwise lists of processes would call it `exe`.
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::set_name(c"tenure");
    let result = read_arguments(args).and_then(|(program, stop_time, attached)| {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(supervise(&program, stop_time, attached))
    });
    if let Err(error) = &result {
        eprintln!("tenure: the command could not be supervised: {error}");
    }
    std::process::exit(i32::from(result.is_err()));
}

/// Returns true if the `main` of this program [can supervise](supervisor_main).
pub fn has_supervisor_main() -> bool {
    SUPERVISES.load(Ordering::Relaxed)
}

/// Starts the supervisor of a command with this environment. The supervisor starts the command when
/// it receives the end of leadership.
pub fn start(
    program: &Program,
    variables: &[(OsString, OsString)],
    stop_time: Duration,
    attached: bool,
) -> io::Result<(Child, StdUnixStream)> {
    let (ours, theirs) = connection::pair(attached)?;
    let output = || if attached { Stdio::inherit() } else { Stdio::piped() };
    let supervisor = TokioCommand::new(this_program()?)
        .arg0("tenure")
        .args([SUPERVISE, &stop_time.as_millis().to_string()])
        .arg(if attached { ATTACHED } else { DETACHED })
        .arg(&program.name)
        .arg(&program.file)
        .args(&program.arguments)
        .env_clear()
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .stdin(theirs)
        .stdout(output())
        .stderr(output())
        .process_group(0)
        .spawn()?;
    Ok((supervisor, ours))
}

fn read_arguments(
    mut args: impl Iterator<Item = OsString>,
) -> io::Result<(Program, Duration, bool)> {
    let mut parse = || {
        let stop_time = args.next()?.to_str()?.parse().ok()?;
        let attached = match args.next()?.to_str()? {
            ATTACHED => true,
            DETACHED => false,
            _ => return None,
        };
        let (name, file) = (args.next()?, args.next()?.into());
        let program = Program { file, name, arguments: args.by_ref().collect() };
        Some((program, Duration::from_millis(stop_time), attached))
    };
    parse().ok_or_else(|| io::Error::other("its arguments are not those of a supervisor"))
}

/// Interval between checks for a process group whose last members are not children of this process.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Interval between attempts to give the terminal to a command that waits for it.
const FOREGROUND_INTERVAL: Duration = Duration::from_millis(200);

/// Supervises one run of `program`. An `attached` program has the runner's standard input and
/// terminal.
///
/// # Errors
///
/// Fails if standard input is not a socket, or signals cannot be handled. Nothing was started then.
async fn supervise(program: &Program, stop_time: Duration, attached: bool) -> io::Result<()> {
    let _caught_signals = catch_signals()?;
    let mut child_exits = signal(SignalKind::child())?;
    let (socket, input) = if attached {
        let (socket, stdin) = connection::inherited_with_stdin()?;
        (socket, Some(stdin))
    } else {
        (connection::inherited_socket()?, None)
    };
    let reads_terminal = input.as_ref().is_some_and(|input| input.is_terminal());
    let owns_terminal = reads_terminal && io::stdout().is_terminal();
    let input = input.map_or_else(Stdio::null, Stdio::from);
    let mut runner = RunnerConnection::new(socket)?;
    // The deadline must be known before the command starts.
    let Some(mut bounds) = runner.read_bounds(stop_time).await else { return Ok(()) };
    let now = shared::now();
    // A command that would have to stop at once is not started.
    if !matches!(next_action(now, bounds, None), Action::Wait(_)) {
        let timed_out = bounds.is_past_limit(now);
        runner.send(&Report::Gone(CommandExit { ended: None, stopped: true, timed_out })).await;
        return Ok(());
    }
    // Otherwise the end of processes that leave the group could not be observed.
    let started = adopt_orphans().and_then(|()| ProcessTree::start(&mut command(program, input)));
    let mut tree = match started {
        Ok(tree) => tree,
        Err(error) => {
            runner.send(&Report::NotStarted(error.to_string())).await;
            return Ok(());
        }
    };
    let mut foreground = attached.then(|| Foreground::new(&tree, owns_terminal));
    runner.send(&Report::Started(tree.group())).await;
    let (mut sigterm_sent, mut is_killed, mut runner_is_gone) = (None, false, false);
    loop {
        let now = shared::now();
        let action = match is_killed {
            true => Action::Wait(Duration::MAX),
            false => next_action(now, bounds, sigterm_sent),
        };
        let wake = match action {
            Action::Wait(at) => at,
            Action::Terminate => {
                tree.terminate();
                sigterm_sent = Some(now);
                continue;
            }
            Action::Kill => {
                tree.kill();
                is_killed = true;
                sigterm_sent = sigterm_sent.or(Some(now));
                continue;
            }
        };
        if tree.is_gone() {
            break;
        }
        if let Some(foreground) = &mut foreground {
            foreground.resume_if_stopped(&tree);
        }
        let wants_terminal = foreground.as_ref().is_some_and(Foreground::wants_terminal);
        let is_ending = is_killed || tree.ended().is_some();
        select! {
            biased;
            order = runner.next_order(), if !runner_is_gone => match order {
                Some(Order::Until(at)) => bounds.until = at,
                Some(Order::Limit(at)) => bounds.limit = Some(at),
                Some(Order::Signal(number)) => match &mut foreground {
                    Some(foreground) => foreground.signal(number, &tree),
                    None => tree.signal(number),
                },
                // The runner has ended, or orders the kill.
                None => {
                    runner_is_gone = true;
                    tree.kill();
                    is_killed = true;
                }
            },
            () = shared::sleep_until(wake), if !is_killed => {}
            _ = child_exits.recv() => {}
            () = tokio::time::sleep(POLL_INTERVAL), if is_ending => {}
            () = tokio::time::sleep(FOREGROUND_INTERVAL), if wants_terminal && !is_ending => {}
        }
    }
    // The terminal is returned before the end is reported.
    drop(foreground);
    let timed_out = sigterm_sent.is_some_and(|sent| bounds.is_past_limit(sent));
    let result = CommandExit { ended: tree.ended(), stopped: sigterm_sent.is_some(), timed_out };
    runner.send(&Report::Gone(result)).await;
    Ok(())
}

/// Catches signals without effect, because the command would inherit ignored signals. Signals that
/// were ignored at the start remain ignored, as `nohup` expects.
fn catch_signals() -> io::Result<Vec<Signal>> {
    let kinds = [
        SignalKind::hangup(),
        SignalKind::interrupt(),
        SignalKind::quit(),
        SignalKind::terminate(),
        SignalKind::user_defined1(),
        SignalKind::user_defined2(),
    ];
    let caught = kinds.into_iter().filter(|kind| is_ignored(kind.as_raw_value()) != Some(true));
    caught.map(signal).collect()
}

/// Returns the command with the environment, standard output and standard error of this process.
fn command(program: &Program, input: Stdio) -> Command {
    let mut command = Command::new(&program.file);
    command.arg0(&program.name).args(&program.arguments).stdin(input).process_group(0);
    command
}

/// The runner's end of the socket.
struct RunnerConnection {
    messages: Lines<BufReader<OwnedReadHalf>>,
    writer: OwnedWriteHalf,
}

impl RunnerConnection {
    fn new(socket: StdUnixStream) -> io::Result<Self> {
        let (messages, writer) = UnixStream::from_std(socket)?.into_split();
        Ok(Self { messages: BufReader::new(messages).lines(), writer })
    }

    /// Waits for the bounds of a command that is about to start. Returns `None` if it must not
    /// start.
    async fn read_bounds(&mut self, stop_time: Duration) -> Option<Bounds> {
        let mut limit = None;
        loop {
            match self.next_order().await? {
                Order::Limit(at) => limit = Some(at),
                Order::Until(until) => return Some(Bounds { until, limit, stop_time }),
                Order::Signal(_) => return None,
            }
        }
    }

    /// Waits for the next order. Returns `None` if there are no more. This method is cancel safe.
    async fn next_order(&mut self) -> Option<Order> {
        self.messages.next_line().await.ok().flatten().map(|line| Order::from_line_or_past(&line))
    }

    /// Sends a report. Errors are ignored: supervision continues even if the runner does not read.
    async fn send(&mut self, report: &Report) {
        let _ = self.writer.write_all(to_line(report).as_bytes()).await;
    }
}
