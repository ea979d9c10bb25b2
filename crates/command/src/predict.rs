//! `trainyard predict`: one line per record, in order, with columns that identify the record.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use serde_json::{Map, Value, json};
use trainyard_daemon::{StopSource, report};
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_input::{BadRow, Cell, Value as Kept};
use trainyard_model::{Build, Part, Prediction, Shard, input_options};
use trainyard_predictor::{Predicted, Predictor};
use trainyard_run_config::{BadRows, Job};

use crate::arguments::{JobArguments, Source};
use crate::data_warnings::report_ambiguous_files;
use crate::output::{Sink, read_files};
use crate::targets::refuse_source;
use crate::times_of_files::compare_times;
use crate::trained_values::{OF_PREDICTIONS, origin, warn_of_other_job};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Lines {
    /// One JSON object per line.
    Jsonl,
    /// A header, then one record per line.
    Csv,
}

#[derive(Debug, Args)]
pub(crate) struct Predict {
    #[command(flatten)]
    pub(crate) job: JobArguments,
    /// Global step of the checkpoint. Default: the newest checkpoint.
    #[arg(long, value_name = "N")]
    pub(crate) step: Option<u64>,
    #[command(flatten)]
    pub(crate) source: Source,
    /// Files to predict, in the job's input format. Default: the job's evaluation input. Labels are not read.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub(crate) input: Vec<String>,
    /// Columns of the files to write beside each prediction, unchanged, so that records can be identified. Separate
    /// names by commas, or repeat the flag.
    #[arg(long, value_name = "COLUMN,COLUMN", value_delimiter = ',')]
    pub(crate) keep: Vec<String>,
    /// Format of the predictions.
    #[arg(long, value_enum, default_value = "jsonl")]
    pub(crate) format: Lines,
    /// File of the predictions. Default: standard output. A file of that name is replaced when the new one is whole.
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Key, or column, of the error of a record that cannot be predicted.
const ERROR: &str = "error";

/// Most lines of CSV that wait for the first readable record: its prediction gives the names of the columns.
const WAITING_LINES_MAX: usize = 100_000;

/// Bad records that the final message shows.
const SHOWN_MAX: usize = 5;

/// Writes the predictions of a checkpoint, until `stop` asks for the end.
pub(crate) fn predict(
    arguments: &Predict,
    build: Build,
    stop: &StopSource,
) -> Result<(), Vec<Diagnostic>> {
    refuse_repeated(&arguments.keep).map_err(|problem| vec![problem])?;
    let mut job = arguments.job.load()?;
    read_files(&mut job, &arguments.input);
    report_ambiguous_files(&job, arguments.job.log_format);
    let work = || {
        let model = Arc::from(build(&job)?);
        let origin = origin(&job, arguments.step, &arguments.source)?;
        warn_of_other_job(&job, origin.job(), &OF_PREDICTIONS);
        let predictor = Predictor::open(&origin, model)?;
        let input = input_options(&job, Part::Eval, Shard::WHOLE, None)?;
        report(&compare_times(&job, &input)?, arguments.job.log_format);
        if let Some(path) = &arguments.output {
            refuse_source(path, arguments.source.from.as_deref())?;
        }
        let mut out = Sink::of_job(arguments.output.as_deref(), &job, &input.files)?;
        let mut lines = Writer::new(arguments.format, arguments.keep.clone());
        let mut seen = Seen::default();
        let kept = arguments.keep.clone();
        trainyard_predictor::predict(&predictor, input, kept, |predicted| {
            seen.add(&predicted);
            out.write(&lines.line(&predicted)?)?;
            Ok(if out.is_closed() || stop.is_requested() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            })
        })?;
        out.write(&lines.end())?;
        let closed = out.is_closed();
        out.finish()?;
        if closed || stop.is_requested() {
            // The reader has closed the pipe, or the caller has asked to stop: the remaining records were not read.
            return Ok(());
        }
        let _ = writeln!(std::io::stderr(), "{}", seen.line());
        seen.verdict(&job)
    };
    work().map_err(|problem| vec![problem])
}

/// Refuses a column that is to be kept twice: the output has each name once.
fn refuse_repeated(keep: &[String]) -> Result<(), Diagnostic> {
    let mut seen = BTreeSet::new();
    match keep.iter().find(|column| !seen.insert(*column)) {
        None => Ok(()),
        Some(column) => {
            let message = format!("--keep names the column `{column}` twice");
            Err(Diagnostic::error(Code::E1000, message).help("name each column once"))
        }
    }
}

/// Counts of the records so far, and the first bad records.
#[derive(Debug, Default)]
struct Seen {
    records: u64,
    bad: u64,
    first: Vec<BadRow>,
    /// Records whose predictions are not finite.
    nonfinite: u64,
}

impl Seen {
    fn add(&mut self, predicted: &Predicted) {
        self.records += 1;
        self.nonfinite += u64::from(nonfinite(predicted).is_some());
        if let Err(bad) = &predicted.outcome {
            self.bad += 1;
            if self.first.len() < SHOWN_MAX {
                self.first.push(bad.clone());
            }
        }
    }

