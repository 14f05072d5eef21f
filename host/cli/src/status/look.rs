//! Looks at elections: who and what is looked at, and one look at each.

use crate::configuration::{Configuration, component};
use crate::output::{complain, fail};
use crate::settings::table::{INTERVAL, JSON};
use crate::settings::{CommandLine, Elections};
use crate::times::now;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tenure::clock::BootClock;
use tenure::component::{ComponentError, ElectionComponent};
use tenure::contract::{Problem, Snapshot};
use tenure::settings::names;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

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

impl Subjects {
    /// Validates the settings of all of them. Sends nothing.
    ///
    /// # Errors
    ///
    /// The exit code, once it was written why nothing can be read.
    pub(super) async fn of(line: &CommandLine, clock: &BootClock) -> Result<Self, ExitCode> {
        let json = line.has(&JSON);
        let mut elections = Elections::of(line);
        let shared = component(clock).map_err(fail)?;
        let (mut each, mut interval) = (Vec::new(), None);
        for given in std::mem::take(&mut elections.given) {
            let mut configuration = Configuration::of_look(given);
            let component = configuration.component_on(&shared, clock).await.map_err(fail)?;
            interval = configuration.duration(&INTERVAL);
            elections.complain(std::mem::take(&mut configuration.complaints));
            let election = configuration.settings.get(names::ELECTION).unwrap_or_default();
            each.push(Subject { election: election.to_owned(), configuration, component });
        }
        if !elections.complaints.is_empty() {
            return Err(complain(&elections.complaints, json));
        }
        Ok(Self { each, all_of_a_file: elections.all_of_a_file, json, interval })
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
    let Subjects { each, all_of_a_file, json, .. } = subjects?;
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
