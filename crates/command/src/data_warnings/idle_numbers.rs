//! Features that tell no records apart, by their settings or by the numbers of their column: clips and ranges beyond all numbers,
//! logarithms of negative ones, and quotients of a column by itself.

use trainyard_diagnostic::Diagnostic;
use trainyard_input::ColumnProfile;
use trainyard_run_config::{
    FeatureConfig, FeatureKind, LOG_MIN, Normalizer, Numbers, Operand, TimePart,
};

use super::warning;

/// Deviations between the mean of a job and that of the records that are no coincidence.
const DEVIATIONS_MAX: f64 = 10.0;

/// Factor between the deviation of a job and that of the records that is no coincidence.
const FACTOR_MAX: f64 = 100.0;

/// Warns about a feature that is the same for all records, whatever they hold.
pub(super) fn look_at_settings(feature: &FeatureConfig) -> Option<Diagnostic> {
    let name = &feature.name;
    let of_bounds = || match &feature.kind {
        FeatureKind::Numeric(numbers) => one_number(numbers),
        FeatureKind::Bucketized {
            numbers,
            boundaries,
        } => one_number(numbers).or_else(|| one_bucket(numbers, boundaries)),
        _ => None,
    };
    if let Some(why) = of_bounds() {
        return Some(warning(
            format!("the feature `{name}` distinguishes no records: {why}"),
            "correct the key, or leave the feature out",
        ));
    }
    let why = match &feature.kind {
        FeatureKind::Numeric(numbers) | FeatureKind::Bucketized { numbers, .. } => {
            let operand = numbers.operand.as_ref()?;
            if *operand.column() != numbers.column {
                return None;
            }
            match operand {
                Operand::Minus(_) => "minus is its own column: it is 0 in all records",
                Operand::DividedBy(_) => {
                    "divided_by is its own column: it is 1 in all records, and 0 where that is 0"
                }
            }
        }
        FeatureKind::Hashed { buckets: 1, .. }
        | FeatureKind::Identity { buckets: 1, .. }
        | FeatureKind::Crossed { buckets: 1, .. } => "buckets is 1: all values have the same id",
        _ => return None,
    };
    Some(warning(
        format!("the feature `{name}` distinguishes no records: {why}"),
        "correct the key, or leave the feature out",
    ))
}

/// Returns the least and the greatest number that a feature may have by its settings, before its normalizer.
fn settled(numbers: &Numbers) -> Option<[f32; 2]> {
    let of_time: Option<[f32; 2]> = numbers.time.map(|time| match time.part {
        TimePart::Hour => [0.0, 23.0],
        TimePart::Weekday => [0.0, 6.0],
    });
    match (of_time, numbers.clip) {
        (Some([least, most]), Some([low, high])) => {
            Some([least.clamp(low, high), most.clamp(low, high)])
        }
        (of_time, clip) => of_time.or(clip),
    }
}

/// Says why a clip makes one number of all numbers.
fn one_number(numbers: &Numbers) -> Option<String> {
    let [least, most] = settled(numbers)?;
    if least == most {
        return Some(format!(
            "clip makes {least} of all values of `time`, which are below 24"
        ));
    }
    if let Normalizer::Quantile { quantiles, .. } = &numbers.normalizer {
        let (first, last) = (quantiles.first()?, quantiles.last()?);
        return (most <= *first || least >= *last).then(|| {
            format!(
                "its numbers are from {least} to {most}, by time and clip, and the quantiles of its normalizer from {first} to {last}"
            )
        });
    }
    let bound = match numbers.normalizer {
        Normalizer::Log1p => 0.0,
        Normalizer::Log => LOG_MIN,
        _ => return None,
    };
    (most <= bound).then(|| {
        format!(
            "clip lets no number above {most}, and the logarithm makes one number of all of them"
        )
    })
}

/// Says why all numbers are in one bucket.
fn one_bucket(numbers: &Numbers, boundaries: &[f32]) -> Option<String> {
    let [least, most] = settled(numbers)?.map(|number| normalized(&numbers.normalizer, number));
    let (first, last) = (boundaries.first()?, boundaries.last()?);
    (most < *first || least >= *last).then(|| {
        format!(
            "its numbers are from {least} to {most}, by time, clip and normalizer, and its boundaries from {first} to {last}: all are in one bucket"
        )
    })
}

fn normalized(normalizer: &Normalizer, number: f32) -> f32 {
    match *normalizer {
        Normalizer::None => number,
        Normalizer::Log1p => number.max(0.0).ln_1p(),
        Normalizer::SignedLog1p => number.abs().ln_1p().copysign(number),
        Normalizer::Log => number.max(LOG_MIN).ln(),
        Normalizer::MinMax { min, max } => (number - min) / (max - min),
        Normalizer::Standardize { mean, stddev } => (number - mean) / stddev,
        // No feature with buckets has it.
        Normalizer::Quantile { .. } => number,
    }
}

