//! The terminal, which an attached command has while it runs.
//!
//! The command leads a process group of its own, so that it can be killed with all its kin. Only a group in the
//! foreground may read the terminal, and hears of Ctrl-C. So it is put there for as long as it runs.

use crate::family::Family;
use nix::sys::signal::{SigSet, SigmaskHow, Signal as Number};
use rustix::process::{Pid, Signal, getpgid, getppid};
use rustix::termios::{tcgetpgrp, tcsetpgrp};
use std::fs::File;

/// The terminal of the runner, which was in the foreground.
pub(super) struct Terminal {
    file: File,
    /// The runner's process group.
    runners: Pid,
}

impl Terminal {
    /// None where the runner, this process's parent, has no terminal or is in the background.
    pub(super) fn of_runner() -> Option<Self> {
        let file = File::options().read(true).write(true).open("/dev/tty").ok()?;
        let runners = getpgid(getppid()).ok()?;
        (tcgetpgrp(&file).ok()? == runners).then_some(Self { file, runners })
    }

    /// Puts the command into the foreground. It may have been stopped before it was there.
    pub(super) fn give(&self, family: &Family) {
        if let Some(group) = Pid::from_raw(family.group()) {
            self.put(group);
            family.go_on();
        }
    }

    /// A command that was stopped from the terminal goes on: it would keep the lock, and the shell does not know that
    /// it stands still.
    pub(super) fn keep_going(&self, family: &Family) {
        let by = [Signal::TSTP, Signal::TTIN, Signal::TTOU].map(Signal::as_raw);
        if family.stopped().is_some_and(|signal| by.contains(&signal)) {
            self.give(family);
        }
    }

    fn put(&self, group: Pid) {
        // Whoever does so in the background is stopped, unless that signal is blocked.
        let mut blocked = SigSet::empty();
        blocked.add(Number::SIGTTOU);
        let Ok(before) = blocked.thread_swap_mask(SigmaskHow::SIG_BLOCK) else { return };
        // The terminal may be gone.
        let _ = tcsetpgrp(&self.file, group);
        let _ = before.thread_set_mask();
    }
}

/// The runner is in the foreground again.
impl Drop for Terminal {
    fn drop(&mut self) {
        self.put(self.runners);
    }
}
