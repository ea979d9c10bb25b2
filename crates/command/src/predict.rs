//! `trainyard predict`: one line per record, in order, with columns that identify the record.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum};
use serde_json::{Map, Value, json};
use trainyard_daemon::{LogFormat, StopSource, report, taken_console};
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_input::{
    BadRow, Cell, ColumnType, Compression, Format, Options, TypeKind, Value as Kept, column_types,
};
use trainyard_model::{AnyModel, Build, Part, Prediction, Shard, input_options, with_constants};
use trainyard_predictor::{Predicted, Predictor};
use trainyard_run_config::{BadRows, Job};

mod table;

use self::table::Table;
use crate::arguments::{JobArguments, Source};
use crate::convert::{Written, compressed_parquet, other_type, refuse_bytes};
use crate::data_warnings::{report_ambiguous_files, report_unknown_values};
use crate::output::{Sink, read_files, refuse_absent_folder};
use crate::output_form::{JSON, ending_of_content, refuse_other_content};
use crate::targets::{refuse_own_file, refuse_own_input, refuse_source};
use crate::times_of_files::{Labels, compare_times};
use crate::trained_values::{OF_PREDICTIONS, origin, warn_of_other_job};
use crate::unseen_columns::unseen_columns;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// One JSON object per line.
    Jsonl,
    /// A header, then one record per line.
    Csv,
    /// As csv, with tabs and without quotes.
    Tsv,
    /// A Parquet file.
    Parquet,
    /// A TFRecord file of `tf.train.Example` messages.
    Tfrecord,
}

impl Form {
    /// Every form with the endings of its files.
    const ENDINGS: [(Self, &[&str]); 5] = [
        (Self::Jsonl, &JSON),
        (Self::Csv, &["csv"]),
        (Self::Tsv, &["tsv", "tab"]),
        (Self::Parquet, &["parquet", "pq"]),
        (Self::Tfrecord, &["tfrecord", "tfrecords"]),
    ];

    /// Returns the form of a file: that of the arguments, or that of its name's ending.
    fn of(given: Option<Self>, output: Option<&Path>) -> Result<Self, Diagnostic> {
        let Some(path) = output else {
            let form = given.unwrap_or(Self::Jsonl);
            if form.is_table() {
                let message = "predictions of that format are written into a file alone";
                let problem = Diagnostic::error(Code::E1000, message);
                return Err(problem.help("name it with --output"));
            }
            return Ok(form);
        };
        let known = |ending: &String| {
            let mut all = Self::ENDINGS.into_iter();
            let (form, _) = all.find(|(_, endings)| endings.contains(&ending.as_str()))?;
            Some(form)
        };
        let by_name = ending_of_content(path).as_ref().and_then(known);
        let form = match (given, by_name) {
            (Some(given), Some(other)) if given != other => {
                let message = format!(
                    "--output {} and --format contradict each other: the name stands for another format",
                    path.display()
                );
                let problem = Diagnostic::error(Code::E1000, message);
                return Err(problem.help("leave --format out, or give the file another ending"));
            }
            (Some(given), ..) => given,
            (None, Some(form)) => form,
            (None, None) => {
                let all = Self::ENDINGS.iter().flat_map(|(_, endings)| *endings);
                let all: Vec<&str> = all.copied().collect();
                refuse_other_content(path, &all).map_err(|problem| {
                    problem.note("--format says what is written into a file of another ending")
                })?;
                Self::Jsonl
            }
        };
        if form == Self::Parquet && Compression::of(path) != Compression::None {
            return Err(compressed_parquet(path));
        }
        Ok(form)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Jsonl => "jsonl",
            Self::Csv => "csv",
            Self::Tsv => "tsv",
            Self::Parquet => "parquet",
            Self::Tfrecord => "tfrecord",
        }
    }

    fn is_table(self) -> bool {
        matches!(self, Self::Parquet | Self::Tfrecord)
    }
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
    /// Format of the predictions. Default: the one that the ending of --output stands for, or jsonl. In csv and tsv, each value of a list has
    /// a column: probabilities_0, probabilities_1.
    #[arg(long, value_enum)]
    pub(crate) format: Option<Form>,
    /// File of the predictions: .jsonl, .json, .csv, .tsv, .parquet or .tfrecord, and .gz after it for a compressed one. A name that ends by
    /// no format, such as .txt, gets JSON lines. Default: standard output. A file of that name is replaced when the new one is whole.
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Key, or column, of the error of a record that cannot be predicted.
const ERROR: &str = "error";

