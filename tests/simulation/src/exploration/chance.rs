//! Numbers in place of random ones.

use tenure_azure::LeaseId;
use tenure_core::Chance;

use super::time::Instant;

const DRAWS: u64 = 1 << 5;
const LIVES: u64 = 1 << 3;
const CANDIDATES: u64 = 1 << 2;

/// Numbers below 2^20 that differ and tell who drew them: in nanoseconds they hardly move a pause,
/// and a lease id tells whose it is.
pub struct Draws<'a> {
    pub candidate: usize,
    pub life: u8,
    pub now: Instant,
    /// How many were drawn at this instant.
    pub drawn: &'a mut u8,
}

impl Chance for Draws<'_> {
    fn bits(&mut self) -> u64 {
        let number = u64::from(*self.drawn);
        assert!(number < DRAWS, "too many random numbers at one instant");
        *self.drawn += 1;
        let owner = owner(self.candidate, self.life);
        (u64::from(self.now) * LIVES * CANDIDATES + owner) * DRAWS + number
    }
}

/// Whether this life of this candidate made up the lease id.
pub fn owns(candidate: usize, life: u8, lease: LeaseId) -> bool {
    let lease = lease.to_string();
    let bits = u64::from_str_radix(&lease[lease.len() - 8..], 16);
    bits.is_ok_and(|bits| bits / DRAWS % (LIVES * CANDIDATES) == owner(candidate, life))
}

fn owner(candidate: usize, life: u8) -> u64 {
    assert!(u64::from(life) < LIVES, "too many lives");
    candidate as u64 * LIVES + u64::from(life)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lease_ids_differ_and_tell_whose_they_are() {
        let mut ids = std::collections::BTreeSet::new();
        for (candidate, life, now) in [(0, 0, 0), (1, 0, 0), (0, 1, 0), (2, 3, 47)] {
            let mut drawn = 0;
            for _ in 0..3 {
                let mut draws = Draws { candidate, life, now, drawn: &mut drawn };
                let bits = (u128::from(draws.bits()) << 64) | u128::from(draws.bits());
                let id = LeaseId::from_random(bits.to_be_bytes());
                assert!(owns(candidate, life, id), "{id}");
                assert!(!owns(candidate, life + 1, id), "{id}");
                assert!(!owns(candidate + 1, life, id), "{id}");
                ids.insert(id.to_string());
            }
        }
        assert_eq!(ids.len(), 12);
    }
}
