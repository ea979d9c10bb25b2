//! Buckets: gradients of many variables, summed a few megabytes at a time.

use std::ops::Range;

/// A run of values of one variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Number of the variable.
    pub variable: usize,
    /// Its values.
    pub values: Range<usize>,
}

/// Which values travel together. Every member must make the same one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    lengths: Vec<usize>,
    buckets: Vec<Vec<Piece>>,
}

impl Plan {
    /// Packs variables of these lengths, in values, into buckets of at most `bytes_max` bytes (and at least one value),
    /// in the given order; a variable that does not fit a bucket goes on in the next one. Backward passes are done with
    /// the last layer first: in that order a bucket is full while others are still computed.
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
                        "an order must name each of {} variables once, given {variable} again or in excess",
                        lengths.len()
                    ));
                }
            }
        }
        if let Some(missing) = named.iter().position(|named| !named) {
            return Err(format!("an order must name every variable, {missing} is missing"));
        }
        let most = (bytes_max / size_of::<f32>()).max(1);
        let (mut buckets, mut room) = (Vec::new(), 0);
        for &variable in order {
            let mut begin = 0;
            while begin < lengths[variable] {
                if room == 0 {
                    buckets.push(Vec::new());
                    room = most;
                }
                let end = lengths[variable].min(begin + room);
                if let Some(bucket) = buckets.last_mut() {
                    bucket.push(Piece { variable, values: begin..end });
                }
                room -= end - begin;
                begin = end;
            }
        }
        Ok(Self { lengths: lengths.to_vec(), buckets })
    }

    /// Returns the pieces of each bucket.
    pub fn buckets(&self) -> &[Vec<Piece>] {
        &self.buckets
    }

    /// Replaces `out` by the values of a bucket, end to end.
    ///
    /// # Panics
    /// There is no such bucket, or the gradients are not those of the plan.
    pub fn pack(&self, bucket: usize, gradients: &[Vec<f32>], out: &mut Vec<f32>) {
        out.clear();
        for Piece { variable, values } in &self.buckets[bucket] {
            out.extend_from_slice(&gradients[*variable][values.clone()]);
        }
    }

    /// Puts the values of a bucket back where they came from.
    ///
    /// # Panics
    /// There is no such bucket, or the gradients or values are not those of the plan.
    pub fn unpack(&self, bucket: usize, packed: &[f32], gradients: &mut [Vec<f32>]) {
        let mut rest = packed;
        for Piece { variable, values } in &self.buckets[bucket] {
            let (here, later) = rest.split_at(values.len());
            gradients[*variable][values.clone()].copy_from_slice(here);
            rest = later;
        }
    }

    /// Returns what is wrong with gradients that are not those of the plan.
    pub(crate) fn check(&self, gradients: &[Vec<f32>]) -> Result<(), String> {
        if gradients.len() != self.lengths.len() {
            let (given, expected) = (gradients.len(), self.lengths.len());
            return Err(format!(
                "a plan of {expected} variables must be given as many gradients, given {given}"
            ));
        }
        let wrong = gradients.iter().zip(&self.lengths).position(|(values, length)| values.len() != *length);
        wrong.map_or(Ok(()), |variable| {
            let (given, expected) = (gradients[variable].len(), self.lengths[variable]);
            Err(format!("the gradient of variable {variable} must have {expected} values, given {given}"))
        })
    }

    /// Returns the memory of each bucket. The gradients have been checked.
    pub(crate) fn slices<'a>(&self, gradients: &'a mut [Vec<f32>]) -> Vec<(u32, Vec<&'a mut [f32]>)> {
        // Pieces of one variable follow each other from bucket to bucket.
        let mut rests: Vec<&mut [f32]> = gradients.iter_mut().map(Vec::as_mut_slice).collect();
        let buckets = self.buckets.iter().enumerate().map(|(bucket, pieces)| {
            let pieces = pieces.iter().map(|Piece { variable, values }| {
                let rest = std::mem::take(&mut rests[*variable]);
                let (here, later) = rest.split_at_mut(values.len());
                rests[*variable] = later;
                here
            });
            (bucket as u32, pieces.collect())
        });
        buckets.collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_value_is_in_one_bucket_and_comes_back(
            lengths in prop::collection::vec(0_usize..50, 0..8), most in 1_usize..60, backwards in any::<bool>(),
        ) {
            let mut order: Vec<usize> = (0..lengths.len()).collect();
            if backwards {
                order.reverse();
            }
            let plan = Plan::new(&lengths, &order, most * 4).unwrap();
            let mut next = 0.0;
            let mut value = || {
                next += 1.0;
                next
            };
            let gradients: Vec<Vec<f32>> =
                lengths.iter().map(|length| (0..*length).map(|_| value()).collect()).collect();
            let mut back: Vec<Vec<f32>> = lengths.iter().map(|length| vec![0.0; *length]).collect();
            let mut packed = Vec::new();
            for bucket in 0..plan.buckets().len() {
                plan.pack(bucket, &gradients, &mut packed);
                prop_assert!(packed.len() <= most);
                prop_assert!(packed.len() == most || bucket + 1 == plan.buckets().len());
                plan.unpack(bucket, &packed, &mut back);
            }
            prop_assert_eq!(&back, &gradients);
            let mut own = gradients.clone();
            for (bucket, slices) in plan.slices(&mut own) {
                plan.pack(bucket as usize, &gradients, &mut packed);
                prop_assert_eq!(&slices.concat(), &packed);
            }
        }
    }

    #[test]
    fn an_order_names_each_variable_once() {
        assert!(Plan::new(&[1, 2], &[0], 4).is_err());
        assert!(Plan::new(&[1, 2], &[0, 0], 4).is_err());
        assert!(Plan::new(&[1, 2], &[0, 2], 4).is_err());
        let plan = Plan::new(&[1, 2], &[1, 0], 4).unwrap();
        assert!(plan.check(&[vec![0.0], vec![0.0]]).is_err());
        assert!(plan.check(&[vec![0.0]]).is_err());
        assert!(plan.check(&[vec![0.0], vec![0.0; 2]]).is_ok());
    }
}
