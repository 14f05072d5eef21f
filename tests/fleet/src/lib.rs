//! Simulation of members and shares in virtual time (protocol.md §14).
//!
//! The shipped code decides. A seed chooses the faults of the account and the network. A checker
//! verifies the results.
//!
//! - Time has a resolution of one millisecond. Each process has its own clock, with a wrong time
//!   and a wrong rate.
//! - The seed alone determines a schedule.
//! - Elections of shares are leases with the properties that protocol.md §3, §4, §5 and §7 prove.
//!   Another simulation covers those.

#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic, reason = "only tests use this")]

pub mod campaign;
pub mod candidate;
pub mod checker;
pub mod clock;
pub mod large;
pub mod network;
pub mod process;
pub mod scenario;
pub mod store;
pub mod supervisor;
pub mod world;

use checker::Violation;
use fastrand::Rng;
use scenario::{Action, Target, ZONES};
use tenure_shares::mutants::{self, Mutant};
use world::{Event, Requests, Size, World};

/// Rules that are checked; some seeded bug must break each of them.
pub const RULES: [&str; 4] = ["S1", "S2", "S3", "S4"];

/// Result of one schedule.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Seed of the schedule.
    pub seed: u64,
    /// Rule violations.
    pub violations: Vec<Violation>,
    /// Number of plans that were written.
    pub plan_count: usize,
    /// Number of shares that moved away from present members.
    pub move_count: usize,
    /// Requests that were sent.
    pub requests: Requests,
    /// Virtual time, in milliseconds.
    pub virtual_ms: u64,
}

/// End of the faults, in milliseconds.
const FAULTS_END: u64 = 120_000;
/// Period without events, in which no share may move.
const QUIET_PERIOD: u64 = 60_000;
/// Maximum one-way latency without faults.
const MAX_LATENCY: u64 = 15;

/// Time limits without faults, in milliseconds (protocol.md §14.4).
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Time of a handover from the plan on. It is read, the successor announces itself, the work
    /// stops, and the lease is given and acquired.
    hand_over: u64,
}

const LOOK_INTERVAL: u64 = 1_000;
const GONE_AFTER: u64 = 15_000;
const ROUND_TRIP: u64 = 2 * MAX_LATENCY;

impl Bounds {
    /// Creates the limits for work with this stop duration.
    #[must_use]
    pub fn new(stop_duration: u64) -> Self {
        Self { hand_over: on_slow_clock(LOOK_INTERVAL + 3 * 500) + stop_duration + 12 * ROUND_TRIP }
    }

    /// Returns the limit after a member joined.
    #[must_use]
    pub fn after_join(self) -> u64 {
        on_slow_clock(2 * LOOK_INTERVAL) + 8 * ROUND_TRIP + self.hand_over
    }

    /// Returns the limit after a member received a request to leave.
    #[must_use]
    pub fn after_leave(self) -> u64 {
        on_slow_clock(LOOK_INTERVAL) + 8 * ROUND_TRIP + self.hand_over
    }

    /// Returns the limit after a member died that does not coordinate. A lease may end 2 s late.
    #[must_use]
    pub fn after_death(self) -> u64 {
        on_slow_clock(GONE_AFTER + 2 * LOOK_INTERVAL) + 2_000 + 8 * ROUND_TRIP + self.hand_over
    }

    /// Returns the limit after the coordinator died.
    ///
    /// Its lease ends, up to 2 s late, and another candidate polls. By then its silence is noticed;
    /// the service's dates make it uncertain by up to 2 s.
    #[must_use]
    pub fn after_coordinator_death(self) -> u64 {
        on_slow_clock(world::LEASE + 4_000 + LOOK_INTERVAL)
            + 4_000
            + 12 * ROUND_TRIP
            + self.hand_over
    }

    /// Returns the limit after a member died that left last wills.
    ///
    /// Once the wills have arrived, it counts as a leave. If the member coordinated, another
    /// candidate polls first.
    #[must_use]
    pub fn after_last_will(self, coordinator: bool) -> u64 {
        let poll = if coordinator { on_slow_clock(4_000) + 4 * ROUND_TRIP } else { 0 };
        supervisor::MAX_SEND_DELAY + MAX_LATENCY + poll + self.after_leave()
    }

