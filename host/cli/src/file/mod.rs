//! `tenure.toml`: what the options of `tenure run` say, for one election or for several.
//!
//! Each election of the file becomes a command line of its own, so that there is one set of settings
//! and one set of checks; the complaints are then told with the place in the file.

mod keys;
mod merge;
mod origins;
mod parse;
mod secret;
mod source;
#[cfg(test)]
mod tests;

pub(super) use merge::Told;
pub(super) use origins::Origins;

use super::args::RunArguments;
use super::complaint::{Complaint, shown};
use clap::ArgMatches;
use clap::parser::ValueSource;
use keys::{Key, OF_ONE};
use merge::Sayings;
use source::Source;
use std::path::PathBuf;

/// The variable of `--config`.
const CONFIG: &str = "TENURE_CONFIG";

/// The elections that this process is to run, and what is wrong with the file.
#[derive(Default)]
pub(super) struct Elections {
    pub told: Vec<Told>,
    pub complaints: Vec<Complaint>,
    /// The options that stand on the command line.
    given: Vec<String>,
}

/// The variables that have an option.
pub(super) fn variables() -> Vec<String> {
    keys::keys().into_iter().flat_map(|key| key.variables).collect()
}

impl Elections {
    /// Those of the file that `--config` or `TENURE_CONFIG` names; without one, that of the command
    /// line.
    pub(super) fn of(arguments: RunArguments, command_line: &ArgMatches) -> Self {
        let variable = |name: &str| {
            std::env::var_os(name).is_some_and(|value| !value.to_string_lossy().trim().is_empty())
        };
        let file = match &arguments.config {
            Some(file) => Some(("--config", file.clone())),
            None if variable(CONFIG) => {
                std::env::var_os(CONFIG).map(|file| (CONFIG, PathBuf::from(file)))
            }
            None => None,
        };
        let Some((named_by, file)) = file else {
            let told = vec![Told { arguments, origins: Origins::default() }];
            return Self { told, ..Self::default() };
        };
        match Source::read(&file, named_by) {
            Ok(source) => Self::of_file(&source, command_line, &variable),
            Err(complaint) => Self { complaints: vec![complaint], ..Self::default() },
        }
    }

    fn of_file(
        source: &Source,
        command_line: &ArgMatches,
        variable: &dyn Fn(&str) -> bool,
    ) -> Self {
        let keys = keys::keys();
        let content = parse::parse(source, &keys);
        let on_command_line =
            |key: &&Key| command_line.value_source(&key.id) == Some(ValueSource::CommandLine);
        let given = keys.iter().filter(on_command_line).map(|key| key.name.clone()).collect();
        let complaints = content.complaints;
        let mut this = Self { told: Vec::new(), complaints, given };
        if content.broken {
            return this;
        }
        let several = content.elections.len() > 1;
        if several {
            this.refuse_of_one(&keys, variable);
        }
        let sections = match content.elections.as_slice() {
            [] => vec![None],
            several => several.iter().map(Some).collect(),
        };
        for election in sections {
            let defaults = &content.defaults;
            let sayings =
                Sayings { keys: &keys, command_line, variable, election, several, defaults };
            match sayings.merge() {
                Ok(told) => this.told.push(told),
                Err(complaint) => this.complaints.push(complaint),
            }
        }
        this.refuse_twins();
        this
    }

    /// What is true of one election cannot be said of several at once.
    fn refuse_of_one(&mut self, keys: &[Key], variable: &dyn Fn(&str) -> bool) {
        for key in keys.iter().filter(|key| OF_ONE.contains(&&*key.name)) {
            let option = match &*key.name {
                "command" => "-- …".to_owned(),
                name => format!("--{name}"),
            };
            let given = self.given.contains(&key.name).then_some(option);
            let set = key.variables.iter().filter(|name| variable(name)).cloned();
            for source in given.into_iter().chain(set) {
                self.complaints.push(Complaint::new(
                    source,
                    "the file has several elections, and this is for one",
                    format!("set {} in the election's table of the file", key.name),
                ));
            }
        }
    }

    /// Two elections on one blob would be two candidates of one election.
    fn refuse_twins(&mut self) {
        // One that is given for all of them is complained of already.
        if self.given.iter().any(|given| given == "election") {
            return;
        }
        let mut seen: Vec<&str> = Vec::new();
        for Told { arguments, origins } in &self.told {
            let Some(election) = arguments.election.as_deref() else { continue };
            if seen.contains(&election) {
                let source = format!("--election {}", shown(election));
                let complaint = Complaint::new(
                    source,
                    "this election is in the file already",
                    "give each election a blob of its own",
                );
                self.complaints.push(origins.located(complaint, &[]));
            }
            seen.push(election);
        }
    }

    /// Adds what is wrong with the settings of one election.
    pub(super) fn complain(&mut self, origins: &Origins, complaints: Vec<Complaint>) {
        for complaint in complaints {
            if origins.is_garbled(&complaint, &self.given) {
                continue;
            }
            let complaint = origins.located(complaint, &self.given);
            // What holds for all elections is told once.
            if !self.complaints.contains(&complaint) {
                self.complaints.push(complaint);
            }
        }
    }
}
