//! Named columns: batches from values that a caller names, instead of records of a file.
//!
//! A value becomes the cell that the same value of a file becomes, so that a prediction of a request and one of a file
//! agree.

use std::collections::HashMap;

use crate::cells::{LeftOut, clear, end_row, missing_cells, missing_part, push_digits, shown};
use crate::formats::several;
use crate::missing::{Missing, MissingValues};
use crate::number::{float, int, narrow, without_fraction};
use crate::{
    Batch, Cells, Column, Field, FieldKind, Format, Fraction, Gaps, IndexBase, NumberStyle,
    Options, Position, Schema,
};

/// A value of a request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Given<'a> {
    /// A whole number.
    Int(i64),
    /// The decimal text of any other number. It is rounded to a float once, as the number of a text file.
    Decimal(&'a str),
    /// A float of 32 bits.
    Float(f32),
    /// A float of 64 bits.
    Double(f64),
    /// A text, or arbitrary bytes.
    Text(&'a [u8]),
}

/// The reason why rows of values are no batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unfinished {
    /// A column has another number of rows than the batch.
    Rows {
        /// Place of the column among [`NamedColumns::names`].
        place: usize,
        /// Rows of the column.
        given: usize,
    },
    /// The model cannot use a row.
    Bad {
        /// The row, from 0.
        row: usize,
        /// Name of the column at fault.
        column: String,
        /// The reason, with the value.
        reason: String,
    },
}

/// The columns of a schema by their names, and the conversion of values into their cells.
#[derive(Debug, Clone)]
pub struct NamedColumns {
    schema: Schema,
    names: Vec<String>,
    /// Fields of the schema that read each name.
    fields: Vec<Vec<usize>>,
    places: HashMap<String, usize>,
    /// For each field of the schema.
    missing: Vec<Missing>,
    /// Whether files hold all values as text, with spaces around them and separators between them.
    is_text: bool,
    trim: bool,
    /// Style of the numbers in texts of lists, unless they are plain decimals.
    numbers: Option<NumberStyle>,
    /// The first id of the column `index` of libsvm files, which is counted from 0 in a batch.
    index_base: Option<IndexBase>,
}

/// The column of libsvm files with ids.
const INDEX: &str = "index";

impl NamedColumns {
    /// Returns the columns of a schema. Of the options, the format decides whether the text of a list is divided at its
    /// separator, and from which number the column `index` of libsvm counts. `trim` and `missing` apply to texts.
    pub fn new(schema: &Schema, options: &Options) -> Self {
        let mut names = Vec::new();
        let mut fields: Vec<Vec<usize>> = Vec::new();
        let mut places = HashMap::new();
        for (position, field) in schema.fields.iter().enumerate() {
            let place = *places.entry(field.name.clone()).or_insert_with(|| {
                names.push(field.name.clone());
                fields.push(Vec::new());
                names.len() - 1
            });
            fields[place].push(position);
        }
        let is_text = matches!(options.format, Format::Csv | Format::Tsv);
        Self {
            schema: schema.clone(),
            names,
            fields,
            places,
            missing: MissingValues::of_fields(&options.missing, schema),
            is_text,
            trim: is_text && options.trim,
            numbers: Some(options.text.numbers.clone())
                .filter(|numbers| is_text && !numbers.is_plain()),
            index_base: match options.format {
                Format::LibSvm(base) => Some(base),
                _ => None,
            },
        }
    }

    /// Returns the names of the columns.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the place of a column among [`NamedColumns::names`].
    pub fn place(&self, name: &str) -> Option<usize> {
        self.places.get(name).copied()
    }

    /// Returns the kinds that read a column, at least one.
    pub fn kinds(&self, place: usize) -> impl Iterator<Item = &FieldKind> {
        let fields = self.fields[place].iter();
        fields.map(|field| &self.schema.fields[*field].kind)
    }

    /// Returns a batch without rows, with room for `rows`.
    pub fn begin(&self, rows: usize) -> Batch {
        let mut batch = Batch::default();
        clear(&mut batch, &self.schema, rows, Position::default());
        batch
    }

