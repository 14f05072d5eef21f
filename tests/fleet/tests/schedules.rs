//! Tests members and shares in virtual time: correct code breaks no rule, and each seeded bug
//! breaks one.

use std::thread;

use tenure_fleet::campaign;
use tenure_shares::mutants::Mutant;

/// Maximum number of schedules for each bug. The slowest takes 61.
const MAX_SCHEDULES: u64 = 200;

#[test]
fn no_schedule_breaks_a_rule() {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let totals = campaign::run(0, 200, threads, None);
    assert!(totals.failures.is_empty(), "{:#?}", totals.failures);
    assert_eq!(totals.schedules, 200);
    // The schedules must be meaningful.
    assert!(totals.plan_count > 1_000 && totals.move_count > 2_000, "{totals:?}");
}

#[test]
fn every_seeded_bug_is_found_and_every_rule_is_checked() {
    let results = Mutant::ALL.map(|mutant| campaign::find_mutant(mutant, MAX_SCHEDULES));
    for result in &results {
        println!("{result}");
    }
    let missed =
        results.iter().filter(|result| result.schedules_needed.is_none()).collect::<Vec<_>>();
    assert!(missed.is_empty(), "{missed:?}");
    assert_eq!(campaign::unbroken_rules(&results), [""; 0], "no seeded bug breaks these");
}

#[test]
fn the_same_seed_gives_the_same_schedule() {
    let (first, second) = (tenure_fleet::run(7, None), tenure_fleet::run(7, None));
    assert_eq!(format!("{first:?}"), format!("{second:?}"));
    assert_ne!(
        format!("{:?}", first.requests),
        format!("{:?}", tenure_fleet::run(8, None).requests)
    );
}
