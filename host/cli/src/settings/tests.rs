//! Tests with an additional setting: one row must be enough to define it.

mod page;

use super::parse::SettingsFile;
use super::table::{MEMORY_LIMIT, TABLE};
use super::*;
use crate::args::program;
use crate::configuration::{Configuration, known_variables, misspelling};
use crate::manual;
use clap_complete::Shell;
use std::ffi::OsString;
use std::time::Duration;

static MADE_UP: Setting = Setting {
    name: "sharpness",
    variable: "TENURE_SHARPNESS",
    content: "",
    kind: Kind::Duration,
    range: Range::Durations(Duration::from_secs(1)..=Duration::from_secs(10)),
    default: &[Part::Time(Duration::from_secs(2))],
    commands: &["run", "observe"],
    required: false,
    scope: Scope::Any,
    choice: None,
    works: &[],
    component: false,
    short: "",
    help: "How sharp it is",
    more: "As of a knife",
    advice: "choose how sharp it should be",
    heading: MEMORY_LIMIT.heading,
};

fn table() -> Vec<&'static Setting> {
    [TABLE, &[&MADE_UP]].concat()
}

fn line(command: &str, arguments: &[&str]) -> CommandLine {
    let all = ["tenure", command].into_iter().chain(arguments.iter().copied());
    let matches = program(&table()).try_get_matches_from(all).unwrap();
    CommandLine::from_matches(&table(), command, matches.subcommand().unwrap().1)
}

/// Returns the resolved value and the complaints.
fn resolve_value(
    arguments: &[&str],
    variable: Option<&str>,
    file: &str,
) -> (Option<Duration>, Vec<String>) {
    let set = |name: &str| variable.filter(|_| name == MADE_UP.variable).map(OsString::from);
    let elections =
        Elections::from_file(&SettingsFile::from_text(file), &line("run", arguments), &set);
    assert_eq!(elections.complaints, []);
    let resolved = elections.resolved.into_iter().next().unwrap();
    let mut configuration = Configuration::for_run(resolved);
    configuration.complaints.clear();
    let value = configuration.duration(&MADE_UP);
    let complaints = configuration.complaints.into_iter();
    (value, complaints.map(|c| format!("{}: {}; {}", c.source, c.problem, c.advice)).collect())
}

#[test]
fn made_up_setting_is_an_option_with_help() {
    for (command, is_present) in [("run", true), ("observe", true), ("status", false)] {
        let mut program = program(&table());
        let help = program.find_subcommand_mut(command).unwrap().render_long_help().to_string();
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        let expected = "--sharpness <DURATION> How sharp it is; 1s to 10s; default: 2s [env: TENURE_SHARPNESS]";
        assert_eq!(help.contains(expected), is_present, "{command}: {help}");
    }
    assert_eq!(
        ResolvedSettings::from_command_line(&line("observe", &["--sharpness", "3s"]))
            .text(&MADE_UP)
            .unwrap(),
        "3s"
    );
}

#[test]
fn made_up_setting_is_a_key_and_a_variable() {
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    let file = "name = \"a\"\nsharpness = \"4s\"\n";
    assert_eq!(resolve_value(&[], None, "name = \"a\"").0, None);
    assert_eq!(resolve_value(&[], None, file).0, seconds(4));
    assert_eq!(resolve_value(&[], Some("5s"), file).0, seconds(5));
    assert_eq!(resolve_value(&["--sharpness", "6s"], Some("5s"), file).0, seconds(6));

    let wrong = "\"11s\" is not between 1s and 10s; choose how sharp it should be";
    for (arguments, variable, file, source) in [
        (&["--sharpness", "11s"][..], None, file, "--sharpness 11s"),
        (&[], Some("11s"), file, "TENURE_SHARPNESS"),
        (&[], None, "sharpness = \"11s\"", "t.toml:1:13: sharpness = \"11s\""),
    ] {
        assert_eq!(resolve_value(arguments, variable, file).1, [format!("{source}: {wrong}")]);
    }
    let (_, complaints) = resolve_value(&["--sharpness", "very"], None, file);
    assert!(complaints[0].contains("\"very\" is not a duration"), "{complaints:?}");
}

#[test]
fn misspellings_get_a_suggestion() {
    let complaint = misspelling("TENURE_SHARPNES", &known_variables(&table()), &table());
    assert_eq!(complaint.unwrap().advice, "did you mean TENURE_SHARPNESS?");
    for (file, words) in [
        ("sharpnes = \"1s\"", "did you mean sharpness?"),
        ("sharpness = 1", "as in sharpness = \"15s\""),
    ] {
        let complaints = parse::parse(&SettingsFile::from_text(file), &table()).complaints;
        assert!(complaints[0].advice.contains(words), "{complaints:?}");
    }
}

#[test]
fn made_up_setting_is_in_pages_and_completions() {
    let program = program(&table());
    let man = manual::page(program.find_subcommand("run").unwrap());
    assert!(man.contains("sharpness") && man.contains("How sharp it is; 1s to 10s"), "{man}");
    assert!(manual::script(Shell::Bash, &table()).contains("--sharpness"));
    let row =
        "| `--sharpness`, `TENURE_SHARPNESS` | 2s | 1s to 10s | How sharp it is. As of a knife |";
    let page = page::tables(&table());
    assert!(page.lines().any(|line| line == row), "{page}");
}
