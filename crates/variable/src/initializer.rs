//! First values of a variable.

use std::ops::Range;

use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::fingerprint::Fingerprint;

/// How a variable gets its first values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Initializer {
    /// All zero.
    Zeros,
    /// All `value`.
    Constant {
        /// The value.
        value: f32,
    },
    /// Uniform in ±√(6 / (fan_in + fan_out)), fans from the first and last dimension (`tf.keras.initializers.GlorotUniform`).
    GlorotUniform,
    /// Normal, redrawn beyond two standard deviations (`tf.keras.initializers.TruncatedNormal`).
    TruncatedNormal {
        /// Standard deviation before truncation.
        stddev: f32,
    },
    /// Uniform in `[low, high)`.
    Uniform {
        /// Lower bound, included.
        low: f32,
        /// Upper bound, excluded.
        high: f32,
    },
}

impl Initializer {
    /// Writes the first values of `rows` of a variable into `out`, row-major.
    ///
    /// They are a function of seed, name and row alone, so that the slices of a variable hold what the whole would,
    /// whatever the number of parameter servers.
    ///
    /// # Panics
    /// `out` is not as long as the rows.
    pub fn fill(&self, seed: u64, name: &str, shape: &[usize], rows: Range<usize>, out: &mut [f32]) {
        let width = shape.iter().skip(1).product::<usize>();
        assert_eq!(out.len(), rows.len() * width, "an initializer fills whole rows");
        let streams = rows.map(|row| row as u64);
        self.fill_streams(&mut Self::random(seed, name), shape, streams, out);
    }

    /// Returns the generator of a variable's values. Each row has a stream of it to itself.
    pub(crate) fn random(seed: u64, name: &str) -> ChaCha8Rng {
        let mut key = Fingerprint::new();
        key.write_u64(seed);
        key.write(name.as_bytes());
        ChaCha8Rng::seed_from_u64(key.finish())
    }

    /// Writes a row for each of `streams` into `out`.
    pub(crate) fn fill_streams(
        &self,
        random: &mut ChaCha8Rng,
        shape: &[usize],
        streams: impl Iterator<Item = u64>,
        out: &mut [f32],
    ) {
        let width = shape.iter().skip(1).product::<usize>();
        match *self {
            Self::Zeros => out.fill(0.0),
            Self::Constant { value } => out.fill(value),
            Self::Uniform { low, high } => {
                draw(random, streams, width, out, |random, _| low + (high - low) * unit(random));
            }
            Self::GlorotUniform => {
                let limit = (6.0 / fans(shape)).sqrt();
                draw(random, streams, width, out, |random, _| limit * (2.0 * unit(random) - 1.0));
            }
            Self::TruncatedNormal { stddev } => {
                let mut spare = None;
                draw(random, streams, width, out, |random, first| {
                    if first {
                        spare = None;
                    }
                    stddev * spare.take().unwrap_or_else(|| truncated_normal(random, &mut spare))
                });
            }
        }
    }
}

/// Sum of fan-in and fan-out (`tf.keras.initializers`, `_compute_fans`).
fn fans(shape: &[usize]) -> f32 {
    match *shape {
        [] => 2.0,
        [length] => 2.0 * length as f32,
        [.., fan_in, fan_out] => {
            let field: usize = shape[..shape.len() - 2].iter().product();
            (field * (fan_in + fan_out)) as f32
        }
    }
}

fn draw(
    random: &mut ChaCha8Rng,
    streams: impl Iterator<Item = u64>,
    width: usize,
    out: &mut [f32],
    mut value: impl FnMut(&mut ChaCha8Rng, bool) -> f32,
) {
    if width == 0 {
        return;
    }
    for (stream, values) in streams.zip(out.chunks_exact_mut(width)) {
        random.set_stream(stream);
        random.set_word_pos(0);
        values.iter_mut().enumerate().for_each(|(place, slot)| *slot = value(random, place == 0));
    }
}

/// Uniform in [0, 1), 24 bits.
fn unit(random: &mut ChaCha8Rng) -> f32 {
    (random.next_u32() >> 8) as f32 / (1 << 24) as f32
}

/// Standard normal by the polar method, redrawn beyond ±2. The method gives two: the other, where it may be used, is
/// left in `spare`.
fn truncated_normal(random: &mut ChaCha8Rng, spare: &mut Option<f32>) -> f32 {
    loop {
        let (x, y) = (2.0 * unit(random) - 1.0, 2.0 * unit(random) - 1.0);
        let square = x * x + y * y;
        if square > 0.0 && square < 1.0 {
            let scale = (-2.0 * square.ln() / square).sqrt();
            let mut normals = [x * scale, y * scale].into_iter().filter(|normal| normal.abs() <= 2.0);
            if let Some(normal) = normals.next() {
                *spare = normals.next();
                return normal;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_holds_what_the_whole_holds() {
        for initializer in [
            Initializer::GlorotUniform,
            Initializer::TruncatedNormal { stddev: 0.25 },
            Initializer::Uniform { low: -1.0, high: 3.0 },
            Initializer::Constant { value: 2.5 },
        ] {
            let mut whole = vec![0.0; 100 * 7];
            initializer.fill(3, "table", &[100, 7], 0..100, &mut whole);
            let mut part = vec![0.0; 40 * 7];
            initializer.fill(3, "table", &[100, 7], 37..77, &mut part);
            assert_eq!(part, whole[37 * 7..77 * 7], "{initializer:?}");
        }
    }

    #[test]
    fn values_have_the_promised_spread() {
        let mut values = vec![0.0; 200_000];
        Initializer::TruncatedNormal { stddev: 0.5 }.fill(1, "t", &[12_500, 16], 0..12_500, &mut values);
        let mean = values.iter().sum::<f32>() / values.len() as f32;
        let deviation = (values.iter().map(|value| value * value).sum::<f32>() / values.len() as f32).sqrt();
        assert!(values.iter().all(|value| value.abs() <= 1.0));
        // A normal cut at two standard deviations keeps 0.8796 of its spread.
        assert!(
            mean.abs() < 0.005 && (deviation - 0.4398).abs() < 0.005,
            "mean {mean}, deviation {deviation}"
        );
        Initializer::GlorotUniform.fill(1, "k", &[500, 400], 0..500, &mut values);
        let limit = (6.0_f32 / 900.0).sqrt();
        let most = values.iter().fold(0.0_f32, |most, value| most.max(value.abs()));
        assert!(most <= limit && most > 0.99 * limit, "{most} of {limit}");
    }

    #[test]
    fn names_and_seeds_give_other_values() {
        let mut values = [[0.0; 4]; 3];
        for ((seed, name), out) in [(1, "a"), (2, "a"), (1, "b")].into_iter().zip(&mut values) {
            Initializer::GlorotUniform.fill(seed, name, &[4], 0..4, out);
        }
        assert!(values[0] != values[1] && values[0] != values[2]);
    }
}
