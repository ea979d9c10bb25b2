//! Parser of CSV and TSV records into the wanted columns, one field after the other.

use std::ops::Range;

use super::delimiter::Delimiters;
use super::quoted::unquote;
use super::{Delimited, Quotes, broken_quotes};
use crate::cells::{Bad, missing_cells};
use crate::encoding::utf8;
use crate::formats::lists::several;
use crate::missing::{Missing, MissingValues};
use crate::number::{float_at, int_at};
use crate::number_style::{float_of, int_of};
use crate::record::Content;
use crate::record_format::{FileColumns, RecordParser};
use crate::{Batch, Cells, Error, FieldKind, Fraction, NumberStyle, Schema, TextEncoding};

/// Parser of the fields of a file into columns.
#[derive(Debug)]
pub(super) struct TextParser {
    syntax: Delimited,
    trim: bool,
    encoding: TextEncoding,
    /// How numbers are written, unless as plain decimals.
    numbers: Option<NumberStyle>,
    /// For each field of the schema.
    missing: Vec<Missing>,
    schema: Schema,
    /// Of the columns, in the file or in the options.
    names: Vec<String>,
    /// For each field of a record, the columns of the batch that read it.
    targets: Vec<Vec<usize>>,
    /// Place of the last wanted field, plus one.
    wanted: usize,
    scratch: Vec<u8>,
}

impl TextParser {
    /// Returns a parser of records with these columns.
    ///
    /// # Errors
    /// A wanted column is missing, or is there twice.
    pub(super) fn new(syntax: Delimited, columns: &FileColumns<'_>) -> Result<Self, Error> {
        let schema = columns.schema;
        let mut targets = vec![Vec::new(); columns.names.len()];
        for (position, place) in columns.places()?.into_iter().enumerate() {
            targets[place].push(position);
        }
        let style = &columns.options.text;
        Ok(Self {
            syntax,
            trim: columns.options.trim,
            encoding: style.encoding,
            numbers: Some(style.numbers.clone()).filter(|numbers| !numbers.is_plain()),
            missing: MissingValues::of_fields(&columns.options.missing, schema),
            schema: schema.clone(),
            names: columns.names.to_vec(),
            wanted: targets
                .iter()
                .rposition(|targets| !targets.is_empty())
                .map_or(0, |last| last + 1),
            targets,
            scratch: Vec::new(),
        })
    }

    /// Whether a record is a line of the names of the columns: the first of a file whose names the options give, or one between
    /// two files that were put together. One name alone may be a value.
    fn is_header(&self, record: &[u8]) -> bool {
        let Some(first) = self.names.first().filter(|_| self.names.len() > 1) else {
            return false;
        };
        let record = if self.trim {
            record.trim_ascii_start()
        } else {
            record
        };
        let begin = record.strip_prefix(b"\"").unwrap_or(record);
        if !begin.starts_with(first.as_bytes()) {
            return false;
        }
        let mut names = self.names.iter();
        let mut are_equal = true;
        let split = self.syntax.fields(record, self.trim, |field| {
            let field = if self.trim { field.trim_ascii() } else { field };
            are_equal &= names.next().is_some_and(|name| name.as_bytes() == field);
        });
        split.is_ok() && are_equal && names.next().is_none()
    }

    /// Reads a record without quotes. Returns the number of its fields.
    fn plain(&self, record: &[u8], batch: &mut Batch) -> Result<usize, Bad> {
        let mut delimiters = Delimiters::new(record, self.syntax.delimiter);
        let mut begin = 0;
        for (field, targets) in self.targets[..self.wanted].iter().enumerate() {
            let end = delimiters.next();
            if !targets.is_empty() {
                self.store(targets, record, begin..end, batch)?;
            }
            if end == record.len() {
                return Ok(field + 1);
            }
            begin = end + 1;
        }
        // No wanted field remains, so only the number of fields is checked.
        Ok(self.wanted + delimiters.count() + 1)
    }

    /// Reads a record that may hold quoted fields. Returns the number of its fields.
    fn quoted(&mut self, record: &[u8], batch: &mut Batch) -> Result<usize, Bad> {
        let mut rest = Some(record);
        let mut field = 0;
        while let Some(current) = rest {
            let mut scratch = std::mem::take(&mut self.scratch);
            let value = if self.syntax.opens_quote(current, self.trim) {
                let unquoted = unquote(current, self.syntax.delimiter, &mut scratch);
                rest = unquoted.ok_or_else(|| (None, broken_quotes(current)))?;
                scratch.as_slice()
            } else {
                let end = memchr::memchr(self.syntax.delimiter, current);
                rest = end.map(|end| &current[end + 1..]);
                &current[..end.unwrap_or(current.len())]
            };
            let stored = match self.targets.get(field) {
                Some(targets) => self.store(targets, value, 0..value.len(), batch),
                None => Ok(()),
            };
            self.scratch = scratch;
            stored?;
            field += 1;
        }
        Ok(field)
    }

