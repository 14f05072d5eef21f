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
use super::settings::{ResolvedSettings, Pattern};
use super::signals::Signals;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::Metadata;
use std::panic::resume_unwind;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tenure::{ProblemKind, Event};
use tenure_core::ProblemClass;
use tokio::select;
use tokio::task::{JoinHandle, JoinSet, spawn_blocking};
use tokio::time::{Instant, sleep};

/// How often a list is looked at.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// When elections of a list that could not begin are tried again: what they need may be in the middle of a change.
const RETRY_DELAY: Duration = Duration::from_secs(60);

/// So many elections are added at a time: each has files to read, and perhaps a component to be compiled.
const MAX_CONCURRENT: usize = 4;

/// The lists of a process, and the elections that came of them.
pub(super) struct ElectionLists {
    configuration: fn(ResolvedSettings) -> Configuration,
    lists: Vec<ElectionList>,
    /// Elections that are on no list.
    standalone: BTreeSet<String>,
    /// Elections that begin, with the number of their list.
    adding: JoinSet<(usize, String, Option<Handle>)>,
}

struct ElectionList {
    pattern: Arc<Pattern>,
    /// Those that wait to be added.
    waiting: BTreeMap<String, ResolvedSettings>,
    /// Those that are being added. False: it is on the list no more.
    adding: BTreeMap<String, bool>,
    running: BTreeMap<String, Handle>,
    /// Those that are being left: none of them is added again before it has been.
    leaving: BTreeMap<String, JoinHandle<()>>,
    /// What it was when it was read. None: it is to be read.
    read: Option<ObservedFile>,
    /// What it was when it was looked at last. None: nobody did yet.
    observed: Option<ObservedFile>,
    /// When it is read again although it is the same.
    retry_at: Option<Instant>,
    /// What is wrong with it, so that it is told once.
    reported: Vec<Complaint>,
}

/// A file at a look. None: there is none.
type ObservedFile = Option<FileVersion>;

/// By which a file is known to be another one.
#[derive(Clone, PartialEq, Eq)]
struct FileVersion {
    modified: Option<SystemTime>,
    length: u64,
    number: u64,
}

impl ElectionLists {
    /// `configuration` says what is made of what is given for an election.
    pub(super) fn new(patterns: Vec<Pattern>, configuration: fn(ResolvedSettings) -> Configuration) -> Self {
        // It may have changed since it was read: it is read once more.
        let list = |pattern: Pattern| ElectionList {
            pattern: Arc::new(pattern),
            waiting: BTreeMap::new(),
            adding: BTreeMap::new(),
            running: BTreeMap::new(),
            leaving: BTreeMap::new(),
            read: None,
            observed: None,
            retry_at: None,
            reported: Vec::new(),
        };
        let lists = patterns.into_iter().map(list).collect();
        Self { configuration, lists, standalone: BTreeSet::new(), adding: JoinSet::new() }
    }

    /// Takes note of an election that the process began with, of a pattern or of none.
    pub(super) fn record_started(
        &mut self,
        election: String,
        pattern: Option<usize>,
        handle: Option<Handle>,
    ) {
        match pattern.and_then(|number| self.lists.get_mut(number)).zip(handle) {
            Some((list, handle)) => drop(list.running.insert(election, handle)),
            None => drop(self.standalone.insert(election)),
        }
    }

    /// Follows them. Never ends.
    pub(super) async fn follow(&mut self, process: &Arc<Process>, reload: &mut Signals) {
        let patterns: Vec<_> = self.lists.iter().map(|list| list.pattern.clone()).collect();
        let follows_files = patterns.iter().any(|pattern| pattern.file.is_some());
        let mut observation = pin!(observe_files(Duration::ZERO, patterns.clone()));
        loop {
            select! {
                // It may be in the middle of a change, as at any other time.
                _ = reload.next() => self.lists.iter_mut().for_each(|list| list.read = None),
                observed = &mut observation, if follows_files => {
                    for (number, observed) in observed.into_iter().enumerate() {
                        if self.lists[number].is_due(observed) {
                            self.read(number, process).await;
                        }
                    }
                    observation.set(self::observe_files(POLL_INTERVAL, patterns.clone()));
                }
                Some(added) = self.adding.join_next() => {
                    let (number, election, handle) = added.unwrap_or_else(|error| resume_unwind(error.into_panic()));
                    self.lists[number].on_added(election, handle);
                }
            }
            self.start_waiting(process);
        }
    }

    /// Nothing is added any more.
    pub(super) async fn end(&mut self) {
        self.adding.shutdown().await;
    }

    /// Reads a list.
    async fn read(&mut self, number: usize, process: &Process) {
        let pattern = self.lists[number].pattern.clone();
        let names = spawn_blocking(move || pattern.read()).await;
        let names = names.unwrap_or_else(|error| resume_unwind(error.into_panic()));
        let excluded = self.elections_outside(number);
        self.lists[number].apply(names.and_then(|names| by_name(names, &excluded)), process);
    }

    /// Has more of those begin that wait.
    fn start_waiting(&mut self, process: &Arc<Process>) {
        for (number, list) in self.lists.iter_mut().enumerate() {
            while self.adding.len() < MAX_CONCURRENT
                && let Some((election, settings)) = list.waiting.pop_first()
            {
                list.adding.insert(election.clone(), true);
                let (process, configuration) = (process.clone(), self.configuration);
                self.adding.spawn(async move {
                    let handle = process.add(configuration(settings), None).await;
                    (number, election, handle)
                });
            }
        }
    }

