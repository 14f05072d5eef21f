//! A runner with a frozen supervisor.

use super::*;
use rustix::process::test_kill_process;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use tokio::process::Command;

const SOON: Duration = Duration::from_secs(30);

/// Returns the id of a process that was just started.
fn id(process: &Child) -> Option<Pid> {
    process.id().and_then(|id| Pid::from_raw(id.try_into().unwrap()))
}

fn supervised(lease: &Lease, supervisor: Option<Pid>, group: Option<Pid>) -> SupervisedCommand {
    let (lease, sent_until) = (lease.clone(), lease.valid_until());
    let (kill_at, signals, end_orphans) = (None, None, None);
    SupervisedCommand { lease, supervisor, group, sent_until, kill_at, signals, end_orphans }
}

/// Lets the supervisor continue, and checks the outcome of the runner.
async fn assert_still_listening(
    mut supervisor: UnixStream,
    runner: impl Future<Output = Option<RunOutcome>>,
) {
    let gone = CommandExit::default();
    supervisor.write_all(to_line(&Report::Gone(gone)).as_bytes()).await.unwrap();
    // The runner killed the command because it was out of time.
    assert_eq!(runner.await, Some(RunOutcome::Finished(CommandExit { stopped: true, ..gone })));
}

/// The supervisor was killed before it could report that it had started the command.
#[tokio::test]
async fn orphans_are_ended_once_the_supervisor_is_reaped() {
    let clock = BootClock::new();
    let lease = Lease::new(1, clock.handle(), clock.now() + SOON);
    let mut supervisor = Command::new("sleep").arg("0.3").spawn().unwrap();
    let pid = id(&supervisor).unwrap();
    let (ours, theirs) = UnixStream::pair().unwrap();
    let reaped = Arc::new(Mutex::new(Vec::new()));
    let calls = reaped.clone();
    let mut command = supervised(&lease, Some(pid), None);
    command.end_orphans = Some(Arc::new(move || {
        calls.lock().unwrap().push(test_kill_process(pid) == Err(Errno::SRCH));
        Box::pin(async {})
    }));
    // The supervisor's files are closed, but its process still exists.
    drop(theirs);
    let (_stop, mut stopped) = oneshot::channel();
    assert_eq!(command.listen(ours, &mut stopped).await, None);
    let outcome = command.end_without_supervisor(&mut supervisor).await;
    assert!(matches!(outcome, RunOutcome::NotStarted(_)), "{outcome:?}");
    assert_eq!(*reaped.lock().unwrap(), [true]);
}

#[tokio::test]
async fn an_unreadable_report_does_not_end_supervision() {
    let clock = BootClock::new();
    let lease = Lease::new(1, clock.handle(), clock.now() + SOON);
    let gone = CommandExit { ended: Some(ProcessEnd::Exit(0)), ..CommandExit::default() };
    for (last_report, expected) in [
        (to_line(&Report::Gone(gone)), Some(RunOutcome::Finished(gone))),
        (r#"{"gone":{"en"#.to_owned(), None),
    ] {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let reports = format!("unreadable\n{last_report}");
        theirs.write_all(reports.as_bytes()).await.unwrap();
        drop(theirs);
        let (_stop, mut stopped) = oneshot::channel();
        let outcome = supervised(&lease, None, None).listen(ours, &mut stopped).await;
        assert_eq!(outcome, expected, "{last_report}");
    }
}

#[tokio::test]
async fn a_watchdog_that_reads_no_renewals_does_not_keep_a_command_alive() {
    let clock = BootClock::new();
    let lease = Lease::new(1, clock.handle(), clock.now() + SOON);
    let mut command = Command::new("sleep").arg("60").process_group(0).spawn().unwrap();
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut watched = supervised(&lease, None, id(&command));
    let listening = tokio::spawn(async move {
        let (_stop, mut stopped) = oneshot::channel();
        watched.listen(ours, &mut stopped).await
    });
    // Far more than the socket holds.
    for _ in 0..5_000 {
        lease.set_valid_until(lease.valid_until() + Duration::from_millis(1));
        tokio::task::yield_now().await;
    }
    lease.set_valid_until(Duration::ZERO);
    let ended = timeout(SOON, command.wait()).await.expect("it is killed").unwrap();
    assert_eq!(ended.signal(), Some(9));
    assert_still_listening(theirs, async { listening.await.unwrap() }).await;
}

/// The supervisor was frozen before it started the command, and is frozen again right after.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_unreported_command_is_found_and_killed() {
    let clock = BootClock::new();
    let lease = Lease::new(1, clock.handle(), Duration::ZERO);
    let script = "read go; setsid sleep 60 & wait $!";
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).stdin(Stdio::piped()).stderr(Stdio::null());
    let mut shell = shell.spawn().unwrap();
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let mut watched = supervised(&lease, id(&shell), None);
    let listening = tokio::spawn(async move {
        let (_stop, mut stopped) = oneshot::channel();
        watched.listen(ours, &mut stopped).await
    });
    // The order to kill, which is sent because no command was found.
    assert_eq!(theirs.read(&mut [0]).await.unwrap(), 0);
    shell.stdin.take().unwrap().write_all(b"go\n").await.unwrap();
    let ended = timeout(SOON, shell.wait()).await.expect("its child is killed").unwrap();
    assert_eq!(ended.code(), Some(128 + 9));
    assert_still_listening(theirs, async { listening.await.unwrap() }).await;
}
