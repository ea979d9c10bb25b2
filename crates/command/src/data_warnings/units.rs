//! Numbers of one column that a job reads as one quantity, and that have several units.

use std::collections::BTreeMap;

use trainyard_diagnostic::Diagnostic;
use trainyard_input::{ColumnProfile, NumberStyle, Profile, plain_number};
use trainyard_run_config::Job;

use super::{column_of, warning};

/// Warns about columns of numbers with several units, which the job drops: `$5` and `5%` are 5.
pub(super) fn look_at_units(job: &Job, profile: &Profile) -> Vec<Diagnostic> {
    let style = &job.input.text.numbers;
    if style.units.is_empty() {
        return Vec::new();
    }
    let read: Vec<&String> = job
        .features
        .iter()
        .filter_map(column_of)
        .chain(job.labels().into_iter().map(|(label, _)| &label.column))
        .collect();
    let columns = profile.columns.iter();
    let columns = columns.filter(|column| column.is_numeric() && read.contains(&&column.name));
    columns
        .filter_map(|column| of_column(column, style))
        .collect()
}

fn of_column(column: &ColumnProfile, style: &NumberStyle) -> Option<Diagnostic> {
    let mut units: BTreeMap<String, (u64, String)> = BTreeMap::new();
    for (text, count) in column.counts() {
        let Some(number) = plain_number(style, text) else {
            continue;
        };
        let is_zero = number.unit.is_none() && number.text.parse() == Ok(0.0);
        if !is_zero {
            let unit = number.unit.unwrap_or_default().to_owned();
            let first = String::from_utf8_lossy(text).into_owned();
            units.entry(unit).or_insert_with(|| (0, first)).0 += count;
        }
    }
    if units.len() < 2 {
        return None;
    }
    let shown = units
        .values()
        .map(|(count, first)| format!("{count} as {first:?}"));
    let message = format!(
        "`{}` holds numbers of several units, or with one and without: {}. input.units drops the units, and the job reads one quantity",
        column.name,
        shown.collect::<Vec<_>>().join(", ")
    );
    Some(warning(
        message,
        "convert the numbers to one unit in the files, and write them with it or without it in all records",
    ))
}
