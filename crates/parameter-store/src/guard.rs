//! The check of a push against its guard, and the description of a violation.

use std::ops::Range;

use trainyard_cluster_spec::Task;

use crate::{BatchId, Gradients, Guard, unfit};

/// Values that are checked together.
const BLOCK_VALUES: usize = 4 << 10;
/// Number of partial sums of squares, which vectorise.
const LANES: usize = 16;

/// A violation of the guard by the values of a push.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// A value is infinite or NaN.
    Nonfinite,
    /// The norm of the values is too large.
    Norm,
    /// A value is too large.
    Abs,
}

impl Fault {
    /// All faults.
    pub const ALL: [Self; 3] = [Self::Nonfinite, Self::Norm, Self::Abs];

    /// Returns the name of the fault in telemetry.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nonfinite => "nonfinite",
            Self::Norm => "max_norm",
            Self::Abs => "max_abs",
        }
    }
}

/// The reason why the values of a push were rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rejection {
    /// Fault of the values.
    pub fault: Fault,
    /// Number of the variable that the value belongs to; absent = no single variable.
    pub variable: Option<u32>,
    /// Position of the value among the pushed values of the variable.
    pub position: u64,
    /// Bits of the value, or of the norm. Bits can be compared, whereas NaN equals nothing.
    pub bits: u32,
}

impl Rejection {
    /// Returns the value, or the norm.
    pub fn value(&self) -> f32 {
        f32::from_bits(self.bits)
    }

    /// Describes the fault. `name` returns the name of a variable.
    pub fn describe<'a>(&self, name: impl Fn(usize) -> Option<&'a str>) -> String {
        let position = self.position;
        let value = self.value();
        let of = self.variable.map(|variable| {
            name(variable as usize).map_or_else(
                || format!("variable {variable}"),
                |name| format!("`{name}`"),
            )
        });
        match (self.fault, of) {
            (Fault::Norm, _) => format!("the norm of its gradients is {value}"),
            (_, Some(of)) => format!("value {position} of its gradient of {of} is {value}"),
            (_, None) => format!("its loss is {value}"),
        }
    }
}

/// A push whose values were rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RejectedPush {
    /// Sequence number of the push.
    pub seq: u64,
    /// Batch of the push.
    pub batch: BatchId,
    /// Reason of the rejection.
    pub rejection: Rejection,
}

/// A session with rejected pushes among its latest ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejections {
    /// Task of the session.
    pub task: Task,
    /// Number of the session.
    pub session: u64,
    /// Number of rejected pushes among its latest 64.
    pub recent: u32,
    /// Batches of the latest rejected pushes.
    pub latest: Vec<BatchId>,
    /// Reason of the last one; absent = a server of an earlier release does not say it.
    pub reason: Option<Rejection>,
}

/// A value, or the norm, that violates the guard.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Found {
    /// Its fault.
    pub fault: Fault,
    /// Position of the value among all values.
    pub position: usize,
    /// The value, or the norm.
    pub value: f32,
}

impl Found {
    fn unfit(position: usize, value: f32) -> Self {
        let fault = if value.is_finite() {
            Fault::Abs
        } else {
            Fault::Nonfinite
        };
        Self {
            fault,
            position,
            value,
        }
    }
}

/// Checks all values of a push. The bounds are relaxed by the largest rounding error. The worker has checked the
/// values before they were rounded, and all servers must accept a batch, or none. The bounds do not apply to `averages`,
/// the places of moving averages in ascending order: their values are no gradients.
pub(crate) fn find<G: Gradients + ?Sized>(
    guard: &Guard,
    gradients: &G,
    averages: &[Range<usize>],
) -> Option<Found> {
    let mut scratch = Vec::new();
    if !guard.has_bounds() {
        let position = gradients.unfit()?;
        return Some(Found::unfit(
            position,
            gradients.get(position..position + 1, &mut scratch)[0],
        ));
    }
    let grown = 1.0 + gradients.rounding();
    let bounds = Guard {
        max_norm: guard.max_norm.map(|most| most * grown),
        max_abs: guard.max_abs.map(|most| most * grown),
        ..*guard
    };
    let mut bounded = Look::new(bounds);
    let mut unbounded = Look::new(guard.without_bounds());
    let mut at = |values: Range<usize>, look: &mut Look| {
        let end = values.end;
        values.step_by(BLOCK_VALUES).find_map(|begin| {
            let block = gradients.get(begin..end.min(begin + BLOCK_VALUES), &mut scratch);
            let found = look.at(block)?;
            let position = begin + found.position;
            Some(Found { position, ..found })
        })
    };
    let mut begin = 0;
    for average in averages {
        let found = at(begin..average.start, &mut bounded);
        let found = found.or_else(|| at(average.clone(), &mut unbounded));
        if found.is_some() {
            return found;
        }
        begin = average.end;
    }
    at(begin..gradients.values(), &mut bounded).or_else(|| bounded.end())
}