/// Returns the distance from a number to the next one of 32 bits.
pub(super) fn step_at(number: f64) -> f64 {
    let near = (number as f32).abs();
    f64::from(near.next_up()) - f64::from(near)
}

/// Returns the deviation of numbers if they are far from a mean and a deviation of a job.
pub(super) fn is_other_scale(
    [mean, stddev]: [f32; 2],
    found: &trainyard_input::Numbers,
) -> Option<f64> {
    let (mean, stddev) = (f64::from(mean), f64::from(stddev));
    let own = found.stddev();
    // The mean is a number of 32 bits.
    let step = step_at(found.max.max(-found.min));
    let is_far = (mean - found.mean).abs() > DEVIATIONS_MAX * own.max(stddev).max(step);
    let is_of_another_scale = own > 0.0 && (stddev > FACTOR_MAX * own || own > FACTOR_MAX * stddev);
    (is_far || is_of_another_scale).then_some(own)
}

/// Warns about settings that do not fit the numbers of a column.
pub(super) fn look_at_numbers(numbers: &Numbers, column: &ColumnProfile) -> Option<Diagnostic> {
    let is_plain = numbers.time.is_none() && numbers.operand.is_none();
    let found = &column.numbers;
    if !is_plain || !column.is_numeric() || found.count == 0 {
        return None;
    }
    let name = &column.name;
    let (least, most) = (found.min, found.max);
    let range = format!("`{name}` is from {least} to {most} in the sample");
    // `as` rounds to the nearest number of 32 bits, as the reader of the files does.
    if column.distinct() > 1 && least as f32 == most as f32 {
        return Some(warning(
            format!(
                "the {} different numbers of `{name}` are one number in the 32 bits that features have, {}",
                column.distinct(),
                least as f32
            ),
            "if they name something, choose a kind for names, as hashed; otherwise write them without what all have in common, as differences",
        ));
    }
    let (different, of_features) = column.different_numbers();
    if (of_features as f64) < KEPT_SHARE_MIN * different as f64 {
        return Some(warning(
            format!(
                "`{name}` holds numbers from {least} to {most}: {different} different ones of the sample are {of_features} in the 32 bits that \
                 features have"
            ),
            "if they name something, choose a kind for names, as hashed; otherwise write them without what all have in common, as differences",
        ));
    }
    if let Some([low, high]) = numbers.clip {
        let is_outside = most <= f64::from(low) || least >= f64::from(high);
        if is_outside {
            return Some(warning(
                format!("{range}, and clip = [{low}, {high}] makes one number of all of them"),
                "correct the feature's clip",
            ));
        }
    }
    let least_kept = match numbers.clip {
        Some([low, _]) => least.max(f64::from(low)),
        None => least,
    };
    match numbers.normalizer {
        Normalizer::Quantile { ref quantiles, .. } => {
            let (first, last) = (quantiles.first()?, quantiles.last()?);
            let is_outside = most <= f64::from(*first) || least >= f64::from(*last);
            is_outside.then(|| {
                warning(
                    format!("{range}, and the quantiles of its normalizer are from {first} to {last}: all of them are at one end"),
                    "correct the feature's boundaries, or make them again from the training data with `trainyard analyze`",
                )
            })
        }
        Normalizer::Log1p | Normalizer::Log if least_kept < 0.0 => Some(warning(
            format!("{range}, and its logarithm makes one number of all that are below 0"),
            "choose another normalizer, as standardize, unless the numbers below 0 mean the same",
        )),
        Normalizer::MinMax { min, max } if most < f64::from(min) || least > f64::from(max) => {
            Some(warning(
                format!("{range}, and none of them is between min = {min} and max = {max}"),
                "correct the feature's min and max",
            ))
        }
        Normalizer::Standardize { mean, stddev } if numbers.clip.is_none() => {
            let own = found.stddev();
            let step = step_at(most.max(-least));
            if own > 0.0 && own < step {
                return Some(warning(
                    format!(
                        "{range}, with the deviation {own}, and the 32 bits that features have tell numbers there apart that differ by {step}"
                    ),
                    "subtract a number from them that all have in common",
                ));
            }
            let own = is_other_scale([mean, stddev], found)?;
            Some(warning(
                format!(
                    "`{name}` has the mean {} and the deviation {own} in the sample, and the feature has mean = {mean} and stddev = {stddev}",
                    found.mean
                ),
                "correct the feature's mean and stddev: `trainyard stats` prints them",
            ))
        }
        _ => None,
    }
}

