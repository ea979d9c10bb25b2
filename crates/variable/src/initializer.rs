//! The initial values of a variable.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use trainyard_tensor::vectorize;

use crate::fingerprint::Fingerprint;
use crate::logarithm::ln;
use crate::streams::{BLOCK, LANES, Streams};

/// The rule for the initial values of a variable.
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
    /// Uniform in ±√(6 / (fan_in + fan_out)), fans from the first and last dimension
    /// (`tf.keras.initializers.GlorotUniform`).
    GlorotUniform,
    /// Normal (`tf.keras.initializers.RandomNormal`).
    Normal {
        /// Standard deviation.
        stddev: f32,
    },
    /// Normal, redrawn beyond two standard deviations, so that the values have the deviation √(2 / fan_in); fan_in from the
    /// first dimension (`tf.keras.initializers.HeNormal`; He et al., 2015).
    HeNormal,
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

/// Standard deviations at which a truncated normal distribution ends.
const TRUNCATED_AT: f32 = 2.0;
/// Standard deviation of a normal distribution that is truncated at two standard deviations.
const TRUNCATED_STDDEV: f32 = 0.879_625_7;

impl Initializer {
    /// Writes the initial values of `rows` of a variable into `out`, row-major.
    ///
    /// They are a function of seed, name and row alone, so that the slices of a variable hold the same values as the
    /// whole variable, whatever the number of parameter servers.
    ///
    /// # Panics
    /// `out` is not as long as the rows.
    pub fn fill(
        &self,
        seed: u64,
        name: &str,
        shape: &[usize],
        rows: Range<usize>,
        out: &mut [f32],
    ) {
        let width = shape.iter().skip(1).product::<usize>();
        assert_eq!(
            out.len(),
            rows.len() * width,
            "an initializer fills whole rows"
        );
        self.fill_streams(
            &Self::random(seed, name),
            shape,
            rows.map(|row| row as u64),
            out,
        );
    }

    /// Returns the generator of a variable's values. Each row has a stream of its own.
    pub(crate) fn random(seed: u64, name: &str) -> Streams {
        let mut key = Fingerprint::new();
        key.write_u64(seed);
        key.write(name.as_bytes());
        Streams::new(key.finish())
    }

    /// Writes a row for each of `streams` into `out`.
    pub(crate) fn fill_streams(
        &self,
        random: &Streams,
        shape: &[usize],
        mut streams: impl Iterator<Item = u64>,
        out: &mut [f32],
    ) {
        let width = shape.iter().skip(1).product::<usize>();
        let drawn = match *self {
            Self::Zeros => return out.fill(0.0),
            Self::Constant { value } => return out.fill(value),
            Self::Uniform { low, high } => Drawn::Uniform {
                low,
                span: high - low,
            },
            Self::GlorotUniform => Drawn::Limit((6.0 / fans(shape)).sqrt()),
            Self::Normal { stddev } => Drawn::Normal {
                stddev,
                most: f32::INFINITY,
            },
            Self::HeNormal => Drawn::Normal {
                stddev: (2.0 / fan_in(shape)).sqrt() / TRUNCATED_STDDEV,
                most: TRUNCATED_AT,
            },
            Self::TruncatedNormal { stddev } => Drawn::Normal {
                stddev,
                most: TRUNCATED_AT,
            },
        };
        if width == 0 {
            return;
        }
        vectorize(
            #[inline(always)]
            || {
                let mut rows = out.chunks_exact_mut(LANES * width);
                for rows in &mut rows {
                    drawn.fill::<LANES>(random, &mut streams, width, rows);
                }
                rows.into_remainder()
                    .chunks_exact_mut(width)
                    .for_each(|row| drawn.fill::<1>(random, &mut streams, width, row));
            },
        );
    }
}

/// The distribution from which values are drawn.
#[derive(Clone, Copy)]
enum Drawn {
    Uniform {
        low: f32,
        span: f32,
    },
    /// Uniform between the negative and the positive limit.
    Limit(f32),
    /// Normal. Values beyond `most` standard deviations are drawn again.
    Normal {
        stddev: f32,
        most: f32,
    },
}

