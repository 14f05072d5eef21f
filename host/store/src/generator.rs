//! Ids and ETags, generated from one seed.

use chrono::{DateTime, Utc};
use tenure_azure::LeaseId;

#[derive(Clone, Debug)]
pub(super) struct Generator {
    state: u64,
    etag: u64,
}

impl Generator {
    pub(super) fn new(seed: u64) -> Generator {
        let mut generator = Generator { state: seed, etag: 0 };
        // With another seed, a restarted service must not repeat earlier ETags.
        generator.etag = generator.next() >> 16;
        generator
    }

    /// SplitMix64: small, and sufficient for names.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a GUID: a lease id for a request without a proposal, or a request id.
    pub(super) fn guid(&mut self) -> LeaseId {
        let bytes = (u128::from(self.next()) << 64) | u128::from(self.next());
        LeaseId::from_random(bytes.to_be_bytes())
    }

    /// Returns a new quoted ETag that was never used before.
    pub(super) fn etag(&mut self) -> String {
        self.etag += 1 + (self.next() >> 48);
        format!("\"0x8D{:013X}\"", self.etag)
    }
}

/// Formats the service's time in bodies, with seven digits of a second.
pub(super) fn format_precise(time: DateTime<Utc>) -> String {
    format!("{}.{:07}Z", time.format("%Y-%m-%dT%H:%M:%S"), time.timestamp_subsec_nanos() / 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_makes_one_sequence() {
        let generate = |seed| {
            let mut generator = Generator::new(seed);
            (generator.guid().to_string(), generator.etag(), generator.etag())
        };
        assert_eq!(generate(7), generate(7));
        assert_ne!(generate(7), generate(8));
        assert_ne!(generate(7).1, generate(7).2);
    }

    #[test]
    fn times_in_bodies_have_seven_digits_of_a_second() {
        let wall = DateTime::from_timestamp(1_767_323_045, 123_456_789).unwrap();
        assert_eq!(format_precise(wall), "2026-01-02T03:04:05.1234567Z");
    }
}
