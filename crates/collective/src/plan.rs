//! Buckets: gradients of many variables, summed a few megabytes at a time.

use std::ops::Range;

/// The place of a run of a variable's values in a bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Number of the bucket.
    pub bucket: usize,
    /// Range in the bucket.
    pub place: Range<usize>,
    /// Range of the variable's values.
    pub values: Range<usize>,
}

/// The assignment of values to buckets. Every member must make the same plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Number of values of each bucket.
    buckets: Vec<usize>,
    /// Pieces by variable.
    pieces: Vec<Vec<Piece>>,
}

impl Plan {
    /// Packs variables of these lengths, in values, into buckets of at most `bytes_max` bytes (and at least one value),
    /// in the given order. A variable that does not fit a bucket continues in the next one. A backward pass computes
    /// the last layer first: in that order, a bucket is full while other gradients are still being computed.
    /// [`trainyard_protocol::limits::BUCKET_BYTES`], 4 MiB, is a good size.
    ///
    /// # Errors
    /// The order does not name every variable once.
    pub fn new(lengths: &[usize], order: &[usize], bytes_max: usize) -> Result<Self, String> {
        let mut named = vec![false; lengths.len()];
        for &variable in order {
            match named.get_mut(variable) {
                Some(named) if !*named => *named = true,
                _ => {
                    return Err(format!(
                        "an order must name each of {} variables once, given variable {variable} \
                        twice or outside the range",
                        lengths.len()
                    ));
                }
            }
        }
        if let Some(missing) = named.iter().position(|named| !named) {
            return Err(format!(
                "an order must name every variable, variable {missing} is missing"
            ));
        }
        let most = (bytes_max / size_of::<f32>()).max(1);
        let mut buckets = Vec::<usize>::new();
        let mut pieces = vec![Vec::new(); lengths.len()];
        for &variable in order {
            let mut begin = 0;
            while begin < lengths[variable] {
                if buckets.last().is_none_or(|values| *values == most) {
                    buckets.push(0);
                }
                let bucket = buckets.len() - 1;
                let at = buckets[bucket];
                let count = (lengths[variable] - begin).min(most - at);
                buckets[bucket] += count;
                pieces[variable].push(Piece {
                    bucket,
                    place: at..at + count,
                    values: begin..begin + count,
                });
                begin += count;
            }
        }
        Ok(Self { buckets, pieces })
    }

    /// Returns the number of values of each bucket, in the order in which they are filled.
    pub fn buckets(&self) -> &[usize] {
        &self.buckets
    }

    /// Returns the pieces of a variable; none if there is no such variable.
    pub fn pieces(&self, variable: usize) -> &[Piece] {
        self.pieces.get(variable).map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_value_has_a_place_and_buckets_are_filled_in_order(
            lengths in prop::collection::vec(0_usize..50, 0..8), most in 1_usize..60, backwards in any::<bool>(),
        ) {
            let mut order: Vec<usize> = (0..lengths.len()).collect();
            if backwards {
                order.reverse();
            }
            let plan = Plan::new(&lengths, &order, most * 4).unwrap();
            let mut filled: Vec<Vec<(usize, usize)>> = vec![Vec::new(); plan.buckets().len()];
            for &variable in &order {
                let mut next = 0;
                for Piece { bucket, place, values } in plan.pieces(variable) {
                    prop_assert_eq!((filled[*bucket].len(), values.start), (place.start, next));
                    prop_assert_eq!(place.len(), values.len());
                    filled[*bucket].extend(values.clone().map(|value| (variable, value)));
                    next = values.end;
                }
                prop_assert_eq!(next, lengths[variable]);
            }
            for (bucket, values) in filled.iter().enumerate() {
                prop_assert_eq!(values.len(), plan.buckets()[bucket]);
                prop_assert!(values.len() == most || bucket + 1 == filled.len());
            }
        }
    }

    #[test]
    fn an_order_names_each_variable_once() {
        assert!(Plan::new(&[1, 2], &[0], 4).is_err());
        assert!(Plan::new(&[1, 2], &[0, 0], 4).is_err());
        assert!(Plan::new(&[1, 2], &[0, 2], 4).is_err());
        assert!(Plan::new(&[1, 2], &[1, 0], 4).is_ok());
    }
}
