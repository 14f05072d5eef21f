//! Measurement of one large fleet.

use std::process::ExitCode;

use crate::network::Fault;
use crate::scenario::{Action, Target, ZONES};
use crate::world::{Requests, Size, World};

/// Maximum time until the fleet is balanced, in milliseconds.
const MAX_BALANCE_TIME: u64 = 300_000;

/// Runs a fleet through joins, deaths, the loss of a zone and a throttling account, and prints the
/// time and requests that each took.
#[must_use]
pub fn run(seed: u64, members: usize, shares: u32) -> ExitCode {
    let size =
        Size { shares, members, stop_duration: 200, equal_weights: true, mixed_paces: false };
    let mut fleet = Fleet { world: World::new(seed, size, 15, 0), failed: false };
    println!(
        "{:<34} {:>9} {:>6} {:>7} {:>10} {:>9}",
        "", "balanced", "plans", "moves", "requests/s", "plan, KB"
    );
    for index in 0..members {
        fleet.world.run_until(10_000 * index as u64 / members as u64);
        fleet.world.join(1, None, index % ZONES);
    }
    fleet.measure(&format!("{members} members begin within 10 s"));
    fleet.measure_quiet();
    fleet.world.apply(Action::Join);
    fleet.measure("one joins");
    fleet.world.apply(Action::Leave(Target::Other(7)));
    fleet.measure("one member leaves");
    fleet.world.apply(Action::Leave(Target::Leader));
    fleet.measure("the coordinator leaves");
    fleet.world.apply(Action::Kill(Target::Other(7)));
    fleet.measure("one dies");
    fleet.world.apply(Action::Kill(Target::Leader));
    fleet.measure("the coordinator dies");
    for _ in 0..members / 10 {
        fleet.world.apply(Action::Join);
    }
    fleet.measure("a tenth more join at once");
    fleet.world.apply(Action::ZoneDies(0, None));
    fleet.measure("a zone of three dies");
    fleet.world.apply(Action::Trouble(Fault::Throttled(500), 60_000));
    fleet.world.apply(Action::Join);
    fleet.measure("one joins, half is throttled");
    fleet.world.apply(Action::Reshare(shares * 2));
    fleet.measure("twice as many shares");
    for violation in fleet.world.scene.checker.violations.iter().take(10) {
        println!("{:>8} ms  {}  {}", violation.at, violation.rule, violation.message);
    }
    ExitCode::from(u8::from(fleet.failed || !fleet.world.scene.checker.violations.is_empty()))
}

struct Fleet {
    world: World,
    failed: bool,
}

impl Fleet {
    /// Runs until the fleet is balanced, and prints the time and requests that it took.
    fn measure(&mut self, label: &str) {
        let world = &mut self.world;
        let (started_at, sent) = (world.scene.now, world.requests.total());
        let (plans, moves) = (world.scene.checker.plan_count, world.scene.checker.move_count);
        // A change must happen first.
        let mut balanced = None;
        while world.scene.now < started_at + MAX_BALANCE_TIME && balanced.is_none() {
            run_for(world, 250);
            if world.check_balanced(true).is_ok() && world.scene.checker.plan_count > plans {
                balanced = Some(world.scene.now - started_at);
            }
        }
        let elapsed = (world.scene.now - started_at).max(1);
        let elapsed_text = balanced
            .map_or("never".to_owned(), |elapsed| format!("{:.1} s", elapsed as f64 / 1_000.0));
        let plan =
            world.store.plan().and_then(|plan| serde_json::to_vec(plan).ok()).unwrap_or_default();
        println!(
            "{label:<34} {elapsed_text:>9} {:>6} {:>7} {:>10} {:>9}",
            world.scene.checker.plan_count - plans,
            world.scene.checker.move_count - moves,
            (world.requests.total() - sent) * 1_000 / elapsed,
            plan.len() / 1_000,
        );
        if let (None, Err(message)) = (balanced, world.check_balanced(true)) {
            println!("  {message}");
        }
        self.failed |= balanced.is_none();
        run_for(world, 30_000);
    }

    /// Runs ten minutes without an event, and prints their requests.
    fn measure_quiet(&mut self) {
        let world = &mut self.world;
        world.requests = Requests::default();
        world.scene.checker.expect_no_change = true;
        run_for(world, 600_000);
        world.scene.checker.expect_no_change = false;
        let per_minute = |requests: u64| requests / 10;
        let requests = world.requests;
        println!(
            "ten quiet minutes, requests a minute: signs {}, reads of the plan {}, lists {}, renewals {}, others {}",
            per_minute(requests.signs),
            per_minute(requests.reads),
            per_minute(requests.lists),
            per_minute(requests.renewals),
            per_minute(requests.other_election_requests + requests.other_share_requests),
        );
    }
}

fn run_for(world: &mut World, duration: u64) {
    let until = world.scene.now + duration;
    while let Some(action) = world.run_until(until) {
        world.apply(action);
    }
}
