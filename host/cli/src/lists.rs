//! Elections of one kind come and go with the names of a list, while the process works.
//!
//! A list is looked at every two seconds, and read when it is another one than before at two looks in a row: whoever
//! writes it may be in the middle of it. A list that is wrong changes nothing.

use super::complaint::Complaint;
use super::configuration::Configuration;
use super::log::Log;
use super::process::{Handle, Process};
use super::settings::table::ELECTION;
use super::settings::{Given, Pattern};
use super::signals::ReloadSignal;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::Metadata;
use std::path::Path;
use std::time::{Duration, SystemTime};
use tenure::contract::ProblemClass;
use tenure::runner::{Class, Event};
use tokio::select;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

/// How often a list is looked at.
const LOOK: Duration = Duration::from_secs(2);

/// When elections of a list that could not begin are tried again: what they need may be in the middle of a change.
const AGAIN: Duration = Duration::from_secs(60);

/// The lists of a process, and the elections that came of them.
pub(super) struct Lists {
    configuration: fn(Given) -> Configuration,
    each: Vec<List>,
    /// Elections that are on no list.
    others: BTreeSet<String>,
}

struct List {
    pattern: Pattern,
    running: BTreeMap<String, Handle>,
    /// Those that are being left: none of them is added again before it has been.
    leaving: BTreeMap<String, JoinHandle<()>>,
    /// What it was when it was read, and when it was looked at last.
    read: Option<Stamp>,
    seen: Option<Stamp>,
    /// When it is read again although it is the same.
    again: Option<Instant>,
    /// What is wrong with it, so that it is told once.
    told: Vec<Complaint>,
}

/// By which a file is known to be another one.
#[derive(Clone, PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    length: u64,
    file: u64,
}

impl Lists {
    /// `configuration` says what is made of what is given for an election.
    pub(super) fn new(patterns: Vec<Pattern>, configuration: fn(Given) -> Configuration) -> Self {
        // It may have changed since it was read: it is read once more.
        let list = |pattern: Pattern| List {
            pattern,
            running: BTreeMap::new(),
            leaving: BTreeMap::new(),
            read: None,
            seen: None,
            again: None,
            told: Vec::new(),
        };
        let each = patterns.into_iter().map(list).collect();
        Self { configuration, each, others: BTreeSet::new() }
    }

    /// Takes note of an election that the process began with, of a pattern or of none.
    pub(super) fn began(
        &mut self,
        election: String,
        pattern: Option<usize>,
        handle: Option<Handle>,
    ) {
        match pattern.and_then(|number| self.each.get_mut(number)).zip(handle) {
            Some((list, handle)) => drop(list.running.insert(election, handle)),
            None => drop(self.others.insert(election)),
        }
    }

    /// Follows them. Never ends.
    pub(super) async fn follow(&mut self, process: &Process, reload: &mut ReloadSignal) {
        loop {
            let all = select! {
                () = reload.next() => true,
                () = sleep(LOOK), if self.each.iter().any(|list| list.pattern.file.is_some()) => false,
            };
            for number in 0..self.each.len() {
                if !self.each[number].is_due() && !all {
                    continue;
                }
                let others = self.elections_beside(number);
                self.each[number].reload(process, self.configuration, &others).await;
            }
        }
    }

    /// What belongs to no other list, or to others than that one.
    fn elections_beside(&self, number: usize) -> BTreeSet<String> {
        let lists = self.each.iter().enumerate().filter(|(other, _)| *other != number);
        let of_lists = lists.flat_map(|(_, list)| {
            let leaving = list.leaving.iter().filter(|(_, leaving)| !leaving.is_finished());
            list.running.keys().chain(leaving.map(|(name, _)| name))
        });
        self.others.iter().chain(of_lists).cloned().collect()
    }
}

impl List {
    /// Whether it is another one than was read, and nobody is writing it.
    fn is_due(&mut self) -> bool {
        let Some((path, _)) = &self.pattern.file else { return false };
        let now = Stamp::of(path);
        let settled = now == self.seen;
        self.seen.clone_from(&now);
        settled && (now != self.read || self.again.is_some_and(|at| at <= Instant::now()))
    }

    /// Reads it, and adds and leaves what is different.
    async fn reload(
        &mut self,
        process: &Process,
        configuration: fn(Given) -> Configuration,
        others: &BTreeSet<String>,
    ) {
        let Some((path, name)) = &self.pattern.file else { return };
        let name = name.clone();
        let now = Stamp::of(path);
        let is_new = now != self.read;
        (self.read, self.again) = (now, None);
        let wanted = match self.wanted(others) {
            Ok(wanted) => wanted,
            Err(complaints) => {
                if self.told != complaints {
                    complaints.iter().for_each(|complaint| tell(&process.log, complaint));
                    self.told = complaints;
                }
                // It may be another list, or the file's permissions, that change.
                self.read = None;
                return;
            }
        };
        self.told.clear();
        let gone: Vec<_> =
            self.running.keys().filter(|name| !wanted.contains_key(*name)).cloned().collect();
        self.leaving.retain(|_, leaving| !leaving.is_finished());
        let new = wanted.into_iter().filter(|(name, _)| !self.running.contains_key(name));
        let (later, new): (Vec<_>, Vec<_>) =
            new.partition(|(name, _)| self.leaving.contains_key(name));
        if !later.is_empty() {
            // The others do not wait for it: the list is read once more at the next look.
            self.read = None;
        }
        if gone.is_empty() && new.is_empty() {
            return;
        }
        let detail = format!(
            "{name} was read again: elections added: {}, removed: {}",
            new.len(),
            gone.len()
        );
        if is_new || !gone.is_empty() {
            process.log.event(&Event::Note { detail });
        }
        for election in gone {
            if let Some(handle) = self.running.remove(&election) {
                self.leaving.insert(election, tokio::spawn(handle.remove()));
            }
        }
        for (election, given) in new {
            match process.add(configuration(given), None).await {
                Some(handle) => drop(self.running.insert(election, handle)),
                // Why was told.
                None => self.again = Some(Instant::now() + AGAIN),
            }
        }
    }

    /// Its elections by their names.
    fn wanted(&self, others: &BTreeSet<String>) -> Result<BTreeMap<String, Given>, Vec<Complaint>> {
        let (mut wanted, mut complaints) = (BTreeMap::new(), Vec::new());
        for given in self.pattern.read()? {
            let election = given.get(&ELECTION);
            let name = given.text(&ELECTION).unwrap_or_default();
            if let Some(election) = election.filter(|_| others.contains(&name)) {
                complaints.push(Complaint::new(
                    election.told(),
                    "this process already runs this election",
                    "give each election a blob of its own",
                ));
            }
            wanted.insert(name, given);
        }
        if complaints.is_empty() { Ok(wanted) } else { Err(complaints) }
    }
}

/// What is wrong with a list is a problem of the process.
fn tell(log: &Log, complaint: &Complaint) {
    let detail = format!("{complaint}; the elections stay as they are");
    let class = Class::Election(ProblemClass::Configuration);
    log.event(&Event::Problem { class, detail });
}

impl Stamp {
    /// None: there is no such file.
    fn of(path: &Path) -> Option<Self> {
        let known = std::fs::metadata(path).ok()?;
        Some(Self { modified: known.modified().ok(), length: known.len(), file: file(&known) })
    }
}

/// A file that takes the place of another one has another number.
#[cfg(unix)]
fn file(known: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(known)
}

#[cfg(not(unix))]
fn file(_: &Metadata) -> u64 {
    0
}
