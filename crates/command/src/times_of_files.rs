//! Times, durations and booleans of Parquet that a job takes for plain numbers or names: a file of another unit than that of the training
//! files has other numbers for the same times, and booleans have other ids than their texts.

use std::collections::BTreeSet;
use std::path::Path;

use trainyard_checkpoint::{Checkpoint, list};
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_input::{Format, Meaning, Options, Ticks, TimeColumns, has_values};
use trainyard_model::{Part, Shard, input_options};
use trainyard_run_config::{CrossKey, FeatureConfig, FeatureKind, Job, Time, TimePart};

use crate::data_warnings::column_of;

/// Columns that a command reads beside those of the features.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Labels {
    /// Labels and weights.
    Read,
    /// None: predictions need none.
    Unread,
}

/// Compares the times of files with those that the values were trained with, which are among the lines of their job; without such
/// a line, with the training files, if these can be read. Returns a warning where nothing is known of them.
///
/// # Errors
/// A column has times of another unit than in training, and the job takes them for plain numbers or names.
pub(crate) fn compare_times(
    job: &Job,
    trained: &[String],
    input: &Options,
    labels: Labels,
) -> Result<Vec<Diagnostic>, Diagnostic> {
    let columns = taken_plainly(job, labels);
    let misread = misread_as_times(job, input, usize::MAX);
    if job.input.format != Format::Parquet || columns.is_empty() {
        return Ok(misread);
    }
    let untyped = || untyped_of_training(job, trained, &columns);
    let trained = match TimeColumns::of_lines(trained).or_else(untyped) {
        Some(recorded) => Some(recorded),
        None => match input_options(job, Part::Train, Shard::WHOLE, None) {
            Ok(files) if files.files == input.files => return Ok(misread),
            Ok(files) => TimeColumns::of_first_files(&files),
            Err(_) => None,
        },
    };
    let mut unknown = BTreeSet::new();
    for (place, file) in input.files.iter().enumerate() {
        // A file that cannot be read is an error of its reader.
        let Ok(own) = TimeColumns::read(input, place) else {
            continue;
        };
        for other in differences(&columns, &own, trained.as_ref()) {
            match other {
                Difference::Unknown { column, own } => drop(unknown.insert((column, own))),
                Difference::Unit { .. } if !has_values(input, file, other.column()) => {}
                Difference::Unit {
                    column,
                    own,
                    trained,
                } => {
                    let message = format!(
                        "the column `{column}` holds {} in {} and {} in the files of training, and the job takes them for plain numbers or names",
                        Meaning::told(own),
                        file.display(),
                        Meaning::told(trained)
                    );
                    return Err(Diagnostic::error(Code::E4003, message).help(cure(own, trained)));
                }
            }
        }
    }
    let warnings = unknown.into_iter().map(|(column, clock)| {
        let message = format!(
            "the column `{column}` holds {clock}, and the job takes them for plain numbers or names: the training files, which \
             cannot be read here, must have had the same unit"
        );
        Diagnostic::warning(Code::E4005, message).help(CURE)
    });
    Ok(misread.into_iter().chain(warnings).collect())
}

/// Compares as [`compare_times`], and logs the warnings.
///
/// # Errors
/// As [`compare_times`].
pub(crate) fn warn_of_times(
    job: &Job,
    trained: &[String],
    input: &Options,
    labels: Labels,
) -> Result<(), Diagnostic> {
    for warning in compare_times(job, trained, input, labels)? {
        tracing::warn!("{}", warning.log_line());
    }
    Ok(())
}

/// Returns what to do about a column that means something else than in training.
fn cure(own: Option<Meaning>, trained: Option<Meaning>) -> &'static str {
    let is_boolean = |meaning: Option<Meaning>| meaning == Some(Meaning::Boolean);
    if is_boolean(own) {
        "the ids of booleans are those of the numbers 1 and 0, and training had the ids of texts: write the texts of the training files in the \
         place of the booleans"
    } else if is_boolean(trained) {
        "the ids of training are those of the numbers 1 and 0: write the column as booleans, or as these numbers"
    } else {
        CURE
    }
}

const CURE: &str = "write the column as in the training files; or give the feature `time`, which knows the units, and train again";

