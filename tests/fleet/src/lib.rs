//! Members and shares in virtual time: what ships decides, an account and a network in which a seed chooses what goes
//! wrong, and judges. protocol.md §14.
//!
//! - Time has whole milliseconds. Each process counts by a clock of its own, which is set wrong and runs wrong.
//! - What happens follows from the seed alone.
//! - The elections of shares are leases with the properties that protocol.md §3, §4, §5 and §7 prove; the simulation of these is
//!   another one.

#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic, reason = "only tests use this")]

pub mod campaign;
pub mod candidate;
pub mod clock;
pub mod judge;
pub mod large;
pub mod network;
pub mod process;
pub mod scenario;
pub mod store;
pub mod supervisor;
pub mod world;

use fastrand::Rng;
use judge::Violation;
use scenario::{Action, Whom, ZONES};
use tenure_shares::mutants::{self, Mutant};
use world::{Event, Requests, Size, World};

/// Rules that are judged: each of them some seeded bug must break.
pub const RULES: [&str; 4] = ["S1", "S2", "S3", "S4"];

/// What came of one schedule.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Its seed.
    pub seed: u64,
    /// What must not happen, and did.
    pub violations: Vec<Violation>,
    /// Plans that were written.
    pub plans: usize,
    /// Shares that moved from members that were there.
    pub moves: usize,
    /// What was sent.
    pub requests: Requests,
    /// Virtual time, in milliseconds.
    pub lasted: u64,
}

/// Until then things go wrong.
const FAULTS: u64 = 120_000;
/// Nothing happens for so long, and nothing may move.
const QUIET: u64 = 60_000;
/// One way, at most, when all is well.
const WAY: u64 = 15;

/// How long things may take when all is well, in milliseconds: protocol.md §14.4.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// From the plan on: it is read, the successor announces itself, the work stops, the lease is given and acquired.
    hand_over: u64,
}

const LOOK: u64 = 1_000;
const GONE: u64 = 15_000;
const ROUND_TRIP: u64 = 2 * WAY;

impl Bounds {
    /// For work that takes so long to stop.
    #[must_use]
    pub fn new(stop: u64) -> Self {
        Self { hand_over: slow(LOOK + 3 * 500) + stop + 12 * ROUND_TRIP }
    }

    /// After a member joined.
    #[must_use]
    pub fn join(self) -> u64 {
        slow(2 * LOOK) + 8 * ROUND_TRIP + self.hand_over
    }

    /// After a member was told to leave.
    #[must_use]
    pub fn leave(self) -> u64 {
        slow(LOOK) + 8 * ROUND_TRIP + self.hand_over
    }

    /// After a member died that does not coordinate. A lease may end 2 s late.
    #[must_use]
    pub fn death(self) -> u64 {
        slow(GONE + 2 * LOOK) + 2_000 + 8 * ROUND_TRIP + self.hand_over
    }

    /// After the coordinator died: its lease ends, up to 2 s late, and another one polls. By then its silence is noticed; the
    /// service's dates make up to 2 s of it unknown.
    #[must_use]
    pub fn leaders_death(self) -> u64 {
        slow(world::LEASE + 4_000 + LOOK) + 4_000 + 12 * ROUND_TRIP + self.hand_over
    }

    /// After a member died that left last wills: when they have arrived it is as if it had left. If it coordinates, another one
    /// polls first.
    #[must_use]
    pub fn will(self, leader: bool) -> u64 {
        let poll = if leader { slow(4_000) + 4 * ROUND_TRIP } else { 0 };
        supervisor::SOON + WAY + poll + self.leave()
    }

    /// After a member died while the coordinator cannot write: that is gone after as long, resigns, and another one has to look for as long.
    #[must_use]
    pub fn disabled(self) -> u64 {
        slow(2 * GONE) + self.calm()
    }

    /// After all members died: their leases end and their signs are old, and a candidate without shares polls, twice at most.
    #[must_use]
    pub fn whole(self) -> u64 {
        slow(world::LEASE + GONE / 2 + 3 * 4_000) + 2_000 + 12 * ROUND_TRIP
    }

    /// After members came back while a leader without shares runs all of the work, which looks for them in so long.
    #[must_use]
    pub fn back(self) -> u64 {
        slow(10_000) + self.calm()
    }

    /// After a split was asked for while one member cannot read the plan: the coordinator waits two leases, breaks those
    /// of that member, and closes its shares when they have expired, up to 2 s late. It finds out in rounds.
    #[must_use]
    pub fn stuck(self) -> u64 {
        slow(3 * world::LEASE + 4 * LOOK) + 2_000 + 16 * ROUND_TRIP + self.hand_over
    }

    /// After all faults were over: another coordinator, who looks for so long until somebody is gone.
    #[must_use]
    pub fn calm(self) -> u64 {
        slow(world::LEASE + 4_000) + 2_000 + self.death() + slow(20_000)
    }
}

