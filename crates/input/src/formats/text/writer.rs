//! Writer of CSV and TSV files.

use std::io::Write as _;

use super::{Delimited, Quotes};
use crate::layout::{LIST_SEPARATOR, text};
use crate::output::{CompressedFile, Unwritten};
use crate::record_format::{RowWriter, Target};
use crate::{Cell, Error};

/// Writer of a file, whose first line is a header.
pub(super) struct TextWriter {
    syntax: Delimited,
    /// Names of the columns.
    columns: Vec<String>,
    output: CompressedFile,
    line: Vec<u8>,
    value: Vec<u8>,
}

impl TextWriter {
    /// Writes the header.
    ///
    /// # Errors
    /// The file cannot be written, or the format cannot hold a name.
    pub(super) fn new(syntax: Delimited, target: Target<'_>) -> Result<Self, Error> {
        let columns = target.layout.columns.iter();
        let mut writer = Self {
            syntax,
            columns: columns.map(|column| column.name.clone()).collect(),
            output: CompressedFile::new(target.path, target.file),
            line: Vec::new(),
            value: Vec::new(),
        };
        writer.header().map_err(|reason| reason.of(target.path))?;
        Ok(writer)
    }

    fn header(&mut self) -> Result<(), Unwritten> {
        for (place, name) in self.columns.iter().enumerate() {
            field(self.syntax, place, name.as_bytes(), &mut self.line)
                .map_err(|refused| refused.message(name))?;
        }
        self.end_line()
    }

    fn end_line(&mut self) -> Result<(), Unwritten> {
        self.line.push(b'\n');
        self.output.write_all(&self.line)?;
        self.line.clear();
        Ok(())
    }
}

impl RowWriter for TextWriter {
    fn write(&mut self, row: &[Cell]) -> Result<(), Unwritten> {
        for (place, name) in self.columns.iter().enumerate() {
            self.value.clear();
            let values = row
                .get(place)
                .map_or([].as_slice(), |cell| cell.values.as_slice());
            for (nth, value) in values.iter().enumerate() {
                if nth > 0 {
                    self.value.push(LIST_SEPARATOR);
                }
                text(value, &mut self.value);
            }
            field(self.syntax, place, &self.value, &mut self.line)
                .map_err(|refused| refused.message(name))?;
        }
        self.end_line()
    }

    fn finish(self: Box<Self>) -> Result<(), Unwritten> {
        Ok(self.output.finish()?)
    }
}

/// A value that the format cannot hold.
struct Refused {
    shown: String,
}

impl Refused {
    fn message(&self, column: &str) -> String {
        let shown = &self.shown;
        format!("column `{column}` holds {shown}: tsv has no place for tabs and line ends")
    }
}

/// Appends a field to the line.
fn field(syntax: Delimited, place: usize, value: &[u8], line: &mut Vec<u8>) -> Result<(), Refused> {
    if place > 0 {
        line.push(syntax.delimiter);
    }
    match syntax.quotes {
        Quotes::Allowed if needs_quotes(syntax.delimiter, value) => {
            line.push(b'"');
            for part in value.split_inclusive(|byte| *byte == b'"') {
                line.extend_from_slice(part);
                if part.ends_with(b"\"") {
                    line.push(b'"');
                }
            }
            line.push(b'"');
        }
        Quotes::Plain
            if value
                .iter()
                .any(|byte| matches!(byte, b'\t' | b'\n' | b'\r')) =>
        {
            let shown = crate::cells::shown(value);
            return Err(Refused { shown });
        }
        Quotes::Allowed | Quotes::Plain => line.extend_from_slice(value),
    }
    Ok(())
}

/// Returns whether a field holds a character that is special outside of quotes, or spaces around its text.
fn needs_quotes(delimiter: u8, value: &[u8]) -> bool {
    let special = |byte: &u8| *byte == delimiter || matches!(byte, b'\n' | b'\r' | b'"');
    let spaced = value.first().is_some_and(u8::is_ascii_whitespace)
        || value.last().is_some_and(u8::is_ascii_whitespace);
    value.iter().any(special) || spaced
}