/// Least share of the different numbers of a column that the 32 bits of a feature keep apart.
pub(crate) const KEPT_SHARE_MIN: f64 = 0.9;

/// Numbers of a feature from this size on are told: a step of a linear model changes its prediction by the rate times their square.
const LARGE: f64 = 1e7;

/// Warns about numbers that a model reads as they are, and that are large.
pub(super) fn look_at_size(numbers: &Numbers, column: &ColumnProfile) -> Option<Diagnostic> {
    let is_read_as_it_is = numbers.time.is_none()
        && numbers.operand.is_none()
        && numbers.clip.is_none()
        && numbers.normalizer == Normalizer::None
        && numbers.piecewise_linear.is_none()
        && numbers.periodic.is_none();
    let found = &column.numbers;
    let largest = found.max.max(-found.min);
    let is_large = is_read_as_it_is && column.is_numeric() && found.count > 0 && largest >= LARGE;
    is_large.then(|| {
        warning(
            format!(
                "`{}` is from {} to {} in the sample, and the model reads it as it is: gradients grow with the numbers of a feature, and \
                 parameter_servers.guard rejects batches whose gradients are too large",
                column.name,
                shown(found.min),
                shown(found.max)
            ),
            "give the feature a normalizer, as \"standardize\" with the mean and stddev that `trainyard stats` prints",
        )
    })
}

/// Shows a number with an exponent where its digits would fill a line.
fn shown(number: f64) -> String {
    if number.abs() < 1e15 {
        number.to_string()
    } else {
        format!("{number:e}")
    }
}

#[cfg(test)]
mod tests {
    use trainyard_input::{Cell, Profile, TimeUnit, Value};
    use trainyard_run_config::{OutputDistribution, Time};

    use super::*;

    fn column() -> ColumnProfile {
        let mut profile = Profile::default();
        for number in -10..=100 {
            let cell = Cell {
                values: vec![Value::Int(number)],
                list: false,
            };
            profile.see(&["x".to_owned()], &[cell]);
        }
        profile.columns.remove(0)
    }

    fn told(change: impl FnOnce(&mut Numbers)) -> Option<String> {
        let mut numbers = Numbers::of("x".to_owned());
        change(&mut numbers);
        look_at_numbers(&numbers, &column()).map(|problem| problem.message)
    }

    fn standardize(mean: f32, stddev: f32) -> Option<String> {
        told(|numbers| numbers.normalizer = Normalizer::Standardize { mean, stddev })
    }

    #[test]
    fn settings_that_do_not_fit_the_numbers_are_told() {
        for clip in [[100.0, 200.0], [-20.0, -10.0]] {
            assert!(
                told(|numbers| numbers.clip = Some(clip)).is_some(),
                "{clip:?}"
            );
        }
        for normalizer in [
            Normalizer::Log1p,
            Normalizer::Log,
            Normalizer::MinMax {
                min: 101.0,
                max: 200.0,
            },
            Normalizer::Quantile {
                quantiles: vec![100.0, 200.0],
                output_distribution: OutputDistribution::Uniform,
            },
        ] {
            let found = told(|numbers| numbers.normalizer = normalizer.clone());
            assert!(found.is_some(), "{normalizer:?}");
        }
        for (mean, stddev) in [(1e6, 30.0), (45.0, 0.1), (45.0, 1e5)] {
            assert!(standardize(mean, stddev).is_some(), "{mean} {stddev}");
        }
    }

    #[test]
    fn numbers_that_32_bits_do_not_tell_apart_are_told() {
        type Written = fn(i64) -> Value;
        let of = |begin: i64, written: Written| {
            let mut profile = Profile::default();
            for number in begin..begin + 20 {
                let cell = Cell {
                    values: vec![written(number)],
                    list: false,
                };
                profile.see(&["x".to_owned()], &[cell]);
            }
            look_at_numbers(&Numbers::of("x".to_owned()), &profile.columns[0])
        };
        let forms: [Written; 5] = [
            Value::Int,
            |number| Value::Text(number.to_string().into_bytes()),
            |number| Value::Float(number as f64),
            |number| Value::Float(number as f64 + 0.5),
            |number| Value::Text(format!("{number}.0").into_bytes()),
        ];
        for (form, written) in forms.into_iter().enumerate() {
            let begins = [1 << 50, -(1 << 50), (1 << 40) - 10];
            for begin in begins {
                let told = of(begin, written).expect("a warning").message;
                assert!(told.contains("20 different numbers"), "{form}: {told}");
            }
            let told = of((1 << 30) - 42, written).expect("a warning").message;
            assert!(told.contains("20 different ones"), "{form}: {told}");
            assert!(of(1 << 20, written).is_none(), "{form}");
        }
    }