impl Drawn {
    /// Writes a row for each of the next `L` streams.
    #[inline(always)]
    fn fill<const L: usize>(
        self,
        random: &Streams,
        streams: &mut impl Iterator<Item = u64>,
        width: usize,
        out: &mut [f32],
    ) {
        let mut lanes = [0; L];
        lanes
            .iter_mut()
            .zip(streams)
            .for_each(|(lane, stream)| *lane = stream);
        match self {
            Self::Normal { stddev, most } => normal(random, &lanes, width, (stddev, most), out),
            Self::Uniform { low, span } => uniform(
                random,
                &lanes,
                width,
                out,
                #[inline(always)]
                |unit| low + span * unit,
            ),
            Self::Limit(limit) => uniform(
                random,
                &lanes,
                width,
                out,
                #[inline(always)]
                |unit| limit * (2.0 * unit - 1.0),
            ),
        }
    }
}

/// Returns the sum of fan-in and fan-out (`tf.keras.initializers`, `_compute_fans`).
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

/// Returns the fan-in (`tf.keras.initializers`, `_compute_fans`).
fn fan_in(shape: &[usize]) -> f32 {
    match *shape {
        [] => 1.0,
        [length] => length as f32,
        [.., fan_in, _] => {
            let field: usize = shape[..shape.len() - 2].iter().product();
            (field * fan_in) as f32
        }
    }
}

/// Returns a number that is uniform in [0, 1), with 24 bits.
#[inline(always)]
fn unit(word: u32) -> f32 {
    (word >> 8) as f32 / (1 << 24) as f32
}

/// Writes rows with one value for each number of their streams, one row after the other.
#[inline(always)]
fn uniform<const L: usize>(
    random: &Streams,
    streams: &[u64; L],
    width: usize,
    out: &mut [f32],
    value: impl Fn(f32) -> f32,
) {
    for (number, begin) in (0..width).step_by(BLOCK).enumerate() {
        let block = random.block(streams, number as u32);
        for (place, words) in (begin..width.min(begin + BLOCK)).zip(&block) {
            for (row, word) in out.chunks_exact_mut(width).zip(words) {
                row[place] = value(unit(*word));
            }
        }
    }
}

