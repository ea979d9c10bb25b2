//! Division of the records of `trainyard init` into training and evaluation.

use std::hash::{DefaultHasher, Hasher as _};
use std::path::{Path, PathBuf};

use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_input::{
    Cell, ColumnKind, ColumnProfile, Error, Format, Layout, Profile, RowCopier, TableReader,
    TableWriter, TextEncoding, TextStyle, Value,
};

use super::plan::{Coverage, Plan, Task, split_time};
use super::source::{PARTS, Source};
use crate::init::Init;

/// Fewest files from which the last ones are kept for evaluation as whole files.
const FILES_MIN: usize = 5;

/// The training and the evaluation part.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) train: Vec<PathBuf>,
    pub(super) eval: Option<Vec<PathBuf>>,
    /// Records of the training part, if all records were counted.
    pub(super) train_rows: Option<u64>,
    /// Names of the columns, if the files do not contain them.
    pub(super) columns: Option<Vec<String>>,
    /// How the files write their fields.
    pub(super) style: TextStyle,
    /// Description of the division, one entry per line.
    pub(super) told: Vec<String>,
}

impl Parts {
    /// Divides the records: by the files that were given, by whole files, or into two new files by time or at random.
    pub(super) fn make(
        source: &Source,
        plan: &Plan,
        found: &Profile,
        folder: &Path,
        arguments: &Init,
    ) -> Result<Self, Diagnostic> {
        let share = arguments.eval_share;
        let columns = source.columns.clone();
        let counted = (plan.coverage == Coverage::Whole).then_some(found.rows);
        // The job keeps patterns, so that it also reads files that are added later.
        let given = |names: &[String]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        if let Some(files) = &source.eval {
            let mut told = vec![format!("evaluation {} file(s), as given", files.len())];
            let train = if source.withheld == 0 {
                given(&arguments.data)
            } else {
                told.push(format!(
                    "left out   {} file(s) of the data, which are those of the evaluation: the job names the other {}",
                    source.withheld,
                    source.train.len()
                ));
                source.train.clone()
            };
            let eval = Some(given(&arguments.eval));
            return Ok(Self {
                train,
                eval,
                train_rows: counted,
                columns,
                style: source.style.clone(),
                told,
            });
        }
        if share == 0.0 {
            let told = vec!["evaluation none: --eval-share is 0".to_owned()];
            return Ok(Self {
                train: given(&arguments.data),
                eval: None,
                train_rows: counted,
                columns,
                style: source.style.clone(),
                told,
            });
        }
        if source.train.len() >= FILES_MIN {
            let kept = ((source.train.len() as f64 * share).round() as usize).max(1);
            let (train, eval) = source.train.split_at(source.train.len() - kept);
            let told = vec![format!(
                "evaluation the last {kept} of {} files, in the order of their names",
                source.train.len()
            )];
            let train_rows = None;
            return Ok(Self {
                train: train.to_vec(),
                eval: Some(eval.to_vec()),
                train_rows,
                columns,
                style: source.style.clone(),
                told,
            });
        }
        divide(source, plan, found, folder, share)
    }
}

/// Rule that decides whether a record is for training or for evaluation.
#[derive(Debug)]
pub(super) enum Rule<'a> {
    /// Evaluation has the records with a later time in this column.
    Time {
        column: &'a ColumnProfile,
        after: f64,
    },
    /// Evaluation has the records whose number hashes below `share`.
    Random { share: f64 },
}

impl Rule<'_> {
    pub(super) fn keeps_for_evaluation(&self, number: u64, names: &[String], row: &[Cell]) -> bool {
        match self {
            Self::Time { column, after } => {
                let cell = names
                    .iter()
                    .position(|name| *name == column.name)
                    .and_then(|place| row.get(place));
                // An infinite number is read as a missing one.
                cell.and_then(|cell| cell.values.first())
                    .and_then(|value| as_number(column, value))
                    .is_some_and(|time| time.is_finite() && time > *after)
            }
            Self::Random { share } => {
                let mut hasher = DefaultHasher::new();
                hasher.write_u64(number);
                (hasher.finish() as f64) < share * u64::MAX as f64
            }
        }
    }
}

fn as_number(column: &ColumnProfile, value: &Value) -> Option<f64> {
    match value {
        Value::Int(number) => Some(*number as f64),
        Value::Float(number) => Some(*number),
        Value::Text(text) => column.number(text),
        Value::Missing => None,
    }
}

/// Returns the paths of the two parts, if they are written.
fn paths(source: &Source, folder: &Path) -> [PathBuf; 2] {
    PARTS.map(|part| folder.join(format!("{part}.{}", source.format_name())))
}

/// Returns the files that [`Parts::make`] writes; none if the parts are files that exist.
pub(super) fn targets(source: &Source, folder: &Path, arguments: &Init) -> Vec<PathBuf> {
    let divides =
        source.eval.is_none() && arguments.eval_share != 0.0 && source.train.len() < FILES_MIN;
    if divides {
        paths(source, folder).to_vec()
    } else {
        Vec::new()
    }
}

