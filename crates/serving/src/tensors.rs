//! Tensors of a request, and their way into the columns of a batch.

use trainyard_input::{Batch, Given, NamedColumns};

use crate::Error;
use crate::json::{Fault, Kind, Reader};
use crate::rest::{Value, append, finish, missing, read_value, unknown};

/// The inputs of a request, which become a batch.
pub(crate) struct Inputs<'c> {
    columns: &'c NamedColumns,
    batch: Batch,
    /// Rows of the first input.
    rows: Option<usize>,
    rows_max: usize,
    /// Whether each column was given.
    seen: Vec<bool>,
}

impl<'c> Inputs<'c> {
    pub(crate) fn new(columns: &'c NamedColumns, rows_max: usize) -> Self {
        Self {
            columns,
            batch: columns.begin(1),
            rows: None,
            rows_max,
            seen: vec![false; columns.names().len()],
        }
    }

    /// Begins an input of a shape, whose first number is that of the rows.
    ///
    /// # Errors
    /// The model has no such column, it was given before, or its shape does not fit.
    pub(crate) fn input(&mut self, name: &str, shape: &[usize]) -> Result<Filler<'_>, Error> {
        let columns = self.columns;
        let place = columns
            .place(name)
            .ok_or_else(|| Error::Request(unknown(columns, name)))?;
        if std::mem::replace(&mut self.seen[place], true) {
            return Err(Error::Request(format!("input `{name}` is given twice")));
        }
        let (given, width) = dimensions(name, shape)?;
        if given > self.rows_max {
            let most = self.rows_max;
            return Err(Error::Rows { given, most });
        }
        let rows = *self.rows.get_or_insert(given);
        if given != rows {
            return Err(Error::Request(format!(
                "input `{name}` has {given} rows, others have {rows}"
            )));
        }
        Ok(Filler {
            columns,
            batch: &mut self.batch,
            place,
            rows,
            width,
        })
    }

    /// Returns the batch.
    ///
    /// # Errors
    /// A column was not given.
    pub(crate) fn finish(self) -> Result<Batch, Error> {
        if let Some(place) = self.seen.iter().position(|seen| !seen) {
            return Err(Error::Request(missing(self.columns, place)));
        }
        finish(self.columns, self.batch, self.rows.unwrap_or(0))
    }
}

/// Returns the numbers of rows and of values in a row.
fn dimensions(name: &str, shape: &[usize]) -> Result<(usize, usize), Error> {
    let (rows, rest) = shape.split_first().ok_or_else(|| {
        Error::Request(format!(
            "input `{name}` must have a shape, whose first number is that of the rows"
        ))
    })?;
    let width = rest
        .iter()
        .try_fold(1_usize, |product, size| product.checked_mul(*size));
    let width = width.filter(|width| width.checked_mul((*rows).max(1)).is_some());
    let width = width.ok_or_else(|| {
        Error::Request(format!(
            "input `{name}` has a shape of too many values: {shape:?}"
        ))
    })?;
    Ok((*rows, width))
}

/// Types of the protocol, with the bytes of a value.
const DATATYPES: [(&str, usize); 12] = [
    ("BOOL", 1),
    ("UINT8", 1),
    ("UINT16", 2),
    ("UINT32", 4),
    ("UINT64", 8),
    ("INT8", 1),
    ("INT16", 2),
    ("INT32", 4),
    ("INT64", 8),
    ("FP32", 4),
    ("FP64", 8),
    ("BYTES", 0),
];

/// Writer of a tensor into a column of the batch.
pub(crate) struct Filler<'b> {
    columns: &'b NamedColumns,
    batch: &'b mut Batch,
    place: usize,
    rows: usize,
    width: usize,
}