    /// Returns the limit after a member died while the coordinator cannot write.
    ///
    /// The coordinator counts as gone after as long and resigns. Its successor must then observe
    /// for as long.
    #[must_use]
    pub fn after_death_without_coordinator_writes(self) -> u64 {
        on_slow_clock(2 * GONE_AFTER) + self.after_faults_end()
    }

    /// Returns the limit after all members died.
    ///
    /// Their leases end and their signs expire, and a candidate without shares polls, at most
    /// twice.
    #[must_use]
    pub fn after_full_outage(self) -> u64 {
        on_slow_clock(world::LEASE + GONE_AFTER / 2 + 3 * 4_000) + 2_000 + 12 * ROUND_TRIP
    }

    /// Returns the limit after members returned while a leader without shares runs all of the work.
    /// That leader checks for members at this interval.
    #[must_use]
    pub fn after_members_returned(self) -> u64 {
        on_slow_clock(10_000) + self.after_faults_end()
    }

    /// Returns the limit after a new split was requested while one member cannot read the plan.
    ///
    /// The coordinator waits two leases, and breaks the leases of that member. It closes the
    /// member's shares when they have expired, up to 2 s late. It works in rounds.
    #[must_use]
    pub fn after_reshare_with_stuck_member(self) -> u64 {
        on_slow_clock(3 * world::LEASE + 4 * LOOK_INTERVAL)
            + 2_000
            + 16 * ROUND_TRIP
            + self.hand_over
    }

    /// Returns the limit after all faults ended: a new coordinator observes this long before it
    /// counts a member as gone.
    #[must_use]
    pub fn after_faults_end(self) -> u64 {
        on_slow_clock(world::LEASE + 4_000) + 2_000 + self.after_death() + on_slow_clock(20_000)
    }
}

/// Returns the length of a period on a clock that is wrong by 1 %.
fn on_slow_clock(period: u64) -> u64 {
    period * 102 / 100
}

/// Runs the schedule of one seed, with the given seeded bug.
#[must_use]
pub fn run(seed: u64, mutant: Option<Mutant>) -> Outcome {
    mutants::activate(mutant);
    let mut rng = Rng::with_seed(seed);
    let equal_weights = rng.u64(..4) > 0;
    let members = rng.usize(3..=7);
    let (shares, stop_duration) = (rng.u32(8..=64), rng.u64(..=500));
    let size = Size { shares, members, stop_duration, equal_weights, mixed_paces: seed % 2 == 1 };
    let fault_interval = rng.choice([0, 1_000, 200, 50]).unwrap_or(0);
    let mut world = World::new(seed, size, rng.u64(5..=60), fault_interval);
    let has_limits = !equal_weights && rng.bool();
    for index in 0..members {
        let weight = if equal_weights || has_limits { 1 } else { rng.u32(1..=4) };
        let max_shares = has_limits.then(|| rng.u32(2..=40)).filter(|_| rng.bool());
        world.run_until(rng.u64(..=1_000) + world.scene.now);
        world.join(weight, max_shares, index % ZONES);
    }
    for (at, action) in scenario::faults(&mut rng, FAULTS_END) {
        world.schedule(at.max(world.scene.now), Event::Act(action));
    }
    run_until(&mut world, FAULTS_END);
    settle(&mut world, &size, &mut rng);
    mutants::activate(None);
    let checker = world.scene.checker;
    Outcome {
        seed,
        violations: checker.violations,
        plan_count: checker.plan_count,
        move_count: checker.move_count,
        requests: world.requests,
        virtual_ms: world.scene.now,
    }
}

fn run_until(world: &mut World, until: u64) {
    while let Some(action) = world.run_until(until) {
        world.apply(action);
    }
}