    fn line(&self) -> String {
        let bad = self.bad + self.nonfinite;
        let records = self.records;
        let predicted = records - bad;
        if bad == 0 {
            format!("predicted {records} records")
        } else {
            format!(
                "predicted {predicted} of {records} records: the lines of the other {bad} say why under `{ERROR}`"
            )
        }
    }

    /// Applies the job's limit on bad records, as training does.
    fn verdict(self, job: &Job) -> Result<(), Diagnostic> {
        let Self {
            records,
            bad,
            first,
            nonfinite,
        } = self;
        if nonfinite > 0 {
            let message =
                format!("the predictions of {nonfinite} of {records} records are not finite");
            return Err(Diagnostic::error(Code::E5001, message)
                .note(format!("their lines have an `{ERROR}`"))
                .help("take an earlier checkpoint, and look for values of the records that are far outside of those of training"));
        }
        let most = match job.input.bad_rows {
            BadRows::Fail => 0,
            BadRows::Skip => job.input.bad_rows_max,
        };
        if bad <= most {
            return Ok(());
        }
        let message = format!("{bad} of {records} records are unreadable, {most} may be");
        let problem = first
            .iter()
            .fold(Diagnostic::error(Code::E4004, message), |problem, row| {
                problem.note(row.to_string())
            });
        Err(match job.input.bad_rows {
            BadRows::Skip => problem.help("fix the records, or raise input.bad_rows_max"),
            BadRows::Fail if bad == records => {
                problem.help("correct the job's columns and features, or give other files")
            }
            BadRows::Fail => problem.help(
                "fix the records, or set input.bad_rows = \"skip\": their lines then hold an error",
            ),
        })
    }
}

/// Formats the lines.
#[derive(Debug)]
struct Writer {
    format: Lines,
    kept: Vec<String>,
    /// Columns of CSV, known after the first prediction.
    columns: Option<Vec<String>>,
    /// Records of CSV that came before the first prediction.
    waiting: Vec<Predicted>,
}

impl Writer {
    fn new(format: Lines, kept: Vec<String>) -> Self {
        Self {
            format,
            kept,
            columns: None,
            waiting: Vec::new(),
        }
    }

    /// Returns the lines that can be written after this record.
    fn line(&mut self, predicted: &Predicted) -> Result<String, Diagnostic> {
        if let Ok(prediction) = &predicted.outcome {
            self.tell_apart(prediction)?;
        }
        self.refuse_bytes(predicted)?;
        match self.format {
            Lines::Jsonl => Ok(self.jsonl(predicted)),
            Lines::Csv => self.csv(predicted),
        }
    }

    /// Returns the lines that were held back until the end.
    fn end(&mut self) -> String {
        match self.format {
            Lines::Csv if self.columns.is_none() => self.csv_from(Vec::new()),
            Lines::Csv | Lines::Jsonl => String::new(),
        }
    }

    /// Refuses a kept cell whose bytes are no text: lines are UTF-8.
    fn refuse_bytes(&self, predicted: &Predicted) -> Result<(), Diagnostic> {
        for (name, cell) in self.kept.iter().zip(&predicted.kept) {
            let is_bytes = |value: &Kept| matches!(value, Kept::Text(text) if std::str::from_utf8(text).is_err());
            if cell.values.iter().any(is_bytes) {
                let message = format!(
                    "--keep {name}: a record holds bytes that are not UTF-8 there, and predictions are written as UTF-8"
                );
                return Err(Diagnostic::error(Code::E4005, message).help(
                    "keep another column that names the record; for texts in another encoding, set input.encoding",
                ));
            }
        }
        Ok(())
    }

    /// Refuses a kept column whose name is a key of the prediction.
    fn tell_apart(&self, prediction: &BTreeMap<String, Prediction>) -> Result<(), Diagnostic> {
        let hidden = |name: &&String| prediction.contains_key(name.as_str()) || *name == ERROR;
        let Some(name) = self.kept.iter().find(hidden) else {
            return Ok(());
        };
        let keys: Vec<&str> = prediction
            .keys()
            .map(String::as_str)
            .chain([ERROR])
            .collect();
        let message = format!("--keep {name}: a prediction has a value of that name");
        Err(Diagnostic::error(Code::E1000, message)
            .note(format!("names of a prediction: {}", keys.join(", ")))
            .help("rename the column in the file; a CSV file gets other names by input.columns"))
    }

    fn jsonl(&self, predicted: &Predicted) -> String {
        let mut object = Map::new();
        for (name, cell) in self.kept.iter().zip(&predicted.kept) {
            object.insert(name.clone(), cell_json(cell));
        }
        match &predicted.outcome {
            Ok(prediction) => {
                if let Some(text) = nonfinite(predicted) {
                    object.insert(ERROR.to_owned(), json!(text));
                }
                object.extend(
                    prediction
                        .iter()
                        .map(|(key, values)| (key.clone(), prediction_json(values))),
                );
            }
            Err(bad) => {
                object.insert(ERROR.to_owned(), json!(bad.to_string()));
            }
        }
        format!("{}\n", Value::Object(object))
    }

