//! The elections of a command: that of the command line, or those of `tenure.toml`.

use super::given::{PLACEHOLDER, ResolvedSettings, Value, VariableLookup, environment};
use super::options::CommandLine;
use super::parse::{self, Content, Section};
use super::pattern::{self, Pattern};
use super::setting::{Scope, Setting};
use super::source::SettingsFile;
use super::table::{CONFIG, ELECTION, FOR_EACH};
use crate::complaint::{Complaint, redacted};
use std::collections::BTreeSet;

/// Of so many elections the names are told, of a command that is for one.
const MAX_LISTED: usize = 20;

/// The elections that a command is for, and what is wrong with how they are told.
#[derive(Default)]
pub(crate) struct Elections {
    pub resolved: Vec<ResolvedSettings>,
    /// Those of which several elections are made.
    pub patterns: Vec<Pattern>,
    /// They are all that a file has: none was named.
    pub is_whole_file: bool,
    pub complaints: Vec<Complaint>,
}

impl Elections {
    /// Those of the file that is named, and of these the one that is named; without a file, that of the
    /// command line.
    pub(crate) fn from_command_line(line: &CommandLine) -> Self {
        let resolved = ResolvedSettings::from_command_line(line);
        let Some(file) = resolved.get(&CONFIG) else {
            let mut this = Self { resolved: vec![resolved], ..Self::default() };
            this.expand_patterns();
            return this;
        };
        match SettingsFile::read(&file.path(), &file.describe_without_value()) {
            Ok(source) => Self::from_file(&source, line, &environment),
            Err(complaint) => Self { complaints: vec![complaint], ..Self::default() },
        }
    }

    pub(super) fn from_file(source: &SettingsFile, line: &CommandLine, variable: VariableLookup<'_>) -> Self {
        let mut content = parse::parse(source, &line.table);
        let mut this =
            Self { complaints: std::mem::take(&mut content.complaints), ..Self::default() };
        if content.broken {
            return this;
        }
        if let Some(name) = named_election(line) {
            this.select_named(line, variable, &mut content, &name);
            return this;
        }
        this.is_whole_file = true;
        // What is refused is not judged as well.
        let refuses = content.elections.len() > 1;
        let is_for_one = |setting: &&Setting| refuses && setting.scope == Scope::One;
        let single_settings: Vec<_> = line.table.iter().copied().filter(is_for_one).collect();
        this.refuse_single_settings(line, variable, &single_settings);
        let line = &line.without(&single_settings);
        let is_single_variable =
            |name: &str| single_settings.iter().any(|s| s.variables().any(|known| known == name));
        let variable: VariableLookup<'_> = &|name| variable(name).filter(|_| !is_single_variable(name));
        let resolve = |election| ResolvedSettings::resolve(line, variable, Some((&content, election)));
        this.resolved = match content.elections.as_slice() {
            [] => vec![resolve(None)],
            several => several.iter().map(|election| resolve(Some(election))).collect(),
        };
        this.expand_patterns();
        this.refuse_duplicates(line);
        this
    }

    /// What holds for the process, as for each election that a list may come to name: there is none yet.
    pub(crate) fn unnamed_settings(&self) -> Option<ResolvedSettings> {
        let pattern = self.patterns.first().filter(|_| self.complaints.is_empty());
        pattern.map(|pattern| pattern.template.clone())
    }

    /// Puts the elections of patterns in their places.
    fn expand_patterns(&mut self) {
        for settings in std::mem::take(&mut self.resolved) {
            let Some(pattern) = Pattern::from_settings(&settings) else {
                self.resolved.push(settings);
                continue;
            };
            let number = self.patterns.len();
            match pattern.read() {
                Ok(each) => self.resolved.extend(each.into_iter().map(|mut settings| {
                    settings.pattern = Some(number);
                    settings
                })),
                Err(complaints) => self.complain(complaints),
            }
            self.patterns.push(pattern);
        }
    }

