//! A runner beside a supervisor that stands still.

use super::*;
use rustix::process::test_kill_process;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use tokio::process::Command;

const SOON: Duration = Duration::from_secs(30);

/// The number of a process that was just started.
fn id(process: &Child) -> Option<Pid> {
    process.id().and_then(|id| Pid::from_raw(id.try_into().unwrap()))
}

fn kept(lease: &Lease, supervisor: Option<Pid>, group: Option<Pid>) -> Kept {
    let (lease, told) = (lease.clone(), lease.until());
    let (last_chance, overdue, signals, end_orphans) = (None, false, None, None);
    Kept { lease, supervisor, group, told, last_chance, overdue, signals, end_orphans }
}

/// What the runner makes of it when the supervisor goes on at last.
async fn goes_on(mut supervisor: UnixStream, runner: impl Future<Output = Option<Fate>>) {
    let gone = Gone::default();
    supervisor.write_all(line(&Report::Gone(gone)).as_bytes()).await.unwrap();
    // Killed from here, because its time was over.
    assert_eq!(runner.await, Some(Fate::Gone(Gone { told: true, ..gone })));
}

/// The supervisor was killed before it could report that it had started the command.
#[tokio::test]
async fn orphans_are_ended_after_the_end_of_the_supervisor() {
    let clock = BootClock::new();
    let lease = Lease::new(1, clock.reading(), clock.now() + SOON);
    let mut supervisor = Command::new("sleep").arg("0.3").spawn().unwrap();
    let pid = id(&supervisor).unwrap();
    let (ours, theirs) = UnixStream::pair().unwrap();
    let reaped = Arc::new(Mutex::new(Vec::new()));
    let calls = reaped.clone();
    let mut kept = kept(&lease, Some(pid), None);
    kept.end_orphans = Some(Arc::new(move || {
        calls.lock().unwrap().push(test_kill_process(pid) == Err(Errno::SRCH));
        Box::pin(async {})
    }));
    // Its files are closed, and it is still there.
    drop(theirs);
    let (_stop, mut stopped) = oneshot::channel();
    assert_eq!(kept.listen(ours, &mut stopped).await, None);
    let fate = kept.end_unwatched(&mut supervisor).await;
    assert!(matches!(fate, Fate::NotStarted(_)), "{fate:?}");
    assert_eq!(*reaped.lock().unwrap(), [true]);
}

#[tokio::test]
async fn a_watchdog_that_reads_no_renewals_does_not_keep_a_command_alive() {
    let clock = BootClock::new();
    let lease = Lease::new(1, clock.reading(), clock.now() + SOON);
    let mut command = Command::new("sleep").arg("60").process_group(0).spawn().unwrap();
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut kept = kept(&lease, None, id(&command));
    let listening = tokio::spawn(async move {
        let (_stop, mut stopped) = oneshot::channel();
        kept.listen(ours, &mut stopped).await
    });
    // Far more than the socket takes.
    for _ in 0..5_000 {
        lease.set(lease.until() + Duration::from_millis(1));
        tokio::task::yield_now().await;
    }
    lease.set(Duration::ZERO);
    let ended = timeout(SOON, command.wait()).await.expect("it is killed").unwrap();
    assert_eq!(ended.signal(), Some(9));
    goes_on(theirs, async { listening.await.unwrap() }).await;
}

/// It stood still before it had started the command, and does so again right after.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_command_that_nobody_told_of_is_looked_for_until_it_is_found() {
    let clock = BootClock::new();
    let lease = Lease::new(1, clock.reading(), Duration::ZERO);
    let script = "read go; setsid sleep 60 & wait $!";
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).stdin(Stdio::piped()).stderr(Stdio::null());
    let mut shell = shell.spawn().unwrap();
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let mut kept = kept(&lease, id(&shell), None);
    let listening = tokio::spawn(async move {
        let (_stop, mut stopped) = oneshot::channel();
        kept.listen(ours, &mut stopped).await
    });
    // The order to kill, which is given when nothing was found.
    assert_eq!(theirs.read(&mut [0]).await.unwrap(), 0);
    shell.stdin.take().unwrap().write_all(b"go\n").await.unwrap();
    let ended = timeout(SOON, shell.wait()).await.expect("its child is killed").unwrap();
    assert_eq!(ended.code(), Some(128 + 9));
    goes_on(theirs, async { listening.await.unwrap() }).await;
}
