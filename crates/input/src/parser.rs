//! From a record's bytes to the wanted columns.

use crate::{Batch, Bytes, Cells, Column, FieldKind, Format, Position, Schema};

/// Bytes of a bad value that are shown.
const SHOWN_BYTES_MAX: usize = 256;

/// Where the fields of a file go.
#[derive(Debug, Clone)]
pub(crate) struct Parser {
    delimiter: u8,
    quotes: bool,
    trim: bool,
    missing: Vec<Vec<u8>>,
    schema: Schema,
    /// For each field of a record, the columns of the batch that want it.
    targets: Vec<Vec<usize>>,
    /// Last field that is wanted, plus one.
    wanted: usize,
    scratch: Vec<u8>,
}

/// A field that cannot be used: the schema's column, and why. `None` is the record as a whole.
pub(crate) type Bad = (Option<usize>, String);

impl Parser {
    /// Returns a parser for records with these columns, or the wanted column that is not among them.
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
            delimiter: if format == Format::Csv { b',' } else { b'\t' },
            quotes: format == Format::Csv,
            trim,
            missing: missing.iter().map(|text| text.as_bytes().to_vec()).collect(),
            schema: schema.clone(),
            wanted: targets.iter().rposition(|targets| !targets.is_empty()).map_or(0, |last| last + 1),
            targets,
            scratch: Vec::new(),
        })
    }

    /// Returns an empty batch of the schema.
    pub(crate) fn empty(schema: &Schema, position: Position, rows: usize) -> Batch {
        let column = |kind: &FieldKind| Column {
            cells: match kind {
                FieldKind::Float { width, .. } => Cells::Float(Vec::with_capacity(rows * width)),
                FieldKind::Floats { .. } => Cells::Float(Vec::with_capacity(rows)),
                FieldKind::Int { .. } => Cells::Int(Vec::with_capacity(rows)),
                FieldKind::Bytes { .. } => Cells::Bytes(Bytes::default()),
            },
            offsets: kind.is_ragged().then(|| vec![0]),
        };
        Batch { rows: 0, columns: schema.fields.iter().map(|field| column(&field.kind)).collect(), position }
    }

    /// Appends a record to the batch: all wanted columns, or none.
    pub(crate) fn append(&mut self, record: &[u8], batch: &mut Batch) -> Result<(), Bad> {
        let outcome = self.fields(record, batch);
        match outcome {
            Ok(()) => batch.rows += 1,
            Err(_) => {
                for (column, field) in batch.columns.iter_mut().zip(&self.schema.fields) {
                    truncate(column, &field.kind, batch.rows);
                }
            }
        }
        outcome
    }

    fn fields(&mut self, record: &[u8], batch: &mut Batch) -> Result<(), Bad> {
        let quoted = self.quotes && memchr::memchr(b'"', record).is_some();
        let (mut rest, mut field, mut more) = (record, 0, true);
        while more {
            let mut scratch = std::mem::take(&mut self.scratch);
            let (value, tail) = if quoted && self.opens_quote(rest) {
                unquote(rest, self.delimiter, &mut scratch)
                    .map(|tail| (scratch.as_slice(), tail))
                    .ok_or_else(|| {
                        (
                            None,
                            "a quoted field has text after its closing quote, or no closing quote".to_owned(),
                        )
                    })?
            } else {
                match memchr::memchr(self.delimiter, rest) {
                    Some(end) => (&rest[..end], Some(&rest[end + 1..])),
                    None => (rest, None),
                }
            };
            let value = if self.trim { value.trim_ascii() } else { value };
            let stored = if field < self.targets.len() { self.store(field, value, batch) } else { Ok(()) };
            self.scratch = scratch;
            stored?;
            field += 1;
            more = tail.is_some();
            rest = tail.unwrap_or_default();
            if field == self.wanted && !quoted && more {
                // Nothing after this is wanted: only the number of fields is checked.
                field += 1 + memchr::memchr_iter(self.delimiter, rest).count();
                more = false;
            }
        }
        if field != self.targets.len() {
            return Err((None, format!("a record must have {} columns, given {field}", self.targets.len())));
        }
        Ok(())
    }

    fn opens_quote(&self, rest: &[u8]) -> bool {
        let rest = if self.trim { rest.trim_ascii_start() } else { rest };
        rest.first() == Some(&b'"')
    }

    fn store(&self, field: usize, value: &[u8], batch: &mut Batch) -> Result<(), Bad> {
        for &target in &self.targets[field] {
            let missing = value.is_empty() || self.missing.iter().any(|text| text == value);
            let column = &mut batch.columns[target];
            store_cells(&mut column.cells, &self.schema.fields[target].kind, value, missing)
                .map_err(|reason| (Some(target), reason))?;
            if let Some(offsets) = &mut column.offsets {
                offsets.push(column.cells.len() as u32);
            }
        }
        Ok(())
    }
}

