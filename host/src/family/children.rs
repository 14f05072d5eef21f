//! Who a process has started, or adopted.

use rustix::process::Pid;
#[cfg(target_os = "linux")]
use rustix::process::getpid;
use std::io;
#[cfg(target_os = "linux")]
use std::path::PathBuf;

/// The children of `parent`, as far as the system tells.
pub fn children_of(parent: Pid) -> Vec<Pid> {
    all_children_of(parent).unwrap_or_default()
}

/// The children of `parent`, those included that ended and were not reaped. None where the system does
/// not tell: it is asked on Linux only, where `/proc` is there.
///
/// # Errors
///
/// When there may be others: too many files are open, for example.
#[cfg(target_os = "linux")]
pub(super) fn all_children_of(parent: Pid) -> io::Result<Vec<Pid>> {
    let mut children = Vec::new();
    // Where it is of another container, its numbers are of other processes.
    if std::fs::read_link("/proc/self").is_ok_and(|this| this != own()) {
        return Ok(children);
    }
    let processes = match std::fs::read_dir("/proc") {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(children),
        processes => processes?,
    };
    for process in processes {
        let process = process?;
        let id = process.file_name().to_str().and_then(|name| name.parse().ok());
        let Some(id) = id.and_then(Pid::from_raw) else { continue };
        match std::fs::read(process.path().join("stat")) {
            Ok(stat) if parent_in(&stat) == Some(parent.as_raw_nonzero().get()) => {
                children.push(id)
            }
            Ok(_) => {}
            // It has ended, and was reaped.
            Err(error) if is_gone(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(children)
}

/// What `/proc/self` leads to, where `/proc` is of this container.
#[cfg(target_os = "linux")]
fn own() -> PathBuf {
    getpid().as_raw_nonzero().to_string().into()
}

#[cfg(not(target_os = "linux"))]
pub(super) fn all_children_of(_: Pid) -> io::Result<Vec<Pid>> {
    Ok(Vec::new())
}

#[cfg(target_os = "linux")]
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
        || error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error())
}

/// The parent in `/proc/…/stat`: `id (name) state parent …`, where the name may hold anything.
#[cfg(target_os = "linux")]
fn parent_in(stat: &[u8]) -> Option<i32> {
    let end = stat.iter().rposition(|&byte| byte == b')')?;
    let rest = std::str::from_utf8(&stat[end + 1..]).ok()?;
    rest.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use rustix::process::getppid;

    #[test]
    fn a_parent_is_found_behind_any_name() {
        assert_eq!(parent_in(b"12 (sh) S 7 12 12 0"), Some(7));
        assert_eq!(parent_in(b"12 (a) Z 9 (b\xff) R 7 12"), Some(7));
        assert_eq!(parent_in(b""), None);
    }

    #[test]
    fn this_process_is_a_child_of_its_parent() {
        assert!(children_of(getppid().unwrap()).contains(&getpid()));
    }
}
