//! Parsing of labels: class numbers or names, sets of classes, numbers.

use trainyard_input::{Batch, Cells, Column, FieldKind, Fraction, RowRule, Schema};
use trainyard_run_config::HeadKind;

use super::Head;
use crate::Error;

impl Head {
    /// Adds the label to the wanted columns, with the rule that the head knows it, and returns its index.
    pub fn want(&self, schema: &mut Schema) -> usize {
        let field = schema.want(&self.label_column, self.field_kind());
        let head = self.clone();
        schema.require(field, LabelOfHead { head, field });
        field
    }

    /// Returns the type into which the label is parsed.
    pub(super) fn field_kind(&self) -> FieldKind {
        let texts = self.names.is_some() || self.positive.is_some();
        let separator = Some(self.separator);
        match self.kind {
            HeadKind::MultiLabel if texts => FieldKind::Bytes { separator },
            HeadKind::MultiLabel => FieldKind::Int {
                separator,
                fraction: Fraction::Refused,
            },
            _ if texts => FieldKind::BYTES,
            _ if self.label_width() > 1 => FieldKind::Float {
                width: self.size,
                separator,
                default: None,
            },
            _ => FieldKind::FLOAT,
        }
    }

    /// Reads the labels of a batch, `Head::label_width` numbers per record. A number is 0, 1 or a probability between
    /// them, a class number, 0 or 1 for each class, or a number to predict.
    ///
    /// # Errors
    /// A label is unknown to the head, or out of range.
    pub fn labels(&self, batch: &Batch, field: usize) -> Result<Vec<f32>, Error> {
        let column = &batch.columns[field];
        if self.kind == HeadKind::MultiLabel {
            let mut out = vec![0.0; batch.rows * self.size];
            for (places, out) in column.rows(batch.rows).zip(out.chunks_exact_mut(self.size)) {
                for place in places {
                    out[self.class(column, place).map_err(|why| self.wrong(why))?] = 1.0;
                }
            }
            return Ok(out);
        }
        let label = |place| self.label(column, place).map_err(|why| self.wrong(why));
        (0..column.cells.len()).map(label).collect()
    }

    pub(super) fn wrong(&self, message: String) -> Error {
        Error::Value {
            column: self.label_column.clone(),
            message,
        }
    }

    /// Returns a number of the label of a head other than multi-label.
    pub(super) fn label(&self, column: &Column, place: usize) -> Result<f32, String> {
        match &column.cells {
            Cells::Float(values) => self.number(values[place]),
            Cells::Bytes(texts) if self.kind == HeadKind::Binary => self.positive(texts.get(place)),
            Cells::Bytes(texts) => self.named(texts.get(place)).map(|class| class as f32),
            Cells::Int(_) => unreachable!("`Head::want` wants whole numbers for sets alone"),
        }
    }

    fn number(&self, value: f32) -> Result<f32, String> {
        let last = (self.size.max(2) - 1) as f32;
        let rule = match self.kind {
            HeadKind::Binary | HeadKind::LogisticRegression if (0.0..=1.0).contains(&value) => {
                return Ok(value);
            }
            HeadKind::MultiClass if value.fract() == 0.0 && (0.0..=last).contains(&value) => {
                return Ok(value);
            }
            HeadKind::Poisson if value >= 0.0 => return Ok(value),
            HeadKind::Binary | HeadKind::LogisticRegression => {
                "0 or 1, or a probability between them".to_owned()
            }
            HeadKind::MultiClass => format!("a class, 0 to {last}"),
            HeadKind::Poisson => ">= 0".to_owned(),
            HeadKind::Regression | HeadKind::MultiLabel => return Ok(value),
        };
        Err(format!("label must be {rule}, given {value}"))
    }

    fn positive(&self, text: &[u8]) -> Result<f32, String> {
        let positive = self.positive.as_deref().unwrap_or("1").as_bytes();
        match &self.names {
            _ if matches_text(positive, text) => Ok(1.0),
            Some(names) if names[0].as_bytes() != text => {
                self.named(text).map(|class| class as f32)
            }
            _ if text.is_empty() => Err("the label is missing".to_owned()),
            _ => Ok(0.0),
        }
    }

    fn named(&self, text: &[u8]) -> Result<usize, String> {
        let names = self.names.as_deref().unwrap_or_default();
        names
            .iter()
            .position(|name| name.as_bytes() == text)
            .ok_or_else(|| {
                let text = text.escape_ascii();
                format!(
                    "label \"{text}\" is not in the vocabulary {}",
                    names.join(", ")
                )
            })
    }

    /// Returns a class of a set.
    fn class(&self, column: &Column, place: usize) -> Result<usize, String> {
        match &column.cells {
            Cells::Bytes(texts) => self.named(texts.get(place)),
            Cells::Int(classes) => {
                let class = usize::try_from(classes[place]).ok();
                class.filter(|class| *class < self.size).ok_or_else(|| {
                    let last = self.size - 1;
                    let given = classes[place];
                    format!("label must be a class, 0 to {last}, given {given}")
                })
            }
            Cells::Float(_) => unreachable!("`Head::want` wants no floats for sets"),
        }
    }
}

/// The rule that a field holds a label of a head.
#[derive(Debug)]
pub(super) struct LabelOfHead {
    pub(super) head: Head,
    pub(super) field: usize,
}

impl RowRule for LabelOfHead {
    fn check(&self, batch: &Batch, row: usize) -> Result<(), String> {
        let column = &batch.columns[self.field];
        let mut places = column.row(row, batch.rows);
        match self.head.kind {
            HeadKind::MultiLabel => {
                places.try_for_each(|place| self.head.class(column, place).map(|_| ()))
            }
            _ => places.try_for_each(|place| self.head.label(column, place).map(|_| ())),
        }
    }
}

fn matches_text(pattern: &[u8], text: &[u8]) -> bool {
    match pattern.strip_suffix(b"*") {
        Some(prefix) => text.starts_with(prefix),
        None => pattern == text,
    }
}