/// Returns the label where its classes are whole numbers in a column of floats, as pandas has them where one is missing. The parts have it
/// as a column of whole numbers: a class is found by its text, which a float does not have.
fn label_of_whole_floats<'a>(plan: &'a Plan, found: &Profile) -> Option<&'a str> {
    let label = &plan.label;
    let are_whole = found.column(&label.column).is_some_and(|column| {
        column.is_numeric() && column.is_typed_float() && column.numbers.fractions == 0
    });
    (are_whole && !matches!(label.task, Task::Number { .. })).then_some(label.column.as_str())
}

/// Extends the layout of copies by a row. Those of a format with types have the types of the original.
pub(super) fn see(source: &Source, layout: &mut Layout, names: &[String], row: &[Cell]) {
    if source.has_types() {
        layout.see_typed(names, row);
    } else {
        layout.see(names, row);
    }
}

/// The parts that are being written.
pub(super) enum Writers {
    /// Of a format without columns of its own types, or whose three types the cells of a table have.
    Tables(Box<[TableWriter; 2]>),
    /// Of columns with types, which stay as they are.
    Copies(Box<RowCopier>),
}

impl Writers {
    pub(super) fn create(
        source: &Source,
        files: &[PathBuf],
        paths: [PathBuf; 2],
        layout: Layout,
        whole: Option<&str>,
    ) -> Result<Self, Diagnostic> {
        if source.format == Format::Parquet {
            let copier = RowCopier::create(files, paths, whole)?;
            return Ok(Self::Copies(Box::new(copier)));
        }
        let create = |path: &Path| {
            let delimiter = source.style.delimiter;
            TableWriter::create_with_delimiter(path, source.format, delimiter, layout.clone())
        };
        let [train, eval] = &paths;
        Ok(Self::Tables(Box::new([create(train)?, create(eval)?])))
    }

    /// Puts the next row of the files in a part, or in none.
    pub(super) fn place(&mut self, part: Option<usize>, row: &[Cell]) -> Result<(), Diagnostic> {
        match (self, part) {
            (Self::Copies(copier), part) => copier.place(part)?,
            (Self::Tables(writers), Some(part)) => writers[part].write(row)?,
            (Self::Tables(_), None) => {}
        }
        Ok(())
    }

    /// Leaves out the other rows of the current file.
    pub(super) fn end_file(&mut self) -> Result<(), Diagnostic> {
        if let Self::Copies(copier) = self {
            copier.end_file()?;
        }
        Ok(())
    }

    /// Completes the first `parts` parts, and removes the other.
    pub(super) fn finish(self, parts: usize) -> Result<(), Diagnostic> {
        match self {
            Self::Copies(copier) => copier.finish(parts)?,
            Self::Tables(writers) => {
                for writer in writers.into_iter().take(parts) {
                    writer.finish()?;
                }
            }
        }
        Ok(())
    }
}

/// Writes the two parts as files of the same format beside the job.
fn divide(
    source: &Source,
    plan: &Plan,
    found: &Profile,
    folder: &Path,
    share: f64,
) -> Result<Parts, Diagnostic> {
    let after = plan.time.as_deref().and_then(|column| {
        let column = found.column(column)?;
        Some((column, split_time(column, share)?))
    });
    let rule = match after {
        Some((column, after)) => Rule::Time { column, after },
        None => Rule::Random { share },
    };
    let options = source.options();
    let mut reader = source.reader(options.files, options.columns, &source.style);
    let mut layout = Layout::default();
    let mut row = Vec::new();
    let mut bad_rows = 0_u64;
    let mut unlabelled = 0_u64;
    while let Some(is_good) = next(&mut reader, &mut row)? {
        if is_good {
            see(source, &mut layout, reader.columns(), &row);
        } else {
            bad_rows += 1;
        }
    }
    reader.rewind();
    let whole = label_of_whole_floats(plan, found);
    write_as_whole_numbers(&mut layout, whole);
    let paths = paths(source, folder);
    let mut writers = Writers::create(source, &source.train, paths.clone(), layout, whole)?;
    let [train, eval] = &paths;
    let mut train_rows = 0;
    let mut eval_rows = 0;
    while let Some(is_good) = next(&mut reader, &mut row)? {
        let is_unlabelled =
            is_good && lacks(reader.columns(), &row, &plan.label.column, &source.missing);
        unlabelled += u64::from(is_unlabelled);
        let part = if !is_good || is_unlabelled {
            None
        } else if rule.keeps_for_evaluation(train_rows + eval_rows, reader.columns(), &row) {
            eval_rows += 1;
            Some(1)
        } else {
            train_rows += 1;
            Some(0)
        };
        if part.is_some() {
            refuse_fraction(reader.columns(), &row, whole)?;
        }
        writers.place(part, &row)?;
    }
    writers.finish(if eval_rows == 0 { 1 } else { 2 })?;
    if eval_rows == 0 {
        let told = vec![
            format!(
                "evaluation none: {train_rows} records are too few to keep some; --eval FILE names others"
            ),
            format!("wrote      {}", train.display()),
        ];
        let mut told = told;
        told.extend(left_out(bad_rows, unlabelled, plan));
        told.extend(whole.map(told_of_label));
        let train = vec![train.clone()];
        return Ok(Parts {
            train,
            eval: None,
            train_rows: Some(train_rows),
            columns: None,
            style: source.written_style(),
            told,
        });
    }
    let how = match rule {
        Rule::Time { column, after } => {
            format!("those later than {after} by `{}`", column.name)
        }
        Rule::Random { .. } => match &plan.time {
            Some(column) => {
                format!("at random: too many records have the latest time of `{column}`")
            }
            None => "at random".to_owned(),
        },
    };
    let mut told = vec![
        format!(
            "evaluation {eval_rows} of {} records, {how}",
            train_rows + eval_rows
        ),
        format!("wrote      {} and {}", train.display(), eval.display()),
    ];
    told.extend(left_out(bad_rows, unlabelled, plan));
    told.extend(whole.map(told_of_label));
    if source.style.encoding != TextEncoding::Utf8 {
        told.push("           both are written in UTF-8".to_owned());
    }
    let [train, eval] = paths;
    // The written files contain the names of their columns.
    Ok(Parts {
        train: vec![train],
        eval: Some(vec![eval]),
        train_rows: Some(train_rows),
        columns: None,
        style: source.written_style(),
        told,
    })
}

