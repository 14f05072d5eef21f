//! The elections of a command: that of the command line, or those of `tenure.toml`. A [`Pattern`]
//! has the settings of several elections, with the placeholder `{each}` for their names.

use super::command_line::CommandLine;
use super::parse::{self, Content, Section, SettingsFile, ValueItem};
use super::resolved::{PLACEHOLDER, ResolvedSettings, Value, VariableLookup, environment};
use super::table::{ALL_IN, CONFIG, ELECTION, FOR_EACH, FOR_EACH_FILE};
use super::{Scope, Setting};
use crate::complaint::{Complaint, redacted};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use tenure_base::text::is_deceptive;

/// Maximum number of elections that a complaint lists.
const MAX_LISTED: usize = 20;

/// The elections of a command, and complaints about them.
#[derive(Default)]
pub(crate) struct Elections {
    pub resolved: Vec<ResolvedSettings>,
    /// Settings that each produce several elections.
    pub patterns: Vec<Pattern>,
    /// True if these are all elections of a file.
    pub is_whole_file: bool,
    pub complaints: Vec<Complaint>,
}

impl Elections {
    /// Returns the elections of the file, or only the one that the command line names. Without a
    /// file, returns the election of the command line.
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

    pub(super) fn from_file(
        source: &SettingsFile,
        line: &CommandLine,
        variable: VariableLookup<'_>,
    ) -> Self {
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
        // Settings for one election are refused if the file has several. Their values are not
        // validated then.
        let refuses = content.elections.len() > 1;
        let is_for_one = |setting: &&Setting| refuses && setting.scope == Scope::One;
        let single_settings: Vec<_> = line.table.iter().copied().filter(is_for_one).collect();
        this.refuse_single_settings(line, variable, &single_settings);
        let line = &line.without(&single_settings);
        let is_single_variable =
            |name: &str| single_settings.iter().any(|s| s.variables().any(|known| known == name));
        let variable: VariableLookup<'_> =
            &|name| variable(name).filter(|_| !is_single_variable(name));
        let resolve =
            |election| ResolvedSettings::resolve(line, variable, Some((&content, election)));
        this.resolved = match content.elections.as_slice() {
            [] => vec![resolve(None)],
            several => several.iter().map(|election| resolve(Some(election))).collect(),
        };
        this.expand_patterns();
        this.refuse_duplicates(line);
        this
    }

    /// Returns the settings that each election of a list has. Callers use them for the process
    /// while the list has no names. None without a list, or after complaints.
    pub(crate) fn unnamed_settings(&self) -> Option<ResolvedSettings> {
        let pattern = self.patterns.first().filter(|_| self.complaints.is_empty());
        pattern.map(|pattern| pattern.template.clone())
    }

    /// Replaces patterns with their elections.
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

    /// Selects the named election if the file has it. A file that names none applies to any
    /// election.
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
        // A lock has its own blob, and uses the settings above the elections. So does an election of
        // a container that is shown as a whole.
        if !exists && line.command != "lock" && !line.has(&ALL_IN) {
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

    /// Finds the named election on the list of a pattern.
    fn find_in_patterns(
        &mut self,
        line: &CommandLine,
        variable: VariableLookup<'_>,
        content: &Content,
        requested: &str,
    ) -> Option<ResolvedSettings> {
        // Uses the election's name from the file, not from the command line.
        let line = line.without(&[&ELECTION]);
        let sections = match content.elections.as_slice() {
            [] => vec![None],
            several => several.iter().map(Some).collect(),
        };
        let pattern_of = |section| {
            Pattern::from_settings(&ResolvedSettings::resolve(
                &line,
                variable,
                Some((content, section)),
            ))
        };
        let patterns: Vec<_> = sections.into_iter().filter_map(pattern_of).collect();
        let mut complaints = Vec::new();
        let found = find_election(&patterns, requested, &mut complaints);
        self.complain(complaints);
        found
    }

    /// Returns the settings for a command that needs exactly one election.
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
        let first = self.resolved.into_iter().next();
        let template = self.patterns.into_iter().next().map(|pattern| pattern.template);
        if let (None, Some(template)) = (&first, &template)
            && self.complaints.is_empty()
        {
            let list = template.get(&FOR_EACH_FILE).or_else(|| template.get(&FOR_EACH));
            self.complaints.push(Complaint::new(
                list.map(Value::describe_without_value).unwrap_or_default(),
                "the list has no names, so there is no election",
                "write a name into it, or leave out the file and name the election",
            ));
        }
        // Without an election, the template avoids complaints about settings that the file has.
        (first.or(template).unwrap_or_default(), self.complaints)
    }

