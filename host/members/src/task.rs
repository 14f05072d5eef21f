//! Main loop of a member: sends its requests, and starts and stops candidates according to the
//! plan.

use super::Part;
use super::candidate_handle::{CandidateContext, CandidateHandle};
use super::store::{SharesStore, StoreReply};
use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tenure::Lease;
use tenure::engine::Election;
use tenure::handler::{BoxFuture, Handler, TurnEnd};
use tenure::{Event, ProblemKind};
use tenure_clock::{BootClock, Clock};
use tenure_core::{Problem, ProblemClass, Request, Snapshot, Turn};
use tenure_shares::{
    Action, CoordinatorProblem, LastWill, Leader, Member, RunningShare, Share, Sign, SignTiming,
    StoreRequest,
};
use tokio::runtime::Handle as Runtime;
use tokio::select;
use tokio::sync::Notify;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep};

/// Poll interval of a share's candidates, of which there are two at most.
pub const SHARE_POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Default time in which a leaving process hands its shares over.
pub const LEAVE_WITHIN: Duration = Duration::from_secs(20);

/// Pause after which a candidate with invalid settings checks them again. They may be valid by
/// then.
pub const RECHECK_INTERVAL: Duration = Duration::from_secs(30);

/// Longest time that a leaving coordinator waits until the plan no longer includes it.
const PLAN_TIMEOUT: Duration = Duration::from_secs(3);

/// Longest pause of the loop, because reports may change the state without waking it.
const MAX_PAUSE: Duration = Duration::from_secs(3);

/// Interval between reads of the coordinating election while a share waits for a coordinator.
const REREAD_INTERVAL: Duration = Duration::from_secs(1);

/// Time for which a member that failed as coordinator leaves coordination to other members.
const COORDINATOR_COOL_DOWN: Duration = Duration::from_secs(60);

/// Time after `leave_within` for a leaving member to delete its sign of life. If the sign stays,
/// other members assume that the member has died.
const SIGN_TIMEOUT: Duration = Duration::from_secs(5);

/// Interval between reports of a lasting problem.
const REMINDER_INTERVAL: Duration = Duration::from_secs(60);

/// Sender of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestOrigin {
    Member,
    /// The coordinator in the period with this number.
    Leader(u64),
}

type CompletedRequest = (RequestOrigin, StoreRequest, StoreReply);

/// Settings of a process that is a member.
#[derive(Clone, Debug)]
pub struct MemberSettings {
    /// Sign of life of the member.
    pub sign: Sign,
    /// Number of shares, unless the members have agreed on another number before.
    pub count: u32,
    /// Longest time in which the holder of a share releases it for another split: two leases, and
    /// the grace period of its turn.
    pub break_after: Duration,
    /// Longest time in which a leaving member hands its shares over.
    pub leave_within: Duration,
}

/// A share's candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareCandidate {
    /// Index and number of shares, for the handler.
    pub part: Part,
    /// Split and index, as in the plan.
    share: Share,
}

impl ShareCandidate {
    /// Creates the candidate of one of `count` shares.
    #[must_use]
    pub fn new(share: Share, count: u32) -> Self {
        Self { part: Part { index: share.index, count }, share }
    }

    /// Returns the name of its election, derived from the name of the coordinating election.
    #[must_use]
    pub fn election(&self, coordinating_election: &str) -> String {
        format!("{coordinating_election}.{}", self.share.suffix(self.part.count))
    }
}

/// Handler of a share.
///
/// Its work starts only after the holder has read that the leader of the coordinating election
/// coordinates shares (docs/protocol.md §14.6).
pub struct ShareHandler<H> {
    part: Part,
    work: H,
    /// Read until it shows a coordinator.
    coordinating_election: Arc<Election>,
    /// Term of the share in which the newest read showed a coordinator. 0 before that.
    checked_term: AtomicU64,
    events: EventSink,
}

impl<H: Handler> ShareHandler<H> {
    /// Creates the handler. `coordinating_election` was [checked](Election::check).
    pub fn new(part: Part, work: H, coordinating_election: Arc<Election>) -> Self {
        let checked_term = AtomicU64::new(0);
        Self { part, work, coordinating_election, checked_term, events: Arc::new(|_| {}) }
    }

    /// Calls `events` once for each wait for a coordinator, with the problem that delays the share.
    #[must_use]
    pub fn on_event(mut self, events: impl Fn(Event) + Send + Sync + 'static) -> Self {
        self.events = Arc::new(events);
        self
    }

