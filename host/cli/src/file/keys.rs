//! The keys of the file: the long names of the options of `tenure run`, as clap knows them. A new
//! option is a key without more ado.

use crate::args::RunArguments;
use clap::{Arg, ArgAction, Args as _, Command};

/// Options that are none of the file's: it cannot name itself.
pub(super) const ELSEWHERE: [&str; 1] = ["config"];

/// Keys that hold for the whole process, so that they stand above all elections.
pub(super) const OF_PROCESS: [&str; 5] =
    ["control-token-file", "health-listen", "listen", "listen-host", "log"];

/// Keys that tell one election from the others. With several of them in a file they stand there
/// alone, not on the command line and in no variable.
pub(super) const OF_ONE: [&str; 7] =
    ["election", "every", "cron", "while-leading", "handler", "command", "webhook"];

/// Keys that take the place of each other. Where one is set, the others of its group count no more
/// if they are set in a weaker place.
pub(super) const INSTEAD: [&[&str]; 2] =
    [&["every", "cron", "while-leading"], &["handler", "command", "webhook"]];

/// One key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key {
    /// As it is written in the file, and after two dashes.
    pub name: String,
    /// As clap calls it.
    pub id: String,
    pub shape: Shape,
    /// The variables that say the same.
    pub variables: Vec<String>,
}

/// What a value looks like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Text,
    Duration,
    /// A path. In the file, it is relative to where the file is.
    File,
    Number,
    Switch,
    OneOf(Vec<String>),
    /// Strings.
    List,
    /// Names and strings.
    Table,
}

/// `tenure run` as clap knows it, to be given arguments without the program's name.
pub(super) fn run_command() -> Command {
    RunArguments::augment_args(Command::new("run")).no_binary_name(true)
}

/// All keys.
pub(super) fn keys() -> Vec<Key> {
    let command = run_command();
    command.get_arguments().filter_map(key).filter(|k| !ELSEWHERE.contains(&&*k.name)).collect()
}

fn key(argument: &Arg) -> Option<Key> {
    let id = argument.get_id().to_string();
    let name = match argument.is_positional() {
        true => id.clone(),
        false => argument.get_long()?.to_owned(),
    };
    Some(Key { name, id, shape: shape(argument), variables: variables(argument) })
}

fn shape(argument: &Arg) -> Shape {
    let value = argument.get_value_names().and_then(|names| names.first());
    let value = value.map_or("", |name| name.as_str());
    let words = argument.get_possible_values();
    match (argument.get_action(), value) {
        (ArgAction::SetTrue | ArgAction::SetFalse, _) => Shape::Switch,
        (ArgAction::Append, "KEY=VALUE") => Shape::Table,
        (ArgAction::Append, _) => Shape::List,
        _ if !words.is_empty() => {
            Shape::OneOf(words.iter().map(|word| word.get_name().to_owned()).collect())
        }
        (_, "FILE") => Shape::File,
        (_, "NUMBER") => Shape::Number,
        (_, "DURATION") => Shape::Duration,
        _ => Shape::Text,
    }
}

/// The variables that the help of an option names, as in `[env: TENURE_NAME]`.
fn variables(argument: &Arg) -> Vec<String> {
    let help = argument.get_long_help().or(argument.get_help());
    let help = help.map(ToString::to_string).unwrap_or_default();
    let named = help.split_once("[env: ").and_then(|(_, rest)| rest.split_once(']'));
    let words = named.map_or("", |(named, _)| named);
    let words = words.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.contains('_')).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Key {
        keys().into_iter().find(|key| key.name == name).unwrap()
    }

    #[test]
    fn every_option_of_run_is_a_key_but_those_that_are_elsewhere() {
        let keys: Vec<_> = keys().into_iter().map(|key| key.name).collect();
        for argument in run_command().get_arguments() {
            let name = argument.get_long().unwrap_or(argument.get_id().as_str());
            let elsewhere = ELSEWHERE.contains(&name);
            assert_eq!(keys.iter().any(|key| key == name), !elsewhere, "{name}");
        }
        assert!(keys.len() > 25, "{keys:?}");
    }

    /// The variables decide whether the file counts, so that they must be those that are read.
    #[test]
    fn the_variable_of_an_option_is_its_name() {
        let credential = "connection-string-file";
        for Key { name, variables, .. } in keys() {
            let owner = if name == credential { "AZURE_STORAGE" } else { "TENURE" };
            let own = match name.as_str() {
                // Named as the component for platforms has them.
                "webhook" => "TENURE_HANDLER_URL".to_owned(),
                "webhook-timeout" => "TENURE_HANDLER_TIMEOUT".to_owned(),
                "webhook-ca-file" => "TENURE_HANDLER_CA_FILE".to_owned(),
                name => format!("{owner}_{}", name.replace('-', "_").to_uppercase()),
            };
            // What a file holds can be in a variable too.
            let content = own.trim_end_matches("_FILE");
            let known = |variable: &String| *variable == own || *variable == content;
            assert!(variables.iter().all(known), "{name}: {variables:?}");
        }
        assert_eq!(named("time-zone").variables, ["TENURE_TIME_ZONE"]);
        assert_eq!(named(credential).variables.len(), 2);
        assert_eq!(named("control-token-file").variables.len(), 2);
        assert_eq!(named("env").variables, [""; 0]);
    }

    #[test]
    fn what_a_value_looks_like_follows_from_the_option() {
        for (name, shape) in [
            ("name", Shape::Text),
            ("lease", Shape::Duration),
            ("handler", Shape::File),
            ("ca-file", Shape::File),
            ("webhook-ca-file", Shape::File),
            ("max-attempts", Shape::Number),
            ("log", Shape::OneOf(vec!["text".to_owned(), "json".to_owned()])),
            ("while-leading", Shape::Switch),
            ("allow-host", Shape::List),
            ("command", Shape::List),
            ("env", Shape::Table),
        ] {
            assert_eq!(named(name).shape, shape, "{name}");
        }
    }

    #[test]
    fn the_keys_with_rules_of_their_own_exist() {
        let rules = [&OF_PROCESS[..], &OF_ONE, INSTEAD[0], INSTEAD[1]];
        for name in rules.concat() {
            named(name);
        }
        for name in ELSEWHERE {
            let command = run_command();
            assert!(command.get_arguments().any(|a| a.get_long() == Some(name)), "{name}");
        }
    }
}