    /// Refuses settings for a single election if the file has several.
    fn refuse_single_settings(
        &mut self,
        line: &CommandLine,
        variable: VariableLookup<'_>,
        single_settings: &[&Setting],
    ) {
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

    /// Refuses a blob that two elections share: they would be two candidates of the same election.
    fn refuse_duplicates(&mut self, line: &CommandLine) {
        // An election given for all of them already has a complaint.
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

    /// Adds the complaints of one election. Complaints about settings of all elections are added
    /// once.
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

/// Settings for several elections that differ only in a name.
pub(crate) struct Pattern {
    /// The settings, with `{each}` as the placeholder.
    pub template: ResolvedSettings,
    /// The file with the names, and the origin of that setting.
    pub file: Option<(PathBuf, String)>,
}

impl Pattern {
    /// Returns the pattern of these settings, or none if they are for one election.
    fn from_settings(resolved: &ResolvedSettings) -> Option<Self> {
        let file = resolved.get(&FOR_EACH_FILE).filter(|value| !value.is_blank());
        let file = file.map(|value| (value.path(), value.describe_without_value()));
        if file.is_none() && resolved.get(&FOR_EACH).is_none() {
            return None;
        }
        Some(Self { template: resolved.clone(), file })
    }

    /// Returns the elections for the current names.
    ///
    /// # Errors
    ///
    /// Returns all complaints about the names.
    pub(crate) fn read(&self) -> Result<Vec<ResolvedSettings>, Vec<Complaint>> {
        let mut complaints = Vec::new();
        // A variable is the same for all elections, so it has no placeholder.
        let election = self.template.get(&ELECTION);
        let election = election.filter(|v| v.is_from_variable() || !v.text().contains(PLACEHOLDER));
        if let Some(source_text) = election.map(Value::describe) {
            complaints.push(Complaint::new(
                source_text,
                "all of them would be one election",
                format!("write {PLACEHOLDER} where the name belongs, as in tenants/{PLACEHOLDER}"),
            ));
        }
        let names = self.names(&mut complaints);
        let elections = names.iter().map(|name| self.template.for_name(name)).collect();
        if complaints.is_empty() { Ok(elections) } else { Err(complaints) }
    }

    /// Returns the name that replaces the placeholder in this election, even if the list does not
    /// contain the name.
    fn name_of<'e>(&self, election: &'e str) -> Option<&'e str> {
        let text = self.template.get(&ELECTION)?.text();
        let (before, after) = text.split_once(PLACEHOLDER)?;
        election.strip_prefix(before)?.strip_suffix(after)
    }

    fn names(&self, complaints: &mut Vec<Complaint>) -> Vec<ValueItem> {
        let mut names: Vec<_> =
            self.template.items(&FOR_EACH).map(|(_, item)| item.clone()).collect();
        if let Some((path, source_text)) = &self.file {
            match SettingsFile::read(path, source_text) {
                Ok(source) => names.extend(read_names(&source, complaints)),
                Err(complaint) => complaints.push(complaint),
            }
        }
        let mut known = BTreeMap::new();
        for ValueItem { text, place } in &names {
            let text = text.to_string_lossy();
            let source_text = match place.as_str() {
                "" => format!("{} {}", FOR_EACH.option(), redacted(&text)),
                place => format!("{place}: {}", redacted(&text)),
            };
            let (problem, advice) = match known.insert(text.clone(), place) {
                _ if text.is_empty() || text.contains(is_deceptive) => {
                    ("this is not a name", "write a text that can stand in the name of a blob")
                }
                Some(_) => ("this name is a duplicate", "leave it out"),
                None => continue,
            };
            complaints.push(Complaint::new(source_text, problem, advice));
        }
        names
    }
}

/// Reads the names of a file: one on each line, with an optional comment after a `#` at the
/// beginning of a word.
fn read_names(source: &SettingsFile, complaints: &mut Vec<Complaint>) -> Vec<ValueItem> {
    if source.text.trim().is_empty() {
        complaints.push(Complaint::new(
            source.format_location(1, 1),
            "the file is empty, perhaps because it is being written",
            "for a list without a name write a comment, like # nobody",
        ));
    }
    let mut names = Vec::new();
    for (number, line) in source.text.lines().enumerate() {
        let comment = line.match_indices('#').map(|(at, _)| at);
        let mut comment =
            comment.filter(|at| line[..*at].ends_with(char::is_whitespace) || *at == 0);
        let text = &line[..comment.next().unwrap_or(line.len())];
        let name = text.trim();
        if !name.is_empty() {
            let column = text.chars().take_while(|c| c.is_whitespace()).count() + 1;
            names.push(ValueItem {
                text: name.into(),
                place: source.format_location(number + 1, column),
            });
        }
    }
    names
}

/// Returns the named election if the list of a pattern contains it.
fn find_election(
    patterns: &[Pattern],
    election: &str,
    complaints: &mut Vec<Complaint>,
) -> Option<ResolvedSettings> {
    patterns.iter().find_map(|pattern| {
        let name = pattern.name_of(election)?;
        let names = pattern.names(complaints);
        let name = names.iter().find(|listed| listed.text == name)?;
        Some(pattern.template.for_name(name))
    })
}

#[cfg(test)]
mod tests;
