//! One large fleet, and its figures.

use std::process::ExitCode;

use crate::network::Kind;
use crate::scenario::{Action, Whom, ZONES};
use crate::world::{Requests, Size, World};

/// Within so many milliseconds it is to be balanced.
const MOST: u64 = 300_000;

/// Runs a fleet through joins, deaths, the loss of a zone and an account that throttles, and prints what that took.
#[must_use]
pub fn run(seed: u64, members: usize, shares: u32) -> ExitCode {
    let size = Size { shares, members, stop: 200, equal: true, mixed: false };
    let mut fleet = Fleet { world: World::new(seed, size, 15, 0), failed: false };
    println!(
        "{:<34} {:>9} {:>6} {:>7} {:>10} {:>9}",
        "", "balanced", "plans", "moves", "requests/s", "plan, KB"
    );
    for who in 0..members {
        fleet.world.run(10_000 * who as u64 / members as u64);
        fleet.world.join(1, None, who % ZONES);
    }
    fleet.measure(&format!("{members} members begin within 10 s"));
    fleet.quiet();
    fleet.world.act(Action::Join);
    fleet.measure("one joins");
    fleet.world.act(Action::Leave(Whom::Other(7)));
    fleet.measure("one is told to leave");
    fleet.world.act(Action::Leave(Whom::Leader));
    fleet.measure("the coordinator leaves");
    fleet.world.act(Action::Kill(Whom::Other(7)));
    fleet.measure("one dies");
    fleet.world.act(Action::Kill(Whom::Leader));
    fleet.measure("the coordinator dies");
    for _ in 0..members / 10 {
        fleet.world.act(Action::Join);
    }
    fleet.measure("a tenth more join at once");
    fleet.world.act(Action::ZoneDies(0, None));
    fleet.measure("a zone of three dies");
    fleet.world.act(Action::Trouble(Kind::Throttled(500), 60_000));
    fleet.world.act(Action::Join);
    fleet.measure("one joins, half is throttled");
    fleet.world.act(Action::Reshare(shares * 2));
    fleet.measure("twice as many shares");
    for violation in fleet.world.scene.judge.violations.iter().take(10) {
        println!("{:>8} ms  {}  {}", violation.at, violation.rule, violation.text);
    }
    ExitCode::from(u8::from(fleet.failed || !fleet.world.scene.judge.violations.is_empty()))
}

struct Fleet {
    world: World,
    failed: bool,
}

impl Fleet {
    /// Goes on until all is as it should be, and prints what that took.
    fn measure(&mut self, what: &str) {
        let world = &mut self.world;
        let (began, sent) = (world.scene.now, world.requests.all());
        let (plans, moves) = (world.scene.judge.written, world.scene.judge.moves);
        // Something has to happen first.
        let mut balanced = None;
        while world.scene.now < began + MOST && balanced.is_none() {
            play(world, 250);
            if world.is_balanced(true).is_ok() && world.scene.judge.written > plans {
                balanced = Some(world.scene.now - began);
            }
        }
        let took = (world.scene.now - began).max(1);
        let took_text =
            balanced.map_or("never".to_owned(), |took| format!("{:.1} s", took as f64 / 1_000.0));
        let plan =
            world.store.plan().and_then(|plan| serde_json::to_vec(plan).ok()).unwrap_or_default();
        println!(
            "{what:<34} {took_text:>9} {:>6} {:>7} {:>10} {:>9}",
            world.scene.judge.written - plans,
            world.scene.judge.moves - moves,
            (world.requests.all() - sent) * 1_000 / took,
            plan.len() / 1_000,
        );
        if let (None, Err(text)) = (balanced, world.is_balanced(true)) {
            println!("  {text}");
        }
        self.failed |= balanced.is_none();
        play(world, 30_000);
    }

    /// Ten minutes in which nothing happens, and what they cost.
    fn quiet(&mut self) {
        let world = &mut self.world;
        world.requests = Requests::default();
        world.scene.judge.quiet = true;
        play(world, 600_000);
        world.scene.judge.quiet = false;
        let minute = |requests: u64| requests / 10;
        let requests = world.requests;
        println!(
            "ten quiet minutes, requests a minute: signs {}, reads of the plan {}, lists {}, renewals {}, others {}",
            minute(requests.signs),
            minute(requests.reads),
            minute(requests.lists),
            minute(requests.renewals),
            minute(requests.elections + requests.others),
        );
    }
}

fn play(world: &mut World, long: u64) {
    let until = world.scene.now + long;
    while let Some(action) = world.run(until) {
        world.act(action);
    }
}
