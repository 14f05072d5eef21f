mod pattern;

use super::super::Setting;
use super::super::table::{
    ALLOW_HOST, CA_FILE, COMMAND, CONNECTION_STRING_FILE, CRON, ENV, EVERY, HANDLER, LEASE, LOG,
    MAX_ATTEMPTS, NAME, TABLE, WHILE_LEADING,
};
use super::*;
use crate::args::program;
use crate::configuration::Configuration;
use std::ffi::OsString;

/// Returns a command line of `tenure run`.
fn line(arguments: &[&str]) -> CommandLine {
    line_of("run", arguments)
}

fn line_of(command: &str, arguments: &[&str]) -> CommandLine {
    let all = ["tenure", command].into_iter().chain(arguments.iter().copied());
    let matches = program(TABLE).try_get_matches_from(all).unwrap();
    CommandLine::from_matches(TABLE, command, matches.subcommand().unwrap().1)
}

/// Resolves the elections of a file, with a command line and variables that are set.
fn elections(file: &str, command_line: &[&str], variables: &[&str]) -> Elections {
    let set = |name: &str| variables.contains(&name).then(|| OsString::from("set"));
    Elections::from_file(&SettingsFile::from_text(file), &line(command_line), &set)
}

fn only(elections: &Elections) -> &ResolvedSettings {
    assert_eq!(elections.complaints, []);
    let [resolved] = elections.resolved.as_slice() else { panic!("one election") };
    resolved
}

fn items_of(resolved: &ResolvedSettings, setting: &Setting) -> Vec<String> {
    let words = resolved.get(setting).into_iter().flat_map(|value| &value.items);
    words.map(|item| item.text.to_str().unwrap().to_owned()).collect()
}

fn text(resolved: &ResolvedSettings, setting: &Setting) -> Option<String> {
    items_of(resolved, setting).pop()
}

fn sources(elections: &Elections) -> Vec<&str> {
    elections.complaints.iter().map(|complaint| complaint.source.as_str()).collect()
}

#[test]
fn the_strongest_place_counts() {
    let file = "lease = \"20s\"\n[[election]]\nlease = \"30s\"\n";
    let lease = |file, command_line: &[&str], variables: &[&str]| {
        text(only(&elections(file, command_line, variables)), &LEASE)
    };
    let both = &["--lease", "40s"][..];
    assert_eq!(lease(file, both, &["TENURE_LEASE"]).as_deref(), Some("40s"));
    assert_eq!(lease(file, &[], &["TENURE_LEASE"]).as_deref(), Some("set"));
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
    let from_file = elections(file, &[], &[]);
    let typed = [
        &["--log", "json", "jobs/a", "--max-attempts", "-1", "--name=-x"][..],
        &["--allow-host", "a", "--allow-host", "b", "--env", "A=--b=c"],
        &["--ca-file", "/etc/ca.pem", "--", "backup", "--all", "--"],
    ];
    let typed = ResolvedSettings::from_command_line(&line(&typed.concat()));
    for (setting, expected) in [
        (&ELECTION, &["jobs/a"][..]),
        (&MAX_ATTEMPTS, &["-1"]),
        (&NAME, &["-x"]),
        (&COMMAND, &["backup", "--all", "--"]),
        (&ALLOW_HOST, &["a", "b"]),
        (&ENV, &["A=--b=c"]),
        (&CA_FILE, &["/etc/ca.pem"]),
        (&LOG, &["json"]),
    ] {
        assert_eq!(items_of(only(&from_file), setting), expected, "{}", setting.name);
        assert_eq!(items_of(&typed, setting), expected, "{}", setting.name);
    }
}

#[test]
fn a_list_takes_the_place_of_the_whole_other_list() {
    let file = "env = { A = \"1\" }\n[[election]]\nenv = { B = \"2\" }\n";
    assert_eq!(items_of(only(&elections(file, &[], &[])), &ENV), ["B=2"]);
    let merged = elections(file, &["--env", "C=3", "--env", "D=4"], &[]);
    assert_eq!(items_of(only(&merged), &ENV), ["C=3", "D=4"]);
}