/// Appends what a field holds.
fn store_cells(cells: &mut Cells, kind: &FieldKind, value: &[u8], missing: bool) -> Result<(), String> {
    match (cells, kind) {
        (Cells::Float(cells), FieldKind::Float { width, separator, default }) => {
            let default = default.as_ref();
            if missing {
                let default = default.ok_or_else(|| "the value is missing and has no default".to_owned())?;
                cells.extend_from_slice(default);
                return Ok(());
            }
            let Some(separator) = separator else {
                cells.push(float(value)?);
                return Ok(());
            };
            let before = cells.len();
            for part in value.split(|byte| byte == separator) {
                cells.push(float(part)?);
            }
            match cells.len() - before {
                given if given == *width => Ok(()),
                given => Err(format!("{} must hold {width} numbers, given {given}", shown(value))),
            }
        }
        (Cells::Float(_) | Cells::Int(_) | Cells::Bytes(_), kind) if missing && kind.is_ragged() => Ok(()),
        (Cells::Float(cells), FieldKind::Floats { separator }) => {
            value.split(|byte| byte == separator).try_for_each(|part| {
                cells.push(float(part)?);
                Ok(())
            })
        }
        (Cells::Int(cells), FieldKind::Int { separator: Some(separator), truncate }) => {
            value.split(|byte| byte == separator).try_for_each(|part| {
                cells.push(int(part, *truncate)?);
                Ok(())
            })
        }
        (Cells::Int(cells), FieldKind::Int { truncate, .. }) => {
            cells.push(if missing { -1 } else { int(value, *truncate)? });
            Ok(())
        }
        (Cells::Bytes(cells), FieldKind::Bytes { separator: Some(separator) }) => {
            value.split(|byte| byte == separator).for_each(|part| cells.push(part));
            Ok(())
        }
        (Cells::Bytes(cells), _) => {
            cells.push(if missing { b"" } else { value });
            Ok(())
        }
        _ => Ok(()),
    }
}

fn float(value: &[u8]) -> Result<f32, String> {
    match fast_float2::parse::<f32, _>(value) {
        Ok(number) if number.is_finite() => Ok(number),
        Ok(_) => Err(format!("{} is not a finite number", shown(value))),
        Err(_) => Err(format!("{} is not a number", shown(value))),
    }
}

fn int(value: &[u8], truncate: bool) -> Result<i64, String> {
    let whole = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
    match whole {
        Some(number) => Ok(number),
        None if truncate => float(value).map(|number| number as i64),
        None => Err(format!("{} is not a whole number", shown(value))),
    }
}

/// A value for a message: quoted, escaped, cut.
pub(crate) fn shown(value: &[u8]) -> String {
    let cut = &value[..value.len().min(SHOWN_BYTES_MAX)];
    format!("\"{}\"{}", cut.escape_ascii(), if cut.len() < value.len() { " …" } else { "" })
}

/// Reads a quoted field into `out` and returns what follows its delimiter: `Some(None)` at the end of the record,
/// nothing where the quoting is broken.
#[allow(clippy::option_option)]
fn unquote<'a>(rest: &'a [u8], delimiter: u8, out: &mut Vec<u8>) -> Option<Option<&'a [u8]>> {
    out.clear();
    let mut rest = &rest.trim_ascii_start()[1..];
    loop {
        let end = memchr::memchr(b'"', rest)?;
        out.extend_from_slice(&rest[..end]);
        rest = &rest[end + 1..];
        if rest.first() != Some(&b'"') {
            break;
        }
        out.push(b'"');
        rest = &rest[1..];
    }
    let rest = rest.trim_ascii_start();
    match rest.first() {
        None => Some(None),
        Some(byte) if *byte == delimiter => Some(Some(&rest[1..])),
        Some(_) => None,
    }
}

/// Keeps the values of the first `rows` records.
fn truncate(column: &mut Column, kind: &FieldKind, rows: usize) {
    let values = match (&mut column.offsets, kind) {
        (Some(offsets), _) => {
            offsets.truncate(rows + 1);
            offsets.last().map_or(0, |end| *end as usize)
        }
        (None, FieldKind::Float { width, .. }) => rows * width,
        (None, _) => rows,
    };
    column.cells.truncate(values);
}

/// Splits a header into names.
pub(crate) fn header(record: &[u8], format: Format, trim: bool) -> Vec<String> {
    let delimiter = if format == Format::Csv { b',' } else { b'\t' };
    let (mut names, mut rest, mut scratch) = (Vec::new(), Some(record), Vec::new());
    while let Some(current) = rest {
        let quoted = format == Format::Csv && current.trim_ascii_start().first() == Some(&b'"');
        let unquoted = if quoted { unquote(current, delimiter, &mut scratch) } else { None };
        let name = match unquoted {
            Some(tail) => {
                rest = tail;
                scratch.as_slice()
            }
            None => {
                let end = memchr::memchr(delimiter, current);
                rest = end.map(|end| &current[end + 1..]);
                &current[..end.unwrap_or(current.len())]
            }
        };
        let name = String::from_utf8_lossy(name);
        names.push(if trim { name.trim().to_owned() } else { name.into_owned() });
    }
    names
}
