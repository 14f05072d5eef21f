//! Tests that the pure core and the component behave the same.

use tenure_simulation::compare::first_difference;

use super::schedules::component;

#[test]
fn both_electors_do_the_same_in_the_same_world() {
    let component = component().fidelity;
    for seed in 0..20 {
        assert_eq!(first_difference(seed, &component), None, "seed {seed}");
    }
}
