//! Tests that the simulation detects every seeded bug, and that some bug breaks each invariant.

use std::num::NonZeroUsize;
use std::thread;

use tenure_simulation::hunt;

/// Maximum number of schedules for each bug.
const MAX_SCHEDULES: u64 = 10_000;

#[test]
fn every_seeded_bug_is_found_and_every_invariant_is_checked() {
    let processors = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let results = hunt::find_mutants(MAX_SCHEDULES, processors, "");
    for result in &results {
        println!("{result}");
    }
    let missed: Vec<_> = results.iter().filter(|result| result.seed.is_none()).collect();
    assert!(missed.is_empty(), "{missed:?}");
    assert_eq!(hunt::unbroken_invariants(&results), [""; 0], "no seeded bug breaks these");
}