/// Most records that wait for the first readable one: its prediction gives the names of the columns.
const WAITING_MAX: usize = 100_000;

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
        let form = arguments.form(&job)?;
        let model: Arc<AnyModel> = Arc::from(build(&job)?);
        let origin = origin(&job, arguments.step, &arguments.source)?;
        warn_of_other_job(
            &with_constants(&job, &*model),
            origin.job(),
            &OF_PREDICTIONS,
        );
        let predictor = Predictor::open(&origin, model)?;
        let input = input_options(&job, Part::Eval, Shard::WHOLE, None)?;
        let other_times = compare_times(&job, origin.job(), &input, Labels::Unread)?;
        report(&other_times, arguments.job.log_format);
        let unseen = unseen_columns(&input, predictor.model().serving_schema());
        report(unseen.as_slice(), arguments.job.log_format);
        if let Some(path) = &arguments.output {
            refuse_source(path, arguments.source.from.as_deref())?;
        }
        let mut out = Output::open(arguments, form, &job, &input)?;
        report_unknown_values(&job, &input, arguments.job.log_format);
        let mut seen = Seen::default();
        let kept = arguments.keep.clone();
        trainyard_predictor::predict(&predictor, input, kept, |predicted| {
            seen.add(&predicted);
            out.add(&predicted)?;
            Ok(if out.is_closed() || stop.is_requested() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            })
        })?;
        let closed = out.finish(arguments.job.log_format)?;
        if closed || stop.is_requested() {
            // The reader has closed the pipe, or the caller has asked to stop: the remaining records were not read.
            return Ok(());
        }
        match taken_console() {
            Some(console) => console.print(&format!("{}\n", seen.line())),
            None => drop(writeln!(std::io::stderr(), "{}", seen.line())),
        }
        seen.verdict(&job)
    };
    work().map_err(|problem| vec![problem])
}

impl Predict {
    /// Returns the form of the result, and refuses a file that may not be one, before the work.
    fn form(&self, job: &Job) -> Result<Form, Diagnostic> {
        if let Some(path) = &self.output {
            refuse_own_file(path, job)?;
        }
        Form::of(self.format, self.output.as_deref())
    }
}

/// Where predictions go.
enum Output {
    Lines(Box<(Sink, Writer)>),
    Table(Box<Table>, Checks),
}

impl Output {
    fn open(
        arguments: &Predict,
        form: Form,
        job: &Job,
        input: &Options,
    ) -> Result<Self, Diagnostic> {
        let path = arguments.output.as_deref();
        let kept = &arguments.keep;
        let types = types_of(kept, input)?;
        let format = match form {
            Form::Parquet => Format::Parquet,
            Form::Tfrecord => Format::TfRecord,
            Form::Jsonl | Form::Csv | Form::Tsv => {
                refuse_bytes(
                    &types,
                    |name| format!("--keep {name}: the column"),
                    form.name(),
                )?;
                report(&told_of_types(&types, form), arguments.job.log_format);
                let sink = Sink::of_job(path, job, &input.files)?;
                let lines = (sink, Writer::new(form, types));
                return Ok(Self::Lines(Box::new(lines)));
            }
        };
        let path = path.unwrap_or(Path::new(""));
        refuse_own_input(path, &input.files)?;
        refuse_absent_folder(path)?;
        let checks = Checks { kept: kept.clone() };
        let table = Table::new(path, format, kept, input)?;
        report(&table.told_of_types(&types), arguments.job.log_format);
        Ok(Self::Table(Box::new(table), checks))
    }

