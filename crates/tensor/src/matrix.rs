//! Products of matrices in row-major slices, and loops over rows, compiled for the widest vectors of the processor.

use std::ops::Range;

use ndarray::{ArrayView2, ArrayViewMut2, s};
use pulp::Arch;

use crate::activation::relu;
use crate::product::matmul;

/// Values in a line of a cache, on the processors that we know.
const LINE: usize = 16;

fn view(data: &[f32], rows: usize, columns: usize) -> ArrayView2<'_, f32> {
    ArrayView2::from_shape((rows, columns), data)
        .expect("a matrix buffer holds rows x columns values")
}

fn view_mut(data: &mut [f32], rows: usize, columns: usize) -> ArrayViewMut2<'_, f32> {
    ArrayViewMut2::from_shape((rows, columns), data)
        .expect("a matrix buffer holds rows x columns values")
}

/// Computes `out[m,n] = a[m,k] b[k,n]`.
///
/// # Panics
/// A buffer is not as long as its dimensions say.
pub fn multiply(a: &[f32], b: &[f32], out: &mut [f32], [m, k, n]: [usize; 3]) {
    matmul(1.0, view(a, m, k), view(b, k, n), 0.0, view_mut(out, m, n));
}

/// Computes `out[m,n] = a[k,m]ᵀ b[k,n]`: the gradient of a kernel.
///
/// # Panics
/// A buffer is not as long as its dimensions say.
pub fn multiply_first_transposed(a: &[f32], b: &[f32], out: &mut [f32], [m, k, n]: [usize; 3]) {
    matmul(
        1.0,
        view(a, k, m).reversed_axes(),
        view(b, k, n),
        0.0,
        view_mut(out, m, n),
    );
}

/// Adds `a[k,m]ᵀ b[k,n]` to `out[m,n]`: the gradient of a kernel that a network may use more than once.
///
/// # Panics
/// A buffer is not as long as its dimensions say.
pub fn add_first_transposed(a: &[f32], b: &[f32], out: &mut [f32], [m, k, n]: [usize; 3]) {
    matmul(
        1.0,
        view(a, k, m).reversed_axes(),
        view(b, k, n),
        1.0,
        view_mut(out, m, n),
    );
}

/// Computes `out[m,n] = a[m,k] b[n,k]ᵀ`: the gradient of a layer's input.
///
/// # Panics
/// A buffer is not as long as its dimensions say.
pub fn multiply_second_transposed(a: &[f32], b: &[f32], out: &mut [f32], [m, k, n]: [usize; 3]) {
    matmul(
        1.0,
        view(a, m, k),
        view(b, n, k).reversed_axes(),
        0.0,
        view_mut(out, m, n),
    );
}

/// As [`multiply_second_transposed`], but writes only these `columns` of `out`, and turns `b` in `room`: at once, in a
/// third of the time that gemm takes to turn it block by block.
///
/// # Panics
/// A buffer is not as long as its dimensions say, or `columns` are not in `0..n`.
pub fn multiply_second_transposed_columns(
    a: &[f32],
    b: &[f32],
    out: &mut [f32],
    [m, k, n]: [usize; 3],
    columns: Range<usize>,
    room: &mut Vec<f32>,
) {
    let rows = columns.len();
    let mut out = view_mut(out, m, n);
    room.resize(rows * k, 0.0);
    transpose(&b[columns.start * k..columns.end * k], room, rows, k);
    matmul(
        1.0,
        view(a, m, k),
        view(room, k, rows),
        0.0,
        out.slice_mut(s![.., columns]),
    );
}

/// Adds `a[m,k] b[n,k]ᵀ` to `out[m,n]`: the gradient of a layer's input that is also passed on past the layer. Turns `b` in
/// `room`, as [`multiply_second_transposed_columns`] does.
///
/// # Panics
/// A buffer is not as long as its dimensions say.
pub fn add_second_transposed(
    a: &[f32],
    b: &[f32],
    out: &mut [f32],
    [m, k, n]: [usize; 3],
    room: &mut Vec<f32>,
) {
    room.resize(n * k, 0.0);
    transpose(b, room, n, k);
    matmul(
        1.0,
        view(a, m, k),
        view(room, k, n),
        1.0,
        view_mut(out, m, n),
    );
}

