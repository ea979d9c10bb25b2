//! Tensors of a request, and their way into the columns of a batch.

use trainyard_input::{Given, NamedColumns};

use crate::Error;
use crate::datatype::{Datatype, beyond_int64};
use crate::filling::{CELL_VALUES_MAX, Filled, Filling, RequestBounds};
use crate::json::{Fault, Kind, Reader};
use crate::rest::{Value, append, missing, read_value, unknown};
use crate::text::sizes;

/// The inputs of a request, which become a batch.
pub(crate) struct Inputs<'c> {
    filling: Filling<'c>,
    /// Rows of the first input.
    rows: Option<usize>,
    rows_max: usize,
    /// Whether each column was given.
    seen: Vec<bool>,
}

impl<'c> Inputs<'c> {
    pub(crate) fn new(columns: &'c NamedColumns, bounds: RequestBounds) -> Self {
        Self {
            filling: Filling::new(columns, bounds),
            rows: None,
            rows_max: bounds.rows_max,
            seen: vec![false; columns.names().len()],
        }
    }

    /// Begins an input of a shape, whose first number is that of the rows.
    ///
    /// # Errors
    /// The model has no such column, it was given before, or its shape does not fit.
    pub(crate) fn input(&mut self, name: &str, shape: &[usize]) -> Result<Filler<'_, 'c>, Error> {
        let columns = self.filling.columns();
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
        if width > CELL_VALUES_MAX && rows > 0 {
            return Err(Error::Request(format!(
                "a row of input `{name}` may have at most {CELL_VALUES_MAX} values, given {width}"
            )));
        }
        Ok(Filler {
            filling: &mut self.filling,
            place,
            rows,
            width,
        })
    }

    /// Returns the batch.
    ///
    /// # Errors
    /// A column was not given.
    pub(crate) fn finish(self) -> Result<Filled, Error> {
        if let Some(place) = self.seen.iter().position(|seen| !seen) {
            return Err(Error::Request(missing(self.filling.columns(), place)));
        }
        self.filling.finish(self.rows.unwrap_or(0))
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
            "input `{name}` has a shape of too many values: {}",
            sizes(shape)
        ))
    })?;
    Ok((*rows, width))
}

/// Writer of a tensor into a column of the batch.
pub(crate) struct Filler<'b, 'c> {
    filling: &'b mut Filling<'c>,
    place: usize,
    rows: usize,
    width: usize,
}

impl Filler<'_, '_> {
    /// Returns the number of values that the shape says.
    pub(crate) fn count(&self) -> usize {
        self.rows * self.width
    }

    fn name(&self) -> &str {
        &self.filling.columns().names()[self.place]
    }

    fn refuse(&self, message: impl std::fmt::Display) -> Error {
        Error::Request(format!("input `{}`: {message}", self.name()))
    }

    fn datatype(&self, name: &str) -> Result<Datatype, Error> {
        Datatype::named(name).map_err(|reason| self.refuse(reason))
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
        let datatype = self.datatype(datatype)?;
        let mut rows = JsonRows {
            values: Vec::new(),
            row: 0,
            count: 0,
        };
        let (width, most) = (self.width, self.count());
        let (place, filling) = (self.place, &mut *self.filling);
        let flattened = flatten(&mut data, datatype, &mut |value, reader| {
            rows.count += 1;
            if rows.count > most {
                return Err(reader.fault(format!("its shape has {most} values, given more")));
            }
            rows.values.push(value);
            if rows.values.len() == width {
                rows.row += 1;
                let appended = append(filling, place, &rows.values);
                rows.values.clear();
                appended.map_err(|reason| reader.fault(format!("row {}: {reason}", rows.row)))?;
            }
            Ok(())
        });
        flattened.map_err(|fault| self.filling.error(|| self.refuse(fault)))?;
        let count = rows.count;
        self.check_count(count)?;
        if self.width == 0 {
            return self.fill(std::iter::empty());
        }
        Ok(())
    }

    /// Appends values from their bytes, little-endian. A text begins with its length in 4 bytes.
    pub(crate) fn fill_from_bytes(&mut self, bytes: &[u8], datatype: &str) -> Result<(), Error> {
        let datatype = self.datatype(datatype)?;
        let size = datatype.bytes;
        if size == 0 {
            let mut rest = bytes;
            let texts = std::iter::from_fn(|| {
                if rest.is_empty() {
                    return None;
                }
                let text = rest.split_first_chunk().and_then(|(length, after)| {
                    after.split_at_checked(u32::from_le_bytes(*length) as usize)
                });
                let Some((text, after)) = text else {
                    rest = &[];
                    return Some(Err(
                        "a text of its bytes is cut short: each begins with its length in 4 bytes"
                            .to_owned(),
                    ));
                };
                rest = after;
                Some(Ok(Given::Text(text)))
            });
            return self.fill(texts);
        }
        let chunks = bytes.chunks_exact(size);
        if !chunks.remainder().is_empty() {
            return Err(self.refuse(format!(
                "a value of {} has {size} bytes, given {} bytes in all",
                datatype.name,
                bytes.len()
            )));
        }
        self.check_count(chunks.len())?;
        self.fill(chunks.map(|chunk| {
            let value = number(chunk, datatype.name)
                .ok_or_else(|| beyond_int64(&u64_of(chunk).to_string()))?;
            datatype.check(value).map(|()| value)
        }))
    }

