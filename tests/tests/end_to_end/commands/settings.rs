//! Settings that are rejected before the start.

use crate::PROGRAM;
use std::net::TcpListener;
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

use tenure_tests::BEAT_HANDLER;

/// Runs the program, which must fail, against a store that must receive no connection.
fn run_refused(arguments: &[&str], variables: &[(&str, &str)]) -> String {
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
    let message = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(2), "{message}");
    assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    message
}

#[test]
fn unrunnable_command_is_reported_before_any_request() {
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    for (command, problem) in [
        ("no-such-program", "no directory of PATH holds a program of this name"),
        ("/nowhere/at/all", "there is no such file"),
        (data, "the program is not an executable file"),
        ("/", "the program is not an executable file"),
    ] {
        let message = run_refused(&["--", command, "c2VjcmV0"], &[]);
        assert!(message.contains(&format!("-- {command}\n")), "{message}");
        assert!(message.contains(problem), "{message}");
        assert!(!message.contains("c2VjcmV0"), "{message}");
    }
    let message = run_refused(&["--env", "PATH=/nowhere", "--", "sh"], &[]);
    assert!(message.contains("no directory of PATH"), "{message}");
}

#[test]
fn component_and_command_exclude_each_other() {
    let message = run_refused(&["--handler", BEAT_HANDLER, "--", "true"], &[]);
    assert!(message.contains("a component and a command are given"), "{message}");
    let message = run_refused(&[], &[]);
    assert!(message.contains("--handler") && message.contains("after --"), "{message}");
}

/// Compiling may take a minute. The file is not a component, which only compiling would detect.
#[test]
fn mistakes_that_need_no_component_are_reported_before_it_is_compiled() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let message = run_refused(&["--handler", file, "--lease", "soon"], &[]);
    assert!(message.contains("--lease soon") && !message.contains("Cargo.toml"), "{message}");
    let message = run_refused(&["--handler", file], &[]);
    assert!(message.contains("Cargo.toml"), "{message}");
    let message = run_refused(&["--handler", "/nowhere.wasm", "--lease", "soon"], &[]);
    assert!(message.contains("--lease soon") && message.contains("/nowhere.wasm"), "{message}");
}

#[test]
fn options_of_other_kind_of_work_are_rejected() {
    let options = ["--allow-host", "a", "--memory-limit", "1GiB"];
    let message = run_refused(&[&options[..], &["--", "true"]].concat(), &[]);
    for flag in ["--allow-host", "--memory-limit"] {
        assert!(
            message.contains(&format!("{flag}\n    this is for a component")),
            "{flag}: {message}"
        );
    }
    let message = run_refused(&["--handler", BEAT_HANDLER, "--stop-time", "3s"], &[]);
    assert!(message.contains("this is for a command"), "{message}");
}

#[test]
fn a_stop_time_must_fit_into_the_lease() {
    let flag = |time: &str, extra_args: &[&str]| {
        run_refused(&[&["--stop-time", time][..], extra_args, &["--", "true"]].concat(), &[])
    };
    assert!(flag("20s", &[]).contains("--stop-time 20s\n    a stop time of 20s does not fit"));
    assert!(flag("7s", &["--renew", "4600ms"]).contains("does not fit"));
    assert!(flag("10ms", &[]).contains("is not at least 100ms"));
    assert!(flag("soon", &[]).contains("is not a duration"));
    let message = run_refused(&["--", "true"], &[("TENURE_STOP_TIME", "8s")]);
    assert!(message.contains("TENURE_STOP_TIME\n    a stop time of 8s does not fit"), "{message}");
}

#[test]
fn help_explains_commands_and_hides_supervise() {
    let help = |arguments: &[&str]| {
        let output = Command::new(PROGRAM).args(arguments).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(!help(&["--help"]).contains("supervise"));
    let run = help(&["run", "--help"]);
    for expected in ["-- /usr/local/bin/backup --all", "TENURE_DEADLINE", "--stop-time"] {
        assert!(run.contains(expected), "{run}");
    }
}
