//! Validation of `tenure.toml` before the first request.

use std::net::TcpListener;

use tenure_tests::tools;

use super::stage::{run_refused, tenure, text, write_settings};

#[test]
fn all_file_mistakes_are_reported_with_position() {
    let occupied = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = occupied.local_addr().unwrap();
    let (_folder, file) = write_settings(&format!(
        "listen = \"{address}\"\nevry = \"5s\"\nlease = 15\naccount-key = \"c2VjcmV0\"\n\
         grace = \"soon\"\n[[election]]\nelection = \"jobs/a\"\nevery = \"5s\"\n\
         command = [\"no-such-program\"]\n[[election]]\nelection = \"jobs/a\"\ncron = \"never\"\n\
         handler = \"missing.wasm\"\n"
    ));
    let name = file.to_str().unwrap();
    let message = run_refused(&["--config", name, "--margin", "1s"], &[("TENURE_RENEW", "1h")]);
    for source in [
        &format!("{name}:1:10: listen = \"{address}\""),
        &format!("{name}:2:1: evry"),
        &format!("{name}:3:9: lease"),
        &format!("{name}:4:1: account-key"),
        &format!("{name}:5:9: grace = \"soon\""),
        &format!("{name}:9:12: command = \"no-such-program\""),
        &format!("{name}:11:12: election = \"jobs/a\""),
        &format!("{name}:12:8: cron = \"never\""),
        &format!("{name}:13:11: handler = \"{}\"", file.with_file_name("missing.wasm").display()),
        "--margin 1s",
        "TENURE_RENEW",
    ] {
        assert!(message.contains(&format!("\n  {source}\n")), "{source} is not told:\n{message}");
    }
    assert_eq!(
        message.matches("--margin 1s\n").count(),
        1,
        "told once for both elections: {message}"
    );
}

#[test]
fn unusable_file_is_reported() {
    let message = run_refused(&["--config", "/nowhere/tenure.toml"], &[]);
    assert!(
        message.contains("--config /nowhere/tenure.toml\n    the file cannot be read"),
        "{message}"
    );
    let (_folder, broken) = write_settings("# an election\n[[election]\nelection = \"jobs/a\"\n");
    let message = run_refused(&[], &[("TENURE_CONFIG", broken.to_str().unwrap())]);
    assert!(message.contains(&format!("{}:2:", broken.display())), "{message}");
    let (_folder, empty) = write_settings("");
    let message = run_refused(&["--config", empty.to_str().unwrap()], &[]);
    assert!(message.contains("tenure.toml:1:1\n    nothing is set in this file"), "{message}");
}

#[test]
fn one_invalid_election_prevents_all() {
    let (_folder, file) = write_settings(
        "command = [\"/bin/sh\", \"-c\", \"true\"]\nevery = \"5s\"\n[[election]]\nelection = \"jobs/a\"\n\
         [[election]]\nelection = \"jobs/b\"\nlease = \"5s\"\n",
    );
    let message = run_refused(&["--config", file.to_str().unwrap()], &[]);
    assert!(message.contains("tenure.toml:7:9: lease = \"5s\"\n"), "{message}");
    assert_eq!(message.matches("\n  ").count(), 3, "one complaint, three lines: {message}");
}

#[test]
fn example_file_is_valid() {
    let example = tools::repository().join("deploy/tenure.toml");
    let example = example.to_str().unwrap();
    // Only the account is missing, for each of the two elections.
    let output =
        tenure(&["run", "--config", example, "--listen", "127.0.0.1:0"], &[("PATH", "/bin")]);
    let message = text(&output);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert_eq!(message.matches("\n    no storage account is given\n").count(), 2, "{message}");
    assert_eq!(message.lines().filter(|line| line.starts_with("  ")).count(), 2 * 3, "{message}");
}

#[test]
fn foreign_address_and_missing_command_are_reported_together() {
    let election = ["jobs/a", "--every", "5s"];
    // An address that is reserved for documentation.
    let listen = ["--listen", "203.0.113.1:0", "--", "/nowhere/backup"];
    let message = run_refused(&[&election[..], &listen].concat(), &[]);
    assert!(message.contains("--listen 203.0.113.1:0\n"), "{message}");
    assert!(message.contains("choose an address of this machine"), "{message}");
    assert!(message.contains("-- /nowhere/backup\n"), "{message}");
}
