//! The supervisor of one command: it starts the command, and stops it in time even when the runner is dead or stands still.
//!
//! It is the parent of the command, so no command runs without it. If the runner is killed before the command was
//! started, the connection ends, and the command is killed as soon as it is there, if not before. The supervisor sees
//! the end of the command and of whatever lost its parent, and alone knows for sure that a process id still means them.
//!
//! It is in a process group of its own: signals of a terminal to the runner's group do not reach it, nor do signals of the
//! command to its own group. Signals to each process of a service do, and are ignored.

use super::connection::{self, line, this_program};
use super::ignored::ignores;
use super::messages::{Gone, Order, Report};
use super::plan::{Act, Bounds, due};
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

/// The first argument of a command's supervisor. The others: the stop time in milliseconds, whether it is attached, the
/// command's own name, its file, and its arguments.
const SUPERVISE: &str = "--tenure-supervise";
const ATTACHED: &str = "attached";
const DETACHED: &str = "detached";

/// True once [`supervisor_main`] was called.
static SUPERVISES: AtomicBool = AtomicBool::new(false);

/// A program, and what it is started with.
#[derive(Clone, Debug)]
pub struct Program {
    /// The file.
    pub file: PathBuf,
    /// Its first argument: the name that it was called by.
    pub name: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
}

/// Supervises a command, if this process was started for that; it does not return then.
///
/// Call it as the first statement of the `main` of each program that runs commands in its turns
/// (`tenure::handler::CommandHandler`): the supervisor of a command is another process of the same program.
pub fn supervisor_main() {
    SUPERVISES.store(true, Ordering::Relaxed);
    let mut words = std::env::args_os().skip(1);
    if words.next().is_none_or(|first| first != SUPERVISE) {
        return;
    }
    // Else lists of processes would call it `exe`.
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::set_name(c"tenure");
    let ended = read_arguments(words).and_then(|(program, stop_time, attached)| {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(supervise(&program, stop_time, attached))
    });
    if let Err(error) = &ended {
        eprintln!("tenure: the command could not be supervised: {error}");
    }
    std::process::exit(i32::from(ended.is_err()));
}

/// Returns true if the `main` of this program [can supervise](supervisor_main).
pub fn has_supervisor_main() -> bool {
    SUPERVISES.load(Ordering::Relaxed)
}

/// Starts the supervisor of a command with this environment. It starts the command when it is told until when that may run.
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
    mut words: impl Iterator<Item = OsString>,
) -> io::Result<(Program, Duration, bool)> {
    let mut read = || {
        let stop_time = words.next()?.to_str()?.parse().ok()?;
        let attached = match words.next()?.to_str()? {
            ATTACHED => true,
            DETACHED => false,
            _ => return None,
        };
        let (name, file) = (words.next()?, words.next()?.into());
        let program = Program { file, name, arguments: words.by_ref().collect() };
        Some((program, Duration::from_millis(stop_time), attached))
    };
    read().ok_or_else(|| io::Error::other("its arguments are not those of a supervisor"))
}

/// The interval between looks for a process group whose last members are not children of this process.
const LOOK: Duration = Duration::from_millis(10);

/// The interval between attempts to give the terminal to a command that waits for it.
const RETURN: Duration = Duration::from_millis(200);