    /// Appends values, each of which must be one of the datatype.
    pub(crate) fn fill_from_values<'v>(
        &mut self,
        values: impl Iterator<Item = Given<'v>>,
        datatype: &str,
    ) -> Result<(), Error> {
        let datatype = self.datatype(datatype)?;
        self.fill(values.map(|value| datatype.check(value).map(|()| value)))
    }

    /// Appends values, row by row.
    pub(crate) fn fill<'v>(
        &mut self,
        values: impl Iterator<Item = Result<Given<'v>, String>>,
    ) -> Result<(), Error> {
        let mut values = values;
        let mut row = Vec::new();
        let mut count = 0;
        for nth in 1..=self.rows {
            row.clear();
            for value in values.by_ref().take(self.width) {
                row.push(value.map_err(|reason| self.refuse(reason))?);
            }
            count += row.len();
            if row.len() < self.width {
                return self.check_count(count);
            }
            let appended = self.filling.append(self.place, &row);
            appended.map_err(|reason| {
                let own = || self.refuse(format!("row {nth}: {reason}"));
                self.filling.error(own)
            })?;
        }
        match values.count() {
            0 => Ok(()),
            more => self.check_count(count + more),
        }
    }
}

/// Values of a row that are read from JSON.
struct JsonRows<'a> {
    values: Vec<Value<'a>>,
    row: usize,
    count: usize,
}

/// Returns up to 8 bytes, little-endian, as a whole number without a sign.
fn u64_of(bytes: &[u8]) -> u64 {
    let mut wide = [0; 8];
    wide[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(wide)
}

/// Returns a number from its bytes, little-endian; nothing if 64 bits with a sign cannot hold it.
fn number(bytes: &[u8], datatype: &str) -> Option<Given<'static>> {
    let unsigned = u64_of(bytes);
    let shift = 64 - 8 * bytes.len() as u32;
    let signed = ((unsigned << shift) as i64) >> shift;
    Some(match datatype {
        "FP32" => Given::Float(f32::from_bits(unsigned as u32)),
        "FP64" => Given::Double(f64::from_bits(unsigned)),
        "INT8" | "INT16" | "INT32" | "INT64" => Given::Int(signed),
        _ => Given::Int(i64::try_from(unsigned).ok()?),
    })
}

/// Returns a value of JSON as the value of the datatype, which gRPC would have: a column takes both alike.
fn typed<'a>(value: Value<'a>, datatype: Datatype) -> Result<Value<'a>, String> {
    datatype.check(value.given())?;
    match (datatype.name, &value) {
        ("FP32", _) => datatype.float(value.given()).map(Value::Float),
        ("FP64", _) => datatype.double(value.given()).map(Value::Double),
        // The others have texts, and numbers that 64 bits with a sign can hold.
        (_, Value::Decimal(text)) => Err(beyond_int64(text)),
        _ => Ok(value),
    }
}

/// Hands out the values of arrays in arrays, in order. Each must be one of the datatype.
fn flatten<'a>(
    reader: &mut Reader<'a>,
    datatype: Datatype,
    take: &mut impl FnMut(Value<'a>, &Reader<'a>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let value = match reader.kind()? {
        Kind::Array => return reader.array(|reader| flatten(reader, datatype, take)),
        Kind::Bool => {
            let value = reader.bool()?;
            let checked = datatype.check_bool(value);
            checked.map(|()| Value::Int(value.into()))
        }
        _ => typed(read_value(reader)?, datatype),
    };
    let value = value.map_err(|reason| reader.fault(reason))?;
    take(value, reader)
}

#[cfg(test)]
mod tests {
    use trainyard_input::FieldKind;

    use super::*;
    use crate::filling::fixtures::{self, BOUNDS};

    fn columns() -> NamedColumns {
        fixtures::columns(&[("n", FieldKind::FLOAT), ("t", FieldKind::BYTES)])
    }

