//! Vectors of a table to places in a matrix, and back.
//!
//! A table is row-major, a vector a row. In each row of the matrix, which is `width` values long, a vector stands at
//! `begin`.

use pulp::Arch;

/// Calls `$kernel` with the number of values of a vector as a constant where it is a usual one, so that a vector is
/// moved by an instruction or two, else with 0.
macro_rules! by_dimension {
    ($dimension:expr, $kernel:ident($($argument:expr),*)) => {
        match $dimension {
            4 => $kernel::<4>($($argument),*),
            8 => $kernel::<8>($($argument),*),
            16 => $kernel::<16>($($argument),*),
            32 => $kernel::<32>($($argument),*),
            64 => $kernel::<64>($($argument),*),
            _ => $kernel::<0>($($argument),*),
        }
    };
}

/// The columns of a matrix in which a vector stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VectorColumns {
    /// Values of a vector.
    pub dimension: usize,
    /// First column.
    pub begin: usize,
    /// Columns of the matrix.
    pub width: usize,
}

/// Copies vector `places[r]` of `table` into these columns of row `r` of `out`.
///
/// # Panics
/// A place is not in the table, or a vector does not fit into a row at `begin`.
pub fn gather(table: &[f32], places: &[u32], out: &mut [f32], columns: VectorColumns) {
    Arch::new().dispatch(
        #[inline(always)]
        || by_dimension!(columns.dimension, copy(table, places, out, columns)),
    );
}

#[inline(always)]
fn copy<const N: usize>(table: &[f32], places: &[u32], out: &mut [f32], columns: VectorColumns) {
    let VectorColumns { begin, width, .. } = columns;
    let dimension = if N > 0 { N } else { columns.dimension };
    for (row, place) in out.chunks_exact_mut(width).zip(places) {
        let vector = &table[*place as usize * dimension..][..dimension];
        row[begin..][..dimension].copy_from_slice(vector);
    }
}

/// Adds these columns of row `r` of `matrix` to vector `places[r]` of `table`.
///
/// # Panics
/// As [`gather`].
pub fn scatter_add(matrix: &[f32], places: &[u32], table: &mut [f32], columns: VectorColumns) {
    Arch::new().dispatch(
        #[inline(always)]
        || by_dimension!(columns.dimension, add(matrix, places, table, columns)),
    );
}

#[inline(always)]
fn add<const N: usize>(matrix: &[f32], places: &[u32], table: &mut [f32], columns: VectorColumns) {
    let VectorColumns { begin, width, .. } = columns;
    let dimension = if N > 0 { N } else { columns.dimension };
    for (row, place) in matrix.chunks_exact(width).zip(places) {
        let vector = &mut table[*place as usize * dimension..][..dimension];
        vector
            .iter_mut()
            .zip(&row[begin..][..dimension])
            .for_each(|(sum, value)| *sum += value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_go_to_their_rows_and_gradients_to_their_vectors() {
        for dimension in [1, 3, 4, 8, 16, 32, 64] {
            let width = dimension + 3;
            let begin = 2;
            let places = [2, 0, 2];
            let table: Vec<f32> = (0..3 * dimension).map(|value| value as f32).collect();
            let mut out = vec![-1.0; 3 * width];
            let columns = VectorColumns {
                dimension,
                begin,
                width,
            };
            gather(&table, &places, &mut out, columns);
            for (row, place) in out.chunks_exact(width).zip(places) {
                assert_eq!(
                    row[begin..][..dimension],
                    table[place as usize * dimension..][..dimension]
                );
                assert_eq!(
                    (row[0], row[1], row[width - 1]),
                    (-1.0, -1.0, -1.0),
                    "the rest stays"
                );
            }
            let mut sums = vec![0.5; 3 * dimension];
            scatter_add(&out, &places, &mut sums, columns);
            let times = [1.0, 0.0, 2.0];
            for (place, (sum, value)) in sums.iter().zip(&table).enumerate() {
                assert_eq!(*sum, 0.5 + times[place / dimension] * value);
            }
        }
    }
}