    #[inline]
    fn float(&self, record: &[u8], place: Range<usize>) -> Result<f32, String> {
        match &self.numbers {
            None => float_at(record, place),
            Some(style) => float_of(style, &record[place]),
        }
    }

    #[inline]
    fn int(
        &self,
        record: &[u8],
        place: Range<usize>,
        fraction: Fraction,
    ) -> Result<Option<i64>, String> {
        match &self.numbers {
            None => int_at(record, place, fraction),
            Some(style) => int_of(style, &record[place], fraction),
        }
    }

    /// Appends the field at `place` of the record to the columns that read it.
    #[inline]
    fn store(
        &self,
        targets: &[usize],
        record: &[u8],
        place: Range<usize>,
        batch: &mut Batch,
    ) -> Result<(), Bad> {
        let place = if self.trim {
            trim(record, place)
        } else {
            place
        };
        let value = &record[place.clone()];
        for &target in targets {
            let column = &mut batch.columns[target];
            let field = &self.schema.fields[target];
            let kind = &field.kind;
            let missing = &self.missing[target];
            if matches!(kind, FieldKind::Bytes { .. }) && std::str::from_utf8(value).is_err() {
                return Err((Some(target), no_utf8(value)));
            }
            let outcome = match (&mut column.cells, kind) {
                _ if missing.written_in(self.numbers.as_ref(), value, kind) => {
                    missing_cells(column, kind)
                }
                (
                    Cells::Float(cells),
                    FieldKind::Float {
                        separator: None, ..
                    },
                ) => match self.float(record, place.clone()) {
                    Ok(number) if number.is_nan() => missing_cells(column, kind),
                    number => number.map(|number| cells.push(number)),
                },
                (Cells::Bytes(cells), FieldKind::Bytes { separator: None }) => {
                    cells.push_part(record, place.clone());
                    Ok(())
                }
                (
                    Cells::Int(cells),
                    FieldKind::Int {
                        separator: None,
                        fraction,
                    },
                ) => match self.int(record, place.clone(), *fraction) {
                    Ok(Some(number)) => {
                        cells.push(number);
                        Ok(())
                    }
                    Ok(None) => missing_cells(column, kind),
                    Err(reason) => Err(reason),
                },
                _ => several(column, field, value, missing, self.numbers.as_ref()),
            };
            outcome.map_err(|reason| (Some(target), reason))?;
        }
        Ok(())
    }
}

impl RecordParser for TextParser {
    fn append(&mut self, content: Content<'_>, batch: &mut Batch) -> Result<(), Bad> {
        let decoded = utf8(self.encoding, content.as_bytes()).map_err(|reason| (None, reason))?;
        let record = decoded.as_ref();
        if self.is_header(record) {
            let reason = "it holds the names of the columns, and is no record: remove the line, or input.columns, if it is the first of the file";
            return Err((None, reason.to_owned()));
        }
        let quoted =
            self.syntax.quotes == Quotes::Allowed && memchr::memchr(b'"', record).is_some();
        let fields = if quoted {
            self.quoted(record, batch)?
        } else {
            self.plain(record, batch)?
        };
        if fields == self.targets.len() {
            Ok(())
        } else {
            Err((
                None,
                format!(
                    "a record must have {} columns, given {fields}",
                    self.targets.len()
                ),
            ))
        }
    }
}

/// The same text in a request is UTF-8, and would be another value.
#[cold]
fn no_utf8(value: &[u8]) -> String {
    format!(
        "must be text of UTF-8, given `{}`: input.encoding names another encoding, such as \"latin1\"",
        String::from_utf8_lossy(value)
    )
}

/// Returns the place of a field without the spaces around it.
#[inline]
fn trim(record: &[u8], place: Range<usize>) -> Range<usize> {
    match &record[place.clone()] {
        // Most fields have no spaces around them.
        [first, .., last] if *first > b' ' && *last > b' ' => place,
        [only] if *only > b' ' => place,
        value => {
            let end = place.start + value.trim_ascii_end().len();
            end - value.trim_ascii().len()..end
        }
    }
}