    /// Waits until a read that was sent in this term of the share shows a coordinator.
    ///
    /// A process without `--shares` that wins the coordinating election first writes its term to
    /// the record, and then looks for held shares. This holder first raised the term of its share,
    /// and then reads the record. So at least one of the two sees the other.
    async fn wait_for_coordinator(&self, term: u64) {
        let mut is_reported = false;
        while self.checked_term.load(Ordering::Relaxed) != term {
            let problem = match self.coordinating_election.inspect().await {
                Ok(Snapshot { incumbent: Some(leader), .. }) if leader.coordinates => {
                    return self.checked_term.store(term, Ordering::Relaxed);
                }
                Ok(_) => Problem {
                    class: ProblemClass::Configuration,
                    detail: "the newest leader of the coordinating election does not coordinate shares; end the processes \
                             without --shares"
                        .to_owned(),
                },
                Err(problem) => problem,
            };
            if !std::mem::replace(&mut is_reported, true) {
                let Part { index, count } = self.part;
                let detail =
                    format!("share {index} of {count} does not begin yet: {}", problem.detail);
                (self.events)(Event::Problem {
                    class: ProblemKind::Election(problem.class),
                    detail,
                });
            }
            sleep(REREAD_INTERVAL).await;
        }
    }
}

/// Returns the turn with the times that remain of it after a wait of `waited`.
fn with_time_passed(waited: Duration, turn: Turn, lease: &Lease) -> Turn {
    Turn {
        valid_for: lease.remaining(),
        time_limit: turn.time_limit.map(|limit| limit.saturating_sub(waited)),
        ..turn
    }
}

impl<H: Handler> Handler for ShareHandler<H> {
    fn on_tick(&self, turn: Turn, lease: Lease) -> BoxFuture<'_, TurnEnd> {
        let Part { index, count } = self.part;
        Box::pin(async move {
            let started_at = Instant::now();
            self.wait_for_coordinator(turn.term).await;
            let turn = with_time_passed(started_at.elapsed(), turn, &lease);
            let turn = Turn { share: Some(tenure_core::Share { index, count }), ..turn };
            self.work.on_tick(turn, lease).await
        })
    }

    fn stopped(&self) -> BoxFuture<'_, ()> {
        self.work.stopped()
    }

    fn grace(&self) -> Duration {
        self.work.grace()
    }

    fn overtime(&self) -> Duration {
        self.work.overtime()
    }
}

/// The future that runs a candidate. The candidate counts as finished when its
/// [context](CandidateContext) and all guards of it are dropped, which may be later than the end of
/// the future.
pub type CandidateFuture = BoxFuture<'static, ()>;

/// Starts the candidate of a share.
type StartCandidate<'a> =
    &'a (dyn Fn(ShareCandidate, CandidateContext) -> CandidateFuture + Send + Sync);

/// Sink for the last will of this process, which a process that outlives it sends.
///
/// The last will is the request that deletes the member's sign of life. After the request's
/// `timeout`, counted from the call of the sink, the request need not be sent: other members then
/// take the silent member for dead.
/// `None` revokes the previous last will.
pub type LastWillSink = Box<dyn Fn(Option<Request>) + Send + Sync>;

type EventSink = Arc<dyn Fn(Event) + Send + Sync>;

/// A period in which this member coordinates. Replies to requests of an earlier period are ignored,
/// even if both have the same term.
struct Coordination {
    term: u64,
    /// Number of the period, by which replies to its requests are recognised.
    number: u64,
    leader: Leader,
}

/// Main loop of a member.
pub struct Task<'a> {
    settings: MemberSettings,
    events: EventSink,
    /// Runtime on which requests are sent.
    runtime: Runtime,
    store: SharesStore,
    clock: BootClock,
    start_candidate: StartCandidate<'a>,
    member: Member,
    timing: SignTiming,
    coordination: Option<Coordination>,
    /// Number of times that this member started to coordinate. Numbers the periods.
    coordination_count: u64,
    coordinating_candidate: CandidateHandle,
    /// Instant at which a member that failed as coordinator contends again.
    cool_down_until: Option<Duration>,
    shares: BTreeMap<Share, CandidateHandle>,
    changed: Arc<Notify>,
    running: JoinSet<()>,
    pending_requests: JoinSet<CompletedRequest>,
    last_will_sink: Option<LastWillSink>,
    /// Last will that was passed to the sink.
    last_will: Option<LastWill>,
    /// Instant at which this member began to leave.
    leaving_since: Option<Duration>,
    sign_withdrawn: bool,
    /// Reported problems, and when each was reported.
    reported_at: BTreeMap<String, Duration>,
}

