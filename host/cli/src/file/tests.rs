use super::*;
use crate::args::Format;

/// What becomes of a file, a command line, and the variables that are set.
fn elections(file: &str, command_line: &[&str], variables: &[&str]) -> Elections {
    let given = keys::run_command().try_get_matches_from(command_line).unwrap();
    Elections::of_file(&Source::of(file), &given, &|name| variables.contains(&name))
}

fn only(elections: &Elections) -> &RunArguments {
    assert_eq!(elections.complaints, []);
    let [Told { arguments, .. }] = elections.told.as_slice() else { panic!("one election") };
    arguments
}

fn sources(elections: &Elections) -> Vec<&str> {
    elections.complaints.iter().map(|complaint| complaint.source.as_str()).collect()
}

#[test]
fn the_strongest_place_counts() {
    let file = "lease = \"20s\"\n[[election]]\nlease = \"30s\"\n";
    let lease = |file, command_line: &[&str], variables: &[&str]| {
        only(&elections(file, command_line, variables)).lease.clone()
    };
    let both = &["--lease", "40s"][..];
    assert_eq!(lease(file, both, &["TENURE_LEASE"]).as_deref(), Some("40s"));
    // It is read where it always was.
    assert_eq!(lease(file, &[], &["TENURE_LEASE"]), None);
    assert_eq!(lease(file, &[], &[]).as_deref(), Some("30s"));
    assert_eq!(lease("lease = \"20s\"\n[[election]]\n", &[], &[]).as_deref(), Some("20s"));
    assert_eq!(lease("lease = \"20s\"\n", &[], &[]).as_deref(), Some("20s"));
    assert_eq!(lease("name = \"a\"\n", &[], &[]), None);
}

#[test]
fn every_kind_of_value_arrives_as_it_would_from_the_command_line() {
    let file = "log = \"json\"\n[[election]]\nelection = \"jobs/a\"\nmax-attempts = -1\n\
                name = \"-x\"\ncommand = [\"backup\", \"--all\", \"--\"]\nallow-host = [\"a\", \"b\"]\n\
                env = { A = \"--b=c\" }\nca-file = \"ca.pem\"\n";
    let elections = elections(file, &[], &[]);
    let arguments = only(&elections);
    assert_eq!(arguments.election.as_deref(), Some("jobs/a"));
    assert_eq!(arguments.max_attempts.as_deref(), Some("-1"));
    assert_eq!(arguments.name.as_deref(), Some("-x"));
    assert_eq!(arguments.command, ["backup", "--all", "--"]);
    assert_eq!(arguments.allow_host, ["a", "b"]);
    assert_eq!(arguments.env, ["A=--b=c"]);
    assert_eq!(arguments.storage.ca_file.as_deref(), Some("/etc/ca.pem".as_ref()));
    assert!(arguments.log == Format::Json);
}

#[test]
fn a_list_takes_the_place_of_the_whole_other_list() {
    let file = "env = { A = \"1\" }\n[[election]]\nenv = { B = \"2\" }\n";
    assert_eq!(only(&elections(file, &[], &[])).env, ["B=2"]);
    assert_eq!(only(&elections(file, &["--env", "C=3", "--env", "D=4"], &[])).env, ["C=3", "D=4"]);
}

#[test]
fn another_timer_or_work_takes_the_place_of_the_weaker_one() {
    let file = "every = \"5s\"\nhandler = \"a.wasm\"\n[[election]]\ncron = \"* * * * *\"\n";
    let from_file = elections(file, &[], &[]);
    assert_eq!((&only(&from_file).every, only(&from_file).cron.is_some()), (&None, true));
    let given = elections(file, &["--every", "9s", "--", "true"], &[]);
    let given = only(&given);
    assert_eq!((given.every.as_deref(), given.cron.as_deref()), (Some("9s"), None));
    assert_eq!((&given.handler, given.command.len()), (&None, 1));
    assert_eq!(only(&elections(file, &[], &["TENURE_EVERY"])).cron, None);
}

