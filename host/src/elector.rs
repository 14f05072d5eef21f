//! The way to lead: an elector, and what its work may do.

use crate::egress::RootCertificates;
use crate::election::Election;
use crate::future::BoxError;
use crate::handler::{Handler, from_fn};
use crate::lease::Lease;
use crate::membership::Membership;
use crate::runner::Runner;
use crate::settings::{CandidateSettings, InvalidSettings, Schedule, Settings};
use crate::tasks::Tasks;
use std::future::pending;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use tenure_clock::BootClock;
use tenure_core::Turn;
use tokio::runtime::Handle as Runtime;

/// Elects a leader among the replicas of a program, through a lease on an Azure blob.
///
/// All electors of a process share a thread and the connections to the storage service. An election of a process takes 20
/// to 30 KiB, so there may be thousands.
///
/// ```no_run
/// use std::time::Duration;
/// use tenure::Elector;
/// use tenure::settings::{Credential, Schedule, Settings};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let elector = Elector::new(Settings::new("jobs/report", Credential::Environment))?;
///
/// // A daemon on exactly one replica, until SIGTERM or Ctrl-C.
/// elector
///     .run_while_leading(tenure::terminated(), |lease| async move {
///         println!("leading, term {}", lease.term());
///         lease.lost().await;
///         Ok(())
///     })
///     .await?;
///
/// // Or a job that runs each hour, on exactly one replica.
/// let hourly = Schedule::Every(Duration::from_secs(3600));
/// elector
///     .run_on(hourly, tenure::terminated(), |turn, lease| async move {
///         println!("slot {} under term {}", turn.slot.to_rfc3339(), lease.term());
///         Ok(())
///     })
///     .await?;
///
/// // Or a program that asks whether it leads.
/// let membership = elector.start()?;
/// if let Some(term) = membership.leads() {
///     println!("this replica may act, under term {term}");
/// }
/// membership.leave().await;
/// # Ok(())
/// # }
/// ```
///
/// A future of work is dropped at its next `.await` when its leadership ends. Work that does not await cannot be stopped:
/// it asks [`Lease::is_lost`] before each thing that it does. The [term](Lease::term) protects the rest: terms only rise,
/// so a sink that refuses a smaller one than it has seen is safe from a leader that is late.
#[derive(Clone, Debug)]
pub struct Elector {
    election: Arc<Election>,
    settings: Settings,
    process: Arc<ProcessResources>,
}

