//! Products of matrices, through ndarray's GEMM (AVX-512 where the processor has it), and sums over rows.

use ndarray::linalg::general_mat_mul;
use ndarray::{ArrayView2, ArrayViewMut2};

fn view(data: &[f32], rows: usize, columns: usize) -> ArrayView2<'_, f32> {
    ArrayView2::from_shape((rows, columns), data).expect("a matrix buffer holds rows x columns values")
}

fn view_mut(data: &mut [f32], rows: usize, columns: usize) -> ArrayViewMut2<'_, f32> {
    ArrayViewMut2::from_shape((rows, columns), data).expect("a matrix buffer holds rows x columns values")
}

/// Computes `out[m,n] = a[m,k] b[k,n]`.
///
/// # Panics
/// A buffer is not as long as its dimensions say.
pub fn multiply(a: &[f32], b: &[f32], out: &mut [f32], [m, k, n]: [usize; 3]) {
    general_mat_mul(1.0, &view(a, m, k), &view(b, k, n), 0.0, &mut view_mut(out, m, n));
}

/// Computes `out[m,n] = a[k,m]ᵀ b[k,n]`: the gradient of a kernel.
///
/// # Panics
/// A buffer is not as long as its dimensions say.
pub fn multiply_first_transposed(a: &[f32], b: &[f32], out: &mut [f32], [m, k, n]: [usize; 3]) {
    general_mat_mul(1.0, &view(a, k, m).t(), &view(b, k, n), 0.0, &mut view_mut(out, m, n));
}

/// Computes `out[m,n] = a[m,k] b[n,k]ᵀ`: the gradient of a layer's input.
///
/// # Panics
/// A buffer is not as long as its dimensions say.
pub fn multiply_second_transposed(a: &[f32], b: &[f32], out: &mut [f32], [m, k, n]: [usize; 3]) {
    general_mat_mul(1.0, &view(a, m, k), &view(b, n, k).t(), 0.0, &mut view_mut(out, m, n));
}

/// Adds `bias` to every row.
pub fn add_bias(matrix: &mut [f32], bias: &[f32]) {
    for row in matrix.chunks_exact_mut(bias.len()) {
        row.iter_mut().zip(bias).for_each(|(value, bias)| *value += bias);
    }
}

/// Adds `bias` to every row and replaces what is negative by 0.
pub fn add_bias_relu(matrix: &mut [f32], bias: &[f32]) {
    for row in matrix.chunks_exact_mut(bias.len()) {
        row.iter_mut().zip(bias).for_each(|(value, bias)| *value = (*value + bias).max(0.0));
    }
}

/// Adds the sum of the rows of `matrix` to `out`: the gradient of a bias.
pub fn add_column_sums(matrix: &[f32], out: &mut [f32]) {
    for row in matrix.chunks_exact(out.len()) {
        out.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_products_agree_with_their_definition() {
        let a = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]; // 2 x 3, or 3 x 2
        let b = [1.0, 0.0, -1.0, 2.0, 0.5, 1.0]; // 3 x 2, or 2 x 3
        let mut out = [9.0; 4];
        multiply(&a, &b, &mut out, [2, 3, 2]);
        assert_eq!(out, [0.5, 7.0, 2.0, 16.0]);
        multiply_first_transposed(&a, &b, &mut out, [2, 3, 2]);
        assert_eq!(out, [0.5, 11.0, 1.0, 14.0]);
        multiply_second_transposed(&a, &b, &mut out, [2, 3, 2]);
        assert_eq!(out, [-2.0, 6.0, -2.0, 16.5]);
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
