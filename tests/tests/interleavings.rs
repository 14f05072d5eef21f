//! Candidates and the store in virtual time: the pure core against the pure state machine of the
//! service, with losses, delays, freezes, crashes and outsiders chosen by a seed.
//!
//! The oracle looks at what handlers did and at the order of the wins, never at what
//! a candidate believes.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "virtual_time/candidate.rs"]
mod candidate;
#[path = "virtual_time/world.rs"]
mod world;

use world::{Faults, World};

const SCHEDULES: u64 = 1_000;

/// Runs `SCHEDULES` seeds; `TENURE_SEED` runs just that one and tells its trace.
fn schedules(faults: Faults) {
    if let Ok(seed) = std::env::var("TENURE_SEED") {
        let mut world = World::new(seed.parse().unwrap(), faults);
        world.run();
        println!("{}", world.trace());
        world.judge().unwrap();
        return;
    }
    let mut seen = world::Seen::default();
    for seed in 0..SCHEDULES {
        let mut world = World::new(seed, faults);
        world.run();
        if let Err(problem) = world.judge() {
            panic!("{problem}\nTENURE_SEED={seed} shows the trace of this schedule");
        }
        seen.add(&world);
    }
    println!("{seen:?}");
    assert!(seen.wins > 2 * SCHEDULES, "schedules without take-overs prove little: {seen:?}");
    assert!(seen.turns > 20 * SCHEDULES, "{seen:?}");
    assert!(seen.lost_tenancies > SCHEDULES / 10, "{seen:?}");
}

#[test]
fn handlers_of_two_terms_never_overlap() {
    schedules(Faults { outsider: false });
}

#[test]
fn an_outsider_costs_a_bounded_overlap_and_terms_still_rise() {
    schedules(Faults { outsider: true });
}
