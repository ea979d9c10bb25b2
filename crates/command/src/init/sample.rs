//! Sample of the training part for the measurements of `trainyard init`, with records held out.

use std::hash::{DefaultHasher, Hasher as _};
use std::path::{Path, PathBuf};

use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_input::{Cell, Layout, Profile, Value};
use trainyard_run_config::expand_files;

use super::plan::{Plan, split_time};
use super::source::Source;
use super::split::{self, Parts, Rule, Writers, next};

/// Most records of the sample in the usual time, and of those that are held out.
const ROWS_MAX: u64 = 250_000;
const HELD_OUT_ROWS_MAX: u64 = 25_000;

/// Most times the usual time that give the sample as many times its records. Interactions of rare ids show in many records alone:
/// where a few hundred thousand do not tell models with layers apart, a million may.
const TIMES_MAX: u64 = 4;

/// Share of the sample that is held out.
const HELD_OUT_SHARE: f64 = 0.2;

/// Fewest records held out that tell models apart.
const HELD_OUT_ROWS_MIN: u64 = 100;

/// Most bytes of values in the sample in the usual time, and most records and bytes that are read for it.
const BYTES_MAX: u64 = 64 << 20;
const READ_ROWS_MAX: u64 = 1_000_000;
const READ_BYTES_MAX: u64 = 256 << 20;

/// Most records and bytes of a sample, and of what is read for it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    rows: u64,
    bytes: u64,
    bytes_read: u64,
}

impl Bounds {
    /// Returns the bounds for a search of so many times the usual time.
    pub(super) fn of_times(times: u64) -> Self {
        let times = times.clamp(1, TIMES_MAX);
        Self {
            rows: times * ROWS_MAX,
            bytes: times * BYTES_MAX,
            bytes_read: times * READ_BYTES_MAX,
        }
    }
}

/// Salt of the choice of records, so that it is another choice than that of the evaluation.
const SALT: u64 = 0x5a17;

/// Two files of records of the training part.
#[derive(Debug)]
pub(super) struct Sample {
    pub(super) train: PathBuf,
    pub(super) held_out: PathBuf,
    pub(super) train_rows: u64,
    pub(super) held_out_rows: u64,
    /// The training part has more records.
    pub(super) is_part: bool,
}

/// Records that are read of each file, and which of them are taken.
#[derive(Debug)]
struct Draw {
    rows_of_file: u64,
    /// Share of the records read that are taken.
    share: f64,
    bounds: Bounds,
}

impl Draw {
    fn takes(&self, number: u64) -> bool {
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(number);
        hasher.write_u64(SALT);
        (hasher.finish() as f64) < self.share * u64::MAX as f64
    }
}