/// Supervises one run of `program`. One that is `attached` has the runner's standard input, and its terminal.
///
/// # Errors
///
/// Standard input is no socket, or signals cannot be handled. Nothing was started then.
async fn supervise(program: &Program, stop_time: Duration, attached: bool) -> io::Result<()> {
    let _forgotten = forget()?;
    let mut deaths = signal(SignalKind::child())?;
    let (socket, input) = if attached {
        let (socket, stdin) = connection::inherited_with_stdin()?;
        (socket, Some(stdin))
    } else {
        (connection::inherited()?, None)
    };
    let reads = input.as_ref().is_some_and(|input| input.is_terminal());
    let alone = reads && io::stdout().is_terminal();
    let input = input.map_or_else(Stdio::null, Stdio::from);
    let mut runner = Runner::on(socket)?;
    // Before the command is started: from then on there is an instant at which it is killed.
    let Some(mut bounds) = runner.bounds(stop_time).await else { return Ok(()) };
    let now = shared::now();
    // One that would be told to end at once is not started either.
    if !matches!(due(now, bounds, None), Act::Wait(_)) {
        let timed_out = bounds.is_over_time(now);
        runner.tell(&Report::Gone(Gone { ended: None, told: true, timed_out })).await;
        return Ok(());
    }
    // The end of processes that leave the group could not be seen otherwise.
    let started = adopt_orphans().and_then(|()| ProcessTree::start(&mut command(program, input)));
    let mut tree = match started {
        Ok(tree) => tree,
        Err(error) => {
            runner.tell(&Report::NotStarted(error.to_string())).await;
            return Ok(());
        }
    };
    let mut foreground = attached.then(|| Foreground::of(&tree, alone));
    runner.tell(&Report::Started(tree.group())).await;
    let (mut told, mut killed, mut alone) = (None, false, false);
    loop {
        let now = shared::now();
        let act = match killed {
            true => Act::Wait(Duration::MAX),
            false => due(now, bounds, told),
        };
        let wake = match act {
            Act::Wait(at) => at,
            Act::Terminate => {
                tree.tell();
                told = Some(now);
                continue;
            }
            Act::Kill => {
                tree.kill();
                killed = true;
                told = told.or(Some(now));
                continue;
            }
        };
        if tree.is_gone() {
            break;
        }
        if let Some(foreground) = &mut foreground {
            foreground.keep_going(&tree);
        }
        let waits = foreground.as_ref().is_some_and(Foreground::is_wanted);
        let ending = killed || tree.ended().is_some();
        select! {
            biased;
            order = runner.order(), if !alone => match order {
                Some(Order::Until(at)) => bounds.until = at,
                Some(Order::Limit(at)) => bounds.limit = Some(at),
                Some(Order::Signal(number)) => match &mut foreground {
                    Some(foreground) => foreground.signal(number, &tree),
                    None => tree.signal(number),
                },
                // It ended, or it wants the command to: at once.
                None => {
                    alone = true;
                    tree.kill();
                    killed = true;
                }
            },
            () = shared::sleep_until(wake), if !killed => {}
            _ = deaths.recv() => {}
            () = tokio::time::sleep(LOOK), if ending => {}
            () = tokio::time::sleep(RETURN), if waits && !ending => {}
        }
    }
    // Before anybody hears of the end.
    drop(foreground);
    let timed_out = told.is_some_and(|told| bounds.is_over_time(told));
    let gone = Gone { ended: tree.ended(), told: told.is_some(), timed_out };
    runner.tell(&Report::Gone(gone)).await;
    Ok(())
}

/// Signals that are caught and forgotten: one that is ignored would be so in the command too. What was ignored from the
/// beginning stays so, as `nohup` has it.
fn forget() -> io::Result<Vec<Signal>> {
    let forgotten = [
        SignalKind::hangup(),
        SignalKind::interrupt(),
        SignalKind::quit(),
        SignalKind::terminate(),
        SignalKind::user_defined1(),
        SignalKind::user_defined2(),
    ];
    let caught = forgotten.into_iter().filter(|kind| ignores(kind.as_raw_value()) != Some(true));
    caught.map(signal).collect()
}

/// In this process's environment, with standard output and standard error of this process.
fn command(program: &Program, input: Stdio) -> Command {
    let mut command = Command::new(&program.file);
    command.arg0(&program.name).args(&program.arguments).stdin(input).process_group(0);
    command
}

/// The other end of the socket.
struct Runner {
    messages: Lines<BufReader<OwnedReadHalf>>,
    ear: OwnedWriteHalf,
}

impl Runner {
    fn on(socket: StdUnixStream) -> io::Result<Self> {
        let (messages, ear) = UnixStream::from_std(socket)?.into_split();
        Ok(Self { messages: BufReader::new(messages).lines(), ear })
    }

    /// The bounds of a command that is about to be started; none when it is not to be.
    async fn bounds(&mut self, stop_time: Duration) -> Option<Bounds> {
        let mut limit = None;
        loop {
            match self.order().await? {
                Order::Limit(at) => limit = Some(at),
                Order::Until(until) => return Some(Bounds { until, limit, stop_time }),
                Order::Signal(_) => return None,
            }
        }
    }

    /// The next order; none when there will be no more. May be dropped and called again.
    async fn order(&mut self) -> Option<Order> {
        self.messages.next_line().await.ok().flatten().map(|line| Order::read(&line))
    }

    /// A runner that hears nothing any more is no reason to stop watching.
    async fn tell(&mut self, report: &Report) {
        let _ = self.ear.write_all(line(report).as_bytes()).await;
    }
}