    #[test]
    fn large_numbers_that_a_model_reads_as_they_are_are_told_with_their_range() {
        let of = |largest: f64, numbers: &Numbers| {
            let mut profile = Profile::default();
            for number in [0.5, -largest] {
                let cell = Cell {
                    values: vec![Value::Float(number)],
                    list: false,
                };
                profile.see(&["x".to_owned()], &[cell]);
            }
            look_at_size(numbers, &profile.columns[0]).map(|told| told.message)
        };
        let plain = Numbers::of("x".to_owned());
        for (largest, shown) in [(2e7, "from -20000000 to 0.5"), (3e38, "from -3e38 to 0.5")] {
            let told = of(largest, &plain).expect("a warning");
            assert!(told.contains(shown), "{told}");
        }
        assert_eq!(of(9e6, &plain), None);
        let standardized = Numbers {
            normalizer: Normalizer::Standardize {
                mean: 0.0,
                stddev: 1e7,
            },
            ..plain
        };
        assert_eq!(of(3e38, &standardized), None);
    }

    #[test]
    fn a_mean_that_32_bits_round_is_no_wrong_mean() {
        let mut profile = Profile::default();
        for row in 0..100 {
            let cell = Cell {
                values: vec![Value::Float(1_234_567_890.5 + 128.0 * f64::from(row % 2))],
                list: false,
            };
            profile.see(&["x".to_owned()], &[cell]);
        }
        let column = &profile.columns[0];
        let numbers = Numbers {
            normalizer: Normalizer::Standardize {
                mean: column.numbers.mean as f32,
                stddev: column.numbers.stddev() as f32,
            },
            ..Numbers::of("x".to_owned())
        };
        let told = look_at_numbers(&numbers, column)
            .expect("a warning")
            .message;
        assert!(told.contains("differ by 128"), "{told}");
    }

    #[test]
    fn settings_that_fit_the_numbers_are_not() {
        assert_eq!(told(|_| {}), None);
        assert_eq!(told(|numbers| numbers.clip = Some([0.0, 50.0])), None);
        assert_eq!(standardize(45.0, 32.0), None);
        assert_eq!(standardize(100.0, 100.0), None);
        let clipped = told(|numbers| {
            numbers.clip = Some([0.0, 50.0]);
            numbers.normalizer = Normalizer::Log1p;
        });
        assert_eq!(clipped, None);
        let min_max = Normalizer::MinMax {
            min: 0.0,
            max: 50.0,
        };
        assert_eq!(told(|numbers| numbers.normalizer = min_max), None);
    }

    #[test]
    fn boundaries_that_no_number_reaches_by_the_settings_are_told() {
        let told = |boundaries: &[f32], change: &dyn Fn(&mut Numbers)| {
            let mut numbers = Numbers::of("x".to_owned());
            change(&mut numbers);
            let mut feature = FeatureConfig::numeric("x");
            feature.kind = FeatureKind::Bucketized {
                numbers,
                boundaries: boundaries.to_vec(),
            };
            look_at_settings(&feature).map(|problem| problem.message)
        };
        let clip = |numbers: &mut Numbers| numbers.clip = Some([0.0, 10.0]);
        let hour = |numbers: &mut Numbers| {
            numbers.time = Some(Time {
                part: TimePart::Hour,
                unit: TimeUnit::Seconds,
            });
        };
        let logarithm = |numbers: &mut Numbers| {
            clip(numbers);
            numbers.normalizer = Normalizer::Log1p;
        };
        let below = |numbers: &mut Numbers| {
            numbers.clip = Some([-5.0, 0.0]);
            numbers.normalizer = Normalizer::Log1p;
        };
        assert!(told(&[20.0, 30.0], &clip).is_some());
        assert!(told(&[-3.0, 0.0], &clip).is_some());
        assert!(told(&[24.0], &hour).is_some());
        assert!(told(&[3.0, 5.0], &logarithm).is_some());
        assert!(told(&[0.5], &below).is_some());
        assert_eq!(told(&[5.0, 30.0], &clip), None);
        assert_eq!(told(&[6.0, 12.0], &hour), None);
        assert_eq!(told(&[1.0, 2.0], &logarithm), None);
        assert_eq!(told(&[100.0], &|_| {}), None);
    }

    #[test]
    fn a_feature_that_is_the_same_for_all_records_is_told() {
        let mut feature = FeatureConfig::numeric("x");
        assert!(look_at_settings(&feature).is_none());
        for operand in [Operand::Minus("x".into()), Operand::DividedBy("x".into())] {
            let mut numbers = Numbers::of("x".to_owned());
            numbers.operand = Some(operand);
            feature.kind = FeatureKind::Numeric(numbers);
            let told = look_at_settings(&feature).expect("a warning").message;
            assert!(told.contains("own column"), "{told}");
        }
    }
}
