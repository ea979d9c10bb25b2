//! Labels and weights that are other numbers in training than in the files: rounded to 32 bits, or times and durations in a unit that
//! only the files say.

use trainyard_diagnostic::Diagnostic;
use trainyard_input::{ColumnProfile, Profile, TypeKind};
use trainyard_run_config::Job;

use super::idle_numbers::step_at;
use super::warning;

/// Part of the deviation of labels that no model finds.
const PART_OF_DEVIATION: f64 = 1e-4;

/// Warns about labels of a regression whose rounding to 32 bits is a part of their deviation that counts.
pub(crate) fn look_at_rounding(column: &ColumnProfile) -> Option<Diagnostic> {
    let found = &column.numbers;
    if !column.is_numeric() || column.distinct() < 2 {
        return None;
    }
    let numbers = column.counts().into_iter();
    // `as` rounds to the nearest number of 32 bits, as the reader of the files does.
    let rounded = numbers
        .filter_map(|(value, _)| column.number(value))
        .map(|number| (number, f64::from(number as f32)))
        .find(|(number, rounded)| number != rounded)?;
    let rounding = step_at(found.max.max(-found.min)) / 2.0;
    let stddev = found.stddev();
    if rounding <= PART_OF_DEVIATION * stddev {
        return None;
    }
    Some(warning(
        format!(
            "the labels in `{}` are from {} to {} with the deviation {stddev}, and training, metrics and predictions have numbers of 32 bits, which are \
             {} apart there: {} is {} in them",
            column.name,
            found.min,
            found.max,
            2.0 * rounding,
            rounded.0,
            rounded.1
        ),
        "subtract a constant near their mean from all labels in the files, and add it to the predictions",
    ))
}

/// Warns about labels and weights that a format knows as times or durations.
pub(super) fn look_for_times(job: &Job, profile: &Profile) -> Vec<Diagnostic> {
    let labels = job.labels().into_iter();
    let labels = labels.map(|(label, _)| ("label", label.column.as_str()));
    let weight = job.input.weight_column.as_deref();
    let columns = labels.chain(weight.map(|name| ("weight", name)));
    let told = columns.filter_map(|(what, name)| {
        let kind = *profile.times.get(name)?;
        let help = match kind {
            TypeKind::Duration(_) => {
                "metrics and predictions are numbers of that unit: write the durations as plain numbers of the unit that is meant, or name another column"
            }
            _ => {
                "write a number into the files that says what is meant, as the days since a date; or name another column"
            }
        };
        Some(warning(
            format!(
                "the {what} `{name}` holds {}, which are taken for plain numbers of 32 bits",
                kind.meaning()?
            ),
            help,
        ))
    });
    told.collect()
}
