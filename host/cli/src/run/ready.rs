//! `--ready-cmd`: keeps a candidate from contending until a command succeeds.

#[cfg(unix)]
use rustix::process::{Pid, Signal, kill_process_group};
use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tenure::Event;
use tenure::handler::is_withheld;
#[cfg(unix)]
use tokio::process::Child;
use tokio::process::Command;
use tokio::sync::watch;

/// Pause between two checks.
const PAUSE: Duration = Duration::from_secs(1);

/// Time limit for one check. A command that runs longer is killed.
const CHECK_TIMEOUT: Duration = Duration::from_secs(30);

/// Runs the command until it succeeds, then lets the candidate contend.
pub(crate) async fn wait(command: String, ready: watch::Sender<bool>, on_event: impl Fn(Event)) {
    let mut last_reason = None;
    loop {
        let Some(why) = not_ready_reason(&command, CHECK_TIMEOUT).await else { break };
        // Reports each reason once.
        if last_reason.as_ref() != Some(&why) {
            let detail =
                format!("not ready yet, so this candidate does not contend: the command {why}");
            on_event(Event::Note { detail });
            last_reason = Some(why);
        }
        tokio::time::sleep(PAUSE).await;
    }
    ready.send_replace(true);
}

/// Returns why the candidate is not ready, or none if it is.
async fn not_ready_reason(command: &str, patience: Duration) -> Option<String> {
    let mut shell = shell(command);
    shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    // The command must not inherit the candidate's credentials.
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_withheld(name)) {
        shell.env_remove(name);
    }
    match tokio::time::timeout(patience, run(shell)).await {
        Err(_) => Some(format!("did not end within {patience:?}")),
        Ok(Err(error)) => Some(format!("could not be started: {error}")),
        Ok(Ok(status)) => (!status.success()).then(|| format!("ended with {status}")),
    }
}

/// Runs the command to its end. Dropping this future kills the command and its process group.
async fn run(mut shell: Command) -> io::Result<ExitStatus> {
    let mut child = shell.spawn()?;
    #[cfg(unix)]
    let group = Group::from_leader(&child);
    let status = child.wait().await;
    // The command has exited, so its ID may belong to another group, which must not be killed.
    #[cfg(unix)]
    std::mem::forget(group);
    status
}

/// A process group that is killed when this is dropped.
#[cfg(unix)]
struct Group(Option<Pid>);

#[cfg(unix)]
impl Group {
    fn from_leader(leader: &Child) -> Self {
        Self(leader.id().and_then(|id| Pid::from_raw(id.try_into().ok()?)))
    }
}

#[cfg(unix)]
impl Drop for Group {
    fn drop(&mut self) {
        let _ = self.0.map(|group| kill_process_group(group, Signal::KILL));
    }
}

#[cfg(unix)]
fn shell(command: &str) -> Command {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", command]).process_group(0);
    shell
}

#[cfg(not(unix))]
fn shell(command: &str) -> Command {
    let mut shell = Command::new("cmd");
    shell.args(["/C", command]);
    shell
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::io::Read as _;

    #[tokio::test]
    async fn dropped_check_kills_all_its_processes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        let command = format!("(echo; exec sleep 60) > {}; true", path.display());
        let reading = tokio::task::spawn_blocking(move || {
            let mut pipe = std::fs::File::open(path).unwrap();
            assert_eq!(pipe.read(&mut [0]).unwrap(), 1);
            pipe
        });
        let mut pipe = tokio::select! {
            pipe = reading => pipe.unwrap(),
            why = not_ready_reason(&command, CHECK_TIMEOUT) => panic!("{why:?}"),
        };
        // The pipe is open as long as a process of the command runs.
        let ended = tokio::task::spawn_blocking(move || pipe.read(&mut [0]).unwrap());
        let ended = tokio::time::timeout(CHECK_TIMEOUT, ended).await;
        assert_eq!(ended.expect("it was killed").unwrap(), 0);
    }

    #[tokio::test]
    async fn exit_code_decides_readiness() {
        assert_eq!(not_ready_reason("true", CHECK_TIMEOUT).await, None);
        let why = not_ready_reason("exit 3", CHECK_TIMEOUT).await;
        assert_eq!(why.as_deref(), Some("ended with exit status: 3"));
    }
}
