//! Candidates in virtual time, with faults that seeds choose: a bounded number of schedules.
//!
//! `cargo run -p tenure-simulation --release --bin simulate` runs any number.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread::available_parallelism;

use tenure::engine::Variables;
use tenure_clock::BootClock;
use tenure_core::Delivery;
use tenure_simulation::campaign::{self, Totals};
use tenure_simulation::fault::{Fault, Kind, Step};
use tenure_simulation::plan::{Class, Rules, SLOTS};
use tenure_simulation::trace::trace;
use tenure_simulation::{Fidelity, Options, Slots, Topic, last_run};
use tenure_wasmtime::{ElectionComponent, Engine};

pub(super) fn native() -> Options {
    Fidelity::Native.into()
}

pub(super) fn component() -> Options {
    let engine = Engine::new().unwrap().uninterrupted();
    let component = ElectionComponent::new(&engine, Variables::new(), &BootClock::new());
    Fidelity::Component(Arc::new(component.unwrap())).into()
}

/// Runs the first seeds. Fails with the trace of the first seed that has a violation.
fn run_seeds(seeds: u64, options: &Options, flag: &str) -> Totals {
    let threads = available_parallelism().map_or(1, NonZeroUsize::get);
    let totals = campaign::run(0, seeds, threads, options);
    if let Some(seed) = totals.failed_seeds.first() {
        let outcome = tenure_simulation::run(*seed, options);
        panic!(
            "{}\n{:#?}\ncargo run -p tenure-simulation --release --bin simulate -- --seed {seed}{flag}",
            trace(&outcome.history),
            outcome.violations,
        );
    }
    assert!(totals.counted() * 10 > seeds * 8, "few schedules prove anything: {totals:?}");
    assert!(totals.takeovers > totals.counted(), "{totals:?}");
    assert!(totals.slots.turns > 5 * totals.counted(), "{totals:?}");
    totals
}

#[test]
fn the_pure_core_keeps_all_invariants() {
    let totals = run_seeds(960, &native(), "");
    // Each pair occurs three times, though some faults never find their moment.
    let missing_pairs = totals.coverage.missing_pairs();
    assert!(missing_pairs.len() <= 6, "{}\nnever seen: {missing_pairs:?}", totals.coverage);
    assert!(totals.coverage.step_total(Step::SideBlob) > 150, "{}", totals.coverage);
    // Every condition occurred, and every trait made a difference.
    assert_eq!(totals.coverage.missing_names(), Vec::<&str>::new(), "{}", totals.coverage);
}

#[test]
fn the_component_keeps_all_invariants() {
    run_seeds(60, &component(), " --component");
}

#[test]
fn a_seed_is_the_same_schedule_whatever_ran_before() {
    let first_run = tenure_simulation::run(7, &native()).history;
    for seed in [3, 11] {
        assert_ne!(first_run, tenure_simulation::run(seed, &native()).history);
    }
    assert_eq!(first_run, tenure_simulation::run(7, &native()).history);
    let other_thread = std::thread::spawn(|| tenure_simulation::run(7, &native()).history);
    assert_eq!(first_run, other_thread.join().unwrap());
}

#[test]
fn a_seed_is_the_same_schedule_of_the_component() {
    let component = component();
    let first_run = tenure_simulation::run(7, &component).history;
    let _ = tenure_simulation::run(3, &component);
    assert_eq!(first_run, tenure_simulation::run(7, &component).history);
}

#[test]
fn outsiders_strike_only_where_a3_is_given_up() {
    for seed in 0..40 {
        let outcome = tenure_simulation::run(seed, &native());
        let outsider_faults = Fault::ALL
            .into_iter()
            .filter(|fault| fault.kind() == Kind::Outsider)
            .map(|fault| outcome.coverage.total(fault))
            .sum::<u64>();
        let is_sound = outcome.class == Class::Sound;
        assert!(!is_sound || outsider_faults == 0, "seed {seed}: {outsider_faults}");
    }
}

/// Runs a thousand slots, one per second, on five candidates with wrong clocks. Their leader is
/// repeatedly killed.
fn timetable(rules: Rules) -> Slots {
    let options = Options { topic: Topic::Timetable(rules), ..native() };
    let mut slots = Slots::default();
    for seed in 0..3 {
        let outcome = tenure_simulation::run(seed, &options);
        assert_eq!(outcome.violations, [], "{}\nseed {seed}", trace(&outcome.history));
        assert!(outcome.takeovers >= 10, "{}", outcome.takeovers);
        slots += outcome.slots;
    }
    slots
}

#[test]
fn at_most_once_no_slot_of_a_thousand_runs_twice() {
    let slots = timetable(Rules::default());
    assert_eq!(slots.repeated, 0, "{slots:?}");
    assert!(slots.run > 3 * 600, "{slots:?}");
}

#[test]
fn at_least_once_no_slot_of_a_thousand_is_missed() {
    let slots = timetable(Rules::at_least_once());
    assert!(slots.repeated > 10, "kills and poison have slots repeated: {slots:?}");
    // Every slot from the first to the last has a claim: the oracle checks that none between is
    // left out.
    assert!(slots.claimed > 3 * SLOTS, "{slots:?}");
}

/// Runs ten replicas that a platform calls all at once, each call a whole turn.
#[test]
fn simultaneous_invocations_run_every_slot_once() {
    for rules in [Rules::default(), Rules::at_least_once()] {
        let options = Options { topic: Topic::Invocations(rules), ..native() };
        let outcome = tenure_simulation::run(0, &options);
        assert_eq!(outcome.violations, [], "{}", trace(&outcome.history));
        let Slots { run, repeated, .. } = outcome.slots;
        let at_least_once = rules.delivery != Delivery::AtMostOnce;
        assert_eq!(repeated > 0, at_least_once, "{:?}", outcome.slots);
        // A killed invocation leaves its lease to expire, for up to a minute.
        assert!(run > SLOTS * 8 / 10, "{:?}", outcome.slots);
    }
}

/// Baseline with the same kills and freezes, and a timer that writes "last run" after the run.
///
/// The comparison is only meaningful if this timer runs slots twice.
#[test]
fn a_timer_that_writes_last_run_after_the_run_repeats_slots() {
    let mut slots = Slots::default();
    for seed in 0..10 {
        slots += last_run::run(seed);
    }
    assert!(slots.repeated > 0, "{slots:?}");
    assert!(slots.run > 10 * 600, "{slots:?}");
}
