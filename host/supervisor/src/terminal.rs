//! Terminal of an attached command while it runs.
//!
//! The command leads its own process group, so that it can be killed with all its descendants. Only
//! the foreground group may read the terminal, and receives Ctrl-C. The command is therefore put
//! into the foreground if it is the only user of the terminal.
//!
//! In a pipeline it shares the terminal with other processes, which would be stopped when they read
//! it. There the command is put into the foreground only after it was stopped by the terminal.

use super::tree::ProcessTree;
use nix::sys::signal::{SigSet, SigmaskHow, Signal as Number};
use nix::unistd::{getpgid, getpgrp, getppid};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, test_kill_process_group};
use rustix::termios::{tcgetpgrp, tcsetpgrp};
use std::fs::File;

/// Signals that ask a process to end. A stopped process receives them when it resumes.
const ENDING_SIGNALS: [Signal; 4] = [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT];

/// Signals that a terminal sends to a whole process group. A command without the terminal gets them
/// from the runner.
const KEYBOARD_SIGNALS: [Signal; 2] = [Signal::INT, Signal::QUIT];

/// Foreground control for an attached command.
pub(super) struct Foreground {
    /// The terminal, once the command has it.
    terminal: Option<Terminal>,
    /// Signal that stopped the command, unless it was resumed since.
    stop_signal: Option<i32>,
}

impl Foreground {
    /// Creates the control for a command that was just started. A command that `owns_terminal` is
    /// put into the foreground.
    pub(super) fn new(tree: &ProcessTree, owns_terminal: bool) -> Self {
        let mut foreground = Self { terminal: None, stop_signal: None };
        if owns_terminal {
            foreground.give_terminal(tree);
        }
        foreground
    }

    /// Resumes a command that was stopped by the terminal, as soon as it can have the terminal.
    ///
    /// A command with the terminal is resumed even after Ctrl-Z. It would otherwise keep the lock,
    /// and the shell does not know that it is stopped.
    pub(super) fn resume_if_stopped(&mut self, tree: &ProcessTree) {
        self.stop_signal = tree.stop_signal().or(self.stop_signal);
        let is_from_keyboard = self.terminal.is_some() && self.was_stopped_by(&[Signal::TSTP]);
        if is_from_keyboard || self.wants_terminal() {
            self.give_terminal(tree);
        }
    }

    /// Returns true if the command is stopped until it has the terminal.
    ///
    /// No event shows when it can have the terminal. A shell need not send SIGCONT to a foreground
    /// job that it does not know as stopped.
    pub(super) fn wants_terminal(&self) -> bool {
        self.was_stopped_by(&[Signal::TTIN, Signal::TTOU])
    }

    /// Forwards a signal to the command.
    pub(super) fn signal(&mut self, number: i32, tree: &ProcessTree) {
        let is_signal = |signal: &Signal| signal.as_raw() == number;
        self.resume_if_stopped(tree);
        match () {
            () if is_signal(&Signal::CONT) => {}
            // A shell that runs a script leaves these signals to its child.
            () if KEYBOARD_SIGNALS.iter().any(is_signal) => tree.signal_all(number),
            () => tree.signal(number),
        }
        if is_signal(&Signal::CONT)
            || (self.stop_signal.is_some() && ENDING_SIGNALS.iter().any(is_signal))
        {
            self.resume(tree);
        }
    }

    fn was_stopped_by(&self, signals: &[Signal]) -> bool {
        self.stop_signal
            .is_some_and(|stop_signal| signals.iter().any(|signal| signal.as_raw() == stop_signal))
    }

    /// Puts the command into the foreground, unless another process group is there. Resumes the
    /// command, because it may have been stopped before.
    fn give_terminal(&mut self, tree: &ProcessTree) {
        let Some(group) = Pid::from_raw(tree.group()) else { return };
        let Some(terminal) = self.terminal.take().or_else(Terminal::open_for_runner) else {
            return;
        };
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

/// Terminal of the runner, which was in the foreground.
struct Terminal {
    file: File,
    /// The runner's process group.
    runner_group: Pid,
}

impl Terminal {
    /// Opens the terminal of the runner, which is the parent of this process.
    ///
    /// Returns `None` if the runner has no terminal or is in the background. Also returns `None` if
    /// its process group is outside the container.
    fn open_for_runner() -> Option<Self> {
        let file = open()?;
        let runner_group = Pid::from_raw(getpgid(Some(getppid())).ok()?.as_raw())?;
        (tcgetpgrp(&file).ok()? == runner_group).then_some(Self { file, runner_group })
    }
}

/// Puts the runner into the foreground again.
impl Drop for Terminal {
    fn drop(&mut self) {
        reclaim_from_dead(&self.file, self.runner_group);
    }
}

/// Puts the group of this process into the foreground of its terminal, if the foreground group is
/// dead. A supervisor that was killed could not return the terminal.
pub fn reclaim_terminal() {
    if let (Some(file), Some(group)) = (open(), Pid::from_raw(getpgrp().as_raw())) {
        reclaim_from_dead(&file, group);
    }
}

fn open() -> Option<File> {
    File::options().read(true).write(true).open("/dev/tty").ok()
}

/// Puts a group into the foreground if the current foreground group is dead. Otherwise a shell may
/// have taken the terminal meanwhile.
fn reclaim_from_dead(terminal: &File, group: Pid) {
    let is_dead = |foreground| test_kill_process_group(foreground) == Err(Errno::SRCH);
    if tcgetpgrp(terminal).is_ok_and(is_dead) {
        set_foreground(terminal, group);
    }
}

fn set_foreground(terminal: &File, group: Pid) {
    // A background process that does this is stopped by SIGTTOU, unless that signal is blocked.
    let mut blocked = SigSet::empty();
    blocked.add(Number::SIGTTOU);
    let Ok(previous_mask) = blocked.thread_swap_mask(SigmaskHow::SIG_BLOCK) else { return };
    // The terminal may no longer exist.
    let _ = tcsetpgrp(terminal, group);
    let _ = previous_mask.thread_set_mask();
}
