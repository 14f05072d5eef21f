//! Elections of one kind: the settings of one, with a name in place of `{each}`.

use super::given::{EACH, Given, Value};
use super::source::{Source, Word};
use super::table::{ELECTION, FOR_EACH, FOR_EACH_FILE};
use crate::complaint::{Complaint, is_deceptive, shown};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What elections of one kind have in common.
pub(crate) struct Pattern {
    /// With `{each}` in it.
    pub given: Given,
    /// Where the names are read, and how that was said.
    pub file: Option<(PathBuf, String)>,
}

impl Pattern {
    /// None: it is one election.
    pub(super) fn of(given: &Given) -> Option<Self> {
        let file = given.get(&FOR_EACH_FILE).filter(|value| !value.is_blank());
        let file = file.map(|value| (value.path(), value.told_bare()));
        if file.is_none() && given.get(&FOR_EACH).is_none() {
            return None;
        }
        Some(Self { given: given.clone(), file })
    }

    /// Its elections, by the names as they are at this moment.
    ///
    /// # Errors
    ///
    /// All that is wrong with the names.
    pub(crate) fn read(&self) -> Result<Vec<Given>, Vec<Complaint>> {
        let mut complaints = Vec::new();
        // A variable is the same for all elections: nothing in it is replaced.
        let election = self.given.get(&ELECTION);
        let election = election.filter(|v| v.is_by_variable() || !v.text().contains(EACH));
        if let Some(told) = election.map(Value::told) {
            complaints.push(Complaint::new(
                told,
                "all of them would be one election",
                format!("write {EACH} where the name belongs, as in tenants/{EACH}"),
            ));
        }
        let names = self.names(&mut complaints);
        let given = names.iter().map(|name| self.given.for_name(name)).collect();
        if complaints.is_empty() { Ok(given) } else { Err(complaints) }
    }

    /// The name by which it has this election, whether or not it is on the list.
    fn name_of<'e>(&self, election: &'e str) -> Option<&'e str> {
        let text = self.given.get(&ELECTION)?.text();
        let (before, after) = text.split_once(EACH)?;
        election.strip_prefix(before)?.strip_suffix(after)
    }

    fn names(&self, complaints: &mut Vec<Complaint>) -> Vec<Word> {
        let mut names: Vec<_> = self.given.words(&FOR_EACH).map(|(_, word)| word.clone()).collect();
        if let Some((path, told)) = &self.file {
            match Source::read(path, told) {
                Ok(source) => names.extend(listed(&source, complaints)),
                Err(complaint) => complaints.push(complaint),
            }
        }
        let mut known = BTreeMap::new();
        for Word { text, place } in &names {
            let text = text.to_string_lossy();
            let told = match place.as_str() {
                "" => format!("{} {}", FOR_EACH.option(), shown(&text)),
                place => format!("{place}: {}", shown(&text)),
            };
            let (problem, advice) = match known.insert(text.clone(), place) {
                _ if text.is_empty() || text.contains(is_deceptive) => {
                    ("this is not a name", "write a text that can stand in the name of a blob")
                }
                Some(_) => ("this name is a duplicate", "leave it out"),
                None => continue,
            };
            complaints.push(Complaint::new(told, problem, advice));
        }
        names
    }
}

/// The names of a file: one on each line, with a comment behind a `#` that begins a word.
fn listed(source: &Source, complaints: &mut Vec<Complaint>) -> Vec<Word> {
    if source.text.trim().is_empty() {
        complaints.push(Complaint::new(
            source.at(1, 1),
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
            names.push(Word { text: name.into(), place: source.at(number + 1, column) });
        }
    }
    names
}

/// The election of that name, of the patterns that have it on their lists.
pub(super) fn find(
    patterns: &[Pattern],
    election: &str,
    complaints: &mut Vec<Complaint>,
) -> Option<Given> {
    patterns.iter().find_map(|pattern| {
        let name = pattern.name_of(election)?;
        let names = pattern.names(complaints);
        let name = names.iter().find(|listed| listed.text == name)?;
        Some(pattern.given.for_name(name))
    })
}

#[cfg(test)]
mod tests;
