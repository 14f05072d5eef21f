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
use tenure_simulation::{About, Fidelity, Options, Slots, last_run};
use tenure_wasmtime::{ElectionComponent, Engine};

pub(super) fn native() -> Options {
    Fidelity::Native.into()
}

pub(super) fn component() -> Options {
    let engine = Engine::new().unwrap().uninterrupted();
    let component = ElectionComponent::new(&engine, Variables::new(), &BootClock::new());
    Fidelity::Component(Arc::new(component.unwrap())).into()
}

/// Runs the first seeds. The first one that fails is told with its trace.
fn judge(seeds: u64, options: &Options, flag: &str) -> Totals {
    let threads = available_parallelism().map_or(1, NonZeroUsize::get);
    let totals = campaign::run(0, seeds, threads, options);
    if let Some(seed) = totals.failed.first() {
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
    let totals = judge(960, &native(), "");
    // All pairs come three times, though not each of them finds its moment.
    let empty = totals.coverage.empty();
    assert!(empty.len() <= 6, "{}\nnever seen: {empty:?}", totals.coverage);
    assert!(totals.coverage.at(Step::SideBlob) > 150, "{}", totals.coverage);
    // What lasts, and what schedules are like, made a difference.
    assert_eq!(totals.coverage.missing(), Vec::<&str>::new(), "{}", totals.coverage);
}

#[test]
fn the_component_keeps_all_invariants() {
    judge(60, &component(), " --component");
}

#[test]
fn a_seed_is_the_same_schedule_whatever_ran_before() {
    let alone = tenure_simulation::run(7, &native()).history;
    for seed in [3, 11] {
        assert_ne!(alone, tenure_simulation::run(seed, &native()).history);
    }
    assert_eq!(alone, tenure_simulation::run(7, &native()).history);
    let elsewhere = std::thread::spawn(|| tenure_simulation::run(7, &native()).history);
    assert_eq!(alone, elsewhere.join().unwrap());
}

#[test]
fn a_seed_is_the_same_schedule_of_the_component() {
    let component = component();
    let alone = tenure_simulation::run(7, &component).history;
    let _ = tenure_simulation::run(3, &component);
    assert_eq!(alone, tenure_simulation::run(7, &component).history);
}

#[test]
fn outsiders_strike_only_where_a3_is_given_up() {
    for seed in 0..40 {
        let outcome = tenure_simulation::run(seed, &native());
        let outsiders = Fault::ALL
            .into_iter()
            .filter(|fault| fault.kind() == Kind::Outsider)
            .map(|fault| outcome.coverage.total(fault))
            .sum::<u64>();
        let sound = outcome.class == Class::Sound;
        assert!(!sound || outsiders == 0, "seed {seed}: {outsiders}");
    }
}

/// A thousand slots, one each second, over five candidates with wrong clocks, whose leader is
/// killed again and again.
fn timetable(rules: Rules) -> Slots {
    let options = Options { about: About::Timetable(rules), ..native() };
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
fn at_least_once_no_slot_of_a_thousand_is_left() {
    let slots = timetable(Rules::at_least_once());
    assert!(slots.repeated > 10, "kills and poison have slots repeated: {slots:?}");
    // Every one has a claim from the first to the last: that none is left out in between, the
    // oracle sees.
    assert!(slots.claimed > 3 * SLOTS, "{slots:?}");
}

/// Ten replicas that a platform calls all at once, each call a whole turn.
#[test]
fn invocations_at_once_run_no_slot_twice_and_leave_none() {
    for rules in [Rules::default(), Rules::at_least_once()] {
        let options = Options { about: About::Invocations(rules), ..native() };
        let outcome = tenure_simulation::run(0, &options);
        assert_eq!(outcome.violations, [], "{}", trace(&outcome.history));
        let Slots { run, repeated, .. } = outcome.slots;
        let at_least_once = rules.delivery != Delivery::AtMostOnce;
        assert_eq!(repeated > 0, at_least_once, "{:?}", outcome.slots);
        // A killed invocation leaves its lease to run out, for up to a minute.
        assert!(run > SLOTS * 8 / 10, "{:?}", outcome.slots);
    }
}

/// The same kills and freezes, and a timer that writes "last run" after the run: the comparison
/// would tell nothing if it did not run slots twice.
#[test]
fn a_timer_that_writes_last_run_after_the_run_repeats_slots() {
    let mut slots = Slots::default();
    for seed in 0..10 {
        slots += last_run::run(seed);
    }
    assert!(slots.repeated > 0, "{slots:?}");
    assert!(slots.run > 10 * 600, "{slots:?}");
}