impl<'a> Task<'a> {
    /// Creates the loop and starts the coordinating candidate. `election` is for requests next to
    /// its blob, on `runtime`.
    pub fn new(
        settings: MemberSettings,
        (election, clock, runtime): (Arc<Election>, BootClock, Runtime),
        events: EventSink,
        start_coordinator: impl FnOnce(CandidateContext) -> CandidateFuture,
        start_candidate: StartCandidate<'a>,
    ) -> Self {
        let (changed, mut running) = (Arc::default(), JoinSet::new());
        let timing = settings.sign.timing;
        let (handle, context) = CandidateHandle::new(&changed);
        running.spawn(start_coordinator(context));
        Self {
            store: SharesStore::new(election, settings.sign.member.clone()),
            member: Member::new(settings.sign.clone()),
            settings,
            events,
            runtime,
            clock,
            start_candidate,
            timing,
            coordination: None,
            coordination_count: 0,
            coordinating_candidate: handle,
            cool_down_until: None,
            shares: BTreeMap::new(),
            changed,
            running,
            pending_requests: JoinSet::new(),
            last_will_sink: None,
            last_will: None,
            leaving_since: None,
            sign_withdrawn: false,
            reported_at: BTreeMap::new(),
        }
    }

    /// Sets the sink for last wills.
    #[must_use]
    pub fn with_last_will_sink(mut self, sink: Option<LastWillSink>) -> Self {
        self.last_will_sink = sink;
        self
    }

    /// Runs until `shutdown` completes and all shares are released. The process becomes a member
    /// when `ready` completes; no share is planned for it before.
    pub async fn run(
        mut self,
        ready: impl Future<Output = ()>,
        shutdown: impl Future<Output = ()>,
    ) {
        let (mut ready, mut is_ready, mut shutdown) = (pin!(ready), false, pin!(shutdown));
        loop {
            let wake_at = self.run_due();
            if self.has_left() {
                return;
            }
            select! {
                biased;
                () = &mut shutdown, if self.leaving_since.is_none() => self.leave(),
                () = &mut ready, if !is_ready => {
                    is_ready = true;
                    self.member.join(self.clock.now());
                }
                Some(completed) = self.pending_requests.join_next() => {
                    if let Some((origin, request, reply)) = propagate_panic(completed) {
                        self.on_reply(origin, &request, reply);
                    }
                }
                () = self.changed.notified() => {}
                Some(ended) = self.running.join_next() => drop(propagate_panic(ended)),
                () = self.clock.sleep_until(wake_at) => {}
            }
        }
    }

    fn leave(&mut self) {
        let now = self.clock.now();
        self.leaving_since = Some(now);
        self.member.leave(now);
        if let Some(coordination) = &mut self.coordination {
            coordination.leader.leave(now);
        }
    }

    /// Does all that is due, and returns the next wake-up time.
    fn run_due(&mut self) -> Duration {
        let now = self.clock.now();
        for request in self.member.next_requests(now) {
            self.send_request(RequestOrigin::Member, request);
        }
        if self.cool_down_until.is_some_and(|until| until <= now) {
            self.cool_down_until = None;
            self.coordinating_candidate.set_ready(true);
        }
        self.update_coordination(now);
        self.continue_leaving(now);
        self.send_coordinator_request(now);
        self.apply_actions(now);
        self.report_stopping_shares(now);
        self.shares.retain(|_, handle| !handle.is_finished());
        self.wake_at(now)
    }

    /// Returns the next wake-up time.
    fn wake_at(&self, now: Duration) -> Duration {
        let leader =
            self.coordination.as_ref().and_then(|coordination| coordination.leader.wake_at());
        // The times at which `continue_leaving` acts. After them, `has_left` has a limit too.
        let leave_due = self.leaving_since.map(|since| {
            let times = [PLAN_TIMEOUT, self.settings.leave_within];
            let times = times.map(|time| since.saturating_add(time)).into_iter();
            times.filter(|at| now < *at).min().unwrap_or(now + Duration::from_secs(1))
        });
        let wake_times = [self.member.wake_at(), leader, leave_due, self.cool_down_until];
        wake_times.into_iter().flatten().fold(now + MAX_PAUSE, Duration::min)
    }

