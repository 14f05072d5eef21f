//! A candidate of higher priority that does not keep the leadership.

use super::slow::World;
use super::*;

const LOW: &[(&str, &str)] = &[(variable::PRIORITY, "1")];
const HIGH: &[(&str, &str)] = &[(variable::PRIORITY, "5")];

fn leads(name: &'static str) -> impl Fn(&World) -> bool {
    move |world| world.leader() == Some(name)
}

/// The low one leads, and the high one is there.
fn world() -> World {
    let mut world = World::new(&[("low", LOW), ("high", HIGH)]);
    world.runners[1].due += seconds(20);
    assert!(world.run_until(seconds(10), leads("low")));
    world
}

impl World {
    /// The high one dies five seconds after it won, and comes back when the low one leads.
    fn dies(&mut self) {
        self.run(seconds(5));
        assert_eq!(self.leader(), Some("high"));
        let back = self.now + seconds(25);
        self.kill(1, back);
    }
}

#[test]
fn who_dies_whenever_it_leads_is_handed_the_lease_less_and_less_often() {
    let mut world = world();
    let end = world.now + seconds(3600);
    let mut handed = Vec::new();
    while world.run_until(end.saturating_sub(world.now), leads("high")) {
        handed.push(world.now);
        world.dies();
        assert!(world.run_until(seconds(25), leads("low")));
    }
    assert!((3..=8).contains(&handed.len()), "{} times: {handed:?}", handed.len());
    let told = world.problems.iter().filter(|(_, t, _)| t.detail.contains("higher priority"));
    let told: Vec<_> = told.collect();
    assert!((1..=30).contains(&told.len()), "{told:?}");
    assert!(told.iter().all(|(_, problem, _)| problem.class == ProblemClass::Order));
}

#[test]
fn who_dies_before_it_leads_is_handed_the_lease_less_and_less_often_too() {
    let mut world = world();
    let end = world.now + seconds(3600);
    let mut handed = 0;
    loop {
        let before = world.endings.len();
        let left = end.saturating_sub(world.now);
        if !world.run_until(left, |world| world.endings.len() > before) {
            break;
        }
        let (_, ending, _) = &world.endings[before];
        assert_eq!(ending.reason, EndingReason::HandedOver);
        handed += 1;
        // It was given the lease, and has not raised its term.
        let back = world.now + seconds(40);
        world.kill(1, back);
        assert!(world.run_until(seconds(40), leads("low")), "{:?}", world.problems);
    }
    assert!(world.wins.iter().all(|(name, _)| name == "low"), "{:?}", world.wins);
    assert!((3..=8).contains(&handed), "{handed} times");
    // Nobody but the one that dies waits.
    assert!(world.run_until(seconds(3_700), leads("high")), "{:?}", world.problems);
}

#[test]
fn who_leads_well_for_long_is_not_made_to_wait() {
    let mut world = world();
    for _ in 0..3 {
        assert!(world.run_until(seconds(1000), leads("high")));
        world.dies();
        assert!(world.run_until(seconds(60), leads("low")));
    }
    assert!(world.run_until(seconds(1000), leads("high")));
    world.run(seconds(900));
    let back = world.now + seconds(30);
    world.kill(1, back);
    assert!(world.run_until(seconds(60), leads("low")));
    assert!(world.run_until(seconds(120), leads("high")), "{:?}", world.problems);
}

#[test]
fn who_handed_over_on_an_order_is_not_made_to_wait() {
    let mut world = world();
    for _ in 0..4 {
        assert!(world.run_until(seconds(120), leads("high")), "{:?}", world.problems);
        world.run(seconds(5));
        world.order(1, Event::HandOver("low".into()));
        assert!(world.run_until(seconds(20), leads("low")), "{:?}", world.problems);
    }
}

#[test]
fn an_order_to_hand_over_is_carried_out_at_once() {
    let mut world = world();
    for _ in 0..3 {
        assert!(world.run_until(seconds(1000), leads("high")));
        world.dies();
        assert!(world.run_until(seconds(60), leads("low")));
    }
    world.run(seconds(5));
    world.order(0, Event::HandOver("high".into()));
    assert!(world.run_until(seconds(20), leads("high")), "{:?}", world.problems);
}
