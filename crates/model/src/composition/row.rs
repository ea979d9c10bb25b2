//! Loops over the rows of an output, on all threads of the step and with the vectors of the processor.

use trainyard_tensor::{for_rows, vectorize};

/// Fewest rows for which another thread is used.
const PART_ROWS_MIN: usize = 64;
/// Partial sums of a product: as many as a vector of the processor has elements.
const LANES: usize = 8;

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
    let sum: f32 = sums.iter().sum();
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

/// Writes the sum of vectors times factors, which `term` returns by index, into `out`.
#[inline(always)]
pub(super) fn weighted_sum<'a>(
    out: &mut [f32],
    count: usize,
    term: impl Fn(usize) -> (f32, &'a [f32]),
) {
    out.fill(0.0);
    for place in 0..count {
        let (factor, vector) = term(place);
        add_scaled(out, factor, vector);
    }
}
