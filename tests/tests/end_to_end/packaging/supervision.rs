//! systemd's part, played with a real socket, and its unit file.

use crate::PROGRAM;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process::Command as Program;
use std::time::Duration;

use rustix::process::Signal;
use tenure_tests::{Candidate, Group, Sink, Store, reserved, tools};
use tokio::process::Command;

use super::stage::SOON;

/// What is told, one line each, until one is as wanted.
fn until(socket: &UnixDatagram, told: &mut Vec<String>, wanted: impl Fn(&str) -> bool) {
    let mut buffer = [0; 4096];
    loop {
        let length = socket.recv(&mut buffer).unwrap_or_else(|e| panic!("{e}: {told:#?}"));
        let lines = std::str::from_utf8(&buffer[..length]).unwrap().lines();
        let from = told.len();
        told.extend(lines.map(str::to_owned));
        if told[from..].iter().any(|line| wanted(line)) {
            return;
        }
    }
}

async fn supervised(name: &str, socket: UnixDatagram) {
    socket.set_read_timeout(Some(SOON)).unwrap();
    let (store, sink) = (Store::embedded().await.unwrap(), Sink::start().await.unwrap());
    let group = Group::new(PROGRAM, &store, &sink);
    let mut command: Command = group.command("ada", &[], &["/bin/sh", "-c", "env"]);
    command.env("NOTIFY_SOCKET", name).env("WATCHDOG_USEC", "400000").env_remove("WATCHDOG_PID");
    let mut candidate = Candidate::spawn("ada", command).unwrap();
    let told = tokio::task::spawn_blocking(move || {
        let mut told = Vec::new();
        until(&socket, &mut told, |line| line == "READY=1");
        until(&socket, &mut told, |line| line.starts_with("STATUS=leading, term "));
        // It goes on by itself, whether or not anything happens.
        for _ in 0..5 {
            until(&socket, &mut told, |line| line == "WATCHDOG=1");
        }
        (socket, told)
    });
    let (socket, mut told) = told.await.unwrap();
    let turn = candidate.event("turn-ended", SOON).await;
    assert_eq!(turn.event["outcome"], "succeeded");
    let seen = candidate.lines();
    let seen = seen.iter().filter_map(|line| line.event["line"].as_str());
    let ours = seen.filter(|line| line.starts_with("NOTIFY_") || line.starts_with("WATCHDOG_"));
    assert_eq!(ours.count(), 0, "the work speaks for nobody");

    candidate.signal(Signal::TERM).unwrap();
    let told = tokio::task::spawn_blocking(move || {
        until(&socket, &mut told, |line| line == "STOPPING=1");
        told
    });
    let told = told.await.unwrap();
    assert_eq!(candidate.end(SOON).await.unwrap().code(), Some(0));
    for once in ["READY=1", "STOPPING=1"] {
        assert_eq!(told.iter().filter(|line| *line == once).count(), 1, "{told:#?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn systemd_hears_of_everything_at_a_socket_with_a_path() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    supervised(path.to_str().unwrap(), socket).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn systemd_hears_of_everything_at_an_abstract_socket() {
    let name = format!("tenure-test-{}", uuid::Uuid::new_v4());
    let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    supervised(&format!("@{name}"), socket).await;
}

/// The account does not answer, which is no reason to be started again and again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_ready_although_the_account_does_not_answer() {
    let nobody = reserved().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(SOON)).unwrap();
    let mut command = Command::new(PROGRAM);
    command
        .args(["run", "jobs/a", "--every", "5s", "--", "/bin/true"])
        .env(
            "AZURE_STORAGE_CONNECTION_STRING",
            format!("AccountName=a;AccountKey=c2VjcmV0;BlobEndpoint=http://{nobody}/a"),
        )
        .env("NOTIFY_SOCKET", &path);
    let mut candidate = Candidate::spawn("ada", command).unwrap();
    let told = tokio::task::spawn_blocking(move || {
        let mut told = Vec::new();
        until(&socket, &mut told, |line| line == "READY=1");
        if !told.iter().any(|line| line.contains("; unreachable: ")) {
            until(&socket, &mut told, |line| line.contains("; unreachable: "));
        }
        told
    });
    let told = told.await.unwrap();
    assert!(!told.iter().any(|line| line.contains("WATCHDOG")), "nobody asked for it: {told:#?}");
    candidate.terminate(SOON).await.unwrap();
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
fn the_unit_is_in_order() {
    let unit = tools::repository().join("deploy/systemd/tenure@.service");
    let unit = std::fs::read_to_string(unit).unwrap();
    let seconds = |key: &str| -> u64 {
        let line = unit.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        line.trim_end_matches('s').parse().unwrap()
    };
    let started = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    let checked = started.replacen(" run ", " check --offline ", 1);
    assert!(unit.contains(&format!("\nExecStartPre=-{checked}\n")), "{unit}");
    // The example's grace, and as long as an election is left at most.
    assert!(Duration::from_secs(seconds("TimeoutStopSec=")) > Duration::from_secs(10 + 10));
    let Some((good, said)) = verify(&unit) else {
        return println!("systemd-analyze is not here: the unit is not verified");
    };
    assert!(good && !said.contains("Unknown"), "{said}");
    let (_, said) = verify(&unit.replace("KillMode=mixed", "KillMood=mixed")).unwrap();
    assert!(said.contains("KillMood"), "{said}");
}