/// Compares the times of the first training files with each other. Returns warnings of those that `time` of a feature misreads.
///
/// # Errors
/// Two of them have times of two units in a column, or times and other values, and the job takes them for plain numbers or names.
pub(crate) fn compare_times_of_training(
    job: &Job,
    files_max: usize,
) -> Result<Vec<Diagnostic>, Diagnostic> {
    if job.input.format != Format::Parquet {
        return Ok(Vec::new());
    }
    // Files that are not there, or cannot be read, are an error of their reader.
    let Ok(input) = input_options(job, Part::Train, Shard::WHOLE, None) else {
        return Ok(Vec::new());
    };
    let columns = taken_plainly(job, Labels::Read);
    if !columns.is_empty() {
        trainyard_input::compare_times(&input, |column| columns.contains(column), files_max)?;
    }
    Ok(misread_as_times(job, &input, files_max))
}

/// Returns warnings of columns of the first files whose values have not the part that `time` of a feature takes of them.
fn misread_as_times(job: &Job, input: &Options, files_max: usize) -> Vec<Diagnostic> {
    // A column may have a feature for each part.
    let mut timed: Vec<(&str, Time)> = Vec::new();
    for feature in &job.features {
        if let FeatureKind::Numeric(numbers) | FeatureKind::Bucketized { numbers, .. } =
            &feature.kind
            && let Some(time) = numbers.time
        {
            timed.push((&numbers.column, time));
        }
    }
    if job.input.format != Format::Parquet || timed.is_empty() {
        return Vec::new();
    }
    let mut warnings = Vec::new();
    for (place, file) in input.files.iter().enumerate().take(files_max) {
        // A file that cannot be read is an error of its reader.
        let Ok(own) = TimeColumns::read(input, place) else {
            continue;
        };
        timed.retain(|(column, time)| {
            let clock = own.get(column).flatten();
            let told = clock.and_then(|clock| misread(column, file, *time, clock));
            let is_told = told.is_some();
            warnings.extend(told);
            !is_told
        });
    }
    warnings
}

/// Returns a warning of a column of a file whose values have not the part that a feature takes of them.
fn misread(column: &str, file: &Path, time: Time, clock: Meaning) -> Option<Diagnostic> {
    let (what, help) = match (time.part, clock) {
        (_, Meaning::Duration(_)) => (
            format!(
                "time = \"{}\" takes their numbers for {} since 1970",
                match time.part {
                    TimePart::Hour => "hour",
                    TimePart::Weekday => "weekday",
                },
                time.unit.name()
            ),
            "leave `time` out of the feature, or name a column of times",
        ),
        (TimePart::Hour, Meaning::Time(Ticks::Days)) => (
            "time = \"hour\" makes 0 of all of them".to_owned(),
            "set time = \"weekday\", or leave the feature out: it distinguishes no records",
        ),
        (TimePart::Weekday, Meaning::TimeOfDay(_)) => (
            "time = \"weekday\" makes 3 of all of them, the day of the first of January 1970"
                .to_owned(),
            "set time = \"hour\", or leave the feature out: it distinguishes no records",
        ),
        _ => return None,
    };
    let message = format!(
        "the column `{column}` holds {clock} in {}, and {what}",
        file.display()
    );
    Some(Diagnostic::warning(Code::E4005, message).help(help))
}

/// Compares the times of all evaluation inputs of a job with those of its training files, before training.
///
/// # Errors
/// As [`compare_times`].
pub(crate) fn compare_times_of_evaluations(job: &Job) -> Result<Vec<Diagnostic>, Diagnostic> {
    let mut warnings = Vec::new();
    if job.input.eval.is_some() {
        let further = (0..job.evaluations.len()).map(Part::Evaluation);
        for part in std::iter::once(Part::Eval).chain(further) {
            // Files that are not there are an error of their reader.
            if let Ok(input) = input_options(job, part, Shard::WHOLE, None) {
                warnings.extend(compare_times(job, &[], &input, Labels::Read)?);
            }
        }
    }
    warnings.dedup();
    Ok(warnings)
}

/// Returns the job that trained the newest checkpoint of a model directory, one line per key; nothing without one.
pub(crate) fn trained_job(model_dir: &Path) -> Vec<String> {
    let newest = list(model_dir).ok().and_then(|found| found.last().cloned());
    let checkpoint = newest.and_then(|newest| Checkpoint::open(&newest.path).ok());
    checkpoint.map_or(Vec::new(), |checkpoint| checkpoint.manifest().job.clone())
}

/// Returns what the files of training meant, if they were of a format without types.
fn untyped_of_training(
    job: &Job,
    trained: &[String],
    columns: &BTreeSet<String>,
) -> Option<TimeColumns> {
    let texts = taken_for_texts(job);
    let columns = columns.iter();
    let columns = columns.map(|column| (column.clone(), texts.contains(column)));
    TimeColumns::of_untyped(trained, columns)
}

