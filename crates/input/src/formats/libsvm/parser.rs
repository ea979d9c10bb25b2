//! Parser of libsvm lines into the wanted columns.

use super::{no_label, no_pair, pair, present, refused_pair, tokens};
use crate::cells::{Bad, end_row, missing_cells, push_digits};
use crate::error::ONE_VALUE;
use crate::formats::lists::several;
use crate::missing::{Missing, MissingValues};
use crate::number::{float, int};
use crate::record::Content;
use crate::record_format::RecordParser;
use crate::{Batch, Cells, FieldKind, Fraction, IndexBase, MissingTexts, Schema};

/// The reason why a schema cannot be read from libsvm.
#[derive(Debug)]
pub(super) enum Misfit {
    /// libsvm has no such column.
    Unknown(String),
    /// The schema wants a kind of value that the column does not hold.
    Kind {
        column: String,
        wanted: &'static str,
    },
}

/// Parser of lines into columns.
#[derive(Debug)]
pub(super) struct LibSvmParser {
    schema: Schema,
    base: IndexBase,
    /// For each field of the schema.
    missing: Vec<Missing>,
    /// Columns of the batch for the labels, queries, indices and values of lines.
    labels: Vec<usize>,
    queries: Vec<usize>,
    indices: Vec<usize>,
    values: Vec<usize>,
}

impl LibSvmParser {
    /// Returns a parser of the wanted columns. The columns `index` and `value` must take any number of values.
    pub(super) fn new(
        schema: &Schema,
        base: IndexBase,
        missing: &MissingTexts,
    ) -> Result<Self, Misfit> {
        let mut parser = Self {
            schema: schema.clone(),
            base,
            missing: MissingValues::of_fields(missing, schema),
            labels: Vec::new(),
            queries: Vec::new(),
            indices: Vec::new(),
            values: Vec::new(),
        };
        for (place, field) in schema.fields.iter().enumerate() {
            let misfit = |wanted| {
                Err(Misfit::Kind {
                    column: field.name.clone(),
                    wanted,
                })
            };
            match (field.name.as_str(), &field.kind) {
                ("label", _) => parser.labels.push(place),
                ("qid", _) => parser.queries.push(place),
                (
                    "index",
                    FieldKind::Int {
                        separator: Some(_), ..
                    }
                    | FieldKind::Bytes { separator: Some(_) },
                ) => {
                    parser.indices.push(place);
                }
                ("index", FieldKind::Int { .. } | FieldKind::Bytes { .. }) => {
                    return misfit(ONE_VALUE);
                }
                ("index", _) => return misfit("numbers that are not ids"),
                ("value", FieldKind::Floats { .. }) => parser.values.push(place),
                ("value", _) => return misfit("other than the weights of `index`"),
                _ => return Err(Misfit::Unknown(field.name.clone())),
            }
        }
        Ok(parser)
    }

    /// Parses an index, and returns it counted from 0.
    fn index(&self, text: &[u8]) -> Result<i64, String> {
        let index = int(text, Fraction::Refused)?.ok_or("the index is missing")?;
        let first = match self.base {
            IndexBase::Zero => 0,
            IndexBase::One => 1,
        };
        match index.checked_sub(first) {
            Some(index) if index >= 0 => Ok(index),
            _ if index == 0 => Err(
                "index 0 in a file whose indices begin with 1; if they begin with 0, set input.index_base = 0"
                    .to_owned(),
            ),
            _ => Err(format!("an index must be at least {first}, given {index}")),
        }
    }

    /// Appends a text to columns, in the kind of each column.
    fn store(&self, places: &[usize], text: &[u8], batch: &mut Batch) -> Result<(), Bad> {
        for &place in places {
            let column = &mut batch.columns[place];
            let field = &self.schema.fields[place];
            let kind = &field.kind;
            let missing = &self.missing[place];
            let outcome = match (&mut column.cells, kind) {
                _ if missing.written(text, kind) => missing_cells(column, kind),
                (
                    Cells::Float(cells),
                    FieldKind::Float {
                        separator: None, ..
                    },
                ) => match float(text) {
                    Ok(number) if number.is_nan() => missing_cells(column, kind),
                    number => number.map(|number| cells.push(number)),
                },
                (
                    Cells::Int(cells),
                    FieldKind::Int {
                        separator: None,
                        fraction,
                    },
                ) => match int(text, *fraction) {
                    Ok(Some(number)) => {
                        cells.push(number);
                        Ok(())
                    }
                    Ok(None) => missing_cells(column, kind),
                    Err(reason) => Err(reason),
                },
                (Cells::Bytes(cells), FieldKind::Bytes { separator: None }) => {
                    cells.push(text);
                    Ok(())
                }
                _ => several(column, field, text, missing, None),
            };
            outcome.map_err(|reason| (Some(place), reason))?;
        }
        Ok(())
    }
}

