//! Supervisor of one command: starts the command, and stops it in time even if the runner is dead
//! or frozen.
//!
//! The supervisor is the parent of the command, so no command starts without one. If the runner is
//! killed during the start, the connection ends, and the supervisor kills the command or does not
//! start it. It also adopts processes that lose their parent, so it observes the end of each
//! process of the command. Until it reaps them, their process ids cannot denote other processes.
//!
//! It has its own process group. It therefore receives neither the terminal's signals to the
//! runner's group nor the command's signals to its own group. It receives signals to all processes
//! of a service, and catches them without effect.

use super::connection::{self, CommandExit, Order, Report, this_program, to_line};
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

/// Time from SIGKILL to the end of leadership, in which the kernel ends the processes even on a
/// busy machine.
pub const KILL_SLACK: Duration = Duration::from_millis(500);

/// Shortest time from SIGTERM to the end of leadership, even if the stop time is shorter. SIGTERM
/// then comes 50 ms before SIGKILL.
pub const MIN_STOP_TIME: Duration = KILL_SLACK.saturating_add(Duration::from_millis(50));

/// Default time from SIGTERM to the end of leadership.
pub const STOP_TIME: Duration = Duration::from_secs(3);

/// First argument of a command's supervisor. The others are the stop time in milliseconds, the
/// attachment, the command's own name, its file, and its arguments.
const SUPERVISE: &str = "--tenure-supervise";
const ATTACHED: &str = "attached";
const DETACHED: &str = "detached";

/// True once [`supervisor_main`] was called.
static MAIN_WAS_CALLED: AtomicBool = AtomicBool::new(false);

/// A program with its arguments.
#[derive(Clone, Debug)]
pub struct Program {
    /// File to execute.
    pub file: PathBuf,
    /// Argument 0: the name under which the program was called.
    pub name: OsString,
    /// Arguments after argument 0.
    pub arguments: Vec<OsString>,
}

