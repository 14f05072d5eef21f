//! Randomness from the host.

use core::time::Duration;

use tenure_azure::blob::LeaseId;

/// A source of random numbers. In the component, `wasi:random`; in a simulation, a seeded
/// generator.
pub trait Chance {
    /// Returns 64 uniformly random bits, from a source good enough for identifiers.
    fn bits(&mut self) -> u64;
}

/// Returns a new lease id: one per attempt to win a term, never derived from a name.
pub fn lease_id(chance: &mut dyn Chance) -> LeaseId {
    let bits = (u128::from(chance.bits()) << 64) | u128::from(chance.bits());
    LeaseId::from_random(bits.to_be_bytes())
}

/// Returns a uniformly random duration between half of `most` and `most`.
pub(crate) fn jitter(most: Duration, chance: &mut dyn Chance) -> Duration {
    let half = most / 2;
    let spread = u64::try_from((most - half).as_nanos()).unwrap_or(u64::MAX);
    half + Duration::from_nanos(chance.bits() % spread.saturating_add(1))
}