    fn add(&mut self, predicted: &Predicted) -> Result<(), Diagnostic> {
        match self {
            Self::Lines(lines) => {
                let (sink, writer) = &mut **lines;
                sink.write(&writer.line(predicted)?)
            }
            Self::Table(table, checks) => {
                checks.tell_apart(predicted)?;
                table.add(predicted)
            }
        }
    }

    /// Returns whether the reader has closed the pipe.
    fn is_closed(&self) -> bool {
        matches!(self, Self::Lines(lines) if lines.0.is_closed())
    }

    /// Completes the file. Returns whether the reader had closed the pipe.
    fn finish(self, log_format: LogFormat) -> Result<bool, Diagnostic> {
        match self {
            Self::Lines(lines) => {
                let (mut sink, mut writer) = *lines;
                sink.write(&writer.end()?)?;
                report(&writer.notes(), log_format);
                let closed = sink.is_closed();
                sink.finish()?;
                Ok(closed)
            }
            Self::Table(table, _) => table.finish().map(|()| false),
        }
    }
}

/// Returns the kept columns with their types. Formats without types have other ones.
///
/// # Errors
/// A column has another type in another file.
fn types_of(kept: &[String], input: &Options) -> Result<Vec<ColumnType>, Diagnostic> {
    let types = match input.format {
        Format::Parquet if !kept.is_empty() => column_types(&input.files, Some(kept))?,
        _ => Vec::new(),
    };
    let of_name = |name: &String| {
        let mut types = types.iter();
        let found = types.find(|column| column.name == *name);
        found.cloned().unwrap_or(ColumnType {
            name: name.clone(),
            kind: TypeKind::Other,
            type_name: String::new(),
        })
    };
    Ok(kept.iter().map(of_name).collect())
}

