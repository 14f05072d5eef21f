//! Every seeded bug is found by the simulation, and every invariant is broken by one of them.

use std::num::NonZeroUsize;
use std::thread;

use tenure_simulation::hunt;

/// As many schedules must suffice for each.
const MOST: u64 = 10_000;

#[test]
fn every_seeded_bug_is_found_and_every_invariant_is_checked() {
    let processors = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let found = hunt::hunt(MOST, processors, "");
    for quarry in &found {
        println!("{quarry}");
    }
    let missed: Vec<_> = found.iter().filter(|quarry| quarry.seed.is_none()).collect();
    assert!(missed.is_empty(), "{missed:?}");
    assert_eq!(hunt::unbroken(&found), [""; 0], "no seeded bug breaks these");
}
