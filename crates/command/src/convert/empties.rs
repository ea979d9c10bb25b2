//! Empty texts and lists, which a result may have as missing values.

use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_input::{Cell, Format, Layout, TableReader, Value};

/// What is empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Empty {
    /// A text without characters.
    Text,
    /// A list without values.
    List,
    /// A list whose only value is an empty text, or has no value.
    ListOfOne,
}

const ALL: [(Empty, &str); 3] = [
    (Empty::Text, "empty texts"),
    (Empty::List, "empty lists"),
    (Empty::ListOfOne, "lists of one empty or missing value"),
];

/// How many rows of each kind a column has, and the first of them, from 1.
type Counts = [(u64, u64); ALL.len()];

/// The empty values of each column that the result does not tell from missing ones.
#[derive(Debug)]
pub(super) struct Empties {
    to: Format,
    columns: Vec<Counts>,
}

impl Empties {
    pub(super) fn new(to: Format) -> Self {
        Self {
            to,
            columns: Vec::new(),
        }
    }

    /// Looks at the latest row of the reader, whose number in the input is `number`, from 1.
    pub(super) fn see(&mut self, number: u64, reader: &TableReader, row: &[Cell]) {
        self.columns
            .resize(row.len().max(self.columns.len()), Counts::default());
        let is_text = self.is_text();
        let is_gone = |column: usize| row.get(column).is_none_or(|cell| cell.values.is_empty());
        reader.empty_lists(|column, places| match places {
            0 => self.count(column, Empty::List, number),
            // As a value, it is counted below.
            _ if is_text && is_gone(column) => self.count(column, Empty::ListOfOne, number),
            _ => {}
        });
        if !is_text {
            return;
        }
        for (column, cell) in row.iter().enumerate() {
            if let Some(empty) = of_cell(cell) {
                self.count(column, empty, number);
            }
        }
    }

    /// Counts an empty value of a column in the row of this number.
    fn count(&mut self, column: usize, empty: Empty, number: u64) {
        let place = ALL.iter().position(|(one, _)| *one == empty);
        let counts = self.columns.get_mut(column).zip(place);
        let Some((rows, first)) = counts.and_then(|(counts, place)| counts.get_mut(place)) else {
            return;
        };
        *rows += 1;
        if *first == 0 {
            *first = number;
        }
    }

    /// Makes missing values of those of a row for which the result has no place: empty texts of text, and NaN of libsvm.
    pub(super) fn make_missing(&self, row: &mut [Cell]) {
        let is_libsvm = matches!(self.to, Format::LibSvm(_));
        if self.is_text() {
            let is_gone = |cell: &&mut Cell| of_cell(cell).is_some() || is_libsvm && is_nan(cell);
            for cell in row.iter_mut().filter(is_gone) {
                cell.values.clear();
            }
        }
    }

    /// Tells the columns with values that are missing ones when the result is read.
    pub(super) fn notes(&self, layout: &Layout) -> Vec<Diagnostic> {
        let columns = layout.columns.iter().zip(&self.columns);
        let notes = columns.flat_map(|(column, counts)| {
            let found = ALL.iter().zip(counts).filter(|(_, (rows, _))| *rows > 0);
            found.map(|((_, what), (rows, first))| {
                let message = format!(
                    "the column `{}` holds {what} in {rows} row{}, first in row {first}: {} has the same for a missing value, and they are \
                     missing when it is read again",
                    column.name,
                    if *rows == 1 { "" } else { "s" },
                    self.to.name(),
                );
                Diagnostic::warning(Code::E4005, message).help(
                    "a job takes them for missing values, too; write parquet from parquet where other programs tell them apart",
                )
            })
        });
        notes.collect()
    }

    fn is_text(&self) -> bool {
        matches!(self.to, Format::Csv | Format::Tsv | Format::LibSvm(_))
    }
}

/// Returns whether a cell is a number that is none.
fn is_nan(cell: &Cell) -> bool {
    matches!(cell.values.as_slice(), [Value::Float(number)] if number.is_nan())
}

