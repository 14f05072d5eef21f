//! The elections of `tenure run`: that of the command line, or those of `tenure.toml`.

use super::given::{Given, Variables, environment};
use super::options::CommandLine;
use super::parse;
use super::setting::Scope;
use super::source::Source;
use super::table::{CONFIG, ELECTION};
use crate::complaint::Complaint;

/// The elections that this process is to run, and what is wrong with how they are told.
#[derive(Default)]
pub(crate) struct Elections {
    pub given: Vec<Given>,
    pub complaints: Vec<Complaint>,
}

impl Elections {
    /// Those of the file that is named; without one, that of the command line.
    pub(crate) fn of(line: &CommandLine) -> Self {
        let given = Given::of(line);
        let Some(file) = given.get(&CONFIG) else {
            return Self { given: vec![given], ..Self::default() };
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
        if content.elections.len() > 1 {
            this.refuse_of_one(line, variable);
        }
        let of = |election| Given::resolve(line, variable, Some((&content, election)));
        this.given = match content.elections.as_slice() {
            [] => vec![of(None)],
            several => several.iter().map(|election| of(Some(election))).collect(),
        };
        this.refuse_twins(line);
        this
    }

    /// What is true of one election cannot be said of several at once.
    fn refuse_of_one(&mut self, line: &CommandLine, variable: Variables<'_>) {
        for setting in line.table.iter().filter(|setting| setting.scope == Scope::One) {
            let given = line.get(setting).map(|_| setting.option());
            let set = setting.variables().filter(|name| variable(name).is_some());
            for source in given.into_iter().chain(set.map(str::to_owned)) {
                self.complaints.push(Complaint::new(
                    source,
                    "the file has several elections, and this is for one",
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
        let mut seen = Vec::new();
        for election in self
            .given
            .iter()
            .filter_map(|given| given.get(&ELECTION))
            .filter(|value| !value.is_by_variable())
        {
            if seen.contains(&election.text()) {
                self.complaints.push(Complaint::new(
                    election.told(),
                    "this election is in the file already",
                    "give each election a blob of its own",
                ));
            }
            seen.push(election.text());
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

#[cfg(test)]
mod tests;
