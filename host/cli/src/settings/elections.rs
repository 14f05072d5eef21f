//! The elections of a command: that of the command line, or those of `tenure.toml`.

use super::given::{EACH, Given, Value, Variables, environment};
use super::options::CommandLine;
use super::parse::{self, Content, Section};
use super::pattern::{self, Pattern};
use super::setting::{Scope, Setting};
use super::source::Source;
use super::table::{CONFIG, ELECTION, FOR_EACH};
use crate::complaint::{Complaint, shown};
use std::collections::BTreeSet;

/// Of so many elections the names are told, of a command that is for one.
const LISTED: usize = 20;

/// The elections that a command is for, and what is wrong with how they are told.
#[derive(Default)]
pub(crate) struct Elections {
    pub given: Vec<Given>,
    /// Those of which several elections are made.
    pub patterns: Vec<Pattern>,
    /// They are all that a file has: none was named.
    pub all_of_a_file: bool,
    pub complaints: Vec<Complaint>,
}

impl Elections {
    /// Those of the file that is named, and of these the one that is named; without a file, that of the
    /// command line.
    pub(crate) fn of(line: &CommandLine) -> Self {
        let given = Given::of(line);
        let Some(file) = given.get(&CONFIG) else {
            let mut this = Self { given: vec![given], ..Self::default() };
            this.spread();
            return this;
        };
        match Source::read(&file.path(), &file.told_bare()) {
            Ok(source) => Self::of_file(&source, line, &environment),
            Err(complaint) => Self { complaints: vec![complaint], ..Self::default() },
        }
    }

    pub(super) fn of_file(source: &Source, line: &CommandLine, variable: Variables<'_>) -> Self {
        let mut content = parse::parse(source, &line.table);
        let mut this =
            Self { complaints: std::mem::take(&mut content.complaints), ..Self::default() };
        if content.broken {
            return this;
        }
        if let Some(named) = named(line) {
            this.choose(line, variable, &mut content, &named);
            return this;
        }
        this.all_of_a_file = true;
        // What is refused is not judged as well.
        let refuses = content.elections.len() > 1;
        let of_one = |setting: &&Setting| refuses && setting.scope == Scope::One;
        let of_one: Vec<_> = line.table.iter().copied().filter(of_one).collect();
        this.refuse_of_one(line, variable, &of_one);
        let line = &line.without(&of_one);
        let is_of_one =
            |name: &str| of_one.iter().any(|s| s.variables().any(|known| known == name));
        let variable: Variables<'_> = &|name| variable(name).filter(|_| !is_of_one(name));
        let of = |election| Given::resolve(line, variable, Some((&content, election)));
        this.given = match content.elections.as_slice() {
            [] => vec![of(None)],
            several => several.iter().map(|election| of(Some(election))).collect(),
        };
        this.spread();
        this.refuse_twins(line);
        this
    }

    /// What holds for the process, as for each election that a list may come to name: there is none yet.
    pub(crate) fn unnamed(&self) -> Option<Given> {
        let pattern = self.patterns.first().filter(|_| self.complaints.is_empty());
        pattern.map(|pattern| pattern.given.clone())
    }

    /// Puts the elections of patterns in their places.
    fn spread(&mut self) {
        for given in std::mem::take(&mut self.given) {
            let Some(pattern) = Pattern::of(&given) else {
                self.given.push(given);
                continue;
            };
            let number = self.patterns.len();
            match pattern.read() {
                Ok(each) => self.given.extend(each.into_iter().map(|mut given| {
                    given.pattern = Some(number);
                    given
                })),
                Err(complaints) => self.complain(complaints),
            }
            self.patterns.push(pattern);
        }
    }

