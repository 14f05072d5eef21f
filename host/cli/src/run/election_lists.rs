//! Elections that are added and removed with the names of a list, while the process runs.
//!
//! Each list is checked every two seconds. A changed list is read once two consecutive checks show
//! the same file, because a program may still be writing it. An invalid list changes nothing. A
//! file system that hangs, or an election that starts slowly, delays neither the process nor other
//! elections.

use super::process::{Handle, Process};
use crate::complaint::Complaint;
use crate::configuration::Configuration;
use crate::output::log::Log;
use crate::settings::table::ELECTION;
use crate::settings::{Pattern, ResolvedSettings};
use crate::signals::Signals;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::Metadata;
use std::panic::resume_unwind;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tenure::{Event, ProblemKind};
use tenure_core::ProblemClass;
use tokio::select;
use tokio::task::{JoinHandle, JoinSet, spawn_blocking};
use tokio::time::{Instant, sleep};

const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// Delay before elections that could not start are tried again. Their files may be in the middle of
/// a change.
const RETRY_DELAY: Duration = Duration::from_secs(60);

/// Maximum number of elections that start at the same time. Each reads files, and may compile a
/// component.
const MAX_CONCURRENT: usize = 4;

/// The lists of a process, and their elections.
pub(crate) struct ElectionLists {
    configure: fn(ResolvedSettings) -> Configuration,
    lists: Vec<ElectionList>,
    /// Elections that are not on a list.
    standalone: BTreeSet<String>,
    /// Elections that are starting, with the number of their list.
    adding: JoinSet<(usize, String, Option<Handle>)>,
}

struct ElectionList {
    pattern: Arc<Pattern>,
    /// Elections that will be started, with their settings.
    waiting: BTreeMap<String, ResolvedSettings>,
    /// Elections that are starting. False if the list no longer contains the election.
    adding: BTreeMap<String, bool>,
    running: BTreeMap<String, Handle>,
    /// Elections that are being left. Each can be added again only after that.
    leaving: BTreeMap<String, JoinHandle<()>>,
    /// The file at the last read. None if it must be read.
    read: Option<ObservedFile>,
    /// The file at the last check. None before the first check.
    observed: Option<ObservedFile>,
    /// Time at which an unchanged list is read again.
    retry_at: Option<Instant>,
    /// The complaints that were last reported, so that each is reported once.
    reported: Vec<Complaint>,
}

/// The state of a file at a check. None if it does not exist.
type ObservedFile = Option<FileVersion>;

/// Properties that change when a file is replaced or written.
#[derive(Clone, PartialEq, Eq)]
struct FileVersion {
    modified: Option<SystemTime>,
    length: u64,
    number: u64,
}

impl ElectionLists {
    /// `configure` creates the configuration of an election from its settings.
    pub(crate) fn new(
        patterns: Vec<Pattern>,
        configure: fn(ResolvedSettings) -> Configuration,
    ) -> Self {
        // The file may have changed since the start, so it is read once more.
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
        Self { configure, lists, standalone: BTreeSet::new(), adding: JoinSet::new() }
    }

