//! Work that is split into shares, each of which runs in one process at a time. docs/protocol.md
//! §14.
//!
//! ```no_run
//! use tenure::settings::{Credential, Schedule, Settings};
//! use tenure::{Elector, handler};
//! use tenure_members::Shares;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let mut settings = Settings::new("jobs/orders", Credential::Environment);
//! // The name must differ in each process. A process that restarts soon under the same name keeps
//! // its shares.
//! settings.name = Some(Settings::default_name());
//! let shares = Shares::new(&Elector::new(settings)?, 32)?;
//! // Each process passes the same number. Together the processes hold all 32 shares.
//! let work = |part| {
//!     handler::from_fn(move |turn, _lease| async move {
//!         println!("{part:?} under term {}", turn.term);
//!         std::future::pending().await
//!     })
//! };
//! shares.run(Schedule::WhileLeading, work, tenure::shutdown_signal()).await?;
//! # Ok(())
//! # }
//! ```

#![deny(missing_docs)]

mod candidate_handle;
mod store;
mod task;

pub use candidate_handle::CandidateContext;
pub use store::{SharesStore, StoreReply};
pub use task::{
    CandidateFuture, LEAVE_WITHIN, LastWillSink, MemberSettings, RECHECK_INTERVAL,
    SHARE_POLL_INTERVAL, ShareCandidate, ShareHandler, Task,
};

use std::fmt;
use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tenure::engine::{CandidateSettings, Election, Order, Runner};
use tenure::handler::{self, Handler};
use tenure::settings::{InvalidSettings, Schedule, Settings};
use tenure::{Elector, Event, ProblemKind};
use tenure_clock::BootClock;
use tenure_core::{Complaint, ProblemClass, SettingId, limits, variable};
use tenure_shares::{ListedSign, Sign, SignTiming, StoreRequest, StoreResponse};
use tokio::runtime::Handle as Runtime;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

/// Maximum number of shares. A plan of this size is one request of half a MiB.
pub const MAX_SHARES: u32 = 100_000;

/// A share of the work, identified by its index and the number of shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Part {
    /// Index of the share, from 0.
    pub index: u32,
    /// Number of shares. When it changes, all work stops before any of it starts again.
    pub count: u32,
}

/// This process as a member of a group that divides the work.
///
/// Shares are spread evenly over all processes. When a process joins or leaves, as few shares as
/// possible move. A share starts at its new holder once the old holder has stopped its work. When a
/// process dies, the other processes take over its shares. Each share is an election of its own,
/// with its own terms and turns.
pub struct Shares {
    /// The coordinating election.
    election: Arc<Election>,
    settings: Settings,
    clock: BootClock,
    sign: Sign,
    count: u32,
    grace: Option<Duration>,
    leave_within: Duration,
    turn_runtime: Option<Runtime>,
    events: Arc<dyn Fn(Option<Part>, Event) + Send + Sync>,
}

impl Shares {
    /// Divides work into `count` shares, 1 to 100,000. Sends nothing yet. If the members have
    /// already agreed on another number, that number applies.
    ///
    /// Each share uses the settings of `elector`. The election of `elector` coordinates: it has no
    /// work, and its leader plans which process holds which share.
    ///
    /// The [name](Settings::name) is required, and must differ from the names of all other
    /// processes. [`max_tenure`](Settings::max_tenure) is ignored. [`poll`](Settings::poll) applies
    /// to the coordinating election only; shares poll every 500 ms.
    ///
    /// # Errors
    ///
    /// Returns all complaints about the settings at once.
    pub fn new(elector: &Elector, count: u32) -> Result<Self, InvalidSettings> {
        let mut settings = elector.settings().clone();
        let mut complaints = Vec::new();
        if settings.name.as_deref().is_none_or(|name| name.trim().is_empty()) {
            let advice = "give each process a name of its own";
            complaints.push(complaint(variable::NAME, "shares need a name", advice));
        }
        if !(1..=MAX_SHARES).contains(&count) {
            let problem = format!("work cannot be split into {count} shares");
            complaints.push(complaint("TENURE_SHARES", &problem, "split it into 1 to 100,000"));
        }
        let member = match settings.name.clone() {
            Some(member) if complaints.is_empty() => member,
            _ => return Err(InvalidSettings(complaints)),
        };
        // The plan alone decides which process leads.
        settings.max_tenure = None;
        let election = elector.election().with_settings(coordinator_settings(&settings));
        election.check()?;
        let Settings { failover, lease, .. } = &settings;
        let timing =
            SignTiming::from_failover(failover.or(*lease).unwrap_or(limits::DEFAULT_LEASE));
        Ok(Self {
            election: Arc::new(election),
            settings,
            clock: BootClock::new(),
            sign: Sign { member, weight: 1, max_shares: None, timing },
            count,
            grace: None,
            leave_within: LEAVE_WITHIN,
            turn_runtime: None,
            events: Arc::new(|_, _| {}),
        })
    }

