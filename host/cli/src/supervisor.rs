//! The supervisor of `tenure run` and `tenure lock`: the process that people start, see and signal.
//!
//! ```text
//! supervisor ── runner ── supervisor of a turn ── command ── whatever it starts
//!     └───pipes───┘
//! ```
//!
//! The runner, which runs the elections, is its child: the same program with the same arguments, environment
//! and streams. The supervisor hands signals on to it, and ends with its exit code. It has no engine, and
//! reads no setting and no credential. With each renewal the runner tells it the last will of the
//! leader: the release of the lease, signed already. When the runner is gone by anything but exit code 0, the
//! supervisor kills what is left of its work, sees the end of it, and sends the wills. protocol.md §7.3.
//!
//! When the supervisor of a turn is killed, this one adopts the processes of that turn. It ends them when the runner asks
//! for that.
//!
//! Nobody leads without a supervisor that was there once: where that is killed, so is the runner. Where none can be
//! started the elections run in the process that was started, and the log says that there is no last will.

mod last_words;
mod link;
mod message;
mod wills;

use link::BELL;
pub(super) use link::{Link, Supervised};
pub(super) use message::reread;

use super::lock_codes::{BY_SIGNAL, FAILED, LOST};
use super::service_manager::ServiceManager;
use super::signals::Signals;
use rustix::process::Signal;
use std::ffi::{OsStr, OsString};
use std::io::{self, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};
use std::time::Duration;
use tenure::program::command::reclaim_terminal;
use tenure::program::supervisor::{Ended, Family, adopt_orphans, line, now, this_program};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::unix::pipe::Receiver;
use tokio::runtime::Builder;
use tokio::select;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{sleep, timeout};
use wills::Wills;

/// The first argument of a runner that has a supervisor: its process id, and the runner's ends of both pipes.
const SUPERVISED: &str = "--supervised-by=";

/// How often it is looked whether all is gone whose end is not told.
const LOOK: Duration = Duration::from_millis(10);

/// How long the end of work is waited for that nobody has a last will for, and how long a runner may take until it
/// listens to signals.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long messages are left in the pipe at most, and how many bytes of them: a quarter of what a pipe holds.
const LATER: Duration = Duration::from_secs(20);
const ROOM: usize = 16 * 1024;

/// So many bytes are read before anything else is looked at.
const MOST: usize = 256 * 1024;

/// The exit code of a Rust program that panicked.
const PANICKED: i32 = 101;

/// A signal that comes while wills are sent leaves them so much time.
const HURRY: Duration = Duration::from_secs(1);

/// How this process came about, by its arguments; the runner's own are taken out of them.
pub(super) enum Part {
    /// It runs no election.
    Other,
    /// It was to run elections, and is their supervisor: all is over.
    Supervisor(ExitCode),
    /// It runs elections, and has a supervisor, or why it has none.
    Runner(Result<Supervised, String>),
}

impl Part {
    /// Of the process with these arguments. As the supervisor it returns when the runner has ended.
    pub(super) fn of(words: &mut Vec<OsString>) -> Self {
        if !words.get(1).is_some_and(|command| command == "run" || command == "lock") {
            return Self::Other;
        }
        let first = words.get(2).and_then(|word| word.to_str());
        if let Some(told) = first.and_then(|word| word.strip_prefix(SUPERVISED)) {
            let supervised = Supervised::read(told);
            words.remove(2);
            return Self::Runner(supervised);
        }
        match supervise(words) {
            Ok(code) => Self::Supervisor(code),
            Err(error) => Self::Runner(Err(format!("it could not be supervised: {error}"))),
        }
    }
}

/// Fails before the runner is started, and never afterwards.
fn supervise(words: &[OsString]) -> io::Result<ExitCode> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let code = runtime.block_on(run_supervised(words));
    // A name that is looked up must not hold up the end.
    runtime.shutdown_background();
    code
}

