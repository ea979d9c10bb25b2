//! The product of a batch and a matrix whose rows do not depend on each other: a row has the same bits in any batch.
//!
//! gemm chooses its order of sums by the dimensions of a product, so a row alone and the same row among others differ in
//! the last bits. Predictions need one order: a request of one row, and a file of many, must have equal answers.
//!
//! `unsafe`, because a function that is compiled for some vectors is called: where the processor has them.

use crate::parallel::for_rows;

/// Rows that share a pass over the matrix, and columns whose sums then stay in registers.
const ROWS: usize = 4;
const COLUMNS: usize = 32;
/// Columns whose sums stay in registers for a single row.
const COLUMNS_OF_ONE: usize = 64;
/// Fewest rows for which another thread is used.
const PART_ROWS_MIN: usize = 64;

/// Computes `out[m,n] = a[m,k] b[k,n]`. Each element is the sum over `k` in ascending order, by fused multiplication and
/// addition, so that a row has the same bits in any batch, with any number of threads and on any processor.
///
/// # Panics
/// A buffer is not as long as its dimensions say.
pub fn multiply_rows(a: &[f32], b: &[f32], out: &mut [f32], [m, k, n]: [usize; 3]) {
    assert!(
        a.len() == m * k && b.len() == k * n && out.len() == m * n,
        "{m}x{k} times {k}x{n}: given {}, {} and {} values",
        a.len(),
        b.len(),
        out.len()
    );
    if out.is_empty() {
        return;
    }
    for_rows(out, n, PART_ROWS_MIN, &|first, out| {
        let a = &a[first * k..][..out.len() / n * k];
        multiply_part(a, b, out, [k, n]);
    });
}

/// Computes some rows with the widest vectors of the processor.
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "see the top of the file")]
fn multiply_part(a: &[f32], b: &[f32], out: &mut [f32], dimensions: [usize; 2]) {
    if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("fma") {
        // SAFETY: the processor has these vectors.
        unsafe { multiply_avx512(a, b, out, dimensions) }
    } else if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        // SAFETY: the processor has these vectors.
        unsafe { multiply_avx2(a, b, out, dimensions) }
    } else {
        blocks(a, b, out, dimensions);
    }
}

/// Computes some rows with the vectors that every processor of the architecture has.
#[cfg(not(target_arch = "x86_64"))]
fn multiply_part(a: &[f32], b: &[f32], out: &mut [f32], dimensions: [usize; 2]) {
    blocks(a, b, out, dimensions);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx2,fma")]
fn multiply_avx512(a: &[f32], b: &[f32], out: &mut [f32], dimensions: [usize; 2]) {
    blocks(a, b, out, dimensions);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn multiply_avx2(a: &[f32], b: &[f32], out: &mut [f32], dimensions: [usize; 2]) {
    blocks(a, b, out, dimensions);
}

/// Computes some rows, a block of them at a time.
#[inline(always)]
fn blocks(a: &[f32], b: &[f32], out: &mut [f32], [k, n]: [usize; 2]) {
    let rows = out.len() / n;
    let whole = rows / ROWS * ROWS;
    for row in (0..whole).step_by(ROWS) {
        block::<ROWS, COLUMNS>(&a[row * k..], b, &mut out[row * n..], k, n);
    }
    for row in whole..rows {
        block::<1, COLUMNS_OF_ONE>(&a[row * k..], b, &mut out[row * n..], k, n);
    }
}

/// Computes the first `R` rows of `out`, `C` columns at a time.
#[inline(always)]
fn block<const R: usize, const C: usize>(
    a: &[f32],
    b: &[f32],
    out: &mut [f32],
    k: usize,
    n: usize,
) {
    let rows: [&[f32]; R] = std::array::from_fn(
        #[inline(always)]
        |row| &a[row * k..][..k],
    );
    let whole = n / C * C;
    for column in (0..whole).step_by(C) {
        let mut sums = [[0.0_f32; C]; R];
        for place in 0..k {
            let values: &[f32; C] = b[place * n + column..]
                .first_chunk()
                .expect("a whole block lies in the row");
            for (sums, row) in sums.iter_mut().zip(&rows) {
                let factor = row[place];
                for (sum, value) in sums.iter_mut().zip(values) {
                    *sum = factor.mul_add(*value, *sum);
                }
            }
        }
        for (row, sums) in sums.iter().enumerate() {
            out[row * n + column..][..C].copy_from_slice(sums);
        }
    }
    let rest = n - whole;
    if rest == 0 {
        return;
    }
    let mut sums = [[0.0_f32; C]; R];
    for place in 0..k {
        let values = &b[place * n + whole..][..rest];
        for (sums, row) in sums.iter_mut().zip(&rows) {
            let factor = row[place];
            for (sum, value) in sums.iter_mut().zip(values) {
                *sum = factor.mul_add(*value, *sum);
            }
        }
    }
    for (row, sums) in sums.iter().enumerate() {
        out[row * n + whole..][..rest].copy_from_slice(&sums[..rest]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns numbers whose sums depend on their order.
    fn numbers(count: usize, seed: u32) -> Vec<f32> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 24) as f32 - 0.5
        };
        (0..count).map(|_| next()).collect()
    }

    #[test]
    fn a_row_has_the_same_bits_alone_and_in_any_batch() {
        for [k, n] in [[1, 1], [3, 1], [7, 5], [33, 64], [429, 256], [600, 100]] {
            let m = 150;
            let a = numbers(m * k, 1);
            let b = numbers(k * n, 2);
            let mut all = vec![0.0; m * n];
            multiply_rows(&a, &b, &mut all, [m, k, n]);
            for size in [1, 2, 3, 4, 5, 64] {
                for first in (0..m - size).step_by(17) {
                    let mut some = vec![0.0; size * n];
                    multiply_rows(&a[first * k..][..size * k], &b, &mut some, [size, k, n]);
                    let expected = &all[first * n..][..size * n];
                    assert_eq!(some, expected, "{size} rows from {first}, {k} x {n}");
                }
            }
            for (row, out) in all.chunks_exact(n).enumerate() {
                for (column, value) in out.iter().enumerate() {
                    let sum = (0..k).fold(0.0_f32, |sum, place| {
                        a[row * k + place].mul_add(b[place * n + column], sum)
                    });
                    assert_eq!(sum, *value, "row {row}, column {column} of {k} x {n}");
                }
            }
        }
    }

    #[test]
    fn all_vectors_give_the_same_bits() {
        let [m, k, n] = [7, 50, 70];
        let a = numbers(m * k, 3);
        let b = numbers(k * n, 4);
        let mut plain = vec![0.0; m * n];
        blocks(&a, &b, &mut plain, [k, n]);
        let mut wide = vec![0.0; m * n];
        multiply_rows(&a, &b, &mut wide, [m, k, n]);
        assert_eq!(plain, wide);
    }

    #[test]
    fn no_rows_and_no_columns_are_a_product_too() {
        multiply_rows(&[], &[1.0, 2.0], &mut [], [0, 2, 1]);
        multiply_rows(&[1.0, 2.0], &[], &mut [], [1, 2, 0]);
    }
}