    /// Sets the relative capacity of this process. A process of capacity 2 holds twice as many
    /// shares as one of capacity 1, the default. A process of capacity 0 holds none.
    #[must_use]
    pub fn capacity(mut self, capacity: u32) -> Self {
        self.sign.weight = capacity;
        self
    }

    /// Sets the maximum number of shares of this process. If all processes are at their maximum,
    /// the remaining shares have no holder.
    #[must_use]
    pub fn max_shares(mut self, max: u32) -> Self {
        self.sign.max_shares = Some(max);
        self
    }

    /// Sets the grace period of a running turn when its share is handed over; see
    /// [`Runner::grace`].
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = Some(grace);
        self
    }

    /// Sets the time in which this process hands its shares over when it leaves: 20 s by default.
    ///
    /// It then releases the shares that it still holds, which takes up to the grace period and
    /// another 10 s. Kubernetes usually kills after 30 s: set 10 s there, or a longer
    /// `terminationGracePeriodSeconds`.
    #[must_use]
    pub fn leave_within(mut self, within: Duration) -> Self {
        self.leave_within = within;
        self
    }

    /// Runs turns on this runtime; see [`Runner::run_turns_on`].
    ///
    /// Without it, turns run on the runtime in which [`run`](Self::run) is called. There, handlers
    /// that compute or block on all threads delay the renewals of all shares.
    #[must_use]
    pub fn run_turns_on(mut self, runtime: Runtime) -> Self {
        self.turn_runtime = Some(runtime);
        self
    }

    /// Calls `events` with each event of a share, or of the coordinating election (`None`).
    /// `events` must neither block nor panic.
    #[must_use]
    pub fn on_event(
        mut self,
        events: impl Fn(Option<Part>, Event) + Send + Sync + 'static,
    ) -> Self {
        self.events = Arc::new(events);
        self
    }

    /// Takes part until `shutdown` completes, and runs this work for each share that this process
    /// holds.
    ///
    /// Then hands the shares over to other members, releases the remaining ones, and returns.
    ///
    /// `work` is called in the loop that renews the leases, and must return at once. Dropping the
    /// returned future also stops all work, and leaves the leases to expire.
    ///
    /// # Errors
    ///
    /// Returns all complaints about the schedule, and about settings that conflict with it. Nothing
    /// is sent.
    ///
    /// # Panics
    ///
    /// Panics outside a tokio runtime, and when `work` or a callback panics. A panic stops all work
    /// and leaves the leases to expire.
    pub async fn run<H: Handler>(
        self,
        schedule: Schedule,
        work: impl Fn(Part) -> H + Send + Sync,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), InvalidSettings> {
        let share_settings =
            |settings| CandidateSettings::from(settings).with_schedule(schedule.clone());
        self.election.with_settings(share_settings(self.settings.clone())).check()?;
        let start_candidate = |candidate: ShareCandidate, context: CandidateContext| {
            let part = candidate.part;
            let election = candidate.election(&self.settings.election);
            let mut settings = self.settings.clone();
            (settings.election, settings.poll) = (election, Some(SHARE_POLL_INTERVAL));
            let events = self.events.clone();
            let work =
                ShareHandler::new(part, work(part), self.election.clone()).on_event(move |event| {
                    event.emit();
                    events(Some(part), event);
                });
            self.candidate(share_settings(settings), work, Some(part), context)
        };
        let settings = coordinator_settings(&self.settings);
        let idle = handler::from_fn(|_, _| async { Ok(()) });
        let start_coordinator = |context| self.candidate(settings, idle, None, context);
        let member = MemberSettings {
            sign: self.sign.clone(),
            count: self.count,
            break_after: 2 * self.settings.lease.unwrap_or(limits::DEFAULT_LEASE)
                + self.grace.unwrap_or_default(),
            leave_within: self.leave_within,
        };
        let environment = (self.election.clone(), self.clock.clone(), Runtime::current());
        let events = self.events.clone();
        let events = Arc::new(move |event: Event| {
            event.emit();
            events(None, event);
        });
        Task::new(member, environment, events, start_coordinator, &start_candidate)
            .run(std::future::ready(()), shutdown)
            .await;
        Ok(())
    }

    /// Returns the candidate that runs with this context.
    fn candidate(
        &self,
        settings: CandidateSettings,
        work: impl Handler,
        part: Option<Part>,
        mut context: CandidateContext,
    ) -> CandidateFuture {
        let checked = self.election.with_settings(settings.clone());
        let elector = self.election.with_settings(settings);
        let (events, problem_events) = (self.events.clone(), self.events.clone());
        let mut runner = Runner::new(elector, work, self.clock.clone())
            .on_event(move |event| events(part, event))
            .on_report(context.report_observer())
            .hold_until_stopped(context.work_guard());
        if let Some(grace) = self.grace {
            runner = runner.grace(grace);
        }
        if let Some(turns) = &self.turn_runtime {
            runner = runner.run_turns_on(turns.clone());
        }
        Box::pin(async move {
            // A local runner is dropped before the context, so its guard is gone by then. Only a
            // turn can still hold a guard.
            let mut runner = runner;
            let (orders, leave) = context.split();
            let mut leave = pin!(leave);
            while let Err(error) = checked.check() {
                let class = ProblemKind::Election(ProblemClass::Configuration);
                let event = Event::Problem { class, detail: error.to_string() };
                event.emit();
                problem_events(part, event);
                if timeout(RECHECK_INTERVAL, &mut leave).await.is_ok() {
                    return;
                }
            }
            runner.run_with(leave, orders).await;
        })
    }
}