/// What a clock that runs wrong by a hundredth makes of that.
fn slow(period: u64) -> u64 {
    period * 102 / 100
}

/// Runs the schedule of one seed, with that bug in the code.
#[must_use]
pub fn run(seed: u64, mutant: Option<Mutant>) -> Outcome {
    mutants::activate(mutant);
    let mut rng = Rng::with_seed(seed);
    let equal = rng.u64(..4) > 0;
    let members = rng.usize(3..=7);
    let (shares, stop) = (rng.u32(8..=64), rng.u64(..=500));
    let size = Size { shares, members, stop, equal, mixed: seed % 2 == 1 };
    let rough = rng.choice([0, 1_000, 200, 50]).unwrap_or(0);
    let mut world = World::new(seed, size, rng.u64(5..=60), rough);
    let limited = !equal && rng.bool();
    for who in 0..members {
        let weight = if equal || limited { 1 } else { rng.u32(1..=4) };
        let most = limited.then(|| rng.u32(2..=40)).filter(|_| rng.bool());
        world.run(rng.u64(..=1_000) + world.scene.now);
        world.join(weight, most, who % ZONES);
    }
    for (at, action) in scenario::faults(&mut rng, FAULTS) {
        world.at(at.max(world.scene.now), Event::Acts(action));
    }
    play(&mut world, FAULTS);
    settle(&mut world, &size, &mut rng);
    mutants::activate(None);
    let judge = world.scene.judge;
    Outcome {
        seed,
        violations: judge.violations,
        plans: judge.written,
        moves: judge.moves,
        requests: world.requests,
        lasted: world.scene.now,
    }
}

fn play(world: &mut World, until: u64) {
    while let Some(action) = world.run(until) {
        world.act(action);
    }
}

/// All is well from now on: what is to follow is judged, and that nothing else does.
fn settle(world: &mut World, size: &Size, rng: &mut Rng) {
    let bounds = Bounds::new(size.stop);
    world.calm(WAY);
    // What was to begin anew later does so now.
    while let Some(action) = world.run(FAULTS + 50_000) {
        if matches!(action, Action::Start(_)) {
            world.act(action);
        }
    }
    expect(world, size, "calm", bounds.calm());
    for _ in 0..2 {
        world.scene.judge.quiet = true;
        play(world, world.scene.now + QUIET);
        world.scene.judge.quiet = false;
        match rng.u8(..6) {
            0 => roll(world, size, bounds, rng),
            1 => wake(world, size, bounds, rng),
            2 => disable(world, size, bounds, rng),
            3 => stick(world, size, bounds, rng),
            _ => {}
        }
        let moves = world.scene.judge.moves;
        let there = world.there().len();
        let (what, bound, action) = match rng.u64(..6) {
            0 => ("a join", bounds.join(), Action::Join),
            1 => ("a leave", bounds.leave(), Action::Leave(Whom::Other(rng.u64(..)))),
            2 => ("the leader's leave", bounds.leave(), Action::Leave(Whom::Leader)),
            3 => ("a death", bounds.death(), Action::Kill(Whom::Other(rng.u64(..)))),
            4 => ("the leader's death", bounds.leaders_death(), Action::Kill(Whom::Leader)),
            _ => ("a short visit", bounds.death() + 3_000, Action::JoinAndDie(rng.u64(..3_000))),
        };
        let visit = matches!(action, Action::JoinAndDie(_));
        let joins = usize::from(matches!(action, Action::Join | Action::JoinAndDie(_)));
        let dies = matches!(action, Action::Kill(_));
        let leader = matches!(action, Action::Kill(Whom::Leader));
        world.act(action);
        let (what, bound) = match dies && world.supervisors.tell_all {
            true => ("a death with last wills", bounds.will(leader)),
            false => (what, bound),
        };
        expect(world, size, what, bound);
        let shares = world.store.plan().map_or(0, |plan| plan.shares.len());
        // Its shares come to it, and of a visitor they go back.
        let most = if joins > 0 { shares.div_ceil(there + 1) } else { 0 };
        let moved = world.scene.judge.moves - moves;
        if size.equal && moved > most {
            let text =
                format!("{moved} shares moved after {what}, and {most} at most had to ({visit})");
            world.scene.judge.broken(world.scene.now, "S3", text);
        }
    }
}

/// All members die, a process without shares runs all of the work, and the members come back while it does.
fn roll(world: &mut World, size: &Size, bounds: Bounds, rng: &mut Rng) {
    let members = world.there();
    members.iter().for_each(|who| world.die(*who));
    if rng.bool() {
        world.store.forget();
    }
    let whole = world.join_whole();
    play(world, world.scene.now + bounds.whole());
    if world.scene.judge.worker(store::Key::Coordination, world.scene.now) != Some(whole) {
        let text = format!("{whole} does not run all of the work, and no member is left");
        world.scene.judge.broken(world.scene.now, "S2", text);
    }
    members.iter().for_each(|who| world.start(*who));
    expect(world, size, "members came back", bounds.back());
    world.act(Action::End(whole));
    expect(world, size, "it ended", bounds.calm());
}