/// A check of values that arrive in pieces.
#[derive(Debug)]
pub struct Look {
    guard: Guard,
    squares: f64,
}

impl Look {
    /// Begins a check.
    pub fn new(guard: Guard) -> Self {
        Self {
            guard,
            squares: 0.0,
        }
    }

    /// Checks the next piece. The position in the result counts from the start of this piece.
    pub fn at(&mut self, values: &[f32]) -> Option<Found> {
        let found = |position: usize| Found::unfit(position, values[position]);
        if let Some(position) = unfit(values) {
            return Some(found(position));
        }
        if let Some(most) = self.guard.max_abs {
            let large = values
                .iter()
                .fold(false, |large, value| large | (value.abs() > most));
            if large {
                return values
                    .iter()
                    .position(|value| value.abs() > most)
                    .map(found);
            }
        }
        if self.guard.max_norm.is_some() {
            // Squares are summed in small blocks, so that rounding loses little. Squares of finite values fit doubles.
            for block in values.chunks(BLOCK_VALUES) {
                self.squares += squares(block);
            }
        }
        None
    }

    /// Checks the norm of all pieces together.
    pub fn end(self) -> Option<Found> {
        let norm = self.squares.sqrt();
        let most = self.guard.max_norm?;
        let found = Found {
            fault: Fault::Norm,
            position: 0,
            value: norm as f32,
        };
        (norm > f64::from(most)).then_some(found)
    }
}

fn squares(values: &[f32]) -> f64 {
    let mut sums = [0.0_f64; LANES];
    let (whole, rest) = values.as_chunks::<LANES>();
    for values in whole {
        sums.iter_mut()
            .zip(values)
            .for_each(|(sum, value)| *sum += f64::from(*value) * f64::from(*value));
    }
    sums.iter().sum::<f64>()
        + rest
            .iter()
            .map(|value| f64::from(*value) * f64::from(*value))
            .sum::<f64>()
}