/// Returns the columns whose texts are ids or classes.
fn taken_for_texts(job: &Job) -> BTreeSet<String> {
    let mut columns = BTreeSet::new();
    for (label, _) in job.labels() {
        if label.positive.is_some() || label.vocabulary.is_some() {
            columns.insert(label.column.clone());
        }
    }
    let features = job.features.iter();
    columns.extend(features.flat_map(FeatureConfig::text_columns).cloned());
    columns
}

/// Returns the columns that are read as they are.
fn taken_plainly(job: &Job, labels: Labels) -> BTreeSet<String> {
    let mut columns = BTreeSet::new();
    if labels == Labels::Read {
        let labels = job.labels().into_iter();
        columns.extend(labels.map(|(label, _)| label.column.clone()));
        columns.extend(job.input.weight_column.clone());
    }
    columns.extend(
        job.features
            .iter()
            .filter_map(|feature| feature.weights.clone()),
    );
    for feature in &job.features {
        match &feature.kind {
            FeatureKind::Numeric(numbers) | FeatureKind::Bucketized { numbers, .. } => {
                let operand = numbers.operand.as_ref().map(|operand| operand.column());
                let own = numbers.time.is_none().then_some(numbers.column.as_str());
                columns.extend(own.into_iter().chain(operand).map(str::to_owned));
            }
            FeatureKind::Crossed { keys, .. } => {
                columns.extend(keys.iter().filter_map(|key| match key {
                    CrossKey::Text(column) | CrossKey::Int(column) => Some(column.clone()),
                    CrossKey::Ids(_) => None,
                }));
            }
            _ => columns.extend(column_of(feature).cloned()),
        }
    }
    columns
}

/// What a column holds in a file and did not hold in training.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Difference {
    /// Other times, or other values than times.
    Unit {
        column: String,
        own: Option<Meaning>,
        trained: Option<Meaning>,
    },
    /// Times, and nothing is known of those of training.
    Unknown { column: String, own: Meaning },
}

impl Difference {
    fn column(&self) -> &str {
        match self {
            Self::Unit { column, .. } | Self::Unknown { column, .. } => column,
        }
    }
}