/// Ends all faults, and checks that each change has the expected result and no other.
fn settle(world: &mut World, size: &Size, rng: &mut Rng) {
    let bounds = Bounds::new(size.stop_duration);
    world.end_faults(MAX_LATENCY);
    // Delayed restarts happen now.
    while let Some(action) = world.run_until(FAULTS_END + 50_000) {
        if matches!(action, Action::Start(_)) {
            world.apply(action);
        }
    }
    expect_balanced(world, size, "calm", bounds.after_faults_end());
    for _ in 0..2 {
        world.scene.checker.expect_no_change = true;
        run_until(world, world.scene.now + QUIET_PERIOD);
        world.scene.checker.expect_no_change = false;
        match rng.u8(..6) {
            0 => replace_all_members(world, size, bounds, rng),
            1 => wake_during_takeover(world, size, bounds, rng),
            2 => block_coordinator_writes(world, size, bounds, rng),
            3 => block_plan_reads(world, size, bounds, rng),
            _ => {}
        }
        let moves = world.scene.checker.move_count;
        let member_count = world.members().len();
        let (change, bound, action) = match rng.u64(..6) {
            0 => ("a join", bounds.after_join(), Action::Join),
            1 => ("a leave", bounds.after_leave(), Action::Leave(Target::Other(rng.u64(..)))),
            2 => ("the leader's leave", bounds.after_leave(), Action::Leave(Target::Leader)),
            3 => ("a death", bounds.after_death(), Action::Kill(Target::Other(rng.u64(..)))),
            4 => (
                "the leader's death",
                bounds.after_coordinator_death(),
                Action::Kill(Target::Leader),
            ),
            _ => (
                "a short visit",
                bounds.after_death() + 3_000,
                Action::JoinAndDie(rng.u64(..3_000)),
            ),
        };
        let is_visit = matches!(action, Action::JoinAndDie(_));
        let joined = usize::from(matches!(action, Action::Join | Action::JoinAndDie(_)));
        let is_death = matches!(action, Action::Kill(_));
        let is_coordinator_death = matches!(action, Action::Kill(Target::Leader));
        world.apply(action);
        let (change, bound) = match is_death && world.supervisors.wills_were_complete {
            true => ("a death with last wills", bounds.after_last_will(is_coordinator_death)),
            false => (change, bound),
        };
        expect_balanced(world, size, change, bound);
        let shares = world.store.plan().map_or(0, |plan| plan.shares.len());
        // Shares move to a new member; those of a visitor move back.
        let move_limit = if joined > 0 { shares.div_ceil(member_count + 1) } else { 0 };
        let moved = world.scene.checker.move_count - moves;
        if size.equal_weights && moved > move_limit {
            let message = format!(
                "{moved} shares moved after {change}, and {move_limit} at most had to ({is_visit})"
            );
            world.scene.checker.add_violation(world.scene.now, "S3", message);
        }
    }
}

/// Kills all members, waits until a process without shares runs all of the work, and restarts the
/// members meanwhile.
fn replace_all_members(world: &mut World, size: &Size, bounds: Bounds, rng: &mut Rng) {
    let members = world.members();
    members.iter().for_each(|index| world.kill_process(*index));
    if rng.bool() {
        world.store.forget_coordination();
    }
    let unsharded = world.join_unsharded();
    run_until(world, world.scene.now + bounds.after_full_outage());
    if world.scene.checker.worker(store::Key::Coordination, world.scene.now) != Some(unsharded) {
        let message = format!("{unsharded} does not run all of the work, and no member is left");
        world.scene.checker.add_violation(world.scene.now, "S2", message);
    }
    members.iter().for_each(|index| world.start(*index));
    expect_balanced(world, size, "members came back", bounds.after_members_returned());
    world.apply(Action::KillProcess(unsharded));
    expect_balanced(world, size, "it ended", bounds.after_faults_end());
}

/// Prevents the coordinator from writing its signs or its plans, and kills another member: a third
/// one must plan.
fn block_coordinator_writes(world: &mut World, size: &Size, bounds: Bounds, rng: &mut Rng) {
    let Some(coordinator) =
        world.members().into_iter().find(|index| world.processes[*index].is_coordinator())
    else {
        return;
    };
    if world.members().len() < 4 {
        world.apply(Action::Join);
        run_until(world, world.scene.now + bounds.after_join());
    }
    let Some(victim) = world.apply(Action::Kill(Target::Other(rng.u64(..)))) else { return };
    let kind = match rng.bool() {
        true => network::Fault::SignsLost(vec![coordinator]),
        false => network::Fault::PlanWritesRefused(vec![coordinator]),
    };
    let until = world.scene.now + FAULTS_END;
    world.network.active_faults.push(network::ActiveFault { fault: kind, until });
    world.hindered_until[coordinator] = until;
    run_until(world, world.scene.now + bounds.after_death_without_coordinator_writes());
    let name = world.scene.names_by_index[victim].clone();
    if world.store.plan().is_some_and(|plan| plan.has_member(&name)) {
        let message = format!("{name} is planned, and the coordinator could not write");
        world.scene.checker.add_violation(world.scene.now, "S2", message);
    }
    world.network.active_faults.clear();
    world.hindered_until[coordinator] = world.scene.now;
    run_until(world, world.scene.now + process::COORDINATION_BACKOFF);
    expect_balanced(world, size, "the coordinator could write again", bounds.after_faults_end());
}

