//! Patterns: settings of several elections, with the placeholder `{each}` for their names.

use super::resolved::{PLACEHOLDER, ResolvedSettings, Value};
use super::source::{SettingsFile, ValueItem};
use super::table::{ELECTION, FOR_EACH, FOR_EACH_FILE};
use crate::complaint::{Complaint, is_deceptive, redacted};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Settings for several elections that differ only in a name.
pub(crate) struct Pattern {
    /// The settings, with `{each}` as the placeholder.
    pub template: ResolvedSettings,
    /// The file with the names, and the origin of that setting.
    pub file: Option<(PathBuf, String)>,
}

impl Pattern {
    /// Returns none if the settings are for one election.
    pub(super) fn from_settings(resolved: &ResolvedSettings) -> Option<Self> {
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

    /// Returns the name that this election would have, even if the list does not contain it.
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
pub(super) fn find_election(
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
