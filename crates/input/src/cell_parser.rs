//! Parser of records of any format into cells. Columns are identified by name.

use crate::column_names::ColumnNames;
use crate::formats;
use crate::record::Record;
use crate::record_format::{Blanks, TableRow};
use crate::{Cell, Options};

/// Parser of the records of an input. Files may have different columns, in any order.
#[derive(Debug, Default)]
pub(crate) struct CellParser {
    columns: ColumnNames,
    /// Column of the table for each field of the current file's records.
    places: Vec<usize>,
    blanks: Blanks,
}

impl CellParser {
    /// Returns a parser whose texts have all blanks of the files.
    pub(crate) fn keeping_blanks() -> Self {
        Self {
            blanks: Blanks::Kept,
            ..Self::default()
        }
    }

    /// Returns the columns of the files and records so far.
    pub(crate) fn columns(&self) -> &[String] {
        self.columns.names()
    }

    /// Returns the place of the column with this name.
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.columns.find(name)
    }

    /// Returns the column of the table that a field of the current file's records has.
    pub(crate) fn column_of(&self, field: usize) -> Option<usize> {
        self.places.get(field).copied()
    }

    /// Begins a file whose records have these columns. Without names in the file, the columns are those of the options.
    pub(crate) fn enter(&mut self, named: Option<Vec<String>>, options: &Options) {
        let named = formats::format(options.format).table_columns(named, options);
        let places = named.iter().map(|name| self.columns.place(name));
        self.places = places.collect();
    }

    /// Parses a record into a cell for each of [`CellParser::columns`], which may grow.
    pub(crate) fn cells(
        &mut self,
        record: Record<'_>,
        options: &Options,
        row: &mut Vec<Cell>,
    ) -> Result<(), String> {
        row.iter_mut().for_each(|cell| cell.values.clear());
        row.resize_with(self.columns.names().len().max(row.len()), Cell::default);
        if let Some(fault) = record.fault {
            return Err(fault.to_owned());
        }
        let row = TableRow {
            blanks: self.blanks,
            options,
            places: &self.places,
            columns: &mut self.columns,
            cells: row,
        };
        formats::format(options.format).cells(record.content, row)
    }
}
