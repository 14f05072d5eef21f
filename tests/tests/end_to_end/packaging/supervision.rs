//! systemd's notifications over a real socket, its unit file, and a run under systemd.

use crate::PROGRAM;
use std::collections::BTreeSet;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process::{Command as Program, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use tenure_tests::{Candidate, Group, Sink, Store, needs, reserve_port, tools};
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

fn unit() -> String {
    std::fs::read_to_string(tools::repository().join("deploy/systemd/tenure@.service")).unwrap()
}

#[test]
fn unit_checks_what_it_runs_and_waits_long_enough() {
    let unit = unit();
    let seconds = |key: &str| -> u64 {
        let line = unit.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        line.trim_end_matches('s').parse().unwrap()
    };
    let started = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    let checked = started.replacen(" run ", " check --offline ", 1);
    assert!(unit.contains(&format!("\nExecStartPre=-{checked}\n")), "{unit}");
    // The example's grace period, plus the longest time to leave an election.
    assert!(Duration::from_secs(seconds("TimeoutStopSec=")) > Duration::from_secs(10 + 10));
}

/// Runs a command of `systemd-analyze` on the unit with these drop-ins. Returns its output.
fn analyze(command: &[&str], unit: &str, drop_ins: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tenure@.service");
    std::fs::write(&file, unit.replace("/usr/local/bin/tenure", PROGRAM)).unwrap();
    let drop_in_folder = folder.path().join("tenure@.service.d");
    std::fs::create_dir(&drop_in_folder).unwrap();
    for name in drop_ins {
        let source = tools::repository().join("deploy/systemd").join(name);
        std::fs::copy(source, drop_in_folder.join(name)).unwrap();
    }
    let mut program = Program::new("systemd-analyze");
    let output = program.args(command).arg("--man=no").arg(&file).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
}

fn systemd_unit_and_drop_ins_are_valid() {
    for drop_ins in [&[][..], &["backup-as-root.conf"], &["managed-identity.conf"]] {
        assert_eq!(analyze(&["verify"], &unit(), drop_ins), "", "{drop_ins:?}");
    }
    let misspelled = unit().replace("KillMode=mixed", "KillMood=mixed");
    let complaint = analyze(&["verify"], &misspelled, &[]);
    assert!(complaint.contains("Unknown key") && complaint.contains("KillMood"), "{complaint}");
}

needs!(Systemd => fn systemd_unit_and_drop_ins_are_valid);

fn drop_in_for_root_relaxes_nothing_else() {
    let exposed = |drop_ins: &[&str]| -> BTreeSet<String> {
        let command = ["security", "--offline=yes", "--json=short", "--no-pager"];
        let report: Value = serde_json::from_str(&analyze(&command, &unit(), drop_ins)).unwrap();
        let is_exposed = |entry: &&Value| !entry["exposure"].is_null();
        let entries = report.as_array().unwrap().iter().filter(is_exposed);
        entries.map(|entry| entry["name"].as_str().unwrap().to_owned()).collect()
    };
    let relaxed = &exposed(&["backup-as-root.conf"]) - &exposed(&[]);
    assert_eq!(
        relaxed.iter().map(String::as_str).collect::<Vec<_>>(),
        [
            "CapabilityBoundingSet=~CAP_(DAC_*|FOWNER|IPC_OWNER)",
            "ProtectHome=",
            "User=/DynamicUser="
        ]
    );
}

needs!(Systemd => fn drop_in_for_root_relaxes_nothing_else);

fn commands_of_installation_page_work_under_systemd() {
    let log = tempfile::NamedTempFile::new().unwrap();
    let script = tools::repository().join("tests/deploy/systemd");
    let mut trial = Program::new("unshare");
    trial.arg("--mount").arg(script).arg(PROGRAM).arg(log.path()).stdin(Stdio::null());
    let output = trial.output().unwrap();
    let log = std::fs::read_to_string(log.path()).unwrap();
    assert!(output.status.success(), "{output:?}\n{log}");
}

needs!(RootAndSystemd => fn commands_of_installation_page_work_under_systemd);