    /// Appends the cell of a row to a column. A list of one value is that value, and a list of none is missing. Of a list of
    /// any number of values, those that are missing are left out: rows of a tensor are padded with them. Returns the bytes
    /// that the batch has grown by.
    ///
    /// # Errors
    /// The column cannot hold the values. A part of them may be in the batch, which must not be used.
    pub fn append(
        &self,
        batch: &mut Batch,
        place: usize,
        values: &[Given<'_>],
    ) -> Result<usize, String> {
        let mut grown = 0;
        let from_zero;
        let values = match self.index_base {
            Some(base) if self.names[place] == INDEX => {
                let missing = &self.missing[self.fields[place][0]];
                let gaps = |field: &usize| self.schema.fields[*field].gaps;
                let gaps = self.fields[place].iter().map(gaps).max();
                let mut left_out = LeftOut::new(gaps.unwrap_or(Gaps::LeftOut));
                let mut indices = Vec::with_capacity(values.len());
                for (nth, value) in values.iter().enumerate() {
                    if self.is_missing(*value, &FieldKind::INT, missing) {
                        left_out.add(nth);
                    } else {
                        left_out.check()?;
                        indices.push(Given::Int(self.index(*value, base)?));
                    }
                }
                from_zero = indices;
                &from_zero
            }
            _ => values,
        };
        for position in &self.fields[place] {
            let field = &self.schema.fields[*position];
            let missing = &self.missing[*position];
            let column = &mut batch.columns[*position];
            let before = bytes(column);
            match values {
                [] => missing_cells(column, &field.kind)?,
                [one] => self.append_one(column, field, *one, missing)?,
                several => self.append_several(column, field, several, missing)?,
            }
            grown += bytes(column) - before;
        }
        Ok(grown)
    }

    /// Returns the number of values that the model makes of a batch beyond those that it has: combinations of lists.
    pub fn values_made(&self, batch: &Batch) -> usize {
        self.schema.values_made_of(batch)
    }

    /// Completes a batch of `rows` rows.
    ///
    /// # Errors
    /// A column does not have so many rows, because the caller has left values out; or a row breaks a rule of the schema,
    /// as a bad record of a file.
    pub fn finish(&self, mut batch: Batch, rows: usize) -> Result<Batch, Unfinished> {
        for (place, fields) in self.fields.iter().enumerate() {
            let column = &batch.columns[fields[0]];
            let field = &self.schema.fields[fields[0]];
            let given = match (&column.offsets, &field.kind) {
                (Some(offsets), _) => offsets.len() - 1,
                (None, FieldKind::Float { width, .. }) => column.cells.len() / (*width).max(1),
                (None, _) => column.cells.len(),
            };
            if given != rows {
                return Err(Unfinished::Rows { place, given });
            }
        }
        batch.rows = rows;
        for row in 0..rows {
            let broken = |(field, reason): (usize, String)| Unfinished::Bad {
                row,
                column: self.schema.fields[field].name.clone(),
                reason,
            };
            self.schema.check(&batch, row).map_err(broken)?;
        }
        Ok(batch)
    }

    /// Returns an index as a file has it, counted from 0.
    fn index(&self, value: Given<'_>, base: IndexBase) -> Result<i64, String> {
        let index = match value {
            Given::Int(index) => index,
            Given::Text(text) => int(text, Fraction::Refused)?
                .ok_or_else(|| format!("expected a whole number, given {}", told(value)))?,
            Given::Decimal(_) | Given::Float(_) | Given::Double(_) => {
                return Err(format!("expected a whole number, given {}", told(value)));
            }
        };
        let first = match base {
            IndexBase::Zero => 0,
            IndexBase::One => 1,
        };
        let from_zero = index.checked_sub(first).filter(|index| *index >= 0);
        from_zero.ok_or_else(|| {
            format!("an index is at least {first}, as in the files of training, given {index}")
        })
    }

    /// Returns whether a value stands for a missing one where a value of this kind is wanted.
    fn is_missing(&self, value: Given<'_>, kind: &FieldKind, missing: &Missing) -> bool {
        match value {
            Given::Text(text) => {
                let text = if self.trim { text.trim_ascii() } else { text };
                missing.text(text) || is_number(kind) && is_text_of_nan(text)
            }
            // Pairs of libsvm are never missing.
            _ if self.index_base.is_some() => false,
            Given::Int(number) => missing.integer(number, kind),
            Given::Decimal(text) => missing.written(text.as_bytes(), kind),
            Given::Float(number) => missing.float(number.into()),
            Given::Double(number) => missing.float(number),
        }
    }

    fn append_one(
        &self,
        column: &mut Column,
        field: &Field,
        value: Given<'_>,
        missing: &Missing,
    ) -> Result<(), String> {
        let kind = &field.kind;
        if self.is_missing(value, kind, missing) || is_padding(value, kind) {
            return missing_cells(column, kind);
        }
        let value = match value {
            Given::Text(text) if self.trim => Given::Text(text.trim_ascii()),
            value => value,
        };
        if let Given::Text(text) = value
            && self.is_text
            && has_separator(kind)
        {
            return several(column, field, text, missing, self.numbers.as_ref());
        }
        match kind {
            FieldKind::Float { width, .. } if *width != 1 => {
                Err(format!("expected {width} values, given 1"))
            }
            _ => {
                push(column, kind, value)?;
                end_row(column);
                Ok(())
            }
        }
    }

    fn append_several(
        &self,
        column: &mut Column,
        field: &Field,
        values: &[Given<'_>],
        missing: &Missing,
    ) -> Result<(), String> {
        let kind = &field.kind;
        let width = match kind {
            FieldKind::Float { width, .. } => Some(*width),
            kind if kind.is_ragged() => None,
            _ => Some(1),
        };
        if let Some(width) = width.filter(|width| *width != values.len()) {
            let plural = if width == 1 { "" } else { "s" };
            let given = values.len();
            return Err(format!("expected {width} value{plural}, given {given}"));
        }
        let mut left_out = LeftOut::new(field.gaps);
        for (nth, value) in values.iter().enumerate() {
            let is_padding = self.is_missing(*value, kind, missing) || is_padding(*value, kind);
            if width.is_none() && is_padding {
                left_out.add(nth);
                continue;
            }
            if let (Cells::Float(cells), FieldKind::Float { default, .. }) =
                (&mut column.cells, kind)
                && (is_padding || is_nan(*value))
                && values.len() > 1
            {
                missing_part(cells, default.as_deref(), nth)?;
                continue;
            }
            left_out.check()?;
            push(column, kind, *value)?;
        }
        end_row(column);
        Ok(())
    }
}

fn is_number(kind: &FieldKind) -> bool {
    !matches!(kind, FieldKind::Bytes { .. })
}

/// Returns whether a text among numbers stands for a missing one, as in a text file.
fn is_text_of_nan(text: &[u8]) -> bool {
    float(text).is_ok_and(f32::is_nan)
}

/// Returns whether a number that is no number stands for a missing value, as in a SavedModel.
fn is_padding(value: Given<'_>, kind: &FieldKind) -> bool {
    is_nan(value)
        && matches!(
            kind,
            FieldKind::Floats { .. }
                | FieldKind::Float { width: 1, .. }
                | FieldKind::Int {
                    fraction: Fraction::Dropped | Fraction::Time(_),
                    ..
                }
        )
}

fn is_nan(value: Given<'_>) -> bool {
    match value {
        Given::Float(number) => number.is_nan(),
        Given::Double(number) => number.is_nan(),
        Given::Int(_) | Given::Decimal(_) | Given::Text(_) => false,
    }
}

/// Returns the bytes of a column.
fn bytes(column: &Column) -> usize {
    let cells = match &column.cells {
        Cells::Float(cells) => size_of_val(cells.as_slice()),
        Cells::Int(cells) => size_of_val(cells.as_slice()),
        Cells::Bytes(cells) => cells.data.len() + size_of_val(cells.offsets.as_slice()),
    };
    let offsets = column.offsets.as_deref().map_or(0, size_of_val);
    cells + offsets
}

fn has_separator(kind: &FieldKind) -> bool {
    match kind {
        FieldKind::Floats { .. } => true,
        FieldKind::Float { separator, .. }
        | FieldKind::Int { separator, .. }
        | FieldKind::Bytes { separator } => separator.is_some(),
    }
}

/// Appends a value to the cells of a column.
fn push(column: &mut Column, kind: &FieldKind, value: Given<'_>) -> Result<(), String> {
    let fraction = kind.fraction();
    let truncate = fraction.is_dropped();
    match (&mut column.cells, value) {
        (Cells::Float(cells), Given::Int(number)) => cells.push(number as f32),
        (Cells::Float(cells), Given::Decimal(text)) => cells.push(float(text.as_bytes())?),
        (Cells::Float(cells), Given::Float(number)) => cells.push(narrow(number.into())?),
        (Cells::Float(cells), Given::Double(number)) => cells.push(narrow(number)?),
        (Cells::Int(cells), Given::Int(number)) => cells.push(number),
        (Cells::Int(cells), Given::Decimal(text)) if truncate => {
            let number = int(text.as_bytes(), fraction)?;
            cells.push(number.ok_or_else(|| format!("expected a number, given {}", told(value)))?);
        }
        (Cells::Int(cells), Given::Float(number)) if truncate => {
            cells.push(without_fraction(narrow(number.into())?.into(), fraction)?);
        }
        (Cells::Int(cells), Given::Double(number)) if truncate && number.is_finite() => {
            cells.push(without_fraction(number, fraction)?);
        }
        (Cells::Bytes(cells), Given::Int(number)) => push_digits(number, cells),
        // A whole number beyond 64 bits with a sign: hashes are such.
        (Cells::Bytes(cells), Given::Decimal(text)) if is_whole(text) => {
            cells.push(text.as_bytes());
        }
        (Cells::Bytes(cells), Given::Text(text)) => {
            let length = cells.data.len() + text.len();
            if u32::try_from(length).is_err() {
                return Err(format!("a column holds under 4 GiB, given {length} bytes"));
            }
            cells.push(text);
        }
        (cells, value) => {
            let found = match value {
                Given::Decimal(text) if is_whole(text) && matches!(cells, Cells::Int(_)) => {
                    format!("{text}, which is beyond 64 bits")
                }
                value => told(value),
            };
            let wanted = match cells {
                Cells::Float(_) => "a number",
                Cells::Int(_) => "a whole number",
                Cells::Bytes(_) => "a text or a whole number",
            };
            return Err(format!("expected {wanted}, given {found}"));
        }
    }
    Ok(())
}

/// Returns whether a decimal text has digits alone, and perhaps a sign.
fn is_whole(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns a value for a message.
fn told(value: Given<'_>) -> String {
    match value {
        Given::Int(number) => number.to_string(),
        Given::Decimal(text) => text.to_owned(),
        Given::Float(number) => number.to_string(),
        Given::Double(number) => number.to_string(),
        Given::Text(text) => format!("the text {}", shown(text)),
    }
}

impl Batch {
    /// Appends the rows of another batch of the same schema.
    ///
    /// # Panics
    /// The batches are of different schemas, or a column of texts has 4 GiB or more.
    pub fn extend(&mut self, other: &Self) {
        assert_eq!(
            self.columns.len(),
            other.columns.len(),
            "batches of one schema have the same columns"
        );
        for (column, more) in self.columns.iter_mut().zip(&other.columns) {
            if let (Some(offsets), Some(more)) = (&mut column.offsets, &more.offsets) {
                let base = offsets.last().copied().unwrap_or_default();
                offsets.extend(more.iter().skip(1).map(|offset| base + offset));
            }
            match (&mut column.cells, &more.cells) {
                (Cells::Float(cells), Cells::Float(more)) => cells.extend_from_slice(more),
                (Cells::Int(cells), Cells::Int(more)) => cells.extend_from_slice(more),
                (Cells::Bytes(cells), Cells::Bytes(more)) => {
                    let base =
                        u32::try_from(cells.data.len()).expect("a batch column is under 4 GiB");
                    assert!(
                        base.checked_add(more.data.len() as u32).is_some(),
                        "a batch column is under 4 GiB"
                    );
                    cells.data.extend_from_slice(&more.data);
                    let offsets = more.offsets.iter().skip(1);
                    cells.offsets.extend(offsets.map(|offset| base + offset));
                }
                _ => unreachable!("batches of one schema have cells of the same types"),
            }
        }
        self.rows += other.rows;
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn columns(kinds: &[(&str, FieldKind)], format: Format) -> NamedColumns {
        let mut schema = Schema::default();
        for (name, kind) in kinds {
            schema.want(name, kind.clone());
        }
        let mut options = Options::new(vec![PathBuf::from("t")], format);
        options.trim = true;
        options.missing = vec!["?".to_owned()].into();
        NamedColumns::new(&schema, &options)
    }

    fn batch(columns: &NamedColumns, rows: &[&[&[Given<'_>]]]) -> Result<Batch, String> {
        let mut batch = columns.begin(rows.len());
        for row in rows {
            for (place, values) in row.iter().enumerate() {
                columns.append(&mut batch, place, values)?;
            }
        }
        Ok(columns
            .finish(batch, rows.len())
            .expect("all columns are given"))
    }

    const TAGS: FieldKind = FieldKind::Bytes {
        separator: Some(b'|'),
    };

    #[test]
    fn values_become_the_cells_of_a_file() {
        let columns = columns(
            &[
                ("age", FieldKind::FLOAT),
                ("age", FieldKind::BYTES),
                ("city", FieldKind::BYTES),
                ("tags", TAGS),
            ],
            Format::Csv,
        );
        assert_eq!(columns.names(), ["age", "city", "tags"]);
        let built = batch(
            &columns,
            &[
                &[
                    &[Given::Int(7)],
                    &[Given::Text(b" Oslo ")],
                    &[Given::Text(b"a|b")],
                ],
                &[
                    &[Given::Int(-1)],
                    &[Given::Text(b"?")],
                    &[Given::Text(b"c"), Given::Text(b"d")],
                ],
            ],
        )
        .expect("good values");
        let texts = |values: &[&str]| {
            let mut bytes = crate::Bytes::default();
            values.iter().for_each(|value| bytes.push(value.as_bytes()));
            Cells::Bytes(bytes)
        };
        assert_eq!(built.rows, 2);
        assert_eq!(built.columns[0].cells, Cells::Float(vec![7.0, -1.0]));
        assert_eq!(built.columns[1].cells, texts(&["7", "-1"]));
        assert_eq!(built.columns[2].cells, texts(&["Oslo", ""]));
        assert_eq!(built.columns[3].cells, texts(&["a", "b", "c", "d"]));
        assert_eq!(built.columns[3].offsets, Some(vec![0, 2, 4]));
        let mut twice = built.clone();
        twice.extend(&built);
        assert_eq!(twice.columns[3].offsets, Some(vec![0, 2, 4, 6, 8]));
        assert_eq!(twice.columns[2].cells, texts(&["Oslo", "", "Oslo", ""]));
    }

    #[test]
    fn an_index_of_libsvm_counts_from_where_its_files_do() {
        let index = |separator| FieldKind::Int {
            separator,
            fraction: Fraction::Refused,
        };
        let columns = |base| {
            let kinds = [
                ("index", index(Some(b' '))),
                (
                    "index",
                    FieldKind::Bytes {
                        separator: Some(b' '),
                    },
                ),
                ("value", FieldKind::Floats { separator: b' ' }),
                ("qid", index(None)),
            ];
            columns(&kinds, Format::LibSvm(base))
        };
        let row: &[&[Given<'_>]] = &[
            &[Given::Int(3), Given::Text(b"10"), Given::Text(b"")],
            &[Given::Int(1), Given::Float(0.5), Given::Float(f32::NAN)],
            &[Given::Int(7)],
        ];
        let built = batch(&columns(IndexBase::One), &[row]).expect("good values");
        assert_eq!(built.columns[0].cells, Cells::Int(vec![2, 9]));
        let Cells::Bytes(texts) = &built.columns[1].cells else {
            panic!("texts");
        };
        assert_eq!(texts.data, b"29");
        assert_eq!(built.columns[2].cells, Cells::Float(vec![1.0, 0.5]));
        assert_eq!(built.columns[3].cells, Cells::Int(vec![7]));
        let built = batch(&columns(IndexBase::Zero), &[row]).expect("good values");
        assert_eq!(built.columns[0].cells, Cells::Int(vec![3, 10]));
        let refused: &[&[Given<'_>]] = &[&[Given::Int(0)], &[Given::Int(1)], &[Given::Int(7)]];
        let told = batch(&columns(IndexBase::One), &[refused]).expect_err("index 0");
        assert!(
            told.contains("at least 1") && told.contains("given 0"),
            "{told}"
        );
        batch(&columns(IndexBase::Zero), &[refused]).expect("0 is the first");
    }

    #[test]
    fn values_that_pad_the_rows_of_a_tensor_are_left_out() {
        let columns = columns(
            &[
                ("tags", TAGS),
                ("weights", FieldKind::Floats { separator: b'|' }),
            ],
            Format::Csv,
        );
        let nan = Given::Double(f64::NAN);
        let built = batch(
            &columns,
            &[
                &[
                    &[Given::Text(b"a"), Given::Text(b""), Given::Text(b"?")],
                    &[Given::Int(1), nan, nan],
                ],
                &[
                    &[Given::Text(b"b"), Given::Text(b"c"), Given::Text(b"d")],
                    &[Given::Int(2), Given::Int(3), Given::Int(4)],
                ],
                &[&[Given::Text(b""), Given::Text(b"")], &[nan]],
            ],
        )
        .expect("good values");
        assert_eq!(built.columns[0].offsets, Some(vec![0, 1, 4, 4]));
        assert_eq!(built.columns[1].offsets, Some(vec![0, 1, 4, 4]));
        // Before another value they would give it the weight of its neighbour.
        let weights = [Given::Int(1), nan, Given::Int(3)];
        let told = batch(&columns, &[&[&[Given::Text(b"a")], &weights]]);
        let told = told.expect_err("a weight is missing");
        assert!(told.contains("value 2 of the list is missing"), "{told}");
    }

    #[test]
    fn a_decimal_is_rounded_once() {
        let columns = columns(&[("x", FieldKind::FLOAT)], Format::Csv);
        // Between two floats, just above the middle: by way of 64 bits it would be the middle, and then the even one.
        let text = "1.00000005960464477540";
        let built = batch(&columns, &[&[&[Given::Decimal(text)]]]).expect("a number");
        let once: f32 = text.parse().expect("a number");
        assert_eq!(built.columns[0].cells, Cells::Float(vec![once]));
        let twice = text.parse::<f64>().expect("a number") as f32;
        assert_ne!(once.to_bits(), twice.to_bits(), "the number shows nothing");
    }

    #[test]
    fn what_a_column_cannot_hold_is_refused_with_its_value() {
        let columns = columns(
            &[
                ("x", FieldKind::FLOAT),
                ("n", FieldKind::INT),
                ("t", FieldKind::BYTES),
                (
                    "v",
                    FieldKind::Float {
                        width: 3,
                        separator: None,
                        default: None,
                    },
                ),
            ],
            Format::Parquet,
        );
        let told = |place: usize, values: &[Given<'_>]| {
            let mut batch = columns.begin(1);
            columns
                .append(&mut batch, place, values)
                .expect_err("a refusal")
        };
        assert_eq!(
            told(0, &[Given::Text(b"old")]),
            "expected a number, given the text \"old\""
        );
        assert_eq!(
            told(0, &[Given::Float(f32::NAN)]),
            "the value is missing and has no default"
        );
        assert_eq!(told(0, &[]), "the value is missing and has no default");
        assert_eq!(
            told(1, &[Given::Decimal("0.5")]),
            "expected a whole number, given 0.5"
        );
        assert_eq!(
            told(2, &[Given::Double(0.5)]),
            "expected a text or a whole number, given 0.5"
        );
        assert_eq!(
            told(2, &[Given::Int(1), Given::Int(2)]),
            "expected 1 value, given 2"
        );
        assert_eq!(
            told(3, &[Given::Int(1), Given::Int(2)]),
            "expected 3 values, given 2"
        );
    }

    #[test]
    fn a_column_with_too_few_rows_is_told() {
        let columns = columns(
            &[("x", FieldKind::FLOAT), ("t", FieldKind::BYTES)],
            Format::Csv,
        );
        let mut batch = columns.begin(1);
        columns
            .append(&mut batch, 0, &[Given::Int(1)])
            .expect("a number");
        let unfinished = Unfinished::Rows { place: 1, given: 0 };
        assert_eq!(columns.finish(batch, 1), Err(unfinished));
    }
}