impl RecordParser for LibSvmParser {
    fn append(&mut self, content: Content<'_>, batch: &mut Batch) -> Result<(), Bad> {
        let line = content.as_bytes();
        let mut tokens = tokens(line);
        let label = tokens.next().unwrap_or_default();
        if label.contains(&b':') {
            return Err((None, no_label(label)));
        }
        self.store(&self.labels, label, batch)?;
        let mut query = b"".as_slice();
        for token in tokens {
            let Some((index, value)) = pair(token) else {
                return Err((None, no_pair(token)));
            };
            if index == b"qid" {
                query = value;
                continue;
            }
            let refused = |reason| (None, refused_pair(token, reason));
            let index = self.index(index).map_err(refused)?;
            let value = float(value).and_then(present).map_err(refused)?;
            for &place in &self.indices {
                match &mut batch.columns[place].cells {
                    Cells::Int(cells) => cells.push(index),
                    Cells::Bytes(cells) => push_digits(index, cells),
                    Cells::Float(_) => {}
                }
            }
            for &place in &self.values {
                if let Cells::Float(cells) = &mut batch.columns[place].cells {
                    cells.push(value);
                }
            }
        }
        self.store(&self.queries, query, batch)?;
        self.indices
            .iter()
            .chain(&self.values)
            .for_each(|place| end_row(&mut batch.columns[*place]));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Position;
    use crate::cells::clear;

    fn schema() -> Schema {
        let mut schema = Schema::default();
        schema.want("label", FieldKind::FLOAT);
        schema.want(
            "index",
            FieldKind::Int {
                separator: Some(b' '),
                fraction: Fraction::Refused,
            },
        );
        schema.want("value", FieldKind::Floats { separator: b' ' });
        schema.want("qid", FieldKind::INT);
        schema
    }

    fn read(base: IndexBase, lines: &[&str]) -> Result<Batch, String> {
        let schema = schema();
        let mut batch = Batch::default();
        let mut parser = LibSvmParser::new(&schema, base, &MissingTexts::default())
            .expect("the schema is of libsvm");
        clear(&mut batch, &schema, 4, Position::default());
        for line in lines {
            parser
                .append(Content::Bytes(line.as_bytes()), &mut batch)
                .map_err(|(_, reason)| reason)?;
            batch.rows += 1;
        }
        Ok(batch)
    }

    #[test]
    fn a_line_is_a_label_and_pairs() {
        let batch = read(
            IndexBase::One,
            &["+1 qid:7 1:0.5 10:-2e1 # why", "-1", "0\t3:1  "],
        )
        .expect("good lines");
        assert_eq!(batch.columns[0].cells, Cells::Float(vec![1.0, -1.0, 0.0]));
        assert_eq!(batch.columns[1].cells, Cells::Int(vec![0, 9, 2]));
        assert_eq!(batch.columns[1].offsets, Some(vec![0, 2, 2, 3]));
        assert_eq!(batch.columns[2].cells, Cells::Float(vec![0.5, -20.0, 1.0]));
        assert_eq!(batch.columns[3].cells, Cells::Int(vec![7, -1, -1]));
    }

    #[test]
    fn index_zero_is_told_where_indices_begin_with_one() {
        let told = read(IndexBase::One, &["1 0:1"]).expect_err("index 0");
        assert!(told.contains("input.index_base = 0"), "{told}");
        let batch = read(IndexBase::Zero, &["1 0:1"]).expect("index 0 is the first");
        assert_eq!(batch.columns[1].cells, Cells::Int(vec![0]));
    }

    #[test]
    fn garbage_is_told_with_what_was_expected() {
        for line in [
            "1 2",
            "1 a:1",
            "1 1:x",
            "1:1 2:2",
            "1 -3:1",
            "1 1:nan",
            "1 :",
            "1 99999999999999999999:1",
        ] {
            let told = read(IndexBase::One, &[line]).expect_err("no line of libsvm");
            assert!(
                told.contains("expected index:value") || told.contains("begins with its label"),
                "{told}"
            );
        }
    }
}