/// Supervises a command and then exits, if this process was started for that. Otherwise returns at
/// once.
///
/// Call this in the first statement of `main`, in each program that runs commands in its turns
/// (`tenure::handler::CommandHandler`). The supervisor of a command is another process of the same
/// program.
pub fn supervisor_main() {
    MAIN_WAS_CALLED.store(true, Ordering::Relaxed);
    let mut args = std::env::args_os().skip(1);
    if args.next().is_none_or(|first| first != SUPERVISE) {
        return;
    }
    // Lists of processes would otherwise show this process as `exe`.
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

/// Returns true if this program has called [`supervisor_main`], so that it can run commands.
pub fn has_supervisor_main() -> bool {
    MAIN_WAS_CALLED.load(Ordering::Relaxed)
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
    parse().ok_or_else(|| io::Error::other("the supervisor got invalid arguments"))
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
    let Some(bounds) = runner.read_bounds(stop_time).await else { return Ok(()) };
    let now = shared::now();
    // A command that would have to stop at once is not started.
    if !matches!(next_action(now, bounds, None), Action::Wait(_)) {
        let timed_out = bounds.is_past_limit(now);
        runner.send(&Report::Gone(CommandExit { ended: None, stopped: true, timed_out })).await;
        return Ok(());
    }
    // Without adoption, the end of processes that leave the group could not be observed.
    let started = adopt_orphans().and_then(|()| ProcessTree::start(&mut command(program, input)));
    let tree = match started {
        Ok(tree) => tree,
        Err(error) => {
            runner.send(&Report::NotStarted(error.to_string())).await;
            return Ok(());
        }
    };
    let foreground = attached.then(|| Foreground::new(&tree, owns_terminal));
    runner.send(&Report::Started(tree.group())).await;
    let command = RunningCommand { tree, foreground, bounds, sigterm_sent: None, is_killed: false };
    let result = command.supervise_until_gone(&mut runner, &mut child_exits).await;
    runner.send(&Report::Gone(result)).await;
    Ok(())
}

/// A command that was started.
struct RunningCommand {
    tree: ProcessTree,
    /// Use of the terminal. `None` if the command is not attached.
    foreground: Option<Foreground>,
    bounds: Bounds,
    /// Instant at which the command was asked to end, or killed, because it was almost out of time.
    sigterm_sent: Option<Duration>,
    is_killed: bool,
}

impl RunningCommand {
    /// Stops the command in time and obeys the runner, until all processes of the command have
    /// exited.
    async fn supervise_until_gone(
        mut self,
        runner: &mut RunnerConnection,
        child_exits: &mut Signal,
    ) -> CommandExit {
        let mut runner_is_gone = false;
        loop {
            let wake = self.send_due_signals();
            if self.tree.is_gone() {
                break;
            }
            if let Some(foreground) = &mut self.foreground {
                foreground.resume_if_stopped(&self.tree);
            }
            let wants_terminal = self.foreground.as_ref().is_some_and(Foreground::wants_terminal);
            let is_ending = self.is_killed || self.tree.ended().is_some();
            select! {
                biased;
                order = runner.next_order(), if !runner_is_gone => match order {
                    Some(order) => self.obey(order),
                    // The runner has ended, or orders the kill.
                    None => {
                        runner_is_gone = true;
                        self.tree.kill();
                        self.is_killed = true;
                    }
                },
                () = shared::sleep_until(wake), if !self.is_killed => {}
                _ = child_exits.recv() => {}
                () = tokio::time::sleep(POLL_INTERVAL), if is_ending => {}
                () = tokio::time::sleep(FOREGROUND_INTERVAL), if wants_terminal && !is_ending => {}
            }
        }
        // The terminal is returned before the end is reported.
        drop(self.foreground);
        let timed_out = self.sigterm_sent.is_some_and(|sent| self.bounds.is_past_limit(sent));
        let stopped = self.sigterm_sent.is_some();
        CommandExit { ended: self.tree.ended(), stopped, timed_out }
    }

    /// Sends the signals that are due. Returns the instant of the next one.
    fn send_due_signals(&mut self) -> Duration {
        while !self.is_killed {
            let now = shared::now();
            match next_action(now, self.bounds, self.sigterm_sent) {
                Action::Wait(at) => return at,
                Action::Terminate => {
                    self.tree.terminate();
                    self.sigterm_sent = Some(now);
                }
                Action::Kill => {
                    self.tree.kill();
                    self.is_killed = true;
                    self.sigterm_sent = self.sigterm_sent.or(Some(now));
                }
            }
        }
        Duration::MAX
    }

    fn obey(&mut self, order: Order) {
        match order {
            Order::Until(at) => self.bounds.until = at,
            Order::Limit(at) => self.bounds.limit = Some(at),
            Order::Signal(number) => match &mut self.foreground {
                Some(foreground) => foreground.signal(number, &self.tree),
                None => self.tree.signal(number),
            },
        }
    }
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

/// Returns true if this process ignores the signal with that number.
///
/// A process that has not caught a signal ignores it if its parent did. Examples are `nohup`, and
/// shells that start background jobs of a script. Returns `None` on systems other than Linux, where
/// this would need unsafe code.
#[must_use]
pub fn is_ignored(number: i32) -> Option<bool> {
    mask_contains(&std::fs::read_to_string("/proc/self/status").ok()?, number)
}

/// Returns true if the mask of ignored signals in a `/proc/PID/status` contains that signal. Signal
/// 1 is the lowest bit. Returns `None` if there is no mask.
fn mask_contains(status: &str, number: i32) -> Option<bool> {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    let mask = u64::from_str_radix(mask.trim(), 16).ok()?;
    let bit = u32::try_from(number).ok()?.checked_sub(1)?;
    Some(mask.checked_shr(bit)? & 1 == 1)
}

/// Returns the command with the environment, standard output and standard error of this process.
fn command(program: &Program, input: Stdio) -> Command {
    let mut command = Command::new(&program.file);
    command.arg0(&program.name).args(&program.arguments).stdin(input).process_group(0);
    command
}

/// Next action for a running command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// Wait until this instant.
    Wait(Duration),
    /// Send SIGTERM.
    Terminate,
    /// Send SIGKILL.
    Kill,
}

/// Deadlines of the work, on the clock of [`shared`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bounds {
    /// End of leadership or of the grace period, as currently known.
    until: Duration,
    /// End of the turn's time limit.
    limit: Option<Duration>,
    /// Time from SIGTERM to the end of leadership or, after the time limit, to SIGKILL.
    stop_time: Duration,
}

impl Bounds {
    /// Returns the instant of SIGKILL. `sigterm_sent` is the instant at which SIGTERM was sent, if
    /// it was. After a SIGTERM for the time limit, at most the stop time remains.
    fn sigkill_at(self, sigterm_sent: Option<Duration>) -> Duration {
        let before_lease_end = self.until.saturating_sub(KILL_SLACK);
        match sigterm_sent {
            Some(sent_at) if self.is_past_limit(sent_at) => {
                before_lease_end.min(sent_at.saturating_add(self.stop_time))
            }
            _ => before_lease_end,
        }
    }

    /// Returns the instant of SIGTERM.
    fn sigterm_at(self) -> Duration {
        let before_lease_end = self.until.saturating_sub(self.stop_time.max(MIN_STOP_TIME));
        self.limit.map_or(before_lease_end, |limit| limit.min(before_lease_end))
    }

    /// Returns true if the turn's time limit has passed at `now`.
    fn is_past_limit(self, now: Duration) -> bool {
        self.limit.is_some_and(|limit| limit <= now)
    }
}

/// Returns the action that is due at `now`. `sigterm_sent` is the instant at which SIGTERM was
/// sent, if it was.
fn next_action(now: Duration, bounds: Bounds, sigterm_sent: Option<Duration>) -> Action {
    let (sigkill_at, sigterm_at) = (bounds.sigkill_at(sigterm_sent), bounds.sigterm_at());
    if now >= sigkill_at {
        Action::Kill
    } else if sigterm_sent.is_some() {
        Action::Wait(sigkill_at)
    } else if now >= sigterm_at {
        Action::Terminate
    } else {
        Action::Wait(sigterm_at)
    }
}

/// Connection to the runner.
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