    #[test]
    fn data_of_another_datatype_is_refused_with_value_datatype_and_input() {
        let columns = columns();
        for (name, datatype, data, shown) in [
            ("n", "BOOL", "5", "5"),
            ("n", "UINT8", "300", "300"),
            ("n", "UINT8", "-1", "-1"),
            ("n", "UINT16", "65536", "65536"),
            ("n", "UINT32", "4294967296", "4294967296"),
            ("n", "UINT64", "-1", "-1"),
            ("n", "INT8", "128", "128"),
            ("n", "INT16", "32768", "32768"),
            ("n", "INT32", "2147483648", "2147483648"),
            ("n", "INT64", "1.5", "1.5"),
            ("n", "INT64", "true", "true"),
            ("n", "FP32", "\"1\"", "`1`"),
            ("n", "FP64", "false", "false"),
            ("t", "BYTES", "7", "7"),
            ("n", "FP32", "16777217", "16777216"),
            ("n", "FP64", "9007199254740993", "9007199254740992"),
            ("n", "FP32", "1e39", "1e39"),
            ("n", "FP64", "-1e309", "-1e309"),
        ] {
            let data = format!("[{data}]");
            let mut inputs = Inputs::new(&columns, BOUNDS);
            let mut filler = inputs.input(name, &[1]).expect("an input");
            let refused = filler.fill_from_json(Reader::new(&data), datatype);
            let told = refused.expect_err(datatype).to_string();
            for part in [shown, datatype, &format!("input `{name}`")] {
                assert!(told.contains(part), "{datatype} {data}: {told}");
            }
        }
        for (datatype, data) in [
            ("BOOL", "true"),
            ("BOOL", "1"),
            ("UINT8", "255"),
            ("INT8", "-128"),
            ("UINT64", "9223372036854775807"),
            ("FP32", "16777216"),
            ("FP64", "16777217"),
            ("FP32", "3e38"),
            ("INT64", "-7"),
            ("FP32", "1"),
            ("FP64", "1.5"),
        ] {
            let data = format!("[{data}]");
            let mut inputs = Inputs::new(&columns, BOUNDS);
            let mut filler = inputs.input("n", &[1]).expect("an input");
            let filled = filler.fill_from_json(Reader::new(&data), datatype);
            filled.unwrap_or_else(|error| panic!("{datatype} {data}: {error}"));
        }
    }

    #[test]
    fn a_number_that_is_no_number_is_a_missing_value_in_json_as_in_bytes() {
        let kind = FieldKind::Float {
            width: 1,
            separator: None,
            default: Some(vec![-9.0]),
        };
        let columns = fixtures::columns(&[("n", kind), ("m", FieldKind::FLOAT)]);
        let bytes = |datatype: &str| match datatype {
            "FP32" => f32::NAN.to_le_bytes().to_vec(),
            _ => f64::NAN.to_le_bytes().to_vec(),
        };
        for datatype in ["FP32", "FP64"] {
            for (column, is_taken) in [("n", true), ("m", false)] {
                let mut of_json = Inputs::new(&columns, BOUNDS);
                let mut filler = of_json.input(column, &[1]).expect("an input");
                let json = filler.fill_from_json(Reader::new("[NaN]"), datatype);
                let mut of_bytes = Inputs::new(&columns, BOUNDS);
                let mut filler = of_bytes.input(column, &[1]).expect("an input");
                let binary = filler.fill_from_bytes(&bytes(datatype), datatype);
                assert_eq!(json.is_ok(), is_taken, "{column} {datatype}: {json:?}");
                assert_eq!(binary.is_ok(), is_taken, "{column} {datatype}: {binary:?}");
            }
        }
        let mut inputs = Inputs::new(&columns, BOUNDS);
        let mut filler = inputs.input("n", &[1]).expect("an input");
        let told = filler.fill_from_json(Reader::new("[NaN]"), "INT64");
        let told = told.expect_err("no whole number").to_string();
        assert!(told.contains("NaN is no INT64"), "{told}");
    }

    #[test]
    fn an_infinite_number_is_told_as_one() {
        let columns = columns();
        for text in ["[Infinity]", "[-Infinity]"] {
            let mut inputs = Inputs::new(&columns, BOUNDS);
            let mut filler = inputs.input("n", &[1]).expect("an input");
            let told = filler.fill_from_json(Reader::new(text), "FP32");
            let told = told.expect_err(text).to_string();
            assert!(told.contains("an infinite number"), "{told}");
        }
    }

    #[test]
    fn a_byte_that_is_no_bool_is_refused() {
        let columns = columns();
        let mut inputs = Inputs::new(&columns, BOUNDS);
        let mut filler = inputs.input("n", &[2]).expect("an input");
        let told = filler.fill_from_bytes(&[1, 5], "BOOL").expect_err("5");
        assert!(told.to_string().contains("5 is no BOOL"), "{told}");
    }
}
