use super::super::source::Source as File;
use super::super::table::{ALLOW_HOST, COMMAND, EVERY, LEASE, MARGIN, TABLE, TIME_ZONE, WEBHOOK};
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
fn texts_speak_as_people_wrote() {
    let text = "leave it out, or set TENURE_DELIVERY=at-least-once; raise TENURE_LEASE.";
    let words = |given: &Given, about: &Setting| given.in_their_words(text, given.get(about));
    let by_option = given(&["--margin", "3s"], &[], "");
    assert_eq!(
        words(&by_option, &MARGIN),
        "leave it out, or set --delivery at-least-once; raise --lease."
    );
    // What is set by a variable goes by its name, and all does for who sets variables.
    let mixed = given(&["--margin", "3s"], &["TENURE_LEASE"], "");
    assert_eq!(
        words(&mixed, &MARGIN),
        "leave it out, or set --delivery at-least-once; raise TENURE_LEASE."
    );
    let by_variable = given(&[], &["TENURE_MARGIN"], "");
    assert_eq!(words(&by_variable, &MARGIN), text);
    let in_file = given(&[], &[], "margin = \"3s\"");
    assert_eq!(
        words(&in_file, &MARGIN),
        "leave it out, or set delivery = \"at-least-once\"; raise lease."
    );
    // Texts of the program name options.
    let advice = "add --listen, or leave it out";
    assert_eq!(in_file.in_their_words(advice, None), "add listen, or leave it out");
    assert_eq!(by_option.in_their_words(advice, None), advice);
    let set = given(&[], &["TENURE_LISTEN"], "");
    assert_eq!(set.in_their_words(advice, None), "add TENURE_LISTEN, or leave it out");
}

#[test]
fn problems_of_a_candidate_speak_so_too() {
    let problem = "find out what it waits for, or raise TENURE_TURN_TIMEOUT";
    let translated = |given: &Given| given.vocabulary().translate(problem);
    let by_option = given(&["--turn-timeout", "5s"], &[], "");
    assert_eq!(translated(&by_option), problem.replace("TENURE_TURN_TIMEOUT", "--turn-timeout"));
    let in_file = given(&[], &[], "turn-timeout = \"5s\"");
    assert_eq!(translated(&in_file), problem.replace("TENURE_TURN_TIMEOUT", "turn-timeout"));
    assert_eq!(translated(&given(&[], &["TENURE_TURN_TIMEOUT"], "")), problem);
}

#[test]
fn a_problem_names_another_setting_as_it_was_given() {
    let problem = "is set without TENURE_CRON";
    let by_option = given(&["--time-zone", "UTC"], &[], "");
    let zone = by_option.get(&TIME_ZONE);
    assert_eq!(by_option.in_their_words(problem, zone), "is set without --cron");
}
