//! Parser of CSV and TSV records into the wanted columns, one field after the other.

use std::ops::Range;

use crate::cells::{Bad, end_row, missing_cells, shown};
use crate::delimiter::Delimiters;
use crate::number::{float, float_at, int, int_at};
use crate::quoted::unquote;
use crate::{Batch, Cells, Column, FieldKind, Format, Schema};

/// Parser of the fields of a file into columns.
#[derive(Debug)]
pub(crate) struct TextParser {
    delimiter: u8,
    quotes: bool,
    trim: bool,
    missing: Vec<Vec<u8>>,
    schema: Schema,
    /// For each field of a record, the columns of the batch that read it.
    targets: Vec<Vec<usize>>,
    /// Place of the last wanted field, plus one.
    wanted: usize,
    scratch: Vec<u8>,
}

impl TextParser {
    /// Returns a parser of records with these columns. The error is the first wanted column that is not among them.
    pub(crate) fn new(
        schema: &Schema,
        columns: &[String],
        format: Format,
        trim: bool,
        missing: &[String],
    ) -> Result<Self, String> {
        let mut targets = vec![Vec::new(); columns.len()];
        for (position, field) in schema.fields.iter().enumerate() {
            let Some(place) = columns.iter().position(|column| *column == field.name) else {
                return Err(field.name.clone());
            };
            targets[place].push(position);
        }
        Ok(Self {
            delimiter: delimiter(format),
            quotes: format == Format::Csv,
            trim,
            missing: missing
                .iter()
                .map(|text| text.as_bytes().to_vec())
                .collect(),
            schema: schema.clone(),
            wanted: targets
                .iter()
                .rposition(|targets| !targets.is_empty())
                .map_or(0, |last| last + 1),
            targets,
            scratch: Vec::new(),
        })
    }

    /// Appends a record's wanted fields to the batch. An error may leave a part of them in the batch.
    pub(crate) fn append(&mut self, record: &[u8], batch: &mut Batch) -> Result<(), Bad> {
        let fields = if self.quotes && memchr::memchr(b'"', record).is_some() {
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

    /// Reads a record without quotes. Returns the number of its fields.
    fn plain(&self, record: &[u8], batch: &mut Batch) -> Result<usize, Bad> {
        let mut delimiters = Delimiters::new(record, self.delimiter);
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
            let value = if self.opens_quote(current) {
                rest = unquote(current, self.delimiter, &mut scratch).ok_or_else(|| {
                    (
                        None,
                        "a quoted field has text after its closing quote, or no closing quote"
                            .to_owned(),
                    )
                })?;
                scratch.as_slice()
            } else {
                let end = memchr::memchr(self.delimiter, current);
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

    fn opens_quote(&self, rest: &[u8]) -> bool {
        let rest = if self.trim {
            rest.trim_ascii_start()
        } else {
            rest
        };
        rest.first() == Some(&b'"')
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
        let missing = value.is_empty() || self.missing.iter().any(|text| text == value);
        for &target in targets {
            let column = &mut batch.columns[target];
            let kind = &self.schema.fields[target].kind;
            let outcome = match (&mut column.cells, kind) {
                _ if missing => missing_cells(column, kind),
                (
                    Cells::Float(cells),
                    FieldKind::Float {
                        separator: None, ..
                    },
                ) => float_at(record, place.clone()).map(|number| cells.push(number)),
                (Cells::Bytes(cells), FieldKind::Bytes { separator: None }) => {
                    cells.push_part(record, place.clone());
                    Ok(())
                }
                (
                    Cells::Int(cells),
                    FieldKind::Int {
                        separator: None,
                        truncate,
                    },
                ) => int_at(record, place.clone(), *truncate).map(|number| cells.push(number)),
                _ => several(column, kind, value),
            };
            outcome.map_err(|reason| (Some(target), reason))?;
        }
        Ok(())
    }
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

/// Appends the values of a field that may hold several.
#[inline(never)]
pub(crate) fn several(column: &mut Column, kind: &FieldKind, value: &[u8]) -> Result<(), String> {
    let parts = |separator: u8| value.split(move |byte| *byte == separator);
    match (&mut column.cells, kind) {
        (
            Cells::Float(cells),
            FieldKind::Float {
                width,
                separator: Some(separator),
                ..
            },
        ) => {
            let before = cells.len();
            for part in parts(*separator) {
                cells.push(float(part)?);
            }
            match cells.len() - before {
                given if given == *width => {}
                given => {
                    return Err(format!(
                        "{} must hold {width} numbers, given {given}",
                        shown(value)
                    ));
                }
            }
        }
        (Cells::Float(cells), FieldKind::Floats { separator }) => {
            for part in parts(*separator) {
                cells.push(float(part)?);
            }
        }
        (
            Cells::Int(cells),
            FieldKind::Int {
                separator: Some(separator),
                truncate,
            },
        ) => {
            for part in parts(*separator) {
                cells.push(int(part, *truncate)?);
            }
        }
        (
            Cells::Bytes(cells),
            FieldKind::Bytes {
                separator: Some(separator),
            },
        ) => {
            parts(*separator).for_each(|part| cells.push(part));
        }
        // The columns were made by the schema, so other pairs do not occur.
        _ => {}
    }
    end_row(column);
    Ok(())
}

fn delimiter(format: Format) -> u8 {
    if format == Format::Csv { b',' } else { b'\t' }
}

/// Splits a header into names.
pub(crate) fn header(record: &[u8], format: Format, trim: bool) -> Vec<String> {
    let mut names = Vec::new();
    fields(record, format, |name| {
        let name = String::from_utf8_lossy(name);
        names.push(if trim {
            name.trim().to_owned()
        } else {
            name.into_owned()
        });
    });
    names
}

/// Splits a record into fields, unquoted.
pub(crate) fn fields(record: &[u8], format: Format, mut each: impl FnMut(&[u8])) {
    let delimiter = delimiter(format);
    let mut rest = Some(record);
    let mut scratch = Vec::new();
    while let Some(current) = rest {
        let quoted = format == Format::Csv && current.trim_ascii_start().first() == Some(&b'"');
        match if quoted {
            unquote(current, delimiter, &mut scratch)
        } else {
            None
        } {
            Some(tail) => {
                rest = tail;
                each(&scratch);
            }
            None => {
                let end = memchr::memchr(delimiter, current);
                rest = end.map(|end| &current[end + 1..]);
                each(&current[..end.unwrap_or(current.len())]);
            }
        }
    }
}
