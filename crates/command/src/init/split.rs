//! Division of the records of `trainyard init` into training and evaluation.

use std::hash::{DefaultHasher, Hasher as _};
use std::path::{Path, PathBuf};

use trainyard_diagnostic::Diagnostic;
use trainyard_input::{
    Cell, ColumnKind, ColumnProfile, Error, Layout, Profile, TableReader, TableWriter,
    TextEncoding, TextStyle, Value,
};

use super::plan::{Coverage, Plan, Task, split_time};
use super::source::Source;
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
    }
}

/// Returns the paths of the two parts, if they are written.
fn paths(source: &Source, folder: &Path) -> [PathBuf; 2] {
    ["train", "eval"].map(|part| folder.join(format!("{part}.{}", source.format_name())))
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

/// Makes classes that are whole numbers in a column of floats, as pandas has them where one is missing, a column of whole numbers: a
/// class is found by its text, which a float does not have.
fn write_classes_as_whole_numbers(layout: &mut Layout, plan: &Plan, found: &Profile) {
    let label = &plan.label;
    let are_whole = found
        .column(&label.column)
        .is_some_and(|column| column.is_numeric() && column.numbers.fractions == 0);
    let mut columns = layout.columns.iter_mut();
    if let Some(column) = columns.find(|column| column.name == label.column)
        && column.kind == Some(ColumnKind::Float)
        && are_whole
        && !matches!(label.task, Task::Number { .. })
    {
        column.kind = Some(ColumnKind::Int);
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
            layout.see(reader.columns(), &row);
        } else {
            bad_rows += 1;
        }
    }
    reader.rewind();
    write_classes_as_whole_numbers(&mut layout, plan, found);
    let paths = paths(source, folder);
    let [train, eval] = &paths;
    let delimiter = source.style.delimiter;
    let create = |path: &Path, layout: Layout| {
        TableWriter::create_with_delimiter(path, source.format, delimiter, layout)
    };
    let mut to_train = create(train, layout.clone())?;
    let mut to_eval = create(eval, layout)?;
    let mut train_rows = 0;
    let mut eval_rows = 0;
    while let Some(is_good) = next(&mut reader, &mut row)? {
        if !is_good {
            continue;
        }
        if lacks(reader.columns(), &row, &plan.label.column, &source.missing) {
            unlabelled += 1;
            continue;
        }
        if rule.keeps_for_evaluation(train_rows + eval_rows, reader.columns(), &row) {
            to_eval.write(&row)?;
            eval_rows += 1;
        } else {
            to_train.write(&row)?;
            train_rows += 1;
        }
    }
    to_train.finish()?;
    if eval_rows == 0 {
        // Dropping its writer removes the unfinished evaluation file.
        let told = vec![
            format!(
                "evaluation none: {train_rows} records are too few to keep some; --eval FILE names others"
            ),
            format!("wrote      {}", train.display()),
        ];
        let mut told = told;
        told.extend(left_out(bad_rows, unlabelled, plan));
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
    to_eval.finish()?;
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
        [] => true,
        [Value::Text(text)] => missing
            .iter()
            .any(|word| word.as_bytes() == text.as_slice()),
        [Value::Float(number)] => number.is_nan(),
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