/// Why there can be no elector.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NewElectorError {
    /// The settings cannot be used.
    #[error("the settings cannot be used")]
    Settings(#[from] InvalidSettings),
    /// The system has no thread left for the elections of this process.
    #[error("no thread could be started for the elections")]
    Thread(#[from] io::Error),
}

/// Resources that the electors of a process share. The thread never ends: leases are released also after the last elector
/// is dropped.
#[derive(Debug)]
struct ProcessResources {
    clock: BootClock,
    election: Election,
    tasks: Tasks,
}

impl ProcessResources {
    fn shared() -> io::Result<Arc<Self>> {
        static SHARED: Mutex<Option<Arc<ProcessResources>>> = Mutex::new(None);
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(process) = &*shared {
            return Ok(process.clone());
        }
        let clock = BootClock::new();
        let election = Election::new(CandidateSettings::default(), &clock);
        let process = Arc::new(Self { clock, election, tasks: Tasks::start()? });
        Ok(shared.insert(process).clone())
    }
}

impl Elector {
    /// Creates an elector, and sends nothing yet.
    ///
    /// # Errors
    ///
    /// All complaints about the settings at once, or the system has no thread left.
    pub fn new(settings: Settings) -> Result<Self, NewElectorError> {
        let process = ProcessResources::shared()?;
        let election = process.election.with_settings(settings.clone());
        election.check()?;
        Ok(Self { election: Arc::new(election), settings, process })
    }

    /// Trusts servers that `authorities` vouch for, beside those that the platform trusts.
    #[must_use]
    pub fn with_root_certificates(mut self, root_certificates: RootCertificates) -> Self {
        let election = self.election.with_settings(self.settings.clone());
        self.election = Arc::new(election.with_root_certificates(root_certificates));
        self
    }

    /// Contends until `shutdown` completes, and runs `work` each time that this process leads, for as long as it leads.
    /// Returns when the work has stopped and the lease is released.
    ///
    /// When `work` returns, the leadership ends, and another replica can lead. After an error or a panic this one stays out
    /// for the [cool-down](Settings::cool_down). When this future is dropped, the process leaves the election all the same,
    /// and nothing waits for that.
    ///
    /// # Errors
    ///
    /// The settings do not go with work that lasts: jitter, delivery, missed slots, a time limit of a turn.
    ///
    /// # Panics
    ///
    /// Outside a runtime of tokio, which runs the work.
    pub async fn run_while_leading<F, T>(
        &self,
        shutdown: impl Future<Output = ()>,
        work: F,
    ) -> Result<(), InvalidSettings>
    where
        F: Fn(Lease) -> T + Send + Sync + 'static,
        T: Future<Output = Result<(), BoxError>> + Send,
    {
        self.run(Schedule::WhileLeading, shutdown, from_fn(move |_, lease| work(lease))).await
    }

    /// Contends until `shutdown` completes, and runs `work` for each slot of the schedule while this process leads. Returns
    /// when the work has stopped and the lease is released.
    ///
    /// After `max_failures` errors in a row, and after a panic, another replica leads. When this future is dropped, the
    /// process leaves the election all the same, and nothing waits for that.
    ///
    /// # Errors
    ///
    /// All complaints about the schedule, and about settings that do not go with it.
    ///
    /// # Panics
    ///
    /// Outside a runtime of tokio, which runs the work.
    pub async fn run_on_schedule<F, T>(
        &self,
        schedule: Schedule,
        shutdown: impl Future<Output = ()>,
        work: F,
    ) -> Result<(), InvalidSettings>
    where
        F: Fn(Turn, Lease) -> T + Send + Sync + 'static,
        T: Future<Output = Result<(), BoxError>> + Send,
    {
        self.run(schedule, shutdown, from_fn(work)).await
    }

    /// Returns the election, for crates that drive it with the parts of [`engine`](crate::engine).
    #[must_use]
    pub fn election(&self) -> &Election {
        &self.election
    }

    /// Returns the settings.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    async fn run(
        &self,
        schedule: Schedule,
        shutdown: impl Future<Output = ()>,
        handler: impl Handler,
    ) -> Result<(), InvalidSettings> {
        let membership = self.start_with_handler(schedule, handler)?;
        shutdown.await;
        membership.leave().await;
        Ok(())
    }

    /// Contends from now on, without work of its own: the program asks the [`Membership`] whether it leads.
    ///
    /// # Errors
    ///
    /// As [`run_while_leading`](Self::run_while_leading).
    ///
    /// # Panics
    ///
    /// Outside a runtime of tokio.
    pub fn start(&self) -> Result<Membership, InvalidSettings> {
        self.start_with_handler(Schedule::WhileLeading, from_fn(|_, _| pending()))
    }

    /// Contends from now on with a handler of any kind. The handler runs on the runtime that this is called in, which must
    /// outlast the membership: without it, each turn fails.
    ///
    /// Two electors of one election contend with each other. Give them [names](Settings::name) that differ.
    ///
    /// # Errors
    ///
    /// As [`run_on`](Self::run_on).
    ///
    /// # Panics
    ///
    /// Outside a runtime of tokio.
    pub fn start_with_handler(
        &self,
        schedule: Schedule,
        handler: impl Handler,
    ) -> Result<Membership, InvalidSettings> {
        let settings = CandidateSettings::from(self.settings.clone()).with_schedule(schedule);
        let election = self.election.with_settings(settings);
        election.check()?;
        let runner = Runner::new(election, handler, self.process.clock.clone());
        let runner = runner.run_turns_on(Runtime::current());
        Ok(Membership::start(runner, &self.process.tasks))
    }
}

#[cfg(test)]
mod tests;
