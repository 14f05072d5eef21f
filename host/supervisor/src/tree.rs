//! A process and all that it starts, as its supervisor sees it.
//!
//! On Linux a supervisor adopts whatever loses its parent (it is a *subreaper*), so that it sees the end
//! of all of them, of those that left the child's process group too; elsewhere only that group is seen.
//!
//! Two things prove that none is left: `wait` reports that this process has no child at all, or the kernel's own list of
//! its children has only those that were there before. `/proc` may hide processes (`hidepid`), so what it shows can only
//! prove that a process is there.

use super::children::{self, Children};
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, WaitStatus, getpgid, getpid, kill_process,
    kill_process_group, test_kill_process_group, wait, waitid,
};
use serde::{Deserialize, Serialize};
use std::io;
use std::process::Command;

/// The end of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProcessEnd {
    /// By itself, with this code.
    Exit(i32),
    /// By this signal.
    Signal(i32),
}

/// Returns a signal as people call it.
#[must_use]
pub fn signal_name(number: i32) -> String {
    let known = nix::sys::signal::Signal::try_from(number).ok();
    known.map_or_else(|| format!("signal {number}"), |signal| signal.as_str().to_owned())
}

/// A running process and its descendants.
#[derive(Debug)]
pub(super) struct ProcessTree {
    leader: Pid,
    /// The end of the leader. From then on its id may be another process's; only the group keeps it.
    ended: Option<ProcessEnd>,
    /// Children of this process that were there before: whoever executed it had started them.
    other_children: Vec<Pid>,
}

impl ProcessTree {
    /// Starts a process whose supervisor this process is; it should [adopt orphans](adopt_orphans). The process
    /// should lead a process group of its own where it may start others that the system does not tell of.
    ///
    /// # Errors
    ///
    /// When it could not be started.
    #[allow(clippy::zombie_processes, reason = "reaped together with all its descendants")]
    pub(super) fn start(command: &mut Command) -> io::Result<Self> {
        let other_children = children::list_children(getpid())?.ids;
        let child = command.spawn()?;
        let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let leader = id.ok_or_else(|| io::Error::other("it has no process id"))?;
        Ok(Self { leader, ended: None, other_children })
    }

    /// The id of its process group, where it leads one.
    pub(super) fn group(&self) -> i32 {
        self.leader.as_raw_nonzero().get()
    }

    /// Returns the end of the process itself, if it has ended.
    pub(super) fn ended(&self) -> Option<ProcessEnd> {
        self.ended
    }

    /// Asks all of the group to end. Who is stopped must go on, or it does not hear that.
    pub(super) fn terminate(&self) {
        self.send(Signal::TERM);
        self.resume();
    }

    /// All of the group that were stopped go on.
    pub(super) fn resume(&self) {
        self.send(Signal::CONT);
    }

    /// The signal by which the process was stopped, once for each time.
    pub(super) fn stop_signal(&self) -> Option<i32> {
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
        let status = self.ended.is_none().then(|| waitid(WaitId::Pid(self.leader), options));
        status?.ok()??.stopping_signal()
    }

    /// Hands a signal on to the process alone, unless it has ended.
    pub(super) fn signal(&self, number: i32) {
        // Taken from a handler: one that this system has.
        if let (None, Some(signal)) = (self.ended, Signal::from_named_raw(number)) {
            let _ = kill_process(self.leader, signal);
        }
    }

    /// Hands a signal on to all of the group, as a terminal does.
    pub(super) fn signal_all(&self, number: i32) {
        if let Some(signal) = Signal::from_named_raw(number) {
            self.send(signal);
        }
    }

    /// Kills all of the group at once. None of it can start anything that survives this.
    pub(super) fn kill(&self) {
        self.send(Signal::KILL);
    }

    /// Once the leader was reaped its group was killed, and the number may be another's.
    fn send(&self, signal: Signal) {
        if self.ended.is_some() {
            return;
        }
        let _ = kill_process_group(self.leader, signal);
        // It may have gone into another group. One that goes back meanwhile is killed all the same, and anything else it
        // would be told twice.
        if signal == Signal::KILL || getpgid(Some(self.leader)) != Ok(self.leader) {
            let _ = kill_process(self.leader, signal);
        }
    }