#[test]
fn another_timer_or_work_takes_the_place_of_the_weaker_one() {
    let file = "every = \"5s\"\nhandler = \"a.wasm\"\n[[election]]\ncron = \"* * * * *\"\n";
    let from_file = elections(file, &[], &[]);
    let from_file = only(&from_file);
    assert_eq!((text(from_file, &EVERY), from_file.is_on(&CRON)), (None, true));
    let merged = elections(file, &["--every", "9s", "--", "true"], &[]);
    let only_election = only(&merged);
    assert_eq!(
        (text(only_election, &EVERY).as_deref(), text(only_election, &CRON)),
        (Some("9s"), None)
    );
    assert_eq!((only_election.is_on(&HANDLER), only_election.is_on(&COMMAND)), (false, true));
    assert!(!only(&elections(file, &[], &["TENURE_EVERY"])).is_on(&CRON));
    // Two options on a command line contradict each other, which is reported.
    let both = elections(file, &["--every", "9s", "--cron", "* * * * *"], &[]);
    assert!(only(&both).is_on(&EVERY) && only(&both).is_on(&CRON));
}

#[test]
fn a_switch_is_on_or_off() {
    let on = elections("while-leading = true\nevery = \"5s\"\n", &[], &[]);
    assert!(only(&on).is_on(&WHILE_LEADING));
    let off = "every = \"5s\"\n[[election]]\nwhile-leading = false\n";
    let off = elections(off, &[], &[]);
    assert!(!only(&off).is_on(&WHILE_LEADING));
    assert_eq!(text(only(&off), &EVERY).as_deref(), Some("5s"));
    let off = "while-leading = true\n[[election]]\nwhile-leading = false\n";
    assert!(!only(&elections(off, &[], &[])).is_on(&WHILE_LEADING));
    let file = "while-leading = true\n[[election]]\ncron = \"* * * * *\"\n";
    let other = elections(file, &[], &[]);
    assert!(!only(&other).is_on(&WHILE_LEADING) && only(&other).is_on(&CRON));
    let merged = elections("every = \"5s\"\n", &["--while-leading"], &[]);
    assert!(only(&merged).is_on(&WHILE_LEADING) && !only(&merged).is_on(&EVERY));
}

#[test]
fn a_credential_in_the_environment_wins_too() {
    let file = "connection-string-file = \"secret\"\n";
    let named =
        |variables: &[&str]| text(only(&elections(file, &[], variables)), &CONNECTION_STRING_FILE);
    assert_eq!(named(&[]).as_deref(), Some("/etc/secret"));
    assert_eq!(named(&["AZURE_STORAGE_CONNECTION_STRING_FILE"]).as_deref(), Some("set"));
    // The value is not kept.
    assert_eq!(named(&["AZURE_STORAGE_CONNECTION_STRING"]), None);
}

#[test]
fn single_election_settings_are_refused_for_several() {
    let file = "[[election]]\nelection = \"jobs/a\"\n[[election]]\nelection = \"jobs/b\"\n";
    let command_line = ["--lease", "20s", "--", "true"];
    let several = elections(file, &command_line, &["TENURE_EVERY", "TENURE_NAME"]);
    let named = sources(&several);
    assert_eq!(named.len(), 2, "{named:?}");
    for source in ["-- …", "TENURE_EVERY"] {
        assert!(named.contains(&source), "{source}: {named:?}");
    }
    // The refused settings are not validated: otherwise a cron expression without effect would
    // cause another complaint.
    assert_eq!(
        several.resolved.iter().map(|resolved| text(resolved, &ELECTION)).collect::<Vec<_>>(),
        [Some("jobs/a".to_owned()), Some("jobs/b".to_owned())]
    );
    assert!(several.resolved.iter().all(|resolved| text(resolved, &EVERY).is_none()));
    let one = elections("[[election]]\nelection = \"jobs/a\"\n", &command_line, &["TENURE_EVERY"]);
    assert_eq!(text(only(&one), &EVERY).as_deref(), Some("set"));
}

