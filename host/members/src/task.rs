//! A member at work: it asks what there is to ask, and has candidates come and go as the plan says.

use super::Part;
use super::contender::{Contender, Place};
use super::store::{SharesStore, Told};
use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tenure::Lease;
use tenure::engine::Election;
use tenure::handler::{BoxFuture, Handler, TurnEnd};
use tenure::{Class, Event};
use tenure_clock::{BootClock, Clock};
use tenure_core as contract;
use tenure_core::{Problem, ProblemClass, Request, Snapshot, Turn};
use tenure_shares::{Act, Ask, Leader, Member, Pace, Running as Runs, Share, Sign, Trouble, Will};
use tokio::runtime::Handle as Runtime;
use tokio::select;
use tokio::sync::Notify;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep};

/// The poll period of a share's candidates, of which there are two at most.
pub const POLL: Duration = Duration::from_millis(500);

/// The default of the longest time in which a process that leaves hands its shares over.
pub const LEAVE_WITHIN: Duration = Duration::from_secs(20);

/// The pause after a share's candidate could not begin.
pub const AGAIN: Duration = Duration::from_secs(30);

/// The longest wait of a coordinator that leaves for a plan without it.
const PLAN_WITHIN: Duration = Duration::from_secs(3);

/// The interval between reads of the coordinating election, for work that waits for a coordinator.
const READ_AGAIN: Duration = Duration::from_secs(1);

/// The time for which a member that could not coordinate leaves that to the others.
const OUT: Duration = Duration::from_secs(60);

/// The longest time after the rest in which a member deletes its sign of life. A sign that stays looks as if the member had
/// died.
const SIGN_WITHIN: Duration = Duration::from_secs(5);

/// The interval between reports of a problem that lasts.
const REMINDER: Duration = Duration::from_secs(60);

/// The one that asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    Member,
    /// The leader of that number.
    Leader(u64),
}

type Answered = (From, Ask, Told);

/// A process among the members for shares.
#[derive(Clone, Debug)]
pub struct Membership {
    /// Its sign of life.
    pub sign: Sign,
    /// The number of shares, unless the members have agreed on another number before.
    pub count: u32,
    /// The longest time in which the holder of a share gives it up for another split: two leases, and the grace of its turn.
    pub patience: Duration,
    /// The longest time in which it hands everything over when it leaves.
    pub leave_within: Duration,
}

/// A share's candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The share.
    pub part: Part,
    of: Share,
}

impl Candidate {
    /// That of a share, which is one of so many.
    #[must_use]
    pub fn of(share: Share, count: u32) -> Self {
        Self { part: Part { index: share.index, count }, of: share }
    }

    /// Its election, where the coordinating election has that name.
    #[must_use]
    pub fn election(&self, coordinating: &str) -> String {
        format!("{coordinating}.{}", self.of.suffix(self.part.count))
    }
}

/// The work of a share. It begins only after the holder of the share has read that the leader of the coordinating
/// election coordinates (docs/protocol.md §14.6), and it knows which share it is for.
pub struct OfShare<H> {
    part: Part,
    work: H,
    /// For reads of the coordinating election.
    coordinating: Arc<Election>,
    /// The term of the share in which that was read.
    read_in: AtomicU64,
    events: Events,
}

impl<H: Handler> OfShare<H> {
    /// `coordinating` was [checked](Election::check).
    pub fn new(part: Part, work: H, coordinating: Arc<Election>) -> Self {
        let read_in = AtomicU64::new(0);
        Self { part, work, coordinating, read_in, events: Arc::new(|_| {}) }
    }

    /// Calls `events` once for each wait for a coordinator, with the problem that makes the share wait.
    #[must_use]
    pub fn on_event(mut self, events: impl Fn(Event) + Send + Sync + 'static) -> Self {
        self.events = Arc::new(events);
        self
    }

