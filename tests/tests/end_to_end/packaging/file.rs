//! `tenure.toml`, as far as it is judged before anything is sent.

use std::net::TcpListener;

use tenure_tests::tools;

use super::stage::{file, refused, tenure, text};

#[test]
fn everything_that_is_wrong_is_told_at_once_with_its_place() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let (_folder, file) = file(&format!(
        "listen = \"{address}\"\nevry = \"5s\"\nlease = 15\naccount-key = \"c2VjcmV0\"\n\
         grace = \"soon\"\n[[election]]\nelection = \"jobs/a\"\nevery = \"5s\"\n\
         command = [\"no-such-program\"]\n[[election]]\nelection = \"jobs/a\"\ncron = \"never\"\n\
         handler = \"missing.wasm\"\n"
    ));
    let name = file.to_str().unwrap();
    let said = refused(&["--config", name, "--margin", "1s"], &[("TENURE_RENEW", "1h")]);
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
        assert!(said.contains(&format!("\n  {source}\n")), "{source} is not told:\n{said}");
    }
    assert_eq!(said.matches("--margin 1s\n").count(), 1, "told once for both elections: {said}");
}

#[test]
fn a_file_that_cannot_be_used_is_told() {
    let said = refused(&["--config", "/nowhere/tenure.toml"], &[]);
    assert!(said.contains("--config /nowhere/tenure.toml\n    the file cannot be read"), "{said}");
    let (_folder, broken) = file("# an election\n[[election]\nelection = \"jobs/a\"\n");
    let said = refused(&[], &[("TENURE_CONFIG", broken.to_str().unwrap())]);
    assert!(said.contains(&format!("{}:2:", broken.display())), "{said}");
    let (_folder, empty) = file("");
    let said = refused(&["--config", empty.to_str().unwrap()], &[]);
    assert!(said.contains("tenure.toml:1:1\n    nothing is set in this file"), "{said}");
}

#[test]
fn one_election_that_cannot_begin_means_that_none_does() {
    let (_folder, file) = file(
        "command = [\"/bin/sh\", \"-c\", \"true\"]\nevery = \"5s\"\n[[election]]\nelection = \"jobs/a\"\n\
         [[election]]\nelection = \"jobs/b\"\nlease = \"5s\"\n",
    );
    let said = refused(&["--config", file.to_str().unwrap()], &[]);
    assert!(said.contains("tenure.toml:7:9: lease = \"5s\"\n"), "{said}");
    assert_eq!(said.matches("\n  ").count(), 3, "one complaint, three lines: {said}");
}

#[test]
fn the_example_makes_sense() {
    let example = tools::repository().join("deploy/tenure.toml");
    let example = example.to_str().unwrap();
    // An account is all that is missing, for each of the two elections.
    let output =
        tenure(&["run", "--config", example, "--listen", "127.0.0.1:0"], &[("PATH", "/bin")]);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert_eq!(said.matches("\n    no storage account is given\n").count(), 2, "{said}");
    assert_eq!(said.lines().filter(|line| line.starts_with("  ")).count(), 2 * 3, "{said}");
}

#[test]
fn an_address_that_is_not_ours_and_a_command_that_is_not_there_are_told_together() {
    let election = ["jobs/a", "--every", "5s"];
    // Of those that documents use for examples.
    let listen = ["--listen", "203.0.113.1:0", "--", "/nowhere/backup"];
    let said = refused(&[&election[..], &listen].concat(), &[]);
    assert!(said.contains("--listen 203.0.113.1:0\n"), "{said}");
    assert!(said.contains("choose an address of this machine"), "{said}");
    assert!(said.contains("-- /nowhere/backup\n"), "{said}");
}