/// The coordinator cannot write its signs, or its plans, and another member dies: a third one has to plan.
fn disable(world: &mut World, size: &Size, bounds: Bounds, rng: &mut Rng) {
    let Some(leader) = world.there().into_iter().find(|who| world.processes[*who].leads()) else {
        return;
    };
    if world.there().len() < 4 {
        world.act(Action::Join);
        play(world, world.scene.now + bounds.join());
    }
    let Some(dead) = world.act(Action::Kill(Whom::Other(rng.u64(..)))) else { return };
    let kind = match rng.bool() {
        true => network::Kind::Unsigned(vec![leader]),
        false => network::Kind::Unplanned(vec![leader]),
    };
    let until = world.scene.now + FAULTS;
    world.network.troubles.push(network::Trouble { kind, until });
    world.hindered[leader] = until;
    play(world, world.scene.now + bounds.disabled());
    let name = world.scene.roll[dead].clone();
    if world.store.plan().is_some_and(|plan| plan.names(&name)) {
        let text = format!("{name} is planned, and the coordinator could not write");
        world.scene.judge.broken(world.scene.now, "S2", text);
    }
    world.network.troubles.clear();
    world.hindered[leader] = world.scene.now;
    play(world, world.scene.now + process::OUT);
    expect(world, size, "the coordinator could write again", bounds.calm());
}

/// Another number of shares is asked for while a member cannot read the plan, and another one stands still until all is
/// split anew.
fn stick(world: &mut World, size: &Size, bounds: Bounds, rng: &mut Rng) {
    let members = world.there();
    let Some(who) = rng.choice(&members).copied() else { return };
    let frozen =
        members.iter().copied().find(|other| *other != who && !world.processes[*other].leads());
    let frozen = frozen.filter(|_| members.len() > 2);
    frozen.into_iter().for_each(|frozen| world.freeze(frozen, FAULTS));
    let until = world.scene.now + FAULTS;
    world.network.troubles.push(network::Trouble { kind: network::Kind::Unread(vec![who]), until });
    world.hindered[who] = until;
    world.act(Action::Reshare(rng.u32(4..=64)));
    // Who coordinates has to resign first.
    let leads = world.processes[who].leads();
    play(
        world,
        world.scene.now + bounds.stuck() + if leads { slow(GONE) + bounds.calm() } else { 0 },
    );
    if let Some(next) = world.store.plan().and_then(|plan| plan.next) {
        let text =
            format!("{next} shares were asked for, and {who} keeps those of the former split");
        world.scene.judge.broken(world.scene.now, "S2", text);
    }
    if let Some(frozen) = frozen {
        // It would see the plan at once: without it, it must not acquire what it held.
        let (kind, until) = (network::Kind::Unread(vec![frozen]), world.scene.now + 2_500);
        world.network.troubles.push(network::Trouble { kind, until });
        world.hindered[frozen] = until;
        world.thaw(frozen);
        play(world, world.scene.now + 5_000);
    }
    world.network.troubles.clear();
    world.hindered[who] = world.scene.now;
    expect(world, size, "the member could read the plan again", bounds.calm());
}

/// All members stand still until a process without shares is about to lead, and go on in that moment.
fn wake(world: &mut World, size: &Size, bounds: Bounds, rng: &mut Rng) {
    let members = world.there();
    members.iter().for_each(|who| world.freeze(*who, FAULTS));
    let whole = world.join_whole();
    let until = world.scene.now + bounds.whole();
    // A slow request: 200 ms each way.
    world.network.way = 200;
    let key = store::Key::Coordination;
    let wins = |world: &World| {
        world.processes[whole].candidates.get(&key).is_some_and(candidate::Candidate::wins)
    };
    while world.scene.now < until && !wins(world) {
        play(world, world.scene.now + 5);
    }
    if !wins(world) {
        let text = format!("{whole} does not contend, and all members stand still");
        world.scene.judge.broken(world.scene.now, "S2", text);
    }
    // Signs would be seen at once: each of these members has to find out by itself that it may not work.
    let (kind, until) = (network::Kind::Unsigned(members.clone()), world.scene.now + 2_000);
    world.network.troubles.push(network::Trouble { kind, until });
    for who in members {
        play(world, world.scene.now + rng.u64(..200));
        world.hindered[who] = world.scene.now;
        world.thaw(who);
    }
    play(world, world.scene.now + 2_000);
    world.network.way = WAY;
    expect(world, size, "members went on", bounds.back());
    world.act(Action::End(whole));
    expect(world, size, "it ended", bounds.calm());
}

/// S2: what should be is so within that time.
fn expect(world: &mut World, size: &Size, what: &str, bound: u64) {
    play(world, world.scene.now + bound);
    if let Err(text) = world.is_balanced(size.equal) {
        world.scene.judge.broken(world.scene.now, "S2", format!("{bound} ms after {what}: {text}"));
    }
}