    /// Waits until a read that was sent under this term of the share shows a coordinator. A leader without shares lists
    /// the shares after its term is on record. So it has seen that this share is held, or this read sees that term.
    async fn coordinated(&self, term: u64) {
        let mut is_reported = false;
        while self.read_in.load(Ordering::Relaxed) != term {
            let problem = match self.coordinating.inspect().await {
                Ok(Snapshot { incumbent: Some(leader), .. }) if leader.coordinates => {
                    return self.read_in.store(term, Ordering::Relaxed);
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
                (self.events)(Event::Problem { class: Class::Election(problem.class), detail });
            }
            sleep(READ_AGAIN).await;
        }
    }
}

/// The turn as it is after a wait of `waited`.
fn after(waited: Duration, turn: Turn, lease: &Lease) -> Turn {
    Turn {
        valid_for: lease.remaining(),
        time_limit: turn.time_limit.map(|limit| limit.saturating_sub(waited)),
        ..turn
    }
}

impl<H: Handler> Handler for OfShare<H> {
    fn on_tick(&self, turn: Turn, lease: Lease) -> BoxFuture<'_, TurnEnd> {
        let Part { index, count } = self.part;
        Box::pin(async move {
            let began = Instant::now();
            self.coordinated(turn.term).await;
            let turn = after(began.elapsed(), turn, &lease);
            let turn = Turn { share: Some(contract::Share { index, count }), ..turn };
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

/// A running candidate. It is over when its [place](Place) is dropped.
pub type Running = BoxFuture<'static, ()>;

/// Begins the candidate of a share.
type Candidates<'a> = &'a (dyn Fn(Candidate, Place) -> Running + Send + Sync);

/// Takes the last will of this process for one that outlives it: the deletion of its sign, which can be of use for its
/// `timeout`. None: the will before it is void.
pub type Wills = Box<dyn Fn(Option<Request>) + Send + Sync>;

/// Takes events.
type Events = Arc<dyn Fn(Event) + Send + Sync>;

/// A member as the coordinator. Answers to a coordinator before it, also one of the same term, are ignored.
struct Coordinates {
    term: u64,
    number: u64,
    leader: Leader,
}

/// A member at work.
pub struct Task<'a> {
    of: Membership,
    events: Events,
    /// What requests are sent on.
    runtime: Runtime,
    store: SharesStore,
    clock: BootClock,
    candidates: Candidates<'a>,
    member: Member,
    pace: Pace,
    coordinates: Option<Coordinates>,
    /// How often it began to coordinate.
    begun: u64,
    coordinating: Contender,
    /// It could not coordinate, and contends for the coordination again then.
    out_until: Option<Duration>,
    shares: BTreeMap<Share, Contender>,
    changed: Arc<Notify>,
    running: JoinSet<()>,
    asked: JoinSet<Answered>,
    wills: Option<Wills>,
    /// The one that was left there, or is about to be.
    will: Option<Will>,
    /// Since when it leaves.
    leaves: Option<Duration>,
    taken_back: bool,
    /// Problems, and when they were told.
    told: BTreeMap<String, Duration>,
}

impl<'a> Task<'a> {
    /// One that begins with the candidate `coordinating`; `election` is for requests beside its election, on `runtime`.
    pub fn begin(
        of: Membership,
        (election, clock, runtime): (Arc<Election>, BootClock, Runtime),
        events: Events,
        coordinating: impl FnOnce(Place) -> Running,
        candidates: Candidates<'a>,
    ) -> Self {
        let (changed, mut running) = (Arc::default(), JoinSet::new());
        let pace = of.sign.pace;
        let (contender, place) = Contender::new(&changed);
        running.spawn(coordinating(place));
        Self {
            store: SharesStore::of(election, of.sign.member.clone()),
            member: Member::away(of.sign.clone()),
            of,
            events,
            runtime,
            clock,
            candidates,
            pace,
            coordinates: None,
            begun: 0,
            coordinating: contender,
            out_until: None,
            shares: BTreeMap::new(),
            changed,
            running,
            asked: JoinSet::new(),
            wills: None,
            will: None,
            leaves: None,
            taken_back: false,
            told: BTreeMap::new(),
        }
    }

    /// Leaves its last wills there.
    #[must_use]
    pub fn leaving_wills(mut self, wills: Option<Wills>) -> Self {
        self.wills = wills;
        self
    }

    /// Runs until `leave` completes and everything is given up. The process is no member before `ready` completes: no share
    /// is planned for it.
    pub async fn run(mut self, ready: impl Future<Output = ()>, leave: impl Future<Output = ()>) {
        let (mut ready, mut is_ready, mut leave) = (pin!(ready), false, pin!(leave));
        loop {
            let wake = self.settle();
            if self.has_left() {
                return;
            }
            select! {
                biased;
                () = &mut leave, if self.leaves.is_none() => self.leave(),
                () = &mut ready, if !is_ready => {
                    is_ready = true;
                    self.member.come(self.clock.now());
                }
                Some(answered) = self.asked.join_next() => {
                    if let Some((from, ask, told)) = unless_panicked(answered) {
                        self.answered(from, &ask, told);
                    }
                }
                () = self.changed.notified() => {}
                Some(ended) = self.running.join_next() => drop(unless_panicked(ended)),
                () = self.clock.sleep_until(wake) => {}
            }
        }
    }

    fn leave(&mut self) {
        let now = self.clock.now();
        self.leaves = Some(now);
        self.member.leave(now);
        if let Some(coordinates) = &mut self.coordinates {
            coordinates.leader.leave(now);
        }
    }

    /// Does all that is due, and says when to come again.
    fn settle(&mut self) -> Duration {
        let now = self.clock.now();
        for ask in self.member.next(now) {
            self.ask(From::Member, ask);
        }
        if self.out_until.is_some_and(|until| until <= now) {
            self.out_until = None;
            self.coordinating.contend(true);
        }
        self.coordinate(now);
        self.act(now);
        self.tell_what_lingers(now);
        self.shares.retain(|_, contender| !contender.is_over());
        let leader = self.coordinates.as_ref().and_then(|coordinates| coordinates.leader.wake());
        let leaves = self.leaves.map(|since| match since.saturating_add(self.of.leave_within) {
            end if now < end => end.min(now + PLAN_WITHIN),
            _ => now + Duration::from_secs(1),
        });
        let all = [self.member.wake(), leader, leaves, self.out_until];
        // What a report says without being news counts then.
        all.into_iter().flatten().min().unwrap_or(now + PLAN_WITHIN)
    }

    fn has_left(&self) -> bool {
        let Some(since) = self.leaves else { return false };
        let late = self.clock.now()
            > since.saturating_add(self.of.leave_within).saturating_add(SIGN_WITHIN);
        // A handler that does not stop is not waited for.
        self.running.is_empty() && (self.taken_back || late)
    }

    /// Coordinates while it may, and gives it up in its turn.
    fn coordinate(&mut self, now: Duration) {
        let term = self.coordinating.leads(now);
        if self.coordinates.as_ref().map(|coordinates| coordinates.term) != term {
            let (member, shares, pace) = (&self.of.sign.member, self.of.count, self.pace);
            self.coordinates = term.map(|term| {
                let patience = self.of.patience;
                let mut leader = Leader::begin(member, term, shares, pace, patience, now);
                if self.leaves.is_some() {
                    leader.leave(now);
                }
                self.begun += 1;
                Coordinates { term, number: self.begun, leader }
            });
        }
        if let Some(since) = self.leaves {
            let waits =
                self.coordinates.as_ref().is_some_and(|coordinates| !coordinates.leader.left());
            if !waits || now >= since + PLAN_WITHIN {
                self.coordinating.leave();
            }
            if now >= since.saturating_add(self.of.leave_within) {
                self.shares.values().for_each(Contender::leave);
            }
        }
        let Some(Coordinates { number, leader, .. }) = &mut self.coordinates else { return };
        let from = From::Leader(*number);
        if let Some(ask) = leader.next(now) {
            self.ask(from, ask);
        }
    }

    /// Does what the plan says about shares.
    fn act(&mut self, now: Duration) {
        let running = self.shares.iter().filter(|(_, contender)| !contender.is_over());
        let running = running.map(|(share, contender)| Runs {
            share: *share,
            leads: contender.leads(now).is_some(),
            gives_to: contender.gives_to(),
        });
        let running = running.collect::<Vec<_>>();
        for act in self.member.acts(&running, self.coordinating.is_coordinated()) {
            match act {
                Act::Begin(share) => {
                    let count = self.member.plan().map_or(0, tenure_shares::Plan::count);
                    let candidate = Candidate::of(share, count);
                    let (contender, place) = Contender::new(&self.changed);
                    self.running.spawn((self.candidates)(candidate, place));
                    self.shares.insert(share, contender);
                }
                Act::HandOver(share, to) => {
                    if let Some(contender) = self.shares.get_mut(&share) {
                        contender.hand_over(to);
                    }
                }
                Act::End(share) => {
                    if let Some(contender) = self.shares.get(&share) {
                        contender.leave();
                    }
                }
            }
        }
    }

    /// Says which shares wait for the end of a turn.
    fn tell_what_lingers(&mut self, now: Duration) {
        let planned = self.member.plan().map(|plan| plan.of(&self.of.sign.member));
        let lingers = |share: &Share| self.shares.get(share).is_some_and(Contender::lingers);
        let waiting = planned.into_iter().flatten().filter(lingers).collect::<Vec<_>>();
        for share in waiting {
            let detail = format!(
                "share {} cannot begin here: a turn of it that was told to stop still runs in this process. A handler that \
                 computes or blocks for long must check now and then whether its deadline has passed",
                share.index
            );
            self.tell(Some(Problem { class: ProblemClass::Work, detail }), now);
        }
    }

    fn ask(&mut self, from: From, ask: Ask) {
        let store = self.store.clone();
        let asked = async move {
            let told = store.ask(&ask).await;
            (from, ask, told)
        };
        self.asked.spawn_on(asked, &self.runtime);
    }

    fn answered(&mut self, from: From, ask: &Ask, told: Told) {
        let now = self.clock.now();
        self.tell(told.problem, now);
        match from {
            From::Member => {
                let is_done = told.answer == tenure_shares::Answer::Done;
                self.taken_back |= is_done && *ask == Ask::TakeBack;
                self.member.answered(ask, told.answer, now);
                self.leave_will();
            }
            From::Leader(of) => {
                let coordinates = self.coordinates.as_mut().filter(|current| current.number == of);
                let Some(coordinates) = coordinates else { return };
                if self.coordinating.leads(now) != Some(coordinates.term) {
                    // A renewal may be told of a moment later: then it begins anew.
                    self.coordinates = None;
                    return;
                }
                let leader = &mut coordinates.leader;
                let next = leader.answered(ask, told.answer, self.member.signs(), now);
                let trouble = leader.trouble();
                if let Some(next) = next {
                    self.ask(from, next);
                }
                self.meet(trouble, now);
            }
        }
    }

    /// Reports why this coordinator does not coordinate, and lets another member do it.
    fn meet(&mut self, trouble: Option<Trouble>, now: Duration) {
        let Some(trouble) = trouble else { return };
        let detail = match trouble {
            Trouble::Term(term) => format!(
                "the plan of the shares has the term {term}, over ten years ahead of the coordinator's, so nothing changes; find \
                 out who else may write beside the election's blob. Then end all processes with shares, delete the blob that \
                 ends with .plan and those with .share. in their names, and start the processes again"
            ),
            Trouble::Signs | Trouble::Rounds => {
                let failed = match trouble {
                    Trouble::Signs => "signs of life",
                    _ => "reads and writes of the plan",
                };
                format!(
                    "the {failed} of this coordinator have failed for {:?}, so it resigns and does not coordinate for {OUT:?}; \
                     find out why it cannot read and write beside the election's blob",
                    self.pace.gone_after()
                )
            }
        };
        if !matches!(trouble, Trouble::Term(_)) && self.out_until.is_none() {
            self.out_until = Some(now + OUT);
            self.coordinating.contend(false);
        }
        self.tell(Some(Problem { class: ProblemClass::Configuration, detail }), now);
    }

    /// Another sign has another will.
    fn leave_will(&mut self) {
        let Some(wills) = self.wills.as_ref().filter(|_| self.member.will() != self.will.as_ref())
        else {
            return;
        };
        self.will = self.member.will().cloned();
        let Some(will) = self.will.clone() else { return wills(None) };
        let left = will.until.saturating_sub(self.clock.now());
        wills(self.store.deletion(&will.sign).map(|mut request| {
            request.timeout = request.timeout.min(left);
            request
        }));
    }

    fn tell(&mut self, problem: Option<Problem>, now: Duration) {
        self.told.retain(|_, at| now < *at + REMINDER);
        if let Some(Problem { class, detail }) = problem
            && !self.told.contains_key(&detail)
        {
            self.told.insert(detail.clone(), now);
            (self.events)(Event::Problem { class: Class::Election(class), detail });
        }
    }
}

/// What a task came to. None: it was cancelled.
fn unless_panicked<T>(ended: Result<T, JoinError>) -> Option<T> {
    match ended.map_err(JoinError::try_into_panic) {
        Ok(done) => Some(done),
        Err(Ok(panic)) => std::panic::resume_unwind(panic),
        Err(Err(_)) => None,
    }
}

#[cfg(test)]
mod tests;
