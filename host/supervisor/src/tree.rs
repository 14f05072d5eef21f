//! A process and its descendants, from the point of view of its supervisor.
//!
//! On Linux a supervisor adopts processes that lose their parent (it is a *subreaper*). It
//! therefore sees the end of all descendants, including those that left the child's process group.
//! On other systems it only sees that group.
//!
//! Either of two facts proves that no descendant is left: `wait` reports that this process has no
//! child at all, or the kernel's list of its children contains only those from before the start.
//! `/proc` may hide processes (`hidepid`), so it can only prove that a process exists.

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, WaitStatus, getpgid, getpid, kill_process,
    kill_process_group, test_kill_process_group, wait, waitid,
};
use serde::{Deserialize, Serialize};
use std::io;
#[cfg(target_os = "linux")]
use std::path::{Path, PathBuf};
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
    /// End of the leader. Its id may then belong to another process, unless its group still has
    /// processes.
    ended: Option<ProcessEnd>,
    /// Children that this process had before the start: the program that executed this one started
    /// them.
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
        let other_children = list_children(getpid())?.ids;
        let child = command.spawn()?;
        let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let leader = id.ok_or_else(|| io::Error::other("the started process has no process id"))?;
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

    /// Sends SIGTERM to the group, and resumes stopped processes, which receive it only then.
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
        // A leader that has changed to another group needs its own signal. A second SIGKILL does no
        // harm, but other signals must not arrive twice.
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
    /// Returns true if there was none. Returns false if there was one, or if that is unknown.
    /// [`is_gone`](Self::is_gone) reaps the killed processes, whose children are then adopted.
    pub(super) fn kill_adopted(&self) -> bool {
        let adopted = self.adopted();
        adopted.iter().flat_map(|adopted| &adopted.ids).for_each(|child| kill(*child));
        adopted.is_ok_and(|adopted| adopted.is_complete && adopted.ids.is_empty())
    }

    /// Lists the children of this process, except the leader and earlier ones.
    fn adopted(&self) -> io::Result<Children> {
        let mut children = list_children(getpid())?;
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
                // The child's number may be reused from here on.
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
    // Any id enables adoption.
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

/// Children of a process, including those that exited and were not reaped.
#[derive(Debug, Default, PartialEq, Eq)]
struct Children {
    ids: Vec<Pid>,
    /// True if the list contains all children. Only lists of this process's own children are
    /// complete.
    is_complete: bool,
}

/// Visibility of descendants that have left the process group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    /// All descendants are visible.
    All,
    /// Only descendants that `/proc` shows to this user are visible.
    ScannedOnly,
    /// None is visible: `/proc` belongs to another PID namespace.
    ForeignProc,
    /// None is visible: `/proc` is not mounted. Linux then cannot start commands either.
    NoProc,
    /// None is visible: this system does not list children.
    Unlisted,
}

/// Returns the listed children of `parent`. Empty without Linux's `/proc`.
pub fn children_of(parent: Pid) -> Vec<Pid> {
    list_children(parent).map(|children| children.ids).unwrap_or_default()
}

/// Lists the children of `parent`.
///
/// # Errors
///
/// Fails if the list could not be read, for example because too many files are open.
#[cfg(target_os = "linux")]
fn list_children(parent: Pid) -> io::Result<Children> {
    if is_foreign() {
        return Ok(Children::default());
    }
    match kernel_list(parent)? {
        Some(ids) => Ok(Children { ids, is_complete: parent == getpid() }),
        None => Ok(Children { ids: scan(Path::new("/proc"), parent)?, is_complete: false }),
    }
}

/// Returns an empty list, because other systems neither list nor adopt processes.
#[cfg(not(target_os = "linux"))]
fn list_children(_: Pid) -> io::Result<Children> {
    Ok(Children { ids: Vec::new(), is_complete: true })
}

/// Returns the visibility of descendants of this process.
#[must_use]
#[cfg(target_os = "linux")]
pub fn visibility() -> Visibility {
    if !Path::new("/proc/self").exists() {
        return Visibility::NoProc;
    }
    match kernel_list(getpid()) {
        _ if is_foreign() => Visibility::ForeignProc,
        Ok(None) => Visibility::ScannedOnly,
        _ => Visibility::All,
    }
}

/// Returns the visibility of descendants of this process.
#[must_use]
#[cfg(not(target_os = "linux"))]
pub fn visibility() -> Visibility {
    Visibility::Unlisted
}

/// Returns true if `/proc` shows the ids of another PID namespace.
#[cfg(target_os = "linux")]
fn is_foreign() -> bool {
    let id: PathBuf = getpid().as_raw_nonzero().to_string().into();
    std::fs::read_link("/proc/self").is_ok_and(|shown| shown != id)
}

