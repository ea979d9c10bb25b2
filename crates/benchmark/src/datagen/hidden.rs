//! The hidden parameters of synthetic labels: a standard normal per id, and ids with the frequencies of words.

use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

/// Returns the random source of one record. It depends on the number of the record alone, not on the division into
/// files.
pub(crate) fn record(seed: u64, row: u64) -> ChaCha8Rng {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(row);
    random
}

/// Returns a uniform draw from (0, 1).
pub(crate) fn uniform(random: &mut ChaCha8Rng) -> f64 {
    (f64::from(random.next_u32()) + 0.5) / 4_294_967_296.0
}

/// Returns a standard normal draw (Box and Muller 1958).
pub(crate) fn normal(random: &mut ChaCha8Rng) -> f64 {
    let a = uniform(random);
    let b = uniform(random);
    (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
}

/// Returns a Zipf-like id below `count`. Id 0 is the most frequent (the continuous power law, inverted).
pub(crate) fn zipf(random: &mut ChaCha8Rng, count: u64, exponent: f64) -> u64 {
    let power = 1.0 - exponent;
    let x = (((count as f64 + 1.0).powf(power) - 1.0) * uniform(random) + 1.0).powf(1.0 / power);
    (x as u64).saturating_sub(1).min(count - 1)
}

/// Mixes the bits of a number (the finaliser of SplitMix64; Steele, Lea and Flood 2014).
pub(crate) fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// Returns the hidden standard normal of an id, a function of (id, salt) alone.
pub(crate) fn hidden(id: u64, salt: u64) -> f64 {
    let bits = mix(id
        .wrapping_mul(0x0100_0000_01b3)
        .wrapping_add(salt * 7919 + 13));
    let a = ((bits >> 40) as f64 + 0.5) / f64::from(1 << 24);
    let b = ((bits & 0xff_ffff) as f64 + 0.5) / f64::from(1 << 24);
    (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
}
