//! The elector, the entry point for programs, and the signal that shuts them down.

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
/// All electors of a process share one thread and the connections to the storage service. Each
/// election takes 20 to 30 KiB, so a process can take part in thousands.
///
/// ```no_run
/// use std::time::Duration;
/// use tenure::Elector;
/// use tenure::settings::{Credential, Schedule, Settings};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let elector = Elector::new(Settings::new("jobs/report", Credential::Environment))?;
///
/// // Run a daemon on exactly one replica, until SIGTERM or Ctrl-C.
/// elector
///     .run_while_leading(tenure::shutdown_signal(), |lease| async move {
///         println!("leading, term {}", lease.term());
///         lease.lost().await;
///         Ok(())
///     })
///     .await?;
///
/// // Or run a job each hour, on exactly one replica.
/// let hourly = Schedule::Every(Duration::from_secs(3600));
/// elector
///     .run_on_schedule(hourly, tenure::shutdown_signal(), |turn, lease| async move {
///         println!("slot {} under term {}", turn.slot.to_rfc3339(), lease.term());
///         Ok(())
///     })
///     .await?;
///
/// // Or check from anywhere in the program whether this replica leads.
/// let membership = elector.start()?;
/// if let Some(term) = membership.leading_term() {
///     println!("this replica may act, under term {term}");
/// }
/// membership.leave().await;
/// # Ok(())
/// # }
/// ```
///
/// When leadership ends, the future of the work is dropped at its next `.await`. Work that does not
/// await cannot be stopped: it must check [`Lease::is_lost`] before each action.
///
/// The [term](Lease::term) is a fencing token, and terms only rise. A sink that rejects terms
/// smaller than the largest one it has seen is safe from late leaders.
#[derive(Clone, Debug)]
pub struct Elector {
    election: Arc<Election>,
    settings: Settings,
    process: Arc<ProcessResources>,
}

/// Error of [`Elector::new`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NewElectorError {
    /// The settings are invalid.
    #[error("the settings cannot be used")]
    Settings(#[from] InvalidSettings),
    /// The system could not start the thread for the elections of this process.
    #[error("no thread could be started for the elections")]
    Thread(#[from] io::Error),
}

/// Resources shared by the electors of a process. The thread never ends, so that leases are
/// released even after the last elector is dropped.
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
    /// Creates an elector. Sends nothing yet.
    ///
    /// # Errors
    ///
    /// Returns all complaints about the settings at once, or an error if the system cannot start a
    /// thread.
    pub fn new(settings: Settings) -> Result<Self, NewElectorError> {
        let process = ProcessResources::shared()?;
        let election = process.election.with_settings(settings.clone());
        election.check()?;
        Ok(Self { election: Arc::new(election), settings, process })
    }

    /// Trusts servers with these root certificates, in addition to those that the platform trusts.
    #[must_use]
    pub fn with_root_certificates(mut self, root_certificates: RootCertificates) -> Self {
        let election = self.election.with_settings(self.settings.clone());
        self.election = Arc::new(election.with_root_certificates(root_certificates));
        self
    }

    /// Contends until `shutdown` completes, and runs `work` while this process leads. Returns when
    /// the work has stopped and the lease is released.
    ///
    /// When `work` returns, leadership ends and another replica can lead. After an error or a
    /// panic, this replica waits for the [cool-down](Settings::cool_down) before it contends again.
    /// Dropping this future also leaves the election, in the background.
    ///
    /// # Errors
    ///
    /// Fails if settings for scheduled turns are set: jitter, delivery, missed slots, or a time
    /// limit of a turn.
    ///
    /// # Panics
    ///
    /// Panics outside a tokio runtime, on which the work runs.
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

    /// Contends until `shutdown` completes, and runs `work` for each slot of the schedule while
    /// this process leads. Returns when the work has stopped and the lease is released.
    ///
    /// Leadership ends after [`max_failures`](Settings::max_failures) errors in a row, or after a
    /// panic. Another replica can then lead. Dropping this future also leaves the election, in the
    /// background.
    ///
    /// # Errors
    ///
    /// Returns all complaints about the schedule, and about settings that conflict with it.
    ///
    /// # Panics
    ///
    /// Panics outside a tokio runtime, on which the work runs.
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

    /// Starts to contend without a handler. The program checks through the [`Membership`] whether
    /// it leads.
    ///
    /// # Errors
    ///
    /// Fails like [`run_while_leading`](Self::run_while_leading).
    ///
    /// # Panics
    ///
    /// Panics outside a tokio runtime.
    pub fn start(&self) -> Result<Membership, InvalidSettings> {
        self.start_with_handler(Schedule::WhileLeading, from_fn(|_, _| pending()))
    }

    /// Starts to contend with a handler.
    ///
    /// The handler runs on the current runtime, which must outlast the membership. Without that
    /// runtime, each turn fails. Two electors of the same election contend with each other and need
    /// different [names](Settings::name).
    ///
    /// # Errors
    ///
    /// Fails like [`run_on_schedule`](Self::run_on_schedule).
    ///
    /// # Panics
    ///
    /// Panics outside a tokio runtime.
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

/// Waits until this process is asked to shut down: by Ctrl-C, and on Unix by SIGTERM, which service
/// managers, containers and Kubernetes send.
///
/// From the first poll on, these signals do not end the process by themselves, even after this
/// future has completed. To exit on a second signal: `tokio::spawn(async { shutdown_signal().await;
/// shutdown_signal().await; std::process::exit(1) })`.
///
/// # Panics
///
/// Panics outside a tokio runtime with its drivers enabled.
pub async fn shutdown_signal() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let received = |kind| async move {
            match signal(kind) {
                Ok(mut signal) => drop(signal.recv().await),
                // The signal keeps its default action and ends the process.
                Err(_) => pending().await,
            }
        };
        tokio::select! {
            () = received(SignalKind::terminate()) => {}
            () = received(SignalKind::interrupt()) => {}
        }
    }
    #[cfg(not(unix))]
    if tokio::signal::ctrl_c().await.is_err() {
        pending::<()>().await;
    }
}

#[cfg(test)]
mod tests;
