//! Elections of one kind come and go with the names of a list, while the process works.
//!
//! A list is looked at every two seconds, and read when it is another one than before at two looks in a row: whoever
//! writes it may be in the middle of it. A list that is wrong changes nothing. Nobody waits for what a file system does not
//! answer, or for an election that takes its time to begin: neither the process nor other elections of a list.

use super::complaint::Complaint;
use super::configuration::Configuration;
use super::log::Log;
use super::process::{Handle, Process};
use super::settings::table::ELECTION;
use super::settings::{Given, Pattern};
use super::signals::Signals;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::Metadata;
use std::panic::resume_unwind;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tenure::{Class, Event};
use tenure_core::ProblemClass;
use tokio::select;
use tokio::task::{JoinHandle, JoinSet, spawn_blocking};
use tokio::time::{Instant, sleep};

/// How often a list is looked at.
const LOOK: Duration = Duration::from_secs(2);

/// When elections of a list that could not begin are tried again: what they need may be in the middle of a change.
const AGAIN: Duration = Duration::from_secs(60);

/// So many elections are added at a time: each has files to read, and perhaps a component to be compiled.
const AT_A_TIME: usize = 4;

/// The lists of a process, and the elections that came of them.
pub(super) struct Lists {
    configuration: fn(Given) -> Configuration,
    each: Vec<List>,
    /// Elections that are on no list.
    others: BTreeSet<String>,
    /// Elections that begin, with the number of their list.
    adding: JoinSet<(usize, String, Option<Handle>)>,
}

struct List {
    pattern: Arc<Pattern>,
    /// Those that wait to be added.
    waiting: BTreeMap<String, Given>,
    /// Those that are being added. False: it is on the list no more.
    adding: BTreeMap<String, bool>,
    running: BTreeMap<String, Handle>,
    /// Those that are being left: none of them is added again before it has been.
    leaving: BTreeMap<String, JoinHandle<()>>,
    /// What it was when it was read. None: it is to be read.
    read: Option<Stamp>,
    /// What it was when it was looked at last. None: nobody did yet.
    seen: Option<Stamp>,
    /// When it is read again although it is the same.
    again: Option<Instant>,
    /// What is wrong with it, so that it is told once.
    told: Vec<Complaint>,
}

/// A file at a look. None: there is none.
type Stamp = Option<Known>;

/// By which a file is known to be another one.
#[derive(Clone, PartialEq, Eq)]
struct Known {
    modified: Option<SystemTime>,
    length: u64,
    file: u64,
}

impl Lists {
    /// `configuration` says what is made of what is given for an election.
    pub(super) fn new(patterns: Vec<Pattern>, configuration: fn(Given) -> Configuration) -> Self {
        // It may have changed since it was read: it is read once more.
        let list = |pattern: Pattern| List {
            pattern: Arc::new(pattern),
            waiting: BTreeMap::new(),
            adding: BTreeMap::new(),
            running: BTreeMap::new(),
            leaving: BTreeMap::new(),
            read: None,
            seen: None,
            again: None,
            told: Vec::new(),
        };
        let each = patterns.into_iter().map(list).collect();
        Self { configuration, each, others: BTreeSet::new(), adding: JoinSet::new() }
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
    pub(super) async fn follow(&mut self, process: &Arc<Process>, reload: &mut Signals) {
        let patterns: Vec<_> = self.each.iter().map(|list| list.pattern.clone()).collect();
        let follows = patterns.iter().any(|pattern| pattern.file.is_some());
        let mut look = pin!(look(Duration::ZERO, patterns.clone()));
        loop {
            select! {
                // It may be in the middle of a change, as at any other time.
                _ = reload.next() => self.each.iter_mut().for_each(|list| list.read = None),
                seen = &mut look, if follows => {
                    for (number, seen) in seen.into_iter().enumerate() {
                        if self.each[number].is_due(seen) {
                            self.read(number, process).await;
                        }
                    }
                    look.set(self::look(LOOK, patterns.clone()));
                }
                Some(added) = self.adding.join_next() => {
                    let (number, election, handle) = added.unwrap_or_else(|error| resume_unwind(error.into_panic()));
                    self.each[number].added(election, handle);
                }
            }
            self.add(process);
        }
    }

    /// Nothing is added any more.
    pub(super) async fn end(&mut self) {
        self.adding.shutdown().await;
    }

    /// Reads a list.
    async fn read(&mut self, number: usize, process: &Process) {
        let pattern = self.each[number].pattern.clone();
        let names = spawn_blocking(move || pattern.read()).await;
        let names = names.unwrap_or_else(|error| resume_unwind(error.into_panic()));
        let others = self.elections_beside(number);
        self.each[number].changed(names.and_then(|names| wanted(names, &others)), process);
    }

    /// Has more of those begin that wait.
    fn add(&mut self, process: &Arc<Process>) {
        for (number, list) in self.each.iter_mut().enumerate() {
            while self.adding.len() < AT_A_TIME
                && let Some((election, given)) = list.waiting.pop_first()
            {
                list.adding.insert(election.clone(), true);
                let (process, configuration) = (process.clone(), self.configuration);
                self.adding.spawn(async move {
                    let handle = process.add(configuration(given), None).await;
                    (number, election, handle)
                });
            }
        }
    }

    /// What belongs to no other list, or to others than that one.
    fn elections_beside(&self, number: usize) -> BTreeSet<String> {
        let lists = self.each.iter().enumerate().filter(|(other, _)| *other != number);
        let of_lists = lists.flat_map(|(_, list)| {
            let leaving = list.leaving.iter().filter(|(_, leaving)| !leaving.is_finished());
            let there = list.running.keys().chain(list.waiting.keys()).chain(list.adding.keys());
            there.chain(leaving.map(|(name, _)| name))
        });
        self.others.iter().chain(of_lists).cloned().collect()
    }
}

impl List {
    /// Whether it is another one than was read, and nobody is writing it.
    fn is_due(&mut self, now: Stamp) -> bool {
        if self.pattern.file.is_none() {
            return false;
        }
        let settled = self.seen.as_ref() == Some(&now);
        let is_new = self.read.as_ref() != Some(&now);
        let is_due = settled && (is_new || self.again.is_some_and(|at| at <= Instant::now()));
        self.seen = Some(now);
        is_due
    }