/// Requests another number of shares while one member cannot read the plan, and another one is
/// frozen until all is split again.
fn block_plan_reads(world: &mut World, size: &Size, bounds: Bounds, rng: &mut Rng) {
    let members = world.members();
    let Some(member) = rng.choice(&members).copied() else { return };
    let frozen = members
        .iter()
        .copied()
        .find(|other| *other != member && !world.processes[*other].is_coordinator());
    let frozen = frozen.filter(|_| members.len() > 2);
    frozen.into_iter().for_each(|frozen| world.freeze(frozen, FAULTS_END));
    let until = world.scene.now + FAULTS_END;
    world
        .network
        .active_faults
        .push(network::ActiveFault { fault: network::Fault::PlanReadsLost(vec![member]), until });
    world.hindered_until[member] = until;
    world.apply(Action::Reshare(rng.u32(4..=64)));
    // A coordinator must resign first.
    let is_coordinator = world.processes[member].is_coordinator();
    run_until(
        world,
        world.scene.now
            + bounds.after_reshare_with_stuck_member()
            + if is_coordinator {
                on_slow_clock(GONE_AFTER) + bounds.after_faults_end()
            } else {
                0
            },
    );
    if let Some(next) = world.store.plan().and_then(|plan| plan.next) {
        let message =
            format!("{next} shares were requested, and {member} keeps those of the former split");
        world.scene.checker.add_violation(world.scene.now, "S2", message);
    }
    if let Some(frozen) = frozen {
        // Otherwise it would read the plan immediately. Without the plan, it must not acquire its
        // former shares.
        let (kind, until) = (network::Fault::PlanReadsLost(vec![frozen]), world.scene.now + 2_500);
        world.network.active_faults.push(network::ActiveFault { fault: kind, until });
        world.hindered_until[frozen] = until;
        world.thaw(frozen);
        run_until(world, world.scene.now + 5_000);
    }
    world.network.active_faults.clear();
    world.hindered_until[member] = world.scene.now;
    expect_balanced(world, size, "the member could read the plan again", bounds.after_faults_end());
}

/// Freezes all members until a process without shares is about to lead, and resumes them in that
/// moment.
fn wake_during_takeover(world: &mut World, size: &Size, bounds: Bounds, rng: &mut Rng) {
    let members = world.members();
    members.iter().for_each(|index| world.freeze(*index, FAULTS_END));
    let unsharded = world.join_unsharded();
    let until = world.scene.now + bounds.after_full_outage();
    // A slow request: 200 ms each way.
    world.network.max_latency = 200;
    let key = store::Key::Coordination;
    let is_winning = |world: &World| {
        world.processes[unsharded]
            .candidates
            .get(&key)
            .is_some_and(candidate::Candidate::is_winning)
    };
    while world.scene.now < until && !is_winning(world) {
        run_until(world, world.scene.now + 5);
    }
    if !is_winning(world) {
        let message = format!("{unsharded} does not contend, and all members stand still");
        world.scene.checker.add_violation(world.scene.now, "S2", message);
    }
    // Otherwise the leader would see their signs immediately. Each of these members must find out
    // by itself that it may not work.
    let (kind, until) = (network::Fault::SignsLost(members.clone()), world.scene.now + 2_000);
    world.network.active_faults.push(network::ActiveFault { fault: kind, until });
    for index in members {
        run_until(world, world.scene.now + rng.u64(..200));
        world.hindered_until[index] = world.scene.now;
        world.thaw(index);
    }
    run_until(world, world.scene.now + 2_000);
    world.network.max_latency = MAX_LATENCY;
    expect_balanced(world, size, "members went on", bounds.after_members_returned());
    world.apply(Action::KillProcess(unsharded));
    expect_balanced(world, size, "it ended", bounds.after_faults_end());
}

/// Checks that the fleet is balanced within the limit (S2).
fn expect_balanced(world: &mut World, size: &Size, change: &str, bound: u64) {
    run_until(world, world.scene.now + bound);
    if let Err(message) = world.check_balanced(size.equal_weights) {
        world.scene.checker.add_violation(
            world.scene.now,
            "S2",
            format!("{bound} ms after {change}: {message}"),
        );
    }
}
