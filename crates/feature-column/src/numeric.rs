//! `numeric_column`: normalised numbers.

use std::borrow::Cow;
use std::sync::Arc;

use trainyard_input::{Batch, Cells, FieldKind, Fraction, RowRule, Schema};
use trainyard_run_config::{Bin, LOG_MIN, Normalizer, Numbers, QuantileMap, Time};

use crate::Error;

/// Number of integers, from 0, whose logarithm is cached.
const COUNTS: u16 = 1024;

/// The reason why a row without a time cannot be used.
const TIME_MISSING: &str = "a time is missing, and the feature has no default";

/// The rule that a field holds a time.
#[derive(Debug)]
struct TimePresent {
    field: usize,
}

impl RowRule for TimePresent {
    fn check(&self, batch: &Batch, row: usize) -> Result<(), String> {
        match &batch.columns[self.field].cells {
            Cells::Int(times) if times.get(row) == Some(&FieldKind::MISSING_TIME) => {
                Err(TIME_MISSING.to_owned())
            }
            _ => Ok(()),
        }
    }
}

/// A numeric feature.
#[derive(Debug, Clone)]
pub struct Numeric {
    /// Name of the feature.
    pub name: String,
    /// The feature feeds the linear part.
    pub wide: bool,
    /// The feature feeds the deep part.
    pub deep: bool,
    /// First column of the feature in a row of [`crate::Features::numbers`].
    pub begin: usize,
    /// Number of columns in a row, at least 1: as many for each number of a field as its encoding has parts.
    pub width: usize,
    /// Configuration of the numbers in the job.
    pub numbers: Numbers,
    pub(crate) source: Source,
}

/// Source of numbers, with their transformations.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    pub(crate) field: usize,
    /// Field of the other column, if there is one.
    pub(crate) operand_field: Option<usize>,
    pub(crate) width: usize,
    numbers: Numbers,
    /// log1p of the integers from 0. Most numbers under log1p are small counts.
    logarithms: Arc<[f32]>,
    /// Function of the normalizer `quantile`.
    quantile_map: Option<Arc<QuantileMap>>,
}

impl Source {
    /// Adds the fields of the numbers to a schema.
    pub(crate) fn new(numbers: &Numbers, separator: Option<u8>, schema: &mut Schema) -> Self {
        let floats = || FieldKind::Float {
            width: numbers.width,
            separator,
            default: numbers.default.clone(),
        };
        let kind = match numbers.time {
            // Times of today in seconds have more digits than a 32-bit float.
            Some(time) => FieldKind::Int {
                separator: None,
                fraction: Fraction::Time(time.unit),
            },
            None => floats(),
        };
        let field = schema.want(&numbers.column, kind);
        if numbers.time.is_some() && numbers.default.is_none() {
            schema.require(field, TimePresent { field });
        }
        let operand_field = numbers
            .operand
            .as_ref()
            .map(|operand| schema.want(operand.column(), floats()));
        let logarithms = match numbers.normalizer {
            Normalizer::Log1p => (0..COUNTS).map(|count| f32::from(count).ln_1p()).collect(),
            Normalizer::None
            | Normalizer::SignedLog1p
            | Normalizer::Log
            | Normalizer::MinMax { .. }
            | Normalizer::Standardize { .. }
            | Normalizer::Quantile { .. } => Arc::from([]),
        };
        Self {
            field,
            operand_field,
            width: numbers.width,
            numbers: numbers.clone(),
            logarithms,
            quantile_map: numbers.normalizer.quantile_map().map(Arc::new),
        }
    }

