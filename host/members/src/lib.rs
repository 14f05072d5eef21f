//! Work that is split into shares, each of which runs in one process at a time. docs/protocol.md §14.
//!
//! ```no_run
//! use tenure::settings::{Credential, Schedule, Settings};
//! use tenure::{Elector, handler};
//! use tenure_members::Shares;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let mut settings = Settings::new("jobs/orders", Credential::Environment);
//! // Of its own in each process. One that keeps its name when it is started again soon keeps its shares.
//! settings.name = Some(Settings::default_name());
//! let shares = Shares::new(&Elector::new(settings)?, 32)?;
//! // The same in each process; together they hold all 32.
//! let work = |part| {
//!     handler::from_fn(move |turn, _lease| async move {
//!         println!("{part:?} under term {}", turn.term);
//!         std::future::pending().await
//!     })
//! };
//! shares.run(Schedule::WhileLeading, work, tenure::terminated()).await?;
//! # Ok(())
//! # }
//! ```

#![deny(missing_docs)]

mod contender;
mod store;
mod task;
mod translate;
mod whole;

pub use contender::CandidateContext;
pub use store::{SharesStore, StoreReply};
pub use task::{RECHECK_INTERVAL, ShareCandidate, LEAVE_WITHIN, MemberSettings, ShareHandler, SHARE_POLL_INTERVAL, CandidateFuture, Task, LastWillSink};
pub use whole::resign_for_shares;

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tenure::engine::{CandidateSettings, Election, Runner};
use tenure::handler::{self, Handler};
use tenure::settings::{InvalidSettings, Schedule, Settings};
use tenure::{ProblemKind, Elector, Event};
use tenure_clock::BootClock;
use tenure_core::{Complaint, ProblemClass, SettingId, limits, variable};
use tenure_shares::{SignTiming, Sign};
use tokio::runtime::Handle as Runtime;
use tokio::time::timeout;

/// The most shares: a plan of so many is one request of half a MiB.
pub const MAX_SHARES: u32 = 100_000;

/// A share of the work: which, of how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Part {
    /// From 0.
    pub index: u32,
    /// The number of shares. When it changes, all work is stopped before any begins anew.
    pub count: u32,
}

/// This process as a member of a group that divides the work.
///
/// Shares are spread evenly over all processes. When one comes or leaves, the fewest that it takes move: the old holder
/// stops its work, and the new one begins when that was seen. When a process dies, the others take over its shares.
/// Each share is an election of its own, with its own terms and turns.
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
    /// Divides work into `count` shares, 1 to 100,000, unless the processes that take part have agreed on another number
    /// before. Sends nothing yet.
    ///
    /// The settings of `elector` are those of each share. Their election coordinates: it has no work, and its leader plans
    /// which process holds which share. Their [name](Settings::name) must differ from those of all other processes, and has
    /// no default. [`max_tenure`](Settings::max_tenure) is ignored, and [`poll`](Settings::poll) holds for the coordinating
    /// election only: for shares it is 500 ms.
    ///
    /// # Errors
    ///
    /// All complaints at once.
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
        let pace = SignTiming::from_failover(failover.or(*lease).unwrap_or(limits::DEFAULT_LEASE));
        Ok(Self {
            election: Arc::new(election),
            settings,
            clock: BootClock::new(),
            sign: Sign { member, weight: 1, max_shares: None, timing: pace },
            count,
            grace: None,
            leave_within: LEAVE_WITHIN,
            turn_runtime: None,
            events: Arc::new(|_, _| {}),
        })
    }

    /// Sets the capacity of this process compared with the others: one of capacity 2 holds twice as many shares as one of
    /// capacity 1, which is the default. 0: none.
    #[must_use]
    pub fn capacity(mut self, capacity: u32) -> Self {
        self.sign.weight = capacity;
        self
    }

    /// The most shares that this process takes. When all have the most, the rest of the shares stay without a holder.
    #[must_use]
    pub fn max_shares(mut self, max: u32) -> Self {
        self.sign.max_shares = Some(max);
        self
    }

    /// Sets how long a running turn may go on when its share is handed over, as of [`Runner::grace`].
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = Some(grace);
        self
    }

    /// Sets how long this process may take to hand everything over when it leaves: 20 s by default. What it still
    /// holds then it releases, which takes up to the grace and 10 s more. Where Kubernetes kills after its usual 30 s, set
    /// 10 s, or a longer `terminationGracePeriodSeconds`.
    #[must_use]
    pub fn leave_within(mut self, within: Duration) -> Self {
        self.leave_within = within;
        self
    }

    /// Runs turns on this runtime, as of [`Runner::turns_on`]. It is the one that [`run`](Self::run) is called in unless it is
    /// set: there, handlers that compute or block on all of its threads hold up the renewals of all shares.
    #[must_use]
    pub fn run_turns_on(mut self, runtime: Runtime) -> Self {
        self.turn_runtime = Some(runtime);
        self
    }

    /// Calls `events` with each event of a share, or of the coordinating election where there is none. It must
    /// neither block nor panic.
    #[must_use]
    pub fn on_event(
        mut self,
        events: impl Fn(Option<Part>, Event) + Send + Sync + 'static,
    ) -> Self {
        self.events = Arc::new(events);
        self
    }

    /// Takes part until `leave` completes, with this work for each share that this process holds. Then it hands its
    /// shares over to the others, gives up the rest, and returns.
    ///
    /// `work` is called in the loop that renews the leases, and must return at once. Dropping the returned future ends all
    /// work too, and leaves the leases to expire.
    ///
    /// # Errors
    ///
    /// All complaints about the schedule, and about settings that do not go with it. Nothing is sent.
    ///
    /// # Panics
    ///
    /// Outside a runtime of tokio; and when `work` or a callback panics: all work stops then, and leases expire.
    pub async fn run<H: Handler>(
        self,
        schedule: Schedule,
        work: impl Fn(Part) -> H + Send + Sync,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), InvalidSettings> {
        let share_settings = |settings| CandidateSettings::from(settings).with_schedule(schedule.clone());
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
        let start_coordinator = |place| self.candidate(settings, idle, None, place);
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

    /// A candidate at that place.
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
            // It ends before the place does, so that only a turn makes that one last longer.
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

/// The settings of the coordinating election, which has no turns.
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

#[cfg(test)]
mod tests;
