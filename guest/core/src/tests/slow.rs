//! Several candidates at once, with one slow service.

use std::collections::{BTreeMap, VecDeque};

use super::handing_over::{Service, candidate_named};
use super::*;

/// Duration of a turn.
const TURN: Duration = Duration::from_millis(100);

/// A candidate between two of its requests.
pub(super) struct Runner {
    settings: &'static Settings,
    state: Option<Vec<u8>>,
    chance: Counter,
    step: Option<Step<'static>>,
    began: Moment,
    /// Time at which it continues.
    pub due: Moment,
    in_flight: Option<Flight>,
    events: VecDeque<Event>,
    turn_ends: Option<Moment>,
    pub role: Role,
}

/// A request in flight.
struct Flight {
    operation: Operation,
    timeout: Duration,
    sent: Moment,
    /// Time of its arrival at the service.
    arrives: Moment,
    reply: Option<Reply>,
}

impl Flight {
    fn answered(&self, round_trip: Duration) -> Moment {
        self.sent + self.timeout.min(round_trip)
    }
}

/// Returns true if a request of that candidate is refused.
type Refuses = Box<dyn Fn(&str, &Operation) -> bool>;

/// All candidates, in one virtual time.
pub(super) struct World {
    pub service: Service,
    pub runners: Vec<Runner>,
    pub round_trip: Duration,
    /// True if only answers are slow.
    pub answers_late: bool,
    /// Requests that are refused as busy, by candidate.
    pub refuses: Refuses,
    /// True if turns never end by themselves.
    pub endless: bool,
    /// Time that the host takes to stop the work of a leadership that is about to be given up.
    pub grace: Duration,
    pub now: Moment,
    pub turns: BTreeMap<&'static str, u32>,
    pub slots: Vec<Timestamp>,
    pub wins: Vec<(String, Moment)>,
    pub endings: Vec<(String, Ending, Moment)>,
    pub problems: Vec<(String, Problem, Moment)>,
    pub requests: BTreeMap<(String, &'static str), u32>,
}

impl World {
    pub fn new(candidates: &[(&'static str, &[(&str, &'static str)])]) -> Self {
        let now = seconds(100);
        let runners = (1..).zip(candidates).map(|(seed, (name, more))| Runner {
            settings: Box::leak(Box::new(candidate_named(name, more).settings)),
            state: None,
            chance: Counter(seed),
            step: None,
            began: now,
            due: now,
            in_flight: None,
            events: VecDeque::new(),
            turn_ends: None,
            role: Role::Undecided,
        });
        let runners = runners.collect();
        let mut service = Service::default();
        (service.record, service.expires) = (incumbent(9), true);
        Self {
            service,
            runners,
            round_trip: millis(10),
            answers_late: false,
            refuses: Box::new(|_, _| false),
            endless: false,
            grace: Duration::ZERO,
            now,
            turns: BTreeMap::new(),
            slots: Vec::new(),
            wins: Vec::new(),
            endings: Vec::new(),
            problems: Vec::new(),
            requests: BTreeMap::new(),
        }
    }

    pub fn leader(&self) -> Option<&'static str> {
        let leads = |r: &&Runner| matches!(r.role, Role::Leading(_));
        let mut leading = self.runners.iter().filter(leads);
        let name = leading.next().map(|runner| runner.settings.name.as_str());
        assert!(leading.next().is_none(), "two lead");
        name
    }

    pub fn order(&mut self, index: usize, event: Event) {
        let now = self.now;
        let runner = &mut self.runners[index];
        runner.events.push_back(event);
        runner.due = runner.due.min(now).max(now);
    }

    pub fn run(&mut self, span: Duration) {
        self.run_until(span, |_| false);
    }

    /// Runs for this span, or until `done`. Returns true if `done` was reached.
    pub fn run_until(&mut self, span: Duration, done: impl Fn(&Self) -> bool) -> bool {
        let end = self.now + span;
        for _ in 0..2_000_000 {
            if done(self) {
                return true;
            }
            let round_trip = self.round_trip;
            let next = |runner: &Runner| match &runner.in_flight {
                Some(flight) if flight.reply.is_none() => flight.arrives,
                Some(flight) => flight.answered(round_trip),
                None => runner.turn_ends.map_or(runner.due, |ends| ends.min(runner.due)),
            };
            let index = (0..self.runners.len()).min_by_key(|i| next(&self.runners[*i])).unwrap();
            let at = next(&self.runners[index]);
            if at > end {
                self.now = end;
                return false;
            }
            self.now = self.now.max(at);
            self.continue_candidate(index);
        }
        panic!("steps without end");
    }

    fn continue_candidate(&mut self, index: usize) {
        let (now, round_trip) = (self.now, self.round_trip);
        let runner = &mut self.runners[index];
        let name = runner.settings.name.clone();
        match &mut runner.in_flight {
            Some(flight) if flight.reply.is_none() => {
                *self.requests.entry((name.clone(), flight.operation.name())).or_default() += 1;
                let reply = match (self.refuses)(&name, &flight.operation) {
                    true => error_answer(&flight.operation, now, 503, "ServerBusy"),
                    false => self.service.serve(&flight.operation, now),
                };
                flight.reply = Some(reply);
                return;
            }
            Some(_) => {
                let flight = runner.in_flight.take().unwrap();
                let in_time = round_trip <= flight.timeout;
                let reply = flight.reply.unwrap();
                let reply = if in_time { reply } else { failure(FailureKind::Timeout) };
                let step = runner.step.as_mut().unwrap();
                step.on_answer(flight.sent, now, instant(now), reply, &mut runner.chance);
            }
            None => {
                if runner.turn_ends.is_some_and(|ends| ends <= now) {
                    runner.turn_ends = None;
                    runner.events.push_back(Event::TurnEnded(Outcome::Succeeded.into()));
                }
                let (event, state) = (runner.events.pop_front(), runner.state.take());
                let (settings, state) = (runner.settings, state.as_deref());
                let step = Step::new(settings, state, now, event, &mut runner.chance);
                (runner.step, runner.began) = (Some(step), now);
            }
        }
        match runner.step.as_mut().unwrap().next(now) {
            StepAction::Send(SignedRequest { operation, timeout, .. }) => {
                let way = if self.answers_late { Duration::ZERO } else { round_trip / 2 };
                let arrives = now + way.min(timeout);
                runner.in_flight =
                    Some(Flight { operation, timeout, sent: now, arrives, reply: None });
            }
            StepAction::Fetch(_) => panic!("no token is needed"),
            StepAction::Done(report) => {
                runner.step = None;
                self.on_report(index, *report);
            }
        }
    }

    fn on_report(&mut self, index: usize, report: Report) {
        let (now, endless) = (self.now, self.endless);
        let runner = &mut self.runners[index];
        let settings = runner.settings;
        let name = &settings.name;
        let led = matches!(runner.role, Role::Leading(_));
        if matches!(report.role, Role::Leading(_)) && !led {
            self.wins.push((name.clone(), now));
        }
        runner.due =
            if runner.events.is_empty() { now.max(runner.began + report.again_in) } else { now };
        runner.state = Some(report.state.into_bytes());
        runner.role = report.role;
        if let Some(turn) = report.run {
            *self.turns.entry(name).or_default() += 1;
            self.slots.push(turn.slot);
            runner.turn_ends = Some(if endless { Moment::MAX } else { now + TURN });
        }
        let over = report.ending.is_some();
        runner.turn_ends = runner.turn_ends.map(|ends| match report.wind_down {
            _ if over => now,
            true => {
                ends.min(now + report.wind_down_limit.map_or(self.grace, |l| l.min(self.grace)))
            }
            // The turn continues after the wind-down was cancelled.
            false if endless => Moment::MAX,
            false => ends,
        });
        self.endings.extend(report.ending.map(|ending| (name.clone(), ending, now)));
        self.problems.extend(report.problems.into_iter().map(|t| (name.clone(), t, now)));
        self.leader();
    }
}