#[test]
fn no_election_is_there_twice() {
    let file = "[[election]]\nelection = \"jobs/a\"\n[[election]]\nelection = \"jobs/b\"\n\
                [[election]]\nelection = \"jobs/a\"\n";
    assert_eq!(sources(&elections(file, &[], &[])), ["t.toml:6:12: election = \"jobs/a\""]);
}

#[test]
fn missing_settings_are_reported_with_their_election() {
    let sources_of = |file: &str| {
        let mut elections = elections(file, &["--lease", "1s"], &[]);
        for resolved in std::mem::take(&mut elections.resolved) {
            let mut configuration = Configuration::for_run(resolved);
            configuration.complaints.clear();
            configuration.complain(&EVERY, "no timer", "");
            configuration.complain_at("A".to_owned(), "", "");
            configuration.complain(&LEASE, "short", "");
            elections.complain(configuration.complaints);
        }
        sources(&elections).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let file = "[[election]]\nelection = \"a/a\"\n[[election]]\nelection = \"b/b\"\n";
    assert_eq!(sources_of(file), ["t.toml:1:1: every", "A", "--lease 1s", "t.toml:3:1: every"]);
    assert_eq!(
        sources_of("election = \"a/a\"\n"),
        ["t.toml:1:1: every, or TENURE_EVERY", "A", "--lease 1s"]
    );
    assert_eq!(sources_of("evry = \"5s\"\n"), ["t.toml:1:1: evry", "A", "--lease 1s"]);
    assert_eq!(sources_of("cron = 5\n"), ["t.toml:1:8: cron", "A", "--lease 1s"]);
    // A complaint elsewhere does not explain a missing setting.
    let other = "nmae = \"a\"\n[[election]]\nevery = 5\n[[election]]\n";
    assert_eq!(
        sources_of(other),
        ["t.toml:1:1: nmae", "t.toml:3:9: every", "A", "--lease 1s", "t.toml:4:1: every"]
    );
    assert_eq!(
        sources_of("[election]\n"),
        ["t.toml:1:2: election", "t.toml:1:2: every, or TENURE_EVERY", "A", "--lease 1s"]
    );
}

#[test]
fn invalid_toml_is_the_only_complaint() {
    let broken = elections("lease = 15s\n", &[], &[]);
    assert_eq!((broken.resolved.len(), broken.complaints.len()), (0, 1));
}

const TWO: &str = "lease = \"20s\"\n[[election]]\nelection = \"jobs/a\"\n\
                   [[election]]\nelection = \"jobs/b\"\nlease = \"30s\"\n";

#[test]
fn one_election_of_a_file_can_be_named() {
    let named = |command, file, arguments: &[&str]| {
        Elections::from_file(&SettingsFile::from_text(file), &line_of(command, arguments), &|_| {
            None
        })
    };
    for command in ["run", "check", "status"] {
        let elections = named(command, TWO, &["jobs/b"]);
        assert_eq!(text(only(&elections), &LEASE).as_deref(), Some("30s"), "{command}");
        assert!(!elections.is_whole_file);
    }
    let all = named("status", TWO, &[]);
    assert!(all.is_whole_file && all.resolved.len() == 2 && all.complaints.is_empty());
    let none = named("status", TWO, &["jobs/c"]);
    assert_eq!(sources(&none), ["jobs/c"]);
    assert!(none.complaints[0].advice.contains("(jobs/a, jobs/b)"), "{:?}", none.complaints);
    // A file that names no election applies to any.
    let any = named("status", "lease = \"20s\"\n", &["jobs/c"]);
    assert_eq!(text(only(&any), &LEASE).as_deref(), Some("20s"));
    let other = named("status", "election = \"jobs/a\"\n", &["jobs/c"]);
    assert_eq!(sources(&other), ["jobs/c"]);
}

#[test]
fn command_for_one_election_lists_the_candidates_of_the_file() {
    let single = |arguments: &[&str]| {
        Elections::from_file(&SettingsFile::from_text(TWO), &line_of("break", arguments), &|_| None)
            .into_single()
    };
    let (_, complaints) = single(&["--yes"]);
    assert_eq!(complaints.len(), 1);
    assert_eq!(complaints[0].advice, "name one of them: jobs/a, jobs/b");
    let (resolved, complaints) = single(&["--yes", "jobs/a"]);
    assert_eq!((resolved.text(&ELECTION).as_deref(), complaints), (Some("jobs/a"), Vec::new()));
}

/// A lock has its own blob, and ignores the elections of the file.
#[cfg(unix)]
#[test]
fn lock_uses_the_defaults_of_the_file() {
    let lock_settings = |arguments: &[&str]| {
        let line = line_of("lock", &[arguments, &["--", "true"]].concat());
        let file = TWO.replace("lease = \"30s\"", "handler = \"a.wasm\"\nevery = \"5s\"");
        let (mut resolved, complaints) =
            Elections::from_file(&SettingsFile::from_text(&file), &line, &|_| None).into_single();
        resolved.retain_command_settings();
        let values = [&LEASE, &EVERY, &HANDLER, &COMMAND].map(|setting| text(&resolved, setting));
        (values, complaints.len())
    };
    let expected = [Some("20s".to_owned()), None, None, Some("true".to_owned())];
    assert_eq!(lock_settings(&["jobs/c"]), (expected.clone(), 0));
    assert_eq!(lock_settings(&["jobs/b"]), (expected, 0));
    assert_eq!(lock_settings(&[]).1, 1);
}

#[cfg(unix)]
#[test]
fn lock_writes_the_whole_log_wherever_it_is_asked_for() {
    let logs_everything = |file: &str, options: &[&str], variables: &[&str]| {
        let line = line_of("lock", &[options, &["jobs/c", "--", "true"]].concat());
        let set = |name: &str| variables.contains(&name).then(|| OsString::from("info"));
        let (resolved, complaints) =
            Elections::from_file(&SettingsFile::from_text(file), &line, &set).into_single();
        assert_eq!(complaints, []);
        crate::lock::logs_everything(&resolved)
    };
    let plain = "lease = \"20s\"\n";
    assert!(!logs_everything(plain, &[], &[]));
    assert!(logs_everything(plain, &["--log-level", "info"], &[]));
    assert!(logs_everything(plain, &[], &["TENURE_LOG_LEVEL"]));
    assert!(logs_everything("log-level = \"info\"\n", &[], &[]));
    assert!(logs_everything(plain, &["--log", "json"], &[]));
    assert!(logs_everything("log = \"json\"\n", &[], &[]));
}

#[test]
fn election_of_a_whole_container_need_not_be_in_the_file() {
    let file = "lease = \"20s\"\n[[election]]\nelection = \"jobs/a\"\nlease = \"30s\"\n";
    let resolve = |options: &[&str], name: &str| {
        let line = line_of("status", options).with(&ELECTION, name.to_owned());
        let elections = Elections::from_file(&SettingsFile::from_text(file), &line, &|_| None);
        (text(&elections.resolved[0], &LEASE), elections.complaints.len())
    };
    let all = &["--all", "jobs"];
    assert_eq!(resolve(all, "jobs/a"), (Some("30s".to_owned()), 0));
    assert_eq!(resolve(all, "jobs/b"), (Some("20s".to_owned()), 0));
    assert_eq!(resolve(&[], "jobs/b").1, 1);
}