    /// The one election that is named, if the file has it. A file that names none is for any.
    fn select_named(
        &mut self,
        line: &CommandLine,
        variable: VariableLookup<'_>,
        content: &mut Content,
        requested: &str,
    ) {
        let name = |section: &Section| {
            let entry = section.entries.iter().find(|entry| entry.setting.is(&ELECTION))?;
            entry.items.first().map(|item| item.text.to_string_lossy().into_owned())
        };
        let existing: Vec<String> =
            content.elections.iter().chain([&content.defaults]).filter_map(name).collect();
        if let Some(settings) = self.find_in_patterns(line, variable, content, requested) {
            self.resolved = vec![settings];
            return;
        }
        let exists = existing.is_empty() || existing.iter().any(|name| name == requested);
        // A lock has a blob of its own, and goes by what the file says above its elections.
        if !exists && line.command != "lock" {
            let settings = ResolvedSettings::resolve(line, variable, None);
            self.complaints.push(Complaint::new(
                settings.get(&ELECTION).map(Value::describe).unwrap_or_default(),
                "the file has no such election",
                format!(
                    "name one of its elections ({}), or leave out the file",
                    redacted(&existing.join(", "))
                ),
            ));
        }
        content.elections.retain(|section| name(section).as_deref() == Some(requested));
        let one = content.elections.first();
        self.resolved = vec![ResolvedSettings::resolve(line, variable, Some((content, one)))];
    }

    /// The one that is named, if it is on the list of a pattern.
    fn find_in_patterns(
        &mut self,
        line: &CommandLine,
        variable: VariableLookup<'_>,
        content: &Content,
        requested: &str,
    ) -> Option<ResolvedSettings> {
        // Not what the command line says of the election, but what the file does.
        let line = line.without(&[&ELECTION]);
        let sections = match content.elections.as_slice() {
            [] => vec![None],
            several => several.iter().map(Some).collect(),
        };
        let pattern_of = |section| Pattern::from_settings(&ResolvedSettings::resolve(&line, variable, Some((content, section))));
        let patterns: Vec<_> = sections.into_iter().filter_map(pattern_of).collect();
        let mut complaints = Vec::new();
        let found = pattern::find_election(&patterns, requested, &mut complaints);
        self.complain(complaints);
        found
    }

    /// The one election of a command that is for one.
    pub(crate) fn into_single(mut self) -> (ResolvedSettings, Vec<Complaint>) {
        let names = self.resolved.iter().filter_map(|settings| settings.text(&ELECTION));
        let mut names: Vec<_> = names.map(|name| redacted(&name)).take(MAX_LISTED + 1).collect();
        if names.len() > MAX_LISTED {
            names[MAX_LISTED] = "…".to_owned();
        }
        if self.resolved.len() > 1 {
            self.complaints = vec![Complaint::new(
                ELECTION.option(),
                "the file has several elections, and this command needs one",
                format!("name one of them: {}", names.join(", ")),
            )];
        }
        (self.resolved.into_iter().next().unwrap_or_default(), self.complaints)
    }

    /// What is true of one election cannot be said of several at once.
    fn refuse_single_settings(&mut self, line: &CommandLine, variable: VariableLookup<'_>, single_settings: &[&Setting]) {
        for setting in single_settings {
            let option = line.get(setting).map(|_| setting.option());
            let set_variables = setting.variables().filter(|name| variable(name).is_some());
            for source in option.into_iter().chain(set_variables.map(str::to_owned)) {
                self.complaints.push(Complaint::new(
                    source,
                    "this is for one election, and the file has several",
                    format!("set {} in the election's table of the file", setting.name),
                ));
            }
        }
    }

    /// Two elections on one blob would be two candidates of one election.
    fn refuse_duplicates(&mut self, line: &CommandLine) {
        // One that is given for all of them is complained of already.
        if line.get(&ELECTION).is_some() {
            return;
        }
        let mut known = BTreeSet::new();
        for election in self
            .resolved
            .iter()
            .filter_map(|settings| settings.get(&ELECTION))
            .filter(|value| !value.is_from_variable())
        {
            if !known.insert(election.text()) {
                self.complaints.push(Complaint::new(
                    election.describe(),
                    "the file has this election already",
                    "give each election a blob of its own",
                ));
            }
        }
    }

    /// Adds what is wrong with the settings of one election. What holds for all of them is told once.
    pub(crate) fn complain(&mut self, complaints: Vec<Complaint>) {
        for complaint in complaints {
            if !self.complaints.contains(&complaint) {
                self.complaints.push(complaint);
            }
        }
    }
}

/// Returns the election that the command line names, unless it is a pattern for several.
fn named_election(line: &CommandLine) -> Option<String> {
    let name = line.get(&ELECTION)?.first()?.to_string_lossy().into_owned();
    let is_pattern = FOR_EACH.is_option_of(&line.command) && name.contains(PLACEHOLDER);
    (!is_pattern).then_some(name)
}

#[cfg(test)]
mod tests;
