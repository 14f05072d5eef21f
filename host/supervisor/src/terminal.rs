//! The terminal, which an attached command has while it runs.
//!
//! The command leads a process group of its own, so that it can be killed with all its kin. Only a group in the
//! foreground may read the terminal, and hears of Ctrl-C. So it is put there for as long as it runs, if it reads from
//! and writes to a terminal alone. In a pipeline it shares the terminal with others, who would be stopped when they
//! read it: there it is put into the foreground only once it was stopped for want of that.

use super::tree::ProcessTree;
use nix::sys::signal::{SigSet, SigmaskHow, Signal as Number};
use nix::unistd::{getpgid, getpgrp, getppid};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, test_kill_process_group};
use rustix::termios::{tcgetpgrp, tcsetpgrp};
use std::fs::File;

/// The signals that ask a process to end. A stopped process gets them when it goes on.
const ENDING: [Signal; 4] = [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT];

/// The signals that a terminal sends to a whole process group. A command without the terminal gets them from the runner.
const FROM_KEYBOARD: [Signal; 2] = [Signal::INT, Signal::QUIT];

/// An attached command's place in the foreground of a terminal.
pub(super) struct Foreground {
    /// The terminal that it was given.
    terminal: Option<Terminal>,
    /// The signal that stopped it, unless it was told to go on since.
    stopped: Option<i32>,
}

impl Foreground {
    /// Of a command that was just started. One that is `alone` on the terminal is given it.
    pub(super) fn of(tree: &ProcessTree, alone: bool) -> Self {
        let mut this = Self { terminal: None, stopped: None };
        if alone {
            this.give(tree);
        }
        this
    }

    /// A command that was stopped by the terminal goes on as soon as it can be given that. One that has it goes on
    /// after Ctrl-Z too: it would keep the lock, and the shell does not know that it stands still.
    pub(super) fn keep_going(&mut self, tree: &ProcessTree) {
        self.stopped = tree.stopped().or(self.stopped);
        let from_keyboard = self.terminal.is_some() && self.was_stopped_by(&[Signal::TSTP]);
        if from_keyboard || self.is_wanted() {
            self.give(tree);
        }
    }

    /// Returns true if the command is stopped until it has the terminal. Nothing tells when that can be given: a shell need
    /// not send SIGCONT to a job that comes into the foreground, if it does not know it as stopped.
    pub(super) fn is_wanted(&self) -> bool {
        self.was_stopped_by(&[Signal::TTIN, Signal::TTOU])
    }

    /// Hands a signal on to the command.
    pub(super) fn signal(&mut self, number: i32, tree: &ProcessTree) {
        let is = |signal: &Signal| signal.as_raw() == number;
        self.keep_going(tree);
        match () {
            () if is(&Signal::CONT) => {}
            // A shell that runs a script leaves these to what it runs.
            () if FROM_KEYBOARD.iter().any(is) => tree.signal_all(number),
            () => tree.signal(number),
        }
        if is(&Signal::CONT) || (self.stopped.is_some() && ENDING.iter().any(is)) {
            self.go_on(tree);
        }
    }

    fn was_stopped_by(&self, signals: &[Signal]) -> bool {
        self.stopped.is_some_and(|by| signals.iter().any(|signal| signal.as_raw() == by))
    }

    /// Puts the command into the foreground, unless somebody else is there. It may have been stopped before.
    fn give(&mut self, tree: &ProcessTree) {
        let Some(group) = Pid::from_raw(tree.group()) else { return };
        let Some(terminal) = self.terminal.take().or_else(Terminal::of_runner) else { return };
        let ours = [terminal.runners, group];
        if tcgetpgrp(&terminal.file).is_ok_and(|foreground| ours.contains(&foreground)) {
            put(&terminal.file, group);
            self.go_on(tree);
        }
        self.terminal = Some(terminal);
    }

    fn go_on(&mut self, tree: &ProcessTree) {
        self.stopped = None;
        tree.go_on();
    }
}

/// The terminal of the runner, which was in the foreground.
struct Terminal {
    file: File,
    /// The runner's process group.
    runners: Pid,
}

impl Terminal {
    /// None where the runner, this process's parent, has no terminal or is in the background, or its process group is
    /// outside the container.
    fn of_runner() -> Option<Self> {
        let file = open()?;
        let runners = Pid::from_raw(getpgid(Some(getppid())).ok()?.as_raw())?;
        (tcgetpgrp(&file).ok()? == runners).then_some(Self { file, runners })
    }
}

/// The runner is in the foreground again.
impl Drop for Terminal {
    fn drop(&mut self) {
        inherit(&self.file, self.runners);
    }
}

/// Puts the group of this process into the foreground of its terminal, if whoever was there is dead: a supervisor that
/// was killed could not give the terminal back.
pub fn reclaim_terminal() {
    if let (Some(file), Some(group)) = (open(), Pid::from_raw(getpgrp().as_raw())) {
        inherit(&file, group);
    }
}

fn open() -> Option<File> {
    File::options().read(true).write(true).open("/dev/tty").ok()
}

/// Puts a group into a foreground that nobody is in any more. A shell may have taken it meanwhile.
fn inherit(terminal: &File, group: Pid) {
    let dead = |foreground| test_kill_process_group(foreground) == Err(Errno::SRCH);
    if tcgetpgrp(terminal).is_ok_and(dead) {
        put(terminal, group);
    }
}

fn put(terminal: &File, group: Pid) {
    // Whoever does so in the background is stopped, unless that signal is blocked.
    let mut blocked = SigSet::empty();
    blocked.add(Number::SIGTTOU);
    let Ok(before) = blocked.thread_swap_mask(SigmaskHow::SIG_BLOCK) else { return };
    // The terminal may be gone.
    let _ = tcsetpgrp(terminal, group);
    let _ = before.thread_set_mask();
}
