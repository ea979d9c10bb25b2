//! Times of Parquet that features take for plain numbers or names: a file of another unit than that of the training files has other
//! numbers for the same times.

use std::collections::BTreeSet;

use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_input::{Format, Options, Profile, TimeUnit};
use trainyard_model::{Part, Shard, input_options};
use trainyard_run_config::{CrossKey, FeatureKind, Job};

use crate::convert::name_of;
use crate::data_sample::{Extent, profile};
use crate::data_warnings::column_of;

/// Records of each file that show the types of its columns.
const ROWS: u64 = 100;

/// Most training files that are compared with: training refuses files of several types, and there may be thousands.
const TRAINED_FILES_MAX: usize = 4;

/// Compares the times of files with those of the training files, if these can be read. Returns a warning where they cannot.
///
/// # Errors
/// A column has times of another unit than in the training files, and a feature takes them for plain numbers or names.
pub(crate) fn compare_times(job: &Job, input: &Options) -> Result<Vec<Diagnostic>, Diagnostic> {
    let columns = taken_plainly(job);
    if job.input.format != Format::Parquet || columns.is_empty() {
        return Ok(Vec::new());
    }
    let trained = input_options(job, Part::Train, Shard::WHOLE, None).ok();
    if trained
        .as_ref()
        .is_some_and(|trained| trained.files == input.files)
    {
        return Ok(Vec::new());
    }
    let extent = Extent::OfEachFile(ROWS);
    // A file that cannot be read is an error of its reader.
    let Ok(found) = profile(input, extent) else {
        return Ok(Vec::new());
    };
    let trained = trained.and_then(|mut trained| {
        trained.files.truncate(TRAINED_FILES_MAX);
        profile(&trained, extent).ok()
    });
    differences(&columns, &found, trained.as_ref())
}

/// Returns the columns that features read as they are.
fn taken_plainly(job: &Job) -> BTreeSet<String> {
    let mut columns = BTreeSet::new();
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

fn differences(
    columns: &BTreeSet<String>,
    found: &Profile,
    trained: Option<&Profile>,
) -> Result<Vec<Diagnostic>, Diagnostic> {
    let mut warnings = Vec::new();
    for name in columns {
        let unit_in = |profile: &Profile| {
            let has_values = profile.column(name).is_some_and(|column| column.values > 0);
            has_values.then(|| profile.times.get(name).copied())
        };
        let Some(own) = unit_in(found) else {
            continue;
        };
        match trained.map(unit_in) {
            Some(Some(trained)) if trained != own => {
                let message = format!(
                    "the column `{name}` holds {} in these files and {} in those of training, and a feature takes them for plain numbers or names",
                    what(own),
                    what(trained)
                );
                return Err(Diagnostic::error(Code::E4003, message).help(
                    "write the column as in the training files; or give the feature `time`, which knows the units, and train again",
                ));
            }
            Some(_) => {}
            None if own.is_some() => {
                let message = format!(
                    "the column `{name}` holds {}, and a feature takes them for plain numbers or names: the training files, which cannot be read \
                     here, must have had the same unit",
                    what(own)
                );
                warnings.push(Diagnostic::warning(Code::E4005, message).help(
                    "write the column as in the training files; or give the feature `time`, which knows the units, and train again",
                ));
            }
            None => {}
        }
    }
    Ok(warnings)
}

/// Says what the values of a column are, by the unit of its times.
fn what(unit: Option<Option<TimeUnit>>) -> String {
    match unit {
        Some(unit) => format!("times in {}", name_of(unit)),
        None => "values that are no times".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use trainyard_input::{Cell, Value};

    use super::*;

    #[test]
    fn times_of_another_unit_than_that_of_training_are_refused_where_they_are_plain_numbers() {
        let columns = BTreeSet::from(["at".to_owned()]);
        let of = |unit: Option<Option<TimeUnit>>| {
            let mut profile = Profile::default();
            let cell = Cell {
                values: vec![Value::Int(1)],
                list: false,
            };
            profile.see(&["at".to_owned()], &[cell]);
            profile.times = unit
                .map(|unit| ("at".to_owned(), unit))
                .into_iter()
                .collect();
            profile
        };
        let [milliseconds, microseconds] =
            [TimeUnit::Milliseconds, TimeUnit::Microseconds].map(|unit| Some(Some(unit)));
        for (own, trained) in [
            (microseconds, milliseconds),
            (None, milliseconds),
            (Some(None), milliseconds),
            (milliseconds, None),
        ] {
            let refused = differences(&columns, &of(own), Some(&of(trained)));
            let message = refused.expect_err("refused").message;
            assert!(message.contains("`at`"), "{message}");
        }
        for unit in [None, milliseconds] {
            let found = differences(&columns, &of(unit), Some(&of(unit)));
            assert_eq!(found.expect("no refusal").len(), 0);
            let alone = differences(&columns, &of(unit), None).expect("no refusal");
            assert_eq!(alone.len(), usize::from(unit.is_some()));
        }
        assert!(differences(&BTreeSet::new(), &of(None), Some(&of(milliseconds))).is_ok());
    }
}