/// Writes rows of normal values by the polar method (G. Marsaglia, 1964). Values beyond `most` standard deviations are drawn
/// again. Two numbers of a stream that lie within the unit circle give two values, in their order.
#[inline(always)]
fn normal<const L: usize>(
    random: &Streams,
    streams: &[u64; L],
    width: usize,
    (stddev, most): (f32, f32),
    out: &mut [f32],
) {
    const PAIRS: usize = BLOCK / 2;
    let mut done = [0; L];
    for number in 0.. {
        let block = random.block(streams, number);
        // Both values of each pair. NaN stands for those that are drawn again.
        let mut normals = [[[0.0_f32; L]; 2]; PAIRS];
        for (normals, words) in normals.iter_mut().zip(block.as_chunks::<2>().0) {
            for lane in 0..L {
                let x = 2.0 * unit(words[0][lane]) - 1.0;
                let y = 2.0 * unit(words[1][lane]) - 1.0;
                let square = x * x + y * y;
                let scale = (-2.0 * ln(square) / square).sqrt();
                let within = square > 0.0 && square < 1.0;
                normals[0][lane] = if within { x * scale } else { f32::NAN };
                normals[1][lane] = if within { y * scale } else { f32::NAN };
            }
        }
        let mut missing = false;
        for ((lane, row), done) in out.chunks_exact_mut(width).enumerate().zip(&mut done) {
            // There is one element more than can be kept, so that each value is written and counts only if it is kept.
            let mut kept = [0.0; BLOCK + 1];
            let mut count = 0;
            for normal in normals.iter().flatten() {
                kept[count] = stddev * normal[lane];
                count += usize::from(normal[lane].abs() <= most);
            }
            let count = count.min(width - *done);
            row[*done..*done + count].copy_from_slice(&kept[..count]);
            *done += count;
            missing |= *done < width;
        }
        if !missing {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::{Rng as _, SeedableRng as _};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    /// Draws a row one value after the other, as the values are defined.
    fn row_by_row(initializer: &Initializer, seed: u64, shape: &[usize], row: u64) -> Vec<f32> {
        let mut key = Fingerprint::new();
        key.write_u64(seed);
        key.write(b"table");
        let mut random = ChaCha8Rng::seed_from_u64(key.finish());
        random.set_stream(row);
        let mut unit = || (random.next_u32() >> 8) as f32 / (1 << 24) as f32;
        let mut spare = None;
        let most = match initializer {
            Initializer::Normal { .. } => f32::INFINITY,
            _ => 2.0,
        };
        let mut normal = || loop {
            if let Some(spare) = spare.take() {
                return spare;
            }
            let x = 2.0 * unit() - 1.0;
            let y = 2.0 * unit() - 1.0;
            let square: f32 = x * x + y * y;
            if square > 0.0 && square < 1.0 {
                let scale = (-2.0 * square.ln() / square).sqrt();
                let mut normals = [x * scale, y * scale]
                    .into_iter()
                    .filter(|normal| normal.abs() <= most);
                if let Some(normal) = normals.next() {
                    spare = normals.next();
                    return normal;
                }
            }
        };
        let width = shape.iter().skip(1).product();
        match *initializer {
            Initializer::Zeros => vec![0.0; width],
            Initializer::Constant { value } => vec![value; width],
            Initializer::HeNormal => {
                let stddev = (2.0 / shape[0] as f32).sqrt() / TRUNCATED_STDDEV;
                (0..width).map(|_| stddev * normal()).collect()
            }
            Initializer::Normal { stddev } | Initializer::TruncatedNormal { stddev } => {
                (0..width).map(|_| stddev * normal()).collect()
            }
            Initializer::Uniform { low, high } => {
                (0..width).map(|_| low + (high - low) * unit()).collect()
            }
            Initializer::GlorotUniform => {
                let limit = (6.0 / fans(shape)).sqrt();
                (0..width).map(|_| limit * (2.0 * unit() - 1.0)).collect()
            }
        }
    }

    #[test]
    fn rows_that_are_drawn_side_by_side_have_the_values_of_rows_that_are_drawn_by_themselves() {
        for initializer in [
            Initializer::Zeros,
            Initializer::Constant { value: 2.5 },
            Initializer::GlorotUniform,
            Initializer::HeNormal,
            Initializer::Normal { stddev: 0.25 },
            Initializer::TruncatedNormal { stddev: 0.25 },
            Initializer::Uniform {
                low: -1.0,
                high: 3.0,
            },
        ] {
            for (width, rows) in [(1, 4100), (3, 999), (16, 2003), (17, 300), (100, 77)] {
                let shape = [rows, width];
                let mut all = vec![0.0; rows * width];
                initializer.fill(3, "table", &shape, 0..rows, &mut all);
                for (row, values) in all.chunks_exact(width).enumerate() {
                    let expected = row_by_row(&initializer, 3, &shape, row as u64);
                    assert_eq!(
                        values, expected,
                        "{initializer:?}, row {row} of {width} values"
                    );
                }
            }
        }
    }

    #[test]
    fn a_slice_holds_what_the_whole_holds() {
        for initializer in [
            Initializer::GlorotUniform,
            Initializer::HeNormal,
            Initializer::Normal { stddev: 0.25 },
            Initializer::TruncatedNormal { stddev: 0.25 },
            Initializer::Uniform {
                low: -1.0,
                high: 3.0,
            },
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
        Initializer::TruncatedNormal { stddev: 0.5 }.fill(
            1,
            "t",
            &[12_500, 16],
            0..12_500,
            &mut values,
        );
        let mean = values.iter().sum::<f32>() / values.len() as f32;
        let deviation =
            (values.iter().map(|value| value * value).sum::<f32>() / values.len() as f32).sqrt();
        assert!(values.iter().all(|value| value.abs() <= 1.0));
        // A normal distribution that is cut at two standard deviations keeps 0.8796 of its spread.
        assert!(
            mean.abs() < 0.005 && (deviation - 0.4398).abs() < 0.005,
            "mean {mean}, deviation {deviation}"
        );
        let spread = |values: &[f32]| {
            let squares = values.iter().map(|value| value * value);
            (squares.sum::<f32>() / values.len() as f32).sqrt()
        };
        Initializer::Normal { stddev: 0.5 }.fill(1, "t", &[12_500, 16], 0..12_500, &mut values);
        assert!((spread(&values) - 0.5).abs() < 0.005, "{}", spread(&values));
        assert!(values.iter().any(|value| value.abs() > 1.5));
        Initializer::HeNormal.fill(1, "t", &[500, 400], 0..500, &mut values);
        let expected = (2.0_f32 / 500.0).sqrt();
        assert!(
            (spread(&values) / expected - 1.0).abs() < 0.01,
            "{}",
            spread(&values)
        );
        Initializer::GlorotUniform.fill(1, "k", &[500, 400], 0..500, &mut values);
        let limit = (6.0_f32 / 900.0).sqrt();
        let most = values
            .iter()
            .fold(0.0_f32, |most, value| most.max(value.abs()));
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