impl Filler<'_> {
    /// Returns the number of values that the shape says.
    pub(crate) fn count(&self) -> usize {
        self.rows * self.width
    }

    fn name(&self) -> &str {
        &self.columns.names()[self.place]
    }

    fn refuse(&self, message: impl std::fmt::Display) -> Error {
        Error::Request(format!("input `{}`: {message}", self.name()))
    }

    fn bytes_of(&self, datatype: &str) -> Result<usize, Error> {
        let found = DATATYPES.iter().find(|(name, _)| *name == datatype);
        found.map(|(_, bytes)| *bytes).ok_or_else(|| {
            let names: Vec<&str> = DATATYPES.iter().map(|(name, _)| *name).collect();
            let datatype = trainyard_diagnostic::escape(datatype);
            self.refuse(format!(
                "unknown datatype `{datatype}`; datatypes: {}",
                names.join(", ")
            ))
        })
    }

    fn check_count(&self, given: usize) -> Result<(), Error> {
        let Self { rows, width, .. } = self;
        if given == rows * width {
            return Ok(());
        }
        Err(self.refuse(format!(
            "its shape has {rows} x {width} values, given {given}"
        )))
    }

    /// Appends values from arrays of JSON.
    pub(crate) fn fill_from_json(
        &mut self,
        mut data: Reader<'_>,
        datatype: &str,
    ) -> Result<(), Error> {
        self.bytes_of(datatype)?;
        let mut values = Vec::new();
        flatten(&mut data, &mut values).map_err(|fault| self.refuse(fault))?;
        self.check_count(values.len())?;
        let is_text = datatype == "BYTES";
        let wrong = |value: &&Value<'_>| matches!(value, Value::Text(_)) != is_text;
        if values.iter().any(|value| wrong(&value)) {
            return Err(self.refuse(format!("its data must be of the datatype {datatype}")));
        }
        for row in 0..self.rows {
            let values = &values[row * self.width..][..self.width];
            append(self.columns, self.batch, self.place, values)
                .map_err(|reason| Error::Request(format!("row {}: {reason}", row + 1)))?;
        }
        Ok(())
    }

    /// Appends values from their bytes, little-endian. A text begins with its length in 4 bytes.
    pub(crate) fn fill_from_bytes(&mut self, bytes: &[u8], datatype: &str) -> Result<(), Error> {
        let size = self.bytes_of(datatype)?;
        let mut values = Vec::new();
        if size == 0 {
            let mut rest = bytes;
            while !rest.is_empty() {
                let text = rest.split_first_chunk().and_then(|(length, after)| {
                    after.split_at_checked(u32::from_le_bytes(*length) as usize)
                });
                let (text, after) = text.ok_or_else(|| {
                    self.refuse(
                        "a text of its bytes is cut short: each begins with its length in 4 bytes",
                    )
                })?;
                values.push(Given::Text(text));
                rest = after;
            }
        } else {
            let chunks = bytes.chunks_exact(size);
            if !chunks.remainder().is_empty() {
                return Err(self.refuse(format!(
                    "a value of {datatype} has {size} bytes, given {} bytes in all",
                    bytes.len()
                )));
            }
            for chunk in chunks {
                values.push(number(chunk, datatype).ok_or_else(|| {
                    self.refuse(format!("{chunk:?} is beyond the numbers of INT64"))
                })?);
            }
        }
        self.fill(&values)
    }

    /// Appends values, row by row.
    pub(crate) fn fill(&mut self, values: &[Given<'_>]) -> Result<(), Error> {
        self.check_count(values.len())?;
        for row in 0..self.rows {
            let values = &values[row * self.width..][..self.width];
            let appended = self.columns.append(self.batch, self.place, values);
            appended.map_err(|reason| self.refuse(format!("row {}: {reason}", row + 1)))?;
        }
        Ok(())
    }
}

/// Returns a number from its bytes, little-endian; nothing if 64 bits with a sign cannot hold it.
fn number(bytes: &[u8], datatype: &str) -> Option<Given<'static>> {
    let mut wide = [0; 8];
    wide[..bytes.len()].copy_from_slice(bytes);
    let unsigned = u64::from_le_bytes(wide);
    let shift = 64 - 8 * bytes.len() as u32;
    let signed = ((unsigned << shift) as i64) >> shift;
    Some(match datatype {
        "FP32" => Given::Float(f32::from_bits(unsigned as u32)),
        "FP64" => Given::Double(f64::from_bits(unsigned)),
        "INT8" | "INT16" | "INT32" | "INT64" => Given::Int(signed),
        _ => Given::Int(i64::try_from(unsigned).ok()?),
    })
}

/// Appends the values of arrays in arrays, in order.
fn flatten<'a>(reader: &mut Reader<'a>, out: &mut Vec<Value<'a>>) -> Result<(), Fault> {
    if reader.kind()? == Kind::Array {
        return reader.array(|reader| flatten(reader, out));
    }
    if reader.kind()? == Kind::Bool {
        let value = reader.bool()?;
        out.push(Value::Int(value.into()));
        return Ok(());
    }
    out.push(read_value(reader)?);
    Ok(())
}