    /// Returns true if nothing of it runs any more. Kills what the process left behind when it ended.
    pub(super) fn is_gone(&mut self) -> bool {
        if self.ended.is_none() {
            // Looked at before it is reaped: until then the number of the group is nobody else's.
            let has_exited = self.has_leader_exited();
            if has_exited {
                self.kill();
            }
            self.reap();
            if self.ended.is_none() {
                return false;
            }
            if !has_exited {
                // It ended in between. What is left of its group, if anything, keeps the number.
                let _ = kill_process_group(self.leader, Signal::KILL);
            }
        }
        let all_ended = self.kill_adopted();
        let childless = self.reap();
        (childless || all_ended) && test_kill_process_group(self.leader) == Err(Errno::SRCH)
    }

    /// Kills the processes that lost their parent and were adopted by this one. Returns true if there was none; false also
    /// if that cannot be known. [`is_gone`](Self::is_gone) reaps what was killed, whose children are adopted then.
    pub(super) fn kill_adopted(&self) -> bool {
        let adopted = self.adopted();
        adopted.iter().flat_map(|adopted| &adopted.ids).for_each(|child| kill(*child));
        adopted.is_ok_and(|adopted| adopted.is_complete && adopted.ids.is_empty())
    }

    /// Lists the children of this process without the leader, and without those that were there before.
    fn adopted(&self) -> io::Result<Children> {
        let mut children = children::list_children(getpid())?;
        // The number of a leader that was reaped may be that of another process.
        let leader = self.ended.is_none().then_some(self.leader);
        children.ids.retain(|id| !self.other_children.contains(id) && Some(*id) != leader);
        Ok(children)
    }

    fn has_leader_exited(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        matches!(waitid(WaitId::Pid(self.leader), options), Ok(Some(_)))
    }

    /// Takes note of all who ended; true when no child is left at all.
    fn reap(&mut self) -> bool {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((id, status))) if id == self.leader => self.ended = Some(process_end(status)),
                // Its number may be another's from here on.
                Ok(Some((id, _))) => self.other_children.retain(|stranger| *stranger != id),
                Err(Errno::INTR) => {}
                Ok(None) => return false,
                Err(_) => return true,
            }
        }
    }
}

fn process_end(status: WaitStatus) -> ProcessEnd {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => ProcessEnd::Exit(code),
        (None, signal) => ProcessEnd::Signal(signal.unwrap_or_default()),
    }
}

/// From here on this process is the next parent of all descendants that lose theirs, where the system has
/// that.
///
/// # Errors
///
/// When the system refuses it: who leaves a process group is not seen then.
pub(super) fn adopt_orphans() -> io::Result<()> {
    // Any id but none means yes.
    #[cfg(target_os = "linux")]
    rustix::process::set_child_subreaper(Some(getpid()))?;
    Ok(())
}

/// Kills one who left the group, with the group that it leads, if it leads one. Its own children are adopted
/// and killed when they are next looked for: the end of a child is a reason to look.
fn kill(child: Pid) {
    // A child that nobody reaped keeps its number.
    let _ = kill_process_group(child, Signal::KILL);
    let _ = kill_process(child, Signal::KILL);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt as _;
    use std::process::Stdio;

    #[test]
    fn a_reaped_process_is_sent_no_signal() {
        let mut other = Command::new("cat").stdin(Stdio::piped()).process_group(0).spawn().unwrap();
        let leader = Pid::from_raw(other.id().try_into().unwrap()).unwrap();
        let (ended, other_children) = (Some(ProcessEnd::Exit(0)), Vec::new());
        let tree = ProcessTree { leader, ended, other_children };
        tree.terminate();
        tree.kill();
        tree.signal(Signal::KILL.as_raw());
        // It ends by itself, at the end of its input.
        drop(other.stdin.take());
        assert!(other.wait().unwrap().success());
    }
}
