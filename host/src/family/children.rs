//! Who a process has started, or adopted.

use rustix::process::Pid;

/// The children of `parent`, those included that ended and were not reaped. None where the system does
/// not tell: it is asked on Linux only.
#[cfg(target_os = "linux")]
pub fn children_of(parent: Pid) -> Vec<Pid> {
    let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
    let child = |process: std::fs::DirEntry| {
        let id = process.file_name().to_str()?.parse().ok().and_then(Pid::from_raw)?;
        let stat = std::fs::read(process.path().join("stat")).ok()?;
        (parent_in(&stat)? == parent.as_raw_nonzero().get()).then_some(id)
    };
    processes.flatten().filter_map(child).collect()
}

#[cfg(not(target_os = "linux"))]
pub fn children_of(_: Pid) -> Vec<Pid> {
    Vec::new()
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
    use rustix::process::{getpid, getppid};

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
