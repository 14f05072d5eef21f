//! The program's version, its help, and its first line.

use tenure_tests::{Candidate, Group, Line, Sink, Store};
use tokio::process::Command;

use crate::PROGRAM;

use super::stage::{TIMEOUT, run_refused, tenure, text};

#[test]
fn version_and_help_are_available() {
    let version = text(&tenure(&["--version"], &[]));
    // The build script's own tests cover release versions.
    assert_eq!(version, format!("tenure {} (debug build)\n", env!("CARGO_PKG_VERSION")));
    for [arguments, equivalent] in
        [[&["help", "run"][..], &["run", "--help"]], [&["help"], &["--help"]]]
    {
        let (output, expected) = (tenure(arguments, &[]), tenure(equivalent, &[]));
        assert_eq!((output.status.code(), text(&output)), (Some(0), text(&expected)));
    }
}

#[test]
fn mistyped_input_is_reported_with_correction() {
    let mistyped = tenure(&["rn", "jobs/a"], &[]);
    assert_eq!(mistyped.status.code(), Some(2));
    let message = text(&mistyped);
    assert!(message.contains("a similar subcommand exists: 'run'"), "{message}");
    let unquoted = tenure(&["run", "--cron", "0", "3", "*", "*", "*", "jobs/a"], &[]);
    assert!(text(&unquoted).contains("--cron '0 3 * * *'"), "{}", text(&unquoted));

    let election = ["jobs/a", "--every", "5s"];
    let message = run_refused(&[&election[..], &["--", "backup --all | gzip"]].concat(), &[]);
    assert!(message.contains("a whole command line is in one word"), "{message}");
    assert!(message.contains("-- /bin/sh -c 'LINE'"), "{message}");
    let variables =
        [("TENURE_HANDLER", "a.wasm"), ("TENURE_CRON", "'0 3 * * *'"), ("TENURE_LEAS", "20s")];
    let arguments = ["jobs/a", "--handler", "/nowhere.wasm", "--allow-host", "localhost:3000"];
    let message = run_refused(&arguments, &variables);
    for advice in [
        "write 127.0.0.1:3000 (or",
        "TENURE_HANDLER\n    this setting has no variable",
        "TENURE_CRON\n    the value is in quotation marks",
        "write the fields alone: 0 3 * * *",
        "did you mean TENURE_LEASE?",
        "/nowhere.wasm",
    ] {
        assert!(message.contains(advice), "{advice} is not told:\n{message}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn starting_event_describes_the_candidate() {
    let (store, sink) = (Store::embedded().await.unwrap(), Sink::start().await.unwrap());
    let group = Group::new(PROGRAM, &store, &sink);
    let mut command = Command::new(PROGRAM);
    command.args(["run", &group.election, "--name", "ada", "--log", "json"]);
    command.args(["--cron", "0 3 * * *", "--time-zone", "Europe/Berlin", "--failover", "3s"]);
    command.env("TENURE_SCHEDULE", "every day");
    command.args(["--", "/bin/sh", "-c", "true", "&&"]);
    group.access.apply(&mut command);
    let mut process = Candidate::spawn("ada", command).unwrap();
    let is_variable_note =
        |line: &Line| line.event["detail"].as_str().unwrap_or("").contains("TENURE_SCHEDULE");
    process.line("note of the variable", 0, TIMEOUT, is_variable_note).await;
    process.terminate(TIMEOUT).await.unwrap();
    let output_text = process.transcript() + &process.errors();
    assert!(!group.access.leaks_in(&output_text), "a secret is shown: {output_text}");
    assert!(output_text.contains("&& reaches the command unchanged"), "{output_text}");
    // On a busy machine compiling takes longer, and the program reports that.
    let lines = process.lines();
    let is_compile_event = |line: &&Line| matches!(line.name(), "compiling" | "compiled");
    let first = &lines.iter().find(|line| !is_compile_event(line)).unwrap().event;
    assert_eq!(first["event"], "starting", "{output_text}");
    assert_eq!(first["candidate"], "ada");
    // The process that hosts the wasm component reports it.
    assert_eq!(first["elector"], "component");
    assert_eq!(first["schedule"], "cron 0 3 * * * Europe/Berlin");
    assert_eq!(first["work"], "command /bin/sh");
    assert_eq!((&first["lease_ms"], &first["failover_ms"]), (&60_000.into(), &3_000.into()));
    assert_eq!(first["credential"], "the key in the connection string");
    assert!(first["version"].as_str().unwrap().starts_with(env!("CARGO_PKG_VERSION")));
    assert!(first["account"].as_str().unwrap().contains(" at http://127.0.0.1:"), "{output_text}");
}