async fn run_supervised(words: &[OsString]) -> io::Result<ExitCode> {
    let lock = words.get(1).is_some_and(|command| command == "lock");
    let mut signals = signals(lock)?;
    let mut deaths = signal(SignalKind::child())?;
    let mut bell = signal(SignalKind::from_raw(BELL.as_raw()))?;
    // Else nobody could tell whether its work is over.
    adopt_orphans()?;
    let (messages, runners_end) = io::pipe()?;
    let messages = Receiver::from_owned_fd(OwnedFd::from(messages))?;
    let (runners_ear, answers) = io::pipe()?;
    // A runner that reads nothing must not block its supervisor.
    rustix::io::ioctl_fionbio(&answers, true)?;
    // They are inherited. The runner closes them to all that it starts itself.
    rustix::io::fcntl_setfd(&runners_end, rustix::io::FdFlags::empty())?;
    rustix::io::fcntl_setfd(&runners_ear, rustix::io::FdFlags::empty())?;
    let (id, end, ear) = (std::process::id(), runners_end.as_raw_fd(), runners_ear.as_raw_fd());
    let supervised = format!("{SUPERVISED}{id}:{end}:{ear}");
    let name = words.first().map_or(OsStr::new("tenure"), OsString::as_os_str);
    let mut runner = Command::new(this_program()?);
    let command = words.get(1).map_or(OsStr::new("run"), OsString::as_os_str);
    runner.arg0(name).arg(command).arg(supervised).args(words.iter().skip(2));
    let mut family = Family::start(&mut runner)?;
    drop((runners_end, runners_ear));

    let (mut wills, manager) = (Wills::default(), ServiceManager::from_env());
    let mut messages = BufReader::new(messages).lines();
    let (mut open, mut give_up) = (true, None);
    let mut held = Held::default();
    let mut pace = Pace { last: now(), next: Duration::ZERO };
    let gone = loop {
        if family.is_gone() {
            break true;
        }
        if wills.begun() || !open || held.too_long(now()) {
            held.release().for_each(|number| hand_on(number, &family));
        }
        if let Some(number) = wills.end_orphans
            && family.end_adopted()
        {
            wills.end_orphans = None;
            let _ = (&answers).write(line(&number).as_bytes());
        }
        let ending = family.ended().is_some();
        if ending && !open {
            let give_up = *give_up.get_or_insert(now() + PATIENCE);
            if now() >= wills.until().max(give_up) {
                break false;
            }
        }
        let wait = if ending { Duration::ZERO } else { pace.next.saturating_sub(now()) };
        select! {
            biased;
            // The loop hands it on at once to a runner that listens. Another one would die of it.
            number = signals.next() => held.hold(number, now()),
            _ = bell.recv() => pace.next = Duration::ZERO,
            _ = deaths.recv() => {}
            // After those: thousands of elections always have something to tell.
            line = messages.next_line(), if open && wait.is_zero() => {
                let (mut line, mut bytes) = (line, 0);
                while let Ok(Some(told)) = &line {
                    bytes += told.len();
                    wills.take(told, manager.as_ref());
                    // Signals are heard too.
                    if bytes > MOST {
                        break;
                    }
                    line = match timeout(Duration::ZERO, messages.next_line()).await {
                        Ok(line) => line,
                        Err(_) => break,
                    };
                }
                open = matches!(line, Ok(Some(_)));
                // A service manager is told at once.
                if manager.is_none() {
                    pace.took(bytes, now());
                }
            }
            () = sleep(wait), if open && !wait.is_zero() => {}
            () = sleep(PATIENCE), if held.is_some() => {}
            () = sleep(LOOK), if ending || wills.end_orphans.is_some() => {}
        }
    };
    // What it wrote last. Its end of the pipe is closed, since it is dead.
    while let Ok(Ok(Some(line))) = timeout(PATIENCE, messages.next_line()).await {
        wills.take(&line, manager.as_ref());
    }
    let ended = family.ended().unwrap_or(Ended::Exit(0));
    let code = code(ended, lock, &wills);
    // A signal from the keyboard is heard while wills are sent.
    if lock {
        reclaim_terminal();
    }
    if ended != Ended::Exit(0) {
        let hurry = async {
            signals.next().await;
            sleep(HURRY).await;
        };
        wills.settle(ended, gone, hurry).await;
    }
    Ok(code)
}

/// Hands a signal on to the runner. One that stands still is to die of what should kill it.
fn hand_on(number: i32, family: &Family) {
    family.signal(number);
    if [Signal::ABORT, Signal::QUIT].iter().any(|signal| signal.as_raw() == number) {
        family.signal(Signal::CONT.as_raw());
    }
}

/// Signals for a runner that may not listen yet.
#[derive(Debug, Default)]
struct Held {
    /// In their order.
    numbers: Vec<i32>,
    /// How long they are held at most.
    until: Duration,
}

impl Held {
    fn hold(&mut self, number: i32, now: Duration) {
        if self.numbers.is_empty() {
            self.until = now + PATIENCE;
        }
        self.numbers.push(number);
    }

    fn is_some(&self) -> bool {
        !self.numbers.is_empty()
    }

    fn too_long(&self, now: Duration) -> bool {
        now >= self.until
    }

    fn release(&mut self) -> impl Iterator<Item = i32> {
        std::mem::take(&mut self.numbers).into_iter()
    }
}

/// When the pipe is to be read again. A will is of use only when the runner has died, and what the pipe holds then is read: to
/// wake up for each would cost more than to renew the lease.
#[derive(Debug, Default)]
struct Pace {
    last: Duration,
    next: Duration,
}

