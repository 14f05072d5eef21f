//! Members and shares in virtual time: no rule is broken, and each seeded bug breaks one.

use std::thread;

use tenure_fleet::campaign;
use tenure_shares::mutants::Mutant;

/// As many schedules must suffice for each bug. The slowest takes 61.
const MOST: u64 = 200;

#[test]
fn no_schedule_breaks_a_rule() {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let totals = campaign::run(0, 200, threads, None);
    assert!(totals.failed.is_empty(), "{:#?}", totals.failed);
    assert_eq!(totals.schedules, 200);
    // They are about something.
    assert!(totals.plans > 1_000 && totals.moves > 2_000, "{totals:?}");
}

#[test]
fn every_seeded_bug_is_found_and_every_rule_is_checked() {
    let found = Mutant::ALL.map(|mutant| campaign::hunt(mutant, MOST));
    for quarry in &found {
        println!("{quarry}");
    }
    let missed = found.iter().filter(|quarry| quarry.seeds.is_none()).collect::<Vec<_>>();
    assert!(missed.is_empty(), "{missed:?}");
    assert_eq!(campaign::unbroken(&found), [""; 0], "no seeded bug breaks these");
}

#[test]
fn the_same_seed_gives_the_same_schedule() {
    let (one, other) = (tenure_fleet::run(7, None), tenure_fleet::run(7, None));
    assert_eq!(format!("{one:?}"), format!("{other:?}"));
    assert_ne!(format!("{:?}", one.requests), format!("{:?}", tenure_fleet::run(8, None).requests));
}