fn differences(
    columns: &BTreeSet<String>,
    own: &TimeColumns,
    trained: Option<&TimeColumns>,
) -> Vec<Difference> {
    let of_column = |column: &String| {
        let own = own.get(column)?;
        let column = column.clone();
        match trained {
            None => own
                .filter(|own| own.is_of_time())
                .map(|own| Difference::Unknown { column, own }),
            Some(trained) => {
                let trained = trained.get(&column)?;
                Meaning::differ(trained, own).then_some(Difference::Unit {
                    column,
                    own,
                    trained,
                })
            }
        }
    };
    columns.iter().filter_map(of_column).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(clock: &str) -> TimeColumns {
        let line = format!("input.times={{\"at\":{clock}}}");
        TimeColumns::of_lines(&[line]).expect("columns")
    }

    #[test]
    fn times_of_another_unit_and_durations_differ_from_the_times_of_training() {
        let columns = BTreeSet::from(["at".to_owned()]);
        let clocks = [
            r#"{"time":"milliseconds"}"#,
            r#"{"time":"microseconds"}"#,
            r#"{"duration":"milliseconds"}"#,
            r#"{"time_of_day":"milliseconds"}"#,
            r#"{"time":"days"}"#,
            "null",
        ];
        for (own, trained) in clocks
            .iter()
            .flat_map(|own| clocks.map(|trained| (*own, trained)))
        {
            let found = differences(&columns, &of(own), Some(&of(trained)));
            assert_eq!(found.len(), usize::from(own != trained), "{own} {trained}");
            let none = differences(&BTreeSet::new(), &of(own), Some(&of(trained)));
            assert_eq!(none, []);
        }
    }

    #[test]
    fn booleans_differ_from_the_texts_of_training_in_both_orders_and_not_from_its_numbers() {
        let columns = BTreeSet::from(["at".to_owned()]);
        let (boolean, text) = (of(r#""boolean""#), of(r#""text""#));
        for (own, trained) in [(&boolean, &text), (&text, &boolean)] {
            assert_eq!(differences(&columns, own, Some(trained)).len(), 1);
            assert_eq!(differences(&columns, own, Some(&of("null"))), []);
            assert_eq!(differences(&columns, own, None), []);
        }
    }

    #[test]
    fn times_are_told_where_nothing_is_known_of_training() {
        let columns = BTreeSet::from(["at".to_owned()]);
        let days = r#"{"time":"days"}"#;
        let found = differences(&columns, &of(days), None);
        let day = Difference::Unknown {
            column: "at".to_owned(),
            own: Meaning::Time(Ticks::Days),
        };
        assert_eq!(found, [day]);
        assert_eq!(differences(&columns, &of("null"), None), []);
        let of_other_columns = TimeColumns::default();
        assert_eq!(
            differences(&columns, &of(days), Some(&of_other_columns)),
            []
        );
    }

    #[test]
    fn times_without_the_part_that_a_feature_takes_are_told_with_their_file() {
        use {Meaning::*, TimePart::*};
        let unit = trainyard_run_config::TimeUnit::Seconds;
        for (part, clock, expected) in [
            (
                Hour,
                Duration(Ticks::Milliseconds),
                Some("durations in milliseconds"),
            ),
            (
                Weekday,
                Duration(Ticks::Seconds),
                Some("for seconds since 1970"),
            ),
            (Hour, Time(Ticks::Days), Some("makes 0 of all of them")),
            (Weekday, Time(Ticks::Days), None),
            (
                Weekday,
                TimeOfDay(Ticks::Microseconds),
                Some("times of the day in microseconds"),
            ),
            (Hour, TimeOfDay(Ticks::Microseconds), None),
            (Hour, Time(Ticks::Nanoseconds), None),
        ] {
            let time = trainyard_run_config::Time { part, unit };
            let told = misread("at", Path::new("a.parquet"), time, clock);
            let text = told.map(|told| told.message);
            match expected {
                None => assert_eq!(text, None),
                Some(expected) => {
                    let text = text.expect("a warning");
                    let parts = [expected, "`at`", "in a.parquet"];
                    assert!(parts.iter().all(|part| text.contains(part)), "{text}");
                }
            }
        }
    }

    #[cfg(feature = "parquet")]
    #[test]
    fn each_feature_of_a_column_that_takes_a_part_which_its_times_lack_is_told() {
        let file =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../input/testdata/duration_s.parquet");
        let feature = |part: &str| {
            format!(
                "[[feature]]\ncolumn = \"d\"\nname = \"{part}\"\nkind = \"numeric\"\ntime = \"{part}\"\n"
            )
        };
        for parts in [["hour", "weekday"], ["weekday", "hour"]] {
            let text = format!(
                "model_dir = \"m\"\n[input]\nformat = \"parquet\"\nlabel = {{ column = \"y\" }}\ntrain = {{ files = [{file:?}], epochs = 1 }}\n{}[model]\nkind = \"linear_regressor\"\n",
                parts.map(feature).concat()
            );
            let job = Job::parse(Path::new("job.toml"), &text, &[]).expect("a job");
            let told = compare_times_of_training(&job, usize::MAX).expect("one file");
            let messages: BTreeSet<&String> = told.iter().map(|told| &told.message).collect();
            assert_eq!(messages.len(), 2, "{told:?}");
        }
    }

    #[cfg(feature = "parquet")]
    #[test]
    fn training_files_with_durations_of_two_units_are_refused_with_both() {
        let file = |name: &str| {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../input/testdata");
            folder.join(name).display().to_string()
        };
        let (seconds, milliseconds) = (file("duration_s.parquet"), file("duration_ms.parquet"));
        let compare = |files: [&String; 2], job: &str| {
            let text = format!(
                "model_dir = \"m\"\n[input]\nformat = \"parquet\"\ntrain = {{ files = {files:?}, epochs = 1 }}\n{job}[model]\nkind = \"linear_regressor\"\n"
            );
            let job = Job::parse(Path::new("job.toml"), &text, &[]).expect("a job");
            compare_times_of_training(&job, usize::MAX)
        };
        let as_feature =
            "label = { column = \"y\" }\n[[feature]]\ncolumn = \"d\"\nkind = \"numeric\"\n";
        let as_label =
            "label = { column = \"d\" }\n[[feature]]\ncolumn = \"x\"\nkind = \"numeric\"\n";
        let as_weight = format!(
            "weight_column = \"d\"\n{}",
            as_label.replace("\"d\"", "\"y\"")
        );
        let unread =
            "label = { column = \"y\" }\n[[feature]]\ncolumn = \"x\"\nkind = \"numeric\"\n";
        for job in [as_feature, as_label, &as_weight] {
            let told = compare([&seconds, &milliseconds], job).expect_err("two units");
            let told = told.render();
            for part in [
                "`d`",
                "durations in seconds in",
                "durations in milliseconds in",
                "duration_ms.parquet",
            ] {
                assert!(told.contains(part), "{part}: {told}");
            }
            assert!(compare([&seconds, &seconds], job).is_ok());
        }
        assert!(compare([&seconds, &milliseconds], unread).is_ok());
    }
}