/// Returns the kernel's list of the children of all threads of `parent`.
///
/// `wait` uses the same list, so it includes processes that `/proc` hides (`hidepid`). Returns
/// `None` if the kernel does not offer it (`CONFIG_PROC_CHILDREN`).
#[cfg(target_os = "linux")]
fn kernel_list(parent: Pid) -> io::Result<Option<Vec<Pid>>> {
    let id = parent.as_raw_nonzero().get().to_string();
    let threads = PathBuf::from(format!("/proc/{id}/task"));
    let mut ids = Vec::new();
    let thread_entries = match std::fs::read_dir(&threads) {
        Err(error) if is_ignorable(&error) => return Ok(None),
        entries => entries?,
    };
    let mut names =
        thread_entries.map(|name| Ok(name?.file_name())).collect::<io::Result<Vec<_>>>()?;
    // The main thread inherits the children of a thread that ends, so it comes last.
    names.retain(|name| *name != *id);
    for name in names {
        match std::fs::read_to_string(threads.join(name).join("children")) {
            Err(error) if is_ignorable(&error) => {}
            text => ids.extend(parse_ids(&text?)),
        }
    }
    match std::fs::read_to_string(threads.join(id).join("children")) {
        Err(error) if is_ignorable(&error) => Ok(None),
        text => {
            ids.extend(parse_ids(&text?));
            Ok(Some(ids))
        }
    }
}

#[cfg(target_os = "linux")]
fn parse_ids(text: &str) -> impl Iterator<Item = Pid> {
    text.split_ascii_whitespace().filter_map(|id| Pid::from_raw(id.parse().ok()?))
}

/// Returns the children of `parent` that are visible in this `/proc`.
#[cfg(target_os = "linux")]
fn scan(processes: &Path, parent: Pid) -> io::Result<Vec<Pid>> {
    let mut children = Vec::new();
    let entries = match std::fs::read_dir(processes) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(children),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let id = entry.file_name().to_str().and_then(|name| name.parse().ok());
        let Some(id) = id.and_then(Pid::from_raw) else { continue };
        match std::fs::read(entry.path().join("stat")) {
            Ok(stat) if parse_parent(&stat) == Some(parent.as_raw_nonzero().get()) => {
                children.push(id);
            }
            Ok(_) => {}
            Err(error) if is_ignorable(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(children)
}

/// Returns true if the process has exited, or `/proc` hides it from this user (`hidepid`).
#[cfg(target_os = "linux")]
fn is_ignorable(error: &io::Error) -> bool {
    let ignorable = [io::ErrorKind::NotFound, io::ErrorKind::PermissionDenied];
    ignorable.contains(&error.kind())
        || error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error())
}

/// Parses the parent in `/proc/…/stat`: `id (name) state parent …`. The name may contain any bytes.
#[cfg(target_os = "linux")]
fn parse_parent(stat: &[u8]) -> Option<i32> {
    let end = stat.iter().rposition(|&byte| byte == b')')?;
    let fields = std::str::from_utf8(&stat[end + 1..]).ok()?;
    fields.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(all(test, target_os = "linux"))]
mod children_tests {
    use super::*;
    use rustix::process::getppid;
    use std::fs;

    #[test]
    fn the_parent_is_parsed_after_any_name() {
        assert_eq!(parse_parent(b"12 (sh) S 7 12 12 0"), Some(7));
        assert_eq!(parse_parent(b"12 (a) Z 9 (b\xff) R 7 12"), Some(7));
        assert_eq!(parse_parent(b""), None);
    }

    #[test]
    fn this_process_is_a_child_of_its_parent() {
        assert!(children_of(getppid().unwrap()).contains(&getpid()));
        let listed = list_children(getppid().unwrap()).unwrap();
        assert!(!listed.is_complete, "the parent's children come and go meanwhile");
    }

    #[test]
    fn a_process_that_may_not_be_inspected_is_skipped() {
        let proc = tempfile::tempdir().unwrap();
        let pid = |id| Pid::from_raw(id).unwrap();
        let stat = |id: &str, text: &str| {
            fs::create_dir(proc.path().join(id)).unwrap();
            fs::write(proc.path().join(id).join("stat"), text).unwrap();
        };
        stat("8", "8 (sleep) S 7 8 8 0");
        stat("9", "9 (sleep) S 8 8 8 0");
        fs::create_dir(proc.path().join("10")).unwrap();
        fs::create_dir(proc.path().join("self")).unwrap();
        assert_eq!(scan(proc.path(), pid(7)).unwrap(), [pid(8)]);
        for passed_over in [rustix::io::Errno::PERM, rustix::io::Errno::ACCESS] {
            assert!(is_ignorable(&passed_over.into()));
        }
        assert!(!is_ignorable(&rustix::io::Errno::MFILE.into()));
        // A file in place of a process directory.
        fs::write(proc.path().join("11"), "").unwrap();
        assert!(scan(proc.path(), pid(7)).is_err());
    }
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
