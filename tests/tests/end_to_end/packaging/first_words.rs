//! What the program says of itself: its version, its help, and its first line.

use tenure_tests::{Candidate, Group, Line, Sink, Store};
use tokio::process::Command;

use crate::PROGRAM;

use super::stage::{SOON, refused, tenure, text};

#[test]
fn the_version_and_the_help_of_each_command_can_be_asked_for() {
    let version = text(&tenure(&["--version"], &[]));
    // Those of releases are checked with the build script itself.
    assert_eq!(version, format!("tenure {} (debug build)\n", env!("CARGO_PKG_VERSION")));
    for [asked, same] in [[&["help", "run"][..], &["run", "--help"]], [&["help"], &["--help"]]] {
        let (asked, same) = (tenure(asked, &[]), tenure(same, &[]));
        assert_eq!((asked.status.code(), text(&asked)), (Some(0), text(&same)));
    }
}

#[test]
fn what_was_mistyped_is_told_with_what_to_write() {
    let mistyped = tenure(&["rn", "jobs/a"], &[]);
    assert_eq!(mistyped.status.code(), Some(2));
    let said = text(&mistyped);
    assert!(said.contains("a similar subcommand exists: 'run'"), "{said}");
    let unquoted = tenure(&["run", "--cron", "0", "3", "*", "*", "*", "jobs/a"], &[]);
    assert!(text(&unquoted).contains("--cron '0 3 * * *'"), "{}", text(&unquoted));

    let election = ["jobs/a", "--every", "5s"];
    let said = refused(&[&election[..], &["--", "backup --all | gzip"]].concat(), &[]);
    assert!(said.contains("a whole command line is in one word"), "{said}");
    assert!(said.contains("-- /bin/sh -c 'LINE'"), "{said}");
    let variables =
        [("TENURE_HANDLER", "a.wasm"), ("TENURE_CRON", "'0 3 * * *'"), ("TENURE_LEAS", "20s")];
    let hosts = ["jobs/a", "--handler", "/nowhere.wasm", "--allow-host", "localhost:3000"];
    let said = refused(&hosts, &variables);
    for advice in [
        "write 127.0.0.1:3000 (or",
        "TENURE_HANDLER\n    this setting has no variable",
        "TENURE_CRON\n    the value is in quotation marks",
        "write the fields alone: 0 3 * * *",
        "did you mean TENURE_LEASE?",
        "/nowhere.wasm",
    ] {
        assert!(said.contains(advice), "{advice} is not told:\n{said}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_line_says_what_it_is() {
    let (store, sink) = (Store::embedded().await.unwrap(), Sink::start().await.unwrap());
    let group = Group::new(PROGRAM, &store, &sink);
    let mut command = Command::new(PROGRAM);
    command.args(["run", &group.election, "--name", "ada", "--log", "json"]);
    command.args(["--cron", "0 3 * * *", "--time-zone", "Europe/Berlin", "--failover", "3s"]);
    command.env("TENURE_SCHEDULE", "every day");
    command.args(["--", "/bin/sh", "-c", "true", "&&"]);
    group.access.give(&mut command);
    let mut process = Candidate::spawn("ada", command).unwrap();
    let note =
        |line: &Line| line.event["detail"].as_str().unwrap_or("").contains("TENURE_SCHEDULE");
    process.line("note of the variable", 0, SOON, note).await;
    process.terminate(SOON).await.unwrap();
    let said = process.transcript() + &process.errors();
    assert!(!group.access.is_told_by(&said), "a secret is shown: {said}");
    assert!(said.contains("&& reaches the command unchanged"), "{said}");
    // A busy machine compiles the component for longer, and says so.
    let lines = process.lines();
    let compiles = |line: &&Line| matches!(line.name(), "compiling" | "compiled");
    let first = &lines.iter().find(|line| !compiles(line)).unwrap().event;
    assert_eq!(first["event"], "starting", "{said}");
    assert_eq!(first["candidate"], "ada");
    // The one that holds the wasm component says so itself.
    assert_eq!(first["elector"], "component");
    assert_eq!(first["schedule"], "cron 0 3 * * * Europe/Berlin");
    assert_eq!(first["work"], "command /bin/sh");
    assert_eq!((&first["lease_ms"], &first["failover_ms"]), (&60_000.into(), &3_000.into()));
    assert_eq!(first["credential"], "the key in the connection string");
    assert!(first["version"].as_str().unwrap().starts_with(env!("CARGO_PKG_VERSION")));
    assert!(first["account"].as_str().unwrap().contains(" at http://127.0.0.1:"), "{said}");
}
