use super::super::source::Source as File;
use super::super::table::{
    ALLOW_HOST, COMMAND, DELIVERY, EVERY, KEY, LEASE, LISTEN, MARGIN, TABLE, WEBHOOK,
};
use super::super::{CommandLine, parse};
use super::*;
use crate::args::program;

/// One election of `tenure run` with these arguments and variables, and this file if it says anything.
fn given(arguments: &[&str], variables: &[&str], file: &str) -> Given {
    let all = ["tenure", "run"].iter().chain(arguments);
    let matches = program(TABLE).try_get_matches_from(all).unwrap();
    let line = CommandLine::of(TABLE, "run", matches.subcommand().unwrap().1);
    let set = |name: &str| variables.contains(&name).then(|| OsString::from("1s"));
    let content = parse::parse(&File::of(file), TABLE);
    Given::resolve(&line, &set, (!file.is_empty()).then_some((&content, None)))
}

#[test]
fn a_value_is_told_as_it_was_written() {
    let file = "\nlease = \"5s\"\nallow-host = [\"a\", \"b c\"]\ncommand = [\"nowhere\", \"--x\"]\n\
                while-leading = true\n";
    let in_file = given(&["--margin", "1s"], &["TENURE_RENEW"], file);
    let told = |given: &Given, setting| given.get(setting).unwrap().told();
    assert_eq!(told(&in_file, &LEASE), "t.toml:2:9: lease = \"5s\"");
    assert_eq!(told(&in_file, &MARGIN), "--margin 1s");
    assert_eq!(told(&in_file, &COMMAND), "t.toml:4:12: command = \"nowhere\"");
    let hosts = in_file.get(&ALLOW_HOST).unwrap();
    assert_eq!(hosts.told_of(hosts.words.last()), "t.toml:3:20: allow-host = \"b c\"");
    assert_eq!(hosts.told_bare(), "t.toml:3:1: allow-host");
    let lease = in_file.get(&LEASE).unwrap();
    assert_eq!(lease.told_bare(), "t.toml:2:9: lease");
    let by_option = given(&["--webhook", "http://a/?c2VjcmV0", "--", "backup", "--all"], &[], "");
    assert_eq!(told(&by_option, &COMMAND), "-- backup");
    assert_eq!(told(&by_option, &WEBHOOK), "--webhook");
    let by_variable = given(&[], &["TENURE_LEASE"], "");
    assert_eq!(told(&by_variable, &LEASE), "TENURE_LEASE");
}

#[test]
fn what_is_missing_is_told_where_it_could_be_said() {
    let told = |given: &Given, setting| given.told_missing(setting);
    let bare = given(&[], &[], "");
    assert_eq!(told(&bare, &EVERY).unwrap(), "--every, or TENURE_EVERY");
    assert_eq!(told(&bare, &COMMAND).unwrap(), "-- …");
    let in_file = given(&[], &[], "name = \"a\"");
    assert_eq!(told(&in_file, &EVERY).unwrap(), "t.toml:1:1: every, or TENURE_EVERY");
    // What is there in a way that makes no sense is told already.
    assert_eq!(told(&given(&[], &[], "cron = 5"), &EVERY), None);
}

#[test]
fn a_text_calls_a_setting_as_it_was_given() {
    let called = |given: &Given, about: &Setting| {
        [&DELIVERY, &LEASE].map(|setting| given.called(setting, given.get(about)))
    };
    let by_option = given(&["--margin", "3s"], &[], "");
    assert_eq!(called(&by_option, &MARGIN), ["--delivery", "--lease"]);
    let mixed = given(&["--margin", "3s"], &["TENURE_LEASE"], "");
    assert_eq!(called(&mixed, &MARGIN), ["--delivery", "TENURE_LEASE"]);
    // All settings go by their variables to who sets variables.
    let by_variable = given(&[], &["TENURE_MARGIN"], "");
    assert_eq!(called(&by_variable, &MARGIN), ["TENURE_DELIVERY", "TENURE_LEASE"]);
    let in_file = given(&[], &[], "margin = \"3s\"");
    assert_eq!(called(&in_file, &MARGIN), ["delivery", "lease"]);
    // A text that is about no value.
    assert_eq!(in_file.called(&LISTEN, None), "listen");
    assert_eq!(by_option.called(&LISTEN, None), "--listen");
    assert_eq!(given(&[], &["TENURE_LISTEN"], "").called(&LISTEN, None), "TENURE_LISTEN");
    assert_eq!(by_option.called(&COMMAND, None), "-- …");
    assert_eq!(by_option.called(&KEY, None), "AZURE_STORAGE_KEY_FILE");
}