/// Replaces infinity and NaN by 0. Returns the number of replaced values.
pub fn zero_nonfinite(values: &mut [f32]) -> usize {
    if unfit(values).is_none() {
        return 0;
    }
    let bad = values.iter_mut().filter(|value| !value.is_finite());
    bad.map(|value| *value = 0.0).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Nonfinite;

    const ANY: Guard = Guard {
        nonfinite: Nonfinite::Reject,
        max_norm: None,
        max_abs: None,
    };

    proptest! {
        #[test]
        fn what_is_not_finite_is_found_before_what_is_large(
            values in prop::collection::vec(
                prop_oneof![8 => -2.0_f32..2.0, 1 => Just(f32::NAN), 1 => Just(f32::NEG_INFINITY), 1 => Just(-9.0)], 0..40,
            ),
            max_abs in prop::option::of(0.5_f32..10.0),
        ) {
            let large = |value: &f32| max_abs.is_some_and(|most| value.abs() > most);
            let unfit = values.iter().position(|value| !value.is_finite());
            let expected = unfit.or_else(|| values.iter().position(large));
            let found = find(&Guard { max_abs, ..ANY }, values.as_slice(), &[]);
            prop_assert_eq!(found.map(|found| found.position), expected);
            if let Some(Found { fault, position, .. }) = found {
                prop_assert_eq!(fault == Fault::Abs, values[position].is_finite());
            }
        }

        #[test]
        fn a_norm_is_that_of_all_pieces(values in prop::collection::vec(-3.0_f32..3.0, 1..9000), cut in 0_usize..9000) {
            let norm = values.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt() as f32;
            let looked = |most: f32| {
                let mut look = Look::new(Guard { max_norm: Some(most), ..ANY });
                let (one, other) = values.split_at(cut.min(values.len()));
                assert_eq!((look.at(one), look.at(other)), (None, None));
                look.end()
            };
            prop_assert_eq!(looked(norm * 1.001 + 1e-6), None);
            let found = looked(norm * 0.999 - 1e-6).map(|found| (found.fault, (found.value - norm).abs() < 1e-3));
            prop_assert_eq!(found, Some((Fault::Norm, true)));
        }
    }

    #[test]
    fn finite_values_whose_squares_rules_cannot_add_up_are_found_whatever_the_bounds_are() {
        let bounds = [
            ANY,
            Guard {
                max_norm: Some(3e38),
                ..ANY
            },
            Guard {
                max_abs: Some(3e38),
                ..ANY
            },
        ];
        for (guard, value) in bounds
            .into_iter()
            .flat_map(|guard| [(guard, 2e20_f32), (guard, -2e15)])
        {
            let found = find(&guard, [0.0, 1e15, value].as_slice(), &[]);
            assert_eq!(
                found,
                Some(Found {
                    fault: Fault::Abs,
                    position: 2,
                    value
                }),
                "{guard:?}"
            );
        }
    }

    /// Gradients that were rounded on the wire.
    struct Rounded(Vec<f32>);

    impl Gradients for Rounded {
        fn values(&self) -> usize {
            self.0.len()
        }

        fn unfit(&self) -> Option<usize> {
            unfit(&self.0)
        }

        fn rounding(&self) -> f32 {
            1.0 / 128.0
        }

        fn get<'a>(
            &'a self,
            place: std::ops::Range<usize>,
            _scratch: &'a mut Vec<f32>,
        ) -> &'a [f32] {
            &self.0[place]
        }

        fn copy(&self) -> Vec<f32> {
            self.0.clone()
        }
    }

    #[test]
    fn bounds_give_way_by_the_rounding_of_what_they_are_looked_at_for() {
        for guard in [
            Guard {
                max_abs: Some(0.999),
                ..ANY
            },
            Guard {
                max_norm: Some(0.999),
                ..ANY
            },
        ] {
            // bfloat16 rounds 0.9985 to 1.
            assert_eq!(find(&guard, &Rounded(vec![1.0]), &[]), None, "{guard:?}");
            assert!(
                find(&guard, [1.0_f32].as_slice(), &[]).is_some(),
                "{guard:?}: where nothing was rounded"
            );
            assert!(
                find(&guard, &Rounded(vec![1.02]), &[]).is_some(),
                "{guard:?}"
            );
        }
    }

    #[test]
    fn bounds_leave_moving_averages_out_but_for_values_that_are_not_finite() {
        for guard in [
            Guard {
                max_abs: Some(2.0),
                ..ANY
            },
            Guard {
                max_norm: Some(2.0),
                ..ANY
            },
        ] {
            let at = |values: [f32; 4]| {
                find(&guard, values.as_slice(), &[1..2, 3..4]).map(|found| found.position)
            };
            assert_eq!(at([1.0, 900.0, 1.0, -900.0]), None, "{guard:?}");
            assert_eq!(at([1.0, 1.0, 1.0, f32::NAN]), Some(3), "{guard:?}");
            assert!(at([1.0, 1.0, 3.0, 1.0]).is_some(), "{guard:?}");
            assert!(at([3.0, 1.0, 1.0, 1.0]).is_some(), "{guard:?}");
        }
    }

    #[test]
    fn what_is_no_number_becomes_zero_and_nothing_else() {
        let mut values = [1.0, f32::NAN, -2.0, f32::INFINITY];
        assert_eq!(zero_nonfinite(&mut values), 2);
        assert_eq!(values, [1.0, 0.0, -2.0, 0.0]);
        assert_eq!(zero_nonfinite(&mut values), 0);
    }
}
