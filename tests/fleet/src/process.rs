//! A process that is there for shares: what ships decides, and candidates obey.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use fastrand::Rng;
use tenure_shares::{Act, Answer, Ask, Leader, Member, Pace, Running, Sign, Trouble, Will};

use crate::candidate::{Candidate, Effect, Timing};
use crate::clock::Clock;
use crate::judge::{Judge, Looks};
use crate::store::{Key, Op, Reply};
use crate::supervisor::{Deed, Left};

/// Who of a process sends a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// What it does as a member.
    Member,
    /// What it does as the coordinator in that term.
    Leader(u64),
    /// A candidate.
    Candidate(Key, u64),
}

/// What is sent.
#[derive(Clone, Debug)]
pub enum Kind {
    /// About shares, and for a plan what its leader has looked at.
    Shares(Ask, Option<Box<Looks>>),
    /// About an election.
    Election(Key, Op),
}

/// A request.
#[derive(Clone, Debug)]
pub struct Request {
    /// The process.
    pub who: usize,
    /// Which of its lives.
    pub life: u32,
    /// Who in it.
    pub from: From,
    /// What.
    pub kind: Kind,
    /// When it was sent, by the process's clock.
    pub sent: u64,
}

/// What became of it.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// About shares, and which operation of the store it was.
    Shares(Answer, u64),
    /// About an election.
    Election(Reply),
}

/// What all processes share.
pub struct Scene {
    /// True time, in milliseconds.
    pub now: u64,
    /// The judge.
    pub judge: Judge,
    /// What is to be sent.
    pub outbox: Vec<Request>,
    /// Places of all names, and names of all places.
    pub names: HashMap<String, usize>,
    /// The names by their places.
    pub roll: Vec<String>,
    /// Periods of shares' elections.
    pub timing: Timing,
    /// How often signs come.
    pub pace: Pace,
    /// The number of shares to begin with.
    pub shares: u32,
}

/// A process.
pub struct Process {
    /// Its place among all.
    pub who: usize,
    /// Its name.
    pub name: String,
    /// What it can do.
    pub sign: Sign,
    /// Where it is.
    pub zone: usize,
    /// Its clock.
    pub clock: Clock,
    /// How often it was started.
    pub life: u32,
    /// It runs.
    pub is_on: bool,
    /// It stands still until then.
    pub frozen: Option<u64>,
    /// It was told to leave at that time of its clock.
    pub leaves: Option<u64>,
    /// When it is woken next, in true time.
    pub wakes: u64,
    /// True if it has no shares: as the leader it runs all of the work.
    pub whole: bool,
    rng: Rng,
    member: Member,
    leader: Option<(u64, Leader, Looks)>,
    /// Its candidates.
    pub candidates: BTreeMap<Key, Candidate>,
    /// The version of the plan that it read last.
    read: u64,
    /// A sign is on its way.
    signs: bool,
    /// The last will of the sign before the newest one.
    former: Option<Will>,
    taken_back: bool,
    changed: bool,
    serial: u64,
}

/// Between two polls of a coordinating candidate.
const POLL: u64 = 4_000;
/// A member that could not coordinate leaves the coordination to the others for so long.
pub const OUT: u64 = 60_000;
/// A process that leaves gives everything up then.
const GRACE: u64 = 20_000;

/// In whole milliseconds, rounded up.
pub(crate) fn milliseconds(at: Duration) -> u64 {
    u64::try_from(at.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX)
}

