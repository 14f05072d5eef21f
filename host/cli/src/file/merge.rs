//! Which value counts: command line, variable, the election's table, the beginning of the file.

use super::keys::{INSTEAD, Key, OF_PROCESS, Shape, run_command};
use super::origins::Origins;
use super::parse::{Entry, Section};
use crate::args::RunArguments;
use crate::complaint::{Complaint, shown};
use clap::parser::ValueSource;
use clap::{ArgMatches, FromArgMatches as _};
use std::ffi::OsString;

/// Where a value comes from, the strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    CommandLine,
    Variable,
    Election,
    Defaults,
}

/// One election, as if all of it had been given on a command line.
pub(crate) struct Told {
    pub arguments: RunArguments,
    pub origins: Origins,
}

/// Whatever is said about one election.
pub(super) struct Sayings<'a> {
    pub keys: &'a [Key],
    pub command_line: &'a ArgMatches,
    /// Whether a variable is set.
    pub variable: &'a dyn Fn(&str) -> bool,
    pub election: Option<&'a Section>,
    /// Whether the file has others too.
    pub several: bool,
    pub defaults: &'a Section,
}

impl Sayings<'_> {
    /// Puts it all together.
    pub(super) fn merge(&self) -> Result<Told, Complaint> {
        let mut origins = Origins::at(&self.election.unwrap_or(self.defaults).place);
        origins.several = self.several;
        for section in self.election.into_iter().chain([self.defaults]) {
            origins.garbled.extend_from_slice(&section.garbled);
        }
        let mut arguments: Vec<OsString> = Vec::new();
        let mut command: Vec<OsString> = Vec::new();
        for key in self.keys {
            let values = match self.level(key) {
                Some(Level::CommandLine) => raw(self.command_line, key),
                Some(level @ (Level::Election | Level::Defaults)) => {
                    let Some(entry) = self.entry(key, level) else { continue };
                    origins.add(entry);
                    entry.values.iter().map(|value| value.text.clone().into()).collect()
                }
                // It is read where it always was.
                Some(Level::Variable) | None => continue,
            };
            match (&key.shape, &*key.name) {
                (_, "command") => command = values,
                (Shape::Switch, name) if values.is_empty() => {
                    arguments.push(format!("--{name}").into());
                }
                (Shape::Switch, _) => {}
                (_, name) => arguments.extend(values.into_iter().map(|value| flag(name, value))),
            }
        }
        if !command.is_empty() {
            arguments.push("--".into());
            arguments.extend(command);
        }
        let matches = run_command().try_get_matches_from(arguments);
        match matches.and_then(|matches| RunArguments::from_arg_matches(&matches)) {
            Ok(arguments) => Ok(Told { arguments, origins }),
            Err(error) => Err(unusable(&origins, &error)),
        }
    }

    fn entry(&self, key: &Key, level: Level) -> Option<&Entry> {
        let section = if level == Level::Election { self.election? } else { self.defaults };
        section.get(&key.name)
    }

    /// Where the value that counts comes from; none when there is none.
    fn level(&self, key: &Key) -> Option<Level> {
        let own = self.own_level(key)?;
        let rivals = INSTEAD.iter().filter(|group| group.contains(&&*key.name)).copied().flatten();
        let rivals = self.keys.iter().filter(|k| rivals.clone().any(|rival| *rival == k.name));
        let strongest = rivals.filter_map(|rival| self.rival_level(rival)).min().unwrap_or(own);
        // Only what is in the file gives way: two on a command line are a contradiction.
        (own <= strongest || own <= Level::Variable).then_some(own)
    }

    /// The same of a key that takes the place of others. A switch that is off does not.
    fn rival_level(&self, key: &Key) -> Option<Level> {
        let level = self.own_level(key)?;
        let entry = self.entry(key, level).filter(|_| level > Level::Variable);
        let off = key.shape == Shape::Switch && entry.is_some_and(|entry| !entry.values.is_empty());
        (!off).then_some(level)
    }

    fn own_level(&self, key: &Key) -> Option<Level> {
        if self.command_line.value_source(&key.id) == Some(ValueSource::CommandLine) {
            Some(Level::CommandLine)
        } else if key.variables.iter().any(|name| (self.variable)(name)) {
            Some(Level::Variable)
        } else if self.entry(key, Level::Election).is_some() && !of_process(key) {
            Some(Level::Election)
        } else {
            self.entry(key, Level::Defaults).map(|_| Level::Defaults)
        }
    }
}

fn of_process(key: &Key) -> bool {
    OF_PROCESS.contains(&&*key.name)
}

/// An argument with its value, which may begin with a dash.
fn flag(name: &str, value: OsString) -> OsString {
    let mut flag = OsString::from(format!("--{name}="));
    flag.push(value);
    flag
}

/// What was given on the command line, as it was given.
fn raw(matches: &ArgMatches, key: &Key) -> Vec<OsString> {
    match key.shape {
        Shape::Switch => Vec::new(),
        _ => matches.get_raw(&key.id).into_iter().flatten().map(ToOwned::to_owned).collect(),
    }
}

/// What clap says against it all together.
fn unusable(origins: &Origins, error: &clap::Error) -> Complaint {
    let text = error.to_string();
    let problem = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
    let advice = "the keys are the options of tenure run; tenure run --help explains them";
    Complaint::new(origins.place.clone(), shown(problem), advice)
}