    fn csv(&mut self, predicted: &Predicted) -> Result<String, Diagnostic> {
        if self.columns.is_some() {
            return Ok(self.row(predicted));
        }
        match &predicted.outcome {
            Ok(prediction) => {
                let columns = csv_cells(prediction)
                    .into_iter()
                    .map(|(name, _)| name)
                    .collect();
                Ok(self.csv_from(columns) + &self.row(predicted))
            }
            Err(_) if self.waiting.len() < WAITING_LINES_MAX => {
                self.waiting.push(predicted.clone());
                Ok(String::new())
            }
            Err(bad) => {
                let message = format!("none of the first {WAITING_LINES_MAX} records can be read");
                Err(Diagnostic::error(Code::E4004, message)
                    .note(bad.to_string())
                    .help("correct the job's columns and features, or give other files"))
            }
        }
    }

    /// Returns the header, and the lines that have waited for it.
    fn csv_from(&mut self, columns: Vec<String>) -> String {
        let names = self.kept.iter().chain(&columns).map(|name| quoted(name));
        let names: Vec<String> = names.chain([ERROR.to_owned()]).collect();
        self.columns = Some(columns);
        let mut text = format!("{}\n", names.join(","));
        for predicted in std::mem::take(&mut self.waiting) {
            text += &self.row(&predicted);
        }
        text
    }

    fn row(&self, predicted: &Predicted) -> String {
        let mut cells: Vec<String> = Vec::new();
        for place in 0..self.kept.len() {
            cells.push(predicted.kept.get(place).map_or(String::new(), cell_csv));
        }
        match &predicted.outcome {
            Ok(prediction) => {
                cells.extend(csv_cells(prediction).into_iter().map(|(_, text)| text));
                cells.push(nonfinite(predicted).map_or(String::new(), |text| quoted(&text)));
            }
            Err(bad) => {
                let columns = self.columns.as_ref().map_or(0, Vec::len);
                cells.extend(std::iter::repeat_n(String::new(), columns));
                cells.push(quoted(&bad.to_string()));
            }
        }
        format!("{}\n", cells.join(","))
    }
}

/// Returns why a prediction is none, if a number of it is not finite.
fn nonfinite(predicted: &Predicted) -> Option<String> {
    trainyard_predictor::nonfinite(predicted.outcome.as_ref().ok()?)
}

fn prediction_json(prediction: &Prediction) -> Value {
    match prediction {
        // The shortest decimal text keeps 0.1 from becoming 0.10000000149011612.
        Prediction::Floats(values) => values
            .iter()
            .map(|value| json!(value.to_string().parse::<f64>().ok()))
            .collect(),
        Prediction::Ints(values) => json!(values),
        Prediction::Texts(values) => json!(values),
    }
}

/// Returns one column per value: `probabilities_0`, `probabilities_1`. A key with one value is a single column. Keys
/// that are the same for every record are left out.
fn csv_cells(prediction: &BTreeMap<String, Prediction>) -> Vec<(String, String)> {
    let mut out = Vec::new();
    for (key, values) in prediction
        .iter()
        .filter(|(key, _)| !key.rsplit('/').next().unwrap_or(key).starts_with("all_"))
    {
        let texts: Vec<String> = match values {
            Prediction::Floats(values) => values.iter().map(f32::to_string).collect(),
            Prediction::Ints(values) => values.iter().map(i64::to_string).collect(),
            Prediction::Texts(values) => values.iter().map(|text| quoted(text)).collect(),
        };
        let single = texts.len() == 1;
        for (index, text) in texts.into_iter().enumerate() {
            let name = if single {
                key.clone()
            } else {
                format!("{key}_{index}")
            };
            out.push((name, text));
        }
    }
    out
}

/// Returns a cell as JSON with the type that it has in the file. All cells of CSV and libsvm are texts. An empty cell
/// is null.
fn cell_json(cell: &Cell) -> Value {
    let value = |value: &Kept| match value {
        Kept::Int(number) => json!(number),
        Kept::Float(number) => json!(number),
        Kept::Text(text) => json!(String::from_utf8_lossy(text)),
    };
    match cell.values.as_slice() {
        values if cell.list => values.iter().map(value).collect(),
        [] => Value::Null,
        [one] => value(one),
        values => values.iter().map(value).collect(),
    }
}

/// Returns a cell as a field of CSV, with bars between several values.
fn cell_csv(cell: &Cell) -> String {
    let value = |value: &Kept| match value {
        Kept::Int(number) => number.to_string(),
        Kept::Float(number) => number.to_string(),
        Kept::Text(text) => String::from_utf8_lossy(text).into_owned(),
    };
    let texts: Vec<String> = cell.values.iter().map(value).collect();
    match cell.values.as_slice() {
        [Kept::Int(_) | Kept::Float(_)] => texts.concat(),
        _ => quoted(&texts.join("|")),
    }
}

/// Returns a text as a field of CSV (RFC 4180), in quotes if it holds a special character.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