    /// The one election that is named, if the file has it. A file that names none is for any.
    fn choose(
        &mut self,
        line: &CommandLine,
        variable: Variables<'_>,
        content: &mut Content,
        wanted: &str,
    ) {
        let name = |section: &Section| {
            let entry = section.entries.iter().find(|entry| entry.setting.is(&ELECTION))?;
            entry.words.first().map(|word| word.text.to_string_lossy().into_owned())
        };
        let there: Vec<String> =
            content.elections.iter().chain([&content.defaults]).filter_map(name).collect();
        if let Some(given) = self.of_pattern(line, variable, content, wanted) {
            self.given = vec![given];
            return;
        }
        let is_there = there.is_empty() || there.iter().any(|name| name == wanted);
        // A lock has a blob of its own, and goes by what the file says above its elections.
        if !is_there && line.command != "lock" {
            let given = Given::resolve(line, variable, None);
            self.complaints.push(Complaint::new(
                given.get(&ELECTION).map(Value::told).unwrap_or_default(),
                "the file has no such election",
                format!(
                    "name one of its elections ({}), or leave out the file",
                    shown(&there.join(", "))
                ),
            ));
        }
        content.elections.retain(|section| name(section).as_deref() == Some(wanted));
        let one = content.elections.first();
        self.given = vec![Given::resolve(line, variable, Some((content, one)))];
    }

    /// The one that is named, if it is on the list of a pattern.
    fn of_pattern(
        &mut self,
        line: &CommandLine,
        variable: Variables<'_>,
        content: &Content,
        wanted: &str,
    ) -> Option<Given> {
        // Not what the command line says of the election, but what the file does.
        let line = line.without(&[&ELECTION]);
        let sections = match content.elections.as_slice() {
            [] => vec![None],
            several => several.iter().map(Some).collect(),
        };
        let of = |section| Pattern::of(&Given::resolve(&line, variable, Some((content, section))));
        let patterns: Vec<_> = sections.into_iter().filter_map(of).collect();
        let mut complaints = Vec::new();
        let found = pattern::find(&patterns, wanted, &mut complaints);
        self.complain(complaints);
        found
    }

    /// The one election of a command that is for one.
    pub(crate) fn only(mut self) -> (Given, Vec<Complaint>) {
        let names = self.given.iter().filter_map(|given| given.text(&ELECTION));
        let mut names: Vec<_> = names.map(|name| shown(&name)).take(LISTED + 1).collect();
        if names.len() > LISTED {
            names[LISTED] = "…".to_owned();
        }
        if self.given.len() > 1 {
            self.complaints = vec![Complaint::new(
                ELECTION.option(),
                "the file has several elections, and this command needs one",
                format!("name one of them: {}", names.join(", ")),
            )];
        }
        (self.given.into_iter().next().unwrap_or_default(), self.complaints)
    }

    /// What is true of one election cannot be said of several at once.
    fn refuse_of_one(&mut self, line: &CommandLine, variable: Variables<'_>, of_one: &[&Setting]) {
        for setting in of_one {
            let given = line.get(setting).map(|_| setting.option());
            let set = setting.variables().filter(|name| variable(name).is_some());
            for source in given.into_iter().chain(set.map(str::to_owned)) {
                self.complaints.push(Complaint::new(
                    source,
                    "this is for one election, and the file has several",
                    format!("set {} in the election's table of the file", setting.name),
                ));
            }
        }
    }

    /// Two elections on one blob would be two candidates of one election.
    fn refuse_twins(&mut self, line: &CommandLine) {
        // One that is given for all of them is complained of already.
        if line.get(&ELECTION).is_some() {
            return;
        }
        let mut seen = BTreeSet::new();
        for election in self
            .given
            .iter()
            .filter_map(|given| given.get(&ELECTION))
            .filter(|value| !value.is_by_variable())
        {
            if !seen.insert(election.text()) {
                self.complaints.push(Complaint::new(
                    election.told(),
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
fn named(line: &CommandLine) -> Option<String> {
    let name = line.get(&ELECTION)?.first()?.to_string_lossy().into_owned();
    let is_pattern = FOR_EACH.is_option_of(&line.command) && name.contains(EACH);
    (!is_pattern).then_some(name)
}

#[cfg(test)]
mod tests;
