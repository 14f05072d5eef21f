//! Looks at elections: who and what is looked at, and one look at each.

use super::complaint::Complaint;
use super::configuration::{Configuration, component};
use super::output::{complain, fail};
use super::settings::table::{INTERVAL, JSON};
use super::settings::{CommandLine, Elections};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tenure::clock::BootClock;
use tenure::component::{ComponentError, ElectionComponent};
use tenure::contract::{Problem, Snapshot};
use tenure::settings::names;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// What an absent blob means to those who would change something in its election.
pub(super) const NO_ELECTION: &str =
    "there is no such election: no candidate ever ran, or its blob was deleted";

/// So many elections are asked for at the same time.
const AT_ONCE: usize = 16;

/// An election that is looked at, judged.
pub(super) struct Subject {
    pub election: String,
    pub configuration: Configuration,
    pub component: ElectionComponent,
}

/// All elections that a command looks at.
pub(super) struct Subjects {
    pub each: Vec<Subject>,
    /// They are all that a file has, so that they are told as a list.
    pub all_of_a_file: bool,
    pub json: bool,
    /// From one look to the next, of a command that looks more than once.
    pub interval: Option<Duration>,
}

/// The elections that are meant.
pub(super) struct Named {
    pub elections: Vec<String>,
    /// As [`Subjects::all_of_a_file`].
    pub all_of_a_file: bool,
}

/// Why there is nothing to look at.
pub(super) enum Refusal {
    /// The settings are wrong.
    Settings(Named, Vec<Complaint>),
    /// This program cannot look at anything here.
    Unable(String),
}

impl Refusal {
    /// Tells it, for a command that says nothing else.
    pub(super) fn tell(self, json: bool) -> ExitCode {
        match self {
            Self::Settings(_, complaints) => complain(&complaints, json),
            Self::Unable(problem) => fail(problem),
        }
    }
}

impl Subjects {
    /// Judges the settings of all of them. Sends nothing.
    ///
    /// # Errors
    ///
    /// All complaints, or why this program cannot look at anything.
    pub(super) async fn of(line: &CommandLine, clock: &BootClock) -> Result<Self, Refusal> {
        let mut elections = Elections::of(line);
        let shared = component(clock).map_err(Refusal::Unable)?;
        let (mut each, mut interval) = (Vec::new(), None);
        for given in std::mem::take(&mut elections.given) {
            let mut configuration = Configuration::of_look(given);
            // The doctor also tests what a candidate writes.
            if line.command != "doctor" {
                configuration.settings.set(names::OBSERVE, "true");
            }
            let judged = configuration.component_on(&shared, clock).await;
            let component = judged.map_err(Refusal::Unable)?;
            interval = configuration.duration(&INTERVAL);
            elections.complain(std::mem::take(&mut configuration.complaints));
            let election = configuration.settings.get(names::ELECTION).unwrap_or_default();
            each.push(Subject { election: election.to_owned(), configuration, component });
        }
        let all_of_a_file = elections.all_of_a_file;
        if !elections.complaints.is_empty() {
            let names = each.into_iter().map(|subject: Subject| subject.election).collect();
            let named = Named { elections: names, all_of_a_file };
            return Err(Refusal::Settings(named, elections.complaints));
        }
        Ok(Self { each, all_of_a_file, json: line.has(&JSON), interval })
    }
}

/// What was seen of an election, and by whom.
pub(super) struct Look {
    pub election: String,
    pub configuration: Configuration,
    pub seen: Result<Snapshot, Problem>,
    pub component: Arc<ElectionComponent>,
    /// This machine's time of day before and after, in nanoseconds since 1970.
    pub within: (u64, u64),
}

/// One look at each election.
pub(super) struct Looks {
    pub each: Vec<Look>,
    pub all_of_a_file: bool,
    pub json: bool,
}

/// Looks once at each.
///
/// # Errors
///
/// What the program ends with, once it is told why nothing can be seen.
pub(super) async fn look(line: &CommandLine) -> Result<Looks, ExitCode> {
    let subjects = Subjects::of(line, &BootClock::new()).await;
    let Subjects { each, all_of_a_file, json, .. } =
        subjects.map_err(|refusal| refusal.tell(line.has(&JSON)))?;
    let looks = some_at_a_time(each.into_iter().map(Subject::look)).await;
    let each = looks.into_iter().collect::<Result<_, _>>().map_err(fail)?;
    Ok(Looks { each, all_of_a_file, json })
}

/// What comes of each, in their order.
pub(super) async fn some_at_a_time<F>(all: impl Iterator<Item = F>) -> Vec<F::Output>
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    let room = Arc::new(Semaphore::new(AT_ONCE));
    let mut running = JoinSet::new();
    for (number, one) in all.enumerate() {
        let room = room.clone();
        running.spawn(async move {
            let _place = room.acquire().await;
            (number, one.await)
        });
    }
    let mut done = running.join_all().await;
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, output)| output).collect()
}

impl Subject {
    async fn look(self) -> Result<Look, ComponentError> {
        let Self { election, configuration, component } = self;
        let before = now();
        let seen = component.inspect().await?;
        let (component, within) = (Arc::new(component), (before, now()));
        Ok(Look { election, configuration, seen, component, within })
    }
}

/// This machine's time of day, in nanoseconds since 1970.
pub(super) fn now() -> u64 {
    let since = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