/// Returns each round trip, once symmetric and once with slow answers only.
fn both(round_trips: &[u64]) -> Vec<(u64, bool)> {
    round_trips.iter().flat_map(|millis| [(*millis, false), (*millis, true)]).collect()
}

const SLOTS: &[(&str, &str)] = &[(variable::EVERY, "30s")];

#[test]
fn turns_run_at_every_round_trip_up_to_the_request_timeout() {
    for (round_trip, answers_late) in both(&[1_000, 1_700, 2_000, 2_300, 2_500, 2_700, 2_900]) {
        let mut world = World::new(&[("first", SLOTS)]);
        (world.round_trip, world.answers_late) = (millis(round_trip), answers_late);
        world.run(seconds(600));
        let turns = world.turns.get("first").copied().unwrap_or(0);
        assert!(world.endings.is_empty(), "{round_trip} ms: {:?}", world.endings);
        assert!(turns >= 19, "{round_trip} ms: {turns} turns, {:?}", world.problems);
        let gaps = world.slots.windows(2).filter(|pair| pair[1].since(pair[0]) != seconds(30));
        assert_eq!(gaps.count(), 0, "{round_trip} ms: {:?}", world.slots);
    }
}

#[test]
fn turns_run_where_renewals_take_longer_than_the_time_between_them() {
    let mut world = World::new(&[("first", &[(variable::EVERY, "30s"), (variable::RENEW, "1s")])]);
    world.round_trip = millis(2_500);
    world.run(seconds(600));
    assert!(world.endings.is_empty(), "{:?}", world.endings);
    assert!(world.turns.get("first").is_some_and(|turns| *turns >= 19), "{:?}", world.turns);
}