    /// Returns the numbers of a batch before normalisation, `rows x width`.
    ///
    /// # Errors
    /// A row holds another count of numbers, or no time.
    pub(crate) fn values<'a>(&self, batch: &'a Batch) -> Result<Cow<'a, [f32]>, Error> {
        if let Some(time) = self.numbers.time {
            return Ok(Cow::Owned(self.parts_of_times(time, batch)?));
        }
        let values = self.floats(&self.numbers.column, self.field, batch)?;
        match (&self.numbers.operand, self.operand_field) {
            (Some(operand), Some(field)) => {
                let others = self.floats(operand.column(), field, batch)?;
                let pairs = values.iter().zip(others);
                Ok(Cow::Owned(
                    pairs
                        .map(|(value, other)| operand.combine(*value, *other))
                        .collect(),
                ))
            }
            _ => Ok(Cow::Borrowed(values)),
        }
    }

    fn parts_of_times(&self, time: Time, batch: &Batch) -> Result<Vec<f32>, Error> {
        let default = self
            .numbers
            .default
            .as_ref()
            .and_then(|default| default.first())
            .copied();
        let Cells::Int(times) = &batch.columns[self.field].cells else {
            return Err(self.wrong("must hold times, given another type".to_owned()));
        };
        let part = |at: &i64| match default {
            _ if *at != FieldKind::MISSING_TIME => Ok(time.of(*at)),
            Some(default) => Ok(default),
            None => Err(self.wrong(TIME_MISSING.to_owned())),
        };
        times.iter().map(part).collect()
    }

    fn floats<'a>(&self, name: &str, field: usize, batch: &'a Batch) -> Result<&'a [f32], Error> {
        let column = &batch.columns[field];
        let wrong = |message: String| Error {
            column: name.to_owned(),
            message,
        };
        let Cells::Float(values) = &column.cells else {
            return Err(wrong("must hold numbers, given another type".to_owned()));
        };
        if column.offsets.is_some() {
            return Err(wrong(format!(
                "must hold {} numbers in every row, given any number",
                self.width
            )));
        }
        // All rows hold the same count of numbers.
        match column.row(0, batch.rows).len() {
            held if held == self.width => Ok(values),
            held => Err(wrong(format!(
                "each row must hold {} numbers, given {held}",
                self.width
            ))),
        }
    }

    fn wrong(&self, message: String) -> Error {
        Error {
            column: self.numbers.column.clone(),
            message,
        }
    }

    /// Returns the number, clipped to its bounds and normalised.
    #[inline]
    pub(crate) fn normalize(&self, value: f32) -> f32 {
        let value = match self.numbers.clip {
            Some([least, most]) => value.clamp(least, most),
            None => value,
        };
        if let Some(map) = &self.quantile_map {
            return map.of(value);
        }
        match self.numbers.normalizer {
            Normalizer::None | Normalizer::Quantile { .. } => value,
            Normalizer::Log1p => {
                let value = value.max(0.0);
                match self.logarithms.get(value as usize) {
                    Some(logarithm) if (value as usize as f32).to_bits() == value.to_bits() => {
                        *logarithm
                    }
                    _ => value.ln_1p(),
                }
            }
            // One of both terms is 0.
            Normalizer::SignedLog1p => value.max(0.0).ln_1p() - (-value).max(0.0).ln_1p(),
            Normalizer::Log => value.max(LOG_MIN).ln(),
            Normalizer::MinMax { min, max } => (value - min) / (max - min),
            Normalizer::Standardize { mean, stddev } => (value - mean) / stddev,
        }
    }
}

impl Numeric {
    /// Returns the field of the numbers.
    pub fn field(&self) -> usize {
        self.source.field
    }

    /// Returns the field of the other column with which the numbers are combined, if there is one.
    pub fn operand_field(&self) -> Option<usize> {
        self.source.operand_field
    }