/// Tells the kept columns whose values the lines say in another way.
fn told_of_types(types: &[ColumnType], form: Form) -> Vec<Diagnostic> {
    let written = match form {
        Form::Jsonl => Written::Json,
        _ => Written::Fields,
    };
    let told = types.iter().filter_map(|found| {
        let other = other_type(found, written)?;
        Some(other.told(&format!("--keep {}: the column", found.name), form.name()))
    });
    told.collect()
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

/// Refuses a column that is to be kept under the name of a prediction's: the output has each name once.
fn refuse_taken(kept: &[String], columns: &[String]) -> Result<(), Diagnostic> {
    match kept.iter().find(|column| columns.contains(column)) {
        None => Ok(()),
        Some(column) => {
            let message = format!("--keep names the column `{column}`, which the predictions have");
            Err(Diagnostic::error(Code::E1000, message)
                .help("rename the column in the files, or write jsonl"))
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

/// Checks of the columns to keep.
#[derive(Debug)]
struct Checks {
    kept: Vec<String>,
}

impl Checks {
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

    /// Refuses a kept value that would be another one when it is read again: in text, a value of a list that holds the bar between
    /// values; in JSON, an infinite number. `record` is its number, from 1.
    fn refuse_misfits(
        &self,
        predicted: &Predicted,
        record: u64,
        is_text: bool,
    ) -> Result<(), Diagnostic> {
        for (name, cell) in self.kept.iter().zip(&predicted.kept) {
            let is_list = cell.list || cell.values.len() > 1;
            let misfit = cell.values.iter().find(|value| match value {
                Kept::Text(text) => is_text && is_list && text.contains(&b'|'),
                Kept::Float(number) => !is_text && number.is_infinite(),
                Kept::Int(_) | Kept::Missing => false,
            });
            let Some(value) = misfit else { continue };
            let text = text_of(value);
            let (why, cure) = match value {
                Kept::Text(_) => (
                    format!(
                        "{text:?} is one value of a list, and holds `|`, which stands between the values of a list: it would be read as several"
                    ),
                    "write jsonl, parquet or tfrecord, or keep another column that names the record",
                ),
                _ => (
                    format!("{text} is no number of JSON"),
                    "write csv, tsv, parquet or tfrecord, or keep another column that names the record",
                ),
            };
            let message = format!("--keep {name}: record {record} of the input: {why}");
            return Err(Diagnostic::error(Code::E4005, message).help(cure));
        }
        Ok(())
    }

    /// Refuses a kept column whose name is a key of the prediction.
    fn tell_apart(&self, predicted: &Predicted) -> Result<(), Diagnostic> {
        let Ok(prediction) = &predicted.outcome else {
            return Ok(());
        };
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
}

/// Formats the lines.
#[derive(Debug)]
struct Writer {
    format: Form,
    checks: Checks,
    /// The kept columns.
    types: Vec<ColumnType>,
    /// For each kept column, the number of records so far that hold NaN there.
    nan: Vec<u64>,
    /// Records so far.
    records: u64,
    /// Columns of csv and tsv, known after the first prediction.
    columns: Option<Vec<String>>,
    /// Records of csv and tsv that came before the first prediction.
    waiting: Vec<Predicted>,
}

impl Writer {
    fn new(format: Form, types: Vec<ColumnType>) -> Self {
        let kept = types.iter().map(|column| column.name.clone()).collect();
        Self {
            format,
            checks: Checks { kept },
            nan: vec![0; types.len()],
            types,
            records: 0,
            columns: None,
            waiting: Vec::new(),
        }
    }

    /// Returns the lines that can be written after this record.
    fn line(&mut self, predicted: &Predicted) -> Result<String, Diagnostic> {
        self.checks.tell_apart(predicted)?;
        self.checks.refuse_bytes(predicted)?;
        self.records += 1;
        let is_text = matches!(self.format, Form::Csv | Form::Tsv);
        self.checks
            .refuse_misfits(predicted, self.records, is_text)?;
        if is_text {
            return self.fields(predicted);
        }
        let is_nan = |value: &Kept| matches!(value, Kept::Float(number) if number.is_nan());
        for (records, cell) in self.nan.iter_mut().zip(&predicted.kept) {
            *records += u64::from(cell.values.iter().any(is_nan));
        }
        Ok(self.jsonl(predicted))
    }

    /// Tells the kept columns with numbers for which JSON has no place.
    fn notes(&self) -> Vec<Diagnostic> {
        let columns = self.types.iter().zip(&self.nan);
        let note = |(column, records): (&ColumnType, &u64)| {
            let message = format!(
                "--keep {}: {records} record{} NaN there, which is no number of JSON: jsonl has null for it, as for a missing value",
                column.name,
                if *records == 1 { " holds" } else { "s hold" }
            );
            Diagnostic::warning(Code::E4005, message)
                .help("write csv, tsv, parquet or tfrecord where the two mean different things")
        };
        columns
            .filter(|(_, records)| **records > 0)
            .map(note)
            .collect()
    }

    /// Returns the lines that were held back until the end.
    fn end(&mut self) -> Result<String, Diagnostic> {
        match self.format {
            Form::Csv | Form::Tsv if self.columns.is_none() => self.begin(Vec::new()),
            _ => Ok(String::new()),
        }
    }

    fn jsonl(&self, predicted: &Predicted) -> String {
        let mut object = Map::new();
        let kept = self.checks.kept.iter().zip(&predicted.kept);
        for ((name, cell), column) in kept.zip(&self.types) {
            object.insert(name.clone(), cell_json(cell, column.kind));
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

    fn fields(&mut self, predicted: &Predicted) -> Result<String, Diagnostic> {
        if self.columns.is_some() {
            return self.row(predicted);
        }
        match &predicted.outcome {
            Ok(prediction) => {
                let cells = cells_of(prediction).into_iter();
                let columns = cells.map(|(name, _)| name).collect();
                Ok(self.begin(columns)? + &self.row(predicted)?)
            }
            Err(_) if self.waiting.len() < WAITING_MAX => {
                self.waiting.push(predicted.clone());
                Ok(String::new())
            }
            Err(bad) => Err(none_is_readable(bad)),
        }
    }

    /// Returns the header, and the lines that have waited for it.
    fn begin(&mut self, columns: Vec<String>) -> Result<String, Diagnostic> {
        refuse_taken(&self.checks.kept, &columns)?;
        let names = self.checks.kept.iter().chain(&columns).cloned();
        let mut text = self.joined(names.chain([ERROR.to_owned()]))?;
        self.columns = Some(columns);
        for predicted in std::mem::take(&mut self.waiting) {
            text += &self.row(&predicted)?;
        }
        Ok(text)
    }

    fn row(&self, predicted: &Predicted) -> Result<String, Diagnostic> {
        let mut cells: Vec<String> = Vec::new();
        for place in 0..self.checks.kept.len() {
            cells.push(predicted.kept.get(place).map_or(String::new(), field));
        }
        let error = match &predicted.outcome {
            Ok(prediction) => {
                cells.extend(cells_of(prediction).into_iter().map(|(_, text)| text));
                nonfinite(predicted).unwrap_or_default()
            }
            Err(bad) => {
                let columns = self.columns.as_ref().map_or(0, Vec::len);
                cells.extend(std::iter::repeat_n(String::new(), columns));
                bad.to_string()
            }
        };
        // A message may quote the record.
        cells.push(match self.format {
            Form::Tsv => error.replace(['\t', '\n', '\r'], " "),
            _ => error,
        });
        self.joined(cells)
    }

    /// Returns a line of these fields.
    fn joined(&self, fields: impl IntoIterator<Item = String>) -> Result<String, Diagnostic> {
        let mut fields = fields.into_iter();
        if self.format != Form::Tsv {
            let fields: Vec<String> = fields.map(|text| quoted(&text)).collect();
            return Ok(format!("{}\n", fields.join(",")));
        }
        let mut texts = Vec::new();
        for text in fields.by_ref() {
            if text.contains(['\t', '\n', '\r']) {
                let message =
                    format!("a field of tsv has no tab and no line end, and {text:?} has one");
                return Err(Diagnostic::error(Code::E4005, message).help(
                    "write csv, whose fields may be quoted, or jsonl; or keep another column that names the record",
                ));
            }
            texts.push(text);
        }
        Ok(format!("{}\n", texts.join("\t")))
    }
}

/// The error of an input whose first records are all bad.
fn none_is_readable(bad: &BadRow) -> Diagnostic {
    let message = format!("none of the first {WAITING_MAX} records can be read");
    Diagnostic::error(Code::E4004, message)
        .note(bad.to_string())
        .help("correct the job's columns and features, or give other files")
}

/// Returns why a prediction is none, if a number of it is not finite.
fn nonfinite(predicted: &Predicted) -> Option<String> {
    trainyard_predictor::nonfinite(predicted.outcome.as_ref().ok()?)
}

/// Returns the number of the shortest decimal that means a float: 0.1, and not 0.10000000149011612.
fn shortest(value: f32) -> f64 {
    value.to_string().parse().unwrap_or(f64::from(value))
}

/// Returns a value as text, with an exponent where it is far from 1.
fn text_of(value: &Kept) -> String {
    String::from_utf8_lossy(&value.to_text()).into_owned()
}

fn prediction_json(prediction: &Prediction) -> Value {
    match prediction {
        Prediction::Floats(values) => values.iter().map(|value| json!(shortest(*value))).collect(),
        Prediction::Ints(values) => json!(values),
        Prediction::Texts(values) => json!(values),
    }
}

/// Returns the keys of a prediction without those that are the same for every record.
fn written_keys(
    prediction: &BTreeMap<String, Prediction>,
) -> impl Iterator<Item = (&String, &Prediction)> {
    let is_own = |key: &str| !key.rsplit('/').next().unwrap_or(key).starts_with("all_");
    prediction.iter().filter(move |(key, _)| is_own(key))
}

/// Returns one column per value: `probabilities_0`, `probabilities_1`. A key with one value is a single column.
fn cells_of(prediction: &BTreeMap<String, Prediction>) -> Vec<(String, String)> {
    let mut out = Vec::new();
    for (key, values) in written_keys(prediction) {
        let texts: Vec<String> = match values {
            Prediction::Floats(values) => values
                .iter()
                .map(|value| text_of(&Kept::Float(shortest(*value))))
                .collect(),
            Prediction::Ints(values) => values.iter().map(i64::to_string).collect(),
            Prediction::Texts(values) => values.clone(),
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

/// Returns a cell as JSON with the type that it has in the file. All cells of CSV and libsvm are texts. An empty cell, and a place in a
/// list that has no value, is null, and so is NaN, which is a missing number.
fn cell_json(cell: &Cell, kind: TypeKind) -> Value {
    let value = |value: &Kept| match (value, kind) {
        (Kept::Int(number), TypeKind::Boolean) => json!(*number != 0),
        (Kept::Int(number), _) => json!(number),
        (Kept::Float(number), _) => json!(number),
        (Kept::Text(digits), TypeKind::Unsigned64) => {
            let digits = String::from_utf8_lossy(digits);
            let number = digits.parse::<u64>();
            number.map_or_else(|_| json!(digits), |number| json!(number))
        }
        (Kept::Text(text), _) => json!(String::from_utf8_lossy(text)),
        (Kept::Missing, _) => Value::Null,
    };
    match cell.values.as_slice() {
        values if cell.list => values.iter().map(value).collect(),
        [] => Value::Null,
        [one] => value(one),
        values => values.iter().map(value).collect(),
    }
}

/// Returns a cell as a field, with bars between several values. A place in a list that has no value is empty.
fn field(cell: &Cell) -> String {
    let texts: Vec<String> = cell.values.iter().map(text_of).collect();
    texts.join("|")
}

/// Returns a text as a field of CSV (RFC 4180), in quotes if it holds a special character.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(values: &[Kept]) -> Cell {
        Cell {
            values: values.to_vec(),
            list: true,
        }
    }

    fn one(value: Kept) -> Cell {
        Cell {
            values: vec![value],
            list: false,
        }
    }

    fn text(text: &str) -> Kept {
        Kept::Text(text.into())
    }

    /// Returns the field of a kept cell, or the refusal.
    fn written(format: Form, cell: &Cell, kind: &TypeKind) -> Result<String, String> {
        let column = ColumnType {
            name: "k".to_owned(),
            kind: *kind,
            type_name: String::new(),
        };
        let mut writer = Writer::new(format, vec![column]);
        let prediction = BTreeMap::from([("p".to_owned(), Prediction::Ints(vec![1]))]);
        let predicted = Predicted {
            kept: vec![cell.clone()],
            outcome: Ok(prediction),
        };
        let lines = writer
            .line(&predicted)
            .map_err(|problem| problem.render())?;
        let line = lines.lines().last().unwrap_or_default().to_owned();
        Ok(match format {
            Form::Jsonl => {
                let value: Value = serde_json::from_str(&line).expect("JSON");
                value["k"].to_string()
            }
            Form::Tsv => line.split('\t').next().unwrap_or_default().to_owned(),
            _ => line
                .strip_suffix(",1,")
                .map(str::to_owned)
                .expect("the prediction and no error"),
        })
    }

    #[test]
    fn nan_is_told_where_json_has_null_for_it() {
        let nan = || Kept::Float(f64::NAN);
        let cells = [
            list(&[Kept::Float(1.0), nan(), nan()]),
            one(nan()),
            one(Kept::Float(2.0)),
        ];
        for (form, is_told) in [(Form::Jsonl, true), (Form::Csv, false), (Form::Tsv, false)] {
            let column = ColumnType {
                name: "k".to_owned(),
                kind: TypeKind::Other,
                type_name: String::new(),
            };
            let mut writer = Writer::new(form, vec![column]);
            let mut text = String::new();
            for cell in &cells {
                let predicted = Predicted {
                    kept: vec![cell.clone()],
                    outcome: Ok(BTreeMap::from([(
                        "p".to_owned(),
                        Prediction::Ints(vec![1]),
                    )])),
                };
                text += &writer.line(&predicted).expect("written");
            }
            let told: String = writer.notes().iter().map(Diagnostic::render).collect();
            assert_eq!(
                told.contains("--keep k: 2 records hold NaN"),
                is_told,
                "{told}"
            );
            let found = if is_told {
                "[1.0,null,null]"
            } else {
                "1|NaN|NaN"
            };
            assert!(text.contains(found), "{text}");
            assert_eq!(text.contains("\nNaN"), !is_told, "{text}");
        }
    }

    #[test]
    fn predictions_far_from_1_have_an_exponent_and_their_fewest_digits() {
        let numbers = vec![1e-45, 3.4e38, 0.1, 16_777_217.0, 5e-6];
        let texts = |form: Form| {
            let predicted = Predicted {
                kept: Vec::new(),
                outcome: Ok(BTreeMap::from([(
                    "p".to_owned(),
                    Prediction::Floats(numbers.clone()),
                )])),
            };
            let mut writer = Writer::new(form, Vec::new());
            let lines = writer.line(&predicted).expect("written");
            lines.lines().last().unwrap_or_default().to_owned()
        };
        assert_eq!(texts(Form::Csv), "1e-45,3.4e38,0.1,16777216,5e-6,");
        assert_eq!(
            texts(Form::Jsonl),
            "{\"p\":[1e-45,3.4e+38,0.1,16777216.0,5e-6]}"
        );
    }

    #[test]
    fn kept_cells_of_every_kind_are_what_they_were_or_are_refused_with_record_and_column() {
        let is = |text: &str| Ok::<String, &str>(text.to_owned());
        let (bool, u64, other) = (TypeKind::Boolean, TypeKind::Unsigned64, TypeKind::Other);
        let bar = Err("holds `|`");
        let cases = [
            (one(Kept::Int(1)), &other, is("1"), is("1")),
            (one(Kept::Int(1)), &bool, is("true"), is("1")),
            (
                list(&[Kept::Int(1), Kept::Missing, Kept::Int(0)]),
                &bool,
                is("[true,null,false]"),
                is("1||0"),
            ),
            (
                list(&[Kept::Int(1), Kept::Missing, Kept::Int(3)]),
                &other,
                is("[1,null,3]"),
                is("1||3"),
            ),
            (
                list(&[text("a"), text("b|c")]),
                &other,
                is(r#"["a","b|c"]"#),
                bar.clone(),
            ),
            (list(&[text("b|c")]), &other, is(r#"["b|c"]"#), bar),
            (one(text("b|c")), &other, is(r#""b|c""#), is("b|c")),
            (list(&[]), &other, is("[]"), is("")),
            (Cell::default(), &other, is("null"), is("")),
            (one(Kept::Float(0.5)), &other, is("0.5"), is("0.5")),
            (
                one(Kept::Float(1_728_000_128.0)),
                &other,
                is("1728000128.0"),
                is("1728000128"),
            ),
            (
                one(Kept::Float(f64::INFINITY)),
                &other,
                Err("inf is no number of JSON"),
                is("inf"),
            ),
            (
                list(&[Kept::Float(1.5), Kept::Float(f64::NEG_INFINITY)]),
                &other,
                Err("-inf is no number of JSON"),
                is("1.5|-inf"),
            ),
            (
                one(text("18446744073709551615")),
                &u64,
                is("18446744073709551615"),
                is("18446744073709551615"),
            ),
            (
                one(text("18446744073709551615")),
                &other,
                is(r#""18446744073709551615""#),
                is("18446744073709551615"),
            ),
        ];
        for (cell, kind, json, fields) in cases {
            for (format, expected) in [
                (Form::Jsonl, &json),
                (Form::Csv, &fields),
                (Form::Tsv, &fields),
            ] {
                let found = written(format, &cell, kind);
                match expected {
                    Ok(expected) => assert_eq!(found.as_ref(), Ok(expected), "{format:?} {cell:?}"),
                    Err(part) => {
                        let told = found.expect_err("it would be another value");
                        for part in [part, "--keep k: record 1"] {
                            assert!(told.contains(part), "{format:?} {cell:?} {part}: {told}");
                        }
                    }
                }
            }
        }
    }
}
