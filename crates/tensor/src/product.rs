//! The product of two matrices, by gemm's kernels: AVX-512, AVX2 and FMA, or NEON, chosen as it runs.
//!
//! `unsafe`, because gemm takes pointers: the views that they come from hold every element that dimensions and strides
//! name, and that of the result is borrowed alone.

use ndarray::{ArrayView2, ArrayViewMut2, Axis};

use crate::parallel::{join, threads};

/// Multiplications of a product that are worth a thread: some 35 µs of work, where to wake one costs 5.
const THREAD_MIN: usize = 1 << 21;
/// Rows and columns that a part of a product has at least. gemm takes other ways, which add in another order, for
/// vectors and for products of at most 64 rows and columns.
const PART_MIN: usize = 96;

/// Computes `c = alpha a b + beta c`. Any strides will do, so that a transposed view costs nothing; with `beta` 0, `c`
/// is written without being read.
///
/// Inside a rayon pool its threads share the work. They divide rows or columns of `c`, never the sum behind an element:
/// the result is the same bits whatever their number.
///
/// # Panics
/// `a` is not `m x k`, `b` not `k x n` or `c` not `m x n`.
pub fn matmul(
    alpha: f32,
    a: ArrayView2<'_, f32>,
    b: ArrayView2<'_, f32>,
    beta: f32,
    c: ArrayViewMut2<'_, f32>,
) {
    let (m, k) = a.dim();
    let n = b.ncols();
    assert!(
        b.nrows() == k && c.dim() == (m, n),
        "{m}x{k} times {}x{n} cannot be {:?}",
        b.nrows(),
        c.dim()
    );
    let parts = (m * k * n / THREAD_MIN).min(threads()).max(1);
    divide(parts, alpha, a, b, beta, c);
}

fn divide(
    parts: usize,
    alpha: f32,
    a: ArrayView2<'_, f32>,
    b: ArrayView2<'_, f32>,
    beta: f32,
    c: ArrayViewMut2<'_, f32>,
) {
    let (m, n) = c.dim();
    let splits_rows = splits_rows([m, n], a.strides()[1] == 1);
    let length = if splits_rows { m } else { n };
    if parts == 1 || length < 2 * PART_MIN {
        multiply(alpha, a, b, beta, c);
        return;
    }
    // Whole blocks of a kernel, which are 48 at most.
    let left = parts / 2;
    let cut = |length: usize| {
        (length * left / parts)
            .next_multiple_of(PART_MIN / 2)
            .clamp(PART_MIN, length - PART_MIN)
    };
    if splits_rows {
        let cut = cut(m);
        let (one, other) = a.split_at(Axis(0), cut);
        let (upper, lower) = c.split_at(Axis(0), cut);
        join(
            || divide(left, alpha, one, b, beta, upper),
            || divide(parts - left, alpha, other, b, beta, lower),
        );
    } else {
        let cut = cut(n);
        let (one, other) = b.split_at(Axis(1), cut);
        let (left_half, right_half) = c.split_at(Axis(1), cut);
        join(
            || divide(left, alpha, a, one, beta, left_half),
            || divide(parts - left, alpha, a, other, beta, right_half),
        );
    }
}

/// Returns whether the rows of `c` are divided, rather than its columns. gemm packs all of `b` for each part of the rows, and
/// `a` for each part of the columns, which takes the longest, unless the rows of `a` are contiguous: these it reads in place.
fn splits_rows([m, n]: [usize; 2], is_contiguous: bool) -> bool {
    let wanted = if is_contiguous { n } else { m };
    if wanted < 2 * PART_MIN {
        m > n
    } else {
        !is_contiguous
    }
}

#[expect(unsafe_code, reason = "gemm takes pointers")]
fn multiply(
    alpha: f32,
    a: ArrayView2<'_, f32>,
    b: ArrayView2<'_, f32>,
    beta: f32,
    mut c: ArrayViewMut2<'_, f32>,
) {
    let (m, k) = a.dim();
    let n = b.ncols();
    let of_a = a.strides();
    let of_b = b.strides();
    let of_c = [c.strides()[0], c.strides()[1]];
    // SAFETY: see the top of the file.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            c.as_mut_ptr(),
            of_c[1],
            of_c[0],
            beta != 0.0,
            a.as_ptr(),
            of_a[1],
            of_a[0],
            b.as_ptr(),
            of_b[1],
            of_b[0],
            beta,
            alpha,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}

#[cfg(test)]
mod tests {
    use ndarray::{Array2, s};

    use super::*;

    fn matrix(rows: usize, columns: usize) -> Array2<f32> {
        Array2::from_shape_fn((rows, columns), |(row, column)| {
            ((row * 31 + column * 17) % 23) as f32 * 0.013 - 0.1
        })
    }

