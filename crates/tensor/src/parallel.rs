//! Work that the threads of a step share.
//!
//! A step that is run inside a rayon pool uses the threads of that pool, any other step its own thread alone: who runs
//! a step decides, nothing is global. Work is divided by what it writes, so that results are the same bits whatever the
//! number of threads.

/// Returns the number of threads that share the work of the caller, at least 1.
pub fn threads() -> usize {
    // Asked outside a pool, rayon would start one for the whole process.
    if rayon::current_thread_index().is_some() {
        rayon::current_num_threads()
    } else {
        1
    }
}

/// Runs both, at the same time if a thread is free, and returns what they return.
pub fn join<A: Send, B: Send>(
    one: impl FnOnce() -> A + Send,
    other: impl FnOnce() -> B + Send,
) -> (A, B) {
    if threads() == 1 {
        (one(), other())
    } else {
        rayon::join(one, other)
    }
}

/// Calls `work` with the number of the first row and the rows of each part of `matrix`, whose rows are `width` values
/// long: one part a thread, though none of less than `rows_min` rows.
///
/// # Panics
/// `width` is 0 and `matrix` is not empty.
pub fn for_rows(
    matrix: &mut [f32],
    width: usize,
    rows_min: usize,
    work: &(impl Fn(usize, &mut [f32]) + Sync),
) {
    for_rows_of(
        [matrix],
        width,
        rows_min,
        &|first, [part]: [&mut [f32]; 1]| {
            work(first, part);
        },
    );
}

/// As [`for_rows`], for matrices of the same shape: `work` gets the same rows of each.
///
/// # Panics
/// `width` is 0 and the matrices are not empty, or they are not of the same length.
pub fn for_rows_of<const N: usize>(
    matrices: [&mut [f32]; N],
    width: usize,
    rows_min: usize,
    work: &(impl Fn(usize, [&mut [f32]; N]) + Sync),
) {
    let values = matrices.first().map_or(0, |matrix| matrix.len());
    assert!(
        matrices.iter().all(|matrix| matrix.len() == values),
        "the matrices have the same shape"
    );
    let part = Part {
        first: 0,
        rows: values.checked_div(width).unwrap_or(0),
        matrices,
    };
    assert!(width > 0 || values == 0, "a row has values");
    divide(part, width, rows_min, threads(), work);
}

/// Rows of some matrices.
struct Part<'a, const N: usize> {
    first: usize,
    rows: usize,
    matrices: [&'a mut [f32]; N],
}

fn divide<const N: usize>(
    part: Part<'_, N>,
    width: usize,
    rows_min: usize,
    parts: usize,
    work: &(impl Fn(usize, [&mut [f32]; N]) + Sync),
) {
    let Part {
        first,
        rows,
        matrices,
    } = part;
    if parts == 1 || rows < 2 * rows_min.max(1) {
        work(first, matrices);
        return;
    }
    let left = parts / 2;
    let cut = (rows * left / parts).clamp(rows_min, rows - rows_min);
    let mut lower = std::array::from_fn(|_| <&mut [f32]>::default());
    let mut index = 0;
    let upper = matrices.map(|matrix| {
        let (one, other) = matrix.split_at_mut(cut * width);
        lower[index] = other;
        index += 1;
        one
    });
    let one = Part {
        first,
        rows: cut,
        matrices: upper,
    };
    let other = Part {
        first: first + cut,
        rows: rows - cut,
        matrices: lower,
    };
    join(
        || divide(one, width, rows_min, left, work),
        || divide(other, width, rows_min, parts - left, work),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_is_worked_on_once_by_any_number_of_threads() {
        for count in 1..5 {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(count)
                .build()
                .expect("threads start");
            for rows in [0, 1, 7, 64] {
                let mut matrix = vec![0.0; rows * 3];
                let number = |first: usize, part: &mut [f32]| {
                    for (row, values) in part.chunks_exact_mut(3).enumerate() {
                        values
                            .iter_mut()
                            .for_each(|value| *value += (first + row) as f32 + 1.0);
                    }
                };
                pool.install(|| for_rows(&mut matrix, 3, 2, &number));
                let expected: Vec<f32> = (0..rows).flat_map(|row| [row as f32 + 1.0; 3]).collect();
                assert_eq!(matrix, expected, "{count} threads, {rows} rows");

                let mut doubled = vec![0.0; rows * 3];
                let both = |first: usize, [part, doubled]: [&mut [f32]; 2]| {
                    number(first, part);
                    for (value, doubled) in part.iter().zip(doubled) {
                        *doubled = 2.0 * value;
                    }
                };
                let matrices = [matrix.as_mut_slice(), doubled.as_mut_slice()];
                pool.install(|| for_rows_of(matrices, 3, 2, &both));
                let twice: Vec<f32> = expected.iter().map(|value| 4.0 * value).collect();
                assert_eq!(doubled, twice, "{count} threads, {rows} rows");
            }
        }
    }

    #[test]
    fn outside_a_pool_there_is_one_thread() {
        assert_eq!(threads(), 1);
        assert_eq!(join(|| 1, || 2), (1, 2));
    }
}