    fn has_left(&self) -> bool {
        let Some(since) = self.leaving_since else { return false };
        let is_late = self.clock.now()
            > since.saturating_add(self.settings.leave_within).saturating_add(SIGN_TIMEOUT);
        // Each candidate ends within 10 s after its handler was asked to stop, even if the handler
        // still runs. So only the withdrawal of the sign needs a limit here.
        self.running.is_empty() && (self.sign_withdrawn || is_late)
    }

    /// Starts or stops coordinating if the coordinating candidate's term has changed.
    fn update_coordination(&mut self, now: Duration) {
        let term = self.coordinating_candidate.leading_term(now);
        if self.coordination.as_ref().map(|coordination| coordination.term) != term {
            let (member, shares, timing) =
                (&self.settings.sign.member, self.settings.count, self.timing);
            self.coordination = term.map(|term| {
                let break_after = self.settings.break_after;
                let mut leader = Leader::new(member, term, shares, timing, break_after, now);
                if self.leaving_since.is_some() {
                    leader.leave(now);
                }
                self.coordination_count += 1;
                Coordination { term, number: self.coordination_count, leader }
            });
        }
    }

    /// If this member leaves, makes the coordinating candidate leave once the plan no longer
    /// includes this member, and all shares at the end of `leave_within`.
    fn continue_leaving(&mut self, now: Duration) {
        let Some(since) = self.leaving_since else { return };
        let must_wait =
            self.coordination.as_ref().is_some_and(|coordination| !coordination.leader.has_left());
        if !must_wait || now >= since + PLAN_TIMEOUT {
            self.coordinating_candidate.leave();
        }
        if now >= since.saturating_add(self.settings.leave_within) {
            self.shares.values().for_each(CandidateHandle::leave);
        }
    }

    /// Sends the next request of the coordinator, if this member coordinates and one is due.
    fn send_coordinator_request(&mut self, now: Duration) {
        let Some(Coordination { number, leader, .. }) = &mut self.coordination else { return };
        let origin = RequestOrigin::Leader(*number);
        if let Some(request) = leader.next_request(now) {
            self.send_request(origin, request);
        }
    }

    /// Starts, hands over and ends shares according to the plan.
    fn apply_actions(&mut self, now: Duration) {
        let running = self.shares.iter().filter(|(_, handle)| !handle.is_finished());
        let running = running.map(|(share, handle)| RunningShare {
            share: *share,
            is_leading: handle.leading_term(now).is_some(),
            successor: handle.successor(),
        });
        let running = running.collect::<Vec<_>>();
        for action in self.member.actions(&running, self.coordinating_candidate.is_coordinated()) {
            match action {
                Action::Begin(share) => {
                    let count = self.member.plan().map_or(0, tenure_shares::Plan::count);
                    let candidate = ShareCandidate::new(share, count);
                    let (handle, context) = CandidateHandle::new(&self.changed);
                    self.running.spawn((self.start_candidate)(candidate, context));
                    self.shares.insert(share, handle);
                }
                Action::HandOver(share, to) => {
                    if let Some(handle) = self.shares.get_mut(&share) {
                        handle.hand_over(to);
                    }
                }
                Action::End(share) => {
                    if let Some(handle) = self.shares.get(&share) {
                        handle.leave();
                    }
                }
            }
        }
    }

    /// Reports shares that wait for the end of a turn.
    fn report_stopping_shares(&mut self, now: Duration) {
        let planned = self.member.plan().map(|plan| plan.shares_of(&self.settings.sign.member));
        let is_stopping =
            |share: &Share| self.shares.get(share).is_some_and(CandidateHandle::is_still_stopping);
        let waiting = planned.into_iter().flatten().filter(is_stopping).collect::<Vec<_>>();
        for share in waiting {
            let detail = format!(
                "share {} cannot begin here: a turn of it that was asked to stop still runs in this process. A handler that \
                 computes or blocks for long must check now and then whether its deadline has passed",
                share.index
            );
            self.report_problem(Some(Problem { class: ProblemClass::Work, detail }), now);
        }
    }