    /// Records an election that the process started with, and its list if it has one.
    pub(crate) fn record_started(
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

    /// Starts and leaves elections as the lists change. Never returns.
    pub(crate) async fn follow(&mut self, process: &Arc<Process>, reload: &mut Signals) {
        let patterns: Vec<_> = self.lists.iter().map(|list| list.pattern.clone()).collect();
        let follows_files = patterns.iter().any(|pattern| pattern.file.is_some());
        let mut observation = pin!(observe_files(Duration::ZERO, patterns.clone()));
        loop {
            select! {
                // Makes the next checks read the lists, once the files are stable.
                _ = reload.next() => self.lists.iter_mut().for_each(|list| list.read = None),
                observed = &mut observation, if follows_files => {
                    for (number, observed) in observed.into_iter().enumerate() {
                        if self.lists[number].is_due(observed) {
                            self.read(number, process).await;
                        }
                    }
                    observation.set(observe_files(POLL_INTERVAL, patterns.clone()));
                }
                Some(added) = self.adding.join_next() => {
                    let (number, election, handle) = added.unwrap_or_else(|error| resume_unwind(error.into_panic()));
                    self.lists[number].on_added(election, handle);
                }
            }
            self.start_waiting(process);
        }
    }

    /// Stops adding elections.
    pub(crate) async fn end(&mut self) {
        self.adding.shutdown().await;
    }

    async fn read(&mut self, number: usize, process: &Process) {
        let pattern = self.lists[number].pattern.clone();
        let names = spawn_blocking(move || pattern.read()).await;
        let names = names.unwrap_or_else(|error| resume_unwind(error.into_panic()));
        let excluded = self.elections_outside(number);
        self.lists[number].apply(names.and_then(|names| by_name(names, &excluded)), process);
    }

    /// Starts waiting elections, up to `MAX_CONCURRENT` at the same time.
    fn start_waiting(&mut self, process: &Arc<Process>) {
        for (number, list) in self.lists.iter_mut().enumerate() {
            while self.adding.len() < MAX_CONCURRENT
                && let Some((election, settings)) = list.waiting.pop_first()
            {
                list.adding.insert(election.clone(), true);
                let (process, configure) = (process.clone(), self.configure);
                self.adding.spawn(async move {
                    let handle = process.add(configure(settings), None).await;
                    (number, election, handle)
                });
            }
        }
    }

    /// Returns the elections that are on no list, or on another list.
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
    /// Returns true if the list must be read: its file was stable for one interval, and differs
    /// from the last read or is due for a retry.
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

    /// Applies the content of the list: adds and removes elections.
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
                // The cause may be another list or the file's permissions, so the list is read
                // again.
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
            // The other elections do not wait for these: the next check reads the list once more.
            self.read = None;
        }
        let added_count = new.keys().filter(|name| !previously_waiting.contains_key(*name)).count();
        if (is_new && added_count > 0) || !removed.is_empty() {
            let removed_count = removed.len();
            let detail = format!(
                "{name} was read again: elections added: {added_count}, removed: {removed_count}"
            );
            process.log.event(&Event::Note { detail });
        }
        self.waiting = new;
        removed.drain(..).for_each(|election| self.leave(election));
    }

    /// Records the result of starting an election. `handle` is none if it could not start.
    fn on_added(&mut self, election: String, handle: Option<Handle>) {
        let is_listed = self.adding.remove(&election).unwrap_or_default();
        match handle {
            Some(handle) => {
                self.running.insert(election.clone(), handle);
                if !is_listed {
                    self.leave(election);
                }
            }
            // `Process::add` has reported the reason.
            None => self.retry_at = Some(Instant::now() + RETRY_DELAY),
        }
    }

    fn leave(&mut self, election: String) {
        if let Some(handle) = self.running.remove(&election) {
            self.leaving.insert(election, tokio::spawn(handle.remove()));
        }
    }
}

/// Checks the files of all lists after a delay.
async fn observe_files(wait: Duration, patterns: Vec<Arc<Pattern>>) -> Vec<ObservedFile> {
    sleep(wait).await;
    let observe = move || {
        let files = patterns.iter().map(|pattern| pattern.file.as_ref());
        files.map(|file| file.and_then(|(path, _)| FileVersion::from_path(path))).collect()
    };
    spawn_blocking(observe).await.unwrap_or_else(|error| resume_unwind(error.into_panic()))
}

/// Returns the settings of a list's elections by name, or complaints about elections in `excluded`.
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

/// Reports the problem without an election, since a wrong list concerns the process.
fn report_problem(log: &Log, complaint: &Complaint) {
    let detail = format!("{complaint}; the elections stay as they are");
    let class = ProblemKind::Election(ProblemClass::Configuration);
    log.event(&Event::Problem { class, detail });
}

impl FileVersion {
    /// Reads the version of the file. Returns none if there is no such file.
    fn from_path(path: &Path) -> Option<Self> {
        let metadata = std::fs::metadata(path).ok()?;
        Some(Self {
            modified: metadata.modified().ok(),
            length: metadata.len(),
            number: file_number(&metadata),
        })
    }
}

/// Returns the inode number, which differs when another file replaces this one.
#[cfg(unix)]
fn file_number(metadata: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(metadata)
}

#[cfg(not(unix))]
fn file_number(_: &Metadata) -> u64 {
    0
}
