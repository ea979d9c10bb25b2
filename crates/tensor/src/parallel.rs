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
    divide(matrix, width, rows_min, threads(), 0, work);
}

fn divide(
    matrix: &mut [f32],
    width: usize,
    rows_min: usize,
    parts: usize,
    first: usize,
    work: &(impl Fn(usize, &mut [f32]) + Sync),
) {
    let rows = if matrix.is_empty() {
        0
    } else {
        matrix.len() / width
    };
    if parts == 1 || rows < 2 * rows_min.max(1) {
        work(first, matrix);
        return;
    }
    let left = parts / 2;
    let cut = (rows * left / parts).clamp(rows_min, rows - rows_min);
    let (one, other) = matrix.split_at_mut(cut * width);
    join(
        || divide(one, width, rows_min, left, first, work),
        || divide(other, width, rows_min, parts - left, first + cut, work),
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
            }
        }
    }

    #[test]
    fn outside_a_pool_there_is_one_thread() {
        assert_eq!(threads(), 1);
        assert_eq!(join(|| 1, || 2), (1, 2));
    }
}