/// Returns what is empty in a cell that has a value.
fn of_cell(cell: &Cell) -> Option<Empty> {
    match cell.values.as_slice() {
        [Value::Text(text)] if text.is_empty() && !cell.list => Some(Empty::Text),
        [Value::Text(text)] if text.is_empty() => Some(Empty::ListOfOne),
        [Value::Missing] => Some(Empty::ListOfOne),
        _ => None,
    }
}

#[cfg(all(test, feature = "parquet"))]
mod tests {
    use std::path::{Path, PathBuf};

    use clap::Parser;
    use trainyard_input::{ColumnKind, ColumnLayout, TableWriter};

    use super::super::{Convert, convert};
    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        convert: Convert,
    }

    fn write(path: &Path, format: Format, list: bool, rows: &[&[&str]]) {
        let column = |name: &str, list| ColumnLayout {
            name: name.to_owned(),
            kind: Some(ColumnKind::Text),
            list,
        };
        let columns = vec![column("label", false), column("x", list)];
        let mut writer = TableWriter::create(path, format, Layout { columns }).expect("created");
        for row in rows {
            let cell = |values: &[&str], list| Cell {
                values: values
                    .iter()
                    .map(|text| Value::Text((*text).into()))
                    .collect(),
                list,
            };
            writer
                .write(&[cell(&["a"], false), cell(row, list)])
                .expect("written");
        }
        writer.finish().expect("finished");
    }

    fn read(path: &Path, format: Format) -> Vec<Vec<Value>> {
        let mut reader =
            TableReader::new(vec![path.to_owned()], format, None, None).with_empty_texts(&[]);
        let mut row = Vec::new();
        let mut rows = Vec::new();
        while reader.read(&mut row).expect("read") {
            rows.push(row.get(1).map_or(Vec::new(), |cell| cell.values.clone()));
        }
        rows
    }

    #[test]
    fn empty_texts_stay_where_the_result_has_them() {
        let folder = tempfile::tempdir().expect("a folder");
        let rows: [&[&str]; 4] = [&["b"], &[""], &[], &["c"]];
        let formats = [(Format::Parquet, "parquet"), (Format::TfRecord, "tfrecord")];
        for (from, ending) in formats {
            let source = folder.path().join(format!("from.{ending}"));
            write(&source, from, false, &rows);
            for (to, ending) in formats {
                let out = folder.path().join(format!("to.{ending}"));
                let words: [PathBuf; 6] = [
                    "convert".into(),
                    source.clone(),
                    out.clone(),
                    "--force".into(),
                    "--missing".into(),
                    "zzz".into(),
                ];
                let line = Line::try_parse_from(words).expect("arguments");
                convert(&line.convert).expect("converted");
                assert_eq!(read(&out, to), read(&source, from), "{from:?} {to:?}");
            }
        }
    }

    #[test]
    fn empty_values_that_a_text_has_as_missing_ones_are_told_with_their_rows() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.parquet");
        for (is_list, rows, told_of) in [
            (
                false,
                &[&["b"][..], &[""], &[], &[""]][..],
                "empty texts in 2 rows, first in row 2",
            ),
            (
                true,
                &[&["b", "c"], &[""], &[]],
                "lists of one empty or missing value in 1 row, first in row 2",
            ),
            (true, &[&["b", ""], &[]], ""),
        ] {
            write(&path, Format::Parquet, is_list, rows);
            for to in [Format::Csv, Format::Tsv] {
                let mut reader = TableReader::new(vec![path.clone()], Format::Parquet, None, None)
                    .with_empty_texts(&[]);
                let mut empties = Empties::new(to);
                let mut layout = Layout::default();
                let mut row = Vec::new();
                let mut number = 0;
                while reader.read(&mut row).expect("read") {
                    number += 1;
                    empties.see(number, &reader, &row);
                    layout.see(reader.columns(), &row);
                    empties.make_missing(&mut row);
                    assert!(row.iter().all(|cell| of_cell(cell).is_none()));
                }
                let told: String = empties
                    .notes(&layout)
                    .iter()
                    .map(Diagnostic::render)
                    .collect();
                assert_eq!(told.is_empty(), told_of.is_empty(), "{told}");
                assert!(told.contains(told_of), "{told_of}: {told}");
            }
        }
    }
}