#[cfg(test)]
mod ignored_signal_tests {
    use super::mask_contains;

    #[test]
    fn the_mask_of_ignored_signals_is_read_where_there_is_one() {
        let status = |mask: &str| format!("Name:\ttenure\nSigBlk:\t0001\nSigIgn:\t{mask}\n");
        let (hangup, interrupt, pipe) = (1, 2, 13);
        for (mask, ignored) in [
            ("0000000000001001", [true, false, true]),
            ("0000000000001000", [false, false, true]),
            ("0000000000000006", [false, true, false]),
        ] {
            let parsed =
                [hangup, interrupt, pipe].map(|number| mask_contains(&status(mask), number));
            assert_eq!(parsed, ignored.map(Some), "{mask}");
        }
        for without_mask in ["", "tenure 17 1 17 17 ttyp0", &status("none")] {
            assert_eq!(mask_contains(without_mask, hangup), None, "{without_mask}");
        }
        for none in [0, -1, 65, i32::MIN] {
            assert_eq!(mask_contains(&status("ffffffffffffffff"), none), None, "{none}");
        }
    }
}

#[cfg(test)]
mod plan_tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn until(until: u64, stop_time: Duration) -> Bounds {
        Bounds { until: ms(until), limit: None, stop_time }
    }

    #[test]
    fn a_command_gets_sigterm_and_then_sigkill_before_the_leadership_ends() {
        let at =
            |now, sent: Option<u64>| next_action(ms(now), until(12_000, STOP_TIME), sent.map(ms));
        assert_eq!(at(0, None), Action::Wait(ms(9_000)));
        assert_eq!(at(8_999, None), Action::Wait(ms(9_000)));
        assert_eq!(at(9_000, None), Action::Terminate);
        assert_eq!(at(9_000, Some(9_000)), Action::Wait(ms(11_500)));
        assert_eq!(at(11_499, Some(9_000)), Action::Wait(ms(11_500)));
        assert_eq!(at(11_500, Some(9_000)), Action::Kill);
        // The process was suspended until then.
        assert_eq!(at(11_500, None), Action::Kill);
        assert_eq!(at(60_000, None), Action::Kill);
    }

    #[test]
    fn an_extended_leadership_postpones_both_signals_and_an_ended_one_kills() {
        assert_eq!(
            next_action(ms(8_000), until(16_000, STOP_TIME), None),
            Action::Wait(ms(13_000))
        );
        let sigterm_sent = Some(ms(9_000));
        assert_eq!(
            next_action(ms(10_000), until(22_000, STOP_TIME), sigterm_sent),
            Action::Wait(ms(21_500))
        );
        assert_eq!(next_action(ms(0), until(0, STOP_TIME), None), Action::Kill);
        assert_eq!(next_action(ms(100), until(1_100, STOP_TIME), None), Action::Terminate);
    }

    #[test]
    fn a_short_stop_time_leaves_time_for_sigterm_and_the_slack() {
        for stop_time in [100, 300, 550] {
            let at = |now, sent: Option<u64>| {
                next_action(ms(now), until(12_000, ms(stop_time)), sent.map(ms))
            };
            assert_eq!(at(0, None), Action::Wait(ms(11_450)));
            assert_eq!(at(11_450, None), Action::Terminate);
            assert_eq!(at(11_450, Some(11_450)), Action::Wait(ms(11_500)));
            assert_eq!(at(11_500, Some(11_450)), Action::Kill);
        }
    }

    #[test]
    fn a_turn_that_takes_too_long_gets_sigterm_at_its_limit_and_sigkill_a_stop_time_later() {
        for limit in [6_000, 3_000, 100] {
            let overtime = STOP_TIME + KILL_SLACK;
            let bounds = Bounds {
                until: ms(limit) + overtime,
                limit: Some(ms(limit)),
                stop_time: STOP_TIME,
            };
            assert_eq!(next_action(ms(0), bounds, None), Action::Wait(ms(limit)));
            assert_eq!(next_action(ms(limit), bounds, None), Action::Terminate);
            let (sigterm_sent, sigkill_at) = (Some(ms(limit)), ms(limit + 3_000));
            assert_eq!(next_action(ms(limit), bounds, sigterm_sent), Action::Wait(sigkill_at));
            assert_eq!(next_action(sigkill_at, bounds, sigterm_sent), Action::Kill);
            assert!(bounds.is_past_limit(ms(limit)) && !bounds.is_past_limit(ms(limit - 1)));
        }
    }

    #[test]
    fn a_leadership_that_ends_before_the_limit_counts() {
        let bounds = Bounds { limit: Some(ms(11_000)), ..until(12_000, STOP_TIME) };
        assert_eq!(next_action(ms(0), bounds, None), Action::Wait(ms(9_000)));
        assert_eq!(next_action(ms(9_000), bounds, Some(ms(9_000))), Action::Wait(ms(11_500)));
        // SIGTERM at the limit, with less than the stop time left.
        let bounds = Bounds { limit: Some(ms(8_900)), ..bounds };
        assert_eq!(next_action(ms(8_900), bounds, Some(ms(8_900))), Action::Wait(ms(11_500)));
    }
}