    /// The definition, in double precision.
    fn defined(
        alpha: f32,
        a: ArrayView2<'_, f32>,
        b: ArrayView2<'_, f32>,
        beta: f32,
        c: &Array2<f32>,
    ) -> Array2<f64> {
        Array2::from_shape_fn(c.dim(), |(row, column)| {
            let products = a
                .row(row)
                .iter()
                .zip(b.column(column))
                .map(|(a, b)| f64::from(*a) * f64::from(*b))
                .sum::<f64>();
            f64::from(alpha) * products
                + if beta == 0.0 {
                    0.0
                } else {
                    f64::from(beta) * f64::from(c[[row, column]])
                }
        })
    }

    #[test]
    fn products_agree_with_their_definition_in_every_form() {
        for [m, k, n] in [
            [1, 1, 1],
            [2, 3, 2],
            [128, 70, 1],
            [1, 70, 128],
            [5, 0, 3],
            [0, 4, 2],
            [70, 129, 33],
        ] {
            let a = matrix(m, k);
            let b = matrix(k, n);
            let first = matrix(m, n);
            let at = a.t().as_standard_layout().into_owned();
            let bt = b.t().as_standard_layout().into_owned();
            for (a, b) in [
                (a.view(), b.view()),
                (at.t(), b.view()),
                (a.view(), bt.t()),
                (at.t(), bt.t()),
            ] {
                for (alpha, beta) in [(1.0, 0.0), (0.5, 1.0), (-1.0, 2.0)] {
                    let mut c = first.clone();
                    matmul(alpha, a, b, beta, c.view_mut());
                    let expected = defined(alpha, a, b, beta, &first);
                    for (got, expected) in c.iter().zip(&expected) {
                        assert!(
                            (f64::from(*got) - expected).abs() < 1e-5,
                            "{m} {k} {n} {alpha} {beta}: {got} {expected}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_not_read_may_be_no_number() {
        let mut c = Array2::from_elem((40, 40), f32::NAN);
        matmul(
            1.0,
            matrix(40, 30).view(),
            matrix(30, 40).view(),
            0.0,
            c.view_mut(),
        );
        assert!(c.iter().all(|value| value.is_finite()));
    }

    #[test]
    fn views_with_gaps_are_multiplied_in_place() {
        let a = matrix(60, 80);
        let b = matrix(40, 50);
        let mut c = Array2::from_elem((30, 100), 7.0);
        let a = a.slice(s![..;2, ..40]);
        let b = b.slice(s![.., 10..]);
        matmul(1.0, a, b, 0.0, c.slice_mut(s![.., 20..60]));
        let expected = defined(1.0, a, b, 0.0, &Array2::zeros((30, 40)));
        for ((row, column), got) in c.indexed_iter() {
            if (20..60).contains(&column) {
                assert!((f64::from(*got) - expected[[row, column - 20]]).abs() < 1e-5)
            } else {
                assert_eq!(*got, 7.0)
            }
        }
    }

    #[test]
    fn any_number_of_threads_gives_the_same_bits() {
        for [m, k, n] in [
            [128, 429, 256],
            [512, 429, 429],
            [429, 512, 256],
            [512, 256, 429],
            [1000, 1100, 97],
            [4096, 700, 1],
        ] {
            let a = matrix(m, k);
            let b = matrix(k, n);
            let bt = matrix(n, k);
            let at = matrix(k, m);
            for (a, b) in [(a.view(), b.view()), (a.view(), bt.t()), (at.t(), b.view())] {
                let mut alone = Array2::zeros((m, n));
                matmul(1.0, a, b, 0.0, alone.view_mut());
                for count in 2..6 {
                    let pool = rayon::ThreadPoolBuilder::new()
                        .num_threads(count)
                        .build()
                        .expect("threads start");
                    let mut c = Array2::zeros((m, n));
                    pool.install(|| matmul(1.0, a, b, 0.0, c.view_mut()));
                    assert!(c == alone, "{count} threads, {m} {k} {n}");
                }
            }
        }
    }

    #[test]
    fn sizes_that_do_not_fit_are_told() {
        let wrong = || {
            matmul(
                1.0,
                matrix(2, 3).view(),
                matrix(2, 3).view(),
                0.0,
                Array2::zeros((2, 3)).view_mut(),
            )
        };
        match std::panic::catch_unwind(wrong) {
            Ok(()) => panic!("multiplied"),
            Err(message) => assert!(
                message
                    .downcast_ref::<String>()
                    .is_some_and(|text| text.starts_with("2x3 times 2x3"))
            ),
        }
    }
}
