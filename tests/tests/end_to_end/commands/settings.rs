//! What is refused before anything begins.

use crate::PROGRAM;
use std::net::TcpListener;
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

use tenure_tests::BEAT_HANDLER;

/// Runs the program against a store that must not be spoken to.
fn refused(arguments: &[&str], variables: &[(&str, &str)]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let store =
        format!("AccountName=a;AccountKey=c2VjcmV0LWtleQ==;BlobEndpoint=http://{address}/a");
    let mut program = Command::new(PROGRAM)
        .args(["run", "jobs/a", "--every", "5s"])
        .args(arguments)
        .envs(variables.iter().copied())
        .env("AZURE_STORAGE_CONNECTION_STRING", store)
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    while program.try_wait().unwrap().is_none() {
        if listener.accept().is_ok() {
            program.kill().unwrap();
            panic!("it is not refused: {arguments:?}");
        }
        sleep(Duration::from_millis(20));
    }
    let Output { status, stderr, .. } = program.wait_with_output().unwrap();
    let said = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(2), "{said}");
    assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    said
}

#[test]
fn a_command_that_cannot_be_run_is_told_before_anything_is_sent() {
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    for (command, problem) in [
        ("no-such-program", "no directory of PATH holds a program of this name"),
        ("/nowhere/at/all", "there is no such file"),
        (data, "this may not be executed"),
        ("/", "this may not be executed"),
    ] {
        let said = refused(&["--", command, "c2VjcmV0"], &[]);
        assert!(said.contains(&format!("-- {command}\n")), "{said}");
        assert!(said.contains(problem), "{said}");
        assert!(!said.contains("c2VjcmV0"), "{said}");
    }
    let said = refused(&["--env", "PATH=/nowhere", "--", "sh"], &[]);
    assert!(said.contains("no directory of PATH"), "{said}");
}

#[test]
fn a_leader_has_one_work() {
    let said = refused(&["--handler", BEAT_HANDLER, "--", "true"], &[]);
    assert!(said.contains("a component and a command are given"), "{said}");
    let said = refused(&[], &[]);
    assert!(said.contains("--handler") && said.contains("after --"), "{said}");
}

/// Compiling may take a minute. The file is none, which would be found by compiling.
#[test]
fn mistakes_that_need_no_component_are_reported_before_it_is_compiled() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let said = refused(&["--handler", file, "--lease", "soon"], &[]);
    assert!(said.contains("--lease soon") && !said.contains("Cargo.toml"), "{said}");
    let said = refused(&["--handler", file], &[]);
    assert!(said.contains("Cargo.toml"), "{said}");
    let said = refused(&["--handler", "/nowhere.wasm", "--lease", "soon"], &[]);
    assert!(said.contains("--lease soon") && said.contains("/nowhere.wasm"), "{said}");
}

#[test]
fn what_makes_no_sense_for_the_kind_of_work_is_told() {
    let given = ["--allow-host", "a", "--memory-limit", "1GiB"];
    let said = refused(&[&given[..], &["--", "true"]].concat(), &[]);
    for flag in ["--allow-host", "--memory-limit"] {
        assert!(said.contains(&format!("{flag}\n    this is for a component")), "{flag}: {said}");
    }
    let said = refused(&["--handler", BEAT_HANDLER, "--stop-time", "3s"], &[]);
    assert!(said.contains("this is for a command"), "{said}");
}

#[test]
fn a_stop_time_must_fit_into_the_lease() {
    let flag = |time: &str, more: &[&str]| {
        refused(&[&["--stop-time", time][..], more, &["--", "true"]].concat(), &[])
    };
    assert!(flag("20s", &[]).contains("--stop-time 20s\n    a stop time of 20s does not fit"));
    assert!(flag("7s", &["--renew", "4600ms"]).contains("does not fit"));
    assert!(flag("10ms", &[]).contains("is not at least 100ms"));
    assert!(flag("soon", &[]).contains("is not a duration"));
    let said = refused(&["--", "true"], &[("TENURE_STOP_TIME", "8s")]);
    assert!(said.contains("TENURE_STOP_TIME\n    a stop time of 8s does not fit"), "{said}");
}

#[test]
fn the_help_teaches_commands_and_keeps_the_watchdog_to_itself() {
    let help = |arguments: &[&str]| {
        let output = Command::new(PROGRAM).args(arguments).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(!help(&["--help"]).contains("supervise"));
    let run = help(&["run", "--help"]);
    for said in ["-- /usr/local/bin/backup --all", "TENURE_DEADLINE", "--stop-time"] {
        assert!(run.contains(said), "{run}");
    }
}
