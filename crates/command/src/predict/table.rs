//! Predictions as a table of a format with types: parquet and tfrecord.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use trainyard_diagnostic::Diagnostic;
use trainyard_input::{
    Cell, ColumnKind, ColumnLayout, ColumnType, Format, Kept, Layout, Options, TableReader,
    TableWriter, Value,
};
use trainyard_model::Prediction;
use trainyard_predictor::Predicted;

use super::{ERROR, WAITING_MAX, none_is_readable, nonfinite, shortest, written_keys};
use crate::convert::{TypedLists, Written, other_type};

/// A table of predictions. Its file appears when it is whole.
pub(super) struct Table {
    path: PathBuf,
    format: Format,
    /// Kept columns whose cells come with the predictions. One without values has no kind.
    kept: Vec<ColumnLayout>,
    /// Kept columns that are copied from the input.
    copied: Option<Kept>,
    /// Absent before the first prediction, which has the names of the columns.
    writer: Option<TableWriter>,
    /// Number of columns of a prediction.
    columns: usize,
    /// Records that came before the first prediction.
    waiting: Vec<Predicted>,
}

impl Table {
    /// Begins a table. From Parquet to Parquet, the kept columns are copied with the types and bits of the input. Of other inputs with
    /// types, they are read once before, for their types.
    pub(super) fn new(
        path: &Path,
        format: Format,
        kept: &[String],
        input: &Options,
    ) -> Result<Self, Diagnostic> {
        let are_copied = format == Format::Parquet && input.format == Format::Parquet;
        let copied = (are_copied && !kept.is_empty()).then(|| Kept {
            files: input.files.clone(),
            columns: kept.to_vec(),
        });
        let kept = if copied.is_some() { &[] } else { kept };
        Ok(Self {
            path: path.to_owned(),
            format,
            kept: layout_of(kept, input)?,
            copied,
            writer: None,
            columns: 0,
            waiting: Vec::new(),
        })
    }

    /// Tells the kept columns whose values the file says in another way, given what they are in the input.
    pub(super) fn told_of_types(&self, types: &[ColumnType]) -> Vec<Diagnostic> {
        let columns = self.kept.iter().zip(types);
        let told = columns.filter_map(|(column, found)| {
            let other = other_type(found, Written::Typed(column.kind?))?;
            let name = format!("--keep {}: the column", column.name);
            Some(other.told(&name, self.format.name()))
        });
        told.collect()
    }

    pub(super) fn add(&mut self, predicted: &Predicted) -> Result<(), Diagnostic> {
        if self.writer.is_none() {
            match &predicted.outcome {
                Ok(prediction) => self.begin(columns_of(prediction))?,
                Err(_) if self.waiting.len() < WAITING_MAX => {
                    self.waiting.push(predicted.clone());
                    return Ok(());
                }
                Err(bad) => return Err(none_is_readable(bad)),
            }
        }
        self.write(predicted)
    }

    pub(super) fn finish(mut self) -> Result<(), Diagnostic> {
        if self.writer.is_none() {
            self.begin(Vec::new())?;
        }
        let finished = self.writer.take().map_or(Ok(()), TableWriter::finish);
        Ok(finished?)
    }

    /// Creates the file, and writes the records that have waited for it.
    fn begin(&mut self, columns: Vec<ColumnLayout>) -> Result<(), Diagnostic> {
        self.columns = columns.len();
        let error = column(ERROR, ColumnKind::Text, false);
        let kept = self.kept.iter().map(|column| ColumnLayout {
            kind: column.kind.or(Some(ColumnKind::Text)),
            ..column.clone()
        });
        let all = kept.chain(columns).chain([error]);
        let layout = Layout {
            columns: all.collect(),
        };
        let writer = match &self.copied {
            Some(copied) => TableWriter::create_with_kept(&self.path, layout, copied),
            None => TableWriter::create(&self.path, self.format, layout),
        };
        self.writer = Some(writer?);
        for predicted in std::mem::take(&mut self.waiting) {
            self.write(&predicted)?;
        }
        Ok(())
    }