#[test]
fn a_lease_is_handed_over_at_every_round_trip_up_to_the_request_timeout() {
    for (round_trip, answers_late) in both(&[10, 500, 1_000, 1_500, 2_000, 2_500, 2_900]) {
        let mut world = World::new(&[("first", SLOTS), ("second", SLOTS), ("third", SLOTS)]);
        world.runners[1].due += seconds(20);
        world.runners[2].due += seconds(20);
        (world.round_trip, world.answers_late) = (millis(round_trip), answers_late);
        world.run(seconds(60));
        assert_eq!(world.leader(), Some("first"), "{round_trip} ms");
        world.order(0, Event::HandOver("third".into()));
        world.run(seconds(60));
        assert_eq!(world.leader(), Some("third"), "{round_trip} ms: {:?}", world.problems);
        let [(_, ending, _)] = &world.endings[..] else { panic!("{:?}", world.endings) };
        assert_eq!(ending.reason, EndingReason::HandedOver, "{round_trip} ms");
        assert_eq!(world.service.lease_ids.len(), 2, "{round_trip} ms: the lease was never free");
    }
}

#[test]
fn a_successor_leads_soon_after_it_was_given_the_lease_at_a_long_round_trip_too() {
    for later in 0..20 {
        let mut world = World::new(&[("first", SLOTS), ("second", SLOTS)]);
        world.runners[1].due += seconds(20);
        let round_trip = millis(2_600);
        world.round_trip = round_trip;
        world.run(seconds(40) + later * millis(450));
        world.order(0, Event::HandOver("second".into()));
        assert!(world.run_until(seconds(60), |world| world.leader() == Some("second")));
        let [(_, ending, at)] = &world.endings[..] else { panic!("{:?}", world.endings) };
        assert_eq!(ending.reason, EndingReason::HandedOver);
        let (_, won) = world.wins.last().unwrap();
        let took = won.saturating_sub(*at);
        assert!(took <= seconds(4) + 4 * round_trip, "{later}: {took:?}");
        assert_eq!(world.service.lease_ids.len(), 2, "{later}: the lease was never free");
    }
}

#[test]
fn work_that_takes_long_to_stop_is_handed_over_at_a_long_round_trip_too() {
    let round_trips = both(&[500, 1_500, 2_000, 2_500, 2_700, 2_900]);
    let all = round_trips
        .into_iter()
        .flat_map(|(trip, late)| [30, 3_600].map(|grace| (trip, late, grace)));
    for (round_trip, answers_late, grace) in all {
        let mut world = World::new(&[("first", SLOTS), ("second", SLOTS)]);
        world.runners[1].due += seconds(20);
        (world.round_trip, world.answers_late) = (millis(round_trip), answers_late);
        (world.endless, world.grace) = (true, seconds(grace));
        world.run(seconds(60));
        assert_eq!(world.leader(), Some("first"), "{round_trip} ms");
        world.order(0, Event::HandOver("second".into()));
        let handed = world.run_until(seconds(120), |world| world.leader() == Some("second"));
        assert!(handed, "{round_trip} ms, {grace} s: {:?}", world.problems);
        assert_eq!(world.service.lease_ids.len(), 2, "{round_trip} ms: the lease was never free");
    }
}

#[test]
fn unread_announcement_is_not_reported_as_absent_successor() {
    let mut world = World::new(&[("first", SLOTS), ("second", SLOTS)]);
    world.runners[1].due += seconds(5);
    world.run(seconds(10));
    world.service.hides_announcements = true;
    world.order(0, Event::HandOver("second".into()));
    world.run(seconds(90));
    assert_eq!(world.leader(), Some("first"));
    let reports: Vec<_> =
        world.problems.iter().filter(|(_, t, _)| t.detail.contains("not handed over")).collect();
    let [(_, problem, _)] = &reports[..] else { panic!("{:?}", world.problems) };
    assert!(problem.detail.contains("could not be read in time"), "{problem:?}");
    assert!(!problem.detail.contains("announced itself"), "{problem:?}");
}
