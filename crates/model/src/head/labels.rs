//! Parsing of labels: class numbers or names, sets of classes, numbers.

use trainyard_input::{Batch, Cells, Column, FieldKind, Fraction, Schema};
use trainyard_run_config::HeadKind;

use super::Head;
use crate::Error;

impl Head {
    /// Adds the label to the wanted columns, and returns its index.
    pub fn want(&self, schema: &mut Schema) -> usize {
        let texts = self.names.is_some() || self.positive.is_some();
        let separator = Some(self.separator);
        let kind = match self.kind {
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
        };
        schema.want(&self.label_column, kind)
    }

    /// Reads the labels of a batch, `Head::label_width` numbers per record. A number is 0, 1 or a probability between
    /// them, a class number, 0 or 1 for each class, or a number to predict.
    ///
    /// # Errors
    /// A label is unknown to the head, or out of range.
    pub fn labels(&self, batch: &Batch, field: usize) -> Result<Vec<f32>, Error> {
        let column = &batch.columns[field];
        match (&column.cells, self.kind) {
            (_, HeadKind::MultiLabel) => self.sets(column, batch.rows),
            (Cells::Float(values), _) => self.numbers(values),
            (Cells::Bytes(texts), HeadKind::Binary) => (0..texts.len())
                .map(|row| self.positive(texts.get(row)))
                .collect(),
            (Cells::Bytes(texts), _) => (0..texts.len())
                .map(|row| self.named(texts.get(row)).map(|class| class as f32))
                .collect(),
            (Cells::Int(_), _) => Err(Error::NoLabel),
        }
    }

    fn wrong(&self, message: String) -> Error {
        Error::Value {
            column: self.label_column.clone(),
            message,
        }
    }

    fn numbers(&self, values: &[f32]) -> Result<Vec<f32>, Error> {
        let last = (self.size.max(2) - 1) as f32;
        let (holds, rule): (fn(f32, f32) -> bool, String) = match self.kind {
            HeadKind::Binary | HeadKind::LogisticRegression => (
                |value, _| (0.0..=1.0).contains(&value),
                "0 or 1, or a probability between them".to_owned(),
            ),
            HeadKind::MultiClass => (
                |value, last| value.fract() == 0.0 && value >= 0.0 && value <= last,
                format!("a class, 0 to {last}"),
            ),
            HeadKind::Poisson => (|value, _| value >= 0.0, ">= 0".to_owned()),
            _ => return Ok(values.to_vec()),
        };
        match values.iter().find(|value| !holds(**value, last)) {
            Some(value) => Err(self.wrong(format!("label must be {rule}, given {value}"))),
            None => Ok(values.to_vec()),
        }
    }

    fn positive(&self, text: &[u8]) -> Result<f32, Error> {
        let positive = self.positive.as_deref().unwrap_or("1").as_bytes();
        match &self.names {
            _ if matches_text(positive, text) => Ok(1.0),
            Some(names) if names[0].as_bytes() != text => {
                self.named(text).map(|class| class as f32)
            }
            _ if text.is_empty() => Err(self.wrong("the label is missing".to_owned())),
            _ => Ok(0.0),
        }
    }

    fn named(&self, text: &[u8]) -> Result<usize, Error> {
        let names = self.names.as_deref().unwrap_or_default();
        names
            .iter()
            .position(|name| name.as_bytes() == text)
            .ok_or_else(|| {
                let text = text.escape_ascii();
                self.wrong(format!(
                    "label \"{text}\" is not in the vocabulary {}",
                    names.join(", ")
                ))
            })
    }

    fn sets(&self, column: &Column, rows: usize) -> Result<Vec<f32>, Error> {
        let mut out = vec![0.0; rows * self.size];
        for (places, out) in column.rows(rows).zip(out.chunks_exact_mut(self.size)) {
            for place in places {
                let class = match &column.cells {
                    Cells::Bytes(texts) => self.named(texts.get(place))?,
                    Cells::Int(classes) => {
                        let class = usize::try_from(classes[place])
                            .ok()
                            .filter(|class| *class < self.size);
                        class.ok_or_else(|| {
                            let last = self.size - 1;
                            let given = classes[place];
                            self.wrong(format!("label must be a class, 0 to {last}, given {given}"))
                        })?
                    }
                    Cells::Float(_) => return Err(Error::NoLabel),
                };
                out[class] = 1.0;
            }
        }
        Ok(out)
    }
}

fn matches_text(pattern: &[u8], text: &[u8]) -> bool {
    match pattern.strip_suffix(b"*") {
        Some(prefix) => text.starts_with(prefix),
        None => pattern == text,
    }
}
