//! A gradient of some rows of a table (`tf.IndexedSlices`).

/// Rows and their values. The same row may stand in it more than once.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct IndexedSlices {
    /// Row numbers.
    pub rows: Vec<u32>,
    /// `rows.len() x width` values.
    pub values: Vec<f32>,
    /// Values in a row, at least 1.
    pub width: usize,
}

impl IndexedSlices {
    /// Returns the same gradient with each row once, in ascending order, repeated rows summed in their order.
    #[must_use]
    pub fn summed(&self) -> Self {
        let mut order: Vec<usize> = (0..self.rows.len()).collect();
        order.sort_by_key(|&position| self.rows[position]);
        let mut out = Self {
            rows: Vec::new(),
            values: Vec::new(),
            width: self.width,
        };
        for position in order {
            let values = &self.values[position * self.width..(position + 1) * self.width];
            if out.rows.last() == Some(&self.rows[position]) {
                let begin = out.values.len() - self.width;
                out.values[begin..]
                    .iter_mut()
                    .zip(values)
                    .for_each(|(sum, value)| *sum += value);
            } else {
                out.rows.push(self.rows[position]);
                out.values.extend_from_slice(values);
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_rows_are_summed() {
        let slices = IndexedSlices {
            rows: vec![2, 0, 2],
            values: vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
            width: 2,
        };
        let summed = slices.summed();
        assert_eq!(
            (summed.rows, summed.values),
            (vec![0, 2], vec![3.0, 4.0, 6.0, 8.0])
        );
    }
}
