//! Encodings of `f32` values: as they are, or rounded to 16 bits.

use half::slice::HalfFloatSliceExt as _;
use serde::{Deserialize, Serialize};

#[cfg(target_endian = "big")]
compile_error!("encoded values are the memory of a little-endian machine");

/// Values that are converted at once.
const LANES: usize = 64;

/// Encoding of values in bytes, little-endian. Servers and models compute with `float32`; the others are for the wire.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Encoding {
    /// `float32`: exact.
    #[default]
    Float32,
    /// `bfloat16`: the range of `float32` with 8 bits of precision.
    Bfloat16,
    /// `float16`: 11 bits of precision, nothing above 65504.
    Float16,
}

impl Encoding {
    /// Every encoding with its name in a job file.
    pub const NAMES: [(&'static str, Self); 3] = [
        ("float32", Self::Float32),
        ("bfloat16", Self::Bfloat16),
        ("float16", Self::Float16),
    ];

    /// Returns the size of a value in bytes.
    pub fn value_bytes(self) -> usize {
        match self {
            Self::Float32 => 4,
            Self::Bfloat16 | Self::Float16 => 2,
        }
    }

    /// Writes `values` to the beginning of `out`, rounded to the nearest value of the encoding, ties to even. A finite
    /// value stays finite: a value that is too large becomes the largest value of the encoding.
    ///
    /// # Panics
    /// `out` is shorter than the values.
    pub fn write(self, values: &[f32], out: &mut [u8]) {
        let out = &mut out[..values.len() * self.value_bytes()];
        match self {
            Self::Float32 => out.copy_from_slice(bytemuck::cast_slice(values)),
            Self::Bfloat16 => {
                for (bytes, value) in out.chunks_exact_mut(2).zip(values) {
                    bytes.copy_from_slice(&bfloat16(*value).to_le_bytes());
                }
            }
            Self::Float16 => {
                for (bytes, values) in out.chunks_mut(2 * LANES).zip(values.chunks(LANES)) {
                    let mut near = [0.0; LANES];
                    let mut halves = [half::f16::ZERO; LANES];
                    for (near, value) in near.iter_mut().zip(values) {
                        let most = f32::from(half::f16::MAX);
                        *near = if value.is_finite() {
                            value.clamp(-most, most)
                        } else {
                            *value
                        };
                    }
                    halves.convert_from_f32_slice(&near);
                    for (bytes, half) in bytes.chunks_exact_mut(2).zip(halves) {
                        bytes.copy_from_slice(&half.to_bits().to_le_bytes());
                    }
                }
            }
        }
    }

    /// Subtracts from `values` the values in `bytes`, which were written from them. The rounding errors remain.
    pub fn take(self, values: &mut [f32], bytes: &[u8]) {
        let width = self.value_bytes();
        for (values, bytes) in values.chunks_mut(LANES).zip(bytes.chunks(width * LANES)) {
            let mut written = [0.0; LANES];
            self.read(bytes, &mut written[..values.len()]);
            values
                .iter_mut()
                .zip(written)
                .for_each(|(value, written)| *value -= written);
        }
    }

    /// Reads values from `bytes`, as many as `out` holds.
    ///
    /// # Panics
    /// `bytes` is shorter than the values.
    pub fn read(self, bytes: &[u8], out: &mut [f32]) {
        match self {
            Self::Float32 => bytemuck::cast_slice_mut(out).copy_from_slice(bytes),
            Self::Bfloat16 => {
                for (out, bytes) in out.iter_mut().zip(bytes.chunks_exact(2)) {
                    *out =
                        f32::from_bits(u32::from(u16::from_le_bytes([bytes[0], bytes[1]])) << 16);
                }
            }
            Self::Float16 => {
                for (out, bytes) in out.chunks_mut(LANES).zip(bytes.chunks(2 * LANES)) {
                    let mut halves = [half::f16::ZERO; LANES];
                    for (half, bytes) in halves.iter_mut().zip(bytes.chunks_exact(2)) {
                        *half = half::f16::from_bits(u16::from_le_bytes([bytes[0], bytes[1]]));
                    }
                    halves[..out.len()].convert_to_f32_slice(out);
                }
            }
        }
    }
}

/// Returns a value as bfloat16, rounded to the nearest, ties to even. No finite value becomes infinite.
fn bfloat16(value: f32) -> u16 {
    const INFINITE: u32 = 0x7f80;
    let bits = value.to_bits();
    let near = (bits.wrapping_add(0x7fff + (bits >> 16 & 1))) >> 16;
    let kept = if near & 0x7fff == INFINITE {
        near - 1
    } else {
        near
    };
    // Infinity and NaN are not rounded. If all set bits of a NaN are cut off, another bit is set, so that it stays NaN.
    let special = bits >> 16 | u32::from(bits & 0x007f_ffff != 0) << 6;
    (if bits >> 16 & INFINITE == INFINITE {
        special
    } else {
        kept
    }) as u16
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_bfloat16_is_what_the_half_crate_makes_it_unless_that_is_infinite(bits in any::<u32>()) {
            let value = f32::from_bits(bits);
            let ours = half::bf16::from_bits(bfloat16(value));
            let theirs = half::bf16::from_f32(value);
            prop_assert_eq!(ours.is_nan(), value.is_nan());
            if theirs.is_infinite() && value.is_finite() {
                prop_assert_eq!(f32::from(ours).abs(), f32::from(half::bf16::MAX));
            } else if !value.is_nan() {
                prop_assert_eq!(ours.to_bits(), theirs.to_bits());
            }
        }
    }
}
