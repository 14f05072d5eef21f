//! Deterministic numbers in place of random ones.

use tenure_azure::LeaseId;
use tenure_core::Chance;

use super::time::Instant;

const DRAWS_PER_INSTANT: u64 = 1 << 5;
const MAX_LIVES: u64 = 1 << 3;
const MAX_CANDIDATES: u64 = 1 << 2;

/// Distinct numbers below 2^20 that identify the process that drew them.
///
/// In nanoseconds they hardly change a pause, and in a lease id they identify its owner.
pub struct Draws<'a> {
    pub candidate: usize,
    pub life: u8,
    pub now: Instant,
    /// Number of draws at this instant.
    pub draw_count: &'a mut u8,
}

impl Chance for Draws<'_> {
    fn bits(&mut self) -> u64 {
        let number = u64::from(*self.draw_count);
        assert!(number < DRAWS_PER_INSTANT, "too many random numbers at one instant");
        *self.draw_count += 1;
        let owner = owner(self.candidate, self.life);
        (u64::from(self.now) * MAX_LIVES * MAX_CANDIDATES + owner) * DRAWS_PER_INSTANT + number
    }
}

/// Returns true if this life of this candidate generated the lease id.
pub fn created_lease(candidate: usize, life: u8, lease: LeaseId) -> bool {
    let lease = lease.to_string();
    let bits = u64::from_str_radix(&lease[lease.len() - 8..], 16);
    bits.is_ok_and(|bits| {
        bits / DRAWS_PER_INSTANT % (MAX_LIVES * MAX_CANDIDATES) == owner(candidate, life)
    })
}

fn owner(candidate: usize, life: u8) -> u64 {
    assert!(u64::from(life) < MAX_LIVES, "too many lives");
    candidate as u64 * MAX_LIVES + u64::from(life)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lease_ids_differ_and_identify_their_candidate() {
        let mut ids = std::collections::BTreeSet::new();
        for (candidate, life, now) in [(0, 0, 0), (1, 0, 0), (0, 1, 0), (2, 3, 47)] {
            let mut drawn = 0;
            for _ in 0..3 {
                let mut draws = Draws { candidate, life, now, draw_count: &mut drawn };
                let bits = (u128::from(draws.bits()) << 64) | u128::from(draws.bits());
                let id = LeaseId::from_random(bits.to_be_bytes());
                assert!(created_lease(candidate, life, id), "{id}");
                assert!(!created_lease(candidate, life + 1, id), "{id}");
                assert!(!created_lease(candidate + 1, life, id), "{id}");
                ids.insert(id.to_string());
            }
        }
        assert_eq!(ids.len(), 12);
    }
}