impl fmt::Debug for Shares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shares").field("sign", &self.sign).finish_non_exhaustive()
    }
}

/// Returns the settings of the coordinating election, which has no turns.
fn coordinator_settings(settings: &Settings) -> CandidateSettings {
    let mut settings = CandidateSettings::from(settings.clone());
    settings.options.coordinates = Some(true);
    settings
}

fn complaint(setting: &'static str, problem: &str, advice: &str) -> Complaint {
    Complaint {
        setting: SettingId::new(setting),
        problem: problem.to_owned(),
        advice: advice.to_owned(),
    }
}

/// Longest time between two checks of a leader.
const CHECK_INTERVAL: Duration = Duration::from_secs(300);

/// Polls between two checks.
const POLLS_PER_CHECK: u32 = 75;

/// Makes the candidate without shares resign when it leads and finds the sign of life of a member.
/// docs/protocol.md §14.6. Never completes.
///
/// Checks when leadership starts and then every 75 polls, at the latest every 5 minutes.
///
/// `leading_term` is the candidate's term while it leads. The requests go to blobs next to the blob
/// of `election`, which must be [checked](Election::check).
pub async fn resign_for_shares(
    election: Arc<Election>,
    poll: Duration,
    mut leading_term: watch::Receiver<Option<u64>>,
    orders: mpsc::Sender<Order>,
    events: impl Fn(Event),
) {
    let store = SharesStore::new(election, "");
    let check_interval = CHECK_INTERVAL.min(poll * POLLS_PER_CHECK);
    loop {
        let term = leading_term.wait_for(Option::is_some).await.map(|term| *term);
        let Ok(term) = term else { return pending().await };
        // If the list is refused the work was most likely never split: listing needs a permission
        // that elections do not need.
        if let StoreResponse::Signs(signs) = store.send(&StoreRequest::ListSigns).await.response
            && let Some(ListedSign { sign, .. }) = signs.into_iter().find(ListedSign::is_alive)
        {
            let detail = format!(
                "{} runs shares of the work, but this leader runs all of it, so it resigns. Start it with --shares, or \
                 stop the processes with --shares",
                sign.member
            );
            events(Event::Problem {
                class: ProblemKind::Election(ProblemClass::Configuration),
                detail,
            });
            // A candidate that has left ignores orders.
            let _ = orders.send(Order::Resign).await;
        }
        let leadership_ended =
            async { leading_term.wait_for(|current| *current != term).await.is_err() };
        if timeout(check_interval, leadership_ended).await == Ok(true) {
            return pending().await;
        }
    }
}

#[cfg(test)]
mod tests;