/// Writes the transpose of `matrix`, which has so many rows and columns, into `out`.
fn transpose(matrix: &[f32], out: &mut [f32], rows: usize, columns: usize) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            // A line of a cache is written at a time.
            let whole = rows / LINE * LINE;
            for first in (0..whole).step_by(LINE) {
                let lines: [&[f32]; LINE] =
                    std::array::from_fn(|row| &matrix[(first + row) * columns..][..columns]);
                for (column, out) in out.chunks_exact_mut(rows).enumerate() {
                    let values: [f32; LINE] = std::array::from_fn(|row| lines[row][column]);
                    out[first..first + LINE].copy_from_slice(&values);
                }
            }
            for row in whole..rows {
                for (out, value) in out.chunks_exact_mut(rows).zip(&matrix[row * columns..]) {
                    out[row] = *value;
                }
            }
        },
    );
}

/// Adds `bias` to every row.
pub fn add_bias(matrix: &mut [f32], bias: &[f32]) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for row in matrix.chunks_exact_mut(bias.len()) {
                row.iter_mut()
                    .zip(bias)
                    .for_each(|(value, bias)| *value += bias);
            }
        },
    );
}

/// Adds `bias` to every row and replaces what is negative by 0.
pub fn add_bias_relu(matrix: &mut [f32], bias: &[f32]) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for row in matrix.chunks_exact_mut(bias.len()) {
                row.iter_mut()
                    .zip(bias)
                    .for_each(|(value, bias)| *value = relu(*value + bias));
            }
        },
    );
}

/// Adds the sum of the rows of `matrix` to `out`: the gradient of a bias.
pub fn add_column_sums(matrix: &[f32], out: &mut [f32]) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for row in matrix.chunks_exact(out.len()) {
                out.iter_mut()
                    .zip(row)
                    .for_each(|(sum, value)| *sum += value);
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_products_agree_with_their_definition() {
        let a = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]; // 2 x 3, or 3 x 2
        let b = [1.0, 0.0, -1.0, 2.0, 0.5, 1.0]; // 3 x 2, or 2 x 3
        let mut out = [9.0; 4];
        let mut room = Vec::new();
        multiply(&a, &b, &mut out, [2, 3, 2]);
        assert_eq!(out, [0.5, 7.0, 2.0, 16.0]);
        multiply_first_transposed(&a, &b, &mut out, [2, 3, 2]);
        assert_eq!(out, [0.5, 11.0, 1.0, 14.0]);
        add_first_transposed(&a, &b, &mut out, [2, 3, 2]);
        assert_eq!(out, [1.0, 22.0, 2.0, 28.0]);
        multiply_second_transposed(&a, &b, &mut out, [2, 3, 2]);
        assert_eq!(out, [-2.0, 6.0, -2.0, 16.5]);
        out = [9.0; 4];
        multiply_second_transposed_columns(&a, &b, &mut out, [2, 3, 2], 1..2, &mut room);
        assert_eq!(out, [9.0, 6.0, 9.0, 16.5]);
        add_second_transposed(&a, &b, &mut out, [2, 3, 2], &mut room);
        assert_eq!(out, [7.0, 12.0, 7.0, 33.0]);
    }

    #[test]
    fn what_is_turned_twice_is_as_it_was() {
        for [rows, columns] in [[1, 1], [3, 20], [16, 16], [40, 33], [0, 4]] {
            let matrix: Vec<f32> = (0..rows * columns).map(|value| value as f32).collect();
            let mut turned = vec![0.0; matrix.len()];
            let mut again = vec![0.0; matrix.len()];
            transpose(&matrix, &mut turned, rows, columns);
            if columns > 1 && rows > 0 {
                assert_eq!(
                    turned[rows], matrix[1],
                    "the second column comes after the first"
                );
            }
            transpose(&turned, &mut again, columns, rows);
            assert_eq!(again, matrix);
        }
    }

    #[test]
    fn bias_is_added_to_each_row_and_its_gradient_sums_them() {
        let mut matrix = [1.0, -2.0, 3.0, -4.0];
        add_bias_relu(&mut matrix, &[0.5, 1.0]);
        assert_eq!(matrix, [1.5, 0.0, 3.5, 0.0]);
        let mut sums = [1.0, 1.0];
        add_column_sums(&matrix, &mut sums);
        assert_eq!(sums, [6.0, 1.0]);
    }
}
