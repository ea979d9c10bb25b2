//! Loops over the rows of an output, on all threads of the step and with the vectors of the processor.

use trainyard_tensor::{for_rows, vectorize};

/// Fewest rows for which another thread is used.
const PART_ROWS_MIN: usize = 64;
/// Partial sums of a product: as many as a vector of the processor has elements.
const LANES: usize = 8;
/// Numbers of a sum of vectors that stay in registers.
const BLOCK: usize = 32;

/// Calls `work` with the number of each row and the row of `out`. `work` is to be `#[inline(always)]`.
#[inline(always)]
pub(super) fn each_row(out: &mut [f32], width: usize, work: impl Fn(usize, &mut [f32]) + Sync) {
    if width == 0 {
        return;
    }
    for_rows(out, width, PART_ROWS_MIN, &|first, part| {
        vectorize(
            #[inline(always)]
            || {
                for (row, out) in part.chunks_exact_mut(width).enumerate() {
                    work(first + row, out);
                }
            },
        );
    });
}

/// Returns the sum of the products.
#[inline(always)]
pub(super) fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0_f32; LANES];
    let whole = a.len() / LANES * LANES;
    for (a, b) in a.chunks_exact(LANES).zip(b.chunks_exact(LANES)) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += a * b;
        }
    }
    // As a tree, the sums wait for each other three times, not eight.
    let [a0, a1, a2, a3, a4, a5, a6, a7] = sums;
    let sum = ((a0 + a4) + (a2 + a6)) + ((a1 + a5) + (a3 + a7));
    let rest = a[whole..].iter().zip(&b[whole..]);
    rest.fold(sum, |sum, (a, b)| sum + a * b)
}

/// Adds `factor` times `from` to `out`.
#[inline(always)]
pub(super) fn add_scaled(out: &mut [f32], factor: f32, from: &[f32]) {
    out.iter_mut()
        .zip(from)
        .for_each(|(out, value)| *out += factor * value);
}

/// Writes the sum of vectors times factors, which `term` returns by index, into `out`. The sums stay in registers.
#[inline(always)]
pub(super) fn weighted_sum<'a>(
    out: &mut [f32],
    count: usize,
    term: impl Fn(usize) -> (f32, &'a [f32]),
) {
    for (index, out) in out.chunks_mut(BLOCK).enumerate() {
        let begin = index * BLOCK;
        let mut sums = [0.0_f32; BLOCK];
        if out.len() == BLOCK {
            for place in 0..count {
                let (factor, vector) = term(place);
                let values: &[f32; BLOCK] = vector[begin..]
                    .first_chunk()
                    .expect("vectors are as long as their sum");
                for (sum, value) in sums.iter_mut().zip(values) {
                    *sum += factor * value;
                }
            }
        } else {
            for place in 0..count {
                let (factor, vector) = term(place);
                add_scaled(&mut sums, factor, &vector[begin..]);
            }
        }
        out.copy_from_slice(&sums[..out.len()]);
    }
}
