//! A command and all that it starts, as its parent sees it.
//!
//! The command leads a process group of its own, and what it starts is in it unless it leaves. On
//! Linux the supervisor also adopts whatever loses its parent (it is a *subreaper*), so that it sees
//! the end of all of them, of those that left the group too; elsewhere only the group is seen.

use super::children::children_of;
use super::messages::Ended;
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, WaitStatus, kill_process, kill_process_group,
    test_kill_process_group, wait, waitid,
};
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A program, and what it is started with.
#[derive(Clone, Debug)]
pub struct Program {
    /// The file.
    pub file: PathBuf,
    /// What it is called, for itself.
    pub name: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
}

/// A running command and its descendants.
pub(super) struct Family {
    leader: Pid,
    /// How the leader ended. Its number is not its own any more then, only its group's.
    ended: Option<Ended>,
}

impl Family {
    /// Starts a program in this process's environment, with standard output and standard error of
    /// this process and nothing to read.
    #[allow(clippy::zombie_processes, reason = "reaped together with all its descendants")]
    pub(super) fn start(program: &Program) -> io::Result<Self> {
        adopt_orphans();
        let child = Command::new(&program.file)
            .arg0(&program.name)
            .args(&program.arguments)
            .stdin(Stdio::null())
            .process_group(0)
            .spawn()?;
        let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let leader = id.ok_or_else(|| io::Error::other("it has no process id"))?;
        Ok(Self { leader, ended: None })
    }

    /// The id of its process group.
    pub(super) fn group(&self) -> i32 {
        self.leader.as_raw_nonzero().get()
    }

    /// How the command itself ended, if it has.
    pub(super) fn ended(&self) -> Option<Ended> {
        self.ended
    }

    /// Asks all of the group to end. Who is stopped must go on, or it does not hear that.
    pub(super) fn tell(&self) {
        self.send(Signal::TERM);
        self.send(Signal::CONT);
    }

    /// Kills all of the group at once. None of it can start anything that survives this.
    pub(super) fn kill(&self) {
        self.send(Signal::KILL);
    }

    /// Once the leader was reaped its group was killed, and the number may be another's.
    fn send(&self, signal: Signal) {
        if self.ended.is_none() {
            let _ = kill_process_group(self.leader, signal);
        }
    }

    /// Whether nothing of it runs any more. What the command leaves behind when it ends is killed
    /// here: its turn is over.
    pub(super) fn is_gone(&mut self) -> bool {
        if self.ended.is_none() {
            // Looked at before it is reaped: until then the number of the group is nobody else's.
            let over = self.leader_is_over();
            if over {
                self.kill();
            }
            self.reap();
            if self.ended.is_none() {
                return false;
            }
            if !over {
                // It ended in between. What is left of its group, if anything, keeps the number.
                let _ = kill_process_group(self.leader, Signal::KILL);
            }
        }
        kill_adopted();
        let childless = self.reap();
        childless && test_kill_process_group(self.leader) == Err(Errno::SRCH)
    }

    fn leader_is_over(&self) -> bool {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        matches!(waitid(WaitId::Pid(self.leader), look), Ok(Some(_)))
    }

    /// Takes note of all who ended; true when no child is left, own or adopted.
    fn reap(&mut self) -> bool {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((id, status))) if id == self.leader => self.ended = Some(end_of(status)),
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => return false,
                Err(_) => return true,
            }
        }
    }
}

fn end_of(status: WaitStatus) -> Ended {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Ended::Exit(code),
        (None, signal) => Ended::Signal(signal.unwrap_or_default()),
    }
}

#[cfg(target_os = "linux")]
fn adopt_orphans() {
    // Any id but none means yes. Without it only those that leave the group are not seen.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}

#[cfg(not(target_os = "linux"))]
fn adopt_orphans() {}

/// Kills those who left the group. Their own children are adopted and killed when they are next
/// looked for: the end of a child is a reason to look.
fn kill_adopted() {
    for child in children_of(rustix::process::getpid()) {
        // A child that nobody reaped keeps its number.
        let _ = kill_process(child, Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_may_be_anothers_is_sent_nothing() {
        let mut other = Command::new("cat").stdin(Stdio::piped()).process_group(0).spawn().unwrap();
        let leader = Pid::from_raw(other.id().try_into().unwrap()).unwrap();
        let family = Family { leader, ended: Some(Ended::Exit(0)) };
        family.tell();
        family.kill();
        // It ends by itself, at the end of its input.
        drop(other.stdin.take());
        assert!(other.wait().unwrap().success());
    }
}
