//! Random numbers that a seed determines.

use tenure_core::Chance;

/// Small generator (SplitMix64): a seed gives the same numbers on every machine.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// Creates the generator of one `purpose`. Draws for other purposes do not affect it.
    #[must_use]
    pub fn new(seed: u64, purpose: u64) -> Self {
        let mut dice = Self(seed ^ purpose.wrapping_mul(0xd134_2543_de82_ef95));
        dice.0 = dice.bits();
        dice
    }

    /// Returns 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// Returns a uniform number from `least` to `most`, both included; `least` if it is larger.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        let bits = self.bits();
        match most.checked_sub(least) {
            Some(spread) => least + bits % (spread + 1),
            None => least,
        }
    }

    /// Returns true once in `one_in` calls on average.
    pub fn once_in(&mut self, one_in: u64) -> bool {
        self.bits().is_multiple_of(one_in)
    }

    /// Returns true in `permille` of a thousand calls on average.
    pub fn permille(&mut self, permille: u64) -> bool {
        self.bits() % 1000 < permille
    }

    /// Returns one of the choices, uniformly.
    ///
    /// # Panics
    /// If there are no choices.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        let index = self.bits() % choices.len() as u64;
        choices[usize::try_from(index).expect("less than a length")]
    }

    /// Returns one of the choices, with a probability proportional to its weight.
    ///
    /// # Panics
    /// If all weights are zero.
    pub fn weighted<T: Copy>(&mut self, choices: &[(T, u64)]) -> T {
        let mut remaining = self.bits() % choices.iter().map(|(_, weight)| weight).sum::<u64>();
        for (choice, weight) in choices {
            match remaining.checked_sub(*weight) {
                Some(next) => remaining = next,
                None => return *choice,
            }
        }
        unreachable!("less than all of them weigh")
    }
}

impl Chance for Dice {
    fn bits(&mut self) -> u64 {
        Dice::bits(self)
    }
}
