//! A process and its descendants, from the point of view of its supervisor.
//!
//! On Linux a supervisor adopts processes that lose their parent (it is a *subreaper*). It
//! therefore sees the end of all descendants, including those that left the child's process group.
//! On other systems it only sees that group.
//!
//! Two facts prove that no descendant is left. Either `wait` reports that this process has no child
//! at all, or the kernel's list of its children contains only earlier ones. `/proc` may hide
//! processes (`hidepid`), so it can only prove that a process exists.

use super::children::{self, Children};
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, WaitStatus, getpgid, getpid, kill_process,
    kill_process_group, test_kill_process_group, wait, waitid,
};
use serde::{Deserialize, Serialize};
use std::io;
use std::process::Command;

/// End of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProcessEnd {
    /// Exited with this code.
    Exit(i32),
    /// Killed by this signal.
    Signal(i32),
}

/// Returns the usual name of a signal.
#[must_use]
pub fn signal_name(number: i32) -> String {
    let known = nix::sys::signal::Signal::try_from(number).ok();
    known.map_or_else(|| format!("signal {number}"), |signal| signal.as_str().to_owned())
}

/// A running process and its descendants.
#[derive(Debug)]
pub(super) struct ProcessTree {
    leader: Pid,
    /// End of the leader. After that its id may belong to another process, but its group keeps the
    /// number.
    ended: Option<ProcessEnd>,
    /// Earlier children of this process, started by the program that executed this one.
    other_children: Vec<Pid>,
}

impl ProcessTree {
    /// Starts a process under the supervision of this process, which should [adopt
    /// orphans](adopt_orphans).
    ///
    /// The process should lead its own process group if it may start others that the system does
    /// not list.
    ///
    /// # Errors
    ///
    /// Fails if the process could not be started.
    #[allow(clippy::zombie_processes, reason = "reaped together with all its descendants")]
    pub(super) fn start(command: &mut Command) -> io::Result<Self> {
        let other_children = children::list_children(getpid())?.ids;
        let child = command.spawn()?;
        let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let leader = id.ok_or_else(|| io::Error::other("it has no process id"))?;
        Ok(Self { leader, ended: None, other_children })
    }

    /// Returns the id of its process group, if it leads one.
    pub(super) fn group(&self) -> i32 {
        self.leader.as_raw_nonzero().get()
    }

    /// Returns the end of the process itself, if it has ended.
    pub(super) fn ended(&self) -> Option<ProcessEnd> {
        self.ended
    }

    /// Sends SIGTERM to the group. Stopped processes must resume to receive it.
    pub(super) fn terminate(&self) {
        self.send(Signal::TERM);
        self.resume();
    }

    /// Resumes all stopped processes of the group.
    pub(super) fn resume(&self) {
        self.send(Signal::CONT);
    }

    /// Returns the signal that stopped the process, once for each stop.
    pub(super) fn stop_signal(&self) -> Option<i32> {
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
        let status = self.ended.is_none().then(|| waitid(WaitId::Pid(self.leader), options));
        status?.ok()??.stopping_signal()
    }

    /// Forwards a signal to the process alone, unless it has ended.
    pub(super) fn signal(&self, number: i32) {
        // The number comes from a signal handler, so this system has the signal.
        if let (None, Some(signal)) = (self.ended, Signal::from_named_raw(number)) {
            let _ = kill_process(self.leader, signal);
        }
    }

    /// Forwards a signal to the whole group, like a terminal.
    pub(super) fn signal_all(&self, number: i32) {
        if let Some(signal) = Signal::from_named_raw(number) {
            self.send(signal);
        }
    }

    /// Kills the whole group at once, so that it cannot start a process that survives.
    pub(super) fn kill(&self) {
        self.send(Signal::KILL);
    }

    /// Sends a signal to the group, unless the leader was reaped. The group was then killed, and
    /// its number may be reused.
    fn send(&self, signal: Signal) {
        if self.ended.is_some() {
            return;
        }
        let _ = kill_process_group(self.leader, signal);
        // The leader may have changed to another group. If it returns meanwhile, a kill is still
        // correct, but other signals would arrive twice.
        if signal == Signal::KILL || getpgid(Some(self.leader)) != Ok(self.leader) {
            let _ = kill_process(self.leader, signal);
        }
    }

    /// Returns true if all processes of the tree have exited. Kills the processes that the leader
    /// left behind when it ended.
    pub(super) fn is_gone(&mut self) -> bool {
        if self.ended.is_none() {
            // Checked before the leader is reaped, because its group number cannot be reused until
            // then.
            let has_exited = self.has_leader_exited();
            if has_exited {
                self.kill();
            }
            self.reap();
            if self.ended.is_none() {
                return false;
            }
            if !has_exited {
                // The leader ended in between. Remaining processes of its group keep the number
                // reserved.
                let _ = kill_process_group(self.leader, Signal::KILL);
            }
        }
        let all_ended = self.kill_adopted();
        let childless = self.reap();
        (childless || all_ended) && test_kill_process_group(self.leader) == Err(Errno::SRCH)
    }

    /// Kills the processes that lost their parent and were adopted by this one.
    ///
    /// Returns true if there was none, and false if that is unknown. [`is_gone`](Self::is_gone)
    /// reaps the killed processes, whose children are then adopted.
    pub(super) fn kill_adopted(&self) -> bool {
        let adopted = self.adopted();
        adopted.iter().flat_map(|adopted| &adopted.ids).for_each(|child| kill(*child));
        adopted.is_ok_and(|adopted| adopted.is_complete && adopted.ids.is_empty())
    }

    /// Lists the children of this process, except the leader and earlier ones.
    fn adopted(&self) -> io::Result<Children> {
        let mut children = children::list_children(getpid())?;
        // The number of a reaped leader may belong to another process.
        let leader = self.ended.is_none().then_some(self.leader);
        children.ids.retain(|id| !self.other_children.contains(id) && Some(*id) != leader);
        Ok(children)
    }

    fn has_leader_exited(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        matches!(waitid(WaitId::Pid(self.leader), options), Ok(Some(_)))
    }

    /// Reaps all children that have ended. Returns true if no child is left.
    fn reap(&mut self) -> bool {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((id, status))) if id == self.leader => {
                    self.ended = Some(process_end(status))
                }
                // Its number may be reused from here on.
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

/// Makes this process the new parent of all descendants that lose theirs, if the system supports
/// that.
///
/// # Errors
///
/// Fails if the system refuses it. Processes that leave the group are then not observed.
pub(super) fn adopt_orphans() -> io::Result<()> {
    // Any id means yes.
    #[cfg(target_os = "linux")]
    rustix::process::set_child_subreaper(Some(getpid()))?;
    Ok(())
}

/// Kills a process that left the group, with the group that it leads, if any. Its children are
/// adopted, and killed in the next check, which the end of a child triggers.
fn kill(child: Pid) {
    // A child that was not reaped keeps its number.
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
        // `cat` ends by itself, at the end of its input.
        drop(other.stdin.take());
        assert!(other.wait().unwrap().success());
    }
}
