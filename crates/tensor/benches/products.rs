//! Products of matrices of the click-through model, beside ndarray's: `cargo bench -p trainyard-tensor`.
//!
//! Items per second are floating-point operations, two for each multiplication and addition.

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use ndarray::linalg::general_mat_mul;
use ndarray::{Array2, ArrayView2, ArrayViewMut2};
use trainyard_tensor::{matmul, multiply_second_transposed_columns};

/// Rows, inputs, outputs of a dense layer.
const LAYERS: [[usize; 3]; 7] = [
    [128, 429, 256],
    [128, 256, 128],
    [512, 429, 429],
    [512, 429, 256],
    [512, 256, 128],
    [128, 128, 1],
    [512, 128, 1],
];

fn main() {
    divan::main();
}

fn matrix(rows: usize, columns: usize) -> Array2<f32> {
    Array2::from_shape_fn((rows, columns), |(row, column)| {
        ((row * 31 + column * 17) % 23) as f32 * 0.01 - 0.1
    })
}

type Multiply = fn(ArrayView2<'_, f32>, ArrayView2<'_, f32>, ArrayViewMut2<'_, f32>);

fn by_gemm(a: ArrayView2<'_, f32>, b: ArrayView2<'_, f32>, c: ArrayViewMut2<'_, f32>) {
    matmul(1.0, a, b, 0.0, c);
}

fn by_ndarray(a: ArrayView2<'_, f32>, b: ArrayView2<'_, f32>, mut c: ArrayViewMut2<'_, f32>) {
    general_mat_mul(1.0, &a, &b, 0.0, &mut c);
}

fn time(
    bencher: Bencher<'_, '_>,
    a: ArrayView2<'_, f32>,
    b: ArrayView2<'_, f32>,
    multiply: Multiply,
) {
    let mut c = Array2::zeros((a.nrows(), b.ncols()));
    bencher
        .counter(ItemsCount::new(2 * a.nrows() * a.ncols() * b.ncols()))
        .bench_local(|| multiply(black_box(a), black_box(b), black_box(c.view_mut())));
}

mod forward {
    use super::*;

    #[divan::bench(args = LAYERS)]
    fn gemm(bencher: Bencher<'_, '_>, [rows, inputs, outputs]: [usize; 3]) {
        time(
            bencher,
            matrix(rows, inputs).view(),
            matrix(inputs, outputs).view(),
            by_gemm,
        );
    }

    #[divan::bench(args = LAYERS)]
    fn ndarray(bencher: Bencher<'_, '_>, [rows, inputs, outputs]: [usize; 3]) {
        time(
            bencher,
            matrix(rows, inputs).view(),
            matrix(inputs, outputs).view(),
            by_ndarray,
        );
    }
}

mod kernel_gradient {
    use super::*;

    #[divan::bench(args = LAYERS)]
    fn gemm(bencher: Bencher<'_, '_>, [rows, inputs, outputs]: [usize; 3]) {
        time(
            bencher,
            matrix(rows, inputs).t(),
            matrix(rows, outputs).view(),
            by_gemm,
        );
    }

    #[divan::bench(args = LAYERS)]
    fn ndarray(bencher: Bencher<'_, '_>, [rows, inputs, outputs]: [usize; 3]) {
        time(
            bencher,
            matrix(rows, inputs).t(),
            matrix(rows, outputs).view(),
            by_ndarray,
        );
    }
}

mod input_gradient {
    use super::*;

    #[divan::bench(args = LAYERS)]
    fn turned_first(bencher: Bencher<'_, '_>, [rows, inputs, outputs]: [usize; 3]) {
        let delta = vec![0.1; rows * outputs];
        let kernel = vec![0.1; inputs * outputs];
        let mut out = vec![0.0; rows * inputs];
        let mut room = Vec::new();
        bencher
            .counter(ItemsCount::new(2 * rows * inputs * outputs))
            .bench_local(|| {
                let sizes = [rows, outputs, inputs];
                multiply_second_transposed_columns(
                    black_box(&delta),
                    black_box(&kernel),
                    black_box(&mut out),
                    sizes,
                    0..inputs,
                    &mut room,
                );
            });
    }

    #[divan::bench(args = LAYERS)]
    fn gemm(bencher: Bencher<'_, '_>, [rows, inputs, outputs]: [usize; 3]) {
        time(
            bencher,
            matrix(rows, outputs).view(),
            matrix(inputs, outputs).t(),
            by_gemm,
        );
    }

    #[divan::bench(args = LAYERS)]
    fn ndarray(bencher: Bencher<'_, '_>, [rows, inputs, outputs]: [usize; 3]) {
        time(
            bencher,
            matrix(rows, outputs).view(),
            matrix(inputs, outputs).t(),
            by_ndarray,
        );
    }
}
