//! Child processes, as the system lists them.

use rustix::process::Pid;
#[cfg(target_os = "linux")]
use rustix::process::getpid;
use std::io;
#[cfg(target_os = "linux")]
use std::path::{Path, PathBuf};

/// Children of a process, including those that exited and were not reaped.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Children {
    pub ids: Vec<Pid>,
    /// True if the list contains all children. Only lists of this process's own children are
    /// complete.
    pub is_complete: bool,
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
pub(super) fn list_children(parent: Pid) -> io::Result<Children> {
    if is_foreign() {
        return Ok(Children::default());
    }
    match kernel_list(parent)? {
        Some(ids) => Ok(Children { ids, is_complete: parent == getpid() }),
        None => Ok(Children { ids: scan(Path::new("/proc"), parent)?, is_complete: false }),
    }
}

/// Other systems neither list nor adopt processes.
#[cfg(not(target_os = "linux"))]
pub(super) fn list(_: Pid) -> io::Result<Children> {
    Ok(Children { ids: Vec::new(), complete: true })
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
        others => others?,
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
mod tests {
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