/// Draws a sample of the training part into a folder, or returns why it is too small.
///
/// # Errors
/// A file cannot be read, or the folder cannot be written.
pub(super) fn draw(
    source: &Source,
    plan: &Plan,
    parts: &Parts,
    bounds: Bounds,
    folder: &Path,
) -> Result<Result<Sample, String>, Diagnostic> {
    let names: Vec<String> = parts
        .train
        .iter()
        .map(|path| path.to_string_lossy().into_owned())
        .collect();
    let files = expand_files(&names)?;
    let of_file = |rows: u64| rows.div_ceil(files.len().max(1) as u64);
    let (rows_of_file, share, expected) = match parts.train_rows {
        Some(rows) => {
            let read = rows.min(READ_ROWS_MAX);
            let taken = read.min(bounds.rows);
            (
                of_file(READ_ROWS_MAX),
                taken as f64 / read.max(1) as f64,
                taken,
            )
        }
        None => (of_file(bounds.rows), 1.0, bounds.rows),
    };
    let held_out_share = HELD_OUT_SHARE.min(HELD_OUT_ROWS_MAX as f64 / expected.max(1) as f64);
    let draw = Draw {
        rows_of_file,
        share,
        bounds,
    };
    let mut layout = Layout::default();
    let mut times = Profile::new(&source.missing_texts()).in_style(parts.style.numbers.clone());
    pass(source, parts, &files, &draw, |taken| {
        let Taken::Row(_, names, row) = taken else {
            return Ok(());
        };
        split::see(source, &mut layout, names, row);
        let time = names
            .iter()
            .position(|name| Some(name) == plan.time.as_ref());
        if let Some((time, cell)) = time.and_then(|time| Some((time, row.get(time)?))) {
            times.see(&names[time..=time], std::slice::from_ref(cell));
        }
        Ok(())
    })?;
    // The latest records are held out, as for the evaluation.
    let after = plan.time.as_deref().and_then(|column| {
        let column = times.column(column)?;
        Some((column, split_time(column, held_out_share)?))
    });
    let rule = match after {
        Some((column, after)) => Rule::Time { column, after },
        None => Rule::Random {
            share: held_out_share,
        },
    };
    let [train, held_out] =
        ["train", "held-out"].map(|part| folder.join(format!("{part}.{}", source.format_name())));
    let paths = [train.clone(), held_out.clone()];
    let mut writers = match Writers::create(source, &files, paths, layout, None) {
        Ok(writers) => writers,
        Err(problem) if problem.code == Code::E4002 => {
            return Ok(Err(format!("no sample can be drawn, {}", problem.message)));
        }
        Err(problem) => return Err(problem),
    };
    let mut train_rows = 0;
    let mut held_out_rows = 0;
    pass(source, parts, &files, &draw, |taken| match taken {
        Taken::Row(number, names, row) => {
            // Another number than that by which the record was taken, or kept for training.
            if rule.keeps_for_evaluation(!number, names, row) {
                held_out_rows += 1;
                writers.place(Some(1), row)
            } else {
                train_rows += 1;
                writers.place(Some(0), row)
            }
        }
        Taken::No => writers.place(None, &[]),
        Taken::EndOfFile => writers.end_file(),
    })?;
    if held_out_rows < HELD_OUT_ROWS_MIN || train_rows < held_out_rows {
        return Ok(Err(format!(
            "{} records are too few to compare models by measurement",
            train_rows + held_out_rows
        )));
    }
    writers.finish(2)?;
    Ok(Ok(Sample {
        train,
        held_out,
        train_rows,
        held_out_rows,
        is_part: parts
            .train_rows
            .is_none_or(|rows| train_rows + held_out_rows < rows),
    }))
}

/// What becomes of a record of the files.
enum Taken<'a> {
    /// It is taken: its number, the names of the columns, and its cells.
    Row(u64, &'a [String], &'a [Cell]),
    /// It is not taken.
    No,
    /// No further record of the file is taken.
    EndOfFile,
}

/// Reads the records of the files within the bounds, and says of each whether it is taken.
fn pass(
    source: &Source,
    parts: &Parts,
    files: &[PathBuf],
    draw: &Draw,
    mut each: impl FnMut(Taken<'_>) -> Result<(), Diagnostic>,
) -> Result<(), Diagnostic> {
    let mut row = Vec::new();
    let mut number = 0;
    let mut bytes_read = 0;
    let mut bytes_taken = 0;
    for file in files {
        let mut reader = source.reader(vec![file.clone()], parts.columns.clone(), &parts.style);
        for _ in 0..draw.rows_of_file {
            let Some(is_good) = next(&mut reader, &mut row)? else {
                break;
            };
            number += 1;
            let bytes: u64 = row.iter().map(bytes).sum();
            bytes_read += bytes;
            if is_good && draw.takes(number) {
                bytes_taken += bytes;
                each(Taken::Row(number, reader.columns(), &row))?;
            } else {
                each(Taken::No)?;
            }
            if bytes_read > draw.bounds.bytes_read || bytes_taken > draw.bounds.bytes {
                return Ok(());
            }
        }
        each(Taken::EndOfFile)?;
    }
    Ok(())
}

fn bytes(cell: &Cell) -> u64 {
    let values = cell.values.iter().map(|value| match value {
        Value::Text(text) => text.len() as u64,
        Value::Int(_) | Value::Float(_) | Value::Missing => 8,
    });
    1 + values.sum::<u64>()
}
