//! The process between the runner and a command: it starts the command, and ends it in time even
//! when the runner does not live to do so, or stands still.
//!
//! It is the parent, so no command runs without it: a runner that is killed before the supervisor has
//! started the command leaves an end of stream behind, and the command is killed as soon as it is
//! there, if not before. It sees the end of
//! the command and of whatever lost its parent, and alone knows for sure that a number still means
//! them. It is in a process group of its own: neither what a terminal sends to the runner's nor what
//! the command sends to its own reaches it; what is sent to each process of a service does, and is
//! ignored.

use super::Program;
use super::attached::receive_stdin;
use super::ignored::ignores;
use super::messages::{Gone, Order, Report};
use super::plan::{Act, Bounds, due};
use super::terminal::Foreground;
use crate::clock::shared;
use crate::family::{Family, adopt_orphans, line};
use std::io::{self, IsTerminal as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::select;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// How often it is looked whether a group is gone whose last members are not this process's children.
const LOOK: Duration = Duration::from_millis(10);

/// How often it is looked whether a command that waits for the terminal can be given it.
const RETURN: Duration = Duration::from_millis(200);

/// Watches over one run of `program`. Standard input is the runner's socket; see
/// `messages`. One that is `attached` has the runner's standard input, and its terminal.
///
/// # Errors
///
/// When standard input is no socket, or signals cannot be handled; nothing was started then.
pub async fn supervise(program: &Program, stop_time: Duration, attached: bool) -> io::Result<()> {
    let _forgotten = forget()?;
    let mut deaths = signal(SignalKind::child())?;
    let socket = StdUnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let input = if attached { Some(receive_stdin(&socket)?) } else { None };
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
    let started = adopt_orphans().and_then(|()| Family::start(&mut command(program, input)));
    let mut family = match started {
        Ok(family) => family,
        Err(error) => {
            runner.tell(&Report::NotStarted(error.to_string())).await;
            return Ok(());
        }
    };
    let mut foreground = attached.then(|| Foreground::of(&family, alone));
    runner.tell(&Report::Started(family.group())).await;
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
                family.tell();
                told = Some(now);
                continue;
            }
            Act::Kill => {
                family.kill();
                killed = true;
                told = told.or(Some(now));
                continue;
            }
        };
        if family.is_gone() {
            break;
        }
        if let Some(foreground) = &mut foreground {
            foreground.keep_going(&family);
        }
        let waits = foreground.as_ref().is_some_and(Foreground::is_wanted);
        let ending = killed || family.ended().is_some();
        select! {
            biased;
            order = runner.order(), if !alone => match order {
                Some(Order::Until(at)) => bounds.until = at,
                Some(Order::Limit(at)) => bounds.limit = Some(at),
                Some(Order::Signal(number)) => match &mut foreground {
                    Some(foreground) => foreground.signal(number, &family),
                    None => family.signal(number),
                },
                // It ended, or it wants the command to: at once.
                None => {
                    alone = true;
                    family.kill();
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
    let gone = Gone { ended: family.ended(), told: told.is_some(), timed_out };
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
    /// Not passed on: what is started is given other standard input, and this copy closes itself.
    fn on(socket: StdUnixStream) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
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