    fn write(&mut self, predicted: &Predicted) -> Result<(), Diagnostic> {
        let mut row: Vec<Cell> = match &self.copied {
            Some(_) => Vec::new(),
            None => predicted.kept.clone(),
        };
        row.resize_with(self.kept.len(), Cell::default);
        let error = match &predicted.outcome {
            Ok(prediction) => {
                row.extend(written_keys(prediction).map(|(_, values)| cell(values)));
                nonfinite(predicted)
            }
            Err(bad) => {
                row.resize_with(self.kept.len() + self.columns, Cell::default);
                Some(bad.to_string())
            }
        };
        row.push(Cell {
            values: error
                .map(|text| Value::Text(text.into_bytes()))
                .into_iter()
                .collect(),
            list: false,
        });
        let Some(writer) = &mut self.writer else {
            return Ok(());
        };
        Ok(writer.write(&row)?)
    }
}

fn column(name: &str, kind: ColumnKind, list: bool) -> ColumnLayout {
    ColumnLayout {
        name: name.to_owned(),
        kind: Some(kind),
        list,
    }
}

fn columns_of(prediction: &BTreeMap<String, Prediction>) -> Vec<ColumnLayout> {
    let of = |(key, values): (&String, &Prediction)| {
        let (kind, count) = match values {
            Prediction::Floats(values) => (ColumnKind::Float, values.len()),
            Prediction::Ints(values) => (ColumnKind::Int, values.len()),
            Prediction::Texts(values) => (ColumnKind::Text, values.len()),
        };
        column(key, kind, count != 1)
    };
    written_keys(prediction).map(of).collect()
}

fn cell(values: &Prediction) -> Cell {
    let values: Vec<Value> = match values {
        // As in JSON: 0.1, and not 0.10000000149011612. A number that is not finite is an error of its record.
        Prediction::Floats(values) => values
            .iter()
            .map(|value| Value::Float(shortest(*value)))
            .collect(),
        Prediction::Ints(values) => values.iter().map(|value| Value::Int(*value)).collect(),
        Prediction::Texts(values) => values
            .iter()
            .map(|text| Value::Text(text.clone().into_bytes()))
            .collect(),
    };
    Cell {
        list: values.len() != 1,
        values,
    }
}

/// Returns the kept columns with their types, which formats with types have; texts stay texts. A column of such a format without values
/// has no type.
fn layout_of(kept: &[String], input: &Options) -> Result<Vec<ColumnLayout>, Diagnostic> {
    let is_text = matches!(input.format, Format::Csv | Format::Tsv);
    let column = |name: &String| ColumnLayout {
        name: name.clone(),
        kind: is_text.then_some(ColumnKind::Text),
        list: false,
    };
    let mut columns: Vec<ColumnLayout> = kept.iter().map(column).collect();
    let mut row = Vec::new();
    let mut lists = TypedLists::default();
    let mut reader = TableReader::new(
        input.files.clone(),
        input.format,
        input.compression,
        input.columns.clone(),
    );
    while !is_text && !kept.is_empty() {
        match reader.read(&mut row) {
            Ok(true) => {}
            Ok(false) => break,
            // Its prediction is an error.
            Err(trainyard_input::Error::Row(_)) => continue,
            Err(error) => return Err(error.into()),
        }
        if input.format == Format::TfRecord {
            lists.see(&reader, &row, |name, _| kept.contains(name))?;
        }
        for column in &mut columns {
            let found = reader
                .columns()
                .iter()
                .position(|name| *name == column.name);
            let Some(cell) = found.and_then(|found| row.get(found)) else {
                continue;
            };
            column.list |= cell.list || cell.values.len() > 1;
            column.kind = column
                .kind
                .max(cell.values.iter().filter_map(Value::kind).max());
        }
    }
    Ok(columns)
}