/// Makes the label a column of whole numbers.
fn write_as_whole_numbers(layout: &mut Layout, label: Option<&str>) {
    let mut columns = layout.columns.iter_mut();
    if let Some(column) = columns.find(|column| Some(column.name.as_str()) == label) {
        column.kind = Some(ColumnKind::Int);
    }
}

/// Refuses a label with a fraction where the labels that were read before are whole numbers and classes.
fn refuse_fraction(names: &[String], row: &[Cell], whole: Option<&str>) -> Result<(), Diagnostic> {
    let place = names.iter().position(|name| Some(name.as_str()) == whole);
    let cell = place.and_then(|place| row.get(place));
    let fraction = cell
        .into_iter()
        .flat_map(|cell| &cell.values)
        .find_map(|value| match value {
            Value::Float(number) if number.fract() != 0.0 => Some(*number),
            _ => None,
        });
    let (Some(name), Some(number)) = (whole, fraction) else {
        return Ok(());
    };
    let message = format!(
        "`{name}` holds {number} after the records that were read first, whose labels are whole numbers and so classes"
    );
    Err(Diagnostic::error(Code::E4003, message)
        .help("read all records with --all, so that the label is a number, or correct the record"))
}

fn told_of_label(label: &str) -> String {
    format!("           `{label}` holds classes as floats, and is written there as whole numbers")
}

/// Describes the records that are left out, one entry per line.
fn left_out(bad_rows: u64, unlabelled: u64, plan: &Plan) -> Vec<String> {
    let mut told = Vec::new();
    if bad_rows > 0 {
        told.push(format!("left out   {bad_rows} records that cannot be read"));
    }
    if unlabelled > 0 {
        told.push(format!(
            "left out   {unlabelled} records without a label in `{}`",
            plan.label.column
        ));
    }
    told
}

/// Returns whether a row has no value in a column.
fn lacks(names: &[String], row: &[Cell], column: &str, missing: &[String]) -> bool {
    let place = names.iter().position(|name| name == column);
    let values = place.and_then(|place| Some(row.get(place)?.values.as_slice()));
    match values.unwrap_or_default() {
        [] | [Value::Missing] => true,
        [Value::Text(text)] => missing
            .iter()
            .any(|word| word.as_bytes() == text.as_slice()),
        [Value::Float(number)] => !number.is_finite(),
        _ => false,
    }
}

/// Reads the next record. Returns whether it can be read, or `None` at the end.
pub(super) fn next(
    reader: &mut TableReader,
    row: &mut Vec<Cell>,
) -> Result<Option<bool>, Diagnostic> {
    match reader.read(row) {
        Ok(true) => Ok(Some(true)),
        Ok(false) => Ok(None),
        Err(Error::Row(_)) => Ok(Some(false)),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_without_a_finite_time_are_not_the_latest() {
        let names = ["at".to_owned()];
        let cell = |value| {
            [Cell {
                values: vec![value],
                list: false,
            }]
        };
        let mut found = Profile::default();
        for time in 0..10 {
            found.see(&names, &cell(Value::Int(time)));
        }
        let column = found.column("at").expect("the column");
        let rule = Rule::Time { column, after: 8.0 };
        let text = |text: &str| Value::Text(text.into());
        for (value, expected) in [
            (Value::Int(9), true),
            (Value::Float(8.5), true),
            (text("9.5"), true),
            (Value::Int(8), false),
            (Value::Float(f64::INFINITY), false),
            (Value::Float(f64::NAN), false),
            (text("inf"), false),
            (text("later"), false),
        ] {
            let kept = rule.keeps_for_evaluation(0, &names, &cell(value.clone()));
            assert_eq!(kept, expected, "{value:?}");
        }
        assert!(!rule.keeps_for_evaluation(0, &names, &[Cell::default()]));
    }
}