fn period(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

impl Process {
    /// One that does not run yet.
    #[must_use]
    pub fn new(who: usize, sign: Sign, zone: usize, clock: Clock) -> Self {
        Self {
            who,
            name: sign.member.clone(),
            member: Member::begin(sign.clone(), Duration::ZERO),
            sign,
            zone,
            clock,
            life: 0,
            is_on: false,
            frozen: None,
            leaves: None,
            wakes: u64::MAX,
            whole: false,
            rng: Rng::with_seed(who as u64),
            leader: None,
            candidates: BTreeMap::new(),
            read: 0,
            signs: false,
            former: None,
            taken_back: false,
            changed: false,
            serial: 0,
        }
    }

    /// It begins, or begins anew.
    pub fn start(&mut self, scene: &mut Scene) {
        let now = self.clock.reads(scene.now);
        self.life += 1;
        (self.is_on, self.frozen, self.leaves) = (true, None, None);
        (self.wakes, self.read, self.taken_back) = (u64::MAX, 0, false);
        (self.signs, self.former) = (false, None);
        self.member = match self.whole {
            true => Member::away(self.sign.clone()),
            false => Member::begin(self.sign.clone(), period(now)),
        };
        let stop = if self.whole { scene.timing.stop } else { 0 };
        self.begin(Key::Coordination, Timing { poll: POLL, stop, ..scene.timing }, now);
    }

    /// It dies.
    pub fn kill(&mut self, scene: &mut Scene) {
        for key in std::mem::take(&mut self.candidates).into_keys() {
            scene.judge.stopped(key, self.who, self.life);
        }
        (self.is_on, self.leader, self.frozen) = (false, None, None);
    }

    /// What its supervisor would send if it died now. `former`: the newest will of its sign is on its way to the
    /// supervisor, which has the one before.
    #[must_use]
    pub fn wills(&self, former: bool) -> Vec<Left> {
        let left = |deed, until| Left::new(self.who, deed, self.clock.at(until));
        let leads = self.candidates.iter().filter_map(|(key, own)| Some((*key, own.lease()?)));
        let releases = leads.map(|(key, (id, until))| left(Deed::Release(key, id), until));
        let will = if former { self.former.as_ref() } else { self.member.will() };
        let will = will.map(|will| left(Deed::Delete(will.sign.clone()), milliseconds(will.until)));
        releases.chain(will).collect()
    }

    /// Its newest sign is known, and whatever is begun here is held: its last wills tell all that there is to tell.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        let of_share = |key: &Key| matches!(key, Key::Share(_));
        !self.signs
            && self.read > 0
            && self.candidates.iter().all(|(key, own)| !of_share(key) || own.lease().is_some())
    }

    /// It is told to leave.
    pub fn leave(&mut self, scene: &Scene) {
        let now = self.clock.reads(scene.now);
        self.leaves = Some(now);
        self.changed = true;
        self.member.leave(period(now));
        if let Some((_, leader, looks)) = &mut self.leader {
            leader.leave(period(now));
            looks.leaves = true;
        }
    }

    /// It coordinates.
    #[must_use]
    pub fn leads(&self) -> bool {
        self.leader.is_some()
    }

    fn begin(&mut self, key: Key, timing: Timing, now: u64) {
        self.serial += 1;
        let mut candidate = Candidate::new(key, self.serial, timing, now);
        candidate.whole = self.whole;
        self.candidates.insert(key, candidate);
    }

    /// Takes an answer.
    pub fn answered(&mut self, request: &Request, outcome: Outcome, scene: &mut Scene) {
        let now = self.clock.reads(scene.now);
        match (&request.kind, outcome) {
            (Kind::Shares(ask, _), Outcome::Shares(answer, done)) => match request.from {
                From::Member => self.member_answered(ask, answer, now),
                From::Leader(term) => self.leader_answered(term, ask, answer, done, scene),
                From::Candidate(..) => {}
            },
            (Kind::Election(key, op), Outcome::Election(reply)) => {
                // It may have been frozen beyond its validity.
                self.due(scene);
                let Some(candidate) = self.candidates.get_mut(key) else { return };
                if request.from == From::Candidate(*key, candidate.serial) {
                    let (sent, own, before) = (request.sent, self.who, candidate.shows());
                    let effects = candidate.answered(op, &reply, sent, own, now, &mut self.rng);
                    self.changed |= candidate.shows() != before;
                    self.obey(*key, effects, scene);
                }
            }
            _ => {}
        }
    }

    fn member_answered(&mut self, ask: &Ask, answer: Answer, now: u64) {
        if let Answer::Plan(plan, _) = &answer {
            self.read = plan.version;
        }
        self.changed |= matches!(answer, Answer::Plan(..) | Answer::Unknown);
        self.taken_back |= *ask == Ask::TakeBack && answer == Answer::Done;
        self.signs &= !matches!(ask, Ask::Sign(_));
        let before = self.member.will().cloned();
        let unread = self.member.is_unread();
        self.member.answered(ask, answer, period(now));
        self.changed |= self.member.is_unread() != unread;
        if self.member.will() != before.as_ref() {
            self.former = before;
        }
    }

    fn leader_answered(
        &mut self,
        of: u64,
        ask: &Ask,
        answer: Answer,
        done: u64,
        scene: &mut Scene,
    ) {
        let now = self.clock.reads(scene.now);
        let Some((term, leader, looks)) = &mut self.leader else { return };
        if of != *term {
            return;
        }
        match &answer {
            Answer::Signs(_) => looks.at.push((done, scene.now)),
            Answer::Plan(plan, _) if looks.at.is_empty() => {
                looks.found.extend(plan.members.iter().cloned())
            }
            _ => {}
        }
        let next = leader.answered(ask, answer, self.member.signs(), period(now));
        let resigns = matches!(leader.trouble(), Some(Trouble::Signs | Trouble::Rounds));
        if resigns && let Some(coordinating) = self.candidates.get_mut(&Key::Coordination) {
            coordinating.resign(now + OUT, now);
        }
        self.lead(next, scene);
    }

    fn lead(&mut self, ask: Option<Ask>, scene: &mut Scene) {
        let (Some(ask), Some((term, _, looks))) = (ask, &self.leader) else { return };
        let looks = matches!(ask, Ask::WritePlan(..)).then(|| Box::new(looks.clone()));
        self.send(From::Leader(*term), Kind::Shares(ask, looks), scene);
    }

    fn send(&self, from: From, kind: Kind, scene: &mut Scene) {
        let sent = self.clock.reads(scene.now);
        scene.outbox.push(Request { who: self.who, life: self.life, from, kind, sent });
    }

    fn obey(&mut self, key: Key, effects: Vec<Effect>, scene: &mut Scene) {
        let serial = self.candidates.get(&key).map_or(0, |candidate| candidate.serial);
        for effect in effects {
            match effect {
                Effect::Send(op) => {
                    self.send(From::Candidate(key, serial), Kind::Election(key, op), scene)
                }
                Effect::Works(until) => {
                    let until = self.clock.at(until);
                    let who = (self.who, self.life);
                    scene.judge.works(key, who, self.whole, until, scene.now);
                }
                Effect::Stopped => scene.judge.stopped(key, self.who, self.life),
            }
        }
    }

    /// What is due of candidates.
    fn due(&mut self, scene: &mut Scene) {
        let now = self.clock.reads(scene.now);
        let due = self.candidates.iter().filter(|(_, candidate)| candidate.wake() <= now);
        for key in due.map(|(key, _)| *key).collect::<Vec<_>>() {
            let Some(candidate) = self.candidates.get_mut(&key) else { continue };
            let before = candidate.shows();
            let effects = candidate.step(now);
            self.changed |= candidate.shows() != before;
            self.obey(key, effects, scene);
        }
    }

    /// Does all that is due, and says when to be woken.
    pub fn settle(&mut self, scene: &mut Scene) -> u64 {
        let now = self.clock.reads(scene.now);
        self.due(scene);
        for ask in self.member.next(period(now)) {
            self.signs |= matches!(ask, Ask::Sign(_));
            self.send(From::Member, Kind::Shares(ask, None), scene);
        }
        self.coordinate(now, scene);
        if std::mem::take(&mut self.changed) {
            self.act(now, scene);
        }
        self.candidates.retain(|_, candidate| !candidate.is_over());
        if self.leaves.is_some_and(|since| self.has_left(since, now)) {
            self.kill(scene);
            return u64::MAX;
        }
        let candidates = self.candidates.values().map(Candidate::wake).min();
        let leader = self.leader.as_ref().and_then(|(_, leader, _)| leader.wake());
        let others = [self.member.wake(), leader].into_iter().flatten().map(milliseconds);
        let leaves =
            self.leaves.map(|since| if now < since + GRACE { since + GRACE } else { now + 1_000 });
        let next = others.chain(candidates).chain(leaves).min().unwrap_or(u64::MAX / 2);
        self.clock.at(next.min(u64::MAX / 2_000_000)).max(scene.now + 1)
    }

    fn has_left(&self, since: u64, now: u64) -> bool {
        self.candidates.is_empty() && (self.taken_back || now > since + GRACE + 5_000)
    }

    fn coordinate(&mut self, now: u64, scene: &mut Scene) {
        let coordinating = self.candidates.get(&Key::Coordination).filter(|_| !self.whole);
        let term = coordinating.and_then(Candidate::leads);
        if self.leader.as_ref().map(|(term, ..)| *term) != term {
            self.leader = term.map(|term| {
                let leader = Leader::begin(
                    &self.name,
                    term,
                    scene.shares,
                    self.sign.pace,
                    2 * period(scene.timing.lease),
                    period(now),
                );
                (term, leader, Looks::default())
            });
        }
        if let Some(since) = self.leaves {
            let waits = self.leader.as_ref().is_some_and(|(_, leader, _)| !leader.left());
            if let Some(coordinating) = self.candidates.get_mut(&Key::Coordination)
                && (!waits || now > since + 3_000)
            {
                coordinating.leave(now);
            }
            if now >= since + GRACE {
                self.candidates.values_mut().for_each(|candidate| candidate.leave(now));
            }
        }
        if let Some((_, leader, _)) = &mut self.leader {
            let ask = leader.next(period(now));
            self.lead(ask, scene);
        }
    }

    /// Does what the member says about shares.
    fn act(&mut self, now: u64, scene: &mut Scene) {
        let name = |who: usize| scene.roll.get(who).cloned();
        let running = |(key, candidate): (&Key, &Candidate)| match key {
            Key::Share(share) if !candidate.is_over() => {
                let gives_to = candidate.gives_to().and_then(name);
                Some(Running { share: *share, leads: candidate.holds(), gives_to })
            }
            _ => None,
        };
        let running = self.candidates.iter().filter_map(running).collect::<Vec<_>>();
        let coordinating = self.candidates.get(&Key::Coordination);
        let coordinated = coordinating.is_some_and(|candidate| candidate.coordinated);
        for act in self.member.acts(&running, coordinated) {
            self.judge_act(&act, scene);
            if !coordinated && let Act::Begin(share) = act {
                let text =
                    format!("{} contends for {share:?} though nobody coordinates", self.name);
                scene.judge.broken(scene.now, "S4", text);
            }
            match act {
                Act::Begin(share) => self.begin(Key::Share(share), scene.timing, now),
                Act::HandOver(share, name) => {
                    let to = scene.names.get(&name).copied();
                    let candidate = self.candidates.get_mut(&Key::Share(share));
                    if let (Some(to), Some(candidate)) = (to, candidate) {
                        candidate.hand_over(to, now);
                    }
                }
                Act::End(share) => {
                    if let Some(candidate) = self.candidates.get_mut(&Key::Share(share)) {
                        candidate.leave(now);
                    }
                }
            }
        }
        self.due(scene);
    }

    fn judge_act(&self, act: &Act, scene: &mut Scene) {
        let (own, now) = (self.name.as_str(), scene.now);
        let holds = |share| self.candidates.get(&Key::Share(share)).is_some_and(Candidate::holds);
        scene.judge.obeys(
            self.read,
            |plan| match act {
                Act::Begin(share) if plan.holder(*share) != Some(own) => Err(format!(
                    "{own} contends for {share:?}, which the plan gives to {:?}",
                    plan.holder(*share)
                )),
                Act::HandOver(share, to) if plan.holder(*share) != Some(to) => Err(format!(
                    "{own} gives {share:?} to {to}, and the plan to {:?}",
                    plan.holder(*share)
                )),
                Act::End(share) if holds(*share) && plan.holder(*share).is_some() => {
                    Err(format!("{own} gives {share:?} up, which should not be left alone"))
                }
                _ => Ok(()),
            },
            now,
        );
    }
}