    /// What belongs to no other list, or to others than that one.
    fn elections_outside(&self, number: usize) -> BTreeSet<String> {
        let lists = self.lists.iter().enumerate().filter(|(other, _)| *other != number);
        let listed = lists.flat_map(|(_, list)| {
            let leaving = list.leaving.iter().filter(|(_, leaving)| !leaving.is_finished());
            let present = list.running.keys().chain(list.waiting.keys()).chain(list.adding.keys());
            present.chain(leaving.map(|(name, _)| name))
        });
        self.standalone.iter().chain(listed).cloned().collect()
    }
}

impl ElectionList {
    /// Whether it is another one than was read, and nobody is writing it.
    fn is_due(&mut self, now: ObservedFile) -> bool {
        if self.pattern.file.is_none() {
            return false;
        }
        let is_stable = self.observed.as_ref() == Some(&now);
        let is_new = self.read.as_ref() != Some(&now);
        let is_due = is_stable && (is_new || self.retry_at.is_some_and(|at| at <= Instant::now()));
        self.observed = Some(now);
        is_due
    }

    /// It was read as it was seen: adds and leaves what is different.
    fn apply(
        &mut self,
        wanted: Result<BTreeMap<String, ResolvedSettings>, Vec<Complaint>>,
        process: &Process,
    ) {
        let Some((_, name)) = &self.pattern.file else { return };
        let is_new = self.read != self.observed;
        (self.read, self.retry_at) = (self.observed.clone(), None);
        let wanted = match wanted {
            Ok(wanted) => wanted,
            Err(complaints) => {
                if self.reported != complaints {
                    complaints.iter().for_each(|complaint| report_problem(&process.log, complaint));
                    self.reported = complaints;
                }
                // It may be another list, or the file's permissions, that change.
                self.read = None;
                return;
            }
        };
        self.reported.clear();
        let mut removed: Vec<_> =
            self.running.keys().filter(|name| !wanted.contains_key(*name)).cloned().collect();
        for (name, is_listed) in &mut self.adding {
            *is_listed = wanted.contains_key(name);
        }
        let previously_waiting = std::mem::take(&mut self.waiting);
        self.leaving.retain(|_, leaving| !leaving.is_finished());
        let is_present =
            |name: &String| self.running.contains_key(name) || self.adding.contains_key(name);
        let new = wanted.into_iter().filter(|(name, _)| !is_present(name));
        let (deferred, new): (BTreeMap<_, _>, BTreeMap<_, _>) =
            new.partition(|(name, _)| self.leaving.contains_key(name));
        if !deferred.is_empty() {
            // The others do not wait for it: the list is read once more at the next look.
            self.read = None;
        }
        let added_count = new.keys().filter(|name| !previously_waiting.contains_key(*name)).count();
        if (is_new && added_count > 0) || !removed.is_empty() {
            let removed_count = removed.len();
            let detail =
                format!("{name} was read again: elections added: {added_count}, removed: {removed_count}");
            process.log.event(&Event::Note { detail });
        }
        self.waiting = new;
        removed.drain(..).for_each(|election| self.leave(election));
    }

    /// An election was added, or could not begin.
    fn on_added(&mut self, election: String, handle: Option<Handle>) {
        let is_listed = self.adding.remove(&election).unwrap_or_default();
        match handle {
            Some(handle) => {
                self.running.insert(election.clone(), handle);
                if !is_listed {
                    self.leave(election);
                }
            }
            // Why was told.
            None => self.retry_at = Some(Instant::now() + RETRY_DELAY),
        }
    }

    fn leave(&mut self, election: String) {
        if let Some(handle) = self.running.remove(&election) {
            self.leaving.insert(election, tokio::spawn(handle.remove()));
        }
    }
}

/// Looks at the files of all lists after a while.
async fn observe_files(wait: Duration, patterns: Vec<Arc<Pattern>>) -> Vec<ObservedFile> {
    sleep(wait).await;
    let observe = move || {
        let files = patterns.iter().map(|pattern| pattern.file.as_ref());
        files.map(|file| file.and_then(|(path, _)| FileVersion::from_path(path))).collect()
    };
    spawn_blocking(observe).await.unwrap_or_else(|error| resume_unwind(error.into_panic()))
}

/// The elections of a list by their names.
fn by_name(
    all: Vec<ResolvedSettings>,
    excluded: &BTreeSet<String>,
) -> Result<BTreeMap<String, ResolvedSettings>, Vec<Complaint>> {
    let (mut wanted, mut complaints) = (BTreeMap::new(), Vec::new());
    for settings in all {
        let election = settings.get(&ELECTION);
        let name = settings.text(&ELECTION).unwrap_or_default();
        if let Some(election) = election.filter(|_| excluded.contains(&name)) {
            complaints.push(Complaint::new(
                election.describe(),
                "this process already runs this election",
                "give each election a blob of its own",
            ));
        }
        wanted.insert(name, settings);
    }
    if complaints.is_empty() { Ok(wanted) } else { Err(complaints) }
}

/// What is wrong with a list is a problem of the process.
fn report_problem(log: &Log, complaint: &Complaint) {
    let detail = format!("{complaint}; the elections stay as they are");
    let class = ProblemKind::Election(ProblemClass::Configuration);
    log.event(&Event::Problem { class, detail });
}

impl FileVersion {
    /// None: there is no such file.
    fn from_path(path: &Path) -> Option<Self> {
        let metadata = std::fs::metadata(path).ok()?;
        Some(Self { modified: metadata.modified().ok(), length: metadata.len(), number: file_number(&metadata) })
    }
}

/// A file that takes the place of another one has another number.
#[cfg(unix)]
fn file_number(metadata: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(metadata)
}

#[cfg(not(unix))]
fn file(_: &Metadata) -> u64 {
    0
}