impl Pace {
    /// So many bytes were read at `now`.
    fn took(&mut self, bytes: usize, now: Duration) {
        let elapsed = now.saturating_sub(self.last);
        let filled = u32::try_from(ROOM / bytes.max(1)).unwrap_or(u32::MAX);
        *self = Self { last: now, next: now + elapsed.saturating_mul(filled).min(LATER) };
    }
}

/// The one that the child told, or else its own; of one that was killed what shells make of it, unless that would
/// be taken for the end of the command of a lock.
fn code(ended: Ended, lock: bool, wills: &Wills) -> ExitCode {
    if let Some(code) = wills.code {
        return ExitCode::from(code);
    }
    let code = match ended {
        // It ends so on purpose only before anything began, and a panic is no end of a command.
        Ended::Exit(code) if !lock || code != PANICKED => code,
        _ if lock && wills.until() > Duration::ZERO => i32::from(LOST),
        // From a terminal, before it listened.
        Ended::Signal(number @ (1..=3 | 15)) if lock && !wills.begun() => BY_SIGNAL + number,
        _ if lock => i32::from(FAILED),
        Ended::Exit(code) => code,
        Ended::Signal(number) => BY_SIGNAL + number,
    };
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}

/// What is handed on to the runner. A terminal sends to both of them: the runner takes what comes twice within
/// a second for once.
fn signals(lock: bool) -> io::Result<Signals> {
    let handed_on = [
        SignalKind::terminate(),
        SignalKind::interrupt(),
        SignalKind::quit(),
        SignalKind::user_defined1(),
        SignalKind::user_defined2(),
        // With it systemd ends what shows no sign of life any more.
        SignalKind::from_raw(Signal::ABORT.as_raw()),
    ];
    // A lock is a part of the script that it is in, and ignores what that has its jobs ignore.
    if lock { Signals::unless_ignored(&handed_on) } else { Signals::all(&handed_on) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_supervisor_adds_is_no_argument_of_the_runner() {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        let mut given = words("tenure status --supervised-by=1:9");
        assert!(matches!(Part::of(&mut given), Part::Other));
        assert_eq!(given.len(), 3);
        for wrong in ["x", "1:x:4", "1:3", "0:3:4", "-1:3:4", "1:3:x", "::"] {
            let mut given = words(&format!("tenure run --supervised-by={wrong} --every 5s"));
            assert!(matches!(Part::of(&mut given), Part::Runner(Err(_))), "{wrong}");
            assert_eq!(given, words("tenure run --every 5s"));
        }
    }

    #[test]
    fn signals_are_held_together_and_in_their_order() {
        let (mut held, s) = (Held::default(), Duration::from_secs);
        assert!(!held.is_some());
        held.hold(15, s(100));
        held.hold(2, s(103));
        assert!(held.is_some() && !held.too_long(s(104)));
        // The second one does not put the first one off.
        assert!(held.too_long(s(105)));
        assert_eq!(held.release().collect::<Vec<_>>(), [15, 2]);
        assert!(!held.is_some());
        held.hold(1, s(110));
        assert!(!held.too_long(s(111)));
    }

    #[test]
    fn messages_are_left_in_the_pipe_while_there_is_room() {
        let (s, mut pace) = (Duration::from_secs, Pace::default());
        assert_eq!(pace.next, Duration::ZERO);
        // One leader.
        pace.took(500, s(100));
        assert_eq!(pace.next, s(120));
        pace.took(2_500, s(120));
        assert_eq!(pace.next, s(140));
        // Thousands.
        pace.took(8 * ROOM, s(140));
        assert_eq!(pace.next, s(140));
        pace.took(ROOM / 4, s(141));
        assert_eq!(pace.next, s(145));
    }

    #[test]
    fn the_exit_code_is_the_runners() {
        use crate::log::{Format, Output};
        use message::Message;
        let mut wills = Wills::default();
        for (ended, lock, expected) in [
            (Ended::Exit(0), false, 0),
            (Ended::Exit(101), false, 101),
            (Ended::Signal(9), false, 137),
            (Ended::Exit(127), true, 127),
            (Ended::Exit(101), true, 125),
            (Ended::Signal(2), true, 130),
            (Ended::Signal(9), true, 125),
        ] {
            assert_eq!(code(ended, lock, &wills), ExitCode::from(expected));
        }
        let (format, output) = (Format::Text, Output::Stderr);
        wills.take(line(&Message::Log { format, output }).trim_end(), None);
        assert_eq!(code(Ended::Signal(9), true, &wills), ExitCode::from(125));
        wills.take(line(&Message::Exit(3)).trim_end(), None);
        for ended in [Ended::Exit(0), Ended::Exit(101), Ended::Signal(9)] {
            assert_eq!(code(ended, true, &wills), ExitCode::from(3));
        }
    }
}