    /// Writes the numbers of a batch into rows of `total` columns.
    pub(crate) fn fill(&self, batch: &Batch, total: usize, out: &mut [f32]) -> Result<(), Error> {
        let values = self.source.values(batch)?;
        let rows = out
            .chunks_exact_mut(total)
            .zip(values.chunks_exact(self.source.width));
        if self.numbers.piecewise_linear.is_none() {
            for (row, values) in rows {
                for (place, value) in row[self.begin..].iter_mut().zip(values) {
                    *place = self.source.normalize(*value);
                }
            }
            return Ok(());
        }
        let bins: Vec<Bin> = self.numbers.bins().collect();
        for (row, values) in rows {
            let row = &mut row[self.begin..self.begin + self.width];
            for (places, value) in row.chunks_exact_mut(bins.len()).zip(values) {
                let number = self.source.normalize(*value);
                for (place, bin) in places.iter_mut().zip(&bins) {
                    *place = bin.of(number);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use trainyard_input::Column;
    use trainyard_run_config::{Operand, OutputDistribution, TimePart, TimeUnit};

    use super::*;

    /// Transforms a column, together with a second column if the numbers are combined.
    fn made(numbers: Numbers, columns: Vec<Column>) -> Result<Vec<f32>, Error> {
        let mut schema = Schema::default();
        let source = Source::new(&numbers, None, &mut schema);
        let rows = columns[0].cells.len() / numbers.width;
        let batch = Batch {
            rows,
            columns,
            ..Batch::default()
        };
        Ok(source
            .values(&batch)?
            .iter()
            .map(|value| source.normalize(*value))
            .collect())
    }

    fn floats(values: &[f32]) -> Column {
        Column::floats(values.to_vec())
    }

    fn numbers() -> Numbers {
        Numbers::of("x".to_owned())
    }

    #[test]
    fn numbers_are_bounded_and_then_brought_into_range() {
        let clipped = Numbers {
            clip: Some([0.0, 10.0]),
            ..numbers()
        };
        let values = [floats(&[-5.0, 4.0, 70.0])];
        assert_eq!(
            made(clipped.clone(), values.to_vec()).expect("numbers"),
            [0.0, 4.0, 10.0]
        );
        let ranged = Numbers {
            normalizer: Normalizer::MinMax { min: 0.0, max: 5.0 },
            ..clipped
        };
        assert_eq!(
            made(ranged, values.to_vec()).expect("numbers"),
            [0.0, 0.8, 2.0]
        );
        let signed = Numbers {
            normalizer: Normalizer::SignedLog1p,
            ..numbers()
        };
        let values = made(signed, vec![floats(&[-3.0, 0.0, 7.0])]).expect("numbers");
        assert_eq!(values, [-4_f32.ln(), 0.0, 8_f32.ln()]);
        let log = Numbers {
            normalizer: Normalizer::Log,
            ..numbers()
        };
        let values = made(log, vec![floats(&[1.0, 0.0, -3.0])]).expect("numbers");
        assert_eq!(values, [0.0, LOG_MIN.ln(), LOG_MIN.ln()]);
    }

    #[test]
    fn a_number_under_quantiles_is_clipped_before() {
        let quantiles = Numbers {
            clip: Some([0.0, 3.0]),
            normalizer: Normalizer::Quantile {
                quantiles: vec![0.0, 2.0, 4.0],
                output_distribution: OutputDistribution::Uniform,
            },
            ..numbers()
        };
        let values = vec![floats(&[-1.0, 1.0, 2.0, 9.0])];
        assert_eq!(
            made(quantiles, values).expect("numbers"),
            [0.0, 0.25, 0.5, 0.75]
        );
    }

    #[test]
    fn a_piecewise_linear_number_is_the_filled_share_of_each_bin_and_goes_on_beyond_the_outermost()
    {
        let encoded = Numbers {
            piecewise_linear: Some(vec![0.0, 2.0, 3.0, 7.0]),
            ..numbers()
        };
        let of = |number: f32| {
            encoded
                .bins()
                .map(|bin| bin.of(number))
                .collect::<Vec<f32>>()
        };
        assert_eq!(encoded.parts(), 3);
        // As in equation 1 of Gorishniy et al. (2022).
        assert_eq!(of(-1.0), [-0.5, 0.0, 0.0]);
        assert_eq!(of(1.0), [0.5, 0.0, 0.0]);
        assert_eq!(of(2.0), [1.0, 0.0, 0.0]);
        assert_eq!(of(2.5), [1.0, 0.5, 0.0]);
        assert_eq!(of(5.0), [1.0, 1.0, 0.5]);
        assert_eq!(of(11.0), [1.0, 1.0, 2.0]);
        let one = Numbers {
            piecewise_linear: Some(vec![1.0, 3.0]),
            ..numbers()
        };
        let alone: Vec<f32> = one.bins().map(|bin| bin.of(-1.0)).collect();
        assert_eq!(alone, [-1.0], "one bin is a line");
    }

    #[test]
    fn two_columns_are_subtracted_and_divided_and_a_number_by_zero_is_zero() {
        let columns = || vec![floats(&[6.0, 5.0, 4.0]), floats(&[3.0, 0.0, 8.0])];
        let minus = Numbers {
            operand: Some(Operand::Minus("y".to_owned())),
            ..numbers()
        };
        assert_eq!(made(minus, columns()).expect("numbers"), [3.0, 5.0, -4.0]);
        let ratio = Numbers {
            operand: Some(Operand::DividedBy("y".to_owned())),
            ..numbers()
        };
        assert_eq!(made(ratio, columns()).expect("numbers"), [2.0, 0.0, 0.5]);
    }

    #[test]
    fn hours_and_days_of_the_week_are_those_of_the_calendar() {
        let of = |part, unit, times: &[i64], default: Option<f32>| {
            let time = Some(Time { part, unit });
            let default = default.map(|default| vec![default]);
            made(
                Numbers {
                    time,
                    default,
                    ..numbers()
                },
                vec![Column::ints(times.to_vec())],
            )
        };
        // 2026-11-23, a Monday, 23:59:59, and one second later; 1969-12-31, a Wednesday, 22:00.
        let times = [1_795_478_399, 1_795_478_400, -7200];
        let hours = of(TimePart::Hour, TimeUnit::Seconds, &times, None).expect("times");
        assert_eq!(hours, [23.0, 0.0, 22.0]);
        let days = of(TimePart::Weekday, TimeUnit::Seconds, &times, None).expect("times");
        assert_eq!(days, [0.0, 1.0, 2.0]);
        let milliseconds = [1_795_478_399_999];
        let days = of(
            TimePart::Weekday,
            TimeUnit::Milliseconds,
            &milliseconds,
            None,
        )
        .expect("times");
        assert_eq!(days, [0.0]);
        assert_eq!(
            of(
                TimePart::Hour,
                TimeUnit::Seconds,
                &[FieldKind::MISSING_TIME],
                Some(12.0)
            )
            .expect("a default"),
            [12.0]
        );
        let error = of(
            TimePart::Hour,
            TimeUnit::Seconds,
            &[FieldKind::MISSING_TIME],
            None,
        )
        .expect_err("none is there");
        assert!(error.to_string().contains("a time is missing"), "{error}");
    }
}