    fn send_request(&mut self, origin: RequestOrigin, request: StoreRequest) {
        let store = self.store.clone();
        let exchange = async move {
            let reply = store.send(&request).await;
            (origin, request, reply)
        };
        self.pending_requests.spawn_on(exchange, &self.runtime);
    }

    fn on_reply(&mut self, origin: RequestOrigin, request: &StoreRequest, reply: StoreReply) {
        let now = self.clock.now();
        self.report_problem(reply.problem, now);
        match origin {
            RequestOrigin::Member => {
                let is_done = reply.response == tenure_shares::StoreResponse::Done;
                self.sign_withdrawn |= is_done && *request == StoreRequest::WithdrawSign;
                self.member.on_response(request, reply.response, now);
                self.update_last_will();
            }
            RequestOrigin::Leader(number) => {
                let coordination =
                    self.coordination.as_mut().filter(|current| current.number == number);
                let Some(coordination) = coordination else { return };
                if self.coordinating_candidate.leading_term(now) != Some(coordination.term) {
                    // The validity has ended, unless the report of a renewal is on its way. With
                    // that report, a new period of coordination starts.
                    self.coordination = None;
                    return;
                }
                let leader = &mut coordination.leader;
                let next_request =
                    leader.on_response(request, reply.response, self.member.signs(), now);
                let problem = leader.problem();
                if let Some(next_request) = next_request {
                    self.send_request(origin, next_request);
                }
                self.on_coordinator_problem(problem, now);
            }
        }
    }

    /// Reports why this coordinator fails. Leaves coordination to another member, unless the plan
    /// itself is wrong ([`CoordinatorProblem::Term`]): no other member could do better then.
    fn on_coordinator_problem(&mut self, problem: Option<CoordinatorProblem>, now: Duration) {
        let Some(problem) = problem else { return };
        let detail = match problem {
            CoordinatorProblem::Term(term) => format!(
                "the plan of the shares has the term {term}, over ten years ahead of the coordinator's, so nothing changes; find \
                 out who else may write next to the election's blob. Then end all processes with shares, delete the blob that \
                 ends with .plan and those with .share. in their names, and start the processes again"
            ),
            CoordinatorProblem::Signs | CoordinatorProblem::Rounds => {
                let failed_requests = match problem {
                    CoordinatorProblem::Signs => "signs of life",
                    _ => "reads and writes of the plan",
                };
                format!(
                    "the {failed_requests} of this coordinator have failed for {:?}, so it resigns and does not coordinate for {COORDINATOR_COOL_DOWN:?}; \
                     find out why it cannot read and write next to the election's blob",
                    self.timing.member_timeout()
                )
            }
        };
        if !matches!(problem, CoordinatorProblem::Term(_)) && self.cool_down_until.is_none() {
            self.cool_down_until = Some(now + COORDINATOR_COOL_DOWN);
            self.coordinating_candidate.set_ready(false);
        }
        self.report_problem(Some(Problem { class: ProblemClass::Configuration, detail }), now);
    }

    /// Updates the last will when the sign of life changes.
    fn update_last_will(&mut self) {
        let Some(sink) = self
            .last_will_sink
            .as_ref()
            .filter(|_| self.member.last_will() != self.last_will.as_ref())
        else {
            return;
        };
        self.last_will = self.member.last_will().cloned();
        let Some(last_will) = self.last_will.clone() else { return sink(None) };
        let remaining = last_will.until.saturating_sub(self.clock.now());
        sink(self.store.delete_request(&last_will.sign).map(|mut request| {
            request.timeout = request.timeout.min(remaining);
            request
        }));
    }

    fn report_problem(&mut self, problem: Option<Problem>, now: Duration) {
        self.reported_at.retain(|_, at| now < *at + REMINDER_INTERVAL);
        if let Some(Problem { class, detail }) = problem
            && !self.reported_at.contains_key(&detail)
        {
            self.reported_at.insert(detail.clone(), now);
            (self.events)(Event::Problem { class: ProblemKind::Election(class), detail });
        }
    }
}

/// Returns the result of a task, or `None` if it was cancelled. Resumes its panic.
fn propagate_panic<T>(ended: Result<T, JoinError>) -> Option<T> {
    match ended.map_err(JoinError::try_into_panic) {
        Ok(done) => Some(done),
        Err(Ok(panic)) => std::panic::resume_unwind(panic),
        Err(Err(_)) => None,
    }
}

#[cfg(test)]
mod tests;
