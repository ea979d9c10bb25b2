//! Random numbers of a seed.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};

use trainyard_testing::Seed;

/// Returns the seed of a random test: the one that `TRAINYARD_SEED` gives, otherwise one that no run had. It is printed, with
/// the claim that it is for, so that the output of a failed test tells how to repeat it.
pub fn seed(claim: &str) -> u64 {
    // The keys of the standard library's hashes are drawn at random. Short seeds are easier to copy.
    let fresh = RandomState::new().build_hasher().finish() >> 32;
    println!("{claim}: repeat it with");
    Seed::of_environment(fresh).get()
}

/// Whether tests that draw a part of what they could try are to try all of it: `TRAINYARD_THOROUGH` is set.
pub fn is_thorough() -> bool {
    std::env::var_os("TRAINYARD_THOROUGH").is_some()
}

/// A generator (xorshift, Marsaglia 2003): small, and the same on every machine.
#[derive(Debug, Clone)]
pub struct Draw(u64);

impl Draw {
    /// Returns the generator of a random test: see [`seed`].
    pub fn seeded(claim: &str) -> Self {
        Self::new(seed(claim))
    }

    /// Returns the generator of a seed; seeds side by side give numbers that have nothing to do with each other.
    pub fn new(seed: u64) -> Self {
        let mut draw = Self(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        for _ in 0..16 {
            draw.next();
        }
        draw
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Draws a whole number from 0 to `bound` - 1; 0 where the bound is.
    pub fn below(&mut self, bound: u64) -> u64 {
        (self.next() >> 16) % bound.max(1)
    }

    /// Draws from 0 to 1, without 1.
    pub fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Draws one of some things.
    pub fn one_of<'a, T>(&mut self, things: &'a [T]) -> Option<&'a T> {
        things.get(self.below(things.len() as u64) as usize)
    }
}