    /// It was read as it was seen: adds and leaves what is different.
    fn changed(
        &mut self,
        wanted: Result<BTreeMap<String, Given>, Vec<Complaint>>,
        process: &Process,
    ) {
        let Some((_, name)) = &self.pattern.file else { return };
        let is_new = self.read != self.seen;
        (self.read, self.again) = (self.seen.clone(), None);
        let wanted = match wanted {
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
        let mut gone: Vec<_> =
            self.running.keys().filter(|name| !wanted.contains_key(*name)).cloned().collect();
        for (name, stays) in &mut self.adding {
            *stays = wanted.contains_key(name);
        }
        let waited = std::mem::take(&mut self.waiting);
        self.leaving.retain(|_, leaving| !leaving.is_finished());
        let there =
            |name: &String| self.running.contains_key(name) || self.adding.contains_key(name);
        let new = wanted.into_iter().filter(|(name, _)| !there(name));
        let (later, new): (BTreeMap<_, _>, BTreeMap<_, _>) =
            new.partition(|(name, _)| self.leaving.contains_key(name));
        if !later.is_empty() {
            // The others do not wait for it: the list is read once more at the next look.
            self.read = None;
        }
        let added = new.keys().filter(|name| !waited.contains_key(*name)).count();
        if (is_new && added > 0) || !gone.is_empty() {
            let gone = gone.len();
            let detail =
                format!("{name} was read again: elections added: {added}, removed: {gone}");
            process.log.event(&Event::Note { detail });
        }
        self.waiting = new;
        gone.drain(..).for_each(|election| self.leave(election));
    }

    /// An election was added, or could not begin.
    fn added(&mut self, election: String, handle: Option<Handle>) {
        let stays = self.adding.remove(&election).unwrap_or_default();
        match handle {
            Some(handle) => {
                self.running.insert(election.clone(), handle);
                if !stays {
                    self.leave(election);
                }
            }
            // Why was told.
            None => self.again = Some(Instant::now() + AGAIN),
        }
    }

    fn leave(&mut self, election: String) {
        if let Some(handle) = self.running.remove(&election) {
            self.leaving.insert(election, tokio::spawn(handle.remove()));
        }
    }
}

/// Looks at the files of all lists after a while.
async fn look(wait: Duration, patterns: Vec<Arc<Pattern>>) -> Vec<Stamp> {
    sleep(wait).await;
    let look = move || {
        let files = patterns.iter().map(|pattern| pattern.file.as_ref());
        files.map(|file| file.and_then(|(path, _)| Known::of(path))).collect()
    };
    spawn_blocking(look).await.unwrap_or_else(|error| resume_unwind(error.into_panic()))
}

/// The elections of a list by their names.
fn wanted(
    all: Vec<Given>,
    others: &BTreeSet<String>,
) -> Result<BTreeMap<String, Given>, Vec<Complaint>> {
    let (mut wanted, mut complaints) = (BTreeMap::new(), Vec::new());
    for given in all {
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

/// What is wrong with a list is a problem of the process.
fn tell(log: &Log, complaint: &Complaint) {
    let detail = format!("{complaint}; the elections stay as they are");
    let class = Class::Election(ProblemClass::Configuration);
    log.event(&Event::Problem { class, detail });
}

impl Known {
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
