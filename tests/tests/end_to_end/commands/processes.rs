//! Process information from the kernel for processes that are not children of the test.

use rustix::process::Pid;
#[cfg(target_os = "linux")]
use tenure_tests::Candidate;

/// Returns true if a process runs or is stopped; a zombie counts as dead.
pub fn is_alive(pid: Pid) -> bool {
    #[cfg(target_os = "linux")]
    let alive = fields(pid.as_raw_nonzero().get()).is_some_and(|(state, _)| !"ZX".contains(&state));
    #[cfg(not(target_os = "linux"))]
    let alive = rustix::process::test_kill_process(pid).is_ok();
    alive
}

/// Returns the only child of a candidate's runner.
#[cfg(target_os = "linux")]
pub fn supervisor(candidate: &Candidate) -> Pid {
    let runner = candidate.runner().unwrap().as_raw_nonzero().get();
    let processes = std::fs::read_dir("/proc").unwrap();
    let mut ids = processes.filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    let child = ids.find(|id| fields(*id).is_some_and(|(_, parent)| parent == runner));
    Pid::from_raw(child.unwrap()).unwrap()
}

/// Waits until a process is dead.
#[cfg(target_os = "linux")]
pub async fn wait_until_dead(pid: Pid) {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::process::{PidfdFlags, pidfd_open};
    let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { return };
    let limit = Timespec { tv_sec: 60, tv_nsec: 0 };
    let wait = move || poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&limit)).unwrap();
    assert_eq!(tokio::task::spawn_blocking(wait).await.unwrap(), 1, "{pid:?} lives");
}

/// Returns the state of a process, and its parent.
#[cfg(target_os = "linux")]
fn fields(id: i32) -> Option<(String, i32)> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.to_owned(), fields.next()?.parse().ok()?))
}