#[test]
fn a_switch_is_on_or_off() {
    let on = elections("while-leading = true\nevery = \"5s\"\n", &[], &[]);
    assert!(only(&on).while_leading);
    let off = "every = \"5s\"\n[[election]]\nwhile-leading = false\n";
    let off = elections(off, &[], &[]);
    assert_eq!((only(&off).while_leading, only(&off).every.as_deref()), (false, Some("5s")));
    let file = "while-leading = true\n[[election]]\ncron = \"* * * * *\"\n";
    let other = elections(file, &[], &[]);
    assert_eq!((only(&other).while_leading, only(&other).cron.is_some()), (false, true));
    let given = elections("every = \"5s\"\n", &["--while-leading"], &[]);
    assert_eq!((only(&given).while_leading, &only(&given).every), (true, &None));
}

#[test]
fn a_credential_in_the_environment_wins_too() {
    let file = "connection-string-file = \"secret\"\n";
    let named = |variables: &[&str]| {
        only(&elections(file, &[], variables)).storage.connection_string_file.clone()
    };
    assert_eq!(named(&[]), Some("/etc/secret".into()));
    assert_eq!(named(&["AZURE_STORAGE_CONNECTION_STRING"]), None);
    assert_eq!(named(&["AZURE_STORAGE_CONNECTION_STRING_FILE"]), None);
}

#[test]
fn what_is_for_one_election_is_refused_for_several() {
    let file = "[[election]]\nelection = \"jobs/a\"\n[[election]]\nelection = \"jobs/b\"\n";
    let command_line = ["--election", "jobs/c", "--lease", "20s", "--", "true"];
    let several = elections(file, &command_line, &["TENURE_EVERY", "TENURE_NAME"]);
    let named = sources(&several);
    assert_eq!(named.len(), 3, "{named:?}");
    for source in ["--election", "-- …", "TENURE_EVERY"] {
        assert!(named.contains(&source), "{source}: {named:?}");
    }
    let one = elections("[[election]]\nelection = \"jobs/a\"\n", &command_line, &["TENURE_EVERY"]);
    assert_eq!(only(&one).election.as_deref(), Some("jobs/c"));
}

#[test]
fn no_election_is_there_twice() {
    let file = "[[election]]\nelection = \"jobs/a\"\n[[election]]\nelection = \"jobs/b\"\n\
                [[election]]\nelection = \"jobs/a\"\n";
    assert_eq!(sources(&elections(file, &[], &[])), ["t.toml:6:12: election = \"jobs/a\""]);
}

#[test]
fn what_the_settings_lack_is_told_with_its_election_unless_the_file_explains_it() {
    let missing = || vec![Complaint::new("--every", "no timer", ""), Complaint::new("A", "", "")];
    let tell = |file: &str| {
        let mut elections = elections(file, &["--lease", "1s"], &[]);
        for told in std::mem::take(&mut elections.told) {
            elections.complain(&told.origins, missing());
            elections.complain(&told.origins, vec![Complaint::new("--lease 1s", "", "")]);
        }
        sources(&elections).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let file = "[[election]]\nelection = \"a/a\"\n[[election]]\nelection = \"b/b\"\n";
    assert_eq!(tell(file), ["t.toml:1:1: every", "A", "--lease 1s", "t.toml:3:1: every"]);
    assert_eq!(tell("evry = \"5s\"\n"), ["t.toml:1:1: evry", "A", "--lease 1s"]);
    assert_eq!(tell("cron = 5\n"), ["t.toml:1:8: cron", "A", "--lease 1s"]);
    // What is wrong elsewhere explains nothing.
    let other = "nmae = \"a\"\n[[election]]\nevery = 5\n[[election]]\n";
    assert_eq!(
        tell(other),
        ["t.toml:1:1: nmae", "t.toml:3:9: every", "A", "--lease 1s", "t.toml:4:1: every"]
    );
    assert_eq!(
        tell("[election]\n"),
        ["t.toml:1:2: election", "t.toml:1:2: every", "A", "--lease 1s"]
    );
}

#[test]
fn what_is_no_toml_is_all_that_is_told() {
    let broken = elections("lease = 15s\n", &[], &[]);
    assert_eq!((broken.told.len(), broken.complaints.len()), (0, 1));
}
