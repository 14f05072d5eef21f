//! systemd's notifications over a real socket, and its unit file.

use crate::PROGRAM;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process::Command as Program;
use std::time::Duration;

use rustix::process::Signal;
use tenure_tests::{Candidate, Group, Sink, Store, reserve_port, tools};
use tokio::process::Command;

use super::stage::TIMEOUT;

/// Reads notifications, one line each, until one satisfies `predicate`.
fn read_until(socket: &UnixDatagram, received: &mut Vec<String>, predicate: impl Fn(&str) -> bool) {
    let mut buffer = [0; 4096];
    loop {
        let length = socket.recv(&mut buffer).unwrap_or_else(|e| panic!("{e}: {received:#?}"));
        let lines = std::str::from_utf8(&buffer[..length]).unwrap().lines();
        let from = received.len();
        received.extend(lines.map(str::to_owned));
        if received[from..].iter().any(|line| predicate(line)) {
            return;
        }
    }
}

async fn assert_notifies_manager(name: &str, socket: UnixDatagram) {
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    let (store, sink) = (Store::embedded().await.unwrap(), Sink::start().await.unwrap());
    let group = Group::new(PROGRAM, &store, &sink);
    let mut command: Command = group.command("ada", &[], &["/bin/sh", "-c", "env"]);
    command.env("NOTIFY_SOCKET", name).env("WATCHDOG_USEC", "400000").env_remove("WATCHDOG_PID");
    let mut candidate = Candidate::spawn("ada", command).unwrap();
    let received = tokio::task::spawn_blocking(move || {
        let mut received = Vec::new();
        read_until(&socket, &mut received, |line| line == "READY=1");
        read_until(&socket, &mut received, |line| line.starts_with("STATUS=leading, term "));
        // The watchdog signal repeats, even without other events.
        for _ in 0..5 {
            read_until(&socket, &mut received, |line| line == "WATCHDOG=1");
        }
        (socket, received)
    });
    let (socket, mut received) = received.await.unwrap();
    let turn = candidate.event("turn-ended", TIMEOUT).await;
    assert_eq!(turn.event["outcome"], "succeeded");
    let lines = candidate.lines();
    let output_lines = lines.iter().filter_map(|line| line.event["line"].as_str());
    let notify_variables =
        output_lines.filter(|line| line.starts_with("NOTIFY_") || line.starts_with("WATCHDOG_"));
    assert_eq!(notify_variables.count(), 0, "the work speaks for nobody");

    candidate.signal(Signal::TERM).unwrap();
    let received = tokio::task::spawn_blocking(move || {
        read_until(&socket, &mut received, |line| line == "STOPPING=1");
        received
    });
    let received = received.await.unwrap();
    assert_eq!(candidate.end(TIMEOUT).await.unwrap().code(), Some(0));
    for state in ["READY=1", "STOPPING=1"] {
        assert_eq!(received.iter().filter(|line| *line == state).count(), 1, "{received:#?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn systemd_is_notified_at_path_socket() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    assert_notifies_manager(path.to_str().unwrap(), socket).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn systemd_is_notified_at_abstract_socket() {
    let name = format!("tenure-test-{}", uuid::Uuid::new_v4());
    let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    assert_notifies_manager(&format!("@{name}"), socket).await;
}

/// The account does not answer, which is no reason for restarts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn process_is_ready_without_account_answer() {
    let unused_address = reserve_port().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut command = Command::new(PROGRAM);
    command
        .args(["run", "jobs/a", "--every", "5s", "--", "/bin/true"])
        .env(
            "AZURE_STORAGE_CONNECTION_STRING",
            format!("AccountName=a;AccountKey=c2VjcmV0;BlobEndpoint=http://{unused_address}/a"),
        )
        .env("NOTIFY_SOCKET", &path);
    let mut candidate = Candidate::spawn("ada", command).unwrap();
    let received = tokio::task::spawn_blocking(move || {
        let mut received = Vec::new();
        read_until(&socket, &mut received, |line| line == "READY=1");
        if !received.iter().any(|line| line.contains("; unreachable: ")) {
            read_until(&socket, &mut received, |line| line.contains("; unreachable: "));
        }
        received
    });
    let received = received.await.unwrap();
    assert!(
        !received.iter().any(|line| line.contains("WATCHDOG")),
        "nobody asked for it: {received:#?}"
    );
    candidate.terminate(TIMEOUT).await.unwrap();
}

fn verify(unit: &str) -> Option<(bool, String)> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tenure@.service");
    std::fs::write(&file, unit.replace("/usr/local/bin/tenure", PROGRAM)).unwrap();
    let verify = Program::new("systemd-analyze").args(["verify", "--man=no"]).arg(&file).output();
    let output = verify.ok()?;
    Some((output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned()))
}

#[test]
fn systemd_unit_is_valid() {
    let unit = tools::repository().join("deploy/systemd/tenure@.service");
    let unit = std::fs::read_to_string(unit).unwrap();
    let seconds = |key: &str| -> u64 {
        let line = unit.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        line.trim_end_matches('s').parse().unwrap()
    };
    let started = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    let checked = started.replacen(" run ", " check --offline ", 1);
    assert!(unit.contains(&format!("\nExecStartPre=-{checked}\n")), "{unit}");
    // The example's grace period, plus the longest time to leave an election.
    assert!(Duration::from_secs(seconds("TimeoutStopSec=")) > Duration::from_secs(10 + 10));
    let Some((good, stderr)) = verify(&unit) else {
        return println!("systemd-analyze is not here: the unit is not verified");
    };
    assert!(good && !stderr.contains("Unknown"), "{stderr}");
    let (_, stderr) = verify(&unit.replace("KillMode=mixed", "KillMood=mixed")).unwrap();
    assert!(stderr.contains("KillMood"), "{stderr}");
}
