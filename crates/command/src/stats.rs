//! `trainyard stats`: statistics of the columns of a job's input.

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_input::{ColumnKind, ColumnProfile, Profile};
use trainyard_model::{Part, Shard, input_options};

use crate::arguments::{Format, JobArguments};
use crate::data_sample::{Extent, profile};
use crate::data_warnings::look;
use crate::output::print;
use crate::text_table::lines;

/// An input of a job, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum InputName {
    /// `[input.train]`.
    Train,
    /// `[input.eval]`.
    Eval,
}

#[derive(Debug, Args)]
pub(crate) struct Stats {
    #[command(flatten)]
    pub(crate) job: JobArguments,
    /// The input to read.
    #[arg(long, value_enum, default_value = "train")]
    pub(crate) part: InputName,
    /// Records to read from each file, the first ones.
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub(crate) rows: u64,
    /// Reads all records.
    #[arg(long, conflicts_with = "rows")]
    pub(crate) all: bool,
    /// Format of the output.
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: Format,
}

/// Quantiles in the output.
const SHARES: [f64; 7] = [0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99];

/// Names of the quantiles in JSON.
const SHARE_NAMES: [&str; 7] = ["p1", "p5", "p25", "p50", "p75", "p95", "p99"];

/// Most frequent values of a column in the JSON output.
const VALUES_MAX: usize = 50;

/// Most frequent values of a text column in the table.
const SHOWN_VALUES_MAX: usize = 3;

/// Longest value in the table, in characters.
const SHOWN_CHARACTERS_MAX: usize = 24;

/// Prints the profile of a job's input.
pub(crate) fn stats(arguments: &Stats) -> Result<(), Vec<Diagnostic>> {
    let job = arguments.job.load()?;
    let part = match arguments.part {
        InputName::Train => Part::Train,
        InputName::Eval => Part::Eval,
    };
    let extent = if arguments.all {
        Extent::Whole
    } else {
        Extent::OfAll(arguments.rows)
    };
    let work = || {
        let options = input_options(&job, part, Shard::WHOLE, None)?;
        let found = profile(&options, extent)?;
        if found.rows == 0 {
            let message = "the input holds no record that can be read";
            return Err(Diagnostic::error(Code::E4001, message)
                .help("`trainyard check` says what is wrong with them"));
        }
        let mut warnings = look(&job, &found).warnings;
        let mixed = found.mixed_times.iter().map(|told| {
            Diagnostic::warning(Code::E4005, told)
                .help("the figures of the column mix the numbers of all of them")
        });
        warnings.splice(0..0, unreadable(&found).into_iter().chain(mixed));
        match arguments.format {
            Format::Json => {
                let columns: Vec<Value> = found.columns.iter().map(column_json).collect();
                let warnings: Vec<Value> = warnings.iter().map(Diagnostic::to_json).collect();
                print(&format!(
                    "{}\n",
                    json!({"rows": found.rows, "unreadable_records": found.bad_rows, "columns": columns, "warnings": warnings})
                ))
            }
            Format::Text => {
                print(&table(&found, extent))?;
                trainyard_daemon::report(&warnings, arguments.job.log_format);
                Ok(())
            }
        }
    };
    work().map_err(|problem| vec![problem])
}

/// Returns the warning that records are in no figure, if there are such.
fn unreadable(found: &Profile) -> Option<Diagnostic> {
    let first = found.first_bad.as_ref()?;
    let message = format!(
        "{} of {} records cannot be read, and are in no figure. The first: {first}",
        found.bad_rows,
        found.bad_rows + found.rows
    );
    Some(Diagnostic::warning(Code::E4004, message).help(first.help()))
}

fn kind_name(column: &ColumnProfile) -> String {
    let kind = match column.kind {
        Some(ColumnKind::Boolean) => "bool",
        Some(ColumnKind::Int) => "int",
        Some(ColumnKind::Float) => "float",
        Some(ColumnKind::Text) => "text",
        None => "empty",
    };
    if column.list {
        format!("list of {kind}")
    } else {
        kind.to_owned()
    }
}

fn column_json(column: &ColumnProfile) -> Value {
    let counts = column.counts();
    let values: Vec<Value> = counts
        .iter()
        .take(VALUES_MAX)
        .map(|(value, count)| json!({"value": String::from_utf8_lossy(value), "count": count}))
        .collect();
    let mut out = json!({
        "name": column.name, "type": kind_name(column), "missing": column.missing, "present": column.present,
        "values": column.values, "distinct": column.distinct(), "most_frequent": values,
    });
    if column.is_numeric() {
        let numbers = &column.numbers;
        let quantiles = SHARE_NAMES.into_iter().zip(column.quantiles(&SHARES));
        out["infinite"] = json!(column.infinite);
        out["min"] = json!(numbers.min);
        out["max"] = json!(numbers.max);
        out["mean"] = json!(numbers.mean);
        out["stddev"] = json!(numbers.stddev());
        out["quantiles"] = quantiles
            .map(|(name, value)| (name.to_owned(), json!(value)))
            .collect();
    }
    out
}

fn table(profile: &Profile, extent: Extent) -> String {
    let header = [
        "column",
        "type",
        "missing",
        "distinct",
        "min",
        "median",
        "max",
        "mean",
        "stddev",
        "most frequent",
    ];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for column in &profile.columns {
        rows.push(cells(column, profile.rows));
    }
    let mut text = match extent {
        Extent::Whole => format!("all {} records\n", profile.rows),
        Extent::OfEachFile(_) | Extent::OfAll(_) => {
            format!(
                "{} records, the first ones of each file; --all reads every one\n",
                profile.rows
            )
        }
    };
    for line in lines(&rows) {
        text += &format!("{line}\n");
    }
    text
}

fn cells(column: &ColumnProfile, rows: u64) -> Vec<String> {
    let missing = if column.missing == 0 {
        "0".to_owned()
    } else {
        format!(
            "{:.1} %",
            100.0 * column.missing as f64 / rows.max(1) as f64
        )
    };
    let about = if column.are_all_counted() { "" } else { "~" };
    let mut cells = vec![
        column.name.clone(),
        kind_name(column),
        missing,
        format!("{about}{}", column.distinct()),
    ];
    if column.is_numeric() {
        let numbers = &column.numbers;
        let median = column
            .quantiles(&[0.5])
            .first()
            .copied()
            .unwrap_or_default();
        let figures = [
            numbers.min,
            median,
            numbers.max,
            numbers.mean,
            numbers.stddev(),
        ];
        cells.extend(figures.map(short));
        cells.push(match column.infinite {
            0 => String::new(),
            count => format!("{count} infinite, in no figure"),
        });
    } else {
        cells.extend(std::iter::repeat_n(String::new(), 5));
        let counts = column.counts();
        let shown = counts.iter().take(SHOWN_VALUES_MAX).map(|(value, count)| {
            let text: String = String::from_utf8_lossy(value)
                .chars()
                .take(SHOWN_CHARACTERS_MAX)
                .collect();
            let text = trainyard_diagnostic::escape(&text);
            format!(
                "{text} ({:.1} %)",
                100.0 * *count as f64 / column.values.max(1) as f64
            )
        });
        cells.push(shown.collect::<Vec<_>>().join(", "));
    }
    cells
}

/// Formats a number with six significant digits.
fn short(number: f64) -> String {
    let text = if number == 0.0 || (1e-4..1e9).contains(&number.abs()) {
        let digits = (5 - number.abs().max(1.0).log10() as i32).max(0) as usize;
        format!("{number:.digits$}")
    } else {
        format!("{number:.5e}")
    };
    if text.contains('.') && !text.contains('e') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}
