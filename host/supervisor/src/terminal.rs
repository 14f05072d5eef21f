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
const ENDING_SIGNALS: [Signal; 4] = [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT];

/// The signals that a terminal sends to a whole process group. A command without the terminal gets them from the runner.
const KEYBOARD_SIGNALS: [Signal; 2] = [Signal::INT, Signal::QUIT];

/// An attached command's place in the foreground of a terminal.
pub(super) struct Foreground {
    /// The terminal that it was given.
    terminal: Option<Terminal>,
    /// The signal that stopped it, unless it was told to go on since.
    stop_signal: Option<i32>,
}

impl Foreground {
    /// Of a command that was just started. One that is `alone` on the terminal is given it.
    pub(super) fn new(tree: &ProcessTree, owns_terminal: bool) -> Self {
        let mut foreground = Self { terminal: None, stop_signal: None };
        if owns_terminal {
            foreground.give_terminal(tree);
        }
        foreground
    }

    /// A command that was stopped by the terminal goes on as soon as it can be given that. One that has it goes on
    /// after Ctrl-Z too: it would keep the lock, and the shell does not know that it stands still.
    pub(super) fn resume_if_stopped(&mut self, tree: &ProcessTree) {
        self.stop_signal = tree.stop_signal().or(self.stop_signal);
        let is_from_keyboard = self.terminal.is_some() && self.was_stopped_by(&[Signal::TSTP]);
        if is_from_keyboard || self.wants_terminal() {
            self.give_terminal(tree);
        }
    }

    /// Returns true if the command is stopped until it has the terminal. Nothing tells when that can be given: a shell need
    /// not send SIGCONT to a job that comes into the foreground, if it does not know it as stopped.
    pub(super) fn wants_terminal(&self) -> bool {
        self.was_stopped_by(&[Signal::TTIN, Signal::TTOU])
    }

    /// Hands a signal on to the command.
    pub(super) fn signal(&mut self, number: i32, tree: &ProcessTree) {
        let is_signal = |signal: &Signal| signal.as_raw() == number;
        self.resume_if_stopped(tree);
        match () {
            () if is_signal(&Signal::CONT) => {}
            // A shell that runs a script leaves these to what it runs.
            () if KEYBOARD_SIGNALS.iter().any(is_signal) => tree.signal_all(number),
            () => tree.signal(number),
        }
        if is_signal(&Signal::CONT) || (self.stop_signal.is_some() && ENDING_SIGNALS.iter().any(is_signal)) {
            self.resume(tree);
        }
    }

    fn was_stopped_by(&self, signals: &[Signal]) -> bool {
        self.stop_signal.is_some_and(|stop_signal| signals.iter().any(|signal| signal.as_raw() == stop_signal))
    }

    /// Puts the command into the foreground, unless somebody else is there. It may have been stopped before.
    fn give_terminal(&mut self, tree: &ProcessTree) {
        let Some(group) = Pid::from_raw(tree.group()) else { return };
        let Some(terminal) = self.terminal.take().or_else(Terminal::open_for_runner) else { return };
        let own_groups = [terminal.runner_group, group];
        if tcgetpgrp(&terminal.file).is_ok_and(|foreground| own_groups.contains(&foreground)) {
            set_foreground(&terminal.file, group);
            self.resume(tree);
        }
        self.terminal = Some(terminal);
    }

    fn resume(&mut self, tree: &ProcessTree) {
        self.stop_signal = None;
        tree.resume();
    }
}

/// The terminal of the runner, which was in the foreground.
struct Terminal {
    file: File,
    /// The runner's process group.
    runner_group: Pid,
}

impl Terminal {
    /// None where the runner, this process's parent, has no terminal or is in the background, or its process group is
    /// outside the container.
    fn open_for_runner() -> Option<Self> {
        let file = open()?;
        let runner_group = Pid::from_raw(getpgid(Some(getppid())).ok()?.as_raw())?;
        (tcgetpgrp(&file).ok()? == runner_group).then_some(Self { file, runner_group })
    }
}

/// The runner is in the foreground again.
impl Drop for Terminal {
    fn drop(&mut self) {
        reclaim_from_dead(&self.file, self.runner_group);
    }
}

/// Puts the group of this process into the foreground of its terminal, if whoever was there is dead: a supervisor that
/// was killed could not give the terminal back.
pub fn reclaim_terminal() {
    if let (Some(file), Some(group)) = (open(), Pid::from_raw(getpgrp().as_raw())) {
        reclaim_from_dead(&file, group);
    }
}

fn open() -> Option<File> {
    File::options().read(true).write(true).open("/dev/tty").ok()
}

/// Puts a group into a foreground that nobody is in any more. A shell may have taken it meanwhile.
fn reclaim_from_dead(terminal: &File, group: Pid) {
    let is_dead = |foreground| test_kill_process_group(foreground) == Err(Errno::SRCH);
    if tcgetpgrp(terminal).is_ok_and(is_dead) {
        set_foreground(terminal, group);
    }
}

fn set_foreground(terminal: &File, group: Pid) {
    // Whoever does so in the background is stopped, unless that signal is blocked.
    let mut blocked = SigSet::empty();
    blocked.add(Number::SIGTTOU);
    let Ok(previous_mask) = blocked.thread_swap_mask(SigmaskHow::SIG_BLOCK) else { return };
    // The terminal may be gone.
    let _ = tcsetpgrp(terminal, group);
    let _ = previous_mask.thread_set_mask();
}
