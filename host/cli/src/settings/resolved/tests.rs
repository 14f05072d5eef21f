use super::super::parse::SettingsFile as File;
use super::super::table::{
    ALLOW_HOST, COMMAND, DELIVERY, EVERY, KEY, LEASE, LISTEN, MARGIN, TABLE, WEBHOOK,
};
use super::super::{CommandLine, parse};
use super::*;
use crate::args::program;

/// Resolves an election of `tenure run` with these arguments and variables, and a file unless the
/// text is empty.
fn resolve(arguments: &[&str], variables: &[&str], file: &str) -> ResolvedSettings {
    let all = ["tenure", "run"].iter().chain(arguments);
    let matches = program(TABLE).try_get_matches_from(all).unwrap();
    let line = CommandLine::from_matches(TABLE, "run", matches.subcommand().unwrap().1);
    let set = |name: &str| variables.contains(&name).then(|| OsString::from("1s"));
    let content = parse::parse(&File::from_text(file), TABLE);
    ResolvedSettings::resolve(&line, &set, (!file.is_empty()).then_some((&content, None)))
}

#[test]
fn value_is_described_as_it_was_written() {
    let file = "\nlease = \"5s\"\nallow-host = [\"a\", \"b c\"]\ncommand = [\"nowhere\", \"--x\"]\n\
                while-leading = true\n";
    let in_file = resolve(&["--margin", "1s"], &["TENURE_RENEW"], file);
    let describe = |resolved: &ResolvedSettings, setting| resolved.get(setting).unwrap().describe();
    assert_eq!(describe(&in_file, &LEASE), "t.toml:2:9: lease = \"5s\"");
    assert_eq!(describe(&in_file, &MARGIN), "--margin 1s");
    assert_eq!(describe(&in_file, &COMMAND), "t.toml:4:12: command = \"nowhere\"");
    let hosts = in_file.get(&ALLOW_HOST).unwrap();
    assert_eq!(hosts.describe_item(hosts.items.last()), "t.toml:3:20: allow-host = \"b c\"");
    assert_eq!(hosts.describe_without_value(), "t.toml:3:1: allow-host");
    let lease = in_file.get(&LEASE).unwrap();
    assert_eq!(lease.describe_without_value(), "t.toml:2:9: lease");
    let by_option = resolve(&["--webhook", "http://a/?c2VjcmV0", "--", "backup", "--all"], &[], "");
    assert_eq!(describe(&by_option, &COMMAND), "-- backup");
    assert_eq!(describe(&by_option, &WEBHOOK), "--webhook");
    let by_variable = resolve(&[], &["TENURE_LEASE"], "");
    assert_eq!(describe(&by_variable, &LEASE), "TENURE_LEASE");
}

#[test]
fn missing_value_is_described_by_where_it_can_be_set() {
    let describe_missing =
        |resolved: &ResolvedSettings, setting| resolved.describe_missing(setting);
    let bare = resolve(&[], &[], "");
    assert_eq!(describe_missing(&bare, &EVERY).unwrap(), "--every, or TENURE_EVERY");
    assert_eq!(describe_missing(&bare, &COMMAND).unwrap(), "-- …");
    let in_file = resolve(&[], &[], "name = \"a\"");
    assert_eq!(describe_missing(&in_file, &EVERY).unwrap(), "t.toml:1:1: every, or TENURE_EVERY");
    // An invalid value already has a complaint.
    assert_eq!(describe_missing(&resolve(&[], &[], "cron = 5"), &EVERY), None);
}

#[test]
fn display_name_follows_how_the_setting_was_written() {
    let names = |resolved: &ResolvedSettings, about: &Setting| {
        [&DELIVERY, &LEASE].map(|setting| resolved.display_name(setting, resolved.get(about)))
    };
    let by_option = resolve(&["--margin", "3s"], &[], "");
    assert_eq!(names(&by_option, &MARGIN), ["--delivery", "--lease"]);
    let mixed = resolve(&["--margin", "3s"], &["TENURE_LEASE"], "");
    assert_eq!(names(&mixed, &MARGIN), ["--delivery", "TENURE_LEASE"]);
    // With variables, all settings are named by their variables.
    let by_variable = resolve(&[], &["TENURE_MARGIN"], "");
    assert_eq!(names(&by_variable, &MARGIN), ["TENURE_DELIVERY", "TENURE_LEASE"]);
    let in_file = resolve(&[], &[], "margin = \"3s\"");
    assert_eq!(names(&in_file, &MARGIN), ["delivery", "lease"]);
    // A message that is not about a value.
    assert_eq!(in_file.display_name(&LISTEN, None), "listen");
    assert_eq!(by_option.display_name(&LISTEN, None), "--listen");
    assert_eq!(resolve(&[], &["TENURE_LISTEN"], "").display_name(&LISTEN, None), "TENURE_LISTEN");
    assert_eq!(by_option.display_name(&COMMAND, None), "-- …");
    assert_eq!(by_option.display_name(&KEY, None), "AZURE_STORAGE_KEY_FILE");
}
